/* SPDX-License-Identifier: MIT */
/*
 * Suite idle_release: when releases are due and how many there are, with invented answers of the reclaim layer and a clock moved by hand.
 */
#include "api/idle_release.h"

#include "reclaim/reclaim.h"
#include "unit/api/play.h"

#define INTERVAL LULL_IDLE_INTERVAL_NS

static struct lull_idle_release release;

static uint64_t due_in(void)
{
	return lull_idle_release_wait_ns(&release, kernel.now_ns());
}

static void reset(void)
{
	lull_idle_release_reset(&release, kernel.now_ns());
}

/* As a thread that waits for good does. */
static void release_while_due(void)
{
	for (uint64_t wait; (wait = due_in()) != UINT64_MAX;) {
		fake_clock_add(wait);
		lull_idle_release_run(&release);
	}
}

START_TEST(test_a_period_that_has_not_begun_releases_nothing)
{
	play_begin();
	ck_assert_uint_eq(due_in(), UINT64_MAX);
	lull_idle_release_run(&release);
	idle_release_wait_begins(&release, kernel.now_ns());
	ck_assert_uint_eq(due_in(), UINT64_MAX);
	ck_assert_uint_eq(play.releases, 0);
	ck_assert_uint_eq(play.asked, 0);
}
END_TEST

START_TEST(test_the_first_release_is_due_100_ms_after_work)
{
	play_begin();
	reset();
	ck_assert_uint_eq(release.left, LULL_IDLE_RELEASES);
	ck_assert_uint_eq(due_in(), INTERVAL);
	fake_clock_add(INTERVAL - 1);
	ck_assert_uint_eq(due_in(), 1);
	fake_clock_add(1);
	ck_assert_uint_eq(due_in(), 0);
	fake_clock_add(INTERVAL);
	ck_assert_uint_eq(due_in(), 0);
	ck_assert_uint_eq(play.releases, 0);
}
END_TEST

START_TEST(test_the_next_is_due_100_ms_after_the_last_returned)
{
	play_begin();
	play.held = PLAY_MAX;
	play.release_ns = 30 * MS;
	reset();
	release_while_due();
	ck_assert_uint_eq(play.releases, LULL_IDLE_RELEASES);
	for (unsigned i = 0; i < LULL_IDLE_RELEASES; i++)
		ck_assert_uint_eq(play.released_at[i], INTERVAL + i * (INTERVAL + 30 * MS));
	ck_assert_uint_eq(release.made, LULL_IDLE_RELEASES);
	ck_assert_uint_eq(release.left, 0);
}
END_TEST

START_TEST(test_there_are_as_many_as_leave_something_and_one)
{
	static const unsigned expected[] = {1, 2, 3, 4, 4};

	play_begin();
	play.held = (unsigned)_i;
	reset();
	release_while_due();
	ck_assert_uint_eq(play.releases, expected[_i]);
	ck_assert_uint_eq(release.made, expected[_i]);
}
END_TEST

START_TEST(test_what_is_over_stays_over_until_it_is_reset)
{
	play_begin();
	reset();
	release_while_due();
	lull_idle_release_run(&release);
	idle_release_wait_begins(&release, kernel.now_ns());
	ck_assert_uint_eq(due_in(), UINT64_MAX);
	ck_assert_uint_eq(play.releases, 1);
	reset();
	ck_assert_uint_eq(release.made, 0);
	release_while_due();
	ck_assert_uint_eq(play.releases, 2);
}
END_TEST

START_TEST(test_a_release_handed_over_is_the_last)
{
	play_begin();
	play.held = PLAY_MAX;
	play.hand_over = true;
	reset();
	fake_clock_add(INTERVAL);
	ck_assert(idle_release_run(&release));
	ck_assert_uint_eq(release.left, 0);
	ck_assert_uint_eq(release.made, 1);
	ck_assert_uint_eq(due_in(), UINT64_MAX);
	ck_assert_uint_eq(play.asked, 0);
	ck_assert_uint_eq(play.ends, 0);
	idle_release_end();
	ck_assert_uint_eq(play.ends, 1);
}
END_TEST

START_TEST(test_a_wait_counts_its_quiet_time_from_its_own_beginning)
{
	play_begin();
	play.held = PLAY_MAX;
	reset();
	fake_clock_add(5 * INTERVAL); /* the work took so long */
	idle_release_wait_begins(&release, kernel.now_ns());
	ck_assert_uint_eq(due_in(), INTERVAL);
	fake_clock_add(INTERVAL);
	ck_assert(!idle_release_run(&release));
	fake_clock_add(INTERVAL / 2); /* woken, without work */
	idle_release_wait_begins(&release, kernel.now_ns());
	ck_assert_uint_eq(due_in(), INTERVAL);
	ck_assert_uint_eq(release.left, LULL_IDLE_RELEASES - 1);
}
END_TEST

/* The pages of others are those of threads that run: to follow up on them takes what those are about to use. */
START_TEST(test_it_is_the_threads_own_pages_that_are_followed_up)
{
	ck_assert_ptr_eq(idle_release_calls.release, reclaim_wait_release);
	ck_assert_ptr_eq(idle_release_calls.end, reclaim_wait_end);
	ck_assert_ptr_eq(idle_release_calls.pending_own, reclaim_pending_own);
}
END_TEST

START_TEST(test_a_thread_that_never_allocated_has_nothing_to_release)
{
	reset();
	lull_idle_release_run(&release);
	ck_assert_uint_eq(release.made, 1);
	ck_assert_uint_eq(due_in(), UINT64_MAX);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("idle_release");
	TCase *rule = tcase_create("rule"), *made = tcase_create("made of");

	tcase_add_test(rule, test_a_period_that_has_not_begun_releases_nothing);
	tcase_add_test(rule, test_the_first_release_is_due_100_ms_after_work);
	tcase_add_test(rule, test_the_next_is_due_100_ms_after_the_last_returned);
	tcase_add_loop_test(rule, test_there_are_as_many_as_leave_something_and_one, 0, 5);
	tcase_add_test(rule, test_what_is_over_stays_over_until_it_is_reset);
	tcase_add_test(rule, test_a_release_handed_over_is_the_last);
	tcase_add_test(rule, test_a_wait_counts_its_quiet_time_from_its_own_beginning);
	tcase_add_test(made, test_it_is_the_threads_own_pages_that_are_followed_up);
	tcase_add_test(made, test_a_thread_that_never_allocated_has_nothing_to_release);
	suite_add_tcase(suite, rule);
	suite_add_tcase(suite, made);
	return unit_run(suite);
}
