/* SPDX-License-Identifier: MIT */
/*
 * Suite sizeclass: every size there is. A class fits, is the smallest that does, and wastes little; both directions agree.
 */
#include "page/sizeclass.h"

#include "support/unit.h"

START_TEST(test_every_size_has_the_smallest_class_that_fits)
{
	for (size_t size = 0; size <= LARGE_MAX; size++) {
		unsigned c = sizeclass_of(size);

		unit_holds(c < SIZE_CLASSES);
		unit_holds(sizeclass_bytes(c) >= size);
		unit_holds(c == 0 || sizeclass_bytes(c - 1) < size);
	}
}
END_TEST

START_TEST(test_above_1_KiB_less_than_an_eighth_is_lost)
{
	for (size_t size = KIB + 1; size <= LARGE_MAX; size++)
		unit_holds((sizeclass_bytes(sizeclass_of(size)) - size) * 8 < size);
}
END_TEST

/* Below, a class is at most 16 (to 256), 32 (to 512) or 64 bytes (to 1 KiB) above the last. */
START_TEST(test_small_steps_are_16_32_and_64_bytes)
{
	ck_assert_uint_eq(sizeclass_bytes(0), 16);
	for (unsigned c = 1; sizeclass_bytes(c) <= KIB; c++) {
		size_t step = sizeclass_bytes(c) <= 256 ? 16 : sizeclass_bytes(c) <= 512 ? 32 : 64;

		ck_assert_uint_eq(sizeclass_bytes(c) - sizeclass_bytes(c - 1), step);
	}
}
END_TEST

START_TEST(test_classes_grow_are_multiples_of_16_and_name_themselves)
{
	for (unsigned c = 0; c < SIZE_CLASSES; c++) {
		size_t bytes = sizeclass_bytes(c);

		ck_assert_uint_eq(bytes % 16, 0);
		ck_assert_uint_eq(sizeclass_of(bytes), c);
		if (c > 0)
			ck_assert_uint_gt(bytes, sizeclass_bytes(c - 1));
	}
}
END_TEST

START_TEST(test_kinds_of_pages_end_where_their_sizes_do)
{
	ck_assert_uint_eq(sizeclass_bytes(SMALL_CLASSES - 1), SMALL_MAX);
	ck_assert_uint_eq(sizeclass_bytes(SMALL_CLASSES + MEDIUM_CLASSES - 1), MEDIUM_MAX);
	ck_assert_uint_eq(sizeclass_bytes(SIZE_CLASSES - 1), LARGE_MAX);
	ck_assert_uint_eq(sizeclass_of(SMALL_MAX + 1), SMALL_CLASSES);
	ck_assert_uint_eq(sizeclass_of(MEDIUM_MAX + 1), SMALL_CLASSES + MEDIUM_CLASSES);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("sizeclass");
	TCase *tcase = tcase_create("sizeclass");

	tcase_add_test(tcase, test_every_size_has_the_smallest_class_that_fits);
	tcase_add_test(tcase, test_above_1_KiB_less_than_an_eighth_is_lost);
	tcase_add_test(tcase, test_small_steps_are_16_32_and_64_bytes);
	tcase_add_test(tcase, test_classes_grow_are_multiples_of_16_and_name_themselves);
	tcase_add_test(tcase, test_kinds_of_pages_end_where_their_sizes_do);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
