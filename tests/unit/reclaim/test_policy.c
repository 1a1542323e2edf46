/* SPDX-License-Identifier: MIT */
/*
 * Suite policy: the two policies as numbers: what is young, what may stay past that and for how long, what fits under the floor and in
 * which order, how the floor follows what is wanted again. No heap and no kernel.
 */
#include "reclaim/policy.h"

#include "support/unit.h"

#include <string.h>

#define MS UINT64_C(1000000)
#define SEED true
#define DEFAULT false

static struct policy policy;

static void begin(bool seed)
{
	policy_init(&policy, seed);
}

/* --- both -------------------------------------------------------------------------------------------------------------------------- */

/* 0: default, 1: seed */
START_TEST(test_ages_0_and_1_are_held_and_age_2_is_not)
{
	begin(_i == 1);
	for (unsigned keep = 0; keep < 300; keep += 50) {
		ck_assert_int_eq(policy_judge(&policy, 0, keep), POLICY_HOLD);
		ck_assert_int_eq(policy_judge(&policy, 1, keep), POLICY_HOLD);
		ck_assert_int_ne(policy_judge(&policy, 2, keep), POLICY_HOLD);
	}
}
END_TEST

START_TEST(test_what_may_stay_for_no_time_is_returned_and_never_expires)
{
	begin(_i == 1);
	for (unsigned age = 2; age < 1000; age++)
		ck_assert_int_eq(policy_judge(&policy, age, 0), POLICY_RETURN);
}
END_TEST

START_TEST(test_what_may_stay_expires_at_the_end_of_its_time)
{
	begin(_i == 1);
	for (unsigned age = 2; age < 10; age++)
		ck_assert_int_eq(policy_judge(&policy, age, 10), POLICY_KEEP);
	ck_assert_int_eq(policy_judge(&policy, 10, 10), POLICY_EXPIRED);
	ck_assert_int_eq(policy_judge(&policy, UINT16_MAX, 10), POLICY_EXPIRED);
}
END_TEST

START_TEST(test_a_clock_moves_when_a_whole_step_has_passed)
{
	begin(_i == 1);
	uint64_t start = 12345 * MS;
	ck_assert(!policy_may_step(&policy, start, start));
	ck_assert(!policy_may_step(&policy, start, start + policy.step_ns - 1));
	ck_assert(policy_may_step(&policy, start, start + policy.step_ns));
	ck_assert(policy_may_step(&policy, start, start + 1000 * policy.step_ns));
}
END_TEST

START_TEST(test_a_clock_that_went_backwards_moves_and_is_healed)
{
	begin(_i == 1);
	ck_assert(policy_may_step(&policy, 1000 * MS, 999 * MS));
	ck_assert(policy_may_step(&policy, UINT64_MAX, 0));
	ck_assert(!policy_may_step(&policy, 999 * MS, 999 * MS));
}
END_TEST

START_TEST(test_without_steps_there_is_no_clock_no_hold_and_no_keeping)
{
	begin(_i == 1);
	policy.step_ns = 0;
	ck_assert(!policy_may_step(&policy, 0, UINT64_MAX));
	ck_assert(!policy_may_step(&policy, 1, 0));
	for (unsigned age = 0; age < 300; age++)
		ck_assert_int_eq(policy_judge(&policy, age, 256), POLICY_RETURN);
	if (!policy.seed)
		ck_assert_uint_eq(policy_keep_steps(&policy, 500), 0);
}
END_TEST

/* --- seed -------------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_the_seeds_numbers_are_100_ms_256_steps_and_4_MiB)
{
	begin(SEED);
	ck_assert(policy.seed);
	ck_assert_uint_eq(policy.step_ns, 100 * MS);
	ck_assert_uint_eq(policy.floor_bytes, 4 * MIB);
	for (unsigned ms = 0; ms <= REUSE_MAX_MS; ms += 250)
		ck_assert_uint_eq(policy_keep_steps(&policy, ms), 256);
}
END_TEST

START_TEST(test_the_floor_is_taken_to_its_last_byte_and_given_back)
{
	begin(SEED);
	ck_assert(policy_floor_take(&policy, 3 * MIB));
	ck_assert(!policy_floor_take(&policy, MIB + 1));
	ck_assert_uint_eq(policy.shared_bytes, 3 * MIB);
	ck_assert(policy_floor_take(&policy, MIB));
	ck_assert(!policy_floor_take(&policy, 1));
	ck_assert(policy_floor_take(&policy, 0));
	policy_floor_give(&policy, 3 * MIB);
	ck_assert(policy_floor_take(&policy, 2 * MIB));
	ck_assert_uint_eq(policy.shared_bytes, 3 * MIB);
	policy_floor_give(&policy, 3 * MIB);
	ck_assert_uint_eq(policy.shared_bytes, 0);
}
END_TEST

START_TEST(test_a_page_larger_than_the_floor_never_fits)
{
	begin(SEED);
	ck_assert(!policy_floor_take(&policy, 4 * MIB + 1));
	ck_assert(!policy_floor_take(&policy, SIZE_MAX));
	policy.floor_bytes = 0;
	ck_assert(!policy_floor_take(&policy, 1));
	ck_assert_uint_eq(policy.shared_bytes, 0);
}
END_TEST

/* What was taken while the floor was larger. */
START_TEST(test_a_floor_that_became_smaller_takes_no_more)
{
	begin(SEED);
	ck_assert(policy_floor_take(&policy, 4 * MIB));
	policy.floor_bytes = MIB;
	ck_assert(!policy_floor_take(&policy, 1));
	policy_floor_give(&policy, 4 * MIB);
	ck_assert(policy_floor_take(&policy, MIB));
}
END_TEST

