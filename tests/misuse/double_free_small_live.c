/* SPDX-License-Identifier: MIT */
/* A small block among live ones of its size is freed twice, one after the other. */
#include "misuse.h"

int main(void)
{
	void *blocks[40];
	allocate_many(blocks, 40, 100);
	expect_address(blocks[17]);
	free(blocks[17]);
	free(hidden(blocks[17]));
	malloc_trim(0);
	return 0;
}
