/* SPDX-License-Identifier: MIT */
/*
 * Suite small: where a small page is (current, queue, nowhere; changed or not), when an empty one goes back, what other threads free, and
 * mistakes that end the process. Long random histories are compared with the bytes written into each block.
 */
#include "heap/heap.h"

#include "base/random.h"
#include "heap/internal.h"
#include "region/region.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/page/dies.h"
#include "unit/region/memory.h"

#define BYTES (8 * KIB) /* eight blocks to a page */
#define PER_PAGE 8
#define CLASS (SMALL_CLASSES - 1)

/* Pages full but the last one, whose last block is the last of BLOCK. */
static void fill_pages(char **block, unsigned pages)
{
	for (unsigned i = 0; i < pages * PER_PAGE; i++) {
		block[i] = alloc(BYTES);
		unit_holds(page_under(block[i]) == page_under(block[i / PER_PAGE * PER_PAGE]));
	}
	ck_assert_ptr_eq(heap_tls->current[CLASS], page_under(block[pages * PER_PAGE - 1]));
}

static void free_page(char **block, unsigned page)
{
	for (unsigned i = 0; i < PER_PAGE; i++)
		heap_free_slow(block[page * PER_PAGE + i]);
}

static unsigned changed_pages(const struct heap *heap)
{
	unsigned n = 0;

	for (struct page *page = heap->changed; page != NULL; page = page->changed_next) {
		unit_holds(page->tag == heap);
		unit_holds(page->changed_prev == NULL ? heap->changed == page : page->changed_prev->changed_next == page);
		n++;
	}
	unit_holds(n == heap->changed_n);
	return n;
}

static void settle_all(struct heap *heap)
{
	while (heap->changed != NULL)
		heap_settle(heap, heap->changed);
}

static void *free_it(void *block)
{
	heap_free_slow(block);
	return NULL;
}

/* --- where pages are ------------------------------------------------------------------------------------------------------------------ */

START_TEST(test_every_size_finds_its_current_page_by_one_load)
{
	for (size_t size = 1; size <= DIRECT_MAX; size += 7)
		alloc(size);
	for (size_t size = 0; size <= DIRECT_MAX; size++)
		unit_holds(heap_tls->by_size[size] == heap_tls->current[sizeclass_of(size)]);
	heap_retire_empty(heap_tls);
	for (size_t size = 0; size <= DIRECT_MAX; size++)
		unit_holds(heap_tls->by_size[size] == heap_tls->current[sizeclass_of(size)]);
}
END_TEST

START_TEST(test_full_pages_are_on_no_list_until_a_free)
{
	char *block[3 * PER_PAGE];

	fill_pages(block, 3);
	struct page *page = page_under(block[0]);
	ck_assert_uint_eq(page->place, PLACE_FULL);
	ck_assert_ptr_null(heap_tls->queue[CLASS].head);
	ck_assert_uint_eq(changed_pages(heap_tls), 0);
	heap_free_slow(block[3]);
	ck_assert_uint_eq(page->place, PLACE_QUEUE);
	ck_assert_ptr_eq(heap_tls->queue[CLASS].head, page);
	ck_assert_uint_eq(changed_pages(heap_tls), 1);
	heap_free_slow(block[4]);
	ck_assert_ptr_eq(heap_tls->queue[CLASS].tail, page);
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_the_page_that_got_free_blocks_first_is_used_first)
{
	char *block[4 * PER_PAGE];

	fill_pages(block, 4);
	heap_free_slow(block[PER_PAGE]);
	heap_free_slow(block[0]);
	heap_free_slow(block[2 * PER_PAGE]);
	ck_assert_ptr_eq(alloc(BYTES), block[PER_PAGE]);
	ck_assert_ptr_eq(alloc(BYTES), block[0]);
	ck_assert_ptr_eq(alloc(BYTES), block[2 * PER_PAGE]);
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_a_settled_page_is_changed_again_by_its_next_free)
{
	char *p[3] = {alloc(64), alloc(64), alloc(64)};
	struct page *page = page_under(p[0]);

	ck_assert_uint_eq(changed_pages(heap_tls), 0);
	heap_free_slow(p[0]);
	ck_assert_ptr_eq(page->tag, heap_tls);
	ck_assert_uint_eq(changed_pages(heap_tls), 1);
	heap_settle(heap_tls, page);
	ck_assert_ptr_null(page->tag);
	ck_assert_uint_eq(changed_pages(heap_tls), 0);
	heap_free_slow(p[1]);
	ck_assert_uint_eq(changed_pages(heap_tls), 1);
	heap_settle(heap_tls, page);
	thread_run(free_it, p[2]);
	ck_assert_uint_eq(changed_pages(heap_tls), 0);
	heap_take_remote(heap_tls);
	ck_assert_uint_eq(changed_pages(heap_tls), 1);
}
END_TEST

