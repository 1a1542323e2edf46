/* SPDX-License-Identifier: MIT */
/*
 * Suite hole: exactly those OS pages go back that hold nothing but free blocks; a live block never loses a byte; what is in flight is not
 * used again; what the kernel refuses stays usable and is tried again. The expected OS pages come from a plain model: which
 * sixteen bytes of a page, the step of all sizes, a live block covers.
 */
#include "reclaim/hole.h"

#include "base/random.h"
#include "heap/heap.h"
#include "reclaim/sweep.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/page/dies.h"
#include "unit/region/memory.h"

#include <errno.h>

static struct advise_batch batch;

struct whole {
	size_t bytes;
	unsigned n;
	char *block[SLICE_SIZE / 16];
	bool live[SLICE_SIZE / 16];
	struct page *page;
};

static struct whole whole;

/* A small page with all its blocks out and filled with their own pattern. */
static void take_whole(struct whole *w, size_t bytes)
{
	unsigned capacity = (unsigned)(SLICE_SIZE / bytes);

	w->bytes = bytes;
	w->n = capacity;
	for (unsigned i = 0; i < capacity; i++) {
		char *p = alloc(bytes);

		if (i == 0)
			w->page = page_under(p);
		unit_holds(page_under(p) == w->page);
		unsigned at = (unsigned)((size_t)(p - w->page->start) / w->page->block_bytes);
		w->block[at] = p;
		w->live[at] = true;
		memset(p, (int)(at * 37 + 1), w->page->block_bytes);
	}
	ck_assert_uint_eq(w->page->capacity, capacity);
}

static void let_go(struct whole *w, unsigned i)
{
	heap_free_slow(w->block[i]);
	w->live[i] = false;
}

static void ck_live_whole(const struct whole *w)
{
	for (unsigned i = 0; i < w->n; i++)
		unit_holds(!w->live[i] || memory_is_filled(w->block[i], w->page->block_bytes, (char)(i * 37 + 1)));
}

/* OS pages that have a part of a block: 12 blocks of 5 KiB end where the last OS page begins, which nobody ever touches. */
static unsigned units_in_use(const struct whole *w)
{
	return (unsigned)((w->n * w->page->block_bytes + OS_PAGE_SIZE - 1) / OS_PAGE_SIZE);
}

/* The plain model: no live byte in it. */
static uint32_t units_expected(const struct whole *w)
{
	uint32_t units = (uint32_t)bits_low(units_in_use(w));

	for (unsigned i = 0; i < w->n; i++)
		for (size_t at = 0; w->live[i] && at < w->page->block_bytes; at += 16)
			units &= ~(UINT32_C(1) << ((i * w->page->block_bytes + at) / OS_PAGE_SIZE));
	return units;
}

static size_t sweep_page(struct page *page)
{
	advise_batch_init(&batch, hole_done);
	hole_small(&batch, page);
	return advise_batch_flush(&batch);
}

/* Away, told to the kernel and not resident are the same OS pages. */
static void ck_away(const struct whole *w, uint32_t units)
{
	ck_assert_uint_eq(w->page->away, units);
	for (unsigned unit = 0; unit < units_in_use(w); unit++)
		ck_assert_uint_eq(memory_resident(w->page->start + unit * OS_PAGE_SIZE, OS_PAGE_SIZE), !(units >> unit & 1));
}

static void begin(void)
{
	memory_without_huge_pages();
	fake_kernel_install();
	advise_set_way(ADVISE_LOOP);
}

static unsigned popcount(uint32_t units)
{
	return (unsigned)__builtin_popcount(units);
}

/* --- by hand -------------------------------------------------------------------------------------------------------------------------- */

/* 85 blocks of 48 bytes and a third to an OS page: blocks 85 and 170 straddle the first two borders, the third is where 256 begins. */
START_TEST(test_a_block_of_48_bytes_keeps_the_two_os_pages_it_straddles)
{
	begin();
	take_whole(&whole, 48);
	for (unsigned i = 0; i < whole.n; i++)
		if (i != 85)
			let_go(&whole, i);
	ck_assert_uint_eq(sweep_page(whole.page), 14 * OS_PAGE_SIZE);
	ck_away(&whole, 0xfffc);
	ck_live_whole(&whole);
	page_check(whole.page);
}
END_TEST

