/* SPDX-License-Identifier: MIT */
/*
 * For programs that make one mistake each. They call the standard names and run under the preload.
 *
 * The address that the last line must name is printed to standard output before the mistake, without stdio: a buffer of its own
 * would put one more block between those of the test. hidden() keeps the compiler from seeing, and refusing, the mistake.
 */
#ifndef MISUSE_H
#define MISUSE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEDIUM 20480      /* one of each kind of page: 8 KiB to 64 KiB */
#define LARGE 204800      /* 64 KiB to 512 KiB */
#define SINGLETON 2097152 /* over 512 KiB */

__attribute__((unused)) static void *hidden(void *p)
{
	void *volatile same = p;
	return same;
}

/* The address that the line on standard error must name. */
__attribute__((unused)) static void expect_address(const void *p)
{
	dprintf(STDOUT_FILENO, "0x%lx\n", (unsigned long)(uintptr_t)p);
}

__attribute__((unused)) static void *run_free(void *p)
{
	free(p);
	return NULL;
}

__attribute__((unused)) static void free_in_thread(void *p)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, run_free, p))
		_exit(3);
	pthread_join(thread, NULL);
}

/* Many blocks of SIZE, of which the caller owns all: neighbours for the one that is misused. */
__attribute__((unused)) static void allocate_many(void **blocks, unsigned count, size_t size)
{
	for (unsigned i = 0; i < count; i++) {
		blocks[i] = malloc(size);
		if (!blocks[i])
			_exit(3);
		memset(blocks[i], 1, size);
	}
}

#endif
