/* SPDX-License-Identifier: MIT */
/*
 * Suite big: a medium or large page with free blocks is in exactly one place where its heap finds it, whatever races; a full one is in
 * none; wholly free ones go back when their holder sees them.
 */
#include "heap/heap.h"

#include "heap/internal.h"
#include "kernel/kernel.h"
#include "region/region.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/page/dies.h"

#define BIG (48 * KIB) /* ten to a page of 512 KiB */
#define PER_PAGE 10

#define BIG_CLASS (24 + 8 * 6 + 3) /* 48 KiB; checked in fill */

static struct page_list *queue(struct heap *heap)
{
	return &heap->big_queue[BIG_CLASS - SMALL_CLASSES];
}

static struct page *current(struct heap *heap)
{
	return heap->big[BIG_CLASS - SMALL_CLASSES];
}

static unsigned places_of(struct heap *heap, const struct page *page)
{
	unsigned n = 0;

	for (unsigned b = 0; b < BIG_CLASSES; b++) {
		n += heap->big[b] == page;
		for (struct page *p = heap->big_queue[b].head; p != NULL; p = p->next)
			n += p == page;
	}
	for (struct page *p = heap->listed_pages; p != NULL; p = p->listed_next)
		n += p == page;
	return n;
}

/* Every page of this heap: found once or, when it is full, nowhere, as `nowhere` says. Returns how many there are. */
static unsigned ck_places(struct heap *heap)
{
	struct region *region = region_at(0);
	unsigned n = 0;

	for (size_t i = 0; i < atomic_load(&region->limit); i++) {
		struct page *page = (struct page *)(region->records + i * RECORD_SIZE);
		unsigned kind = page->kind;

		if ((kind != PAGE_MEDIUM && kind != PAGE_LARGE) || owner_of(page) != heap)
			continue;
		unit_holds(places_of(heap, page) == !page->nowhere);
		unit_holds(page->word == 0 || page->nowhere == 0);
		n++;
	}
	return n;
}

/* One more than fills a page: it is full, and dropped. The last block, in the page that is current then, is the last of BLOCK. */
static struct page *fill(char *block[PER_PAGE + 1])
{
	ck_assert_uint_eq(sizeclass_of(BIG), BIG_CLASS);
	for (unsigned i = 0; i <= PER_PAGE; i++)
		block[i] = alloc(BIG);
	ck_assert_ptr_eq(page_under(block[0]), page_under(block[PER_PAGE - 1]));
	ck_assert_ptr_ne(page_under(block[0]), page_under(block[PER_PAGE]));
	return page_under(block[0]);
}

static void *free_it(void *block)
{
	heap_free_slow(block);
	return NULL;
}

START_TEST(test_a_full_page_is_nowhere)
{
	char *block[PER_PAGE + 1];
	struct page *page = fill(block);

	ck_assert_uint_eq(page->nowhere, 1);
	ck_assert_uint_eq(page->place, PLACE_FULL);
	ck_assert_uint_eq(places_of(heap_tls, page), 0);
	ck_assert_uint_eq(ck_places(heap_tls), 2);
}
END_TEST

/* 0: by its own thread, 1: by another */
START_TEST(test_the_first_free_lists_a_full_page_and_the_next_ones_do_not)
{
	char *block[PER_PAGE + 1];
	struct page *page = fill(block);

	for (int i = 0; i < 3; i++) {
		if (_i == 0)
			heap_free_slow(block[i]);
		else
			thread_run(free_it, block[i]);
		ck_assert_ptr_eq(heap_tls->listed_pages, page);
		ck_assert_ptr_null(page->listed_next);
		ck_assert_uint_eq(page->nowhere, 0);
	}
	ck_places(heap_tls);
	/* used again when the current page has nothing but blocks that take a fault */
	struct page *fresh = current(heap_tls);
	ck_assert_ptr_ne(fresh, page);
	for (int i = 0; i < 3; i++)
		ck_assert_ptr_eq(page_under(alloc(BIG)), page);
	ck_assert_ptr_null(heap_tls->listed_pages);
	ck_assert_ptr_eq(current(heap_tls), page);
	ck_assert_ptr_eq(page_under(alloc(BIG)), fresh);
	ck_assert_uint_eq(ck_places(heap_tls), 2);
}
END_TEST

