/* SPDX-License-Identifier: MIT */
/* A large block is freed, then resized. */
#include "misuse.h"

int main(void)
{
	void *blocks[4];
	allocate_many(blocks, 4, LARGE);
	expect_address(blocks[2]);
	free(blocks[2]);
	free(realloc(hidden(blocks[2]), 2 * LARGE));
	return 0;
}
