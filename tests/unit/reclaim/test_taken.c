/* SPDX-License-Identifier: MIT */
/*
 * Suite taken: blocks that went away are brought in as they are handed out, as far as blocks of that heap and class were written, and no
 * further; small pages while the heap grows, and no more than it uses; whatever the kernel says the program gets its block.
 */
#include "heap/heap.h"
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/populate.h"
#include "page/extent.h"
#include "reclaim/internal.h"
#include "reclaim/reclaim.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/region/memory.h"

#include <errno.h>
#include <sys/mman.h>

#define POPULATE 23 /* MADV_POPULATE_WRITE */
#define BLOCK (256 * KIB)
#define N 32 /* two pages of these */

static bool live;

static void setup(void)
{
	memory_without_huge_pages();
	fake_kernel_install();
	live = caps_has(CAPS_POPULATE) && caps_has(CAPS_MINCORE);
	fake_forget();
}

/* N blocks written as far as said, freed, and gone. */
static void use_and_return(size_t bytes, size_t written, unsigned n)
{
	char *block[N];

	for (unsigned i = 0; i < n; i++) {
		block[i] = alloc(bytes);
		memset(block[i], 1, written);
	}
	for (unsigned i = 0; i < n; i++)
		heap_free_slow(block[i]);
	reclaim_collect(true);
	fake_forget();
}

static unsigned populates(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < fake_records(); i++)
		n += fake_record(i)->call == FAKE_MADVISE && fake_record(i)->arg == POPULATE;
	return n;
}

/* The only one since the last look. */
static void ck_brought_in(const char *addr, size_t len)
{
	ck_assert_uint_eq(populates(), 1);
	ck_assert_ptr_eq(fake_record(fake_records() - 1)->addr, addr);
	ck_assert_uint_eq(fake_record(fake_records() - 1)->len, len);
	fake_forget();
}

static bool is_whole_os_pages(const char *block)
{
	return (uintptr_t)block % OS_PAGE_SIZE == 0;
}

START_TEST(test_fresh_blocks_of_a_class_never_seen_come_as_they_are)
{
	for (unsigned i = 0; i < N; i++)
		alloc(BLOCK);
	alloc(8 * MIB);
	ck_assert_uint_eq(populates(), 0);
}
END_TEST

START_TEST(test_away_blocks_come_in_as_far_as_they_were_written)
{
	static const size_t written[] = {BLOCK, BLOCK / 2, 16 * KIB};
	char *block;

	if (!live)
		return;
	use_and_return(BLOCK, written[_i], N);
	for (unsigned i = 0; i < N; i++) {
		block = alloc(BLOCK);
		ck_brought_in(block, written[_i]);
		ck_assert_uint_eq(memory_resident(block, BLOCK), written[_i] / OS_PAGE_SIZE);
	}
}
END_TEST

START_TEST(test_what_is_hardly_written_is_not_worth_a_call)
{
	use_and_return(BLOCK, 8 * KIB, N);
	for (unsigned i = 0; i < N; i++)
		ck_assert_uint_eq(memory_resident(alloc(BLOCK), BLOCK), 0);
	ck_assert_uint_eq(populates(), 0);
}
END_TEST

/* Classes whose blocks share OS pages with their neighbours: the range ends before the one it shares. */
START_TEST(test_the_neighbours_stay_away)
{
	size_t bytes = 18 * KIB;
	char *block;

	if (!live)
		return;
	use_and_return(bytes, bytes, 28);
	for (unsigned i = 0; i < 20; i++) {
		block = alloc(bytes);
		char *from = (char *)align_down((uintptr_t)block, OS_PAGE_SIZE), *to = (char *)align_down((uintptr_t)block + bytes, OS_PAGE_SIZE);
		ck_brought_in(from, (size_t)(to - from));
		ck_assert(is_whole_os_pages(to));
		ck_assert_uint_eq(memory_resident(to, OS_PAGE_SIZE), 0);
	}
}
END_TEST

START_TEST(test_resident_blocks_are_left_alone)
{
	char *block[4];

	use_and_return(BLOCK, BLOCK, N);
	for (unsigned i = 0; i < 4; i++)
		block[i] = alloc(BLOCK);
	fake_forget();
	for (unsigned i = 0; i < 4; i++)
		heap_free_slow(block[i]);
	for (unsigned i = 0; i < 4; i++)
		alloc(BLOCK);
	ck_assert_uint_eq(populates(), 0);
}
END_TEST