START_TEST(test_the_seeds_floor_is_a_constant)
{
	begin(SEED);
	policy_know_memory(&policy, 64 * GIB);
	policy_end_pass(&policy, 100 * MIB, 0);
	ck_assert_uint_eq(policy.floor_bytes, 4 * MIB);
	policy_end_pass(&policy, 0, 100 * MIB);
	ck_assert_uint_eq(policy.floor_bytes, 4 * MIB);
}
END_TEST

/* --- default: how long ------------------------------------------------------------------------------------------------------------- */

START_TEST(test_what_never_came_back_does_not_stay)
{
	begin(DEFAULT);
	ck_assert(!policy.seed);
	ck_assert_uint_eq(policy_keep_steps(&policy, 0), 0);
}
END_TEST

START_TEST(test_what_came_back_stays_half_as_long_again)
{
	begin(DEFAULT);
	unsigned step_ms = (unsigned)(policy.step_ns / MS);
	for (unsigned ms = 1; ms <= REUSE_MAX_MS / 2; ms++) {
		unsigned steps = policy_keep_steps(&policy, ms);
		/* never less, whatever the clock's step hides; and a step or two more at most */
		unit_holds(steps * step_ms >= ms + ms / 2);
		unit_holds((steps - policy.young_steps) * step_ms <= ms + ms / 2);
	}
}
END_TEST

START_TEST(test_nothing_stays_longer_than_the_break_even_time)
{
	begin(DEFAULT);
	unsigned most = policy.young_steps + (unsigned)(REUSE_MAX_MS * MS / policy.step_ns);
	unsigned before = 0;
	for (unsigned ms = 1; ms <= REUSE_MAX_MS; ms++) {
		unsigned steps = policy_keep_steps(&policy, ms);
		unit_holds(steps >= before && steps <= most);
		before = steps;
	}
	ck_assert_uint_eq(policy_keep_steps(&policy, REUSE_MAX_MS), most);
}
END_TEST

/* A thread that goes idle has its memory back in 250 ms: two steps of hold, and the tick that finds it. */
START_TEST(test_the_hold_is_over_well_before_250_ms)
{
	begin(DEFAULT);
	ck_assert_uint_le((policy.young_steps + 2) * policy.step_ns, 250 * MS);
}
END_TEST

START_TEST(test_before_anybody_chose_it_is_the_default_policy)
{
	const struct policy unchosen = POLICY_DEFAULT;

	begin(DEFAULT);
	ck_assert_int_eq(memcmp(&policy, &unchosen, sizeof(policy)), 0);
}
END_TEST

/* --- default: how much ------------------------------------------------------------------------------------------------------------- */

/* Pages of one pass: AGE[i] has MIBS[i]. Returns a bit for each that fits. */
static unsigned pass(const unsigned *age, const unsigned *mibs, unsigned n)
{
	unsigned fits = 0;

	for (unsigned i = 0; i < n; i++)
		fits |= (unsigned)policy_floor_fits(&policy, age[i], mibs[i] * MIB) << i;
	policy_end_pass(&policy, 0, 0);
	return fits;
}

START_TEST(test_the_most_recently_used_fit_first)
{
	static const unsigned mibs[] = {1, 2, 2};

	begin(DEFAULT);
	/* the first pass knows nothing yet, lets all stay, and counts */
	ck_assert_uint_eq(pass((const unsigned[]){9, 2, 5}, mibs, 3), 7);
	ck_assert_uint_eq(policy.kept_bytes, 4 * MIB);
	/* a step later: 2 + 2 MiB of ages 3 and 6 are the floor, age 10 is over its edge */
	ck_assert_uint_eq(pass((const unsigned[]){10, 3, 6}, mibs, 3), 6);
}
END_TEST

