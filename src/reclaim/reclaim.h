/* SPDX-License-Identifier: MIT */
/*
 * Giving memory back: who is swept, when, and by whom. The rule in one sentence: what has been free for a tick or two, in heaps that
 * nobody is using and in pages that nobody allocated from meanwhile, goes back to the kernel.
 */
#ifndef LULL_RECLAIM_RECLAIM_H
#define LULL_RECLAIM_RECLAIM_H

#include "base/base.h"

/* Sweep the calling thread's heap now. Returns bytes the kernel accepted. */
size_t reclaim_thread(void) hidden;
/* Sweep what can be swept: all parked and ended heaps, medium and large pages, dirty slices. force: whatever its age, and the calling
 * thread's own heap too; waits for a pass in progress. Returns bytes the kernel accepted. */
size_t reclaim_collect(bool force) hidden;

/* Around a call that may block. enter parks the thread when it has freed enough to be worth a sweep, and sees to it that the scavenger is
 * there. Both leave errno alone. leave is harmless when enter did nothing. */
void reclaim_idle_enter_slow(void) hidden;
void reclaim_idle_leave_slow(void) hidden;
/* Fewer changed pages are not even looked at: 4 pages of 64 KiB are at most 256 KiB unreturned per thread. */
#define RECLAIM_PARK_PAGES 4
/* A heap of this many small pages, 1 MiB, is parked though its thread has freed nothing, since other threads may free into it meanwhile. */
#define RECLAIM_PARK_SMALL 16

/* Start the scavenger. Called by the api layer on its slow paths, outside every lock, when bell_unanswered (kernel/bell.h) says that
 * something was freed that is worth its attention. Where there can be no thread, makes a pass inline instead. Leaves errno alone. */
void reclaim_scavenger_start(void) hidden;

/* End the scavenger and wait for it; it starts again when there is something to do. For calls that demand a single-threaded process. */
void reclaim_scavenger_stop(void) hidden;
/* The last thread that has a heap ends. libc ends a process with its last thread, and that must not be the scavenger: it returns, and
 * starts again if there is something left to do. Does not wait. */
void reclaim_scavenger_leave(void) hidden;
void reclaim_enable_scavenger(bool on) hidden; /* LULL_SCAVENGER */
/* Asked before the scavenger is started, or NULL: may this process have a thread? Set at start. */
extern bool (*reclaim_may_start)(void) hidden;
/* Called by the scavenger on each tick, or NULL. Set at start. */
extern void (*reclaim_on_tick)(void) hidden;

struct reclaim_counts {
	uint64_t sweeps, swept_pages, parks, wakes;
};
struct reclaim_counts reclaim_counts(void) hidden;

/* fork; order of locks: reclaim, heaps, regions, meta */
void reclaim_fork_prepare(void) hidden;
void reclaim_fork_done(bool child) hidden;

#endif
