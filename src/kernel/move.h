/* SPDX-License-Identifier: MIT */
/*
 * Moving OS pages from one place of lull's memory to another instead of copying them: mremap(MREMAP_DONTUNMAP), 20 to 200 times cheaper
 * than writing the same bytes to memory that is not there yet (tests/bench/realloc). What is moved keeps its old offset in the kernel's
 * books, so it is a mapping of its own from then on and splits the region's; their number is bounded, and whoever frees such a range
 * puts a fresh mapping there, which merges with its neighbours again.
 *
 * Any thread that holds both ranges; no lock. Mapping changes are serialised by the kernel.
 */
#ifndef LULL_KERNEL_MOVE_H
#define LULL_KERNEL_MOVE_H

#include "base/base.h"

/* Moved ranges at a time. Each splits a mapping in three: 512 mappings more at most, under 1 % of vm.max_map_count's default of 65530. */
#define MOVE_RANGES_MAX 256

enum move_result {
	MOVE_DONE,    /* it is at TO, and FROM is empty: reads as zero, not resident */
	MOVE_REFUSED, /* all is as it was, but what was at TO may be gone */
	MOVE_LOST,    /* FROM is as it was; TO must never be used again */
};

/* to, from: whole OS pages that do not overlap, usable; nobody else touches either. What is at TO is dropped. */
/* Several mappings are refused, so what was moved and grew is copied the next time. */
enum move_result move_pages(char *to, char *from, size_t len) hidden;

/* The range at ADDR, or its rest, was moved to: empty it and make it part of the region again. last: nothing that was moved there in the
 * same step is left. False: refused, all is as it was. */
bool move_restore(char *addr, size_t len, bool last) hidden;

/* Bytes moved, ever. */
uint64_t move_bytes(void) hidden;

#endif