START_TEST(test_at_the_edge_as_much_fits_as_there_is_room_for)
{
	begin(DEFAULT);
	ck_assert_uint_eq(pass((const unsigned[]){2, 5, 5, 5}, (const unsigned[]){3, 1, 1, 1}, 4), 15);
	/* the 3 MiB of age 3, and one of the three */
	ck_assert_uint_eq(pass((const unsigned[]){6, 6, 3, 6}, (const unsigned[]){1, 1, 3, 1}, 4), 5);
	ck_assert_uint_eq(policy.kept_bytes, 4 * MIB);
}
END_TEST

START_TEST(test_asking_for_room_takes_none)
{
	begin(DEFAULT);
	pass((const unsigned[]){2, 5}, (const unsigned[]){3, 3}, 2);
	for (int i = 0; i < 10; i++) {
		ck_assert(policy_floor_has_room(&policy, 3, 3 * MIB));
		ck_assert(policy_floor_has_room(&policy, 6, MIB));
		ck_assert(!policy_floor_has_room(&policy, 6, MIB + 1));
		ck_assert(!policy_floor_has_room(&policy, 7, 1));
	}
	ck_assert_uint_eq(pass((const unsigned[]){3, 6}, (const unsigned[]){3, 1}, 2), 3);
}
END_TEST

START_TEST(test_what_is_larger_than_the_floor_goes_a_pass_later)
{
	begin(DEFAULT);
	ck_assert_uint_eq(pass((const unsigned[]){4, 4}, (const unsigned[]){5, 5}, 2), 3);
	ck_assert_uint_eq(pass((const unsigned[]){5, 5}, (const unsigned[]){5, 5}, 2), 0);
	ck_assert_uint_eq(policy.kept_bytes, 4 * MIB);
}
END_TEST

START_TEST(test_less_than_the_floor_fits_at_every_age)
{
	begin(DEFAULT);
	for (unsigned age = 2; age <= POLICY_AGES; age += 50) {
		ck_assert_uint_eq(pass(&age, (const unsigned[]){4}, 1), 1);
		ck_assert_uint_eq(policy.kept_bytes, 4 * MIB);
	}
}
END_TEST

START_TEST(test_a_pass_that_judged_nothing_keeps_nothing)
{
	begin(DEFAULT);
	ck_assert_uint_eq(pass((const unsigned[]){2}, (const unsigned[]){4}, 1), 1);
	policy_end_pass(&policy, 0, 0);
	ck_assert_uint_eq(policy.kept_bytes, 0);
	/* and all is as at the beginning */
	ck_assert_uint_eq(pass((const unsigned[]){200}, (const unsigned[]){4}, 1), 1);
}
END_TEST

START_TEST(test_the_floor_does_not_grow_before_it_is_known_how_much_memory_there_is)
{
	begin(DEFAULT);
	policy_end_pass(&policy, 100 * MIB, 0);
	ck_assert_uint_eq(policy.floor_bytes, 4 * MIB);
}
END_TEST

START_TEST(test_the_floor_grows_by_ghosts_up_to_a_sixteenth_of_the_memory)
{
	begin(DEFAULT);
	policy_know_memory(&policy, 16 * 64 * MIB);
	policy_end_pass(&policy, 10 * MIB, 0);
	ck_assert_uint_eq(policy.floor_bytes, 14 * MIB);
	policy_end_pass(&policy, 30 * MIB, 0);
	ck_assert_uint_eq(policy.floor_bytes, 44 * MIB);
	policy_end_pass(&policy, 30 * MIB, 0);
	ck_assert_uint_eq(policy.floor_bytes, 64 * MIB);
	policy_end_pass(&policy, SIZE_MAX, 0);
	ck_assert_uint_eq(policy.floor_bytes, 64 * MIB);
}
END_TEST

START_TEST(test_the_floor_shrinks_by_what_was_held_in_vain_down_to_the_least)
{
	begin(DEFAULT);
	policy_know_memory(&policy, GIB);
	policy_end_pass(&policy, 20 * MIB, 0);
	policy_end_pass(&policy, 0, 5 * MIB);
	ck_assert_uint_eq(policy.floor_bytes, 19 * MIB);
	policy_end_pass(&policy, 0, SIZE_MAX);
	ck_assert_uint_eq(policy.floor_bytes, 4 * MIB);
	policy_end_pass(&policy, 6 * MIB, 2 * MIB);
	ck_assert_uint_eq(policy.floor_bytes, 8 * MIB);
}
END_TEST