/* A working set slightly larger than a page does not drift into fresh memory, use by use. */
START_TEST(test_the_same_set_of_blocks_takes_the_same_memory_again)
{
	char *block[PER_PAGE + PER_PAGE / 2], *first = NULL, *last = NULL;

	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < array_len(block); i++) {
			block[i] = alloc(BIG);
			first = first == NULL || block[i] < first ? block[i] : first;
			last = block[i] > last ? block[i] : last;
			memset(block[i], 1, BIG);
		}
		if (round == 0)
			continue;
		for (size_t i = 0; i < array_len(block); i++)
			heap_free_slow(block[i]);
	}
	/* the round that was kept, and one that was used nineteen times */
	ck_assert_uint_eq(region_counts().taken_bytes, 3 * MEDIUM_SLICES * SLICE_SIZE);
}
END_TEST

START_TEST(test_what_a_sweep_puts_back_lists_a_full_page_once)
{
	char *block[PER_PAGE + 1];
	struct page *page = fill(block);

	heap_put_blocks(page, 3);
	heap_put_blocks(page, 4);
	ck_assert_ptr_eq(heap_tls->listed_pages, page);
	ck_assert_ptr_null(page->listed_next);
	ck_places(heap_tls);
	big_take_listed(heap_tls);
	ck_assert_ptr_eq(queue(heap_tls)->head, page);
	heap_put_blocks(page, 8);
	ck_assert_ptr_null(heap_tls->listed_pages);
	ck_places(heap_tls);
}
END_TEST

/* All its blocks are held by a sweep: in the queue, but of no use now. */
START_TEST(test_a_queued_page_in_flight_is_passed_over)
{
	char *block[2 * PER_PAGE + 1];
	struct page *page = fill(block);

	heap_free_slow(block[0]);
	big_take_listed(heap_tls);
	uint64_t held = atomic_exchange(&page->word, 0);
	for (int i = 0; i < 3 * PER_PAGE; i++)
		ck_assert_ptr_ne(page_under(alloc(BIG)), page);
	ck_assert_uint_eq(page->place, PLACE_QUEUE);
	heap_put_blocks(page, held);
	while (page->word != 0)
		alloc(BIG);
	ck_places(heap_tls);
}
END_TEST

/* --- giving back ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_the_owner_gives_a_queued_page_back_with_its_last_block)
{
	char *block[PER_PAGE + 1];
	struct page *page = fill(block);
	uint64_t taken = region_counts().taken_bytes;

	heap_free_slow(block[0]);
	big_take_listed(heap_tls);
	for (int i = 1; i < PER_PAGE; i++) {
		ck_assert_uint_eq(region_counts().taken_bytes, taken);
		heap_free_slow(block[i]);
	}
	ck_assert_uint_eq(region_counts().taken_bytes, taken - MEDIUM_SLICES * SLICE_SIZE);
	ck_assert_uint_eq(page->kind, PAGE_NONE);
	ck_assert_ptr_null(queue(heap_tls)->head);
	ck_assert_ptr_null(page_of(block[0]));
	ck_assert_ptr_null(page_of(block[9]));
}
END_TEST

START_TEST(test_the_current_page_stays_with_its_last_block)
{
	char *p = alloc(BIG);
	struct page *page = page_under(p);

	heap_free_slow(p);
	ck_assert_ptr_eq(current(heap_tls), page);
	ck_assert_ptr_eq(alloc(BIG), p);
	ck_assert_uint_eq(ck_places(heap_tls), 1);
}
END_TEST

START_TEST(test_another_threads_last_free_leaves_the_page_to_its_holder)
{
	char *block[PER_PAGE + 1];
	struct page *page = fill(block);

	thread_run(free_it, block[0]);
	big_take_listed(heap_tls);
	ck_assert_uint_eq(page->place, PLACE_QUEUE);
	for (int i = 1; i <= PER_PAGE; i++)
		thread_run(free_it, block[i]);
	ck_assert_uint_eq(page->kind, PAGE_MEDIUM);
	ck_assert_uint_eq(ck_places(heap_tls), 2);
	heap_take_remote(heap_tls);
	heap_retire_empty(heap_tls);
	ck_assert_uint_eq(ck_places(heap_tls), 0);
	ck_assert_ptr_null(current(heap_tls));
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
}
END_TEST

START_TEST(test_a_page_with_a_block_out_or_in_flight_is_not_given_back)
{
	char *block[PER_PAGE + 1];
	struct page *page = fill(block);

	for (int i = 0; i < PER_PAGE; i++)
		heap_free_slow(block[i]);
	atomic_fetch_and(&page->word, ~UINT64_C(4)); /* in flight */
	heap_take_remote(heap_tls);
	heap_retire_empty(heap_tls);
	ck_assert_uint_eq(ck_places(heap_tls), 2);
	heap_put_blocks(page, 4);
	heap_retire_empty(heap_tls);
	ck_assert_uint_eq(ck_places(heap_tls), 1);
	ck_assert_uint_eq(page->kind, PAGE_NONE);
}
END_TEST

