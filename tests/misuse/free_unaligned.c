/* SPDX-License-Identifier: MIT */
/* The freed pointer is one byte past the start of a small block. */
#include "misuse.h"

int main(void)
{
	char *p = malloc(100);
	expect_address(p + 1);
	free(hidden(p + 1));
	malloc_trim(0);
	return 0;
}
