/* SPDX-License-Identifier: MIT */
/*
 * The one background thread: started when there is something to give back, asleep when there is not. It blocks all signals but those
 * for faults, never calls malloc, and has no heap. Where it cannot be had (LULL_SCAVENGER=0, no thread allowed), whoever would have
 * started it makes a pass itself, at most once per tick.
 */
#include "reclaim/reclaim.h"

#include "heap/heap.h"
#include "kernel/bell.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/lock.h"
#include "reclaim/internal.h"
#include "reclaim/stages.h"
#include "region/region.h"
#include "reclaim/track.h"

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
	_Atomic uint32_t settled; /* it is past what it does once, before its rounds; a futex word */
	bool ended;            /* it left by itself: to be joined before the next starts */
	bool off;              /* set at start only */
	bool stopped;          /* for good; guarded by lock, read without it as a hint */
	pthread_t thread;
	_Atomic uint64_t wakes;
	_Atomic uint64_t inline_ns; /* when a pass was last made inline */
	struct stages stages;  /* its own, after start */
} scavenger = {.stages = {.n = 2, .after_s = {30, 75}}};

bool scavenger_is_there(void)
{
	return atomic_load_explicit(&scavenger.there, memory_order_relaxed);
}

uint64_t scavenger_wakes(void)
{
	return atomic_load_explicit(&scavenger.wakes, memory_order_relaxed);
}

static uint64_t until(uint64_t at_ns, uint64_t now_ns)
{
	if (at_ns == UINT64_MAX)
		return KERNEL_NO_TIMEOUT;
	return at_ns > now_ns ? at_ns - now_ns : 0;
}

/* Nothing is left to do for now: sleep until the bell rings (true), a parked heap or a look of the tracker is due, an idle stage is
 * reached, or the ring was not used for long. */
static bool sleep_quiet(const struct reclaim_left *left)
{
	uint64_t now = kernel.now_ns();
	uint64_t wait = min_size(left->rest_ns, min_size(until(left->due_ns, now), stages_wait_ns(&scavenger.stages, now)));
	wait = min_size(wait, track_wait_ns(now));
	stages_note(&scavenger.stages, bell_wait(wait), now);
	uint64_t then = kernel.now_ns();
	if (stages_reached(&scavenger.stages, then))
		reclaim_stage();
	return then - now < wait;
}

static void *scavenge(void *unused)
{
	unsigned quiet = 0;
	(void)unused;
	if (caps_has(CAPS_THREAD_NAME))
		pthread_setname_np(pthread_self(), "lull");
	reclaim_ring_own();
	/* release: pairs with the acquire of who waits for it */
	atomic_store_explicit(&scavenger.settled, 1, memory_order_release);
	kernel.futex_wake(&scavenger.settled, 1);
	reclaim_ring_own();
	while (!atomic_load_explicit(&scavenger.stop, memory_order_acquire)) {
		struct reclaim_left left = {0};
		region_name_all();
		track_tick(); /* before the pass, which publishes what it found */
		size_t bytes = reclaim_pass(&left);
		quiet = bytes == 0 && !left.more && !left.new_park ? quiet + 1 : 0;
		if (quiet >= RECLAIM_QUIET_TICKS) {
			if (sleep_quiet(&left))
				quiet = 0; /* ticks follow: a ring wakes it once in that time, not each */
		} else if (left.wait_ns > RECLAIM_TICK_NS) {
			bell_wait(min_size(left.wait_ns, left.rest_ns));
		} else {
			bell_doze(min_size(RECLAIM_TICK_NS, until(left.due_ns, kernel.now_ns())));
		}
		atomic_fetch_add_explicit(&scavenger.wakes, 1, memory_order_relaxed);
	}
	track_stop();
	reclaim_ring_disown();
	bell_answered(false);
	return NULL;
}

void reclaim_set_stages(const uint32_t *after_s, unsigned n)
{
	scavenger.stages.n = n;
	for (unsigned i = 0; i < n; i++)
		scavenger.stages.after_s[i] = after_s[i];
}

/* Of a thread that holds a lock of ours on its way into a call which handlers may interrupt and never come back from (siglongjmp), or
 * in which they may themselves block or fork. What a fault would raise stays: there is no way on after one. */
