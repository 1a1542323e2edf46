/* SPDX-License-Identifier: MIT */
/* A freed small block is counted up once, as a reference count is; allocations go on until it shows. */
#include "misuse.h"

int main(void)
{
	void *blocks[40];
	allocate_many(blocks, 40, 100);
	free(blocks[11]);
	free(blocks[17]);
	free(blocks[23]);
	++*(unsigned long *)hidden(blocks[17]);
	for (unsigned i = 0; i < 1000; i++)
		memset(malloc(100), 1, 100);
	malloc_trim(0);
	return 0;
}
