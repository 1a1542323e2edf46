/* SPDX-License-Identifier: MIT */
/*
 * lull: calls for threads that go quiet. None is needed by a program that blocks in the usual calls under the preload
 * (epoll_wait, pthread_cond_wait, ...): those park the thread by themselves.
 */
#ifndef LULL_IDLE_H
#define LULL_IDLE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Give back, now and on this thread, the free memory of the calling thread's heap: holes of 4 KiB and up inside pages still
 * in use, and wholly free pages. Enters the kernel when there is something to give back. No-op for a thread that never allocated.
 */
void lull_thread_idle(void);

/*
 * Give back free memory of the whole process.
 * force     false: what has been free for a while; true: everything that can be returned, the heaps of parked and ended
 *           threads included (not the small blocks of threads that run), waiting for a collect already under way
 * Returns the number of bytes the kernel accepted, a multiple of the OS page size. Any thread.
 */
size_t lull_collect(bool force);

#ifdef __cplusplus
}
#endif
#endif
