/* SPDX-License-Identifier: MIT */
/*
 * Start-up, whenever it comes: the library's constructor does it, or a slow path before that (constructors of other libraries may run
 * first, and may start threads). Only slow paths ask; the first call of every thread is slow.
 */
#ifndef LULL_API_INIT_H
#define LULL_API_INIT_H

#include "base/base.h"
#include "kernel/bell.h"
#include "reclaim/reclaim.h"

#include <stdatomic.h>

/* False until all is set up. Relaxed: whoever sees false goes to init_now, which sorts out who does what. */
extern _Atomic bool init_done hidden;
void init_now(void) hidden;

static inline void init_maybe(void)
{
	if (unlikely(!atomic_load_explicit(&init_done, memory_order_relaxed)))
		init_now();
}

/* This process's number; written at start and in the child of a fork. */
extern int init_pid hidden;
/* In that child. */
void init_forked(void) hidden;

/* False in the child of a vfork, which has its parent's memory but must not start threads in it: they would end with the child, and the
 * parent would count on them. Enters the kernel. */
bool init_is_own_process(void) hidden;

/* The end of every slow path: outside all locks, since starting a thread allocates. */
static inline void scavenger_maybe_start(void)
{
	if (unlikely(atomic_load_explicit(&bell_unanswered, memory_order_relaxed)))
		reclaim_scavenger_start();
}

#endif