static bool hold_signals(sigset_t *ret_before)
{
	if (!caps_begin())
		return false; /* nor may the mask be touched: a handler that never comes back takes the lock with it */
	static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
	sigset_t mask;
	sigfillset(&mask);
	for (size_t i = 0; i < array_len(faults); i++)
		sigdelset(&mask, faults[i]);
	pthread_sigmask(SIG_BLOCK, &mask, ret_before);
	return true;
}

static void release_signals(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
	caps_end();
}

/* With signals held, which the thread inherits: they are the program's, and leave it only those that a fault of its own would raise. */
static int create(void)
{
	pthread_attr_t attr;
	if (!caps_has(CAPS_THREAD))
		return EPERM;
	atomic_store_explicit(&scavenger.settled, 0, memory_order_relaxed);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, SCAVENGER_STACK);
	int err = pthread_create(&scavenger.thread, &attr, scavenge, NULL);
	if (err != 0) /* thread-local storage of the program may not fit a small stack */
		err = pthread_create(&scavenger.thread, NULL, scavenge, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

/* In a handler that interrupted a fast path its heap is to be left alone. */
static bool may_sweep_own(void)
{
	return heap_is_torn == NULL || !heap_is_torn((uintptr_t)__builtin_frame_address(0), (uintptr_t)pthread_self());
}

static void pass_inline(void)
{
	struct reclaim_left left = {0};
	sigset_t before;
	uint64_t now = kernel.now_ns();
	uint64_t last = atomic_load_explicit(&scavenger.inline_ns, memory_order_relaxed);
	/* until a pass finds nothing left, the next slow path or blocking call comes here again */
	atomic_store_explicit(&bell_unanswered, true, memory_order_relaxed);
	if (now - last < RECLAIM_TICK_NS)
		return;
	if (!atomic_compare_exchange_strong_explicit(&scavenger.inline_ns, &last, now, memory_order_relaxed, memory_order_relaxed))
		return;
	bool held = hold_signals(&before);
	size_t bytes = reclaim_pass_inline(may_sweep_own(), &left);
	bool done = bytes == 0 && !left.more && !left.new_park && !reclaim_pending();
	atomic_store_explicit(&bell_unanswered, !done, memory_order_relaxed);
	if (held)
		release_signals(&before);
}

/* pthread_join is a cancellation point, which malloc must not be; and the lock is held. */
static void join_ended(void)
{
	int cancel;
	if (!scavenger.ended)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_join(scavenger.thread, NULL);
	pthread_setcancelstate(cancel, NULL);
	scavenger.ended = false;
}

/* With signals held. Returns whether it is there now. */
static bool start_or_find(void)
{
	if (!lock_try(&scavenger.lock)) /* someone starts or stops it right now */
		return false;
	bool there = scavenger_is_there();
	if (!there && !scavenger.stopped) {
		join_ended();
		atomic_store_explicit(&scavenger.stop, false, memory_order_relaxed);
		bell_answered(true);
		there = create() == 0;
		if (!there)
			bell_answered(false);
		atomic_store_explicit(&scavenger.there, there, memory_order_relaxed);
	}
	lock_release(&scavenger.lock);
	return there;
}

void reclaim_scavenger_start(void)
{
	int saved = errno;
	sigset_t before;
	if (caps_is_minimal()) {
		pass_inline();
		return;
	}
	if (reclaim_may_start != NULL && !reclaim_may_start())
		return;
	atomic_store_explicit(&bell_unanswered, false, memory_order_relaxed);
	bool there = false;
	if (!scavenger.off && hold_signals(&before)) {
		there = start_or_find();
		release_signals(&before);
	}
	if (!there)
		pass_inline();
	errno = saved;
}

/* What a new thread does before its first round it may not do later. */
void reclaim_scavenger_settle(void)
{
	lock_take(&scavenger.lock);
	while (scavenger_is_there() && atomic_load_explicit(&scavenger.settled, memory_order_acquire) == 0)
		kernel.futex_wait(&scavenger.settled, 0, KERNEL_NO_TIMEOUT);
	lock_release(&scavenger.lock);
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

void reclaim_scavenger_end(void)
{
	lock_take(&scavenger.lock);
	scavenger.stopped = true;
	tell_to_end();
	join_ended();
	lock_release(&scavenger.lock);
	/* what it was about to do is for those who come by now */
	atomic_store_explicit(&bell_unanswered, true, memory_order_relaxed);
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
		scavenger.stopped = false;
		scavenger.stages.since_ns = 0;
		scavenger.stages.next = 0;
	}
	lock_fork_done(&scavenger.lock, child);
}
