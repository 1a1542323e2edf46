/* SPDX-License-Identifier: MIT */
/*
 * When a parked heap is swept under the seed policy. A heap is swept at most once in an interval; a park that comes sooner is put on a
 * schedule and wakes nobody; one that turns out to be a new one when its time has come is looked at a sixteenth of the interval later. A
 * park whose sweep held something back is swept again an interval later, until two epochs have passed since its first sweep, six times at
 * most; then every 30 s, for what others free into it.
 *
 * Pure, but for heap->look and heap->scheduled. Reclaim lock held.
 */
#ifndef LULL_RECLAIM_PARKS_H
#define LULL_RECLAIM_PARKS_H

#include "heap/heap.h"
#include "reclaim/policy.h"

/* Is it this parked heap's turn? If not, *ret_due_ns is lowered to when it may be. */
bool parks_is_due(const struct policy *policy, struct heap *heap, uint64_t now_ns, uint64_t *ret_due_ns) hidden;
/* The heap was swept; the sweep has just ended. Lowers *ret_due_ns likewise. */
void parks_swept(const struct policy *policy, struct heap *heap, uint64_t now_ns, uint64_t *ret_due_ns) hidden;

#endif
