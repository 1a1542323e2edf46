/* SPDX-License-Identifier: MIT */
/*
 * Suite sweep: what a sweep looks at, once; how many ranges there are does not matter; a parked heap is held for the look only, never
 * while the kernel works; free slices go when they are old.
 */
#include "reclaim/sweep.h"

#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "reclaim/internal.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/region/memory.h"

#include <errno.h>

static void begin(void)
{
	memory_without_huge_pages();
	caps_has(CAPS_DONTNEED); /* tried on memory of its own */
	fake_kernel_install();
	advise_set_way(ADVISE_LOOP);
}

#define MANY 80

static char *os_page[MANY * 16];

/* Pages of sixteen blocks of one OS page each; every second block is freed, so that each page has eight ranges. */
static void make_holes(unsigned pages)
{
	for (unsigned i = 0; i < pages * 16; i++)
		memset(os_page[i] = alloc(OS_PAGE_SIZE), 1, OS_PAGE_SIZE);
	for (unsigned i = 0; i < pages * 16; i += 2)
		heap_free_slow(os_page[i]);
}

static size_t holes_of(unsigned pages)
{
	return (size_t)pages * 8 * OS_PAGE_SIZE;
}

static void ck_others_whole(unsigned pages)
{
	for (unsigned i = 1; i < pages * 16; i += 2)
		unit_holds(memory_is_filled(os_page[i], OS_PAGE_SIZE, 1));
}

/* --- heaps ---------------------------------------------------------------------------------------------------------------------------- */

/* More ranges than a batch has room for. */
START_TEST(test_all_holes_go_however_many)
{
	begin();
	make_holes(MANY);
	ck_assert_uint_gt(MANY * 8, ADVISE_BATCH_RANGES);
	ck_assert_uint_eq(sweep_own(heap_tls), holes_of(MANY));
	ck_assert_uint_eq(page_away_bytes, holes_of(MANY));
	ck_assert_uint_eq(heap_changed_n(), 0);
	ck_others_whole(MANY);
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_a_page_is_looked_at_once_for_its_frees)
{
	begin();
	make_holes(3);
	uint64_t pages = sweep_pages_n;
	sweep_own(heap_tls);
	ck_assert_uint_eq(sweep_pages_n, pages + 3);
	unsigned calls = fake_calls(FAKE_MADVISE);
	ck_assert_uint_eq(sweep_own(heap_tls), 0);
	ck_assert_uint_eq(sweep_pages_n, pages + 3);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), calls);
	heap_free_slow(os_page[1]);
	ck_assert_uint_eq(sweep_own(heap_tls), OS_PAGE_SIZE);
	ck_assert_uint_eq(sweep_pages_n, pages + 4);
}
END_TEST

static void *free_it(void *block)
{
	heap_free_slow(block);
	return NULL;
}

START_TEST(test_what_other_threads_freed_goes_too)
{
	begin();
	make_holes(2);
	sweep_own(heap_tls);
	thread_run(free_it, os_page[5]);
	thread_run(free_it, os_page[21]);
	ck_assert_uint_eq(heap_changed_n(), 0);
	ck_assert_uint_eq(sweep_own(heap_tls), 2 * OS_PAGE_SIZE);
}
END_TEST

START_TEST(test_wholly_free_pages_become_free_slices)
{
	begin();
	make_holes(4);
	for (unsigned i = 1; i < 4 * 16; i += 2)
		heap_free_slow(os_page[i]);
	ck_assert_uint_eq(sweep_own(heap_tls), 0);
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
	ck_assert_uint_eq(region_counts().dirty_bytes, 4 * SLICE_SIZE);
}
END_TEST

