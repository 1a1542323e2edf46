/* SPDX-License-Identifier: MIT */
/*
 * The ring: requests to give memory back that the kernel's own threads carry out while ours does something else. It is opened when
 * somebody has use for it and closed when nobody had for a while, since an open ring is in the way of checkpoints and its threads are
 * threads of the program's.
 *
 * It belongs to one thread, the owner, which alone can open and use it: the kernel knows it by a number of that thread's and by no file
 * descriptor, so a program finds none it did not open, closes ours by no closefrom(), and hands none to a child. A child of a fork has no
 * ring: not even its memory is there.
 *
 * All of it under the caller's lock (in lull the reclaim lock), which a fork takes too; ring_is_mine: any thread.
 */
#ifndef LULL_KERNEL_RING_H
#define LULL_KERNEL_RING_H

#include "base/base.h"

#include <sys/uio.h>

/* Requests in flight at most. With 1 MiB in the middle each these are some milliseconds of work for the kernel's threads: enough that they
 * do not run dry while the owner looks for more. Also: a bit each in one word. */
#define RING_ENTRIES 64
/* Unused for so long it is closed. As long as the kernel keeps its own idle threads for (WORKER_IDLE_TIMEOUT in io_uring/io-wq.c). */
#define RING_REST_NS (UINT64_C(5) * 1000 * 1000 * 1000)

struct ring_request {
	char *addr;
	size_t len;        /* at most ADVISE_CALL_BYTES */
	uint32_t first, n; /* the caller's words */
};

/* The calling thread is the owner from now on, until ring_disown, which closes the ring. Nothing is in flight at either. */
void ring_own(void) hidden;
void ring_disown(void) hidden;
bool ring_is_mine(void) hidden;

/* Can the calling thread use it now? Opens it when it is closed and was not refused. */
bool ring_ready(void) hidden;
/* What is known without opening it: it was opened once, or could be, and was not refused since. */
bool ring_is_possible(void) hidden;

/* Hand over; at most RING_ENTRIES - ring_in_flight(). Returns how many were taken, the first ones. ring_ready() was true. */
size_t ring_submit(const struct ring_request *request, size_t n, int advice) hidden;
size_t ring_in_flight(void) hidden;
/* The next answer: 0 or -errno, to which request. When there is none yet, wait until EXPECTED of those in flight are there: so many will be
 * asked for. */
int ring_answer(struct ring_request *ret, size_t expected) hidden;

/* Close it when it was not used for RING_REST_NS. Returns nanoseconds until it would be time; UINT64_MAX: it is closed. */
uint64_t ring_rest(void) hidden;

/* In the child of a fork. */
void ring_forget(void) hidden;

#endif
