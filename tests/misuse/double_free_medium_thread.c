/* SPDX-License-Identifier: MIT */
/* A medium block that its owner freed is freed by another thread. */
#include "misuse.h"

int main(void)
{
	void *blocks[4];
	allocate_many(blocks, 4, MEDIUM);
	expect_address(blocks[2]);
	free(blocks[2]);
	free_in_thread(hidden(blocks[2]));
	return 0;
}
