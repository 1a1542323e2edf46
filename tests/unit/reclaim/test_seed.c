/* SPDX-License-Identifier: MIT */
/*
 * Suite seed: what the seed system's sweep keeps, for how long, on whose account; and what it takes. Every rule on the real heap, the
 * clock moved by hand. "A sweep" is the calling thread's own, "a pass" the scavenger's.
 */
#include "reclaim/seed.h"

#include "kernel/advise.h"
#include "kernel/kernel.h"
#include "reclaim/internal.h"
#include "reclaim/reclaim.h"
#include "reclaim/sweep.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/reclaim/other_thread.h"
#include "unit/region/memory.h"

#include <errno.h>
#include <sys/wait.h>

/* The seed's interval, and 100 ms of its clock. */
#define STEP (UINT64_C(100) * 1000 * 1000)
#define FLOOR (4 * MIB)

/* A large block, and how many there are to a page. */
#define LARGE (256 * KIB)
#define PER_PAGE 16

/* The heap was swept before, and the last sweep moved the clock just now. */
static void begin(void)
{
	memory_without_huge_pages();
	fake_kernel_install();
	fake_clock_set(1000 * STEP);
	advise_set_way(ADVISE_LOOP);
	reclaim_set_policy(true);
	alloc(64);
	reclaim_thread();
}

/* A sweep by the calling thread, a step after the last one. */
static size_t sweep_later(void)
{
	fake_clock_add(STEP);
	return reclaim_thread();
}

static void no_floor(void)
{
	sweep_policy.floor_bytes = 0;
}

/* N blocks of SIZE, written; all but the first are freed again. Their page is in use then, and not full. */
static char *use_large(size_t size, unsigned n)
{
	char *block[64];

	for (unsigned i = 0; i < n; i++)
		memset(block[i] = alloc(size), 1, size);
	for (unsigned i = 1; i < n; i++)
		heap_free_slow(block[i]);
	return block[0];
}

/* Blocks of LARGE that fill a page, and one more, so that the first page is full and abandoned. */
struct burst {
	char *block[PER_PAGE + 1];
};

static void fill_page(void *arg)
{
	struct burst *burst = arg;

	for (unsigned i = 0; i <= PER_PAGE; i++)
		memset(burst->block[i] = alloc(LARGE), 1, LARGE);
	ck_assert_ptr_ne(page_under(burst->block[0]), page_under(burst->block[PER_PAGE]));
}

/* Blocks from FROM to 15 of the full page. */
static void free_from(struct burst *burst, unsigned from)
{
	for (unsigned i = from; i < PER_PAGE; i++)
		heap_free_slow(burst->block[i]);
}

static size_t resident(const char *p, size_t len)
{
	return memory_resident(p, len) * OS_PAGE_SIZE;
}

static size_t page_resident(const char *block)
{
	return resident((char *)align_down((uintptr_t)block, 4 * MIB), 4 * MIB);
}

static size_t shared(void)
{
	return sweep_policy.shared_bytes;
}

static void do_sweep(void *unused)
{
	(void)unused;
	reclaim_thread();
}

static void do_sweep_a_step_later(void *unused)
{
	(void)unused;
	sweep_later();
}

static void do_alloc(void *size)
{
	alloc((uintptr_t)size);
}

static void do_park(void *unused)
{
	(void)unused;
	heap_park();
}

static struct other other;

/* The other thread has a heap of its own, which was swept. */
static void start_other(void)
{
	other_start(&other);
	other_do(&other, do_alloc, (void *)64);
	other_do(&other, do_sweep, NULL);
}

/* --- survivors --------------------------------------------------------------------------------------------------------------------- */

#define SOME 400

static char *survivor[SOME];
static size_t survivor_bytes[SOME];

static void ck_survivors(unsigned round)
{
	for (unsigned i = 0; i < SOME; i++) {
		if (survivor[i] != NULL)
			ck_assert_msg(memory_is_filled(survivor[i], survivor_bytes[i], (char)(i | 1)), "block %u, round %u", i, round);
	}
}

/* Sizes of every kind; each sweep finds some freed, some taken again. */
START_TEST(test_survivors_keep_every_byte_whatever_is_swept)
{
	struct random random = {.state = 1};

	begin();
	if (_i == 1)
		no_floor();
	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 0; i < SOME; i++) {
			size_t size = (size_t)16 << random_below(&random, 16);
			if (survivor[i] != NULL && random_below(&random, 3) == 0) {
				heap_free_slow(survivor[i]);
				survivor[i] = NULL;
			} else if (survivor[i] == NULL && random_below(&random, 4) == 0) {
				survivor_bytes[i] = size + random_below(&random, (uint32_t)size / 4);
				memset(survivor[i] = alloc(survivor_bytes[i]), (int)(i | 1), survivor_bytes[i]);
			}
		}
		sweep_later();
		ck_survivors(round);
		heap_check(heap_tls);
	}
}
END_TEST

/* --- the hold ---------------------------------------------------------------------------------------------------------------------- */

/* 0: the clock moves with the first sweep after the burst, 1: it does not, since the last move is too short ago. */
START_TEST(test_the_first_sweep_keeps_and_the_second_or_third_takes)
{
	begin();
	no_floor();
	char *block = use_large(LARGE, 8);
	ck_assert_uint_eq(_i == 0 ? sweep_later() : reclaim_thread(), 0);
	ck_assert(reclaim_pending() && reclaim_pending_own());
	if (_i == 1) {
		ck_assert_uint_eq(sweep_later(), 0);
		ck_assert(reclaim_pending() && reclaim_pending_own());
	}
	ck_assert_uint_eq(sweep_later(), 7 * LARGE);
	ck_assert(!reclaim_pending() && !reclaim_pending_own());
	ck_assert_uint_eq(page_resident(block), LARGE);
}
END_TEST