START_TEST(test_what_was_not_written_this_time_is_not_brought_in_next_time)
{
	if (!live)
		return;
	use_and_return(BLOCK, BLOCK, N);
	use_and_return(BLOCK, 16 * KIB, N);
	ck_assert_uint_gt(populate_counts().wasted_bytes, 0);
	ck_brought_in(alloc(BLOCK), 16 * KIB);
}
END_TEST

static void *other_heap(void *unused)
{
	for (unsigned i = 0; i < 4; i++)
		alloc(BLOCK);
	alloc(8 * MIB);
	return unused;
}

START_TEST(test_two_heaps_learn_apart)
{
	use_and_return(BLOCK, BLOCK, N);
	use_and_return(8 * MIB, 8 * MIB, 1);
	thread_run(other_heap, NULL);
	ck_assert_uint_eq(populates(), 0);
}
END_TEST

START_TEST(test_classes_learn_apart)
{
	use_and_return(BLOCK, BLOCK, N);
	alloc(96 * KIB);
	ck_assert_uint_eq(populates(), 0);
}
END_TEST

START_TEST(test_singletons_come_in_as_a_share_of_their_size)
{
	char *block;

	if (!live)
		return;
	use_and_return(8 * MIB, 4 * MIB, 1);
	block = alloc(2 * MIB);
	ck_brought_in(block, MIB);
	block = heap_alloc_aligned(4 * MIB, MIB);
	ck_brought_in(block, 2 * MIB);
}
END_TEST

START_TEST(test_a_singleton_made_of_resident_slices_teaches_nothing)
{
	char *block[16];

	for (unsigned i = 0; i < array_len(block); i++)
		memset(block[i] = alloc(BLOCK), 1, BLOCK);
	for (unsigned i = 0; i < array_len(block); i++)
		heap_free_slow(block[i]);
	heap_retire_empty(heap_tls);
	block[0] = alloc(4 * MIB); /* these slices, not written by it */
	ck_assert_uint_eq(memory_resident(block[0], 4 * MIB), 4 * MIB / OS_PAGE_SIZE);
	heap_free_slow(block[0]);
	reclaim_collect(true);
	fake_forget();
	alloc(4 * MIB);
	ck_assert_uint_eq(populates(), 0);
}
END_TEST

START_TEST(test_zeroed_memory_is_brought_in_and_not_cleared)
{
	char *block;

	if (!live)
		return;
	use_and_return(BLOCK, BLOCK, N);
	block = heap_alloc_zero(BLOCK);
	ck_brought_in(block, BLOCK);
	ck_assert(memory_is_zero(block, BLOCK));
}
END_TEST

START_TEST(test_a_singleton_that_grows_in_place_comes_in_as_far)
{
	char *block;

	if (!live)
		return;
	use_and_return(8 * MIB, 8 * MIB, 1);
	block = alloc(MIB);
	fake_forget();
	ck_assert(heap_resize_in_place(block, 2 * MIB));
	ck_brought_in(block + MIB, MIB);
}
END_TEST

START_TEST(test_whatever_the_kernel_says_there_is_a_block)
{
	static const int refusals[] = {EINVAL, EFAULT, ENOMEM, EAGAIN, EPERM};
	char *block;

	use_and_return(BLOCK, BLOCK, N);
	use_and_return(8 * MIB, 8 * MIB, 1);
	fake_refuse_all(FAKE_MADVISE, refusals[_i]);
	for (unsigned i = 0; i < 8; i++) {
		block = heap_alloc_zero(i % 2 ? BLOCK : 4 * MIB);
		ck_assert_ptr_nonnull(block);
		ck_assert(memory_is_zero(block, BLOCK));
		memset(block, 1, BLOCK);
	}
	ck_assert_uint_le(populates(), 1); /* and it is asked once */
	ck_assert_uint_eq(populate_counts().refused, live);
}
END_TEST

