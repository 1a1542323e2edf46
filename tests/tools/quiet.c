/* SPDX-License-Identifier: MIT */
/*
 * An ordinary program that goes quiet: takes 48 MiB in blocks of 1 KiB to 64 KiB, writes to all of it, frees all but one block in
 * 20, prints "ready" and sleeps until its standard input ends. What `lull stat` must show of it is known: most of it goes back.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOTAL_BYTES ((size_t)48 << 20)
#define BLOCKS_MAX 65536
#define KEEP_ONE_IN 20

static char *blocks[BLOCKS_MAX];

int main(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	size_t taken = 0, n = 0, kept = 0;
	char byte;

	while (taken < TOTAL_BYTES && n < BLOCKS_MAX) {
		size_t size = (size_t)1024 << (n % 7);

		blocks[n] = malloc(size);
		if (blocks[n] == NULL)
			return 1;
		memset(blocks[n], 1, size);
		taken += size;
		n++;
	}
	for (size_t i = 0; i < n; i++) {
		/* by sevens, so that every size is among the kept */
		if (i / 7 % KEEP_ONE_IN == 0) {
			blocks[kept++] = blocks[i];
			continue;
		}
		free(blocks[i]);
	}
	puts("ready");
	fflush(stdout);
	do
		poll(&input, 1, -1);
	while (read(STDIN_FILENO, &byte, 1) > 0);
	for (size_t i = 0; i < kept; i++)
		if (blocks[i][0] != 1)
			return 1;
	return 0;
}