START_TEST(test_a_page_in_use_each_step_stays_for_good)
{
	begin();
	no_floor();
	char *block = use_large(LARGE, 8);
	for (int i = 0; i < 20; i++) {
		heap_free_slow(alloc(LARGE));
		ck_assert_uint_eq(sweep_later(), 0);
	}
	ck_assert_uint_eq(page_resident(block), 8 * LARGE);
	ck_assert_uint_eq(sweep_later(), 7 * LARGE);
}
END_TEST

/* However often one sweeps within an interval. */
START_TEST(test_sweeps_in_a_row_do_not_age_anything)
{
	begin();
	no_floor();
	use_large(LARGE, 8);
	sweep_later();
	for (int i = 0; i < 50; i++) {
		fake_clock_add(STEP / 100);
		ck_assert_uint_eq(reclaim_thread(), 0);
		ck_assert(reclaim_pending_own());
	}
	fake_clock_add(STEP / 2);
	ck_assert_uint_eq(reclaim_thread(), 7 * LARGE);
}
END_TEST

START_TEST(test_a_young_page_with_nothing_to_take_is_not_pending)
{
	begin();
	alloc(LARGE);
	reclaim_thread();
	ck_assert(!reclaim_pending() && !reclaim_pending_own());
	char *block = use_large(96 * KIB, 42);
	ck_assert_uint_eq(page_under(block)->capacity, 42);
	reclaim_thread();
	ck_assert(reclaim_pending_own());
	for (int i = 1; i < 42; i++)
		alloc(96 * KIB);
	reclaim_thread();
	ck_assert(!reclaim_pending() && !reclaim_pending_own());
}
END_TEST

START_TEST(test_small_and_medium_blocks_are_not_held)
{
	begin();
	char *p = use_large(80 * KIB, 6), *q = use_large(16 * KIB, 8);
	ck_assert_uint_eq(reclaim_thread(), 5 * 80 * KIB + 7 * 16 * KIB);
	ck_assert(!reclaim_pending());
	ck_assert_int_eq(p[80 * KIB - 1], 1);
	ck_assert_int_eq(q[16 * KIB - 1], 1);
}
END_TEST

START_TEST(test_a_wholly_free_page_is_held_too)
{
	static struct burst burst;

	begin();
	no_floor();
	fill_page(&burst);
	free_from(&burst, 0);
	ck_assert_uint_eq(sweep_later(), 0);
	ck_assert(reclaim_pending() && reclaim_pending_own());
	ck_assert_ptr_nonnull(page_of(burst.block[0]));
	ck_assert_uint_eq(page_resident(burst.block[0]), 4 * MIB);
	/* then it is given up: its slices are free, and old a tick later */
	size_t bytes = sweep_later();
	ck_assert_ptr_null(page_of(burst.block[0]));
	bytes += sweep_later() + sweep_later();
	ck_assert_uint_eq(bytes, 4 * MIB);
	ck_assert_uint_eq(page_resident(burst.block[0]), 0);
}
END_TEST

/* A page in the queue, wholly free but for one block. */
static void queue_page(struct burst *burst)
{
	fill_page(burst);
	free_from(burst, 1);
	heap_take_remote(heap_tls);
	ck_assert_uint_eq(page_place(page_under(burst->block[0])), PLACE_QUEUE);
}

START_TEST(test_a_heap_that_was_never_swept_gives_a_page_up_with_its_last_block)
{
	static struct burst burst;

	memory_without_huge_pages();
	fake_kernel_install();
	reclaim_set_policy(true);
	queue_page(&burst);
	heap_free_slow(burst.block[0]);
	ck_assert_ptr_null(page_of(burst.block[0]));
}
END_TEST

START_TEST(test_a_heap_that_was_swept_leaves_it_to_the_next_sweep)
{
	static struct burst burst;

	begin();
	queue_page(&burst);
	heap_free_slow(burst.block[0]);
	ck_assert_ptr_nonnull(page_of(burst.block[0]));
	sweep_later();
	ck_assert(reclaim_pending_own());
	ck_assert_ptr_nonnull(page_of(burst.block[0]));
}
END_TEST

/* 4 MiB, which is one page; the next sweep grants as much again. */
START_TEST(test_only_a_floor_of_free_pages_waits_for_a_sweep)
{
	char *block[3 * PER_PAGE + 1];

	begin();
	for (int i = 0; i <= 3 * PER_PAGE; i++)
		block[i] = alloc(LARGE);
	for (int i = 0; i < 3 * PER_PAGE; i++)
		if (i % PER_PAGE != 0)
			heap_free_slow(block[i]);
	heap_take_remote(heap_tls);
	for (int i = 0; i < 2 * PER_PAGE; i += PER_PAGE)
		heap_free_slow(block[i]);
	ck_assert_ptr_nonnull(page_of(block[0]));
	ck_assert_ptr_null(page_of(block[PER_PAGE]));
	sweep_later();
	heap_free_slow(block[2 * PER_PAGE]);
	ck_assert_ptr_nonnull(page_of(block[2 * PER_PAGE]));
}
END_TEST

/* --- own pages, and those of anybody ----------------------------------------------------------------------------------------------- */

static void do_free_blocks(void *arg)
{
	free_from(arg, 1);
}

/* The other thread's page was full when it was last looked at, so it is an abandoned page: the sweep of this thread passes it. */
START_TEST(test_a_young_abandoned_page_is_held_and_is_nobodys_own)
{
	static struct burst burst;

	begin();
	no_floor();
	start_other();
	other_do(&other, fill_page, &burst);
	if (_i == 0)
		free_from(&burst, 1);
	else
		other_do(&other, do_free_blocks, &burst);
	ck_assert_uint_eq(sweep_later(), 0);
	ck_assert(reclaim_pending());
	ck_assert(!reclaim_pending_own());
	ck_assert_uint_eq(sweep_later(), 15 * LARGE);
	ck_assert(!reclaim_pending());
	ck_assert_int_eq(burst.block[0][LARGE - 1], 1);
	other_end(&other);
}
END_TEST

