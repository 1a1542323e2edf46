/* SPDX-License-Identifier: MIT */
/*
 * Suite cond: what a worker's wait does and when, played on one thread; and threads that wake each other.
 */
#include "api/waiter.h"
#include "unit/api/play.h"

#include <lull/wait.h>

#include <signal.h>

static struct lull_cond cond = LULL_COND_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct lull_idle_release release;
static struct lull_waiter other = WAITER_INIT; /* a second thread's record, without the thread */

static void begin(void)
{
	play_begin();
	play.mutex = &mutex;
	play.held = PLAY_MAX;
	lull_idle_release_reset(&release, kernel.now_ns());
}

static enum lull_wait_result wait_ns(uint64_t timeout_ns)
{
	pthread_mutex_lock(&mutex);
	enum lull_wait_result result = lull_cond_timedwait(&cond, &mutex, &release, timeout_ns);
	ck_assert_int_eq(pthread_mutex_trylock(&mutex), EBUSY);
	pthread_mutex_unlock(&mutex);
	ck_assert(cond.waiters.first == NULL || cond.waiters.first == &other);
	return result;
}

static void notify(void)
{
	ck_assert(lull_cond_notify_one(&cond));
}

static void notify_who_releases(void)
{
	ck_assert(!lull_cond_notify_one(&cond));
}

static void notify_all(void)
{
	lull_cond_notify_all(&cond);
}

/* --- no release ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_a_thread_notified_within_100_ms_has_nothing_to_do_with_the_allocator)
{
	begin();
	play_at(99 * MS, notify);
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 99 * MS);
	ck_assert_uint_eq(play.sleeps, 1);
	ck_assert_uint_eq(play.releases + play.asked + play.ends, 0);
	ck_assert_uint_eq(fake_calls(FAKE_MMAP) + fake_calls(FAKE_MADVISE) + fake_calls(FAKE_PROCESS_MADVISE), 0);
}
END_TEST

START_TEST(test_a_timeout_of_100_ms_or_less_has_no_release)
{
	static const uint64_t timeouts[] = {0, 1, 50 * MS, 100 * MS};

	begin();
	ck_assert_int_eq(wait_ns(timeouts[_i]), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), timeouts[_i]);
	ck_assert_uint_eq(play.releases, 0);
}
END_TEST

START_TEST(test_a_thread_that_never_worked_only_waits)
{
	begin();
	release = (struct lull_idle_release){0};
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), 1000 * MS);
	ck_assert_uint_eq(play.sleeps, 1);
	ck_assert_uint_eq(play.releases, 0);
}
END_TEST

/* --- releases ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(test_releases_come_100_ms_apart_and_count_toward_the_timeout)
{
	begin();
	play.release_ns = 20 * MS;
	ck_assert_int_eq(wait_ns(10000 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), 10000 * MS);
	ck_assert_uint_eq(play.releases, LULL_IDLE_RELEASES);
	for (unsigned i = 0; i < LULL_IDLE_RELEASES; i++)
		ck_assert_uint_eq(play.released_at[i], 100 * MS + i * 120 * MS);
	ck_assert_uint_eq(play.ends, 0);
}
END_TEST

START_TEST(test_a_release_needs_more_than_100_ms_of_the_timeout)
{
	static const struct {
		uint64_t timeout_ns;
		unsigned releases;
	} cases[] = {{100 * MS + 1, 1}, {200 * MS, 1}, {200 * MS + 1, 2}, {300 * MS, 2}, {300 * MS + 1, 3}, {400 * MS + 1, 4}, {900 * MS, 4}};

	begin();
	ck_assert_int_eq(wait_ns(cases[_i].timeout_ns), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), cases[_i].timeout_ns);
	ck_assert_uint_eq(play.releases, cases[_i].releases);
}
END_TEST

START_TEST(test_nothing_held_back_means_no_second_release)
{
	begin();
	play.held = 0;
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play.releases, 1);
}
END_TEST

START_TEST(test_a_notify_between_releases_ends_the_wait)
{
	begin();
	play_at(250 * MS, notify);
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 250 * MS);
	ck_assert_uint_eq(play.releases, 2);
}
END_TEST

/* --- a thread that is in a release --------------------------------------------------------------------------------------------------- */

/* _i 0: in the first; 1: in the second, from 220 to 240 ms */
START_TEST(test_a_notify_during_a_release_ends_the_wait_after_it)
{
	begin();
	play.release_ns = 20 * MS;
	play_at((110 + 120 * (uint64_t)_i) * MS, notify_who_releases);
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), (120 + 120 * (uint64_t)_i) * MS);
	ck_assert_uint_eq(play.releases, (unsigned)_i + 1);
}
END_TEST

