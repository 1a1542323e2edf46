/* SPDX-License-Identifier: MIT */
/* A small block is freed twice by threads that do not own it. */
#include "misuse.h"

int main(void)
{
	void *blocks[40];
	allocate_many(blocks, 40, 100);
	expect_address(blocks[17]);
	free_in_thread(blocks[17]);
	free_in_thread(hidden(blocks[17]));
	malloc_trim(0);
	return 0;
}
