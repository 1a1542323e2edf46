/* SPDX-License-Identifier: MIT */
/*
 * The slow halves of the lock: a short spin, then sleep in the kernel. State 2 is set by whoever goes to sleep and makes the holder
 * wake one; a woken thread takes the lock as 2 again, since it cannot know whether others still sleep. Any thread.
 */
#include "kernel/lock.h"

#include "kernel/kernel.h"

/* Sections under our locks are tens of instructions; a sleep and a wake cost about 5 us. A hundred pauses are 1 to 4 us on x86-64 (40 to
 * 140 cycles each since Skylake), so a spin never costs more than the sleep it may save. */
#define SPIN_TRIES 100

/* False when somebody already sleeps: queue up behind instead of racing. */
static bool spin_take(struct lock *lock)
{
	for (int i = 0; i < SPIN_TRIES; i++) {
		uint32_t seen = atomic_load_explicit(&lock->state, memory_order_relaxed);

		if (seen == 2)
			return false;
		if (seen == 0 && lock_try(lock))
			return true;
		cpu_relax();
	}
	return false;
}

void lock_take_slow(struct lock *lock)
{
	if (spin_take(lock))
		return;
	/* acquire: pairs with the release in lock_release */
	while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
		kernel.futex_wait(&lock->state, 2, KERNEL_NO_TIMEOUT);
}

void lock_release_slow(struct lock *lock)
{
	kernel.futex_wake(&lock->state, 1);
}
