/* SPDX-License-Identifier: MIT */
/* The freed pointer points into a small block, at an aligned address. */
#include "misuse.h"

int main(void)
{
	void *blocks[40];
	allocate_many(blocks, 40, 96);
	char *inside = (char *)blocks[17] + 32;
	expect_address(inside);
	free(hidden(inside));
	malloc_trim(0);
	return 0;
}
