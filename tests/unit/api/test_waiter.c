/* SPDX-License-Identifier: MIT */
/*
 * Suite waiter: the list of those who wait, and the loop of every wait where two things happen at once.
 */
#include "api/waiter.h"

#include "unit/api/play.h"

#define N 4

static struct lull_wait_list list;
static struct lull_waiter waiters[N], self = WAITER_INIT;
static struct lull_idle_release release;

static uint32_t told(struct lull_waiter *waiter)
{
	return atomic_load(&waiter->told);
}

static void tell(struct lull_waiter *waiter)
{
	waiter_lock(&list);
	waiter_tell(&list, waiter, LULL_WAIT_OK);
	waiter_unlock(&list);
}

static void tell_self(void)
{
	tell(&self);
}

static enum lull_wait_result wait_until(uint64_t at_ns)
{
	return waiter_wait(&list, &self, &release, PLAY_START + at_ns);
}

static void fill(void)
{
	for (int i = 0; i < N; i++) {
		waiters[i] = (struct lull_waiter)WAITER_INIT;
		waiter_add(&list, &waiters[i]);
	}
}

START_TEST(test_the_list_keeps_the_order_of_arrival)
{
	fill();
	for (int i = 0; i < N; i++) {
		ck_assert_ptr_eq(list.first, &waiters[i]);
		ck_assert_ptr_eq(list.last, &waiters[N - 1]);
		tell(&waiters[i]);
		ck_assert_uint_eq(told(&waiters[i]), LULL_WAIT_OK);
	}
	ck_assert_ptr_null(list.first);
	ck_assert_ptr_null(list.last);
}
END_TEST

START_TEST(test_any_member_can_leave_and_others_can_come)
{
	struct lull_waiter late = WAITER_INIT;
	int seen = 0;

	fill();
	tell(&waiters[_i]);
	waiter_add(&list, &late);
	ck_assert_ptr_eq(list.last, &late);
	for (struct lull_waiter *at = list.first; at != NULL; at = at->next, seen++)
		ck_assert_uint_eq(told(at), WAITER_LISTED);
	ck_assert_int_eq(seen, N);
}
END_TEST

START_TEST(test_a_deadline_does_not_wrap)
{
	ck_assert_uint_eq(waiter_deadline(5, 7), 12);
	ck_assert_uint_eq(waiter_deadline(5, LULL_WAIT_FOREVER), UINT64_MAX);
	ck_assert_uint_eq(waiter_deadline(5, UINT64_MAX - 5), UINT64_MAX);
	ck_assert_uint_eq(waiter_deadline(5, UINT64_MAX - 6), UINT64_MAX - 1);
}
END_TEST

START_TEST(test_one_that_was_told_before_it_sleeps_does_not)
{
	play_begin();
	waiter_add(&list, &self);
	tell_self();
	ck_assert_int_eq(wait_until(UINT64_MAX - PLAY_START), LULL_WAIT_OK);
	ck_assert_uint_eq(play.sleeps, 0);
}
END_TEST

START_TEST(test_a_sleep_that_ends_early_goes_on_for_the_rest)
{
	play_begin();
	waiter_add(&list, &self);
	play_at(10 * MS, play_interrupt);
	play_at(30 * MS, play_interrupt);
	ck_assert_int_eq(wait_until(50 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), 50 * MS);
	ck_assert_uint_eq(play.sleeps, 3);
	ck_assert_ptr_null(list.first);
}
END_TEST

static uint64_t late_now(void)
{
	if (told(&self) == WAITER_LISTED)
		tell_self();
	return PLAY_START + 50 * MS;
}

/* Between the look at the clock and the lock. */
START_TEST(test_a_wake_in_the_moment_of_the_timeout_counts)
{
	play_begin();
	waiter_add(&list, &self);
	kernel.now_ns = late_now;
	ck_assert_int_eq(wait_until(50 * MS), LULL_WAIT_OK);
	ck_assert_ptr_null(list.first);
}
END_TEST

static uint64_t due_now(void)
{
	uint64_t now = PLAY_START + 100 * MS;

	if (told(&self) == WAITER_LISTED)
		tell_self();
	return now;
}

START_TEST(test_a_wake_in_the_moment_of_a_release_spares_it)
{
	play_begin();
	lull_idle_release_reset(&release, kernel.now_ns());
	waiter_add(&list, &self);
	kernel.now_ns = due_now;
	ck_assert_int_eq(wait_until(500 * MS), LULL_WAIT_OK);
	ck_assert_uint_eq(play.releases, 0);
}
END_TEST

START_TEST(test_a_timeout_comes_before_a_release_that_is_due_too)
{
	play_begin();
	lull_idle_release_reset(&release, kernel.now_ns());
	waiter_add(&list, &self);
	fake_clock_add(200 * MS); /* did not get a processor in time */
	ck_assert_int_eq(wait_until(150 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play.releases, 0);
	ck_assert_uint_eq(play_now(), 200 * MS);
}
END_TEST

static void check_is_marked(void)
{
	ck_assert(self.releasing);
	ck_assert_uint_eq(list.lock, 0);
	tell_self();
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAKE), 0);
}

START_TEST(test_in_a_release_it_is_marked_and_needs_no_call_to_be_woken)
{
	play_begin();
	play.release_ns = 20 * MS;
	lull_idle_release_reset(&release, kernel.now_ns());
	waiter_add(&list, &self);
	play_at(110 * MS, check_is_marked);
	ck_assert_int_eq(wait_until(500 * MS), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 120 * MS);
	ck_assert(!self.releasing);
}
END_TEST

/* The child of a fork made by a signal handler, which then returns into the wait. */
START_TEST(test_one_that_is_on_no_list_any_more_times_out)
{
	play_begin();
	fill();
	waiter_add(&list, &self);
	list = (struct lull_wait_list){0};
	ck_assert_int_eq(wait_until(50 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_ptr_null(list.first);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("waiter");
	TCase *lists = tcase_create("list"), *waits = tcase_create("wait");

	tcase_add_test(lists, test_the_list_keeps_the_order_of_arrival);
	tcase_add_loop_test(lists, test_any_member_can_leave_and_others_can_come, 0, N);
	tcase_add_test(waits, test_a_deadline_does_not_wrap);
	tcase_add_test(waits, test_one_that_was_told_before_it_sleeps_does_not);
	tcase_add_test(waits, test_a_sleep_that_ends_early_goes_on_for_the_rest);
	tcase_add_test(waits, test_a_wake_in_the_moment_of_the_timeout_counts);
	tcase_add_test(waits, test_a_wake_in_the_moment_of_a_release_spares_it);
	tcase_add_test(waits, test_a_timeout_comes_before_a_release_that_is_due_too);
	tcase_add_test(waits, test_in_a_release_it_is_marked_and_needs_no_call_to_be_woken);
	tcase_add_test(waits, test_one_that_is_on_no_list_any_more_times_out);
	suite_add_tcase(suite, lists);
	suite_add_tcase(suite, waits);
	return unit_run(suite);
}
