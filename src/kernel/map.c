/* SPDX-License-Identifier: MIT */
/*
 * Reservations over the table's mmap. No state, no lock: the kernel serialises. Any thread that holds the range.
 */
#include "kernel/map.h"

#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/sys.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* NULL when refused */
static char *map_none(size_t len)
{
	intptr_t addr = kernel.mmap(NULL, len, PROT_NONE, 0);

	return addr < 0 ? NULL : (char *)addr;
}

static void map_trim(char *from, char *to)
{
	if (from < to)
		map_release(from, (size_t)(to - from));
}

/* Reserve too much, keep the aligned part. */
static char *map_none_trimmed(size_t len, size_t align)
{
	size_t slack = align - OS_PAGE_SIZE;
	char *base, *start;

	base = map_none(len + slack);
	if (!base)
		return NULL;
	start = (char *)align_up((uintptr_t)base, align);
	map_trim(base, start);
	map_trim(start + len, base + len + slack);
	return start;
}

char *map_reserve(size_t len, size_t align)
{
	char *addr;

	lull_assert(len > 0 && len % OS_PAGE_SIZE == 0 && is_pow2(align) && align >= OS_PAGE_SIZE);
	if (len > PTRDIFF_MAX)
		return NULL; /* the kernel would refuse as well, but size and alignment together must not wrap */
	/* The kernel places mappings downwards side by side, so after one aligned reservation the next is mostly aligned by itself. */
	addr = map_none(len);
	if (!addr || (uintptr_t)addr % align == 0)
		return addr;
	map_release(addr, len);
	return map_none_trimmed(len, align);
}

bool map_commit(char *addr, size_t len)
{
	return kernel.mprotect(addr, len, PROT_READ | PROT_WRITE) == 0;
}

bool map_decommit(char *addr, size_t len)
{
	return kernel.mmap(addr, len, PROT_NONE, MAP_FIXED) == (intptr_t)addr;
}

void map_release(char *addr, size_t len)
{
	/* Refused only when cutting a hole would need one mapping more than vm.max_map_count: then at least the memory goes. */
	if (kernel.munmap(addr, len) != 0)
		kernel.madvise(addr, len, MADV_DONTNEED);
}

void map_no_huge_pages(char *addr, size_t len)
{
	kernel.madvise(addr, len, MADV_NOHUGEPAGE);
}

void map_name(char *addr, size_t len)
{
	if (!caps_begin())
		return;
	sys_call(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, (long)addr, (long)len, (long)"lull", 0);
	caps_end();
}

/* A kernel that refuses is asked all the same: what it refuses for one memory it may do for other. */
bool map_can_drop(void)
{
	enum cap_state state;

	caps_has(CAPS_DONTNEED);
	state = caps_state(CAPS_DONTNEED);
	return state != CAP_STATE_BROKEN && state != CAP_STATE_OFF;
}

bool map_drop(char *addr, size_t len)
{
	return map_can_drop() && kernel.madvise(addr, len, MADV_DONTNEED) == 0;
}

/* 2 MiB at a time, a huge page: the answer for as much is 512 bytes on the stack. */
#define CLEAR_BYTES (2 * MIB)

/* Any of it resident, as far as can be told. */
static bool is_resident(char *addr, size_t len)
{
	unsigned char vec[CLEAR_BYTES / OS_PAGE_SIZE];

	if (!caps_has(CAPS_MINCORE) || kernel.mincore(addr, len, vec) != 0)
		return true;
	for (size_t i = 0; i < len / OS_PAGE_SIZE; i++)
		if (vec[i] & 1)
			return true;
	return false;
}

/* What is not resident may still be swapped out: it is dropped, which costs nothing where there is nothing. */
void map_clear(char *addr, size_t len, bool huge)
{
	char *end = addr + len;
	size_t step;

	for (; addr < end; addr += step) {
		step = min_size((size_t)(end - addr), CLEAR_BYTES - (uintptr_t)addr % CLEAR_BYTES);
		size_t unit = huge ? CLEAR_BYTES : OS_PAGE_SIZE;
		bool whole = (uintptr_t)addr % unit == 0 && step % unit == 0;
		if (!whole || is_resident(addr, step) || !map_drop(addr, step))
			memset(addr, 0, step);
	}
}
