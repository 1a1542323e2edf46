/* SPDX-License-Identifier: MIT */
/*
 * Suite parks: when a parked heap's turn has come under the seed policy. The test is the scavenger: it asks, notes when it is to ask
 * again, and says when it has swept. The clock is a number.
 */
#include "reclaim/parks.h"

#include "support/unit.h"
#include "unit/heap/heaps.h"

#define MS UINT64_C(1000000)
#define STEP (100 * MS)
#define AGAIN (30000 * MS)
#define NEVER UINT64_MAX

static struct policy policy;
static struct heap *heap;
static uint64_t now = 1000 * STEP, due;

static void begin(void)
{
	policy_init(&policy, true);
	alloc(64);
	heap = heap_tls;
}

/* Is it the heap's turn now? Leaves in `due` when to ask again. */
static bool is_turn(void)
{
	due = NEVER;
	return parks_is_due(&policy, heap, now, &due);
}

/* It was swept, from FROM to now, at the clock's Nth step, and HELD something back. */
static void swept(uint32_t epoch, bool held)
{
	due = NEVER;
	heap->floor_epoch = epoch;
	heap->held = held ? HEAP_HELD_ANY : 0;
	parks_swept(&policy, heap, now, &due);
}

/* A park as the thread sees it. True: it wakes the scavenger. */
static bool park(void)
{
	heap_park();
	return !heap_is_scheduled();
}

/* The heap was swept at this moment, and its thread runs. */
static void begin_swept_and_running(void)
{
	begin();
	ck_assert(park());
	ck_assert(is_turn());
	swept(1, false);
	heap_unpark();
}

/* --- at once, or later ------------------------------------------------------------------------------------------------------------- */

START_TEST(test_the_first_park_is_swept_at_once)
{
	begin();
	ck_assert(park());
	ck_assert(is_turn());
	ck_assert_uint_eq(heap->scheduled, 0);
}
END_TEST

START_TEST(test_a_heap_that_runs_has_no_turn_and_wakes_nobody_later)
{
	begin();
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, NEVER);
	begin_swept_and_running();
	now += STEP;
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, NEVER);
}
END_TEST

START_TEST(test_a_new_park_outside_the_window_is_swept_at_once)
{
	begin_swept_and_running();
	now += STEP;
	ck_assert(park());
	ck_assert(is_turn());
	swept(2, false);
	heap_unpark();
	now += 50 * STEP;
	ck_assert(park());
	ck_assert(is_turn());
}
END_TEST

/* The window begins where the sweep ended: a follow-up, or a park, one interval later finds that the clock may move. */
START_TEST(test_the_window_begins_at_the_end_of_a_sweep)
{
	begin();
	ck_assert(park());
	ck_assert(is_turn());
	now += 30 * MS; /* so long did it take */
	swept(1, true);
	ck_assert_uint_eq(due, now + STEP);
	heap_unpark();
	ck_assert(park());
	now += STEP - 1;
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, now + 1);
	now += 1;
	ck_assert(is_turn());
}
END_TEST

START_TEST(test_a_park_inside_the_window_is_swept_when_the_window_ends)
{
	begin_swept_and_running();
	uint64_t end = now + STEP;
	now += 10 * MS;
	ck_assert(park()); /* is the first in this window: the scavenger puts the thread on its schedule */
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, end);
	ck_assert_uint_eq(heap->scheduled, 1);
	/* asked for another reason in between */
	now += 40 * MS;
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, end);
	now = end;
	ck_assert(is_turn());
	ck_assert_uint_eq(heap->scheduled, 0);
}
END_TEST

/* The thread left while its heap was swept, and parks again before it is noted that it was: that park is not taken for the swept one. */
START_TEST(test_a_park_that_begins_while_the_last_one_is_swept_is_a_new_one)
{
	begin();
	ck_assert(park());
	ck_assert(is_turn());
	heap_unpark();
	ck_assert(park());
	swept(1, false);
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, now + STEP);
	now = due;
	ck_assert(is_turn());
}
END_TEST

/* --- the schedule ------------------------------------------------------------------------------------------------------------------ */

