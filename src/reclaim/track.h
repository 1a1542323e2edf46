/* SPDX-License-Identifier: MIT */
/*
 * What of lull's memory is written and what is resident: the working set of an epoch, of 10 s and of 60 s, by watching a sample of slices
 * (track_plan.h says which, and for how much). Runs on the scavenger, which it wakes at most once a second and only while the process is
 * busy; a process that does nothing is not woken, and after a minute of that the descriptors are closed. Nothing depends on it: where the
 * kernel refuses, only the numbers are missing.
 *
 * LULL_TRACK=full keeps to no budget: a quarter of every slice of the first 256 MiB, of fewer slices where there are more.
 */
#ifndef LULL_RECLAIM_TRACK_H
#define LULL_RECLAIM_TRACK_H

#include "base/base.h"

enum track_mode { TRACK_AUTO, TRACK_OFF, TRACK_FULL };

/* Memory in pages below which nothing is watched: its working set is at most this much, which is what a handful of threads' stacks and
 * libraries come to; and it is 256 slices, of which a sample of 1 in 3 still sees enough. */
#define TRACK_HEAP_BYTES (16 * MIB)

/* At start, before there is a second thread. */
void track_set_mode(enum track_mode mode) hidden;

/* The scavenger's: have a look if it is time. */
void track_tick(void) hidden;
/* How long it may sleep before the next; KERNEL_NO_TIMEOUT: for good. */
uint64_t track_wait_ns(uint64_t now_ns) hidden;
/* It ends: nothing is watched, no descriptor open. */
void track_stop(void) hidden;

enum track_state {
	TRACK_RESTS,   /* not asked for, little memory, or a process that does nothing */
	TRACK_WATCHES,
	TRACK_REFUSED, /* by the kernel or LULL_CAPS */
};

struct track_counts {
	enum track_mode mode;
	enum track_state state;
	uint64_t epoch_bytes, ten_bytes, minute_bytes;
	uint64_t resident_bytes; /* of memory for blocks, as last counted and by the books since */
	uint64_t faults, spent_us;
};
/* Any thread. */
struct track_counts track_counts(void) hidden;

void track_fork_prepare(void) hidden;
void track_fork_done(bool child) hidden;

#endif
