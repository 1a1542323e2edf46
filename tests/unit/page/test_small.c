/* SPDX-License-Identifier: MIT */
/*
 * Suite small: blocks come to be one OS page at a time and come back lowest run first, each exactly once; what is in flight does not;
 * links that a program damaged are told from links.
 */
#include "page/page.h"

#include "base/random.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/page/dies.h"
#include "unit/region/memory.h"

#include <pthread.h>

#define SECRET UINT64_C(0x9e3779b97f4a7c15)

static struct page *page;

static struct page *make(size_t bytes)
{
	memory_without_huge_pages();
	fake_kernel_install();
	page = page_create(NULL, sizeclass_of(bytes), SECRET);
	ck_assert_ptr_nonnull(page);
	ck_assert_uint_eq(page->block_bytes, bytes);
	return page;
}

static void take_all(char *block[])
{
	for (unsigned n = 0; n < page->capacity; n++) {
		if (!page_has_listed(page))
			ck_assert(page_extend(page));
		block[n] = page_pop(page);
	}
	ck_assert(page_is_exhausted(page));
}

static char *block[SLICE_SIZE / 16];

/* Take the OS pages of UNITS away as a sweep does: their blocks must be on no list. */
static void put_away(uint32_t units, uint32_t flight)
{
	page->away |= (uint16_t)units;
	atomic_store(&page->flight, flight);
	atomic_fetch_add(&page_away_bytes, (uint64_t)__builtin_popcount(units & ~(flight >> 16)) * OS_PAGE_SIZE);
}

/* --- forming -------------------------------------------------------------------------------------------------------------------------- */

static const size_t sizes[] = {16, 48, 80, 112, 512, 1280, 1792, 4096, 5120, 7168, 8192};

START_TEST(test_forming_touches_at_most_one_os_page_more)
{
	size_t resident = 0;

	make(sizes[_i]);
	ck_assert_uint_eq(memory_resident(page->start, SLICE_SIZE), 0);
	while (page_extend(page)) {
		size_t now = memory_resident(page->start, SLICE_SIZE);

		ck_assert_uint_le(now, resident + 1);
		resident = now;
		while (page_has_listed(page))
			page_pop(page);
	}
	ck_assert_uint_eq(page->formed, page->capacity);
	ck_assert_uint_eq(page->used, page->capacity);
	ck_assert(page_is_exhausted(page));
	page_check(page);
}
END_TEST

START_TEST(test_every_block_is_handed_out_once_lowest_first)
{
	make(sizes[_i]);
	take_all(block);
	ck_assert_uint_eq(page->capacity, SLICE_SIZE / sizes[_i]);
	for (unsigned i = 0; i < page->capacity; i++)
		unit_holds(block[i] == page->start + i * sizes[_i]);
	ck_assert(!page_extend(page));
}
END_TEST

START_TEST(test_blocks_overlap_the_os_pages_that_hold_their_bytes)
{
	make(sizes[_i]);
	for (unsigned i = 0; i < page->capacity; i++) {
		uint32_t units = 0;

		for (size_t at = i * sizes[_i]; at < (i + 1) * sizes[_i]; at++)
			units |= 1u << (at / OS_PAGE_SIZE);
		unit_holds(page_block_units(page, i) == units);
	}
}
END_TEST

/* --- the list ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_the_last_block_pushed_is_popped_first)
{
	make(64);
	take_all(block);
	for (int i = 10; i < 20; i++) {
		page_push(page, block[i]);
		page->used--;
	}
	page_check(page);
	ck_assert_uint_eq(page_listed(page), 10);
	ck_assert_uint_eq(page_next(page, page_first(page)), 18 * 64);
	for (int i = 20; i-- > 10;)
		ck_assert_ptr_eq(page_pop(page), block[i]);
	ck_assert(!page_has_listed(page));
	ck_assert_uint_eq(page_first(page), OFFSET_END);
}
END_TEST

static uint64_t damage;

static void follow_damage(void *unused)
{
	(void)unused;
	page_push(page, block[5]);
	page_push(page, block[6]);
	/* where a link that is wrong by a little leads to, a list ends well */
	memcpy(page->start + 5 * 48 + 16, &(uint64_t){OFFSET_END ^ SECRET}, 8);
	memcpy(page->start + 1365 * 48, &(uint64_t){OFFSET_END ^ SECRET}, 8);
	memcpy(block[6], &damage, sizeof(damage));
	page_listed(page);
}

START_TEST(test_a_damaged_link_ends_the_process)
{
	/* a zero, a letter, an address, one bit; what decodes to the middle of a block; one block too far */
	const uint64_t damages[] = {0, 0x6161616161616161, (uintptr_t)&page,
				    SECRET ^ (5 * 48) ^ (UINT64_C(1) << 40), SECRET ^ (5 * 48 + 16), SECRET ^ (1365 * 48)};

	make(48);
	take_all(block);
	damage = damages[_i];
	ck_dies(follow_damage, NULL, "damaged block");
}
END_TEST

