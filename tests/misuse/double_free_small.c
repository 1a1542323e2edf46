/* SPDX-License-Identifier: MIT */
/* A small block is freed twice, one after the other. */
#include "misuse.h"

int main(void)
{
	void *p = hidden(malloc(48));
	expect_address(p);
	free(p);
	free(hidden(p));
	malloc_trim(0);
	return 0;
}