static void free_once(void *block)
{
	heap_free_slow(block);
}

static void free_twice(void *block)
{
	heap_free_slow(block);
	heap_free_slow(block);
}

START_TEST(test_a_double_free_ends_the_process)
{
	char *block[PER_PAGE + 1];

	fill(block);
	ck_dies(free_twice, block[3], "double free");
	ck_dies(free_twice, block[PER_PAGE], "double free");
	ck_dies(free_once, block[3] + 16, "invalid pointer");
}
END_TEST

/* --- races ---------------------------------------------------------------------------------------------------------------------------- */

static char *freed_in_between;
static struct kernel real;

/* Making room for a new page: the owner found the current one full a moment ago and drops it a moment later. */
static int free_during_growth(void *addr, size_t len, int prot)
{
	if (freed_in_between != NULL)
		thread_run(free_it, freed_in_between);
	freed_in_between = NULL;
	return real.mprotect(addr, len, prot);
}

/* The free comes between "it is full" and "it is dropped": it sees a page that is listed still and lists nothing. */
START_TEST(test_a_block_freed_while_its_page_is_dropped_is_found)
{
	char *last = alloc(BIG);
	struct page *page;

	real = kernel;
	kernel.mprotect = free_during_growth;
	do { /* not every new page needs room */
		while (current(heap_tls)->word != 0)
			last = alloc(BIG);
		page = current(heap_tls);
		ck_assert_ptr_eq(page_under(last), page);
		freed_in_between = last;
		alloc(BIG);
		bool freed = freed_in_between == NULL;
		freed_in_between = NULL;
		if (freed)
			break;
	} while (region_counts().taken_bytes < GIB);
	ck_assert_uint_ne(page->word, 0);
	ck_assert_uint_eq(page->nowhere, 0);
	ck_assert_ptr_eq(queue(heap_tls)->head, page);
	ck_places(heap_tls);
}
END_TEST

#define ROUNDS 1500

static atomic_int turn;
static char *_Atomic victim;

/* The free that gives a full page its first block, while the owner drops the page as full. */
static void *free_victims(void *unused)
{
	for (int i = 1; i <= ROUNDS; i++) {
		step_await(&turn, 2 * i - 1);
		heap_free_slow(victim);
		step_reach(&turn, 2 * i);
	}
	return unused;
}

