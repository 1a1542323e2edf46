/* SPDX-License-Identifier: MIT */
/*
 * What tests of the layers above the kernel ask about memory: what is resident, what may be touched, what it holds. The asking itself
 * touches nothing. Huge pages would make residency come in lumps, so tests that count switch them off first.
 */
#ifndef TESTS_UNIT_REGION_MEMORY_H
#define TESTS_UNIT_REGION_MEMORY_H

#include "base/base.h"

#include <check.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* These map shadow memory of their own: limits on address space or data of the process cannot be used beside them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIT_SANITIZER 1
#else
#define UNIT_SANITIZER 0
#endif

static inline void memory_without_huge_pages(void)
{
	ck_assert_int_eq(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
}

/* Resident OS pages of a range of at most 8 MiB. */
static inline size_t memory_resident(const void *addr, size_t len)
{
	static unsigned char seen[8 * MIB / OS_PAGE_SIZE];
	size_t n = 0;

	ck_assert_uint_le(len, 8 * MIB);
	ck_assert_int_eq(mincore((void *)(uintptr_t)addr, len, seen), 0);
	for (size_t i = 0; i < len / OS_PAGE_SIZE; i++)
		n += seen[i] & 1;
	return n;
}

static inline bool memory_is_zero(const char *addr, size_t len)
{
	return len == 0 || (addr[0] == 0 && memcmp(addr, addr + 1, len - 1) == 0);
}

/* One call, which the sanitizers check as a whole: a loop over megabytes takes them seconds. */
static inline bool memory_is_filled(const char *addr, size_t len, char with)
{
	return len == 0 || (addr[0] == with && memcmp(addr, addr + 1, len - 1) == 0);
}

/* Whether the kernel can read a byte there; a byte without access is no crash this way. */
static inline bool memory_is_readable(const void *addr)
{
	int ends[2];
	bool yes;

	ck_assert_int_eq(pipe(ends), 0);
	yes = write(ends[1], addr, 1) == 1;
	close(ends[0]);
	close(ends[1]);
	return yes;
}

#endif
