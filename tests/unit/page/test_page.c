/* SPDX-License-Identifier: MIT */
/*
 * Suite page: pages of every class come, are found from every address in them and from no other, and go; singletons grow and shrink in
 * place; what is said to be clean is.
 */
#include "page/page.h"

#include "heap/heap.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/region/memory.h"

#include <errno.h>

static struct page *make(unsigned c)
{
	struct page *page = page_create(&heap_empty, c, 0x1234567);

	ck_assert_ptr_nonnull(page);
	return page;
}

static void destroy(struct page *page)
{
	if (page->kind == PAGE_MEDIUM || page->kind == PAGE_LARGE)
		ck_assert(page_take_all(page));
	if (page->kind == PAGE_SINGLE)
		atomic_store(&page->kind, PAGE_DYING);
	page_destroy(page);
}

static size_t slices_of(unsigned c)
{
	return c < SMALL_CLASSES ? SMALL_SLICES : c < SMALL_CLASSES + MEDIUM_CLASSES ? MEDIUM_SLICES : LARGE_SLICES;
}

START_TEST(test_a_page_of_every_class_is_found_from_every_slice_of_it)
{
	for (unsigned c = 0; c < SIZE_CLASSES; c++) {
		struct page *page = make(c);
		size_t len = slices_of(c) * SLICE_SIZE;

		ck_assert_uint_eq(page->kind, c < SMALL_CLASSES ? PAGE_SMALL : c < SMALL_CLASSES + MEDIUM_CLASSES ? PAGE_MEDIUM : PAGE_LARGE);
		ck_assert_uint_eq((uintptr_t)page->start % len, 0);
		ck_assert_uint_eq(page->block_bytes, sizeclass_bytes(c));
		ck_assert_uint_eq(page->capacity, len / sizeclass_bytes(c));
		ck_assert_uint_eq(page->nowhere, 0);
		ck_assert_ptr_eq(atomic_load(&page->owner), &heap_empty);
		ck_assert_ptr_null(atomic_load(&page->tag));
		for (size_t at = 0; at < len; at += SLICE_SIZE) {
			unit_holds(page_of(page->start + at) == page);
			unit_holds(page_of(page->start + at + SLICE_SIZE - 1) == page);
		}
		unit_holds(page_of(page->start + len) != page);
		unit_holds(page_of(page->start - 1) != page);
		page_check(page);
		/* the next page's slices were this one's half of the time */
		if (c % 2) {
			char *start = page->start;
			destroy(page);
			for (size_t at = 0; at < len; at += SLICE_SIZE)
				unit_holds(page_of(start + at) == NULL);
		}
	}
}
END_TEST

START_TEST(test_only_the_first_byte_of_a_block_is_a_block)
{
	static const size_t sizes[] = {16, 48, 7 * KIB, 9 * KIB, 48 * KIB, 72 * KIB};
	struct page *page = make(sizeclass_of(sizes[_i]));

	for (unsigned i = 0; i < page->capacity; i++) {
		char *block = page->start + (size_t)i * page->block_bytes;
		unit_holds(page_is_block(page, block));
		unit_holds(!page_is_block(page, block + 1));
		unit_holds(!page_is_block(page, block + 8));
		unit_holds(!page_is_block(page, block + page->block_bytes - 1));
	}
	ck_assert(!page_is_block(page, page->start + (size_t)page->capacity * page->block_bytes));
	ck_assert(!page_is_block(page, page->start - page->block_bytes));
}
END_TEST

START_TEST(test_addresses_that_are_not_ours_have_no_page)
{
	static const uintptr_t wild[] = {0, 1, 4096, UINT64_C(1) << 46, UINT64_C(1) << 63, UINTPTR_MAX};
	int local;

	make(0);
	for (size_t i = 0; i < array_len(wild); i++)
		ck_assert_ptr_null(page_of((void *)wild[i]));
	ck_assert_ptr_null(page_of(&local));
	ck_assert_ptr_null(page_of(make));
	ck_assert_uint_eq(page_first(&page_empty), OFFSET_END);
	ck_assert(!page_has_listed(&page_empty));
}
END_TEST

