/* SPDX-License-Identifier: MIT */
/* All blocks of a page are freed, and the first of them once more. */
#include "misuse.h"

int main(void)
{
	void *blocks[40];
	allocate_many(blocks, 40, 512);
	expect_address(blocks[0]);
	for (unsigned i = 0; i < 40; i++)
		free(blocks[i]);
	free(hidden(blocks[0]));
	malloc_trim(0);
	return 0;
}
