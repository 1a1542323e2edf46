/* SPDX-License-Identifier: MIT */
/* Legal: blocks of every kind are freed after the thread that allocated them ended. */
#include "misuse.h"

static const size_t sizes[] = {1, 100, 5000, MEDIUM, LARGE, SINGLETON};
static void *blocks[6];

static void *allocate(void *arg)
{
	for (unsigned i = 0; i < 6; i++)
		allocate_many(&blocks[i], 1, sizes[i]);
	return arg;
}

int main(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, allocate, NULL))
		return 3;
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < 6; i++)
		free(blocks[i]);
	malloc_trim(0);
	return 0;
}