START_TEST(test_a_refused_page_is_null_and_costs_nothing)
{
	fake_kernel_install();
	make(0);
	uint64_t taken = region_counts().taken_bytes;
	fake_refuse_all(FAKE_MPROTECT, ENOMEM);
	fake_refuse_all(FAKE_MMAP, ENOMEM);
	bool clean;
	ck_assert_ptr_null(page_create(&heap_empty, SIZE_CLASSES - 1, 0));
	ck_assert_ptr_null(page_create_single(GIB, 1, &clean));
	ck_assert_uint_eq(region_counts().taken_bytes, taken);
	fake_refuse_all(FAKE_MPROTECT, 0);
	make(SIZE_CLASSES - 1);
}
END_TEST

/* --- clean or not --------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_slices_go_back_clean_only_when_nothing_was_touched)
{
	struct page *small = make(3), *medium = make(SMALL_CLASSES), *large = make(SIZE_CLASSES - 1);

	destroy(small);
	destroy(medium);
	destroy(large);
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
	small = make(3);
	page_extend(small);
	destroy(small);
	ck_assert_uint_eq(region_counts().dirty_bytes, SLICE_SIZE);
	medium = make(SMALL_CLASSES + 1);
	bool clean;
	page_free_block(medium, page_take_block(medium, &clean));
	destroy(medium);
	ck_assert_uint_ge(region_counts().dirty_bytes, MEDIUM_SLICES * SLICE_SIZE);
}
END_TEST

START_TEST(test_a_page_on_dirty_slices_says_so)
{
	struct page *page = make(SMALL_CLASSES);
	bool clean;

	memset(page_take_block(page, &clean), 1, page->block_bytes);
	page_free_block(page, page->start);
	destroy(page);
	page = make(SMALL_CLASSES + 5);
	ck_assert_uint_eq(page->away_blocks, 0);
	ck_assert_uint_eq(page->dirty_end, MEDIUM_SLICES * SLICE_SIZE);
	ck_assert_ptr_nonnull(page_take_block(page, &clean));
	ck_assert(!clean);
	page_free_block(page, page->start);
	destroy(page);
	page = make(5);
	ck_assert_uint_eq(page->dirty_tail, 1);
}
END_TEST

START_TEST(test_away_bytes_of_a_destroyed_page_are_no_longer_counted)
{
	struct page *page = make(3), *big = make(SMALL_CLASSES);

	page_away_bytes = 100 * OS_PAGE_SIZE;
	while (page_extend(page))
		page->free = OFFSET_END ^ page->secret;
	page->away = 0x0070;
	atomic_store(&page->flight, 0x0010u << 16); /* one of the three was refused */
	destroy(page);
	ck_assert_uint_eq(page_away_bytes, 98 * OS_PAGE_SIZE);
	atomic_store(&big->returned, 3);
	page_away_bytes = 2 * big->block_bytes;
	destroy(big);
	ck_assert_uint_eq(page_away_bytes, 0);
}
END_TEST