/* A container of 32 MiB: the floor stays what it always is. */
START_TEST(test_little_memory_does_not_make_the_floor_smaller)
{
	begin(DEFAULT);
	policy_know_memory(&policy, 32 * MIB);
	policy_end_pass(&policy, 100 * MIB, 0);
	ck_assert_uint_eq(policy.floor_bytes, 4 * MIB);
	policy_know_memory(&policy, 0);
	policy_end_pass(&policy, 100 * MIB, 0);
	ck_assert_uint_eq(policy.floor_bytes, 4 * MIB);
}
END_TEST

/* More is wanted than the floor held: it grows, and what fits grows with it. */
START_TEST(test_a_grown_floor_has_room_for_more)
{
	static const unsigned mibs[] = {10, 10};

	begin(DEFAULT);
	policy_know_memory(&policy, GIB);
	pass((const unsigned[]){2, 4}, mibs, 2);
	ck_assert_uint_eq(pass((const unsigned[]){3, 5}, mibs, 2), 0);
	policy_end_pass(&policy, 16 * MIB, 0);
	policy_floor_fits(&policy, 2, 10 * MIB);
	policy_floor_fits(&policy, 4, 10 * MIB);
	policy_end_pass(&policy, 0, 0);
	ck_assert_uint_eq(pass((const unsigned[]){3, 5}, mibs, 2), 3);
}
END_TEST

static TCase *both(void)
{
	TCase *tcase = tcase_create("both");

	tcase_add_loop_test(tcase, test_ages_0_and_1_are_held_and_age_2_is_not, 0, 2);
	tcase_add_loop_test(tcase, test_what_may_stay_for_no_time_is_returned_and_never_expires, 0, 2);
	tcase_add_loop_test(tcase, test_what_may_stay_expires_at_the_end_of_its_time, 0, 2);
	tcase_add_loop_test(tcase, test_a_clock_moves_when_a_whole_step_has_passed, 0, 2);
	tcase_add_loop_test(tcase, test_a_clock_that_went_backwards_moves_and_is_healed, 0, 2);
	tcase_add_loop_test(tcase, test_without_steps_there_is_no_clock_no_hold_and_no_keeping, 0, 2);
	return tcase;
}

static TCase *seed(void)
{
	TCase *tcase = tcase_create("seed");

	tcase_add_test(tcase, test_the_seeds_numbers_are_100_ms_256_steps_and_4_MiB);
	tcase_add_test(tcase, test_the_floor_is_taken_to_its_last_byte_and_given_back);
	tcase_add_test(tcase, test_a_page_larger_than_the_floor_never_fits);
	tcase_add_test(tcase, test_a_floor_that_became_smaller_takes_no_more);
	tcase_add_test(tcase, test_the_seeds_floor_is_a_constant);
	return tcase;
}

static TCase *how_long(void)
{
	TCase *tcase = tcase_create("how long");

	tcase_add_test(tcase, test_what_never_came_back_does_not_stay);
	tcase_add_test(tcase, test_what_came_back_stays_half_as_long_again);
	tcase_add_test(tcase, test_nothing_stays_longer_than_the_break_even_time);
	tcase_add_test(tcase, test_the_hold_is_over_well_before_250_ms);
	tcase_add_test(tcase, test_before_anybody_chose_it_is_the_default_policy);
	return tcase;
}

static TCase *how_much(void)
{
	TCase *tcase = tcase_create("how much");

	tcase_add_test(tcase, test_the_most_recently_used_fit_first);
	tcase_add_test(tcase, test_at_the_edge_as_much_fits_as_there_is_room_for);
	tcase_add_test(tcase, test_asking_for_room_takes_none);
	tcase_add_test(tcase, test_what_is_larger_than_the_floor_goes_a_pass_later);
	tcase_add_test(tcase, test_less_than_the_floor_fits_at_every_age);
	tcase_add_test(tcase, test_a_pass_that_judged_nothing_keeps_nothing);
	tcase_add_test(tcase, test_the_floor_does_not_grow_before_it_is_known_how_much_memory_there_is);
	tcase_add_test(tcase, test_the_floor_grows_by_ghosts_up_to_a_sixteenth_of_the_memory);
	tcase_add_test(tcase, test_the_floor_shrinks_by_what_was_held_in_vain_down_to_the_least);
	tcase_add_test(tcase, test_little_memory_does_not_make_the_floor_smaller);
	tcase_add_test(tcase, test_a_grown_floor_has_room_for_more);
	return tcase;
}

int main(void)
{
	Suite *suite = unit_suite("policy");

	suite_add_tcase(suite, both());
	suite_add_tcase(suite, seed());
	suite_add_tcase(suite, how_long());
	suite_add_tcase(suite, how_much());
	return unit_run(suite);
}