START_TEST(test_an_own_page_beside_an_abandoned_one_is_told)
{
	static struct burst burst;

	begin();
	no_floor();
	start_other();
	other_do(&other, fill_page, &burst);
	free_from(&burst, 1);
	use_large(LARGE, 4);
	sweep_later();
	ck_assert(reclaim_pending() && reclaim_pending_own());
	/* the own page is swept, the abandoned one was used again */
	other_do(&other, do_alloc, (void *)LARGE);
	sweep_later();
	ck_assert(!reclaim_pending_own());
	other_end(&other);
}
END_TEST

/* Pages that are in use by another thread that runs are none of a sweep's business. */
static void do_use_large(void *ret)
{
	*(char **)ret = use_large(LARGE, 8);
}

START_TEST(test_a_page_in_the_lists_of_another_thread_is_left_alone)
{
	char *block;

	begin();
	no_floor();
	start_other();
	other_do(&other, do_use_large, &block);
	for (int i = 0; i < 10; i++) {
		ck_assert_uint_eq(sweep_later(), 0);
		ck_assert(!reclaim_pending());
	}
	ck_assert_uint_eq(page_resident(block), 8 * LARGE);
	other_end(&other);
}
END_TEST

static void do_end(void *unused)
{
	(void)unused;
	reclaim_thread_end();
	heap_thread_end();
}

START_TEST(test_large_pages_of_an_ended_thread_are_abandoned)
{
	char *block;

	begin();
	no_floor();
	start_other();
	other_do(&other, do_use_large, &block);
	other_do(&other, do_end, NULL);
	other_end(&other);
	ck_assert_uint_eq(sweep_later(), 0);
	ck_assert(reclaim_pending() && !reclaim_pending_own());
	ck_assert_uint_eq(sweep_later(), 7 * LARGE);
	ck_assert_int_eq(block[LARGE - 1], 1);
}
END_TEST

static void do_ck_nothing_held(void *unused)
{
	(void)unused;
	sweep_later();
	ck_assert(!reclaim_pending());
}

/* The current page has nothing that is resident, so it is given up for one that has: nothing of it is held back, however young it is. */
START_TEST(test_an_abandoned_page_with_nothing_to_take_is_not_pending)
{
	static struct burst burst;

	begin();
	no_floor();
	start_other();
	fill_page(&burst);
	alloc(LARGE);
	struct page *page = page_under(burst.block[PER_PAGE]);
	heap_free_slow(burst.block[PER_PAGE]);
	sweep_later();
	ck_assert_uint_eq(sweep_later(), LARGE);
	alloc(LARGE); /* young again; its other blocks were never touched */
	heap_free_slow(burst.block[0]);
	ck_assert_ptr_eq(alloc(LARGE), burst.block[0]);
	ck_assert_uint_eq(page_place(page), PLACE_FULL);
	ck_assert_uint_ne(page->word, 0);
	other_do(&other, do_ck_nothing_held, NULL);
	other_end(&other);
}
END_TEST

/* --- the floor --------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_past_the_hold_a_page_stays_that_fits_under_the_floor_and_is_counted_once)
{
	begin();
	char *block = use_large(LARGE, 8);
	sweep_later();
	ck_assert_uint_eq(shared(), 0); /* the hold counts nothing */
	for (int i = 0; i < 10; i++) {
		ck_assert_uint_eq(sweep_later(), 0);
		ck_assert_uint_eq(shared(), 7 * LARGE);
		ck_assert_uint_eq(heap_tls->floor_bytes, 7 * LARGE);
		ck_assert(!reclaim_pending());
	}
	ck_assert_uint_eq(page_resident(block), 8 * LARGE);
	ck_assert_uint_eq(reclaim_counts().kept_bytes, 7 * LARGE);
}
END_TEST

START_TEST(test_all_of_a_page_stays_or_nothing)
{
	begin();
	sweep_policy.floor_bytes = 7 * LARGE - 1;
	char *block = use_large(LARGE, 8);
	sweep_later();
	ck_assert_uint_eq(sweep_later(), 7 * LARGE);
	ck_assert_uint_eq(page_resident(block), LARGE);
	ck_assert_uint_eq(shared(), 0);
}
END_TEST

/* 12 free blocks of 256 KiB in the one page, 8 of 384 KiB in the other: 3 MiB each. 0: the one is used a step later, 1: the other. */
START_TEST(test_the_most_recently_used_stays_first)
{
	char *block[2];

	begin();
	for (int i = 0; i < 2; i++) {
		int which = i ^ _i;
		block[which] = which == 1 ? use_large(384 * KIB, 9) : use_large(LARGE, 13);
		sweep_later();
	}
	sweep_later();
	ck_assert_uint_eq(sweep_later(), 0);
	ck_assert_uint_eq(page_resident(block[_i ^ 1]), 3 * MIB + (_i == 0 ? 384 * KIB : LARGE));
	ck_assert_uint_eq(page_resident(block[_i]), _i == 0 ? LARGE : 384 * KIB);
	ck_assert_uint_eq(shared(), 3 * MIB);
}
END_TEST

/* More pages than are decided on together: 80 with half a MiB free. */
START_TEST(test_no_more_than_the_floor_stays_however_many_pages)
{
	static char *p[80 * 8];

	begin();
	for (int i = 0; i < 80 * 8; i++)
		p[i] = alloc(512 * KIB);
	for (int i = 0; i < 80; i++) {
		p[i * 8][0] = 1;
		heap_free_slow(p[i * 8]);
	}
	sweep_later();
	sweep_later();
	ck_assert_uint_eq(shared(), FLOOR);
	unsigned kept = 0;
	for (int i = 0; i < 80; i++)
		kept += memory_resident(p[i * 8], OS_PAGE_SIZE) == 1;
	ck_assert_uint_eq(kept, 8);
}
END_TEST

START_TEST(test_a_kept_page_is_given_back_after_256_steps)
{
	begin();
	char *block = use_large(LARGE, 8);
	/* 1 .. 255 */
	for (int age = 1; age < 256; age++)
		ck_assert_uint_eq(sweep_later(), 0);
	ck_assert_uint_eq(sweep_later(), 7 * LARGE);
	ck_assert_uint_eq(page_resident(block), LARGE);
	ck_assert_uint_eq(shared(), 0);
}
END_TEST

