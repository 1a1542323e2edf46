/* SPDX-License-Identifier: MIT */
/* A medium block is freed, then resized. */
#include "misuse.h"

int main(void)
{
	void *blocks[4];
	allocate_many(blocks, 4, MEDIUM);
	expect_address(blocks[2]);
	free(blocks[2]);
	free(realloc(hidden(blocks[2]), 2 * MEDIUM));
	return 0;
}
