/* SPDX-License-Identifier: MIT */
/* A freed small block is overwritten; the next sweep must see it. */
#include "misuse.h"

int main(void)
{
	void *blocks[400];
	allocate_many(blocks, 400, 100);
	for (unsigned i = 1; i < 400; i++)
		if (i % 20)
			free(blocks[i]);
	memset(hidden(blocks[199]), 0x41, 100);
	malloc_trim(0);
	return 0;
}