/* On the schedule, and in the park that put it there; 10 ms into the window. */
static void begin_scheduled(void)
{
	begin_swept_and_running();
	now += 10 * MS;
	ck_assert(park());
	ck_assert(!is_turn());
}

static void park_again(void)
{
	heap_unpark();
	ck_assert(!park()); /* wakes nobody */
}

START_TEST(test_a_thread_on_the_schedule_wakes_nobody)
{
	begin_scheduled();
	for (int i = 0; i < 50; i++) {
		now += MS;
		park_again();
	}
}
END_TEST

/* A park that was not seen before may be one of a thousand: it is looked at again a sixteenth of the interval later. */
START_TEST(test_a_park_not_seen_before_is_looked_at_again_a_sixteenth_later)
{
	begin_scheduled();
	park_again();
	now += 90 * MS;
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, now + STEP / 16);
	ck_assert_uint_eq(heap->scheduled, 1);
	now += STEP / 16 - 1;
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, now + 1);
	now += 1;
	ck_assert(is_turn());
}
END_TEST

START_TEST(test_that_look_comes_after_1_ms_at_least)
{
	begin();
	policy.step_ns = 10 * MS;
	ck_assert(park());
	ck_assert(is_turn());
	swept(1, false);
	heap_unpark();
	ck_assert(park());
	ck_assert(!is_turn());
	park_again();
	now += 10 * MS;
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, now + MS);
}
END_TEST

START_TEST(test_another_new_park_at_that_look_waits_for_an_interval)
{
	begin_scheduled();
	park_again();
	now += 90 * MS;
	ck_assert(!is_turn());
	now = due;
	park_again();
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, now + STEP);
	ck_assert_uint_eq(heap->scheduled, 1);
	now += STEP;
	ck_assert(is_turn()); /* the same park still */
}
END_TEST

START_TEST(test_a_thread_that_runs_when_its_time_has_come_is_off_the_schedule)
{
	begin_scheduled();
	heap_unpark();
	now += 90 * MS;
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, NEVER);
	ck_assert_uint_eq(heap->scheduled, 0);
	now += MS;
	ck_assert(park());
	ck_assert(is_turn());
}
END_TEST

/* The scavenger happens to look while the thread runs: its parks wake nobody, so its time must not be lost. */
START_TEST(test_a_thread_that_runs_for_a_moment_keeps_its_place_on_the_schedule)
{
	begin_scheduled();
	uint64_t end = due;
	heap_unpark();
	now += MS;
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, end);
	ck_assert(!park());
	now = end;
	ck_assert(!is_turn());
	now = due;
	ck_assert(is_turn());
}
END_TEST

/* Whichever comes first, the mark or the park: there is a wake or a look. */
START_TEST(test_a_park_around_the_moment_it_is_taken_off_is_woken_for_or_seen)
{
	begin_scheduled();
	heap_unpark();
	now += 90 * MS;
	if (_i == 0) { /* parked, then the mark is cleared: seen */
		ck_assert(!park());
		ck_assert(!is_turn());
		ck_assert_uint_ne(due, NEVER);
	} else { /* the mark is cleared, then parked: woken for */
		ck_assert(!is_turn());
		ck_assert_uint_eq(due, NEVER);
		ck_assert(park());
	}
}
END_TEST

/* --- following up ------------------------------------------------------------------------------------------------------------------ */

START_TEST(test_what_was_held_back_is_followed_up_an_interval_later)
{
	begin();
	park();
	ck_assert(is_turn());
	swept(10, true);
	ck_assert_uint_eq(due, now + STEP);
	now += STEP - 1;
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, now + 1);
	now += 1;
	ck_assert(is_turn());
	swept(11, false);
	ck_assert_uint_eq(due, now + AGAIN);
}
END_TEST

/* Not until nothing is left: other threads keep renewing what is abandoned. */
START_TEST(test_follow_ups_end_two_epochs_after_the_first_sweep)
{
	begin();
	park();
	for (uint32_t epoch = 10; epoch < 12; epoch++) {
		ck_assert(is_turn());
		swept(epoch, true);
		ck_assert_uint_eq(due, now + STEP);
		now = due;
	}
	ck_assert(is_turn());
	swept(12, true);
	ck_assert_uint_eq(due, now + AGAIN);
}
END_TEST

