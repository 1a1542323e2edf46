/* SPDX-License-Identifier: MIT */
/*
 * Suite random: known outputs of the construction, and that seeds, salts and bounds do what they say.
 */
#include "base/random.h"
#include "support/unit.h"

#define DRAWS 100000

/* The first outputs of splitmix64 from state 0, as published with the generator by its authors. */
START_TEST(test_the_sequence_is_splitmix64)
{
	struct random random = {.state = 0};

	ck_assert(random_next(&random) == UINT64_C(0xe220a8397b1dcdaf));
	ck_assert(random_next(&random) == UINT64_C(0x6e789e6aa1b965f4));
	ck_assert(random_next(&random) == UINT64_C(0x06c45d188009454f));
}
END_TEST

START_TEST(test_salts_give_different_sequences)
{
	struct random a, b, again;

	random_init(&a, 1);
	random_init(&b, 2);
	random_init(&again, 1);
	ck_assert(a.state != b.state);
	ck_assert(random_next(&a) == random_next(&again));
}
END_TEST

START_TEST(test_draws_stay_below_the_bound_and_reach_every_value)
{
	static const uint32_t bounds[] = {1, 2, 3, 7, 64, 1000};
	struct random random;

	random_init(&random, 3);
	for (size_t b = 0; b < array_len(bounds); b++) {
		bool seen[1000] = {false};
		uint32_t highest = 0, values = 0;

		for (int i = 0; i < DRAWS; i++) {
			uint32_t draw = random_below(&random, bounds[b]);

			if (draw >= array_len(seen))
				ck_abort_msg("drew %u below %u", draw, bounds[b]);
			highest = draw > highest ? draw : highest;
			values += !seen[draw];
			seen[draw] = true;
		}
		ck_assert_uint_eq(highest, bounds[b] - 1);
		ck_assert_uint_eq(values, bounds[b]);
	}
}
END_TEST

/* Each bit is a coin: 100 000 draws have a deviation of 158 from the half; 1000 is beyond six of them. */
START_TEST(test_every_bit_is_set_half_of_the_time)
{
	struct random random = {.state = 42};
	int set[64] = {0};

	for (int i = 0; i < DRAWS; i++) {
		uint64_t draw = random_next(&random);

		for (int bit = 0; bit < 64; bit++)
			set[bit] += (int)(draw >> bit & 1);
	}
	for (int bit = 0; bit < 64; bit++) {
		ck_assert_int_gt(set[bit], DRAWS / 2 - 1000);
		ck_assert_int_lt(set[bit], DRAWS / 2 + 1000);
	}
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("random");
	TCase *draws = tcase_create("draws");

	tcase_add_test(draws, test_the_sequence_is_splitmix64);
	tcase_add_test(draws, test_salts_give_different_sequences);
	tcase_add_test(draws, test_draws_stay_below_the_bound_and_reach_every_value);
	tcase_add_test(draws, test_every_bit_is_set_half_of_the_time);
	suite_add_tcase(suite, draws);
	return unit_run(suite);
}