/* Nothing is asked twice in one sweep: it would never end. The next one asks for all of it. */
START_TEST(test_what_was_refused_is_asked_for_by_the_next_sweep)
{
	begin();
	make_holes(MANY);
	fake_forget();
	fake_refuse_all(FAKE_MADVISE, EINVAL);
	ck_assert_uint_eq(sweep_own(heap_tls), 0);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), MANY * 8);
	ck_assert_uint_eq(page_away_bytes, 0);
	ck_assert_uint_eq(heap_changed_n(), 0);
	fake_refuse_all(FAKE_MADVISE, 0);
	ck_assert_uint_eq(sweep_own(heap_tls), holes_of(MANY));
	ck_assert_uint_eq(page_away_bytes, holes_of(MANY));
	ck_assert_uint_eq(sweep_own(heap_tls), 0);
	ck_others_whole(MANY);
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_a_parked_heap_is_swept_and_parked_still)
{
	begin();
	make_holes(MANY);
	struct heap *heap = heap_tls;

	ck_assert_uint_eq(sweep_parked(heap), 0); /* it is in use */
	heap_park();
	ck_assert_uint_eq(sweep_parked(heap), holes_of(MANY));
	ck_assert_uint_eq(state_of(heap), HEAP_PARKED);
	heap_unpark();
	heap_check(heap);
	ck_others_whole(MANY);
}
END_TEST

static struct kernel fake;
static struct heap *swept;
static unsigned looks;
static char *got;

/* While the kernel works the heap is free for its thread, and nothing that is handed out is being returned. */
static int use_heap_meanwhile(void *addr, size_t len, int advice)
{
	if (looks++ == 0) {
		ck_assert_uint_eq(state_of(swept), HEAP_PARKED);
		heap_unpark();
		for (unsigned i = 0; i < 3; i++) {
			memset(got = alloc(OS_PAGE_SIZE), 9, OS_PAGE_SIZE);
			for (unsigned k = 0; k < MANY * 16; k += 2)
				unit_holds(got != os_page[k] || (page_under(got)->flight & 0xffff) == 0);
		}
	}
	ck_assert(got < (char *)addr || got >= (char *)addr + len);
	return fake.madvise(addr, len, advice);
}

START_TEST(test_the_heap_is_not_held_while_the_kernel_works)
{
	begin();
	make_holes(MANY);
	swept = heap_tls;
	fake = kernel;
	kernel.madvise = use_heap_meanwhile;
	heap_park();
	size_t bytes = sweep_parked(swept);
	ck_assert_uint_gt(looks, 1);
	/* its thread came back: the sweep ends with what it held */
	ck_assert_uint_gt(bytes, 0);
	ck_assert_uint_lt(bytes, holes_of(MANY));
	ck_assert_ptr_eq(heap_tls, swept);
	ck_assert_int_eq(got[OS_PAGE_SIZE - 1], 9);
	kernel.madvise = fake.madvise;
	sweep_own(heap_tls);
	ck_others_whole(MANY);
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_a_wanted_heap_is_let_go_of)
{
	begin();
	make_holes(4);
	struct heap *heap = heap_tls;

	heap_park();
	atomic_store(&heap->wanted, 1);
	ck_assert_uint_eq(sweep_parked(heap), 0);
	ck_assert_uint_eq(state_of(heap), HEAP_PARKED);
	ck_assert_uint_gt(atomic_load(&heap->changed_n), 0);
	heap_unpark();
	ck_assert_uint_eq(sweep_own(heap), holes_of(4));
}
END_TEST

/* --- medium and large pages ----------------------------------------------------------------------------------------------------------- */

#define BIG (9 * KIB) /* 56 to a page */

static char *big[30 * 56];

static void make_big_holes(unsigned pages)
{
	for (unsigned i = 0; i < pages * 56; i++)
		memset(big[i] = alloc(BIG), 1, BIG);
	for (unsigned i = 0; i < pages * 56; i += 2)
		heap_free_slow(big[i]);
	atomic_fetch_add(&heap_tls->epoch, 2);
}