static void follow_a_circle(void *unused)
{
	(void)unused;
	page_push(page, block[5]);
	page_push(page, block[6]);
	page_push(page, block[5]);
	page_listed(page);
}

START_TEST(test_a_block_listed_twice_ends_the_process)
{
	make(48);
	take_all(block);
	ck_dies(follow_a_circle, NULL, "double free");
}
END_TEST

/* --- what comes back ------------------------------------------------------------------------------------------------------------------ */

START_TEST(test_the_lowest_run_comes_back_first)
{
	make(64);
	take_all(block);
	put_away(0x0e66, 0); /* OS pages 1-2, 5-6, 9-11 */
	page->used -= 7 * 64;
	uint64_t refaulted = page_refaulted_bytes;

	ck_assert(!page_is_exhausted(page));
	ck_assert(page_extend(page));
	ck_assert_uint_eq(page->away, 0x0e60);
	ck_assert_uint_eq(page_first(page), 64 * 64);
	ck_assert_uint_eq(page_listed(page), 2 * 64);
	ck_assert_uint_eq(page_away_bytes, 5 * OS_PAGE_SIZE);
	ck_assert_uint_eq(page_refaulted_bytes, refaulted + 2 * OS_PAGE_SIZE);
	page_check(page);
	while (page_has_listed(page))
		page_pop(page);
	ck_assert(page_extend(page));
	ck_assert_uint_eq(page->away, 0x0e00);
	while (page_has_listed(page))
		page_pop(page);
	ck_assert(page_extend(page));
	ck_assert_uint_eq(page_listed(page), 3 * 64);
	while (page_has_listed(page))
		page_pop(page);
	ck_assert(!page_extend(page));
	ck_assert(page_is_exhausted(page));
	ck_assert_uint_eq(page_away_bytes, 0);
	page_check(page);
}
END_TEST

START_TEST(test_what_is_in_flight_comes_back_after_the_answer)
{
	make(64);
	take_all(block);
	page->used -= 3 * 64;
	put_away(0x0007, 0x0003);
	ck_assert(page_extend(page)); /* the one that is answered */
	ck_assert_uint_eq(page->away, 0x0003);
	ck_assert_uint_eq(page_first(page), 128 * 64);
	while (page_has_listed(page))
		page_pop(page);
	ck_assert(!page_extend(page));
	ck_assert(!page_is_exhausted(page));
	atomic_store(&page->flight, 0);
	ck_assert(page_extend(page));
	ck_assert_uint_eq(page_listed(page), 128);
	page_check(page);
}
END_TEST

START_TEST(test_refused_os_pages_come_back_without_being_counted)
{
	make(64);
	take_all(block);
	page->used -= 4 * 64;
	put_away(0x000f, 0x0006u << 16); /* 1 and 2 refused */
	uint64_t refaulted = page_refaulted_bytes;

	ck_assert_uint_eq(page_away_bytes, 2 * OS_PAGE_SIZE);
	ck_assert(page_extend(page));
	ck_assert_uint_eq(page_listed(page), 4 * 64);
	ck_assert_uint_eq(page_away_bytes, 0);
	ck_assert_uint_eq(page_refaulted_bytes, refaulted + 2 * OS_PAGE_SIZE);
	ck_assert_uint_eq(page->flight, 0);
	page_check(page);
}
END_TEST

/* 7 KiB: block 1 covers OS pages 1 to 3. As long as page 3 stays away, so does the block. */
START_TEST(test_a_block_comes_back_when_all_of_it_does)
{
	make(7 * KIB);
	take_all(block);
	page->used -= 3; /* 0, 1, 2: OS pages 0-1, 1-3, 3-5 */
	put_away(0x001f, 0x0008);
	ck_assert(page_extend(page));
	ck_assert_uint_eq(page_listed(page), 1);
	ck_assert_ptr_eq(page_pop(page), block[0]);
	page_check(page);
	ck_assert(!page_extend(page)); /* OS page 4 makes no block whole */
	ck_assert_uint_eq(page->away, 0x0008);
	page_check(page);
	atomic_store(&page->flight, 0);
	ck_assert(page_extend(page));
	ck_assert_uint_eq(page_listed(page), 2);
	ck_assert_ptr_eq(page_pop(page), block[1]);
	ck_assert_ptr_eq(page_pop(page), block[2]);
	ck_assert(page_is_exhausted(page));
}
END_TEST

