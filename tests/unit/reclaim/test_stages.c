/* SPDX-License-Identifier: MIT */
/*
 * Suite stages: each stage is reached once in a quiet time; chatter does not end a quiet time, work does. Bytes and clock by hand.
 */
#include "reclaim/stages.h"

#include "support/unit.h"

#define S UINT64_C(1000000000)
#define START (1000 * S) /* any time but 0 */

static struct stages stages;

static void begin(void)
{
	stages = (struct stages){.n = 2, .after_s = {30, 75}};
	stages_note(&stages, 0, START);
}

START_TEST(test_stages_come_after_30_and_75_seconds_each_once)
{
	begin();
	ck_assert_uint_eq(stages_wait_ns(&stages, START), 30 * S);
	ck_assert(!stages_reached(&stages, START + 30 * S - 1));
	ck_assert_uint_eq(stages_wait_ns(&stages, START + 30 * S - 1), 1);
	ck_assert(stages_reached(&stages, START + 30 * S));
	ck_assert(!stages_reached(&stages, START + 30 * S));
	ck_assert_uint_eq(stages_wait_ns(&stages, START + 30 * S), 45 * S);
	ck_assert(!stages_reached(&stages, START + 75 * S - 1));
	ck_assert(stages_reached(&stages, START + 76 * S));
	ck_assert_uint_eq(stages_wait_ns(&stages, START + 76 * S), UINT64_MAX);
	for (uint64_t s = 77; s < 1000; s++)
		ck_assert(!stages_reached(&stages, START + s * S));
}
END_TEST

/* A scavenger that was held up makes up for it, one stage at a time. */
START_TEST(test_late_looks_reach_the_stages_one_by_one)
{
	begin();
	ck_assert(stages_reached(&stages, START + 100 * S));
	ck_assert_uint_eq(stages_wait_ns(&stages, START + 100 * S), 0);
	ck_assert(stages_reached(&stages, START + 100 * S));
	ck_assert(!stages_reached(&stages, START + 100 * S));
}
END_TEST

START_TEST(test_work_starts_the_time_again_and_all_stages_with_it)
{
	begin();
	ck_assert(stages_reached(&stages, START + 30 * S));
	ck_assert(stages_reached(&stages, START + 75 * S));
	stages_note(&stages, GIB, START + 80 * S);
	ck_assert_uint_eq(stages_wait_ns(&stages, START + 80 * S), 30 * S);
	ck_assert(!stages_reached(&stages, START + 109 * S));
	ck_assert(stages_reached(&stages, START + 110 * S));
	ck_assert(stages_reached(&stages, START + 155 * S));
}
END_TEST

/* 200 KB a second, as terminal programs do while nobody types; then as much as is just too much. */
START_TEST(test_chatter_does_not_end_a_quiet_time)
{
	begin();
	for (uint64_t s = 1; s <= 30; s++)
		stages_note(&stages, 200 * 1000, START + s * S);
	ck_assert(stages_reached(&stages, START + 30 * S));
	for (uint64_t s = 31; s <= 75; s++)
		stages_note(&stages, 200 * 1000, START + s * S);
	ck_assert(stages_reached(&stages, START + 75 * S));
}
END_TEST

START_TEST(test_two_mebibytes_may_be_freed_at_once_and_no_byte_more)
{
	begin();
	stages_note(&stages, STAGES_SLACK_BYTES, START + S);
	ck_assert_uint_eq(stages_wait_ns(&stages, START + S), 29 * S);
	stages_note(&stages, 1, START + S);
	ck_assert_uint_eq(stages_wait_ns(&stages, START + S), 30 * S);
	/* that was the last of the old time, not the first of the new one */
	stages_note(&stages, STAGES_SLACK_BYTES, START + 2 * S);
	ck_assert_uint_eq(stages_wait_ns(&stages, START + 2 * S), 29 * S);
}
END_TEST

START_TEST(test_the_slack_grows_by_256_KiB_a_second)
{
	begin();
	stages_note(&stages, 30 * STAGES_SLACK_BYTES_S, START + 30 * S);
	ck_assert_uint_eq(stages_wait_ns(&stages, START + 30 * S), 0);
	stages_note(&stages, 1, START + 30 * S);
	ck_assert_uint_eq(stages_wait_ns(&stages, START + 30 * S), 30 * S);
}
END_TEST

START_TEST(test_the_first_note_starts_the_clock)
{
	stages = (struct stages){.n = 1, .after_s = {5}};
	stages_note(&stages, 0, 77 * S);
	ck_assert_uint_eq(stages_wait_ns(&stages, 77 * S), 5 * S);
	ck_assert(stages_reached(&stages, 82 * S));
}
END_TEST

START_TEST(test_without_stages_there_is_nothing_to_wait_for)
{
	stages = (struct stages){0};
	stages_note(&stages, GIB, START);
	ck_assert_uint_eq(stages_wait_ns(&stages, START + 1000 * S), UINT64_MAX);
	ck_assert(!stages_reached(&stages, START + 1000 * S));
}
END_TEST

START_TEST(test_there_may_be_as_many_as_there_is_room_for)
{
	stages = (struct stages){.n = STAGES_MAX};
	for (unsigned i = 0; i < STAGES_MAX; i++)
		stages.after_s[i] = 10 * (i + 1);
	stages_note(&stages, 0, START);
	for (unsigned i = 1; i <= STAGES_MAX; i++) {
		ck_assert_uint_eq(stages_wait_ns(&stages, START + 10 * i * S - S), S);
		ck_assert(stages_reached(&stages, START + 10 * i * S));
	}
	ck_assert_uint_eq(stages_wait_ns(&stages, START + 99 * S), UINT64_MAX);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("stages");
	TCase *tcase = tcase_create("stages");

	tcase_add_test(tcase, test_stages_come_after_30_and_75_seconds_each_once);
	tcase_add_test(tcase, test_late_looks_reach_the_stages_one_by_one);
	tcase_add_test(tcase, test_work_starts_the_time_again_and_all_stages_with_it);
	tcase_add_test(tcase, test_chatter_does_not_end_a_quiet_time);
	tcase_add_test(tcase, test_two_mebibytes_may_be_freed_at_once_and_no_byte_more);
	tcase_add_test(tcase, test_the_slack_grows_by_256_KiB_a_second);
	tcase_add_test(tcase, test_the_first_note_starts_the_clock);
	tcase_add_test(tcase, test_without_stages_there_is_nothing_to_wait_for);
	tcase_add_test(tcase, test_there_may_be_as_many_as_there_is_room_for);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
