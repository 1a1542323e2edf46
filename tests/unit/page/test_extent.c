/* SPDX-License-Identifier: MIT */
/*
 * Suite extent: how far blocks are written is known of nothing at first, at once of what was found, shrinks at once and grows again the
 * later the more was brought in for nothing; and what a look finds is what was written.
 */
#include "page/extent.h"

#include "kernel/caps.h"
#include "kernel/populate.h"
#include "page/reuse.h"
#include "page/sizeclass.h"
#include "support/unit.h"
#include "unit/region/memory.h"

#include <sys/mman.h>

#define KEY 17
#define BLOCK (256 * KIB)
#define WHOLE EXTENT_PARTS

static char *memory;

static void setup(void)
{
	memory_without_huge_pages();
	memory = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
}

static void learn(unsigned times, unsigned parts, bool wasted)
{
	while (times-- > 0)
		extent_learn(KEY, parts, wasted);
}

/* --- what is learned ------------------------------------------------------------------------------------------------------------- */

START_TEST(test_of_what_is_unknown_nothing_is_brought_in)
{
	for (uint32_t key = 0; key < REUSE_KEYS; key++)
		unit_holds(extent_is_unknown(key) && extent_bytes(key, BLOCK) == 0 && !extent_is_whole(key));
}
END_TEST

START_TEST(test_the_first_find_is_believed)
{
	learn(1, WHOLE / 2, false);
	ck_assert(!extent_is_unknown(KEY));
	ck_assert_uint_eq(extent_bytes(KEY, BLOCK), BLOCK / 2);
	ck_assert_uint_eq(extent_bytes(KEY + 1, BLOCK), 0);
}
END_TEST

START_TEST(test_less_is_believed_at_once_and_more_too_while_nothing_was_wasted)
{
	learn(5, WHOLE, false);
	learn(1, WHOLE / 4, false);
	ck_assert_uint_eq(extent_bytes(KEY, BLOCK), BLOCK / 4);
	learn(1, WHOLE / 2, false);
	ck_assert_uint_eq(extent_bytes(KEY, BLOCK), BLOCK / 2);
}
END_TEST

START_TEST(test_after_waste_more_must_be_found_again_and_again)
{
	unsigned needed = 2;

	learn(1, WHOLE, false);
	for (unsigned waste = 0; waste < 3; waste++, needed *= 2) {
		learn(1, WHOLE / 8, true);
		learn(needed - 1, WHOLE, false);
		ck_assert_uint_eq(extent_bytes(KEY, BLOCK), BLOCK / 8);
		learn(1, WHOLE, false);
		ck_assert_uint_eq(extent_bytes(KEY, BLOCK), BLOCK);
	}
}
END_TEST

START_TEST(test_what_grows_grows_to_the_least_that_was_found)
{
	learn(1, WHOLE, false);
	learn(1, WHOLE / 8, true);
	learn(1, WHOLE, false);
	learn(1, WHOLE / 2, false);
	ck_assert_uint_eq(extent_bytes(KEY, BLOCK), BLOCK / 2);
}
END_TEST

START_TEST(test_what_proves_right_is_forgiven)
{
	learn(1, WHOLE, false);
	learn(1, WHOLE / 8, true);
	learn(2, WHOLE, false);
	learn(1, WHOLE, false);
	learn(1, WHOLE / 8, false);
	learn(1, WHOLE, false);
	ck_assert_uint_eq(extent_bytes(KEY, BLOCK), BLOCK);
}
END_TEST

START_TEST(test_never_more_than_the_block_nor_the_bound_nor_a_few_os_pages)
{
	learn(1, WHOLE, false);
	for (unsigned c = SMALL_CLASSES; c < SIZE_CLASSES; c++) {
		size_t bytes = sizeclass_bytes(c);

		ck_assert_uint_eq(extent_bytes(KEY, bytes), bytes < EXTENT_MIN_BYTES ? 0 : bytes);
	}
	ck_assert_uint_eq(extent_bytes(KEY, GIB), EXTENT_MAX_BYTES);
	learn(1, WHOLE / 64, false);
	ck_assert_uint_eq(extent_bytes(KEY, BLOCK), 0); /* an OS page */
}
END_TEST

START_TEST(test_whole_is_what_was_found_whole_each_time)
{
	learn(1, WHOLE, false);
	ck_assert(!extent_is_whole(KEY));
	learn(1, WHOLE, false);
	ck_assert(extent_is_whole(KEY));
	learn(1, WHOLE - 1, false);
	ck_assert(!extent_is_whole(KEY));
	learn(1, WHOLE, false);
	ck_assert(!extent_is_whole(KEY));
}
END_TEST

/* --- what a look finds ------------------------------------------------------------------------------------------------------------- */

static bool can_look(void)
{
	return caps_has(CAPS_MINCORE);
}

START_TEST(test_a_look_finds_what_was_written)
{
	for (size_t written = 8; can_look() && written <= BLOCK / OS_PAGE_SIZE; written *= 2) {
		char *block = memory + written * MIB / 8;

		memset(block, 1, written * OS_PAGE_SIZE);
		extent_look_block(KEY + (uint32_t)written, block, BLOCK, 0);
		ck_assert_uint_eq(extent_bytes(KEY + (uint32_t)written, BLOCK), written * OS_PAGE_SIZE);
	}
	ck_assert_uint_eq(populate_counts().wasted_bytes, 0);
}
END_TEST

