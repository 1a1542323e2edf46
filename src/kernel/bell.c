/* SPDX-License-Identifier: MIT */
/*
 * The word says what the one who answers is doing; only the ring that finds it asleep makes a system call.
 */
#include "kernel/bell.h"

#include "kernel/kernel.h"

enum { NOBODY = 0, AWAKE, ASLEEP, RUNG };

_Atomic bool bell_unanswered;
/* seq_cst throughout: the ringer adds to `bytes`, then looks at the word; the answerer sets ASLEEP, then looks at `bytes`. */
static _Atomic uint32_t word;
static _Atomic uint64_t bytes;

static void wake(void)
{
	uint32_t asleep = ASLEEP;
	/* one system call for each sleep: later ringers find RUNG */
	if (atomic_compare_exchange_strong(&word, &asleep, RUNG))
		kernel.futex_wake(&word, 1);
}

void bell_ring(size_t more)
{
	uint64_t sum = atomic_fetch_add(&bytes, more) + more;
	uint32_t state = atomic_load(&word);
	if (state == ASLEEP && sum >= BELL_WAKE_BYTES)
		wake();
	else if (state == NOBODY && sum >= BELL_START_BYTES)
		atomic_store_explicit(&bell_unanswered, true, memory_order_relaxed);
}

void bell_ring_now(void)
{
	atomic_fetch_add(&bytes, BELL_WAKE_BYTES);
	uint32_t state = atomic_load(&word);
	if (state == ASLEEP)
		wake();
	else if (state == NOBODY)
		atomic_store_explicit(&bell_unanswered, true, memory_order_relaxed);
}

uint64_t bell_wait(uint64_t timeout_ns)
{
	atomic_store(&word, ASLEEP);
	uint64_t rung = atomic_exchange(&bytes, 0);
	if (rung < BELL_WAKE_BYTES)
		kernel.futex_wait(&word, ASLEEP, timeout_ns);
	atomic_exchange(&word, AWAKE); /* an exchange: a store could pass the loads that follow, and a ring would be lost */
	return rung;
}

void bell_doze(uint64_t ns)
{
	static const uint32_t never = 0;
	kernel.futex_wait(&never, 0, ns);
}

void bell_answered(bool yes)
{
	if (yes)
		atomic_store_explicit(&bell_unanswered, false, memory_order_relaxed);
	atomic_exchange(&word, yes ? AWAKE : NOBODY);
}