START_TEST(test_a_block_of_48_bytes_inside_keeps_one_os_page)
{
	begin();
	take_whole(&whole, 48);
	for (unsigned i = 0; i < whole.n; i++)
		if (i != 256) /* 3 * 4096 = 256 * 48: begins the fourth OS page */
			let_go(&whole, i);
	ck_assert_uint_eq(sweep_page(whole.page), 15 * OS_PAGE_SIZE);
	ck_away(&whole, 0xffff & ~(1u << 3));
	ck_live_whole(&whole);
}
END_TEST

/* 7 KiB: nine blocks; the fourth (21 .. 28 KiB) covers OS pages 5 and 6, the second (7 .. 14) 1 to 3. */
START_TEST(test_a_block_of_7_KiB_keeps_the_os_pages_it_touches)
{
	static const struct {
		unsigned live;
		uint32_t kept;
	} made[] = {{0, 0x3}, {1, 0xe}, {3, 0x60}, {8, 0xc000}};

	begin();
	take_whole(&whole, 7 * KIB);
	for (unsigned i = 0; i < whole.n; i++)
		if (i != made[_i].live)
			let_go(&whole, i);
	sweep_page(whole.page);
	ck_away(&whole, 0xffff & ~made[_i].kept);
	ck_live_whole(&whole);
}
END_TEST

START_TEST(test_one_os_page_of_free_blocks_is_one_hole)
{
	begin();
	take_whole(&whole, 64);
	for (unsigned i = 5 * 64; i < 6 * 64; i++)
		let_go(&whole, i);
	ck_assert_uint_eq(sweep_page(whole.page), OS_PAGE_SIZE);
	ck_away(&whole, 1u << 5);
	ck_assert_ptr_eq(fake_record_of(FAKE_MADVISE, fake_calls(FAKE_MADVISE) - 1)->addr, whole.page->start + 5 * OS_PAGE_SIZE);
	/* and a block less is none */
	for (unsigned i = 7 * 64; i < 8 * 64 - 1; i++)
		let_go(&whole, i);
	ck_assert_uint_eq(sweep_page(whole.page), 0);
	ck_away(&whole, 1u << 5);
	ck_live_whole(&whole);
}
END_TEST

/* A block whose other half went with a neighbouring OS page counts as free, and holes may grow together. */
START_TEST(test_holes_grow_over_blocks_that_are_half_away)
{
	begin();
	take_whole(&whole, 48);
	for (unsigned i = 0; i <= 85; i++)
		let_go(&whole, i);
	sweep_page(whole.page);
	ck_away(&whole, 0x1);
	for (unsigned i = 86; i <= 170; i++)
		let_go(&whole, i);
	ck_assert_uint_eq(sweep_page(whole.page), OS_PAGE_SIZE);
	ck_away(&whole, 0x3);
	page_check(whole.page);
	ck_live_whole(&whole);
}
END_TEST

START_TEST(test_a_page_not_formed_to_its_end_keeps_the_os_page_it_was_formed_to)
{
	begin();
	char *p[100];
	for (int i = 0; i < 100; i++)
		p[i] = alloc(64);
	struct page *page = page_under(p[0]);
	ck_assert_uint_eq(page->formed, 128);
	for (int i = 0; i < 100; i++)
		heap_free_slow(p[i]);
	ck_assert_uint_eq(sweep_page(page), 2 * OS_PAGE_SIZE);
	ck_assert_uint_eq(page->away, 0x3);
	ck_assert_uint_eq(sweep_page(page), 0);
}
END_TEST

/* 85 blocks of 48 bytes leave 16 bytes of the first OS page to a block that does not exist yet; the 86th reaches into the second. */
START_TEST(test_an_os_page_formed_in_part_stays)
{
	unsigned n = 85 + (unsigned)_i;
	char *p[86];

	begin();
	for (unsigned i = 0; i < n; i++)
		p[i] = alloc(48);
	struct page *page = page_under(p[0]);
	ck_assert_uint_eq(page->formed, n);
	for (unsigned i = 0; i < n; i++)
		heap_free_slow(p[i]);
	ck_assert_uint_eq(sweep_page(page), (size_t)_i * OS_PAGE_SIZE);
	ck_assert_uint_eq(page->away, (unsigned)_i);
}
END_TEST

