/* SPDX-License-Identifier: MIT */
/*
 * A thread that waits, on a list of such: the part that all waits of <lull/wait.h> share. The record lies on the thread's stack. Whoever
 * ends a wait takes the record off its list and writes the result into it, in one step under the list's lock; from then on the record
 * may be gone. A thread leaves its wait only by that result, so a wake that was counted is never lost, whatever the thread was doing:
 * sleeping, releasing memory, or about to time out.
 */
#ifndef LULL_API_WAITER_H
#define LULL_API_WAITER_H

#include "base/base.h"

#include <lull/wait.h>
#include <stdatomic.h>

#define WAITER_LISTED UINT32_MAX /* no enum lull_wait_result: still waiting */

struct lull_waiter {
	struct lull_waiter *next; /* guarded by the list's lock */
	bool releasing;           /* guarded by the list's lock: awake, in a release */
	_Atomic uint32_t told;    /* WAITER_LISTED, then the result; the word it sleeps on. Written under the list's lock */
};

#define WAITER_INIT {.told = WAITER_LISTED}

/* The lock of a list; taken by the callers of what is marked so below. Never held over a release. */
void waiter_lock(struct lull_wait_list *list) hidden;
void waiter_unlock(struct lull_wait_list *list) hidden;

/* Lock held: to the end of the list. */
void waiter_add(struct lull_wait_list *list, struct lull_waiter *waiter) hidden;
/* Lock held, WAITER on LIST: end its wait. */
void waiter_tell(struct lull_wait_list *list, struct lull_waiter *waiter, enum lull_wait_result result) hidden;

/* A point in time, UINT64_MAX for LULL_WAIT_FOREVER and what comes near it. */
uint64_t waiter_deadline(uint64_t now_ns, uint64_t timeout_ns) hidden;

/* Sleep until SELF, which was put on LIST, is told or DEADLINE_NS has come, and release when RELEASE says so. Lock not held, nor any that
 * others want. */
enum lull_wait_result waiter_wait(
	struct lull_wait_list *list, struct lull_waiter *self, struct lull_idle_release *release, uint64_t deadline_ns) hidden;

#endif