START_TEST(test_all_big_blocks_go_however_many)
{
	struct sweep_left left = {0};

	begin();
	make_big_holes(30);
	ck_assert_uint_gt(30 * 28, ADVISE_BATCH_RANGES);
	ck_assert_uint_gt(sweep_big(NULL, false, &left), 0);
	ck_assert(!left.more);
	ck_assert_uint_eq(page_away_bytes, 30 * 28 * BIG);
	for (unsigned i = 1; i < 30 * 56; i += 2)
		unit_holds(memory_is_filled(big[i], BIG, 1));
	uint64_t pages = sweep_pages_n;
	ck_assert_uint_eq(sweep_big(NULL, false, &left), 0);
	ck_assert_uint_eq(sweep_pages_n, pages);
}
END_TEST

START_TEST(test_young_pages_keep_their_mark)
{
	struct sweep_left left = {0};

	begin();
	make_big_holes(2);
	atomic_fetch_sub(&heap_tls->epoch, 1);
	ck_assert_uint_eq(sweep_big(NULL, false, &left), 0);
	ck_assert(left.more);
	left.more = false;
	atomic_fetch_add(&heap_tls->epoch, 1);
	ck_assert_uint_gt(sweep_big(NULL, false, &left), 0);
	ck_assert(!left.more);
}
END_TEST

static atomic_int step;
static struct heap *other;

static void *make_one_and_stay(void *unused)
{
	char *p = alloc(64 * KIB);

	memset(p, 1, 64 * KIB);
	other = heap_tls;
	heap_free_slow(p);
	step_reach(&step, 1);
	step_await(&step, 2);
	return unused;
}

START_TEST(test_one_heaps_sweep_leaves_the_pages_of_others)
{
	struct sweep_left left = {0};

	begin();
	pthread_t thread = thread_start(make_one_and_stay, NULL);
	step_await(&step, 1);
	char *p = alloc(48 * KIB);
	memset(p, 1, 48 * KIB);
	heap_free_slow(p);
	ck_assert_uint_eq(sweep_big(heap_tls, true, &left), 48 * KIB);
	ck_assert_uint_eq(sweep_big(heap_tls, true, &left), 0);
	ck_assert_uint_eq(sweep_big(NULL, true, &left), 64 * KIB);
	step_reach(&step, 2);
	pthread_join(thread, NULL);
}
END_TEST

START_TEST(test_a_mark_on_a_page_that_is_gone_is_dropped)
{
	struct sweep_left left = {0};

	begin();
	char *p = alloc(48 * KIB);
	heap_free_slow(p);
	heap_retire_empty(heap_tls);
	ck_assert_ptr_null(page_of(p));
	ck_assert_uint_eq(sweep_big(NULL, true, &left), 0);
	ck_assert(!left.more);
	alloc(64); /* the slice serves a small page now */
	region_mark_freed(p);
	ck_assert_uint_eq(sweep_big(NULL, true, &left), 0);
	ck_assert(!left.more);
}
END_TEST

START_TEST(test_refused_blocks_are_asked_for_by_the_next_sweep)
{
	struct sweep_left left = {0};

	begin();
	make_big_holes(2);
	fake_refuse_all(FAKE_MADVISE, EINVAL);
	ck_assert_uint_eq(sweep_big(NULL, true, &left), 0);
	ck_assert_uint_eq(page_away_bytes, 0);
	fake_refuse_all(FAKE_MADVISE, 0);
	ck_assert_uint_gt(sweep_big(NULL, true, &left), 0);
	ck_assert_uint_eq(page_away_bytes, 2 * 28 * BIG);
}
END_TEST

/* --- free slices ---------------------------------------------------------------------------------------------------------------------- */

static char *dirty_slices(size_t n)
{
	bool clean;
	char *addr = region_alloc(n, 1, &clean);

	ck_assert_ptr_nonnull(addr);
	memset(addr, 1, n * SLICE_SIZE);
	region_free(addr, n, false);
	return addr;
}

