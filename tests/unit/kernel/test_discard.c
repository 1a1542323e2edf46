/* SPDX-License-Identifier: MIT */
/*
 * Suite discard: which parts of huge pages are split off before they are returned, by which call, and that a refused split changes nothing
 * else. On invented addresses; what splitting gives back is tests/kernel/huge_split.c.
 */
#include "kernel/discard.h"

#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "support/fake_kernel.h"
#include "support/unit.h"

#include <errno.h>
#include <sys/mman.h>

#define BASE ((char *)0x100000000)
#define HUGE (2 * MIB)

static struct advise_batch batch;
static unsigned accepted;

static void tell(const struct advise_range *range, bool ok)
{
	(void)range;
	accepted += ok;
}

static void begin(bool vector)
{
	caps_has(CAPS_DONTNEED);
	if (vector)
		caps_has(CAPS_PROCESS_MADVISE_COLD);
	else
		caps_force_off(CAPS_PROCESS_MADVISE_COLD);
	fake_kernel_install();
	fake_kernel_dry();
	advise_set_way(ADVISE_LOOP);
	advise_batch_init(&batch, tell);
}

static void add(size_t offset, size_t len)
{
	advise_batch_add_huge(&batch, BASE + offset, len, NULL, 0);
}

static void ck_part(enum fake_call call, size_t i, size_t offset, size_t len, int advice)
{
	const struct fake_record *record = fake_record_of(call, i);

	ck_assert_ptr_nonnull(record);
	ck_assert_ptr_eq(record->addr, BASE + offset);
	ck_assert_uint_eq(record->len, len);
	ck_assert_int_eq(record->arg, advice);
}

START_TEST(test_whole_huge_pages_need_no_split)
{
	begin(false);
	add(0, HUGE);
	add(4 * HUGE, 3 * HUGE);
	ck_assert_uint_eq(advise_batch_finish(&batch), 4 * HUGE);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 2);
	ck_assert_uint_eq(advise_counts().split_bytes, 0);
}
END_TEST

START_TEST(test_both_ends_are_split_off_and_the_middle_is_not)
{
	begin(false);
	add(HUGE - 64 * KIB, 2 * HUGE);
	ck_assert_uint_eq(advise_batch_finish(&batch), 2 * HUGE);
	ck_part(FAKE_MADVISE, 0, HUGE - 64 * KIB, 64 * KIB, MADV_COLD);
	ck_part(FAKE_MADVISE, 1, 2 * HUGE, HUGE - 64 * KIB, MADV_COLD);
	ck_part(FAKE_MADVISE, 2, HUGE - 64 * KIB, 2 * HUGE, MADV_DONTNEED);
	ck_assert_uint_eq(fake_records(), 3);
	ck_assert_uint_eq(advise_counts().split_bytes, HUGE);
}
END_TEST

static const struct {
	size_t offset, len;
} within[] = {{0, HUGE / 2}, {HUGE / 2, HUGE / 2}, {64 * KIB, 64 * KIB}, {HUGE - 64 * KIB, 128 * KIB}};

START_TEST(test_a_range_of_less_than_one_is_split_off_whole)
{
	begin(false);
	add(within[_i].offset, within[_i].len);
	advise_batch_finish(&batch);
	ck_part(FAKE_MADVISE, 0, within[_i].offset, within[_i].len, MADV_COLD);
	ck_part(FAKE_MADVISE, 1, within[_i].offset, within[_i].len, MADV_DONTNEED);
	ck_assert_uint_eq(fake_records(), 2);
}
END_TEST

START_TEST(test_two_halves_that_touch_are_a_whole_one)
{
	begin(false);
	add(HUGE / 2, HUGE / 2);
	add(0, HUGE / 2);
	advise_batch_finish(&batch);
	ck_part(FAKE_MADVISE, 0, 0, HUGE, MADV_DONTNEED);
	ck_assert_uint_eq(fake_records(), 1);
	ck_assert_uint_eq(accepted, 2);
}
END_TEST