/* A slice that was used before: what lies past the formed blocks is resident, and goes once. */
START_TEST(test_what_an_earlier_life_left_past_the_formed_blocks_goes_too)
{
	begin();
	take_whole(&whole, 8 * KIB);
	struct page *page = whole.page;
	char *other = alloc(8 * KIB);
	for (unsigned i = 0; i < whole.n; i++)
		let_go(&whole, i);
	heap_free_slow(other);
	heap_retire_empty(heap_tls);
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
	char *p = alloc(64);
	struct page *again = page_under(p);
	ck_assert_ptr_eq(again, page);
	ck_assert_uint_eq(again->dirty_tail, 1);
	ck_assert_uint_eq(sweep_page(again), 15 * OS_PAGE_SIZE);
	ck_assert_uint_eq(again->away, 0xfffe);
	ck_assert_uint_eq(sweep_page(again), 0);
	memset(p, 7, 64);
	for (int i = 0; i < 1023; i++) /* forms over the tail that is away */
		memset(alloc(64), 1, 64);
	ck_assert_int_eq(p[63], 7);
	ck_assert_uint_eq(again->away, 0);
	ck_assert(page_is_exhausted(again));
	page_check(again);
}
END_TEST

/* --- at random ------------------------------------------------------------------------------------------------------------------------ */

static const size_t sizes[] = {16, 48, 64, 80, 112, 240, 320, 448, 640, 1024, 1280, 1792, 2560, 3584, 4096, 5120, 6144, 7168, 8192};

/* Rounds of frees, a sweep and new blocks in what is free, as a busy page sees them. */
START_TEST(test_random_patterns_return_exactly_what_has_no_live_byte)
{
	struct random random;

	begin();
	random_init(&random, (uint64_t)_i + 1);
	take_whole(&whole, sizes[_i]);
	for (int round = 0; round < 12; round++) {
		unsigned run = 1 + (unsigned)(random_next(&random) % (whole.n / 2 + 1));
		for (unsigned i = (unsigned)(random_next(&random) % whole.n); run > 0; i = (i + 1) % whole.n, run--)
			if (whole.live[i] && random_next(&random) % 16 != 0)
				let_go(&whole, i);
		sweep_page(whole.page);
		ck_assert_uint_eq(whole.page->away, units_expected(&whole));
		ck_assert_uint_eq(whole.page->flight, 0);
		ck_away(&whole, units_expected(&whole));
		ck_live_whole(&whole);
		page_check(whole.page);
		/* hand some out again, from the list or from what was away */
		for (unsigned n = (unsigned)(random_next(&random) % (whole.n / 3 + 1)); n > 0; n--) {
			if (!page_has_listed(whole.page) && !page_extend(whole.page))
				break;
			char *p = page_pop(whole.page);
			unsigned at = (unsigned)((size_t)(p - whole.page->start) / whole.page->block_bytes);
			unit_holds(!whole.live[at]);
			whole.live[at] = true;
			memset(p, (int)(at * 37 + 1), whole.page->block_bytes);
		}
		ck_live_whole(&whole);
		page_check(whole.page);
	}
	/* away bytes are counted to the last one */
	ck_assert_uint_eq(page_away_bytes, popcount(whole.page->away) * OS_PAGE_SIZE);
}
END_TEST

/* --- in flight, refused --------------------------------------------------------------------------------------------------------------- */

START_TEST(test_what_is_in_flight_is_not_used)
{
	begin();
	take_whole(&whole, 64);
	for (unsigned i = 0; i < 256; i++)
		let_go(&whole, i);
	advise_batch_init(&batch, hole_done);
	hole_small(&batch, whole.page);
	ck_assert_uint_eq(whole.page->flight, 0xf);
	ck_assert_uint_eq(whole.page->away, 0xf);
	ck_assert(!page_has_listed(whole.page));
	ck_assert(!page_extend(whole.page));
	for (int i = 0; i < 300; i++)
		ck_assert_ptr_ne(page_under(alloc(64)), whole.page);
	advise_batch_flush(&batch);
	ck_assert_uint_eq(whole.page->flight, 0);
	ck_away(&whole, 0xf);
	ck_assert(page_extend(whole.page));
	ck_live_whole(&whole);
}
END_TEST

START_TEST(test_a_page_swept_twice_before_the_answer_queues_each_os_page_once)
{
	begin();
	take_whole(&whole, 64);
	for (unsigned i = 0; i < 128; i++)
		let_go(&whole, i);
	advise_batch_init(&batch, hole_done);
	hole_small(&batch, whole.page);
	for (unsigned i = 128; i < 192; i++)
		let_go(&whole, i);
	hole_small(&batch, whole.page);
	hole_small(&batch, whole.page);
	ck_assert_uint_eq(batch.bytes, 3 * OS_PAGE_SIZE);
	ck_assert_uint_eq(whole.page->flight, 0x7);
	advise_batch_flush(&batch);
	ck_away(&whole, 0x7);
}
END_TEST

