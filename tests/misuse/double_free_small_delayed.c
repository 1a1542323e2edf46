/* SPDX-License-Identifier: MIT */
/* A small block is freed, then others of its page, then it once more. */
#include "misuse.h"

int main(void)
{
	void *blocks[40];
	allocate_many(blocks, 40, 100);
	free(blocks[17]);
	free(blocks[3]);
	free(blocks[30]);
	free(hidden(blocks[17]));
	malloc_trim(0);
	return 0;
}