START_TEST(test_being_kept_renews_nothing_and_an_allocation_does)
{
	begin();
	char *block = use_large(LARGE, 8);
	for (int i = 0; i < 200; i++)
		sweep_later();
	heap_free_slow(alloc(LARGE));
	for (int age = 1; age < 256; age++)
		ck_assert_uint_eq(sweep_later(), 0);
	ck_assert_uint_eq(sweep_later(), 7 * LARGE);
	ck_assert_uint_eq(page_resident(block), LARGE);
}
END_TEST

START_TEST(test_a_share_is_decided_anew_by_each_sweep)
{
	char *block[7];

	begin();
	use_large(LARGE, 8);
	sweep_later();
	sweep_later();
	ck_assert_uint_eq(shared(), 7 * LARGE);
	for (int i = 0; i < 7; i++)
		block[i] = alloc(LARGE);
	sweep_later();
	ck_assert_uint_eq(shared(), 0);
	for (int i = 0; i < 3; i++)
		heap_free_slow(block[i]);
	sweep_later();
	sweep_later();
	ck_assert_uint_eq(shared(), 3 * LARGE);
}
END_TEST

/* 0: by a thread that runs, 1: parked. Then the floor is there for others. */
START_TEST(test_a_thread_that_ends_leaves_its_share)
{
	char *block;

	begin();
	start_other();
	other_do(&other, do_use_large, &block);
	other_do(&other, do_sweep_a_step_later, NULL);
	other_do(&other, do_sweep_a_step_later, NULL);
	ck_assert_uint_eq(shared(), 7 * LARGE);
	if (_i == 1)
		other_do(&other, do_park, NULL);
	other_do(&other, do_end, NULL);
	other_end(&other);
	ck_assert_uint_eq(shared(), 0);
	/* its page is an abandoned one now, and kept on this thread's account */
	ck_assert_uint_eq(sweep_later(), 0);
	ck_assert_uint_eq(heap_tls->floor_bytes, 7 * LARGE);
	ck_assert_uint_eq(page_resident(block), 8 * LARGE);
}
END_TEST

START_TEST(test_abandoned_pages_are_not_counted_again_by_a_second_heap)
{
	static struct burst burst;

	begin();
	start_other();
	fill_page(&burst);
	other_do(&other, do_free_blocks, &burst);
	for (int i = 0; i < 3; i++)
		other_do(&other, do_sweep_a_step_later, NULL);
	ck_assert_uint_eq(shared(), 15 * LARGE);
	struct other third = {0};
	other_start(&third);
	other_do(&third, do_alloc, (void *)64);
	for (int i = 0; i < 5; i++) {
		other_do(&third, do_sweep_a_step_later, NULL);
		ck_assert_uint_eq(shared(), 15 * LARGE);
	}
	ck_assert_uint_eq(page_resident(burst.block[0]), 4 * MIB);
	/* the first one's next sweep decides anew, and counts it again, once */
	other_do(&other, do_sweep_a_step_later, NULL);
	ck_assert_uint_eq(shared(), 15 * LARGE);
	/* and when it is gone it is the third's */
	other_do(&other, do_end, NULL);
	ck_assert_uint_eq(shared(), 0);
	other_do(&third, do_sweep_a_step_later, NULL);
	ck_assert_uint_eq(shared(), 15 * LARGE);
	other_end(&other);
	other_end(&third);
}
END_TEST

/* Kept on the account of a thread that never sweeps again: the stamp is the page's only age. */
START_TEST(test_an_abandoned_page_kept_by_another_expires_too)
{
	static struct burst burst;

	begin();
	start_other();
	fill_page(&burst);
	free_from(&burst, 1);
	for (int i = 0; i < 3; i++)
		other_do(&other, do_sweep_a_step_later, NULL);
	ck_assert_uint_eq(shared(), 15 * LARGE);
	struct other third = {0};
	other_start(&third);
	other_do(&third, do_alloc, (void *)64);
	for (int i = 0; i < 260; i++)
		other_do(&third, do_sweep_a_step_later, NULL);
	ck_assert_uint_eq(page_resident(burst.block[0]), LARGE);
	other_end(&other);
	other_end(&third);
}
END_TEST

/* --- collects ---------------------------------------------------------------------------------------------------------------------- */

/* 0: the sweep that keeps it was this thread's; 1: a page in use, 2: one that is wholly free. */
START_TEST(test_what_a_sweep_keeps_survives_forty_collects_that_are_not_forced)
{
	static struct burst burst;

	begin();
	fill_page(&burst);
	free_from(&burst, _i == 0);
	for (int i = 0; i < 3; i++)
		sweep_later();
	ck_assert_uint_eq(shared(), (_i == 0 ? 15 : 16) * LARGE);
	for (int i = 0; i < 40; i++)
		reclaim_collect(false);
	ck_assert_ptr_nonnull(page_of(burst.block[0]));
	ck_assert_uint_eq(page_resident(burst.block[0]), 4 * MIB);
	ck_assert_uint_eq(shared(), (_i == 0 ? 15 : 16) * LARGE);
}
END_TEST

/* Else it would wait for a sweep that never comes. */
START_TEST(test_a_held_page_no_sweep_decides_on_is_gone_within_forty_collects)
{
	static struct burst burst;

	begin();
	fill_page(&burst);
	free_from(&burst, 0);
	sweep_later();
	ck_assert(reclaim_pending_own());
	reclaim_collect(false);
	ck_assert_ptr_nonnull(page_of(burst.block[0])); /* but not at once */
	for (int i = 1; i < 40; i++)
		reclaim_collect(false);
	ck_assert_ptr_null(page_of(burst.block[0]));
}
END_TEST