/* The notify was first; that the release then ran past the timeout is not the notifier's business. */
START_TEST(test_a_notify_during_a_release_that_outlasts_the_timeout_is_not_lost)
{
	begin();
	play.release_ns = 100 * MS;
	play_at(320 * MS, notify_who_releases);
	ck_assert_int_eq(wait_ns(350 * MS), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 400 * MS);
	ck_assert_uint_eq(play.releases, 2);
}
END_TEST

START_TEST(test_a_timeout_during_a_release_is_the_end_after_it)
{
	begin();
	play.release_ns = 100 * MS;
	ck_assert_int_eq(wait_ns(350 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), 400 * MS);
	ck_assert_uint_eq(play.releases, 2);
	ck_assert_uint_eq(play.sleeps, 2);
}
END_TEST

static void join_the_other(void)
{
	waiter_add(&cond.waiters, &other);
}

START_TEST(test_a_notifier_passes_over_a_thread_in_a_release)
{
	begin();
	play.release_ns = 20 * MS;
	play_at(50 * MS, join_the_other);
	play_at(110 * MS, notify);
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(other.told, LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 1000 * MS);
	ck_assert_uint_eq(play.releases, LULL_IDLE_RELEASES);
}
END_TEST

static void notify_both(void)
{
	notify();
	ck_assert_uint_eq(other.told, LULL_WAIT_OK);
	notify_who_releases();
}

START_TEST(test_a_second_notify_reaches_the_one_that_was_passed_over)
{
	begin();
	play.release_ns = 20 * MS;
	play_at(50 * MS, join_the_other);
	play_at(110 * MS, notify_both);
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 120 * MS);
}
END_TEST

START_TEST(test_outside_a_release_the_first_to_come_is_the_first_notified)
{
	begin();
	play_at(50 * MS, join_the_other);
	play_at(150 * MS, notify);
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_OK);
	ck_assert_uint_eq(other.told, WAITER_LISTED);
	lull_cond_notify_all(&cond);
	ck_assert_uint_eq(other.told, LULL_WAIT_OK);
}
END_TEST

START_TEST(test_notify_all_reaches_those_who_release_too)
{
	begin();
	play.release_ns = 20 * MS;
	play_at(50 * MS, join_the_other);
	play_at(110 * MS, notify_all);
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_OK);
	ck_assert_uint_eq(other.told, LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 120 * MS);
}
END_TEST

START_TEST(test_a_notify_without_waiters_is_nothing)
{
	begin();
	notify_who_releases();
	lull_cond_notify_all(&cond);
	ck_assert_int_eq(wait_ns(50 * MS), LULL_WAIT_TIMED_OUT);
}
END_TEST

/* --- the budget ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_a_notify_without_work_starts_the_timeout_again_and_grants_no_release)
{
	begin();
	play_at(350 * MS, notify);
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_OK);
	ck_assert_uint_eq(play.releases, 3);
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), 1350 * MS);
	ck_assert_uint_eq(play.releases, LULL_IDLE_RELEASES);
	ck_assert_uint_eq(play.released_at[3], 450 * MS);
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play.releases, LULL_IDLE_RELEASES);
}
END_TEST

START_TEST(test_work_grants_new_releases)
{
	begin();
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_TIMED_OUT);
	lull_idle_release_reset(&release, kernel.now_ns());
	fake_clock_add(5000 * MS); /* the work */
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play.releases, 2 * LULL_IDLE_RELEASES);
	ck_assert_uint_eq(play.released_at[4], 6100 * MS);
}
END_TEST

/* --- handed over --------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_a_release_handed_over_is_a_park_until_the_wait_ends)
{
	begin();
	play.hand_over = true;
	play.release_ns = 10 * MS;
	if (_i == 0)
		play_at(105 * MS, notify_who_releases); /* in the middle of handing over: the park must end all the same */
	else
		play_at(300 * MS, notify);
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), _i == 0 ? 110 * MS : 300 * MS);
	ck_assert_uint_eq(play.releases, 1);
	ck_assert_uint_eq(play.ends, 1);
	ck_assert_uint_eq(play.asked, 0);
}
END_TEST

START_TEST(test_a_release_handed_over_does_not_delay_the_timeout)
{
	begin();
	play.hand_over = true;
	ck_assert_int_eq(wait_ns(101 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), 101 * MS);
	ck_assert_uint_eq(play.releases, 1);
	ck_assert_uint_eq(play.ends, 1);
}
END_TEST

