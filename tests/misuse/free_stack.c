/* SPDX-License-Identifier: MIT */
/* The freed pointer points to a local variable. */
#include "misuse.h"

int main(void)
{
	_Alignas(16) char local[64];
	void *p = malloc(64);
	expect_address(local);
	free(p);
	free(hidden(local));
	return 0;
}