START_TEST(test_dropping_a_full_page_races_with_a_free_and_loses_nothing)
{
	static char *block[ROUNDS * 2 + 2 * PER_PAGE];
	unsigned n = 0;
	pthread_t thread;

	block[n++] = alloc(BIG);
	thread = thread_start(free_victims, NULL);
	for (int i = 1; i <= ROUNDS; i++) {
		while (current(heap_tls)->word != 0)
			block[n++] = alloc(BIG);
		/* a block of the page that the next malloc finds full */
		unsigned at = n - 1;
		while (page_under(block[at]) != current(heap_tls))
			at--;
		victim = block[at];
		block[at] = block[--n];
		step_reach(&turn, 2 * i - 1);
		for (int spin = 0; spin < (i & 31); spin++)
			cpu_relax();
		block[n++] = alloc(BIG);
		step_await(&turn, 2 * i);
		ck_places(heap_tls);
		while (n > 2 * PER_PAGE) /* not to grow: the owner's frees list pages too */
			heap_free_slow(block[--n]);
	}
	pthread_join(thread, NULL);
	while (n > 0)
		heap_free_slow(block[--n]);
	heap_take_remote(heap_tls);
	heap_retire_empty(heap_tls);
	ck_assert_uint_eq(ck_places(heap_tls), 0);
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
}
END_TEST

#define HANDS 64
static char *_Atomic hand[HANDS];

/* Blocks of two sizes change hands: each is freed by whoever happens to find it. */
static void *exchange_blocks(void *arg)
{
	unsigned at = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 4000; i++, at = at * 5 + 1) {
		size_t size = at % 4 == 0 ? 80 * KIB : BIG;
		char *p = alloc(size);

		memcpy(p, &at, sizeof(at));
		memcpy(p + size - sizeof(at), &at, sizeof(at));
		p = atomic_exchange(&hand[at / 8 % HANDS], p);
		if (p == NULL)
			continue;
		unsigned first, last;
		size = heap_usable(p);
		memcpy(&first, p, sizeof(first));
		memcpy(&last, p + (size >= 80 * KIB ? 80 * KIB : BIG) - sizeof(last), sizeof(last));
		unit_holds(first == last);
		heap_free_slow(p);
	}
	return heap_tls;
}

START_TEST(test_three_threads_exchange_blocks_and_every_page_is_found)
{
	pthread_t thread[3];
	void *heap[3];

	for (uintptr_t i = 0; i < 3; i++)
		thread[i] = thread_start(exchange_blocks, (void *)(i + 7));
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], &heap[i]);
	for (int i = 0; i < 3; i++)
		ck_places(heap[i]);
	for (int i = 0; i < HANDS; i++)
		if (hand[i] != NULL)
			heap_free_slow(hand[i]);
	for (int i = 0; i < 3; i++) {
		heap_take_remote(heap[i]);
		heap_retire_empty(heap[i]);
		ck_assert_uint_eq(ck_places(heap[i]), 0);
	}
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("big");
	TCase *places = tcase_create("places"), *back = tcase_create("giving back"), *races = tcase_create("races");

	tcase_add_test(places, test_a_full_page_is_nowhere);
	tcase_add_test(places, test_the_same_set_of_blocks_takes_the_same_memory_again);
	tcase_add_loop_test(places, test_the_first_free_lists_a_full_page_and_the_next_ones_do_not, 0, 2);
	tcase_add_test(places, test_what_a_sweep_puts_back_lists_a_full_page_once);
	tcase_add_test(places, test_a_queued_page_in_flight_is_passed_over);
	tcase_add_test(back, test_the_owner_gives_a_queued_page_back_with_its_last_block);
	tcase_add_test(back, test_the_current_page_stays_with_its_last_block);
	tcase_add_test(back, test_another_threads_last_free_leaves_the_page_to_its_holder);
	tcase_add_test(back, test_a_page_with_a_block_out_or_in_flight_is_not_given_back);
	tcase_add_test(back, test_a_double_free_ends_the_process);
	tcase_add_test(races, test_a_block_freed_while_its_page_is_dropped_is_found);
	tcase_add_test(races, test_dropping_a_full_page_races_with_a_free_and_loses_nothing);
	tcase_add_test(races, test_three_threads_exchange_blocks_and_every_page_is_found);
	suite_add_tcase(suite, places);
	suite_add_tcase(suite, back);
	suite_add_tcase(suite, races);
	return unit_run(suite);
}