START_TEST(test_follow_ups_end_after_six_sweeps_though_the_clock_stands_still)
{
	begin();
	park();
	for (int i = 1; i < 6; i++) {
		ck_assert(is_turn());
		swept(10, true);
		ck_assert_uint_eq(due, now + STEP);
		now = due;
	}
	ck_assert(is_turn());
	swept(10, true);
	ck_assert_uint_eq(due, now + AGAIN);
}
END_TEST

START_TEST(test_each_park_has_follow_ups_of_its_own)
{
	begin();
	for (int i = 0; i < 3; i++) {
		park();
		for (uint32_t n = 0; n < 3; n++) {
			ck_assert(is_turn());
			swept(10 + n, true);
			ck_assert_uint_eq(due - now, n < 2 ? STEP : AGAIN);
			now += STEP;
		}
		heap_unpark();
	}
}
END_TEST

/* For what other threads free into it. */
START_TEST(test_a_thread_that_stays_parked_is_swept_every_30_s)
{
	begin();
	park();
	ck_assert(is_turn());
	swept(10, false);
	for (uint32_t i = 0; i < 100; i++) {
		ck_assert_uint_eq(due, now + AGAIN);
		now += AGAIN / 2;
		ck_assert(!is_turn());
		ck_assert_uint_eq(due, now + AGAIN / 2);
		now = due;
		ck_assert(is_turn());
		swept(12 + i, i % 3 == 0); /* two epochs past its first: no follow-up */
	}
}
END_TEST

/* --- the floor --------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_a_share_that_is_old_is_looked_at_as_soon_as_anybody_looks)
{
	begin();
	heap_one_clock = true;
	park();
	ck_assert(is_turn());
	heap->floor_bytes = MIB;
	swept(heap_epoch(heap), false);
	uint64_t again = due;
	now += MS;
	atomic_fetch_add(&heap_process_epoch, 255);
	ck_assert(!is_turn());
	ck_assert_uint_eq(due, again); /* nothing is woken for it */
	atomic_fetch_add(&heap_process_epoch, 1);
	ck_assert(is_turn());
	heap->floor_bytes = 0;
	ck_assert(!is_turn());
}
END_TEST

START_TEST(test_without_steps_each_park_is_swept_at_once)
{
	begin();
	policy.step_ns = 0;
	for (int i = 0; i < 10; i++) {
		ck_assert(park());
		ck_assert(is_turn());
		swept(0, false);
		ck_assert_uint_eq(due, now + AGAIN);
		ck_assert(!is_turn());
		heap_unpark();
	}
}
END_TEST

/* --- many parks -------------------------------------------------------------------------------------------------------------------- */

static unsigned wakes, looks, sweeps;
static uint64_t awake_at = NEVER;
static uint32_t epoch;

/* The scavenger is woken, or wakes by itself. */
static void scavenge(void)
{
	looks++;
	if (is_turn()) {
		sweeps++;
		swept(++epoch, true);
	}
	awake_at = due;
}

static void pass_time(uint64_t ns)
{
	uint64_t end = now + ns;

	while (awake_at <= end) {
		now = awake_at > now ? awake_at : now;
		scavenge();
	}
	now = end;
}

/* 1000 parks of 1 ms, with as much, no, or ten times as much work in between. */
START_TEST(test_a_thousand_parks_of_1_ms_wake_few_times)
{
	static const uint64_t work[] = {1, 0, 10};
	uint64_t start = now;

	begin();
	for (int i = 0; i < 1000; i++) {
		if (park()) {
			wakes++;
			scavenge();
		}
		pass_time(MS);
		heap_unpark();
		pass_time(work[_i] * MS);
	}
	unsigned windows = (unsigned)((now - start) / STEP);
	ck_assert_uint_le(wakes, 4 * windows + 4);
	ck_assert_uint_le(looks, 4 * windows + 4);
	ck_assert_uint_ge(sweeps, 1);
	/* the last park stays: it is swept within two intervals, without a wake if it is on the schedule */
	unsigned before = sweeps;
	if (park())
		scavenge();
	pass_time(2 * STEP);
	ck_assert_uint_gt(sweeps, before);
}
END_TEST