/* Pages that their thread retires are learned from on the way. */
START_TEST(test_a_class_is_learned_from_pages_that_are_dropped)
{
	char *block[N];

	if (!live)
		return;
	for (unsigned i = 0; i < N; i++)
		memset(block[i] = alloc(BLOCK), 1, BLOCK);
	for (unsigned i = 0; i < N; i++)
		heap_free_slow(block[i]);
	heap_retire_empty(heap_tls);
	ck_assert_uint_eq(extent_bytes(reuse_key(heap_tls->number, sizeclass_of(BLOCK) - SMALL_CLASSES), BLOCK), BLOCK);
}
END_TEST

/* --- small pages --------------------------------------------------------------------------------------------------------------------- */

#define SMALL 1024 /* 64 to a slice */

static void take_slices(unsigned n)
{
	for (unsigned i = 0; i < n * (SLICE_SIZE / SMALL); i++)
		alloc(SMALL);
}

static size_t dirty_bytes(void)
{
	return region_counts().dirty_bytes;
}

/* The clock of the fake stands still: all of this is at once. */
START_TEST(test_a_heap_below_a_mebibyte_never_populates)
{
	take_slices(15);
	ck_assert_uint_eq(populates(), 0);
	ck_assert_uint_eq(dirty_bytes(), 0);
}
END_TEST

START_TEST(test_a_growing_heap_populates_a_share_of_itself)
{
	size_t most = 0;

	if (!live)
		return;
	for (unsigned i = 0; i < 1024; i++) {
		take_slices(1);
		unit_holds(dirty_bytes() <= (i + 1) * SLICE_SIZE / 16);
		unit_holds(dirty_bytes() <= 2 * MIB);
		most = max_size(most, dirty_bytes());
	}
	ck_assert_uint_ge(most, MIB);
	ck_assert_uint_le(populates(), 16 * 6 + 32); /* sixteen for each doubling from one MiB on, then one for 2 MiB */
	ck_assert_uint_eq(populate_counts().bytes, (1024 - 15) * SLICE_SIZE + dirty_bytes());
}
END_TEST

START_TEST(test_a_heap_that_grows_slowly_does_not_populate)
{
	take_slices(64);
	fake_clock_add(250 * UINT64_C(1000000));
	for (unsigned i = 0; i < 64; i++) {
		size_t before = populates();

		fake_clock_add(250 * UINT64_C(1000000));
		take_slices(1);
		unit_holds(populates() == before);
	}
}
END_TEST

/* One page every 60 ms: there is never more ahead than was used in the last two tenths of a second. */
START_TEST(test_the_pace_bounds_what_is_populated)
{
	take_slices(512);
	fake_clock_add(1000 * UINT64_C(1000000));
	for (unsigned i = 0; i < 64; i++) {
		fake_clock_add(60 * UINT64_C(1000000));
		take_slices(1);
	}
	fake_forget();
	for (unsigned i = 0; i < 64; i++) {
		fake_clock_add(60 * UINT64_C(1000000));
		take_slices(1);
		unit_holds(dirty_bytes() <= 4 * SLICE_SIZE);
	}
}
END_TEST

START_TEST(test_what_was_populated_in_vain_goes_back_with_the_next_sweeps)
{
	struct reclaim_left left = {0};
	uint64_t ahead;

	if (!live)
		return;
	take_slices(256);
	while (dirty_bytes() < MIB / 2)
		take_slices(1);
	ahead = dirty_bytes();
	for (unsigned i = 0; i < 3; i++) {
		fake_clock_add(RECLAIM_TICK_NS);
		reclaim_pass(&left);
	}
	ck_assert_uint_eq(dirty_bytes(), 0);
	ck_assert_uint_eq(populate_counts().wasted_bytes, ahead);
}
END_TEST

START_TEST(test_a_refusal_leaves_a_growing_heap_as_it_was)
{
	static const int refusals[] = {EINVAL, ENOMEM};

	take_slices(15);
	fake_refuse_all(FAKE_MADVISE, refusals[_i]);
	take_slices(100);
	ck_assert_uint_eq(populate_counts().refused, live);
	ck_assert_uint_eq(populate_counts().bytes, 0);
	heap_check(heap_tls);
}
END_TEST

