/* SPDX-License-Identifier: MIT */
/*
 * lull: calls for threads that go quiet. None is needed by a program that blocks in the usual calls under the preload
 * (epoll_wait, pthread_cond_wait, ...): those park the thread by themselves.
 *
 * None of these calls is async-signal-safe: in a handler that interrupted malloc or free the heap is not whole.
 *
 * What is held back: free memory of a page that was allocated from a moment ago stays, since it is likely to be wanted again. So the
 * first release after work leaves some of it, and a thread that goes quiet for good releases again: the follow-up rule, below.
 */
#ifndef LULL_IDLE_H
#define LULL_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- a thread that knows when it is idle ------------------------------------------------------------------------------------------ */

/*
 * Give back, on this thread, the free memory of the calling thread's heap that is not held back: holes of 4 KiB and up inside pages
 * still in use, and wholly free pages. Finds it and enters the kernel to return it, or leaves that to the background thread. Not rate
 * limited: the caller decides when it is idle. No-op for a thread that never allocated, and for one that is parked.
 */
void lull_thread_idle(void);

/*
 * True when the last sweep of the calling thread's heap (its own call, or the background thread's during a park that has ended) held
 * something back, in a page of this thread or of any other that the sweep passed. A caller that is going to block for good calls
 * lull_thread_idle again 100 ms after its previous call returned, while this is true, three more times at most.
 * False for a thread that never allocated. Not to be asked between lull_thread_idle_start and _end. Does not enter the kernel.
 */
bool lull_thread_idle_pending(void);

/*
 * The same, but true only when at least one page that was held back belongs to the calling thread. This is the one to follow up on:
 * sweeping again for the sake of other threads' pages takes the memory of threads that run.
 */
bool lull_thread_idle_pending_own(void);

/*
 * Park: a promise that the calling thread neither allocates nor frees until lull_thread_idle_end, so that the background thread may sweep
 * its heap meanwhile. Never sweeps itself; cheap enough for every tick of an event loop. Should the thread allocate all the same (in a
 * signal handler), the park ends there by itself.
 * Returns false, and lull_thread_idle_end is not needed: the thread never allocated, is parked already, or there is no background
 * thread (LULL_SCAVENGER=0, stopped, or the process may not have one). Unbalanced calls are harmless.
 */
bool lull_thread_idle_start(void);
/* Leave the park. Waits at most for the sweep to finish with the page it looks at. */
void lull_thread_idle_end(void);

/* --- the process ------------------------------------------------------------------------------------------------------------------- */

/*
 * Give back free memory of the whole process.
 * force     false: what is not held back; true: everything that can be returned, the heaps of parked and ended
 *           threads included (not the small blocks of threads that run), waiting for a collect already under way
 * Returns the number of bytes the kernel accepted, a multiple of the OS page size. Any thread.
 */
size_t lull_collect(bool force);

/* End the background thread, wait for it, and start none again in this process; the child of a fork starts afresh. For programs that
 * must be single-threaded. What it did is done inline from then on, less promptly. Any thread; not while a thread of the program waits for
 * the caller with a lock held that the caller needs. */
void lull_scavenger_stop(void);

/* --- the follow-up rule -------------------------------------------------------------------------------------------------------------- */

/* 100 ms: as long as one step of the clock by which a page is judged young, so that a release finds it moved. */
#define LULL_IDLE_INTERVAL_NS (UINT64_C(100) * 1000 * 1000)
/* What is held back is young for two steps at most: two or three releases after the first take it, and one is spare. */
#define LULL_IDLE_RELEASES 4

/*
 * One thread's releases in one idle period: release; while lull_thread_idle_pending_own(), again 100 ms after the previous release
 * returned; LULL_IDLE_RELEASES in all; a new budget only when real work was done. One thread uses it. Zero-initialised it is a period
 * that has not begun, in which nothing is released: call lull_idle_release_reset first.
 * The waits of lull/wait.h follow the rule by themselves; a thread that waits in another way calls the functions below.
 */
struct lull_idle_release {
	uint64_t due_ns; /* CLOCK_MONOTONIC; when the next release is due, UINT64_MAX: none is */
	uint32_t left;   /* releases that may still be made in this idle period */
	uint32_t made;   /* releases made in this idle period */
};

/* Real work is about to be done, or was: the next idle period has its full budget, and its first release is due 100 ms after NOW_NS
 * (CLOCK_MONOTONIC). Does not enter the kernel. */
void lull_idle_release_reset(struct lull_idle_release *release, uint64_t now_ns);

/* Nanoseconds from NOW_NS (CLOCK_MONOTONIC) until the next release is due: 0 when it is, UINT64_MAX when there will be none. */
uint64_t lull_idle_release_wait_ns(const struct lull_idle_release *release, uint64_t now_ns);

/*
 * Release now, and work out when and whether there is a next one. Nothing happens when there is none.
 * With a background thread the memory is left to it: the calling thread is then parked, as by lull_thread_idle_start, nothing is left to
 * follow up, and lull_thread_idle_end is called when the wait is over. Without one the memory is returned here and now, as by
 * lull_thread_idle. The caller holds no lock that another thread of the program may want.
 */
void lull_idle_release_run(struct lull_idle_release *release);

#ifdef __cplusplus
}
#endif
#endif
