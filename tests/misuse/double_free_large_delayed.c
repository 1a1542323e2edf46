/* SPDX-License-Identifier: MIT */
/* A large block is freed, others of its page are freed and allocated, then it is freed once more. */
#include "misuse.h"

int main(void)
{
	void *blocks[4];
	allocate_many(blocks, 4, LARGE);
	expect_address(blocks[2]);
	free(blocks[2]);
	free(blocks[1]);
	free(blocks[3]);
	free(hidden(blocks[2]));
	return 0;
}