START_TEST(test_a_forced_collect_takes_what_is_held_and_what_is_kept)
{
	static struct burst burst;

	begin();
	char *kept = use_large(384 * KIB, 8);
	sweep_later();
	sweep_later();
	ck_assert_uint_gt(shared(), 0);
	fill_page(&burst);
	free_from(&burst, 0);
	ck_assert_uint_ge(reclaim_collect(true), 7 * 384 * KIB + 16 * LARGE);
	ck_assert_uint_eq(page_resident(kept), 384 * KIB);
	ck_assert_uint_eq(page_resident(burst.block[0]), 0);
	/* what is gone holds no part of the floor */
	ck_assert_uint_eq(shared(), 0);
	ck_assert_uint_eq(heap_tls->floor_bytes, 0);
}
END_TEST

START_TEST(test_without_steps_nothing_is_held_and_nothing_kept)
{
	static struct burst burst;

	begin();
	sweep_policy.step_ns = 0;
	uint32_t epoch = heap_epoch(heap_tls);
	char *block = use_large(384 * KIB, 8);
	fill_page(&burst);
	free_from(&burst, 1);
	ck_assert_uint_eq(reclaim_thread(), 7 * 384 * KIB + 15 * LARGE);
	ck_assert(!reclaim_pending());
	ck_assert_uint_eq(page_resident(block), 384 * KIB);
	ck_assert_uint_eq(shared(), 0);
	fake_clock_add(100 * STEP);
	reclaim_thread();
	ck_assert_uint_eq(heap_epoch(heap_tls), epoch);
}
END_TEST

/* --- what a sweep looks at --------------------------------------------------------------------------------------------------------- */

/* A page with one live block and a hole of fifteen OS pages. */
static char *make_hole(void)
{
	char *p[16];

	for (int i = 0; i < 16; i++)
		memset(p[i] = alloc(OS_PAGE_SIZE), 1, OS_PAGE_SIZE);
	for (int i = 1; i < 16; i++)
		heap_free_slow(p[i]);
	return p[0];
}

#define HOLE (15 * OS_PAGE_SIZE)

START_TEST(test_every_64th_sweep_of_a_thread_looks_at_every_page)
{
	begin();
	make_hole();
	reclaim_thread();
	uint64_t full = reclaim_counts().full_sweeps, pages = reclaim_counts().swept_pages;
	unsigned looked = 0;
	for (int i = 1; i <= 200; i++) {
		reclaim_thread();
		looked += reclaim_counts().swept_pages != pages;
		pages = reclaim_counts().swept_pages;
	}
	ck_assert_uint_eq(looked, 3);
	ck_assert_uint_eq(reclaim_counts().full_sweeps, full + 3);
}
END_TEST

START_TEST(test_the_sweeps_of_others_do_not_count)
{
	begin();
	start_other();
	for (int i = 0; i < 40; i++) {
		reclaim_thread();
		other_do(&other, do_sweep, NULL);
	}
	ck_assert_uint_eq(reclaim_counts().full_sweeps, 0);
	other_end(&other);
}
END_TEST

/* Only what was refused before is asked for again, by the next sweep. More pages than a batch has room for: a sweep ends all the same. */
START_TEST(test_a_sweep_ends_though_the_kernel_refuses_everything)
{
	static char *p[40 * 30];

	begin();
	for (int i = 0; i < 40 * 30; i++)
		memset(p[i] = alloc(16 * KIB), 1, OS_PAGE_SIZE);
	for (int i = 0; i < 40 * 30; i += 2)
		heap_free_slow(p[i]);
	fake_forget();
	fake_refuse_all(FAKE_MADVISE, EINVAL);
	ck_assert_uint_eq(reclaim_thread(), 0);
	ck_assert_uint_le(fake_calls(FAKE_MADVISE), 40 * 30 / 2);
	fake_refuse_all(FAKE_MADVISE, 0);
	ck_assert_uint_eq(reclaim_thread(), 40 * 30 / 2 * 16 * KIB);
}
END_TEST

static struct kernel fake;
static struct heap *swept;

static int want_heap_meanwhile(void *addr, size_t len, int advice)
{
	atomic_store(&swept->wanted, 1);
	return fake.madvise(addr, len, advice);
}

/* The small pages are more than a batch has room for; while the kernel works on the first of them the thread comes back. */
START_TEST(test_a_thread_that_wants_its_heap_has_it_and_what_is_undecided_is_not_counted)
{
	static char *p[80 * 16];

	begin();
	char *block = use_large(LARGE, 8);
	sweep_later();
	for (int i = 0; i < 80 * 16; i++)
		memset(p[i] = alloc(OS_PAGE_SIZE), 1, OS_PAGE_SIZE);
	for (int i = 0; i < 80 * 16; i += 2)
		heap_free_slow(p[i]);
	swept = heap_tls;
	fake = kernel;
	kernel.madvise = want_heap_meanwhile;
	fake_clock_add(STEP);
	heap_park();
	ck_assert_uint_gt(seed_sweep_parked(swept), 0);
	kernel.madvise = fake.madvise;
	ck_assert_uint_eq(shared(), 0);
	ck_assert_uint_eq(page_resident(block), 8 * LARGE);
	ck_assert_uint_eq(state_of(swept), HEAP_PARKED);
	heap_unpark();
	sweep_later();
	ck_assert_uint_eq(shared(), 7 * LARGE);
	heap_check(heap_tls);
}
END_TEST

static void do_leave_hole(void *ret)
{
	*(char **)ret = make_hole();
}

START_TEST(test_small_pages_of_an_ended_thread_are_swept_by_a_pass)
{
	struct reclaim_left left = {0};
	char *kept;

	begin();
	start_other();
	other_do(&other, do_leave_hole, &kept);
	other_do(&other, do_end, NULL);
	other_end(&other);
	ck_assert_uint_eq(reclaim_pass(&left), HOLE);
	ck_assert_int_eq(kept[OS_PAGE_SIZE - 1], 1);
}
END_TEST

/* --- parks ------------------------------------------------------------------------------------------------------------------------- */

static struct reclaim_left left;

