/* SPDX-License-Identifier: MIT */
/*
 * Suite bell: who rings enters the kernel only to wake a sleeper, once for each sleep; no ring is lost between looking and sleeping.
 */
#include "kernel/bell.h"

#include "kernel/kernel.h"
#include "support/fake_kernel.h"
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>

START_TEST(test_nobody_is_asked_for_below_the_start_mark)
{
	bell_ring(BELL_START_BYTES - 1);
	ck_assert(!bell_unanswered);
	bell_ring(1);
	ck_assert(bell_unanswered);
}
END_TEST

START_TEST(test_ringing_now_asks_at_once)
{
	bell_ring_now();
	ck_assert(bell_unanswered);
	bell_answered(true);
	ck_assert(!bell_unanswered);
	bell_ring_now();
	bell_ring(GIB);
	ck_assert(!bell_unanswered);
	bell_answered(false);
	ck_assert(!bell_unanswered);
	bell_ring_now();
	ck_assert(bell_unanswered);
}
END_TEST

START_TEST(test_ringing_someone_awake_enters_no_kernel)
{
	fake_kernel_install();
	bell_answered(true);
	for (int i = 0; i < 1000; i++) {
		bell_ring(MIB);
		bell_ring_now();
	}
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAKE), 0);
	/* and what was rung meanwhile is not slept over */
	bell_wait(KERNEL_NO_TIMEOUT);
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAIT), 0);
}
END_TEST

START_TEST(test_little_is_slept_over)
{
	fake_kernel_install();
	bell_answered(true);
	bell_ring(BELL_WAKE_BYTES - 1);
	bell_wait(1000 * 1000);
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAIT), 1);
}
END_TEST

static atomic_uint waits_done;

static void *answer(void *arg)
{
	for (uintptr_t i = 0; i < (uintptr_t)arg; i++) {
		bell_wait(KERNEL_NO_TIMEOUT);
		atomic_fetch_add(&waits_done, 1);
	}
	return NULL;
}

static pthread_t start(uintptr_t waits)
{
	pthread_t thread;

	bell_answered(true);
	ck_assert_int_eq(pthread_create(&thread, NULL, answer, (void *)waits), 0);
	return thread;
}

static void await_sleeper(unsigned n)
{
	while (fake_calls(FAKE_FUTEX_WAIT) < n)
		sched_yield();
}

/* 0: in one piece, 1: adding up, 2: now */
START_TEST(test_a_sleeper_is_woken_once)
{
	fake_kernel_install();
	pthread_t thread = start(1);

	await_sleeper(1);
	if (_i == 1) {
		bell_ring(BELL_WAKE_BYTES - 2);
		bell_ring(1);
		ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAKE), 0);
		ck_assert_uint_eq(waits_done, 0);
	}
	if (_i == 2)
		bell_ring_now();
	else
		bell_ring(BELL_WAKE_BYTES);
	bell_ring_now();
	bell_ring(MIB);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(waits_done, 1);
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAKE), 1);
}
END_TEST

static struct kernel real;

static int ring_while_lying_down(const void *word, uint32_t expected, uint64_t timeout_ns)
{
	kernel.futex_wait = real.futex_wait;
	bell_ring(BELL_WAKE_BYTES);
	return real.futex_wait(word, expected, timeout_ns);
}

/* The last moment: the answerer has looked, and is about to sleep. It must not sleep for good. */
START_TEST(test_a_ring_between_the_look_and_the_sleep_is_heard)
{
	real = kernel;
	kernel.futex_wait = ring_while_lying_down;
	bell_answered(true);
	bell_wait(KERNEL_NO_TIMEOUT);
	ck_assert_ptr_eq(kernel.futex_wait, real.futex_wait);
}
END_TEST

START_TEST(test_a_doze_is_not_woken)
{
	fake_kernel_install();
	bell_answered(true);
	bell_ring_now();
	bell_doze(1000 * 1000);
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAIT), 1);
	/* what was rung before and during it is there for the next wait */
	bell_wait(KERNEL_NO_TIMEOUT);
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAIT), 1);
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAKE), 0);
}
END_TEST

#define RINGS 3000

static atomic_uint rung;

/* The next ring comes when the last was heard: a lost one would hang. */
static void *ring_and_await(void *unused)
{
	for (unsigned i = 1; i <= RINGS; i++) {
		atomic_store(&rung, i);
		if (i % 2)
			bell_ring_now();
		else
			bell_ring(BELL_WAKE_BYTES);
		while (atomic_load(&waits_done) < i)
			sched_yield();
	}
	return unused;
}

START_TEST(test_no_ring_is_ever_lost)
{
	pthread_t thread;

	bell_answered(true);
	ck_assert_int_eq(pthread_create(&thread, NULL, ring_and_await, NULL), 0);
	while (atomic_load(&waits_done) < RINGS) {
		bell_wait(KERNEL_NO_TIMEOUT);
		atomic_store(&waits_done, atomic_load(&rung));
	}
	pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("bell");
	TCase *tcase = tcase_create("bell");

	tcase_add_test(tcase, test_nobody_is_asked_for_below_the_start_mark);
	tcase_add_test(tcase, test_ringing_now_asks_at_once);
	tcase_add_test(tcase, test_ringing_someone_awake_enters_no_kernel);
	tcase_add_test(tcase, test_little_is_slept_over);
	tcase_add_loop_test(tcase, test_a_sleeper_is_woken_once, 0, 3);
	tcase_add_test(tcase, test_a_ring_between_the_look_and_the_sleep_is_heard);
	tcase_add_test(tcase, test_a_doze_is_not_woken);
	tcase_add_test(tcase, test_no_ring_is_ever_lost);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
