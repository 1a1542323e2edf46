/* SPDX-License-Identifier: MIT */
/*
 * For the programs in tests/kernel: one kernel fact each, on the real kernel. A fact that does not hold is named and ends the program
 * with 1; a kernel or machine without the thing ends it with 77 and the thing's name.
 */
#ifndef TESTS_SUPPORT_FACT_H
#define TESTS_SUPPORT_FACT_H

#include "base/base.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define fact(holds, ...) ((holds) ? (void)0 : fact_fails(__FILE__, __LINE__, #holds, __VA_ARGS__))

static inline void fact_fails(const char *file, int line, const char *what, const char *meaning)
{
	printf("%s:%d: %s (%s)\n", file, line, meaning, what);
	exit(1);
}

static inline void fact_skip(const char *missing)
{
	printf("%s\n", missing);
	exit(77);
}

/* Readable, writable memory filled with 1. */
static inline char *fact_memory(size_t len)
{
	char *addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	fact(addr != MAP_FAILED, "memory for the test");
	memset(addr, 1, len);
	return addr;
}

/* Whether every byte of the range is VALUE. */
static inline bool fact_all(const char *addr, size_t len, char value)
{
	for (size_t i = 0; i < len; i++)
		if (addr[i] != value)
			return false;
	return true;
}

/* OS pages of the range that are in memory; at most 4096 of them are looked at. */
static inline size_t fact_resident(char *addr, size_t len)
{
	static unsigned char map[4096];
	size_t n = 0, pages = min_size(len / OS_PAGE_SIZE, sizeof(map));

	fact(mincore(addr, pages * OS_PAGE_SIZE, map) == 0, "mincore");
	for (size_t i = 0; i < pages; i++)
		n += map[i] & 1;
	return n;
}

#define FACT_ANY (-1)

/* From here on in this process, CALL ends in ACTION (SECCOMP_RET_...): with FACT_ANY always, else only when the low half of its first
 * argument is FIRST. False where filters are not to be had. */
static inline bool fact_filter(long call, int64_t first, unsigned action)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | (first == FACT_ANY ? BPF_JGE : BPF_JEQ) | BPF_K, first == FACT_ANY ? 0 : (unsigned)first, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {.len = array_len(program), .filter = program};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

#endif
