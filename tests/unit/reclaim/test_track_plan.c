/* SPDX-License-Identifier: MIT */
/*
 * Suite track_plan: the budget holds whatever faults cost and however much is written, estimates meet the truth for contiguous and for
 * regular sets, and no two windows watch the same memory.
 */
#include "reclaim/track_plan.h"

#include "base/random.h"
#include "support/unit.h"

#define SLICES 4096 /* 256 MiB */
#define SECOND TRACK_NS_PER_S

static struct track_plan plan;
static struct random dice;

/* What the memory of the tests is: whether a slice is written in every second. */
static bool (*is_written)(size_t slice);

static bool never(size_t slice)
{
	(void)slice;
	return false;
}

static bool always(size_t slice)
{
	(void)slice;
	return true;
}

static bool in_one_run(size_t slice)
{
	return slice >= 700 && slice < 700 + SLICES / 4;
}

static bool every_fourth(size_t slice)
{
	return slice % 4 == 1;
}

static uint64_t now_ns;

static void open_one(enum track_span span, uint64_t arm_ns)
{
	const struct track_window *window = &plan.window[span];
	size_t slices = 0, armed = 0;

	if (!track_plan_open(&plan, span, SLICES, random_next(&dice), now_ns))
		return;
	for (size_t at = window->offset; at < SLICES; at += window->stride, slices++)
		armed += TRACK_PART_BYTES / OS_PAGE_SIZE;
	track_plan_opened(&plan, span, slices, armed, slices * arm_ns);
}

static void close_one(enum track_span span)
{
	const struct track_window *window = &plan.window[span];
	size_t written = 0;

	for (size_t at = window->offset; at < SLICES; at += window->stride)
		if (is_written(at))
			written += TRACK_PART_BYTES / OS_PAGE_SIZE;
	track_plan_close(&plan, span, written, 2000, now_ns);
}

static void run(unsigned seconds, uint64_t fault_ns, uint64_t arm_ns)
{
	plan.fault_ns = fault_ns;
	plan.arm_ns = arm_ns;
	for (unsigned s = 0; s < seconds; s++) {
		now_ns += SECOND;
		track_plan_credit(&plan, now_ns);
		for (unsigned span = 0; span < TRACK_SPANS; span++)
			if (track_plan_is_due(&plan, (enum track_span)span, now_ns))
				close_one((enum track_span)span);
		for (unsigned span = 0; span < TRACK_SPANS; span++)
			open_one((enum track_span)span, arm_ns);
	}
}

static void begin(void)
{
	random_init(&dice, 1);
	track_plan_init(&plan, false);
	now_ns = SECOND;
	track_plan_restart(&plan, now_ns);
	is_written = always;
}

/* From a fault of bare metal to one under an emulator. */
START_TEST(test_the_budget_holds_whatever_faults_cost)
{
	static const uint64_t fault_us[] = {0, 1, 15, 50, 400};

	for (size_t i = 0; i < array_len(fault_us); i++) {
		begin();
		run(600, fault_us[i] * 1000, 2 * fault_us[i] * 1000);
		unit_holds(plan.spent_ns <= 600 * SECOND / 1000000 * TRACK_BUDGET_PPM + SECOND / 100);
		unit_holds(plan.epochs > 10);
	}
}
END_TEST

START_TEST(test_the_price_of_a_quiet_second_does_not_ruin_a_busy_one)
{
	is_written = never;
	run(300, 15000, 30000);
	uint64_t before = plan.spent_ns;
	is_written = always;
	run(300, 15000, 30000);
	ck_assert_uint_le(plan.spent_ns - before, 360 * SECOND / 1000000 * TRACK_BUDGET_PPM);
}
END_TEST

static void check_estimates(uint64_t truth)
{
	for (unsigned span = 0; span < TRACK_SPANS; span++) {
		unit_holds(plan.bytes[span] > truth - truth / 10);
		unit_holds(plan.bytes[span] < truth + truth / 10);
	}
}

