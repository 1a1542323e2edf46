/* SPDX-License-Identifier: MIT */
/*
 * What tests of waits share: time, sleeps and releases as the test wants them.
 *
 * A play has one thread. The clock moves only while that thread sleeps or releases, and the play's events happen on the way, at their
 * times and on the same thread: a wake in the middle of a release is an event in it. A sleep ends when its word changes, as the kernel's
 * would; one that nothing would end any more fails the test.
 *
 * Fast time is for several threads: a thousand times the real one, with real sleeps, so that timeouts and releases are frequent.
 */
#ifndef TESTS_UNIT_API_PLAY_H
#define TESTS_UNIT_API_PLAY_H

#include "api/idle_release.h"
#include "api/waiter.h"
#include "kernel/kernel.h"
#include "support/fake_kernel.h"
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MS UINT64_C(1000000) /* in ns */
#define PLAY_START (1000 * MS)
#define PLAY_MAX 16

struct play_event {
	uint64_t at_ns;
	void (*act)(void);
};

static struct {
	struct play_event events[PLAY_MAX];
	unsigned events_n, events_done;
	bool interrupted;          /* the sleep ends by a signal */
	pthread_mutex_t *mutex;    /* must be free during releases and when they end; or NULL */
	uint64_t release_ns;       /* a release takes as long */
	unsigned held;             /* so many releases leave something of the thread's own held back */
	bool hand_over;            /* there is a scavenger */
	unsigned sleeps, releases, ends, asked;
	uint64_t released_at[PLAY_MAX]; /* in ns since the start */
} play;

/* Since the play began. */
static inline uint64_t play_now(void)
{
	return kernel.now_ns() - PLAY_START;
}

/* In ascending order of time. */
static inline void play_at(uint64_t at_ns, void (*act)(void))
{
	ck_assert_uint_lt(play.events_n, PLAY_MAX);
	play.events[play.events_n++] = (struct play_event){.at_ns = at_ns, .act = act};
}

/* Carries out the next event if it comes no later than END. */
static inline bool play_next_event(uint64_t end_ns)
{
	if (play.events_done == play.events_n || play.events[play.events_done].at_ns > end_ns)
		return false;
	struct play_event event = play.events[play.events_done++];
	if (event.at_ns > play_now())
		fake_clock_set(PLAY_START + event.at_ns);
	event.act();
	return true;
}

static inline int play_sleep(const void *word, uint32_t expected, uint64_t timeout_ns)
{
	const _Atomic uint32_t *told = word;
	uint64_t end = timeout_ns == KERNEL_NO_TIMEOUT ? UINT64_MAX : play_now() + timeout_ns;
	if (atomic_load(told) != expected)
		return -EAGAIN;
	play.sleeps++;
	while (play_next_event(end)) {
		if (atomic_load(told) != expected)
			return 0;
		if (play.interrupted) {
			play.interrupted = false;
			return -EINTR;
		}
	}
	ck_assert_msg(timeout_ns != KERNEL_NO_TIMEOUT, "sleeps, and nobody is there to wake it");
	fake_clock_set(PLAY_START + end);
	return -ETIMEDOUT;
}

static inline void play_check_mutex(void)
{
	if (play.mutex == NULL)
		return;
	ck_assert_int_eq(pthread_mutex_trylock(play.mutex), 0);
	pthread_mutex_unlock(play.mutex);
}

static inline bool play_release(void)
{
	uint64_t end = play_now() + play.release_ns;
	ck_assert_uint_lt(play.releases, PLAY_MAX);
	play_check_mutex();
	play.released_at[play.releases++] = play_now();
	while (play_next_event(end))
		;
	fake_clock_set(PLAY_START + end);
	return play.hand_over;
}

static inline void play_end(void)
{
	play_check_mutex();
	play.ends++;
}

static inline bool play_pending_own(void)
{
	play.asked++;
	return play.releases <= play.held;
}

static inline void play_begin(void)
{
	fake_kernel_install();
	fake_clock_set(PLAY_START);
	kernel.futex_wait = play_sleep;
	idle_release_calls = (struct idle_release_calls){.release = play_release, .end = play_end, .pending_own = play_pending_own};
}

/* An event: a signal whose handler does nothing. */
static inline void play_interrupt(void)
{
	play.interrupted = true;
}

/* --- fast time ---------------------------------------------------------------------------------------------------------------------- */

#define FAST 1000

static struct {
	struct kernel real;
	uint64_t start_ns;
	bool for_good; /* sleeps have no timeout: only wakes end them */
	atomic_uint sleeps, releases, ends;
} fast;

static inline uint64_t fast_now(void)
{
	return (fast.real.now_ns() - fast.start_ns) * FAST;
}

static inline int fast_sleep(const void *word, uint32_t expected, uint64_t timeout_ns)
{
	if (expected != WAITER_LISTED) /* one of lull's locks */
		return fast.real.futex_wait(word, expected, timeout_ns);
	atomic_fetch_add(&fast.sleeps, 1);
	bool for_good = fast.for_good || timeout_ns == KERNEL_NO_TIMEOUT;
	return fast.real.futex_wait(word, expected, for_good ? KERNEL_NO_TIMEOUT : timeout_ns / FAST);
}

/* Long enough for others to come in the middle of it. */
static inline bool fast_release(void)
{
	unsigned n = atomic_fetch_add(&fast.releases, 1);
	for (unsigned i = 0; i < n % 8; i++)
		sched_yield();
	return n % 2 == 1;
}

static inline void fast_end(void)
{
	atomic_fetch_add(&fast.ends, 1);
}

static inline bool fast_pending_own(void)
{
	return true;
}

static inline void fast_begin(void)
{
	fast.real = kernel;
	fast.start_ns = kernel.now_ns();
	kernel.now_ns = fast_now;
	kernel.futex_wait = fast_sleep;
	idle_release_calls = (struct idle_release_calls){.release = fast_release, .end = fast_end, .pending_own = fast_pending_own};
}

#endif
