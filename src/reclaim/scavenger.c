/* SPDX-License-Identifier: MIT */
/*
 * The one background thread: started when there is something to give back, asleep when there is not. It blocks all signals but those
 * for faults, never calls malloc, and has no heap. Where it cannot be had (LULL_SCAVENGER=0, no thread allowed), whoever would have
 * started it makes a pass itself, at most once per tick.
 */
#include "reclaim/reclaim.h"

#include "kernel/bell.h"
#include "kernel/kernel.h"
#include "kernel/lock.h"
#include "reclaim/internal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* The sweep needs under 2 KiB; the rest is for libc's thread-local storage, which glibc takes from the stack. */
#define SCAVENGER_STACK (128 * KIB)

void (*reclaim_on_tick)(void);
bool (*reclaim_may_start)(void);

static struct {
	struct lock lock;      /* guards starting and stopping */
	_Atomic bool there;    /* relaxed hint for those who park */
	_Atomic bool stop;
	bool ended;            /* it left by itself: to be joined before the next starts */
	bool off;              /* set at start only */
	pthread_t thread;
	_Atomic uint64_t wakes;
	_Atomic uint64_t inline_ns; /* when a pass was last made inline */
} scavenger;

bool scavenger_is_there(void)
{
	return atomic_load_explicit(&scavenger.there, memory_order_relaxed);
}

uint64_t scavenger_wakes(void)
{
	return atomic_load_explicit(&scavenger.wakes, memory_order_relaxed);
}

static void *scavenge(void *unused)
{
	unsigned quiet = 0;
	(void)unused;
	pthread_setname_np(pthread_self(), "lull");
	while (!atomic_load_explicit(&scavenger.stop, memory_order_acquire)) {
		struct reclaim_left left = {0};
		size_t bytes = reclaim_pass(&left);
		quiet = bytes == 0 && !left.more && !left.new_park ? quiet + 1 : 0;
		uint64_t tick = left.new_park ? RECLAIM_PARK_NS : RECLAIM_TICK_NS;
		if (quiet >= RECLAIM_QUIET_TICKS)
			bell_wait(KERNEL_NO_TIMEOUT);
		else if (left.wait_ns > tick)
			bell_wait(left.wait_ns);
		else
			bell_doze(tick);
		atomic_fetch_add_explicit(&scavenger.wakes, 1, memory_order_relaxed);
	}
	bell_answered(false);
	return NULL;
}

/* Signals are the program's: the thread inherits a mask that leaves it only those that a fault of its own would raise. */
static int create(void)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
	sigset_t mask, before;
	pthread_attr_t attr;
	sigfillset(&mask);
	for (size_t i = 0; i < array_len(faults); i++)
		sigdelset(&mask, faults[i]);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, SCAVENGER_STACK);
	pthread_sigmask(SIG_BLOCK, &mask, &before);
	int err = pthread_create(&scavenger.thread, &attr, scavenge, NULL);
	if (err != 0) /* thread-local storage of the program may not fit a small stack */
		err = pthread_create(&scavenger.thread, NULL, scavenge, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

static void pass_inline(void)
{
	struct reclaim_left left = {0};
	uint64_t now = kernel.now_ns();
	uint64_t last = atomic_load_explicit(&scavenger.inline_ns, memory_order_relaxed);
	if (now - last < RECLAIM_TICK_NS)
		return;
	if (atomic_compare_exchange_strong_explicit(&scavenger.inline_ns, &last, now, memory_order_relaxed, memory_order_relaxed)) {
		reclaim_thread();
		reclaim_pass(&left);
	}
}

static void join_ended(void)
{
	if (scavenger.ended)
		pthread_join(scavenger.thread, NULL);
	scavenger.ended = false;
}

void reclaim_scavenger_start(void)
{
	int saved = errno;
	if (reclaim_may_start != NULL && !reclaim_may_start())
		return;
	atomic_store_explicit(&bell_unanswered, false, memory_order_relaxed);
	bool there = false;
	if (!scavenger.off && lock_try(&scavenger.lock)) { /* taken: someone starts or stops it right now */
		there = scavenger_is_there();
		if (!there) {
			join_ended();
			atomic_store_explicit(&scavenger.stop, false, memory_order_relaxed);
			bell_answered(true);
			there = create() == 0;
			if (!there)
				bell_answered(false);
			atomic_store_explicit(&scavenger.there, there, memory_order_relaxed);
		}
		lock_release(&scavenger.lock);
	}
	if (!there)
		pass_inline();
	errno = saved;
}

static void tell_to_end(void)
{
	if (!scavenger_is_there())
		return;
	atomic_store_explicit(&scavenger.stop, true, memory_order_release);
	atomic_store_explicit(&scavenger.there, false, memory_order_relaxed);
	scavenger.ended = true;
	bell_ring_now();
}

void reclaim_scavenger_stop(void)
{
	lock_take(&scavenger.lock);
	tell_to_end();
	join_ended();
	lock_release(&scavenger.lock);
}

void reclaim_scavenger_leave(void)
{
	lock_take(&scavenger.lock);
	tell_to_end();
	lock_release(&scavenger.lock);
}

void reclaim_enable_scavenger(bool on)
{
	scavenger.off = !on;
}

void scavenger_fork_prepare(void)
{
	lock_take(&scavenger.lock);
}

/* The child has no such thread; it starts one when it has something to give back. */
void scavenger_fork_done(bool child)
{
	if (child) {
		bell_answered(false);
		atomic_store_explicit(&scavenger.there, false, memory_order_relaxed);
		scavenger.ended = false;
	}
	lock_fork_done(&scavenger.lock, child);
}
