/* SPDX-License-Identifier: MIT */
/*
 * Food for valgrind and AddressSanitizer: threads, every way to allocate, and on request one mistake.
 *
 *   leaks           no mistake; prints a sum
 *   leaks leak      loses 1000 bytes
 *   leaks overflow  writes one byte past a block
 *   leaks stale     reads a block after free
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *volatile lost;

static unsigned long fill(void *block, size_t size)
{
	memset(block, (int)size & 0xff, size);
	return ((unsigned char *)block)[size - 1];
}

static void *work(void *arg)
{
	unsigned long sum = (unsigned long)arg;
	void *blocks[64] = {0};

	for (unsigned i = 0; i < 3000; i++) {
		unsigned slot = (unsigned)sum * 31 + i * 7;
		size_t size = 1 + slot * 97 % (i % 100 ? 700 : 90000);

		slot %= 64;
		free(blocks[slot]);
		switch (i % 5) {
		case 0:
			blocks[slot] = calloc(1, size);
			break;
		case 1:
			blocks[slot] = aligned_alloc(64, (size + 63) / 64 * 64);
			break;
		case 2:
			blocks[slot] = realloc(malloc(size / 2 + 1), size);
			break;
		case 3:
			blocks[slot] = strdup("a string that fits");
			size = 10;
			break;
		default:
			blocks[slot] = malloc(size);
			break;
		}
		if (malloc_usable_size(blocks[slot]) < size)
			exit(9);
		sum += fill(blocks[slot], size);
	}
	for (unsigned i = 0; i < 64; i++)
		free(blocks[i]);
	return (void *)sum;
}

static void mistake(const char *which)
{
	volatile char *block = malloc(1000);

	block[0] = 1;
	if (!strcmp(which, "leak")) {
		lost = (char *)block;
		lost = NULL;
		return;
	}
	if (!strcmp(which, "overflow"))
		block[1000] = 1;
	free((void *)block);
	if (!strcmp(which, "stale"))
		printf("%d\n", block[0] == 2);
}

int main(int argc, char **argv)
{
	pthread_t threads[4];
	unsigned long sum = 0;

	for (unsigned long i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)))
			return 8;
	for (int i = 0; i < 4; i++) {
		void *result;

		pthread_join(threads[i], &result);
		sum += (unsigned long)result;
	}
	printf("sum %lu\n", sum);
	if (argc > 1)
		mistake(argv[1]);
	return 0;
}