START_TEST(test_slices_go_at_the_second_look)
{
	struct sweep_left left = {0};

	begin();
	char *addr = dirty_slices(10);
	ck_assert_uint_eq(sweep_slices(false, &left), 0);
	ck_assert(left.more);
	left.more = false;
	ck_assert_uint_eq(sweep_slices(false, &left), 0); /* the clock has not moved */
	fake_clock_add(RECLAIM_TICK_NS);
	ck_assert_uint_eq(sweep_slices(false, &left), 0);
	left.more = false;
	ck_assert_uint_eq(sweep_slices(false, &left), 10 * SLICE_SIZE);
	ck_assert(!left.more);
	ck_assert_uint_eq(memory_resident(addr, 10 * SLICE_SIZE), 0);
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
}
END_TEST

/* 40 MiB: more than one call may cover, so more than one run is held. */
START_TEST(test_force_takes_all_slices_at_once)
{
	struct sweep_left left = {0};

	begin();
	dirty_slices(640);
	ck_assert_uint_eq(sweep_slices(true, &left), 40 * MIB);
	ck_assert(!left.more);
	for (size_t i = 0; i < fake_records(); i++) {
		const struct fake_record *record = fake_record(i);
		if (record->call == FAKE_MADVISE && record->arg == MADV_DONTNEED)
			ck_assert_uint_le(record->len, ADVISE_CALL_BYTES);
	}
}
END_TEST

START_TEST(test_refused_slices_stay_dirty_and_usable)
{
	struct sweep_left left = {0};
	bool clean = true;

	begin();
	char *addr = dirty_slices(4);
	fake_refuse_all(FAKE_MADVISE, EINVAL);
	ck_assert_uint_eq(sweep_slices(true, &left), 0);
	ck_assert(left.more);
	ck_assert_uint_eq(region_counts().dirty_bytes, 4 * SLICE_SIZE);
	ck_assert_ptr_eq(region_alloc(1, 1, &clean), addr);
	ck_assert(!clean);
	fake_refuse_all(FAKE_MADVISE, 0);
	left.more = false;
	ck_assert_uint_eq(sweep_slices(false, &left), 3 * SLICE_SIZE);
	ck_assert(!left.more);
}
END_TEST

static TCase *heaps(void)
{
	TCase *tcase = tcase_create("heaps");

	tcase_add_test(tcase, test_all_holes_go_however_many);
	tcase_add_test(tcase, test_a_page_is_looked_at_once_for_its_frees);
	tcase_add_test(tcase, test_what_other_threads_freed_goes_too);
	tcase_add_test(tcase, test_wholly_free_pages_become_free_slices);
	tcase_add_test(tcase, test_what_was_refused_is_asked_for_by_the_next_sweep);
	tcase_add_test(tcase, test_a_parked_heap_is_swept_and_parked_still);
	tcase_add_test(tcase, test_the_heap_is_not_held_while_the_kernel_works);
	tcase_add_test(tcase, test_a_wanted_heap_is_let_go_of);
	return tcase;
}

static TCase *big_pages(void)
{
	TCase *tcase = tcase_create("big pages");

	tcase_add_test(tcase, test_all_big_blocks_go_however_many);
	tcase_add_test(tcase, test_young_pages_keep_their_mark);
	tcase_add_test(tcase, test_one_heaps_sweep_leaves_the_pages_of_others);
	tcase_add_test(tcase, test_a_mark_on_a_page_that_is_gone_is_dropped);
	tcase_add_test(tcase, test_refused_blocks_are_asked_for_by_the_next_sweep);
	return tcase;
}

int main(void)
{
	Suite *suite = unit_suite("sweep");
	TCase *slices = tcase_create("free slices");

	tcase_add_test(slices, test_slices_go_at_the_second_look);
	tcase_add_test(slices, test_force_takes_all_slices_at_once);
	tcase_add_test(slices, test_refused_slices_stay_dirty_and_usable);
	suite_add_tcase(suite, heaps());
	suite_add_tcase(suite, big_pages());
	suite_add_tcase(suite, slices);
	return unit_run(suite);
}
