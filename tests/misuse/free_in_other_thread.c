/* SPDX-License-Identifier: MIT */
/* Legal: blocks of every kind are freed by a thread that did not allocate them, and allocated again. */
#include "misuse.h"

static const size_t sizes[] = {1, 100, 5000, MEDIUM, LARGE, SINGLETON};

int main(void)
{
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 6; i++) {
			void *block;
			allocate_many(&block, 1, sizes[i]);
			free_in_thread(block);
		}
		malloc_trim(0);
	}
	return 0;
}