static size_t pass_after(uint64_t ns)
{
	left = (struct reclaim_left){0};
	fake_clock_add(ns);
	return reclaim_pass(&left);
}

/* Held twice, taken the third time; after that the thread is not looked at again for half a minute. */
START_TEST(test_a_park_is_followed_up_until_nothing_is_held)
{
	begin();
	no_floor();
	use_large(LARGE, 8);
	heap_park();
	ck_assert_uint_eq(pass_after(0), 0);
	ck_assert_uint_eq(left.due_ns, 1001 * STEP);
	ck_assert_uint_eq(pass_after(STEP), 0);
	ck_assert_uint_eq(left.due_ns, 1002 * STEP);
	ck_assert_uint_eq(pass_after(STEP), 7 * LARGE);
	ck_assert_uint_eq(left.due_ns, 1302 * STEP);
	heap_unpark();
	ck_assert(!reclaim_pending());
}
END_TEST

static int work_for_30_ms(void *addr, size_t len, int advice)
{
	fake_clock_add(STEP * 3 / 10);
	return fake.madvise(addr, len, advice);
}

/* Else the follow-up would find the clock too young to move. */
START_TEST(test_the_interval_to_the_follow_up_counts_from_the_end_of_a_sweep)
{
	begin();
	no_floor();
	make_hole();
	use_large(LARGE, 8);
	fake = kernel;
	kernel.madvise = work_for_30_ms;
	heap_park();
	ck_assert_uint_eq(pass_after(0), HOLE);
	kernel.madvise = fake.madvise;
	ck_assert_uint_eq(left.due_ns, kernel.now_ns() + STEP);
	heap_unpark();
}
END_TEST

/* What others free into a parked thread's pages goes with the sweep that comes every 30 s. */
START_TEST(test_late_frees_into_a_parked_heap_go_within_half_a_minute)
{
	char *kept;

	begin();
	no_floor();
	start_other();
	other_do(&other, do_leave_hole, &kept);
	other_do(&other, do_park, NULL);
	ck_assert_uint_eq(pass_after(STEP), HOLE);
	heap_free_slow(kept);
	ck_assert_uint_eq(pass_after(290 * STEP), 0);
	ck_assert_uint_gt(pass_after(10 * STEP) + pass_after(STEP) + pass_after(STEP), 0);
	ck_assert_uint_eq(memory_resident(kept, OS_PAGE_SIZE), 0);
	other_end(&other);
}
END_TEST

/* Nothing is woken for a lone parked thread's share; the sweeps of others let it grow old, and a pass made for them gives it back. */
START_TEST(test_a_parked_threads_share_goes_when_others_sweep_and_not_by_itself)
{
	char *block;

	begin();
	start_other();
	other_do(&other, do_use_large, &block);
	other_do(&other, do_sweep_a_step_later, NULL);
	other_do(&other, do_sweep_a_step_later, NULL);
	other_do(&other, do_park, NULL);
	for (int i = 0; i < 3; i++)
		pass_after(STEP);
	/* an hour of passes without a sweep of any other thread: the follow-ups of the one park move the clock now and then */
	for (int i = 0; i < 10; i++)
		pass_after(300 * STEP);
	ck_assert_uint_eq(shared(), 7 * LARGE);
	ck_assert_uint_eq(page_resident(block), 8 * LARGE);
	for (int i = 0; i < 256; i++)
		sweep_later();
	pass_after(STEP);
	ck_assert_uint_eq(shared(), 0);
	ck_assert_uint_eq(page_resident(block), LARGE);
	other_end(&other);
}
END_TEST

static void do_ck_wakes(void *unused)
{
	(void)unused;
	heap_park();
	ck_assert(!heap_is_scheduled());
	heap_unpark();
}

/* A thread that ended was on the schedule, and nobody looks for an orphan at its time. */
START_TEST(test_the_thread_that_takes_a_heap_over_is_woken_for)
{
	begin();
	start_other();
	other_do(&other, do_park, NULL);
	pass_after(STEP);
	other_do(&other, do_alloc, (void *)64); /* ends the park */
	other_do(&other, do_park, NULL);
	pass_after(STEP / 10);
	ck_assert_uint_eq(left.due_ns, kernel.now_ns() + STEP * 9 / 10);
	other_do(&other, do_end, NULL);
	other_end(&other);
	struct other next = {0};
	other_start(&next);
	other_do(&next, do_alloc, (void *)64);
	other_do(&next, do_ck_wakes, NULL);
	other_end(&next);
}
END_TEST

/* --- clocks and threads ------------------------------------------------------------------------------------------------------------ */

START_TEST(test_all_heaps_have_one_clock)
{
	begin();
	start_other();
	uint32_t epoch = heap_epoch(heap_tls);
	other_do(&other, do_sweep_a_step_later, NULL);
	ck_assert_uint_eq(heap_epoch(heap_tls), epoch + 1);
	other_do(&other, do_sweep, NULL);
	reclaim_thread();
	ck_assert_uint_eq(heap_epoch(heap_tls), epoch + 1);
	sweep_later();
	ck_assert_uint_eq(heap_epoch(heap_tls), epoch + 2);
	other_end(&other);
}
END_TEST

#define SWEEPERS 3
#define MOVES 20

static atomic_bool stop;

static void *sweep_on(void *unused)
{
	alloc(64);
	while (!atomic_load(&stop)) {
		heap_free_slow(alloc(LARGE));
		reclaim_thread();
	}
	return unused;
}