/* The links are written into all of a run that comes back, so it comes in at once. */
START_TEST(test_a_run_of_away_os_pages_comes_back_with_one_call)
{
	static char *block[4 * SLICE_SIZE / SMALL];

	if (!live)
		return;
	for (unsigned i = 0; i < array_len(block); i++)
		memset(block[i] = alloc(SMALL), 1, SMALL);
	for (unsigned i = 0; i < array_len(block); i++)
		if (i % 64 != 0) /* of sixteen OS pages fifteen */
			heap_free_slow(block[i]);
	reclaim_collect(true);
	ck_assert_uint_eq(memory_resident(block[0], SLICE_SIZE), 1);
	fake_forget();
	for (unsigned i = 0; i < 3 + 60; i++) /* the rest of the first OS page, the run */
		alloc(SMALL);
	ck_assert_uint_eq(populates(), 1);
	ck_assert_uint_eq(fake_record(0)->len, 15 * OS_PAGE_SIZE);
}
END_TEST

/* --- huge pages ---------------------------------------------------------------------------------------------------------------------- */

static unsigned advised(int advice)
{
	unsigned n = 0;

	for (size_t i = 0; i < fake_records(); i++)
		n += fake_record(i)->arg == advice && (fake_record(i)->call == FAKE_MADVISE || fake_record(i)->call == FAKE_PROCESS_MADVISE);
	return n;
}