START_TEST(test_the_changed_list_loses_any_page_and_keeps_the_others)
{
	char *block[5 * PER_PAGE];

	fill_pages(block, 5);
	for (int i = 0; i < 4; i++)
		heap_free_slow(block[i * PER_PAGE]);
	heap_settle(heap_tls, page_under(block[2 * PER_PAGE])); /* inside */
	ck_assert_uint_eq(changed_pages(heap_tls), 3);
	heap_settle(heap_tls, page_under(block[0])); /* the tail */
	ck_assert_uint_eq(changed_pages(heap_tls), 2);
	heap_settle(heap_tls, heap_tls->changed); /* the head */
	ck_assert_uint_eq(changed_pages(heap_tls), 1);
	/* a page that is exhausted again has nothing to sweep */
	settle_all(heap_tls);
	heap_free_slow(block[1]);
	ck_assert_uint_eq(changed_pages(heap_tls), 1);
	for (int i = 0; i < PER_PAGE * 2; i++)
		alloc(BYTES);
	ck_assert_uint_eq(changed_pages(heap_tls), 0);
}
END_TEST

START_TEST(test_touching_all_changes_each_page_that_may_have_holes_once)
{
	char *block[3 * PER_PAGE];

	fill_pages(block, 3);
	heap_free_slow(block[0]);
	heap_free_slow(block[PER_PAGE]);
	heap_settle(heap_tls, page_under(block[0]));
	alloc(64);
	heap_touch_all(heap_tls);
	/* two queued pages, the current one, the current one of 64 bytes */
	ck_assert_uint_eq(changed_pages(heap_tls), 4);
}
END_TEST

/* --- giving back ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_an_emptied_page_goes_back_unless_it_is_the_only_one_waiting)
{
	char *block[4 * PER_PAGE];

	fill_pages(block, 4);
	uint64_t taken = region_counts().taken_bytes;
	free_page(block, 0);
	ck_assert_uint_eq(region_counts().taken_bytes, taken);
	ck_assert_uint_eq(page_under(block[0])->used, 0);
	free_page(block, 1);
	ck_assert_uint_eq(region_counts().taken_bytes, taken - SLICE_SIZE);
	ck_assert_ptr_null(page_of(block[PER_PAGE]));
	ck_assert_uint_eq(changed_pages(heap_tls), 1);
	free_page(block, 3); /* the current one stays */
	ck_assert_uint_eq(region_counts().taken_bytes, taken - SLICE_SIZE);
	ck_assert_uint_eq(heap_tls->current[CLASS]->used, 1);
	heap_retire_empty(heap_tls);
	ck_assert_uint_eq(region_counts().taken_bytes, taken - 3 * SLICE_SIZE);
	ck_assert_ptr_eq(heap_tls->current[CLASS], &page_empty);
	ck_assert_ptr_null(heap_tls->queue[CLASS].head);
	ck_assert_uint_eq(changed_pages(heap_tls), 0);
	heap_check(heap_tls);
}
END_TEST

/* The fast free of the layer above does the first half itself. */
START_TEST(test_the_fast_frees_last_block_gives_the_page_back)
{
	char *block[3 * PER_PAGE];

	fill_pages(block, 3);
	heap_free_slow(block[0]);
	heap_free_slow(block[PER_PAGE]);
	struct page *page = page_under(block[0]);
	for (int i = 1; i < PER_PAGE; i++) {
		page_push(page, block[i]);
		page->used--;
	}
	uint64_t taken = region_counts().taken_bytes;
	heap_page_emptied(page);
	ck_assert_uint_eq(region_counts().taken_bytes, taken - SLICE_SIZE);
	ck_assert_ptr_null(page_of(block[0]));
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_a_page_in_flight_is_kept_however_empty)
{
	char *block[4 * PER_PAGE];

	fill_pages(block, 4);
	struct page *page = page_under(block[0]);
	heap_free_slow(block[PER_PAGE]);
	atomic_store(&page->flight, 1);
	uint64_t taken = region_counts().taken_bytes;
	free_page(block, 0);
	heap_retire_empty(heap_tls);
	ck_assert_uint_eq(region_counts().taken_bytes, taken);
	ck_assert_ptr_eq(page_of(block[0]), page);
	atomic_store(&page->flight, 1u << 16); /* refused since */
	heap_retire_empty(heap_tls);
	ck_assert_uint_eq(region_counts().taken_bytes, taken - SLICE_SIZE);
}
END_TEST