/* The start of a block in the middle of an OS page: what is shared says nothing, and is no part of the gap either. */
START_TEST(test_a_look_leaves_shared_os_pages_out)
{
	size_t bytes = 72 * KIB + KIB;

	if (!can_look())
		return;
	memset(memory + OS_PAGE_SIZE, 1, 18 * OS_PAGE_SIZE);
	extent_look_block(KEY, memory + 3 * KIB, bytes, 0);
	ck_assert_uint_eq(extent_bytes(KEY, bytes), bytes);
}
END_TEST

START_TEST(test_a_lone_write_far_behind_is_no_extent)
{
	if (!can_look())
		return;
	memset(memory, 1, 8 * OS_PAGE_SIZE);
	memory[BLOCK - 1] = 1;
	extent_look_block(KEY, memory, BLOCK, 0);
	ck_assert_uint_eq(extent_bytes(KEY, BLOCK), 8 * OS_PAGE_SIZE);
}
END_TEST

/* Brought in whole, of which a quarter was written. */
START_TEST(test_what_was_brought_in_and_is_zero_is_waste)
{
	if (!can_look())
		return;
	for (size_t i = 0; i < BLOCK; i += OS_PAGE_SIZE)
		((volatile char *)memory)[i] = 0;
	memset(memory, 1, BLOCK / 4);
	learn(2, WHOLE, false);
	extent_look_block(KEY, memory, BLOCK, BLOCK);
	ck_assert_uint_eq(extent_bytes(KEY, BLOCK), BLOCK / 4);
	ck_assert_uint_eq(populate_counts().wasted_bytes, BLOCK * 3 / 4);
	learn(1, WHOLE, false);
	ck_assert_uint_eq(extent_bytes(KEY, BLOCK), BLOCK / 4);
}
END_TEST

/* What is not resident is not touched by the look. */
START_TEST(test_a_look_brings_nothing_in)
{
	if (!can_look())
		return;
	memset(memory, 1, OS_PAGE_SIZE);
	extent_look_block(KEY, memory, BLOCK, BLOCK);
	extent_look_single(KEY, memory, 8 * MIB, 8 * MIB);
	ck_assert_uint_eq(memory_resident(memory, 8 * MIB), 1);
}
END_TEST

START_TEST(test_a_singleton_is_known_by_sixteenths)
{
	static const size_t sizes[] = {516 * KIB, MIB + OS_PAGE_SIZE, 3 * MIB, 40 * MIB};

	for (size_t i = 0; can_look() && i < array_len(sizes); i++) {
		uint32_t key = KEY + (uint32_t)i * 2;
		size_t len = sizes[i];

		memset(memory, 1, len / 2 + len / 64);
		extent_look_single(key, memory, len, 0);
		ck_assert_uint_le(extent_bytes(key, len), len / 2 + len / 64);
		ck_assert_uint_ge(extent_bytes(key, len), len / 2 - len / 16);
		memset(memory, 1, len);
		extent_look_single(key + 1, memory, len, 0);
		ck_assert_uint_eq(extent_bytes(key + 1, len), len);
		ck_assert_int_eq(madvise(memory, 64 * MIB, MADV_DONTNEED), 0);
	}
}
END_TEST

START_TEST(test_a_singleton_written_here_and_there_is_not_written)
{
	if (!can_look())
		return;
	for (size_t at = 0; at < 32 * MIB; at += 2 * OS_PAGE_SIZE)
		memory[at] = 1;
	extent_look_single(KEY, memory, 32 * MIB, 0);
	ck_assert_uint_eq(extent_bytes(KEY, 32 * MIB), 0);
	ck_assert(!extent_is_unknown(KEY));
}
END_TEST

START_TEST(test_without_mincore_nothing_is_learned)
{
	caps_force_off(CAPS_MINCORE);
	memset(memory, 1, 8 * MIB);
	ck_assert(!extent_may_look(GIB));
	extent_look_block(KEY, memory, BLOCK, 0);
	extent_look_single(KEY, memory, 8 * MIB, 0);
	ck_assert(extent_is_unknown(KEY));
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("extent");
	TCase *known = tcase_create("known"), *looks = tcase_create("looks");

	tcase_add_test(known, test_of_what_is_unknown_nothing_is_brought_in);
	tcase_add_test(known, test_the_first_find_is_believed);
	tcase_add_test(known, test_less_is_believed_at_once_and_more_too_while_nothing_was_wasted);
	tcase_add_test(known, test_after_waste_more_must_be_found_again_and_again);
	tcase_add_test(known, test_what_grows_grows_to_the_least_that_was_found);
	tcase_add_test(known, test_what_proves_right_is_forgiven);
	tcase_add_test(known, test_never_more_than_the_block_nor_the_bound_nor_a_few_os_pages);
	tcase_add_test(known, test_whole_is_what_was_found_whole_each_time);
	tcase_add_checked_fixture(looks, setup, NULL);
	tcase_add_test(looks, test_a_look_finds_what_was_written);
	tcase_add_test(looks, test_a_look_leaves_shared_os_pages_out);
	tcase_add_test(looks, test_a_lone_write_far_behind_is_no_extent);
	tcase_add_test(looks, test_what_was_brought_in_and_is_zero_is_waste);
	tcase_add_test(looks, test_a_look_brings_nothing_in);
	tcase_add_test(looks, test_a_singleton_is_known_by_sixteenths);
	tcase_add_test(looks, test_a_singleton_written_here_and_there_is_not_written);
	tcase_add_test(looks, test_without_mincore_nothing_is_learned);
	suite_add_tcase(suite, known);
	suite_add_tcase(suite, looks);
	return unit_run(suite);
}
