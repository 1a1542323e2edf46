/* SPDX-License-Identifier: MIT */
/* A large block is freed, its memory given back, and it is freed once more. */
#include "misuse.h"

int main(void)
{
	void *blocks[4];
	allocate_many(blocks, 4, LARGE);
	expect_address(blocks[2]);
	free(blocks[2]);
	malloc_trim(0);
	free(hidden(blocks[2]));
	return 0;
}
