/* SPDX-License-Identifier: MIT */
/*
 * A sweep: one look over a heap, over the medium and large pages of all heaps, or over the free slices, that finds what can go back and
 * hands it to the kernel. One sweep at a time in the process: the caller holds the reclaim lock.
 */
#ifndef LULL_RECLAIM_SWEEP_H
#define LULL_RECLAIM_SWEEP_H

#include "heap/heap.h"

/* A heap that the caller holds as its running thread. Returns bytes the kernel accepted. */
size_t sweep_own(struct heap *heap) hidden;
/* A parked heap: held a batch at a time, let go at once when its thread wants it. */
size_t sweep_parked(struct heap *heap) hidden;
/* Medium and large pages freed into since the last look. owner: of this heap only; NULL: all. force: young ones too. ret_left: some were
 * left for later. */
size_t sweep_big(struct heap *owner, bool force, bool *ret_left) hidden;
/* Free slices: those that were dirty at the last call already, or all. ret_left: some are left. */
size_t sweep_slices(bool force, bool *ret_left) hidden;

extern _Atomic uint64_t sweep_heaps_n hidden; /* heaps and pages looked over, ever; relaxed */
extern _Atomic uint64_t sweep_pages_n hidden;

#endif
