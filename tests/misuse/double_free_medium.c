/* SPDX-License-Identifier: MIT */
/* A medium block is freed twice, one after the other. */
#include "misuse.h"

int main(void)
{
	void *p = hidden(malloc(MEDIUM));
	expect_address(p);
	free(p);
	free(hidden(p));
	return 0;
}
