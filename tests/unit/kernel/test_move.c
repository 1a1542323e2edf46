/* SPDX-License-Identifier: MIT */
/*
 * Suite move: what is moved arrives whole and leaves nothing behind, mappings stay bounded and merge again, and where the kernel refuses
 * nothing is put over memory that may be somebody's.
 */
#include "kernel/move.h"

#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/region/memory.h"

#include <errno.h>
#include <stdio.h>

#define LEN MIB

/* Like a region: one mapping, with neighbours in use on both sides of what is moved. */
static char *memory, *from, *to;

static void begin(void)
{
	memory_without_huge_pages();
	fake_kernel_install();
	memory = (char *)kernel.mmap(NULL, 8 * LEN, PROT_READ | PROT_WRITE, 0);
	ck_assert_int_eq(kernel.madvise(memory, 8 * LEN, MADV_NOHUGEPAGE), 0);
	memset(memory, 1, 3 * LEN);
	memset(memory + 4 * LEN, 1, 4 * LEN);
	from = memory + LEN;
	to = memory + 5 * LEN;
	memset(from, 7, LEN);
	ck_assert(caps_has(CAPS_MREMAP));
}

static unsigned mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned n = 0;
	int c;

	while ((c = getc(maps)) != EOF)
		n += c == '\n';
	fclose(maps);
	return n;
}

START_TEST(test_all_of_it_is_there_and_nothing_is_left)
{
	ck_assert_int_eq(move_pages(to, from, LEN), MOVE_DONE);
	ck_assert(memory_is_filled(to, LEN, 7));
	ck_assert_uint_eq(memory_resident(from, LEN), 0);
	ck_assert(memory_is_zero(from, LEN));
	memset(from, 2, LEN);
	ck_assert(memory_is_filled(memory, LEN, 1) && memory_is_filled(from + LEN, LEN, 1) && memory_is_filled(to + LEN, LEN, 1));
	ck_assert_uint_eq(move_bytes(), LEN);
}
END_TEST

START_TEST(test_a_restored_range_is_empty_and_merges)
{
	unsigned before = mappings();

	ck_assert_int_eq(move_pages(to, from, LEN), MOVE_DONE);
	ck_assert_uint_eq(mappings(), before + 2);
	ck_assert(move_restore(to, LEN, true));
	ck_assert_uint_eq(mappings(), before);
	ck_assert_uint_eq(memory_resident(to, LEN), 0);
	memset(to, 3, LEN);
}
END_TEST

/* Blocks of one mapping each, as many as may be and more. */
START_TEST(test_their_number_is_bounded)
{
	const size_t n = 2 * MOVE_RANGES_MAX;
	char *many = (char *)kernel.mmap(NULL, 2 * n * SLICE_SIZE, PROT_READ | PROT_WRITE, 0);
	unsigned done = 0, before = mappings();

	memset(many, 1, 2 * n * SLICE_SIZE);
	for (size_t i = 0; i < n; i++) /* every second slice of the upper half */
		done += move_pages(many + (n + i / 2 * 2) * SLICE_SIZE, many + (i / 2 * 2) * SLICE_SIZE, SLICE_SIZE) == MOVE_DONE;
	ck_assert_uint_eq(done, MOVE_RANGES_MAX);
	ck_assert_uint_le(mappings(), before + 2 * MOVE_RANGES_MAX);
	ck_assert(move_restore(many + n * SLICE_SIZE, SLICE_SIZE, true));
	ck_assert_int_eq(move_pages(many + n * SLICE_SIZE, many + SLICE_SIZE, SLICE_SIZE), MOVE_DONE);
	ck_assert_int_eq(move_pages(many + (n + 1) * SLICE_SIZE, many + 3 * SLICE_SIZE, SLICE_SIZE), MOVE_REFUSED);
}
END_TEST

START_TEST(test_several_mappings_are_left_alone)
{
	ck_assert_int_eq(kernel.madvise(from + LEN / 2, LEN / 2, MADV_DONTDUMP), 0);
	ck_assert_int_eq(move_pages(to, from, LEN), MOVE_REFUSED);
	ck_assert_uint_eq(fake_calls(FAKE_MREMAP), 0);
	ck_assert(memory_is_filled(from, LEN, 7) && memory_is_filled(to, LEN, 1));
}
END_TEST

START_TEST(test_a_gap_left_by_a_refused_call_is_filled)
{
	unsigned before = mappings();

	ck_assert_int_eq(kernel.munmap(to, LEN), 0); /* as the kernel does before it finds that it cannot */
	fake_refuse(FAKE_MREMAP, 1, EFAULT);
	ck_assert_int_eq(move_pages(to, from, LEN), MOVE_REFUSED);
	ck_assert(memory_is_filled(from, LEN, 7));
	memset(to, 3, LEN);
	ck_assert_uint_eq(mappings(), before);
	ck_assert(caps_has(CAPS_MREMAP));
}
END_TEST

START_TEST(test_what_may_be_a_strangers_is_given_up_and_the_way_closed)
{
	fake_refuse(FAKE_MREMAP, 1, ENOMEM);
	ck_assert_int_eq(move_pages(to, from, LEN), MOVE_LOST);
	ck_assert(memory_is_filled(from, LEN, 7));
	ck_assert(memory_is_filled(to, LEN, 1)); /* nothing was put there */
	ck_assert_int_eq(move_pages(to, from, LEN), MOVE_REFUSED);
	ck_assert_uint_eq(fake_calls(FAKE_MREMAP), 1);
}
END_TEST

START_TEST(test_a_refused_restore_leaves_all_as_it_was)
{
	ck_assert_int_eq(move_pages(to, from, LEN), MOVE_DONE);
	fake_refuse(FAKE_MMAP, 1, ENOMEM);
	ck_assert(!move_restore(to, LEN, true));
	ck_assert(memory_is_filled(to, LEN, 7));
}
END_TEST

START_TEST(test_forced_off_it_asks_nothing)
{
	caps_force_off(CAPS_MREMAP);
	ck_assert_int_eq(move_pages(to, from, LEN), MOVE_REFUSED);
	ck_assert_uint_eq(fake_calls(FAKE_MREMAP), 0);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("move");
	TCase *c = tcase_create("move");

	if (!caps_has(CAPS_MREMAP)) {
		printf("mremap with MREMAP_DONTUNMAP\n");
		return 77;
	}
	tcase_add_checked_fixture(c, begin, NULL);
	tcase_add_test(c, test_all_of_it_is_there_and_nothing_is_left);
	tcase_add_test(c, test_a_restored_range_is_empty_and_merges);
	tcase_add_test(c, test_their_number_is_bounded);
	tcase_add_test(c, test_several_mappings_are_left_alone);
	tcase_add_test(c, test_a_gap_left_by_a_refused_call_is_filled);
	tcase_add_test(c, test_what_may_be_a_strangers_is_given_up_and_the_way_closed);
	tcase_add_test(c, test_a_refused_restore_leaves_all_as_it_was);
	tcase_add_test(c, test_forced_off_it_asks_nothing);
	suite_add_tcase(suite, c);
	return unit_run(suite);
}