/* --- mistakes ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(test_destroying_a_condition_that_is_waited_on_ends_the_process)
{
	waiter_add(&cond.waiters, &other);
	lull_cond_destroy(&cond);
}
END_TEST

START_TEST(test_a_condition_can_be_destroyed_and_made_again)
{
	lull_cond_destroy(&cond);
	waiter_add(&cond.waiters, &other); /* as in the child of a fork */
	lull_cond_init(&cond);
	lull_cond_destroy(&cond);
}
END_TEST

/* --- threads ------------------------------------------------------------------------------------------------------------------------- */

#define THREADS 4
#define TURNS 4000

static unsigned turn; /* guarded by mutex */
static struct lull_cond conds[THREADS];

/* Each thread hands the turn on to the next. A lost notify ends in a standstill. */
static void *pass_on(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	struct lull_idle_release mine = {0};

	pthread_mutex_lock(&mutex);
	for (unsigned i = me; i < TURNS; i += THREADS) {
		while (turn != i) {
			enum lull_wait_result result = lull_cond_timedwait(&conds[me], &mutex, &mine, i % 3 ? LULL_WAIT_FOREVER : 250 * MS);
			unit_holds(result == LULL_WAIT_OK || result == LULL_WAIT_TIMED_OUT);
		}
		lull_idle_release_reset(&mine, kernel.now_ns());
		turn++;
		lull_cond_notify_one(&conds[(me + 1) % THREADS]);
	}
	pthread_mutex_unlock(&mutex);
	return NULL;
}

START_TEST(test_no_notify_is_lost_between_threads)
{
	pthread_t threads[THREADS];

	fast_begin();
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, pass_on, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(turn, TURNS);
	for (int i = 0; i < THREADS; i++)
		lull_cond_destroy(&conds[i]);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("cond");
	TCase *without = tcase_create("no release"), *with = tcase_create("releases"), *during = tcase_create("during a release");
	TCase *budget = tcase_create("budget"), *over = tcase_create("handed over"), *mistakes = tcase_create("mistakes");
	TCase *threads = tcase_create("threads");

	tcase_add_test(without, test_a_thread_notified_within_100_ms_has_nothing_to_do_with_the_allocator);
	tcase_add_loop_test(without, test_a_timeout_of_100_ms_or_less_has_no_release, 0, 4);
	tcase_add_test(without, test_a_thread_that_never_worked_only_waits);
	tcase_add_test(with, test_releases_come_100_ms_apart_and_count_toward_the_timeout);
	tcase_add_loop_test(with, test_a_release_needs_more_than_100_ms_of_the_timeout, 0, 7);
	tcase_add_test(with, test_nothing_held_back_means_no_second_release);
	tcase_add_test(with, test_a_notify_between_releases_ends_the_wait);
	tcase_add_loop_test(during, test_a_notify_during_a_release_ends_the_wait_after_it, 0, 2);
	tcase_add_test(during, test_a_notify_during_a_release_that_outlasts_the_timeout_is_not_lost);
	tcase_add_test(during, test_a_timeout_during_a_release_is_the_end_after_it);
	tcase_add_test(during, test_a_notifier_passes_over_a_thread_in_a_release);
	tcase_add_test(during, test_a_second_notify_reaches_the_one_that_was_passed_over);
	tcase_add_test(during, test_outside_a_release_the_first_to_come_is_the_first_notified);
	tcase_add_test(during, test_notify_all_reaches_those_who_release_too);
	tcase_add_test(during, test_a_notify_without_waiters_is_nothing);
	tcase_add_test(budget, test_a_notify_without_work_starts_the_timeout_again_and_grants_no_release);
	tcase_add_test(budget, test_work_grants_new_releases);
	tcase_add_loop_test(over, test_a_release_handed_over_is_a_park_until_the_wait_ends, 0, 2);
	tcase_add_test(over, test_a_release_handed_over_does_not_delay_the_timeout);
	tcase_add_test_raise_signal(mistakes, test_destroying_a_condition_that_is_waited_on_ends_the_process, SIGABRT);
	tcase_add_test(mistakes, test_a_condition_can_be_destroyed_and_made_again);
	tcase_add_test(threads, test_no_notify_is_lost_between_threads);
	suite_add_tcase(suite, without);
	suite_add_tcase(suite, with);
	suite_add_tcase(suite, during);
	suite_add_tcase(suite, budget);
	suite_add_tcase(suite, over);
	suite_add_tcase(suite, mistakes);
	suite_add_tcase(suite, threads);
	return unit_run(suite);
}
