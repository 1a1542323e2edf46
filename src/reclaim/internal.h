/* SPDX-License-Identifier: MIT */
/*
 * Between passes and the thread that makes them.
 */
#ifndef LULL_RECLAIM_INTERNAL_H
#define LULL_RECLAIM_INTERNAL_H

#include "base/base.h"

#include "heap/heap.h"

/* The scavenger's tick while there is something left to do. Free slices that have outlived one to two of these go back, and a park that has
 * lasted as long is swept: threads that block for less are left alone. Short against the 250 ms promised for a thread that goes idle. */
#define RECLAIM_TICK_NS (UINT64_C(50) * 1000 * 1000)
/* Ticks without anything left to do before the scavenger sleeps until it is rung for. */
#define RECLAIM_QUIET_TICKS 3

struct reclaim_left {
	bool more;     /* something is too young still, or was refused */
	bool new_park; /* a heap was parked a moment ago */
	uint64_t wait_ns; /* no pass before this much later: the kernel refuses everything */
	uint64_t rest_ns; /* when a pass will close the ring if it is not used before; UINT64_MAX: it is closed */
	uint64_t due_ns;  /* seed policy: when a parked heap is next looked at; UINT64_MAX: never */
};

/* The clock by which HEAP's pages age moves, if it may. With the reclaim lock held. */
void reclaim_move_clock(struct heap *heap) hidden;

/* Somebody waits for the reclaim lock. */
bool reclaim_is_wanted(void) hidden;
/* Between two batches of a sweep, with nothing in flight: let go of the reclaim lock when somebody waits for it (a fork, a thread that
 * sweeps for itself). */
void reclaim_breathe(void) hidden;

/* One pass over everything that is old enough. Returns bytes the kernel accepted. */
size_t reclaim_pass(struct reclaim_left *left) hidden;

/* The same by a thread of the program's, where there is no scavenger: bounded, and with its own heap if OWN says so. */
size_t reclaim_pass_inline(bool own, struct reclaim_left *left) hidden;

/* The calling thread, the scavenger, may use the ring from now on (kernel/ring.h). It ends: return what was handed over, and close it. */
void reclaim_ring_own(void) hidden;
void reclaim_ring_disown(void) hidden;

/* The process has been quiet for long: everything that can go does. */
void reclaim_stage(void) hidden;

bool scavenger_is_there(void) hidden;
uint64_t scavenger_wakes(void) hidden;
void scavenger_fork_prepare(void) hidden;
void scavenger_fork_done(bool child) hidden;

#endif