/* A scavenger that looks at every odd moment, as when there are many threads: nothing is lost by it. */
START_TEST(test_no_park_that_stays_is_forgotten_whenever_it_is_looked_at)
{
	struct random random = {.state = (uint64_t)_i + 1};

	begin();
	for (int round = 0; round < 300; round++) {
		for (uint32_t n = random_below(&random, 8); n > 0; n--) {
			if (park())
				scavenge();
			pass_time(random_below(&random, 60) * MS);
			if (random_below(&random, 3) == 0)
				scavenge();
			heap_unpark();
			if (random_below(&random, 3) == 0)
				scavenge();
			pass_time(random_below(&random, 30) * MS);
			if (random_below(&random, 3) == 0)
				scavenge();
		}
		unsigned before = sweeps;
		if (park())
			scavenge();
		pass_time(2 * STEP);
		ck_assert_uint_gt(sweeps, before);
		heap_unpark();
	}
}
END_TEST

static TCase *turns(void)
{
	TCase *tcase = tcase_create("turns");

	tcase_add_test(tcase, test_the_first_park_is_swept_at_once);
	tcase_add_test(tcase, test_a_heap_that_runs_has_no_turn_and_wakes_nobody_later);
	tcase_add_test(tcase, test_a_new_park_outside_the_window_is_swept_at_once);
	tcase_add_test(tcase, test_the_window_begins_at_the_end_of_a_sweep);
	tcase_add_test(tcase, test_a_park_inside_the_window_is_swept_when_the_window_ends);
	tcase_add_test(tcase, test_a_park_that_begins_while_the_last_one_is_swept_is_a_new_one);
	return tcase;
}

static TCase *schedule(void)
{
	TCase *tcase = tcase_create("schedule");

	tcase_add_test(tcase, test_a_thread_on_the_schedule_wakes_nobody);
	tcase_add_test(tcase, test_a_park_not_seen_before_is_looked_at_again_a_sixteenth_later);
	tcase_add_test(tcase, test_that_look_comes_after_1_ms_at_least);
	tcase_add_test(tcase, test_another_new_park_at_that_look_waits_for_an_interval);
	tcase_add_test(tcase, test_a_thread_that_runs_when_its_time_has_come_is_off_the_schedule);
	tcase_add_test(tcase, test_a_thread_that_runs_for_a_moment_keeps_its_place_on_the_schedule);
	tcase_add_loop_test(tcase, test_a_park_around_the_moment_it_is_taken_off_is_woken_for_or_seen, 0, 2);
	tcase_add_loop_test(tcase, test_a_thousand_parks_of_1_ms_wake_few_times, 0, 3);
	tcase_add_loop_test(tcase, test_no_park_that_stays_is_forgotten_whenever_it_is_looked_at, 0, 8);
	return tcase;
}

static TCase *follow_ups(void)
{
	TCase *tcase = tcase_create("follow-ups");

	tcase_add_test(tcase, test_what_was_held_back_is_followed_up_an_interval_later);
	tcase_add_test(tcase, test_follow_ups_end_two_epochs_after_the_first_sweep);
	tcase_add_test(tcase, test_follow_ups_end_after_six_sweeps_though_the_clock_stands_still);
	tcase_add_test(tcase, test_each_park_has_follow_ups_of_its_own);
	tcase_add_test(tcase, test_a_thread_that_stays_parked_is_swept_every_30_s);
	tcase_add_test(tcase, test_a_share_that_is_old_is_looked_at_as_soon_as_anybody_looks);
	tcase_add_test(tcase, test_without_steps_each_park_is_swept_at_once);
	return tcase;
}

int main(void)
{
	Suite *suite = unit_suite("parks");

	suite_add_tcase(suite, turns());
	suite_add_tcase(suite, schedule());
	suite_add_tcase(suite, follow_ups());
	return unit_run(suite);
}
