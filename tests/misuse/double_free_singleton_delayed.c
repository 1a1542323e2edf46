/* SPDX-License-Identifier: MIT */
/* A block with a mapping of its own is freed, its memory given back, and it is freed once more. */
#include "misuse.h"

int main(void)
{
	void *blocks[3];
	/* the first large free may start a background thread, whose own blocks could take the freed place */
	free(hidden(malloc(SINGLETON)));
	allocate_many(blocks, 3, SINGLETON);
	expect_address(blocks[1]);
	free(blocks[1]);
	malloc_trim(0);
	free(hidden(blocks[1]));
	return 0;
}