START_TEST(test_refused_os_pages_stay_usable_and_uncounted)
{
	begin();
	take_whole(&whole, 64);
	uint64_t away = page_away_bytes, refaulted = page_refaulted_bytes;
	for (unsigned i = 0; i < 256; i++)
		let_go(&whole, i);
	fake_refuse_all(FAKE_MADVISE, EINVAL);
	ck_assert_uint_eq(sweep_page(whole.page), 0);
	ck_assert_uint_eq(whole.page->flight, 0xfu << 16);
	ck_assert_uint_eq(heap_tls->retry, 1);
	ck_assert_uint_eq(page_away_bytes, away);
	page_check(whole.page);
	for (unsigned i = 0; i < 256; i++) {
		ck_assert(page_has_listed(whole.page) || page_extend(whole.page));
		char *p = page_pop(whole.page);
		unsigned at = (unsigned)((size_t)(p - whole.page->start) / 64);
		unit_holds(!whole.live[at]);
		whole.live[at] = true;
		memset(p, (int)(at * 37 + 1), 64);
	}
	ck_assert_uint_eq(whole.page->flight, 0);
	ck_assert_uint_eq(whole.page->away, 0);
	ck_assert_uint_eq(page_away_bytes, away);
	ck_assert_uint_eq(page_refaulted_bytes, refaulted);
	ck_live_whole(&whole);
}
END_TEST

START_TEST(test_refused_os_pages_are_asked_for_again)
{
	begin();
	take_whole(&whole, 64);
	for (unsigned i = 0; i < 256; i++)
		let_go(&whole, i);
	fake_lock_range(whole.page->start + OS_PAGE_SIZE, OS_PAGE_SIZE);
	ck_assert_uint_eq(sweep_page(whole.page), 0); /* one range of four */
	fake_refuse_all(FAKE_MADVISE, 0);
	fake_kernel_install(); /* unlocked now */
	ck_assert_uint_eq(sweep_page(whole.page), 4 * OS_PAGE_SIZE);
	ck_assert_uint_eq(whole.page->flight, 0);
	ck_away(&whole, 0xf);
	ck_assert_uint_eq(page_away_bytes, 4 * OS_PAGE_SIZE);
	ck_assert_uint_eq(sweep_page(whole.page), 0);
}
END_TEST

START_TEST(test_a_locked_os_page_costs_its_own_hole_only)
{
	begin();
	take_whole(&whole, 64);
	for (unsigned i = 0; i < 64; i++) {
		let_go(&whole, i);
		let_go(&whole, 2 * 64 + i);
	}
	fake_lock_range(whole.page->start, OS_PAGE_SIZE);
	ck_assert_uint_eq(sweep_page(whole.page), OS_PAGE_SIZE);
	ck_assert_uint_eq(whole.page->flight, 0x1u << 16);
	ck_assert_uint_eq(page_away_bytes, OS_PAGE_SIZE);
	ck_live_whole(&whole);
}
END_TEST

/* --- damage --------------------------------------------------------------------------------------------------------------------------- */

static void sweep_whole(void *unused)
{
	(void)unused;
	sweep_page(whole.page);
}

START_TEST(test_a_damaged_link_ends_the_sweep)
{
	begin();
	take_whole(&whole, 64);
	for (unsigned i = 0; i < 100; i++)
		let_go(&whole, i);
	memset(whole.block[50], 'x', 8);
	ck_dies(sweep_whole, NULL, "damaged block");
}
END_TEST

START_TEST(test_a_block_listed_twice_ends_the_sweep)
{
	begin();
	take_whole(&whole, 64);
	for (unsigned i = 0; i < 100; i++)
		let_go(&whole, i);
	heap_free_slow(whole.block[50]);
	ck_dies(sweep_whole, NULL, "double free");
}
END_TEST

/* --- medium and large pages ----------------------------------------------------------------------------------------------------------- */

static size_t sweep_one_big(struct page *page)
{
	advise_batch_init(&batch, hole_done);
	hole_big(&batch, page, 0);
	return advise_batch_flush(&batch);
}

