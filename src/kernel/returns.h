/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the return engine share: the counters, the advice that is in force, and telling a range's fate. advise.c decides which
 * way each run goes, discard.c returns runs at once, flight.c those that the ring works on.
 *
 * The counters: any thread. The rest: the one thread that is in the engine.
 */
#ifndef LULL_KERNEL_RETURNS_H
#define LULL_KERNEL_RETURNS_H

#include "kernel/advise.h"

#include <stdatomic.h>

/* Relaxed: each is exact, together they are no snapshot. */
struct returns_counters {
	_Atomic uint64_t calls, returned_bytes, failed_bytes;
	_Atomic uint64_t ring_batches, ring_bytes, vector_bytes, split_bytes;
};
extern struct returns_counters returns_counters hidden;

static inline void returns_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* MADV_DONTNEED, or its form for locked memory once memory turned out to be locked on fault. */
int returns_advice(void) hidden;

/* Answered in full. Returns the bytes the kernel accepted. */
size_t returns_tell(void (*done)(const struct advise_range *range, bool ok), const struct advise_range *range, bool ok) hidden;

/* Return LEN bytes by madvise. asked_locked: whether such memory was asked about in this flush; false at its begin. */
bool returns_madvise(char *addr, size_t len, bool *asked_locked) hidden;

#endif
