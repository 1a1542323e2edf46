/* SPDX-License-Identifier: MIT */
/*
 * Only what is one mapping is moved. Since 6.17 the kernel takes several, but one after the other, and stops in the middle when it does not
 * like the next (one that is watched by userfaultfd behind one that is not): then some of the contents are here and some there. Nobody but
 * the caller could split the mapping after it was looked at, and one mapping is moved whole or not at all.
 *
 * The kernel makes room at the destination before it looks whether it can move, so a refused call may leave nothing there, and another
 * thread's mapping may come to lie in the gap. Nothing is put over what is there: either the gap is still one, and is filled, or nobody can
 * say whose memory that is, and it is given up. That happens once at most: the way is closed then.
 *
 * UFFDIO_MOVE would leave the mappings alone, but is not cheaper (measured: tests/bench/realloc), and needs a descriptor in the
 * program's table for each move or for good, and a permission that containers do not give.
 */
#include "kernel/move.h"

#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/map.h"
#include "kernel/mapping.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

/* relaxed: counters */
static _Atomic unsigned ranges;
static _Atomic uint64_t bytes;

static bool reserve_range(void)
{
	if (atomic_fetch_add_explicit(&ranges, 1, memory_order_relaxed) < MOVE_RANGES_MAX)
		return true;
	atomic_fetch_sub_explicit(&ranges, 1, memory_order_relaxed);
	return false;
}

static void release_range(void)
{
	atomic_fetch_sub_explicit(&ranges, 1, memory_order_relaxed);
}

/* A kernel without the flag (before 4.17) takes the address for a hint; such a mapping is not kept. */
static bool fill_gap(char *addr, size_t len)
{
	intptr_t at = kernel.mmap(addr, len, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);

	if (at == (intptr_t)addr) {
		map_no_huge_pages(addr, len);
		return true;
	}
	if (at > 0)
		kernel.munmap((void *)at, len);
	return false;
}

static int any_mapping(const struct mapping *mapping)
{
	(void)mapping;
	return 0;
}

/* The mapping that the first byte is in also has the last. */
static bool is_one_mapping(const char *addr, size_t len)
{
	uintptr_t end;

	return mapping_check((uintptr_t)addr, 1, any_mapping, &end) == 0 && end >= (uintptr_t)addr + len;
}

static enum move_result after_refusal(char *to, size_t len, int err)
{
	release_range();
	if (fill_gap(to, len))
		return MOVE_REFUSED;
	caps_refused(CAPS_MREMAP, err);
	return MOVE_LOST;
}

enum move_result move_pages(char *to, char *from, size_t len)
{
	intptr_t at;

	if (!caps_has(CAPS_MREMAP) || !is_one_mapping(from, len) || !reserve_range())
		return MOVE_REFUSED;
	at = kernel.mremap(from, len, to);
	if (at != (intptr_t)to)
		return after_refusal(to, len, (int)at);
	atomic_fetch_add_explicit(&bytes, len, memory_order_relaxed);
	return MOVE_DONE;
}

bool move_restore(char *addr, size_t len, bool last)
{
	if (kernel.mmap(addr, len, PROT_READ | PROT_WRITE, MAP_FIXED) != (intptr_t)addr)
		return false;
	map_no_huge_pages(addr, len); /* as the region: else they do not merge */
	if (last)
		release_range();
	return true;
}

uint64_t move_bytes(void)
{
	return atomic_load_explicit(&bytes, memory_order_relaxed);
}