/* --- other threads -------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_the_owner_finds_remote_frees_before_it_takes_a_page)
{
	char *block[2 * PER_PAGE];

	fill_pages(block, 2);
	uint64_t taken = region_counts().taken_bytes;
	thread_run(free_it, block[PER_PAGE + 2]);
	ck_assert_ptr_eq(alloc(BYTES), block[PER_PAGE + 2]);
	thread_run(free_it, block[4]);
	thread_run(free_it, block[5]);
	ck_assert_uint_eq(page_under(block[0])->remote >> 32, 2);
	ck_assert_ptr_eq(page_under(alloc(BYTES)), page_under(block[0]));
	ck_assert_ptr_eq(page_under(alloc(BYTES)), page_under(block[0]));
	ck_assert_uint_eq(region_counts().taken_bytes, taken);
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_a_page_emptied_by_others_goes_back_when_the_owner_looks)
{
	char *block[3 * PER_PAGE];

	fill_pages(block, 3);
	for (int i = 0; i < 2 * PER_PAGE; i++)
		thread_run(free_it, block[i]);
	uint64_t taken = region_counts().taken_bytes;
	ck_assert_uint_eq(page_under(block[0])->used, PER_PAGE);
	heap_take_remote(heap_tls);
	ck_assert_uint_eq(region_counts().taken_bytes, taken - SLICE_SIZE);
	heap_retire_empty(heap_tls);
	ck_assert_uint_eq(region_counts().taken_bytes, taken - 2 * SLICE_SIZE);
	heap_check(heap_tls);
}
END_TEST

/* --- mistakes ------------------------------------------------------------------------------------------------------------------------- */

static char *mistaken[4];

static void free_twice(void *unused)
{
	(void)unused;
	heap_free_slow(mistaken[0]);
	heap_free_slow(mistaken[0]);
}

static void free_more_than_there_is(void *unused)
{
	(void)unused;
	for (int i = 0; i < 9; i++)
		heap_free_slow(mistaken[i % 4]);
}

static void *free_twice_by_another(void *arg)
{
	free_twice(arg);
	return NULL;
}

static void free_twice_remotely(void *unused)
{
	thread_run(free_twice_by_another, unused);
}

static void *free_in_a_circle(void *unused)
{
	heap_free_slow(mistaken[0]);
	heap_free_slow(mistaken[1]);
	heap_free_slow(mistaken[0]);
	return unused;
}

static void free_in_a_circle_remotely(void *unused)
{
	thread_run(free_in_a_circle, unused);
	heap_take_remote(heap_tls);
}

static void free_unformed(void *unused)
{
	struct page *page = page_under(mistaken[0]);

	(void)unused;
	ck_assert_uint_lt(page->formed, page->capacity);
	heap_free_slow(page->start + (size_t)page->formed * page->block_bytes);
}

static void *free_last(void *unused)
{
	struct page *page = page_under(mistaken[0]);

	heap_free_slow(page->start + (size_t)(page->capacity - 1u) * page->block_bytes);
	return unused;
}

static void free_unformed_remotely(void *unused)
{
	thread_run(free_last, unused);
	heap_take_remote(heap_tls);
}

static void free_inside(void *unused)
{
	(void)unused;
	heap_free_slow(mistaken[0] + 16);
}

static void use_after_free(void *unused)
{
	(void)unused;
	heap_free_slow(mistaken[0]);
	memset(mistaken[0], 'z', 8);
	alloc(64);
	alloc(64);
}

static void report_emptied(void *unused)
{
	(void)unused;
	heap_page_emptied(page_under(mistaken[0]));
}

START_TEST(test_mistakes_end_the_process_with_their_line)
{
	for (size_t i = 0; i < array_len(mistaken); i++)
		mistaken[i] = alloc(64);
	ck_dies(free_twice, NULL, "double free");
	ck_dies(free_more_than_there_is, NULL, "double free");
	ck_dies(free_twice_remotely, NULL, "double free");
	ck_dies(free_in_a_circle_remotely, NULL, "double free");
	ck_dies(report_emptied, NULL, "double free");
	ck_dies(free_unformed, NULL, "invalid pointer");
	ck_dies(free_unformed_remotely, NULL, "invalid pointer");
	ck_dies(free_inside, NULL, "invalid pointer");
	ck_dies(use_after_free, NULL, "damaged block");
}
END_TEST

/* --- histories ------------------------------------------------------------------------------------------------------------------------ */

#define LIVE 1500

static struct {
	char *p;
	size_t size;
	char fill;
} live[LIVE];

