/* SPDX-License-Identifier: MIT */
/*
 * For programs in this folder where returning memory fails or only seems to work: blocks of a size are filled, most are freed, memory
 * is given back; the kept ones are whole, calloc finds zeros, and lull claims nothing when nothing went.
 */
#ifndef TESTS_FALLBACK_RETURNS_H
#define TESTS_FALLBACK_RETURNS_H

#include "support/fact.h"
#include "support/stress_util.h"

#include <sys/wait.h>

#define RETURNS_BYTES (8 * STRESS_MIB)
#define RETURNS_BLOCKS 16384
#define RETURNS_KEEP 10 /* one in so many */

static unsigned char *returns_block[RETURNS_BLOCKS];

static inline size_t returns_fill(size_t size)
{
	size_t n = RETURNS_BYTES / size < RETURNS_BLOCKS ? RETURNS_BYTES / size : RETURNS_BLOCKS;

	for (size_t i = 0; i < n; i++) {
		fact((returns_block[i] = stress_malloc(size)) != NULL, "memory");
		memset(returns_block[i], 0xaa, size);
	}
	return n;
}

static inline void returns_free_most(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (i % RETURNS_KEEP == 0)
			continue;
		stress_free(returns_block[i]);
		returns_block[i] = NULL;
	}
}

static inline void returns_calloc_again(size_t n, size_t size)
{
	for (size_t i = 0; i < n; i++) {
		if (returns_block[i]) {
			fact(fact_all((char *)returns_block[i], size, (char)0xaa), "a kept block is whole");
			continue;
		}
		fact((returns_block[i] = stress_calloc(1, size)) != NULL, "memory");
		stress_check_zero(returns_block[i], size);
	}
	for (size_t i = 0; i < n; i++)
		stress_free(returns_block[i]);
}

/* Returns the bytes that lull says went. */
static inline size_t returns_round(size_t size)
{
	size_t n = returns_fill(size), claimed, before, after;

	returns_free_most(n);
	before = stress_rss_anon_kib();
	stress_thread_idle();
	claimed = stress_collect(true);
	after = stress_rss_anon_kib();
	/* Memory of a page that was never written counts as returned with the rest of it, so only this can be asked. 64 KiB: what the calls
	 * themselves may touch. */
	fact(claimed <= 64 * STRESS_KIB || before > after, "nothing is claimed when nothing went");
	returns_calloc_again(n, size);
	return claimed;
}

static inline size_t returns_all_sizes(void)
{
	static const size_t sizes[] = {600, 3000, 20000, 150000, 1000000};
	size_t claimed = 0;

	for (size_t i = 0; i < array_len(sizes); i++)
		claimed += returns_round(sizes[i]);
	return claimed;
}

/* In a process of its own; ends this one when it fails, or when it has nothing to show. */
static inline void returns_in_child(const char *name, void (*run)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		run();
		exit(0);
	}
	fact(waitpid(pid, &status, 0) == pid, "the child is waited for");
	if (status == 0) {
		printf("%s: as promised\n", name);
		return;
	}
	printf("%s: status 0x%x\n", name, (unsigned)status);
	exit(WIFEXITED(status) && WEXITSTATUS(status) == 77 ? 77 : 1);
}

#endif
