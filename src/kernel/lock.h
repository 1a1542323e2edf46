/* SPDX-License-Identifier: MIT */
/*
 * A three-state futex lock (free, taken, taken with sleepers). No lock of the malloc path is ever held over a system call that
 * returns memory. A fork child re-initialises every lock with lock_init.
 */
#ifndef LULL_KERNEL_LOCK_H
#define LULL_KERNEL_LOCK_H

#include "base/base.h"

#include <stdatomic.h>

struct lock {
	_Atomic uint32_t state; /* 0 free, 1 taken, 2 taken and someone may sleep */
};

#define LOCK_INIT ((struct lock){0})

void lock_take_slow(struct lock *lock) hidden;
void lock_release_slow(struct lock *lock) hidden;

static inline void lock_init(struct lock *lock)
{
	atomic_store_explicit(&lock->state, 0, memory_order_relaxed);
}

static inline bool lock_try(struct lock *lock)
{
	uint32_t expected = 0;
	/* acquire: pairs with the release in lock_release */
	return atomic_compare_exchange_strong_explicit(&lock->state, &expected, 1, memory_order_acquire, memory_order_relaxed);
}

static inline void lock_take(struct lock *lock)
{
	if (unlikely(!lock_try(lock)))
		lock_take_slow(lock);
}

static inline void lock_release(struct lock *lock)
{
	/* release: pairs with the acquire in lock_try and lock_take_slow */
	if (unlikely(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2))
		lock_release_slow(lock);
}

/* After a fork by the thread that holds the lock: in the child nobody else exists that could sleep on it. */
static inline void lock_fork_done(struct lock *lock, bool child)
{
	if (child)
		lock_init(lock);
	else
		lock_release(lock);
}

#endif