/* 36 KiB: nine OS pages each. 9 KiB: two and a quarter, so neighbours share. */
START_TEST(test_random_blocks_of_big_pages_go_and_the_others_keep_every_byte)
{
	static const size_t big[] = {9 * KIB, 10 * KIB, 36 * KIB, 64 * KIB, 72 * KIB, 512 * KIB};
	size_t bytes = big[_i % 6];
	unsigned n = (unsigned)((bytes <= MEDIUM_MAX ? MEDIUM_SLICES : LARGE_SLICES) * SLICE_SIZE / bytes);
	struct random random;
	char *block[64];
	bool live[64];

	begin();
	random_init(&random, (uint64_t)_i + 100);
	for (unsigned i = 0; i < n; i++) {
		block[i] = alloc(bytes);
		memset(block[i], (int)i + 1, bytes);
		live[i] = true;
	}
	struct page *page = page_under(block[0]);
	for (int round = 0; round < 6; round++) {
		for (unsigned i = 0; i < n; i++) {
			if (random_next(&random) % 3 != 0)
				continue;
			if (live[i])
				heap_free_slow(block[i]);
			live[i] = false;
		}
		sweep_one_big(page);
		uint64_t expected = 0;
		for (unsigned i = 0; i < n; i++) {
			uint64_t at = (uint64_t)(block[i] - page->start) / page->block_bytes;
			char *first = (char *)align_up((uintptr_t)block[i], OS_PAGE_SIZE);
			char *last = (char *)align_down((uintptr_t)block[i] + bytes, OS_PAGE_SIZE);
			if (!live[i]) {
				expected |= UINT64_C(1) << at;
				ck_assert_uint_eq(memory_resident(first, (size_t)(last - first)), 0);
			}
			unit_holds(!live[i] || memory_is_filled(block[i], bytes, (char)(i + 1)));
		}
		ck_assert_uint_eq(page->word, expected);
		ck_assert_uint_eq(page->away_blocks, expected);
		ck_assert_uint_eq(page_away_bytes, (uint64_t)__builtin_popcountll(expected) * bytes);
		/* zeroed blocks really are: also the OS pages shared with a neighbour */
		for (unsigned i = 0; i < n; i++) {
			if (live[i] || random_next(&random) % 2 == 0)
				continue;
			bool clean;
			char *p = page_take_block(page, &clean);
			ck_assert_ptr_nonnull(p);
			ck_assert(clean);
			page_clear_edges(page, p);
			ck_assert(memory_is_zero(p, bytes));
			for (unsigned k = 0; k < n; k++) {
				if (block[k] != p)
					continue;
				live[k] = true;
				memset(p, (int)k + 1, bytes);
			}
		}
	}
}
END_TEST

START_TEST(test_two_free_neighbours_give_the_os_page_they_share)
{
	char *block[4];

	begin();
	for (int i = 0; i < 4; i++) {
		block[i] = alloc(9 * KIB);
		memset(block[i], 1, 9 * KIB);
	}
	struct page *page = page_under(block[0]);
	heap_free_slow(block[1]); /* 9 .. 18 KiB: whole OS page 3 only */
	sweep_one_big(page);
	ck_assert_uint_eq(memory_resident(page->start, 9 * OS_PAGE_SIZE), 8);
	heap_free_slow(block[2]); /* 18 .. 27 KiB; with its neighbour 9 .. 27: OS pages 3, 4, 5 */
	sweep_one_big(page);
	ck_assert_uint_eq(memory_resident(page->start, 9 * OS_PAGE_SIZE), 6);
	ck_assert(memory_is_zero(page->start + 3 * OS_PAGE_SIZE, 3 * OS_PAGE_SIZE));
}
END_TEST

START_TEST(test_only_what_is_resident_counts)
{
	begin();
	char *p = alloc(48 * KIB), *q = alloc(48 * KIB);
	struct page *page = page_under(p);
	memset(p, 1, 2 * OS_PAGE_SIZE);
	memset(q, 1, 48 * KIB);
	ck_assert_uint_eq(hole_big_resident(page), 0);
	heap_free_slow(p);
	ck_assert_uint_eq(hole_big_resident(page), 2 * OS_PAGE_SIZE);
	ck_assert_uint_eq(sweep_one_big(page), 48 * KIB);
	ck_assert_uint_eq(hole_big_resident(page), 0);
	ck_assert_uint_eq(sweep_one_big(page), 0);
}
END_TEST