/* --- singletons ----------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_a_singleton_is_one_block_rounded_to_os_pages)
{
	static const size_t sizes[] = {1, OS_PAGE_SIZE, OS_PAGE_SIZE + 1, LARGE_MAX + 1, 5 * MIB, 20 * MIB + 5};
	bool clean = false;
	struct page *page = page_create_single(sizes[_i], 1, &clean);

	ck_assert_ptr_nonnull(page);
	ck_assert(clean);
	ck_assert_uint_eq(page->kind, PAGE_SINGLE);
	ck_assert_uint_eq(page->bytes, align_up(sizes[_i], OS_PAGE_SIZE));
	ck_assert_uint_eq(page_single_slices(page), align_up(sizes[_i], SLICE_SIZE) / SLICE_SIZE);
	ck_assert(page_is_block(page, page->start));
	ck_assert(!page_is_block(page, page->start + 16));
	ck_assert(page_is_inside_single(page->start));
	ck_assert(page_is_inside_single(page->start + page->bytes - 1));
	ck_assert(!page_is_inside_single(page->start + page->bytes));
	memset(page->start, 1, sizes[_i]);
	uint64_t taken = region_counts().taken_bytes;
	size_t slices = page_single_slices(page);
	destroy(page);
	ck_assert_uint_eq(region_counts().taken_bytes, taken - slices * SLICE_SIZE);
}
END_TEST

START_TEST(test_a_singleton_starts_where_it_was_asked_to)
{
	for (size_t align = SLICE_SIZE; align <= 64 * MIB; align *= 2) {
		bool clean;
		struct page *page = page_create_single(LARGE_MAX + 1, align, &clean);
		ck_assert_ptr_nonnull(page);
		ck_assert_uint_eq((uintptr_t)page->start % align, 0);
	}
}
END_TEST

START_TEST(test_a_singleton_grows_and_shrinks_where_it_is)
{
	bool clean;
	struct page *page = page_create_single(MIB, 1, &clean);
	char *start = page->start;

	memset(start, 7, MIB);
	ck_assert(page_single_resize(page, 3 * MIB, &clean));
	ck_assert(clean);
	ck_assert_uint_eq(page->bytes, 3 * MIB);
	ck_assert(memory_is_zero(start + MIB, 2 * MIB));
	memset(start + MIB, 8, 2 * MIB);
	ck_assert(page_single_resize(page, 600 * KIB, &clean));
	ck_assert_uint_eq(region_counts().dirty_bytes, 3 * MIB - 10 * SLICE_SIZE);
	ck_assert_uint_eq(page_single_slices(page), 10);
	ck_assert(memory_is_filled(start, 600 * KIB, 7));
	/* back again over what it left: not clean */
	ck_assert(page_single_resize(page, 2 * MIB, &clean));
	ck_assert(!clean);
	/* somebody behind it */
	struct page *other = page_create_single(MIB, 1, &clean);
	ck_assert_ptr_eq(other->start, start + 2 * MIB);
	ck_assert(!page_single_resize(page, 2 * MIB + 1, &clean));
	ck_assert_uint_eq(page->bytes, 2 * MIB);
	ck_assert_ptr_eq(page_of(start), page);
	ck_assert(page_single_resize(page, 2 * MIB - OS_PAGE_SIZE, &clean));
	ck_assert_uint_eq(page->bytes, 2 * MIB - OS_PAGE_SIZE);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("page");
	TCase *finding = tcase_create("finding"), *cleanness = tcase_create("clean or not"), *single = tcase_create("singletons");

	tcase_add_test(finding, test_a_page_of_every_class_is_found_from_every_slice_of_it);
	tcase_add_loop_test(finding, test_only_the_first_byte_of_a_block_is_a_block, 0, 6);
	tcase_add_test(finding, test_addresses_that_are_not_ours_have_no_page);
	tcase_add_test(finding, test_a_refused_page_is_null_and_costs_nothing);
	tcase_add_test(cleanness, test_slices_go_back_clean_only_when_nothing_was_touched);
	tcase_add_test(cleanness, test_a_page_on_dirty_slices_says_so);
	tcase_add_test(cleanness, test_away_bytes_of_a_destroyed_page_are_no_longer_counted);
	tcase_add_loop_test(single, test_a_singleton_is_one_block_rounded_to_os_pages, 0, 6);
	tcase_add_test(single, test_a_singleton_starts_where_it_was_asked_to);
	tcase_add_test(single, test_a_singleton_grows_and_shrinks_where_it_is);
	suite_add_tcase(suite, finding);
	suite_add_tcase(suite, cleanness);
	suite_add_tcase(suite, single);
	return unit_run(suite);
}
