/* SPDX-License-Identifier: MIT */
/*
 * A sweep: one look over a heap, over the medium and large pages of all heaps, or over the free slices, that finds what can go back and
 * hands it to the kernel. One sweep at a time in the process: the caller holds the reclaim lock. What may stay is the policy's word
 * (policy.h).
 */
#ifndef LULL_RECLAIM_SWEEP_H
#define LULL_RECLAIM_SWEEP_H

#include "heap/heap.h"
#include "kernel/advise.h"
#include "reclaim/policy.h"

extern struct policy sweep_policy hidden;

/* What a sweep left behind, or found. */
struct sweep_left {
	bool part;         /* set by the caller: this is no pass over all pages, so it counts nothing as kept under the floor */
	bool more;         /* something stays that may go later: young, kept, or refused */
	size_t vain_bytes; /* was kept for nothing, and goes now */
};

/* No more than about this many bytes are handed to the kernel until further notice; what is left keeps its marks and is found by the next
 * sweep. SIZE_MAX: no bound. Returns what was left of the bound before. Not for the seed policy. With the reclaim lock held. */
size_t sweep_set_budget(size_t bytes) hidden;

/* The small pages of a heap that the caller holds as its running thread. Returns bytes the kernel accepted. */
size_t sweep_own(struct heap *heap) hidden;
/* Those of a parked heap, and its empty pages: held a batch at a time, let go at once when its thread wants it. */
size_t sweep_parked(struct heap *heap) hidden;
/* Every 64th sweep of a heap looks at every page again, whether it changed or not, as the seed system's does. Counts one sweep. Holder. */
void sweep_count(struct heap *heap) hidden;

/* Medium and large pages freed into since the last look. owner: of this heap only; NULL: all. force: whatever the policy says. */
size_t sweep_big(struct heap *owner, bool force, struct sweep_left *left) hidden;
/* Free slices: those that were dirty at the last call already and that the policy lets go, or all. */
size_t sweep_slices(bool force, struct sweep_left *left) hidden;

/* --- for sweeps of other forms (seed.c, handoff.c) --------------------------------------------------------------------------------- */

/* The batch for holes, begun; flushed, with a chance for others to take the reclaim lock. */
struct advise_batch *sweep_begin(void) hidden;
size_t sweep_flush(void) hidden;
bool sweep_has_room(const struct advise_batch *batch, unsigned ranges) hidden;
/* Call FN for each medium or large page that was freed into since the last look, and whose mark it then says to drop (true) or to leave. */
void sweep_marked(bool (*fn)(struct page *page, void *arg), void *arg) hidden;
/* Queue the holes of changed small pages in BATCH until it is full or the thread wants its heap. first: of this sweep. True: there is more.
 * Holder; needs no lock but the batch's. */
bool sweep_small(struct advise_batch *batch, struct heap *heap, bool first) hidden;
/* Take what others freed and queue the holes of the pages that are changed by that alone, and of those, among MAX_PAGES of the others, that
 * nothing was done to since the last such look. */
void sweep_quiet(struct advise_batch *batch, struct heap *heap, unsigned max_pages) hidden;

/* The time of this pass in page_now_ms, and when memory of this age was in use. */
uint32_t sweep_gone_ms(unsigned age) hidden;

extern _Atomic uint64_t sweep_heaps_n hidden; /* heaps and pages looked over, ever; relaxed */
extern _Atomic uint64_t sweep_pages_n hidden;
extern _Atomic uint64_t sweep_full_n hidden;  /* sweeps that looked at every page */

#endif