START_TEST(test_big_blocks_in_flight_are_nobodys_and_come_back)
{
	begin();
	char *block[10];
	for (int i = 0; i < 10; i++)
		memset(block[i] = alloc(48 * KIB), 1, 48 * KIB);
	struct page *page = page_under(block[0]);
	heap_free_slow(block[2]);
	heap_free_slow(block[3]);
	heap_free_slow(block[7]);
	advise_batch_init(&batch, hole_done);
	hole_big(&batch, page, 77);
	ck_assert_uint_eq(page_gone_ms(page), 77);
	ck_assert_uint_eq(batch.n, 2);
	ck_assert_uint_eq(page->word, 0);
	ck_assert_ptr_ne(page_under(alloc(48 * KIB)), page);
	struct region *region = region_of(page->start);
	size_t slice = (size_t)(page->start - region->base) / SLICE_SIZE;
	atomic_store(&region->freed[slice / 64], 0);
	if (_i == 1)
		fake_refuse_all(FAKE_MADVISE, EINVAL);
	advise_batch_flush(&batch);
	ck_assert_uint_eq(page->word, 0x8c);
	ck_assert_uint_eq(page->away_blocks, _i == 1 ? 0 : 0x8c);
	ck_assert_uint_eq(page->nowhere, 0);
	/* refused: marked, so that the next sweep looks again */
	ck_assert_uint_eq(region->freed[slice / 64] >> (slice % 64) & 1, (unsigned)_i);
	ck_assert_uint_eq(page_away_bytes, _i == 1 ? 0 : 3 * 48 * KIB);
}
END_TEST

START_TEST(test_records_that_are_no_big_page_are_left_alone)
{

	begin();
	struct page *small = page_under(alloc(64)), *single = page_under(alloc(MIB));
	ck_assert_uint_eq(sweep_one_big(small), 0);
	ck_assert_uint_eq(sweep_one_big(single), 0);
	ck_assert_uint_eq(sweep_one_big(single + 1), 0);
	ck_assert_uint_eq(sweep_one_big(single + 30), 0);
}
END_TEST

static TCase *small_pages(void)
{
	TCase *tcase = tcase_create("small pages");

	tcase_add_test(tcase, test_a_block_of_48_bytes_keeps_the_two_os_pages_it_straddles);
	tcase_add_test(tcase, test_a_block_of_48_bytes_inside_keeps_one_os_page);
	tcase_add_loop_test(tcase, test_a_block_of_7_KiB_keeps_the_os_pages_it_touches, 0, 4);
	tcase_add_test(tcase, test_one_os_page_of_free_blocks_is_one_hole);
	tcase_add_test(tcase, test_holes_grow_over_blocks_that_are_half_away);
	tcase_add_test(tcase, test_a_page_not_formed_to_its_end_keeps_the_os_page_it_was_formed_to);
	tcase_add_loop_test(tcase, test_an_os_page_formed_in_part_stays, 0, 2);
	tcase_add_test(tcase, test_what_an_earlier_life_left_past_the_formed_blocks_goes_too);
	tcase_add_loop_test(tcase, test_random_patterns_return_exactly_what_has_no_live_byte, 0, (int)array_len(sizes));
	tcase_add_test(tcase, test_what_is_in_flight_is_not_used);
	tcase_add_test(tcase, test_a_page_swept_twice_before_the_answer_queues_each_os_page_once);
	tcase_add_test(tcase, test_refused_os_pages_stay_usable_and_uncounted);
	tcase_add_test(tcase, test_refused_os_pages_are_asked_for_again);
	tcase_add_test(tcase, test_a_locked_os_page_costs_its_own_hole_only);
	tcase_add_test(tcase, test_a_damaged_link_ends_the_sweep);
	tcase_add_test(tcase, test_a_block_listed_twice_ends_the_sweep);
	return tcase;
}

static TCase *big_pages(void)
{
	TCase *tcase = tcase_create("big pages");

	tcase_add_loop_test(tcase, test_random_blocks_of_big_pages_go_and_the_others_keep_every_byte, 0, 12);
	tcase_add_test(tcase, test_two_free_neighbours_give_the_os_page_they_share);
	tcase_add_test(tcase, test_only_what_is_resident_counts);
	tcase_add_loop_test(tcase, test_big_blocks_in_flight_are_nobodys_and_come_back, 0, 2);
	tcase_add_test(tcase, test_records_that_are_no_big_page_are_left_alone);
	return tcase;
}

int main(void)
{
	Suite *suite = unit_suite("hole");

	suite_add_tcase(suite, small_pages());
	suite_add_tcase(suite, big_pages());
	return unit_run(suite);
}