START_TEST(test_other_memory_is_not_split_though_it_touches)
{
	begin(false);
	advise_batch_add(&batch, BASE, HUGE / 2, NULL, 0);
	add(HUGE / 2, HUGE / 4);
	advise_batch_finish(&batch);
	ck_part(FAKE_MADVISE, 0, HUGE / 2, HUGE / 4, MADV_COLD);
	ck_assert_uint_eq(advise_counts().split_bytes, HUGE / 4);
	ck_assert_uint_eq(fake_records(), 3);
}
END_TEST

/* Twelve halves of 1 MiB: a call takes eight. */
START_TEST(test_splits_go_by_vector_within_the_bound)
{
	begin(true);
	if (caps_state(CAPS_PROCESS_MADVISE_COLD) != CAP_STATE_LIVE)
		return;
	for (size_t i = 0; i < 12; i++)
		add(i * HUGE, MIB);
	advise_batch_finish(&batch);
	ck_assert_uint_eq(fake_calls(FAKE_PROCESS_MADVISE), 2);
	ck_assert_uint_eq(fake_bytes(FAKE_PROCESS_MADVISE), 12 * MIB);
	ck_part(FAKE_PROCESS_MADVISE, 11, 11 * HUGE, MIB, MADV_COLD);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 12);
	ck_assert_uint_eq(advise_counts().split_bytes, 12 * MIB);
}
END_TEST

START_TEST(test_what_a_vector_leaves_is_split_one_by_one)
{
	begin(true);
	if (caps_state(CAPS_PROCESS_MADVISE_COLD) != CAP_STATE_LIVE)
		return;
	if (_i == 0)
		fake_refuse_all(FAKE_PROCESS_MADVISE, EINVAL);
	else
		fake_short_vector(3 * MIB);
	for (size_t i = 0; i < 6; i++)
		add(i * HUGE, MIB);
	ck_assert_uint_eq(advise_batch_finish(&batch), 6 * MIB);
	ck_assert_uint_eq(advise_counts().split_bytes, 6 * MIB);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), _i == 0 ? 12 : 9);
}
END_TEST

static struct kernel fake;
static unsigned cold, freed;

static int only_free(void *addr, size_t len, int advice)
{
	cold += advice == MADV_COLD;
	freed += advice == MADV_FREE;
	return advice == MADV_COLD || (advice == MADV_FREE && len == MIB / 2) ? -EINVAL : fake.madvise(addr, len, advice);
}

START_TEST(test_without_cold_it_is_free_and_without_both_the_range_goes_unsplit)
{
	begin(false);
	fake = kernel;
	kernel.madvise = only_free;
	add(0, MIB);
	add(HUGE, MIB / 2);
	ck_assert_uint_eq(advise_batch_finish(&batch), MIB + MIB / 2);
	ck_assert_uint_eq(cold, 2);
	ck_assert_uint_eq(freed, 2);
	ck_assert_uint_eq(advise_counts().split_bytes, MIB);
	ck_assert_uint_eq(accepted, 2);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("discard");
	TCase *split = tcase_create("split");

	tcase_add_test(split, test_whole_huge_pages_need_no_split);
	tcase_add_test(split, test_both_ends_are_split_off_and_the_middle_is_not);
	tcase_add_loop_test(split, test_a_range_of_less_than_one_is_split_off_whole, 0, array_len(within));
	tcase_add_test(split, test_two_halves_that_touch_are_a_whole_one);
	tcase_add_test(split, test_other_memory_is_not_split_though_it_touches);
	tcase_add_test(split, test_splits_go_by_vector_within_the_bound);
	tcase_add_loop_test(split, test_what_a_vector_leaves_is_split_one_by_one, 0, 2);
	tcase_add_test(split, test_without_cold_it_is_free_and_without_both_the_range_goes_unsplit);
	suite_add_tcase(suite, split);
	return unit_run(suite);
}