/* Here huge pages are wanted. */
static bool set_up_huge(void)
{
	ck_assert_int_eq(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
	bool yes = live && caps_has(CAPS_HUGE_PAGES);
	fake_forget();
	return yes;
}

/* Whole blocks twice over: known for certain. */
static char *alloc_huge(size_t bytes)
{
	char *block;

	use_and_return(bytes, bytes, 1);
	use_and_return(bytes, bytes, 1);
	block = alloc(bytes);
	memset(block, 1, bytes);
	return block;
}

START_TEST(test_singletons_always_written_whole_come_in_huge_pages_inside)
{
	char *block;

	if (!set_up_huge())
		return;
	alloc(64); /* so that the block is not aligned by itself */
	use_and_return(9 * MIB, 9 * MIB, 1);
	heap_free_slow(memset(alloc(9 * MIB), 1, 9 * MIB));
	ck_assert_uint_eq(advised(MADV_HUGEPAGE), 0); /* once is not always */
	reclaim_collect(true);
	fake_forget();
	block = alloc(9 * MIB);
	ck_assert_uint_eq(advised(MADV_HUGEPAGE), 1);
	ck_assert_uint_eq(advised(MADV_NOHUGEPAGE), 1);
	ck_assert_uint_ge(region_counts().huge_bytes, 6 * MIB);
	ck_assert_uint_le(region_counts().huge_bytes, 8 * MIB);
	ck_assert(!region_may_be_huge(block, OS_PAGE_SIZE) || (uintptr_t)block % (2 * MIB) == 0);
	ck_assert_uint_eq(memory_resident(block, 8 * MIB), 8 * MIB / OS_PAGE_SIZE);
}
END_TEST

START_TEST(test_a_huge_block_goes_back_whole_without_a_split)
{
	if (!set_up_huge())
		return;
	heap_free_slow(alloc_huge(8 * MIB));
	ck_assert_uint_ge(region_counts().huge_bytes, 6 * MIB);
	reclaim_collect(true);
	ck_assert_uint_eq(region_counts().huge_bytes, 0);
	ck_assert_uint_eq(advise_counts().split_bytes, 0);
}
END_TEST

START_TEST(test_a_part_of_a_huge_block_is_split_off_before_it_goes_back)
{
	char *block;

	if (!set_up_huge() || !caps_has(CAPS_COLD))
		return;
	block = alloc_huge(8 * MIB);
	block = block + align_up((uintptr_t)block, 2 * MIB) - (uintptr_t)block; /* the first huge page */
	ck_assert(heap_resize_in_place(page_under(block)->start, (size_t)(block + 3 * MIB - page_under(block)->start)));
	reclaim_collect(true);
	ck_assert_uint_eq(advise_counts().split_bytes, MIB); /* half of the second */
	ck_assert_uint_ge(region_counts().huge_bytes, 4 * MIB);
	heap_free_slow(page_under(block)->start);
	reclaim_collect(true);
	ck_assert_uint_eq(region_counts().huge_bytes, 0);
}
END_TEST

/* Freed, and taken by pages of small blocks before it went back. */
START_TEST(test_holes_of_pages_made_of_huge_memory_are_split_off)
{
	static char *block[96 * SLICE_SIZE / SMALL];

	if (!set_up_huge() || !caps_has(CAPS_COLD))
		return;
	heap_free_slow(alloc_huge(8 * MIB));
	for (unsigned i = 0; i < array_len(block); i++)
		memset(block[i] = alloc(SMALL), 1, SMALL);
	for (unsigned i = 0; i < array_len(block); i++)
		if (i % 64 != 0)
			heap_free_slow(block[i]);
	reclaim_collect(true);
	ck_assert_uint_gt(advise_counts().split_bytes, 0);
	for (unsigned i = 0; i < array_len(block); i += 64)
		ck_assert(memory_is_filled(block[i], SMALL, 1));
}
END_TEST

START_TEST(test_zeroing_what_is_huge_leaves_no_old_byte)
{
	char *block;

	if (!set_up_huge())
		return;
	block = alloc_huge(8 * MIB);
	heap_free_slow(block);
	block = heap_alloc_zero(7 * MIB);
	for (size_t at = 0; at < 7 * MIB; at += MIB)
		ck_assert(memory_is_zero(block + at, MIB));
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("taken");
	TCase *all = tcase_create("all"), *small = tcase_create("small"), *huge = tcase_create("huge");

	tcase_add_checked_fixture(all, setup, NULL);
	tcase_add_test(all, test_fresh_blocks_of_a_class_never_seen_come_as_they_are);
	tcase_add_loop_test(all, test_away_blocks_come_in_as_far_as_they_were_written, 0, 3);
	tcase_add_test(all, test_what_is_hardly_written_is_not_worth_a_call);
	tcase_add_test(all, test_the_neighbours_stay_away);
	tcase_add_test(all, test_resident_blocks_are_left_alone);
	tcase_add_test(all, test_what_was_not_written_this_time_is_not_brought_in_next_time);
	tcase_add_test(all, test_two_heaps_learn_apart);
	tcase_add_test(all, test_classes_learn_apart);
	tcase_add_test(all, test_singletons_come_in_as_a_share_of_their_size);
	tcase_add_test(all, test_a_singleton_made_of_resident_slices_teaches_nothing);
	tcase_add_test(all, test_zeroed_memory_is_brought_in_and_not_cleared);
	tcase_add_test(all, test_a_singleton_that_grows_in_place_comes_in_as_far);
	tcase_add_loop_test(all, test_whatever_the_kernel_says_there_is_a_block, 0, 5);
	tcase_add_test(all, test_a_class_is_learned_from_pages_that_are_dropped);
	tcase_add_checked_fixture(small, setup, NULL);
	tcase_add_test(small, test_a_heap_below_a_mebibyte_never_populates);
	tcase_add_test(small, test_a_growing_heap_populates_a_share_of_itself);
	tcase_add_test(small, test_a_heap_that_grows_slowly_does_not_populate);
	tcase_add_test(small, test_the_pace_bounds_what_is_populated);
	tcase_add_test(small, test_what_was_populated_in_vain_goes_back_with_the_next_sweeps);
	tcase_add_loop_test(small, test_a_refusal_leaves_a_growing_heap_as_it_was, 0, 2);
	tcase_add_test(small, test_a_run_of_away_os_pages_comes_back_with_one_call);
	suite_add_tcase(suite, all);
	tcase_add_checked_fixture(huge, setup, NULL);
	tcase_add_test(huge, test_singletons_always_written_whole_come_in_huge_pages_inside);
	tcase_add_test(huge, test_a_huge_block_goes_back_whole_without_a_split);
	tcase_add_test(huge, test_a_part_of_a_huge_block_is_split_off_before_it_goes_back);
	tcase_add_test(huge, test_holes_of_pages_made_of_huge_memory_are_split_off);
	tcase_add_test(huge, test_zeroing_what_is_huge_leaves_no_old_byte);
	suite_add_tcase(suite, small);
	suite_add_tcase(suite, huge);
	return unit_run(suite);
}
