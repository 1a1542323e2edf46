/* SPDX-License-Identifier: MIT */
/*
 * Is this thread in the middle of an allocation? Asked before it is parked: a signal handler may call read or sigsuspend (both are
 * async-signal-safe; garbage collectors stop threads that way) when the signal came in the middle of malloc. A heap left like that must
 * not be swept. Slow paths say so in a thread-local count. The fast paths have no instruction to spare, so they lie in a section of
 * their own and are found by the program counter that the kernel saved on the stack.
 */
#ifndef LULL_API_INSIDE_H
#define LULL_API_INSIDE_H

#include "base/base.h"

/* The only functions that may use heaps without inside_enter: leaf code, apart from jumps out at the end. */
#define inside_fast noinline __attribute__((section("lull_fast")))

extern __thread unsigned inside_slow_n __attribute__((tls_model("initial-exec"))) hidden;

static inline void inside_enter(void)
{
	inside_slow_n++;
	/* before anything is done to a heap, as seen by a handler on this thread */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void inside_leave(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	inside_slow_n--;
}

/* Asked by the thread before it parks. */
static inline bool inside_slow_path(void)
{
	return inside_slow_n != 0;
}

/* Is a fast path suspended somewhere above SP on a thread's stack? Asked by the sweep that wants the heap of a thread which stays parked
 * meanwhile. self: its pthread_self. True also when that cannot be told. Leaves errno alone. */
bool inside_fast_path(uintptr_t sp, uintptr_t self) hidden;

#endif
