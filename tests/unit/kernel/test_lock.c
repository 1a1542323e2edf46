/* SPDX-License-Identifier: MIT */
/*
 * Suite lock: exclusion with more threads than processors, no kernel entry while nobody waits, sleepers are woken.
 */
#include "kernel/lock.h"

#include "support/fake_kernel.h"
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#define THREADS 8
#define TURNS 20000

static struct lock lock;
static uint64_t guarded; /* plain on purpose: only the lock keeps it right, and the thread sanitizer quiet */

static void *take_turns(void *arg)
{
	(void)arg;
	for (int i = 0; i < TURNS; i++) {
		lock_take(&lock);
		guarded++;
		if (i % 1024 == 0)
			sched_yield(); /* lets the others pile up behind a holder that does not run */
		lock_release(&lock);
	}
	return NULL;
}

static void *try_turns(void *arg)
{
	(void)arg;
	for (int i = 0; i < TURNS;) {
		if (!lock_try(&lock)) {
			sched_yield();
			continue;
		}
		guarded++;
		lock_release(&lock);
		i++;
	}
	return NULL;
}

static void run_threads(void *(*odd)(void *), void *(*even)(void *))
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, i % 2 ? odd : even, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

START_TEST(test_threads_exclude_each_other)
{
	run_threads(take_turns, take_turns);
	ck_assert_uint_eq(guarded, THREADS * TURNS);
	ck_assert_uint_eq(lock.state, 0);
}
END_TEST

START_TEST(test_try_and_take_exclude_each_other)
{
	run_threads(take_turns, try_turns);
	ck_assert_uint_eq(guarded, THREADS * TURNS);
	ck_assert_uint_eq(lock.state, 0);
}
END_TEST

START_TEST(test_a_taken_lock_refuses_try)
{
	ck_assert(lock_try(&lock));
	ck_assert(!lock_try(&lock));
	lock_release(&lock);
	ck_assert(lock_try(&lock));
}
END_TEST

/* The holder may release between the fast half's try and the slow half's look. */
START_TEST(test_the_slow_half_takes_a_free_lock)
{
	lock_take_slow(&lock);
	ck_assert(!lock_try(&lock));
	lock_release(&lock);
	ck_assert(lock_try(&lock));
}
END_TEST

START_TEST(test_nobody_waiting_means_no_kernel_call)
{
	fake_kernel_install();
	for (int i = 0; i < 1000; i++) {
		lock_take(&lock);
		lock_release(&lock);
	}
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAIT), 0);
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAKE), 0);
}
END_TEST

static void *take_once(void *arg)
{
	(void)arg;
	lock_take(&lock);
	guarded++;
	lock_release(&lock);
	return NULL;
}

START_TEST(test_sleepers_are_all_woken_one_by_one)
{
	pthread_t threads[THREADS];

	fake_kernel_install();
	lock_take(&lock);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, take_once, NULL), 0);
	while (fake_calls(FAKE_FUTEX_WAIT) < THREADS)
		sched_yield();
	ck_assert_uint_eq(lock.state, 2);
	lock_release(&lock);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(guarded, THREADS);
	ck_assert_uint_ge(fake_calls(FAKE_FUTEX_WAKE), 1);
}
END_TEST

/* A signal ends a futex wait early: the waiter must look again, not believe it holds the lock. */
START_TEST(test_an_interrupted_sleep_is_no_lock)
{
	pthread_t thread;

	fake_kernel_install();
	fake_refuse_all(FAKE_FUTEX_WAIT, EINTR);
	lock_take(&lock);
	ck_assert_int_eq(pthread_create(&thread, NULL, take_once, NULL), 0);
	while (fake_calls(FAKE_FUTEX_WAIT) < 100)
		sched_yield();
	ck_assert_uint_eq(guarded, 0);
	lock_release(&lock);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(guarded, 1);
}
END_TEST

START_TEST(test_init_frees_a_lock_whatever_its_state)
{
	lock.state = (uint32_t)_i;
	lock_init(&lock);
	ck_assert(lock_try(&lock));
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("lock");
	TCase *threads = tcase_create("threads"), *states = tcase_create("states");

	tcase_add_test(threads, test_threads_exclude_each_other);
	tcase_add_test(threads, test_try_and_take_exclude_each_other);
	tcase_add_test(threads, test_sleepers_are_all_woken_one_by_one);
	tcase_add_test(threads, test_an_interrupted_sleep_is_no_lock);
	tcase_add_test(states, test_a_taken_lock_refuses_try);
	tcase_add_test(states, test_the_slow_half_takes_a_free_lock);
	tcase_add_test(states, test_nobody_waiting_means_no_kernel_call);
	tcase_add_loop_test(states, test_init_frees_a_lock_whatever_its_state, 0, 3);
	suite_add_tcase(suite, threads);
	suite_add_tcase(suite, states);
	return unit_run(suite);
}
