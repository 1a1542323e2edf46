/* SPDX-License-Identifier: MIT */
/* A small block is freed by its thread, then by another one. */
#include "misuse.h"

int main(void)
{
	void *blocks[40];
	allocate_many(blocks, 40, 100);
	expect_address(blocks[17]);
	free(blocks[17]);
	free_in_thread(hidden(blocks[17]));
	malloc_trim(0);
	return 0;
}