/* Milliseconds of the clock until it has moved twenty times: once a hundred. */
START_TEST(test_no_epoch_is_shorter_than_the_interval_with_several_sweepers)
{
	pthread_t threads[SWEEPERS];
	unsigned moves = 0, since = 0;

	begin();
	uint32_t epoch = heap_process_epoch;
	for (int i = 0; i < SWEEPERS; i++)
		threads[i] = thread_start(sweep_on, NULL);
	for (unsigned ms = 1; moves < MOVES; ms++) {
		fake_clock_add(STEP / 100);
		sched_yield();
		uint32_t now = heap_process_epoch;
		if (now == epoch)
			continue;
		/* as seen here: a millisecond earlier or later */
		unit_holds(now == epoch + 1 && (moves == 0 || ms - since >= 99));
		epoch = now;
		since = ms;
		moves++;
	}
	atomic_store(&stop, true);
	for (int i = 0; i < SWEEPERS; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

#define RACE_BLOCKS 40

/* Allocates, fills, checks, frees, and is parked and swept in between. */
static void *come_and_go(void *arg)
{
	struct random random = {.state = (uintptr_t)arg};
	char *block[RACE_BLOCKS] = {0};

	while (!atomic_load(&stop)) {
		for (int i = 0; i < RACE_BLOCKS; i++) {
			if (block[i] != NULL) {
				unit_holds(block[i][0] == i + 1 && block[i][90 * KIB] == i + 1);
				heap_free_slow(block[i]);
				block[i] = NULL;
			} else if (random_below(&random, 3) != 0) {
				block[i] = alloc(random_below(&random, 2) ? LARGE : 90 * KIB + 1);
				block[i][0] = block[i][90 * KIB] = (char)(i + 1);
			}
		}
		heap_park();
		sched_yield();
		heap_unpark();
	}
	for (int i = 0; i < RACE_BLOCKS; i++)
		heap_free_slow(block[i]);
	return NULL;
}

START_TEST(test_threads_that_park_and_run_are_swept_and_lose_nothing)
{
	pthread_t threads[2];

	begin();
	for (int i = 0; i < 2; i++)
		threads[i] = thread_start(come_and_go, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < 1500; i++) {
		pass_after(STEP / 3);
		reclaim_thread();
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_le(shared(), FLOOR);
}
END_TEST

/* What a thread does that starts, works and ends, over and over: its pages come and go while they are looked at. */
static void *make_and_drop_pages(void *arg)
{
	struct random random = {.state = (uintptr_t)arg};
	static const size_t sizes[] = {LARGE, 512 * KIB, 96 * KIB, 40 * KIB, 4096, 64};

	while (!atomic_load(&stop)) {
		char *block[RACE_BLOCKS];
		size_t size = sizes[random_below(&random, array_len(sizes))];
		for (int i = 0; i < RACE_BLOCKS; i++)
			memset(block[i] = alloc(size), i, 64);
		uint32_t old = heap_epoch(heap_tls) + 3;
		for (int i = 0; i < RACE_BLOCKS; i++) {
			/* the first half is past its hold when the other half is freed */
			while (i == RACE_BLOCKS / 2 && (int32_t)(old - heap_epoch(heap_tls)) > 0 && !atomic_load(&stop))
				sched_yield();
			unit_holds(memory_is_filled(block[i], 64, (char)i));
			heap_free_slow(block[i]);
		}
		heap_take_remote(heap_tls);
		heap_retire_empty(heap_tls);
		heap_check(heap_tls);
	}
	return NULL;
}

START_TEST(test_pages_that_come_and_go_while_they_are_swept_stay_whole)
{
	pthread_t threads[2];

	begin();
	for (int i = 0; i < 2; i++)
		threads[i] = thread_start(make_and_drop_pages, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < 3000; i++) {
		sweep_later();
		if (i % 8 == 0)
			sched_yield();
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

static int child_keeps_nothing(void)
{
	for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next)
		if (heap->floor_bytes != 0 || heap->scheduled != 0 || heap->held != 0)
			return 1;
	if (shared() != 0)
		return 2;
	/* and goes on by itself */
	sweep_later();
	return shared() == 7 * LARGE ? 0 : 3;
}

START_TEST(test_a_fork_child_starts_with_an_empty_floor)
{
	int status;
	char *block;

	begin();
	start_other();
	other_do(&other, do_use_large, &block);
	other_do(&other, do_sweep_a_step_later, NULL);
	use_large(LARGE, 8);
	sweep_later();
	other_do(&other, do_sweep_a_step_later, NULL);
	sweep_later();
	ck_assert_uint_eq(shared(), 14 * LARGE);
	heap_park();
	reclaim_fork_prepare();
	pid_t pid = fork();
	reclaim_fork_done(pid == 0);
	if (pid == 0)
		_exit(child_keeps_nothing());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_uint_eq(shared(), 14 * LARGE);
	other_end(&other);
}
END_TEST

/* --- a busy thread beside a helper ------------------------------------------------------------------------------------------------- */

#define BUFFERS 40

static void use_buffers(void)
{
	char *buffer[BUFFERS];

	for (int i = 0; i < BUFFERS; i++)
		memset(buffer[i] = alloc(LARGE), 1, LARGE);
	for (int i = 0; i < BUFFERS; i++)
		heap_free_slow(buffer[i]);
}

static void do_release_any(void *unused)
{
	(void)unused;
	reclaim_thread();
	for (int i = 1; i < 4 && reclaim_pending(); i++)
		sweep_later();
}

static void do_release_own(void *unused)
{
	(void)unused;
	reclaim_thread();
	for (int i = 1; i < 4 && reclaim_pending_own(); i++)
		sweep_later();
}

/* Bytes a busy thread takes back in ten uses of 10 MiB, one every 300 ms, while a helper sweeps after each. */
static size_t refaults(void (*release)(void *))
{
	uint64_t before = 0;

	for (int round = 0; round < 12; round++) {
		if (round == 2)
			before = page_refaulted_bytes;
		use_buffers();
		other_do(&other, release, NULL);
		fake_clock_add(3 * STEP - kernel.now_ns() % (3 * STEP));
	}
	return page_refaulted_bytes - before;
}

START_TEST(test_a_busy_threads_buffers_survive_a_helper_that_follows_up_on_its_own)
{
	begin();
	start_other();
	ck_assert_uint_eq(refaults(do_release_own), 0);
	other_end(&other);
}
END_TEST

/* What the key is for. Pages that have resident blocks are used first, so that a part of it is needed each time only. */
START_TEST(test_a_helper_that_follows_up_on_any_takes_a_busy_threads_buffers)
{
	begin();
	start_other();
	ck_assert_uint_gt(refaults(do_release_any), 10 * MIB);
	other_end(&other);
}
END_TEST

static TCase *hold(void)
{
	TCase *tcase = tcase_create("hold");

	tcase_add_loop_test(tcase, test_survivors_keep_every_byte_whatever_is_swept, 0, 2);
	tcase_add_loop_test(tcase, test_the_first_sweep_keeps_and_the_second_or_third_takes, 0, 2);
	tcase_add_test(tcase, test_a_page_in_use_each_step_stays_for_good);
	tcase_add_test(tcase, test_sweeps_in_a_row_do_not_age_anything);
	tcase_add_test(tcase, test_a_young_page_with_nothing_to_take_is_not_pending);
	tcase_add_test(tcase, test_small_and_medium_blocks_are_not_held);
	tcase_add_test(tcase, test_a_wholly_free_page_is_held_too);
	tcase_add_test(tcase, test_a_heap_that_was_never_swept_gives_a_page_up_with_its_last_block);
	tcase_add_test(tcase, test_a_heap_that_was_swept_leaves_it_to_the_next_sweep);
	tcase_add_test(tcase, test_only_a_floor_of_free_pages_waits_for_a_sweep);
	return tcase;
}

static TCase *own_and_any(void)
{
	TCase *tcase = tcase_create("own and any");

	tcase_add_loop_test(tcase, test_a_young_abandoned_page_is_held_and_is_nobodys_own, 0, 2);
	tcase_add_test(tcase, test_an_own_page_beside_an_abandoned_one_is_told);
	tcase_add_test(tcase, test_a_page_in_the_lists_of_another_thread_is_left_alone);
	tcase_add_test(tcase, test_large_pages_of_an_ended_thread_are_abandoned);
	tcase_add_test(tcase, test_an_abandoned_page_with_nothing_to_take_is_not_pending);
	tcase_add_test(tcase, test_a_busy_threads_buffers_survive_a_helper_that_follows_up_on_its_own);
	tcase_add_test(tcase, test_a_helper_that_follows_up_on_any_takes_a_busy_threads_buffers);
	return tcase;
}

static TCase *floor_of_all(void)
{
	TCase *tcase = tcase_create("floor");

	tcase_add_test(tcase, test_past_the_hold_a_page_stays_that_fits_under_the_floor_and_is_counted_once);
	tcase_add_test(tcase, test_all_of_a_page_stays_or_nothing);
	tcase_add_loop_test(tcase, test_the_most_recently_used_stays_first, 0, 2);
	tcase_add_test(tcase, test_no_more_than_the_floor_stays_however_many_pages);
	tcase_add_test(tcase, test_a_kept_page_is_given_back_after_256_steps);
	tcase_add_test(tcase, test_being_kept_renews_nothing_and_an_allocation_does);
	tcase_add_test(tcase, test_a_share_is_decided_anew_by_each_sweep);
	tcase_add_loop_test(tcase, test_a_thread_that_ends_leaves_its_share, 0, 2);
	tcase_add_test(tcase, test_abandoned_pages_are_not_counted_again_by_a_second_heap);
	tcase_add_test(tcase, test_an_abandoned_page_kept_by_another_expires_too);
	return tcase;
}

static TCase *collects(void)
{
	TCase *tcase = tcase_create("collects");

	tcase_add_loop_test(tcase, test_what_a_sweep_keeps_survives_forty_collects_that_are_not_forced, 0, 2);
	tcase_add_test(tcase, test_a_held_page_no_sweep_decides_on_is_gone_within_forty_collects);
	tcase_add_test(tcase, test_a_forced_collect_takes_what_is_held_and_what_is_kept);
	tcase_add_test(tcase, test_without_steps_nothing_is_held_and_nothing_kept);
	return tcase;
}

static TCase *looks(void)
{
	TCase *tcase = tcase_create("looks");

	tcase_add_test(tcase, test_every_64th_sweep_of_a_thread_looks_at_every_page);
	tcase_add_test(tcase, test_the_sweeps_of_others_do_not_count);
	tcase_add_test(tcase, test_a_sweep_ends_though_the_kernel_refuses_everything);
	tcase_add_test(tcase, test_a_thread_that_wants_its_heap_has_it_and_what_is_undecided_is_not_counted);
	tcase_add_test(tcase, test_small_pages_of_an_ended_thread_are_swept_by_a_pass);
	tcase_add_test(tcase, test_a_park_is_followed_up_until_nothing_is_held);
	tcase_add_test(tcase, test_the_interval_to_the_follow_up_counts_from_the_end_of_a_sweep);
	tcase_add_test(tcase, test_late_frees_into_a_parked_heap_go_within_half_a_minute);
	tcase_add_test(tcase, test_the_thread_that_takes_a_heap_over_is_woken_for);
	tcase_add_test(tcase, test_a_parked_threads_share_goes_when_others_sweep_and_not_by_itself);
	return tcase;
}

static TCase *threads_and_clocks(void)
{
	TCase *tcase = tcase_create("threads and clocks");

	tcase_add_test(tcase, test_all_heaps_have_one_clock);
	tcase_add_test(tcase, test_no_epoch_is_shorter_than_the_interval_with_several_sweepers);
	tcase_add_test(tcase, test_threads_that_park_and_run_are_swept_and_lose_nothing);
	tcase_add_test(tcase, test_pages_that_come_and_go_while_they_are_swept_stay_whole);
	tcase_add_test(tcase, test_a_fork_child_starts_with_an_empty_floor);
	return tcase;
}

int main(void)
{
	Suite *suite = unit_suite("seed");

	suite_add_tcase(suite, hold());
	suite_add_tcase(suite, own_and_any());
	suite_add_tcase(suite, floor_of_all());
	suite_add_tcase(suite, collects());
	suite_add_tcase(suite, looks());
	suite_add_tcase(suite, threads_and_clocks());
	return unit_run(suite);
}