/* Take, free, send away by whole OS pages and bring back, at random: every block is somewhere, once. */
START_TEST(test_blocks_are_conserved_at_random)
{
	static bool out[SLICE_SIZE / 16];
	struct random random;
	unsigned n_out = 0;

	make(sizes[_i]);
	random_init(&random, (uint64_t)_i);
	for (int op = 0; op < 2000; op++) {
		uint64_t r = random_next(&random);
		unsigned i = (unsigned)(r >> 8) % page->capacity;

		if (r % 2 == 0 && (page_has_listed(page) || page_extend(page))) {
			unsigned at = (unsigned)((size_t)((char *)page_pop(page) - page->start) / page->block_bytes);
			unit_holds(!out[at]);
			out[at] = true;
			n_out++;
		} else if (out[i]) {
			page_push(page, page->start + (size_t)i * page->block_bytes);
			page->used--;
			out[i] = false;
			n_out--;
		}
		unit_holds(page->used == n_out);
		if (op % 16 == 0)
			page_check(page);
	}
	while (page_has_listed(page) || page_extend(page))
		page_pop(page);
	ck_assert_uint_eq(page->used, page->capacity);
}
END_TEST

/* --- remote --------------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_remote_frees_are_told_once_and_taken_all)
{
	make(64);
	take_all(block);
	page_push(page, block[0]);
	page->used--;
	ck_assert(page_push_remote(page, block[7]));
	ck_assert(!page_push_remote(page, block[9]));
	ck_assert(!page_push_remote(page, block[8]));
	ck_assert_uint_eq(page_listed(page), 1);
	ck_assert_uint_eq(page_take_remote(page), 3);
	ck_assert_uint_eq(page_take_remote(page), 0);
	ck_assert_uint_eq(page->used, 1024 - 4);
	ck_assert_uint_eq(page_listed(page), 4);
	ck_assert_ptr_eq(page_pop(page), block[8]);
	ck_assert_ptr_eq(page_pop(page), block[9]);
	ck_assert_ptr_eq(page_pop(page), block[7]);
	ck_assert_ptr_eq(page_pop(page), block[0]);
	ck_assert(page_push_remote(page, block[7]));
}
END_TEST

static atomic_uint told;

static void *push_every_fourth(void *arg)
{
	for (uintptr_t i = (uintptr_t)arg; i < 4096; i += 4)
		told += page_push_remote(page, block[i]);
	return NULL;
}

START_TEST(test_remote_frees_of_four_threads_lose_no_block)
{
	pthread_t thread[4];
	unsigned got = 0, first = 0;

	make(16);
	take_all(block);
	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, push_every_fourth, (void *)i), 0);
	while (got < 4096) {
		unsigned n = page_take_remote(page);
		got += n;
		first += n > 0;
	}
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(told, first);
	ck_assert_uint_eq(page->used, 0);
	ck_assert_uint_eq(page_listed(page), 4096);
}
END_TEST

static void overwrite_remote(void *unused)
{
	(void)unused;
	page_push_remote(page, block[1]);
	page_push_remote(page, block[2]);
	memset(block[2], 'y', 8);
	page_take_remote(page);
}

static void push_too_many(void *unused)
{
	(void)unused;
	page->used = 1;
	page_push_remote(page, block[1]);
	page_push_remote(page, block[2]);
	page_take_remote(page);
}

START_TEST(test_damage_to_remote_frees_ends_the_process)
{
	make(64);
	take_all(block);
	ck_dies(overwrite_remote, NULL, "damaged block");
	ck_dies(push_too_many, NULL, "double free");
}
END_TEST

static TCase *forming(void)
{
	TCase *tcase = tcase_create("forming");

	tcase_add_loop_test(tcase, test_forming_touches_at_most_one_os_page_more, 0, (int)array_len(sizes));
	tcase_add_loop_test(tcase, test_every_block_is_handed_out_once_lowest_first, 0, (int)array_len(sizes));
	tcase_add_loop_test(tcase, test_blocks_overlap_the_os_pages_that_hold_their_bytes, 0, (int)array_len(sizes));
	tcase_add_loop_test(tcase, test_blocks_are_conserved_at_random, 0, (int)array_len(sizes));
	return tcase;
}

static TCase *coming_back(void)
{
	TCase *tcase = tcase_create("coming back");

	tcase_add_test(tcase, test_the_lowest_run_comes_back_first);
	tcase_add_test(tcase, test_what_is_in_flight_comes_back_after_the_answer);
	tcase_add_test(tcase, test_refused_os_pages_come_back_without_being_counted);
	tcase_add_test(tcase, test_a_block_comes_back_when_all_of_it_does);
	return tcase;
}

int main(void)
{
	Suite *suite = unit_suite("small");
	TCase *list = tcase_create("list"), *remote = tcase_create("remote");

	tcase_add_test(list, test_the_last_block_pushed_is_popped_first);
	tcase_add_loop_test(list, test_a_damaged_link_ends_the_process, 0, 6);
	tcase_add_test(list, test_a_block_listed_twice_ends_the_process);
	tcase_add_test(remote, test_remote_frees_are_told_once_and_taken_all);
	tcase_add_test(remote, test_remote_frees_of_four_threads_lose_no_block);
	tcase_add_test(remote, test_damage_to_remote_frees_ends_the_process);
	suite_add_tcase(suite, forming());
	suite_add_tcase(suite, list);
	suite_add_tcase(suite, coming_back());
	suite_add_tcase(suite, remote);
	return unit_run(suite);
}
