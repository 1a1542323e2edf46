/* SPDX-License-Identifier: MIT */
/*
 * Suite base: rounding, powers of two and bit scans at their edges.
 */
#include "base/base.h"
#include "support/unit.h"

START_TEST(test_rounding_goes_to_the_next_multiple_and_keeps_multiples)
{
	for (size_t align = 1; align <= MIB; align *= 2) {
		ck_assert_uint_eq(align_up(0, align), 0);
		ck_assert_uint_eq(align_up(1, align), align);
		ck_assert_uint_eq(align_up(align, align), align);
		ck_assert_uint_eq(align_up(align + 1, align), 2 * align);
		ck_assert_uint_eq(align_down(align, align), align);
		ck_assert_uint_eq(align_down(2 * align - 1, align), align);
	}
	ck_assert_uint_eq(align_up(PTRDIFF_MAX, 4096), (size_t)PTRDIFF_MAX + 1);
}
END_TEST

START_TEST(test_only_powers_of_two_are_powers_of_two)
{
	ck_assert(!is_pow2(0));
	for (unsigned bit = 0; bit < 64; bit++)
		ck_assert(is_pow2((size_t)1 << bit));
	for (unsigned bit = 2; bit < 64; bit++) {
		ck_assert(!is_pow2(((size_t)1 << bit) - 1));
		ck_assert(!is_pow2(((size_t)1 << bit) + 1));
	}
}
END_TEST

START_TEST(test_bit_scans_find_the_outer_bits)
{
	for (unsigned low = 0; low < 64; low++) {
		for (unsigned high = low; high < 64; high++) {
			uint64_t word = UINT64_C(1) << low | UINT64_C(1) << high;

			unit_holds(bit_lowest(word) == low);
			unit_holds(bit_highest(word) == high);
		}
	}
}
END_TEST

START_TEST(test_low_bits_cover_none_to_all)
{
	ck_assert(bits_low(0) == 0);
	ck_assert(bits_low(64) == UINT64_MAX);
	for (unsigned n = 1; n < 64; n++) {
		ck_assert_uint_eq(bit_highest(bits_low(n)), n - 1);
		ck_assert_int_eq(__builtin_popcountll(bits_low(n)), (int)n);
	}
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("base");
	TCase *words = tcase_create("words");

	tcase_add_test(words, test_rounding_goes_to_the_next_multiple_and_keeps_multiples);
	tcase_add_test(words, test_only_powers_of_two_are_powers_of_two);
	tcase_add_test(words, test_bit_scans_find_the_outer_bits);
	tcase_add_test(words, test_low_bits_cover_none_to_all);
	suite_add_tcase(suite, words);
	return unit_run(suite);
}