START_TEST(test_a_contiguous_set_is_met_within_a_tenth)
{
	is_written = in_one_run;
	run(200, 5000, 10000);
	check_estimates(SLICES / 4 * SLICE_SIZE);
}
END_TEST

START_TEST(test_a_regular_set_is_met_within_a_tenth)
{
	is_written = every_fourth;
	run(200, 1000, 1000);
	check_estimates(SLICES / 4 * SLICE_SIZE);
}
END_TEST

START_TEST(test_all_and_nothing_are_met)
{
	run(200, 15000, 30000);
	check_estimates(SLICES * SLICE_SIZE);
	is_written = never;
	run(200, 15000, 30000);
	for (unsigned span = 0; span < TRACK_SPANS; span++)
		ck_assert_uint_eq(plan.bytes[span], 0);
}
END_TEST

START_TEST(test_full_watches_every_slice_at_once)
{
	track_plan_init(&plan, true);
	is_written = in_one_run;
	run(62, 400000, 400000);
	check_estimates(SLICES / 4 * SLICE_SIZE);
}
END_TEST

START_TEST(test_no_part_is_in_two_windows_and_each_is_met)
{
	size_t met[TRACK_PARTS] = {0};

	for (size_t at = 0; at < 1000; at++) {
		size_t part[TRACK_SPANS];
		for (unsigned span = 0; span < TRACK_SPANS; span++) {
			part[span] = track_plan_part((enum track_span)span, at);
			unit_holds(part[span] + TRACK_PART_BYTES <= SLICE_SIZE);
		}
		met[part[0] / TRACK_PART_BYTES]++;
		unit_holds(part[0] != part[1] && part[1] != part[2] && part[0] != part[2]);
	}
	for (size_t i = 0; i < TRACK_PARTS; i++)
		ck_assert_uint_gt(met[i], 200);
}
END_TEST

START_TEST(test_a_window_that_is_closed_late_counts_for_nothing)
{
	run(5, 1000, 1000);
	uint64_t before = plan.bytes[TRACK_EPOCH], faults = plan.faults;
	ck_assert_uint_ne(before, 0);
	is_written = never;
	now_ns += 20 * SECOND;
	ck_assert(track_plan_is_due(&plan, TRACK_EPOCH, now_ns));
	is_written = always;
	close_one(TRACK_EPOCH);
	ck_assert_uint_eq(plan.bytes[TRACK_EPOCH], before);
	ck_assert_uint_gt(plan.faults, faults); /* what it caused counts */
	ck_assert(!track_plan_is_due(&plan, TRACK_EPOCH, now_ns));
}
END_TEST

START_TEST(test_an_account_never_saves_more_than_two_windows_cost)
{
	track_plan_credit(&plan, now_ns += 1000 * SECOND);
	track_plan_credit(&plan, now_ns += 1000 * SECOND);
	track_plan_credit(&plan, now_ns += 1000 * SECOND);
	ck_assert_int_le(plan.window[TRACK_EPOCH].credit_ns, 2 * 1000000);
	ck_assert_int_le(plan.window[TRACK_MINUTE].credit_ns, 2 * 60 * 1750000);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("track_plan");
	TCase *c = tcase_create("plan");

	tcase_add_checked_fixture(c, begin, NULL);
	tcase_add_test(c, test_the_budget_holds_whatever_faults_cost);
	tcase_add_test(c, test_the_price_of_a_quiet_second_does_not_ruin_a_busy_one);
	tcase_add_test(c, test_a_contiguous_set_is_met_within_a_tenth);
	tcase_add_test(c, test_a_regular_set_is_met_within_a_tenth);
	tcase_add_test(c, test_all_and_nothing_are_met);
	tcase_add_test(c, test_full_watches_every_slice_at_once);
	tcase_add_test(c, test_no_part_is_in_two_windows_and_each_is_met);
	tcase_add_test(c, test_a_window_that_is_closed_late_counts_for_nothing);
	tcase_add_test(c, test_an_account_never_saves_more_than_two_windows_cost);
	suite_add_tcase(suite, c);
	return unit_run(suite);
}