static void ck_filled(unsigned i)
{
	unit_holds(memory_is_filled(live[i].p, live[i].size, live[i].fill));
}

START_TEST(test_random_histories_keep_every_block_whole)
{
	struct random random;

	random_init(&random, (uint64_t)_i);
	for (unsigned op = 0; op < 12000; op++) {
		unsigned i = (unsigned)(random_next(&random) % LIVE);

		if (live[i].p != NULL) {
			ck_filled(i);
			heap_free_slow(live[i].p);
			live[i].p = NULL;
		} else if (op / 3000 % 2 == 0 || random_next(&random) % 4 == 0) {
			live[i].size = 1 + (size_t)random_next(&random) % (random_next(&random) % 8 == 0 ? 8192 : 600);
			live[i].fill = (char)op;
			live[i].p = alloc(live[i].size);
			memset(live[i].p, live[i].fill, live[i].size);
		}
		if (op % 500 == 0)
			heap_check(heap_tls);
		if (op % 700 == 0)
			heap_retire_empty(heap_tls);
	}
	for (unsigned i = 0; i < LIVE; i++) {
		if (live[i].p == NULL)
			continue;
		ck_filled(i);
		heap_free_slow(live[i].p);
	}
	heap_retire_empty(heap_tls);
	heap_check(heap_tls);
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
}
END_TEST

#define HANDS 256
static char *_Atomic hand[HANDS];

static void *exchange_blocks(void *arg)
{
	struct random random;

	random_init(&random, (uintptr_t)arg);
	for (int i = 0; i < 15000; i++) {
		uint64_t r = random_next(&random);
		size_t size = r >> 32 & 1 ? 64 : 16 + (r >> 20) % 500;
		char *p = alloc(size);

		memset(p, (int)size, size);
		memcpy(p, &size, sizeof(size));
		p = atomic_exchange(&hand[r % HANDS], p);
		if (p == NULL)
			continue;
		memcpy(&size, p, sizeof(size));
		unit_holds(memory_is_filled(p + sizeof(size), size - sizeof(size), (char)size));
		heap_free_slow(p);
	}
	return heap_tls;
}

START_TEST(test_three_threads_exchange_blocks_and_lose_none)
{
	pthread_t thread[3];
	void *heap[3];

	for (uintptr_t i = 0; i < 3; i++)
		thread[i] = thread_start(exchange_blocks, (void *)(i + 1));
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], &heap[i]);
	for (int i = 0; i < HANDS; i++)
		if (hand[i] != NULL)
			heap_free_slow(hand[i]);
	for (int i = 0; i < 3; i++) {
		heap_take_remote(heap[i]);
		heap_retire_empty(heap[i]);
		heap_check(heap[i]);
	}
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
}
END_TEST

static TCase *places(void)
{
	TCase *tcase = tcase_create("places");

	tcase_add_test(tcase, test_every_size_finds_its_current_page_by_one_load);
	tcase_add_test(tcase, test_full_pages_are_on_no_list_until_a_free);
	tcase_add_test(tcase, test_the_page_that_got_free_blocks_first_is_used_first);
	tcase_add_test(tcase, test_a_settled_page_is_changed_again_by_its_next_free);
	tcase_add_test(tcase, test_the_changed_list_loses_any_page_and_keeps_the_others);
	tcase_add_test(tcase, test_touching_all_changes_each_page_that_may_have_holes_once);
	return tcase;
}

static TCase *giving_back(void)
{
	TCase *tcase = tcase_create("giving back");

	tcase_add_test(tcase, test_an_emptied_page_goes_back_unless_it_is_the_only_one_waiting);
	tcase_add_test(tcase, test_the_fast_frees_last_block_gives_the_page_back);
	tcase_add_test(tcase, test_a_page_in_flight_is_kept_however_empty);
	tcase_add_test(tcase, test_the_owner_finds_remote_frees_before_it_takes_a_page);
	tcase_add_test(tcase, test_a_page_emptied_by_others_goes_back_when_the_owner_looks);
	return tcase;
}

int main(void)
{
	Suite *suite = unit_suite("small");
	TCase *mistakes = tcase_create("mistakes"), *histories = tcase_create("histories");

	tcase_add_test(mistakes, test_mistakes_end_the_process_with_their_line);
	tcase_add_loop_test(histories, test_random_histories_keep_every_block_whole, 0, 4);
	tcase_add_test(histories, test_three_threads_exchange_blocks_and_lose_none);
	suite_add_tcase(suite, places());
	suite_add_tcase(suite, giving_back());
	suite_add_tcase(suite, mistakes);
	suite_add_tcase(suite, histories);
	return unit_run(suite);
}
