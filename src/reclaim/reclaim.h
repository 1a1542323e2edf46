/* SPDX-License-Identifier: MIT */
/*
 * Giving memory back: who is swept, when, and by whom. The rule in one sentence: what has been free for a tick or two, in heaps that
 * nobody is using and in pages that nobody allocated from meanwhile, goes back to the kernel.
 */
#ifndef LULL_RECLAIM_RECLAIM_H
#define LULL_RECLAIM_RECLAIM_H

#include "heap/heap.h"

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
#define RECLAIM_PARK_OWNED 16

/* A waiter's release, made by a thread that is about to block on: the scavenger is handed the thread's heap and follows up by itself (true:
 * the thread is parked until reclaim_wait_end), or, where there is none, the heap was swept here and now (false). */
bool reclaim_wait_release(void) hidden;
void reclaim_wait_end(void) hidden;

/* Park for good measure: for lull_thread_idle_start. False: nothing to undo; no heap, parked already, or no scavenger to be had. */
bool reclaim_park(void) hidden;
void reclaim_unpark(void) hidden;

/* The calling thread ends; before heap_thread_end. */
void reclaim_thread_end(void) hidden;

/* On slow paths of malloc: at most once in 100 ms the thread has a look at its own small pages, so that one that never blocks gives back
 * too, and what others freed while it slept unseen. It hands over what nothing was done to meanwhile. */
void reclaim_look_slow(void) hidden;
/* Slow paths between two readings of the clock, when there is no tick to go by. */
#define RECLAIM_LOOK_EVERY 64
static inline void reclaim_look_maybe(void)
{
	struct heap *heap = heap_tls;
	if (heap == &heap_empty)
		return;
	bool ticked = heap->tick != atomic_load_explicit(&heap_tick, memory_order_relaxed);
	if (unlikely(++heap->slow_n % RECLAIM_LOOK_EVERY == 0 || ticked))
		reclaim_look_slow();
}

/* The last sweep of the calling thread's heap held something back: anything, or in a page of its own. */
bool reclaim_pending(void) hidden;
bool reclaim_pending_own(void) hidden;

/* Start the scavenger. Called by the api layer on its slow paths, outside every lock, when bell_unanswered (kernel/bell.h) says that
 * something was freed that is worth its attention. Where there can be no thread, makes a pass inline instead. Leaves errno alone. */
void reclaim_scavenger_start(void) hidden;

/* End the scavenger and wait for it; it starts again when there is something to do. For calls that demand a single-threaded process. */
void reclaim_scavenger_stop(void) hidden;
/* The same, and it does not start again in this process. */
void reclaim_scavenger_end(void) hidden;
/* Returns when one that was just started makes no calls any more but those of its rounds. */
void reclaim_scavenger_settle(void) hidden;
/* The last thread that has a heap ends. libc ends a process with its last thread, and that must not be the scavenger: it returns, and
 * starts again if there is something left to do. Does not wait. */
void reclaim_scavenger_leave(void) hidden;
void reclaim_enable_scavenger(bool on) hidden; /* LULL_SCAVENGER */
/* Asked before the scavenger is started, or NULL: may this process have a thread? Set at start. */
extern bool (*reclaim_may_start)(void) hidden;
/* Called by the scavenger on each tick, or NULL. Set at start. */
extern void (*reclaim_on_tick)(void) hidden;

/* The policy to go by: the seed system's, or the default. At start, before there is a second thread. */
void reclaim_set_policy(bool seed) hidden;
/* Seconds of quiet after which the process is collected deeper, ascending; at most STAGES_MAX (reclaim/stages.h) of them. At start. */
void reclaim_set_stages(const uint32_t *after_s, unsigned n) hidden;

struct reclaim_counts {
	uint64_t sweeps, swept_pages, full_sweeps, parks, wakes, stages, looks;
	uint64_t ghost_hits, ghost_bytes; /* returned memory that was wanted again within the break-even time */
	uint64_t floor_bytes, kept_bytes; /* gauges: what may stay past the hold, and does */
	bool seed;
};
struct reclaim_counts reclaim_counts(void) hidden;

/* fork; order of locks: reclaim, heaps, regions, meta */
void reclaim_fork_prepare(void) hidden;
void reclaim_fork_done(bool child) hidden;

#endif
