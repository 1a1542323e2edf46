/* SPDX-License-Identifier: MIT */
/*
 * The seed system's sweep of one heap (LULL_POLICY=seed): what the heap's own clock and claims do better is done here as the seed does it,
 * rule by rule. A sweep passes the heap's own pages, then the abandoned ones of all heaps: pages that were full when their heap last
 * looked, and those of ended threads. Only large blocks (HEAP_SEED_LARGE_MIN and up) are held back.
 *
 * page->collects of a large page: who keeps it under the floor (PAGE_KEPT and the heap's number), or how many collects that were not forced
 * it has outlived while wholly free.
 *
 * All with the reclaim lock held.
 */
#ifndef LULL_RECLAIM_SEED_H
#define LULL_RECLAIM_SEED_H

#include "heap/heap.h"

/* Sweep a heap that the caller holds as its running thread. Returns bytes the kernel accepted. */
size_t seed_sweep_own(struct heap *heap) hidden;
/* Sweep a parked heap. */
size_t seed_sweep_parked(struct heap *heap) hidden;
/* Small and medium pages of an orphan; its large ones are abandoned pages. */
size_t seed_sweep_orphan(struct heap *heap) hidden;

/* Wholly free abandoned pages that another thread freed the last block of: they go at once, as in the seed, where that thread frees the
 * page. (What the heap's own thread freed waits for its next sweep.) */
size_t seed_sweep_freed(void) hidden;

/* A collect that is not forced, by the running thread of HEAP: what a sweep keeps stays. */
void seed_collect(struct heap *heap) hidden;
/* The thread of HEAP ends: its share of the floor is free. */
void seed_give_share(struct heap *heap) hidden;

#endif
