/* SPDX-License-Identifier: MIT */
/*
 * Between passes and the thread that makes them.
 */
#ifndef LULL_RECLAIM_INTERNAL_H
#define LULL_RECLAIM_INTERNAL_H

#include "base/base.h"

/* What has been free for one to two of these goes back: short against the 250 ms promised for a thread that goes idle, long against the
 * time between two uses of a busy thread's buffers. */
#define RECLAIM_TICK_NS (UINT64_C(50) * 1000 * 1000)
/* A park that is new is looked at again this much later: threads that block for less are left alone. */
#define RECLAIM_PARK_NS (UINT64_C(10) * 1000 * 1000)
/* Ticks without anything left to do before the scavenger sleeps until it is rung for. */
#define RECLAIM_QUIET_TICKS 3

struct reclaim_left {
	bool more;     /* something is too young still, or was refused */
	bool new_park; /* a heap was parked a moment ago */
	uint64_t wait_ns; /* no pass before this much later: the kernel refuses everything */
};

/* Between two batches of a sweep: let go of the reclaim lock when somebody waits for it (a fork, a thread that sweeps for itself). */
void reclaim_breathe(void) hidden;

/* One pass over everything that is old enough. Returns bytes the kernel accepted. */
size_t reclaim_pass(struct reclaim_left *left) hidden;

bool scavenger_is_there(void) hidden;
uint64_t scavenger_wakes(void) hidden;
void scavenger_fork_prepare(void) hidden;
void scavenger_fork_done(bool child) hidden;

#endif
