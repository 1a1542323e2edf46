/* SPDX-License-Identifier: MIT */
/*
 * Suite big: the word of free blocks. Resident blocks go first, each block has one holder whatever races, a clean block reads as zero.
 */
#include "page/page.h"

#include "heap/heap.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/page/dies.h"
#include "unit/region/memory.h"

#include <pthread.h>

static struct page *page;

static struct page *make(size_t bytes)
{
	page = page_create(&heap_empty, sizeclass_of(bytes), 0);
	ck_assert_ptr_nonnull(page);
	return page;
}

static char *take(bool *ret_clean)
{
	char *block = page_take_block(page, ret_clean);

	ck_assert_ptr_nonnull(block);
	return block;
}

START_TEST(test_a_fresh_page_hands_out_clean_blocks_lowest_first)
{
	static const size_t sizes[] = {9 * KIB, 48 * KIB, 64 * KIB, 72 * KIB, 512 * KIB};
	bool clean;

	make(sizes[_i]);
	ck_assert_uint_eq(page->capacity, (sizes[_i] <= MEDIUM_MAX ? MEDIUM_SLICES : LARGE_SLICES) * SLICE_SIZE / sizes[_i]);
	for (unsigned i = 0; i < page->capacity; i++) {
		ck_assert_ptr_eq(take(&clean), page->start + i * sizes[_i]);
		ck_assert(clean);
	}
	ck_assert_ptr_null(page_take_block(page, &clean));
	page_check(page);
}
END_TEST

START_TEST(test_a_resident_block_goes_before_an_away_one)
{
	bool clean;
	char *block[10];

	make(48 * KIB);
	for (int i = 0; i < 10; i++)
		block[i] = take(&clean);
	page_free_block(page, block[5]);
	page_free_block(page, block[7]);
	page_free_block(page, block[1]);
	page_free_block(page, block[2]);
	atomic_store(&page->away_blocks, 1 << 1 | 1 << 5);
	atomic_store(&page->returned, 1 << 1);
	atomic_store(&page_away_bytes, 48 * KIB);
	ck_assert_ptr_eq(take(&clean), block[2]);
	ck_assert(!clean);
	ck_assert_ptr_eq(take(&clean), block[7]);
	ck_assert(!clean);
	ck_assert_uint_eq(page_away_bytes, 48 * KIB);
	ck_assert_ptr_eq(take(&clean), block[1]);
	ck_assert(clean);
	ck_assert_uint_eq(page_away_bytes, 0);
	ck_assert_uint_eq(page_refaulted_bytes, 48 * KIB);
	ck_assert_ptr_eq(take(&clean), block[5]); /* never resident: not counted as taken back */
	ck_assert(clean);
	ck_assert_uint_eq(page_refaulted_bytes, 48 * KIB);
	ck_assert_uint_eq(page->away_blocks, 0);
	ck_assert_uint_eq(page->returned, 0);
}
END_TEST

START_TEST(test_a_free_tells_the_first_and_the_last)
{
	bool clean;
	char *block[10];

	make(48 * KIB);
	for (int i = 0; i < 10; i++)
		block[i] = take(&clean);
	ck_assert_int_eq(page_free_block(page, block[4]), PAGE_FREED_FIRST);
	for (int i = 0; i < 9; i++)
		if (i != 4)
			ck_assert_int_eq(page_free_block(page, block[i]), PAGE_FREED);
	ck_assert(!page_take_all(page));
	ck_assert_int_eq(page_free_block(page, block[9]), PAGE_FREED_LAST);
	ck_assert(page_take_all(page));
	ck_assert_uint_eq(page->word, 0);
	ck_assert(!page_take_all(page));
}
END_TEST

static void free_twice(void *block)
{
	page_free_block(page, block);
	page_free_block(page, block);
}

START_TEST(test_a_double_free_ends_the_process)
{
	bool clean;

	make(48 * KIB);
	ck_dies(free_twice, take(&clean), "double free");
	take(&clean);
	ck_dies(free_twice, take(&clean), "double free");
}
END_TEST

/* 9 KiB blocks: their first and last bytes lie in OS pages of neighbours. */
START_TEST(test_clearing_edges_clears_what_is_shared_and_nothing_else)
{
	bool clean;
	char *block[5];

	make(9 * KIB);
	for (int i = 0; i < 5; i++) {
		block[i] = take(&clean);
		memset(block[i], 0x55, 9 * KIB);
	}
	for (int i = 1; i < 4; i += 2) {
		char *first = (char *)align_up((uintptr_t)block[i], OS_PAGE_SIZE);
		char *last = (char *)align_down((uintptr_t)block[i] + 9 * KIB, OS_PAGE_SIZE);

		page_clear_edges(page, block[i]);
		ck_assert(memory_is_zero(block[i], (size_t)(first - block[i])));
		ck_assert(memory_is_zero(last, (size_t)(block[i] + 9 * KIB - last)));
		ck_assert(memory_is_filled(first, (size_t)(last - first), 0x55));
	}
	for (int i = 0; i < 5; i += 2)
		ck_assert(memory_is_filled(block[i], 9 * KIB, 0x55));
}
END_TEST

START_TEST(test_a_block_of_whole_os_pages_has_no_edges)
{
	bool clean;

	memory_without_huge_pages();
	make(64 * KIB);
	page_clear_edges(page, take(&clean));
	ck_assert_uint_eq(memory_resident(page->start, 64 * KIB), 0);
}
END_TEST

/* --- threads -------------------------------------------------------------------------------------------------------------------------- */

static uint64_t holders[64]; /* plain on purpose: who holds a block may write here */

static void *take_and_free(void *arg)
{
	unsigned held = 0, at = (unsigned)(uintptr_t)arg;
	char *mine[8];

	for (int i = 0; i < 20000; i++, at = at * 5 + 3) {
		bool clean;

		if (held < 8 && at / 16 % 2 == 0) {
			char *block = page_take_block(page, &clean);
			if (block == NULL)
				continue;
			holders[(size_t)(block - page->start) / page->block_bytes]++;
			mine[held++] = block;
		} else if (held > 0) {
			char *block = mine[--held];
			holders[(size_t)(block - page->start) / page->block_bytes]++;
			page_free_block(page, block);
		}
	}
	while (held > 0)
		page_free_block(page, mine[--held]);
	return NULL;
}

START_TEST(test_four_threads_conserve_the_blocks_of_a_page)
{
	pthread_t thread[4];

	make(_i == 0 ? 20 * KIB : 64 * KIB); /* 25 blocks: nearly never empty; 8: often */
	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, take_and_free, (void *)(i + 11)), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(page->word, page_full_word(page));
	ck_assert(page_take_all(page));
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("big");
	TCase *blocks = tcase_create("blocks"), *edges = tcase_create("edges"), *threads = tcase_create("threads");

	tcase_add_loop_test(blocks, test_a_fresh_page_hands_out_clean_blocks_lowest_first, 0, 5);
	tcase_add_test(blocks, test_a_resident_block_goes_before_an_away_one);
	tcase_add_test(blocks, test_a_free_tells_the_first_and_the_last);
	tcase_add_test(blocks, test_a_double_free_ends_the_process);
	tcase_add_test(edges, test_clearing_edges_clears_what_is_shared_and_nothing_else);
	tcase_add_test(edges, test_a_block_of_whole_os_pages_has_no_edges);
	tcase_add_loop_test(threads, test_four_threads_conserve_the_blocks_of_a_page, 0, 2);
	suite_add_tcase(suite, blocks);
	suite_add_tcase(suite, edges);
	suite_add_tcase(suite, threads);
	return unit_run(suite);
}
