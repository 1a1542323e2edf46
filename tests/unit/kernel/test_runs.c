/* SPDX-License-Identifier: MIT */
/*
 * Suite runs: ranges in any order become runs of those that touch, largest first, and each range is in one of them.
 */
#include "kernel/runs.h"

#include "base/random.h"
#include "support/unit.h"

#define BASE ((char *)0x100000000)
#define MOST ADVISE_BATCH_RANGES

static struct advise_range range[MOST];
static struct advise_run run[MOST];

static void put(size_t i, size_t page, size_t pages, bool huge)
{
	range[i] = (struct advise_range){.addr = BASE + page * OS_PAGE_SIZE, .len = pages * OS_PAGE_SIZE, .bits = i, .huge = huge};
}

START_TEST(test_nothing_makes_no_runs)
{
	ck_assert_uint_eq(runs_make(run, range, 0), 0);
}
END_TEST

START_TEST(test_those_that_touch_are_one_and_the_largest_is_first)
{
	put(0, 50, 2, false);
	put(1, 10, 1, false);
	put(2, 12, 4, false);
	put(3, 11, 1, false);
	put(4, 30, 2, false);
	ck_assert_uint_eq(runs_make(run, range, 5), 3);
	ck_assert_ptr_eq(run[0].addr, BASE + 10 * OS_PAGE_SIZE);
	ck_assert_uint_eq(run[0].len, 6 * OS_PAGE_SIZE);
	ck_assert_uint_eq(run[0].n, 3);
	ck_assert_uint_eq(range[run[0].first].bits, 1);
	/* of two of a size the lower one */
	ck_assert_ptr_eq(run[1].addr, BASE + 30 * OS_PAGE_SIZE);
	ck_assert_ptr_eq(run[2].addr, BASE + 50 * OS_PAGE_SIZE);
}
END_TEST

START_TEST(test_huge_memory_and_other_stay_apart)
{
	put(0, 0, 4, false);
	put(1, 4, 2, true);
	put(2, 6, 1, true);
	ck_assert_uint_eq(runs_make(run, range, 3), 2);
	ck_assert(!run[0].huge);
	ck_assert(run[1].huge);
	ck_assert_uint_eq(run[1].n, 2);
}
END_TEST

/* Cut into pieces of random length, some left out, in random order. */
START_TEST(test_any_ranges_in_any_order)
{
	struct random random = {.state = (uint64_t)_i};
	size_t n = 0, seen = 0;

	for (size_t page = 0; n < MOST - (size_t)_i;) {
		size_t pages = 1 + random_below(&random, 9);

		if (random_below(&random, 3) != 0)
			put(n++, page, pages, random_below(&random, 9) == 0);
		page += pages;
	}
	for (size_t i = n; i-- > 1;) {
		size_t j = random_below(&random, (unsigned)i + 1);
		struct advise_range saved = range[i];

		range[i] = range[j];
		range[j] = saved;
	}
	size_t runs = runs_make(run, range, n);
	for (size_t i = 0; i < runs; i++) {
		char *addr = run[i].addr;

		unit_holds(i == 0 || run[i].len < run[i - 1].len || (run[i].len == run[i - 1].len && run[i].addr > run[i - 1].addr));
		for (size_t j = run[i].first; j < run[i].first + run[i].n; j++) {
			unit_holds(range[j].addr == addr && range[j].huge == run[i].huge);
			addr += range[j].len;
			seen++;
		}
		unit_holds(addr == run[i].addr + run[i].len);
		for (size_t j = 0; j < runs; j++) /* none goes on where this one ends */
			unit_holds(run[j].addr != addr || run[j].huge != run[i].huge);
	}
	ck_assert_uint_eq(seen, n);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("runs");
	TCase *runs = tcase_create("runs");

	tcase_add_test(runs, test_nothing_makes_no_runs);
	tcase_add_test(runs, test_those_that_touch_are_one_and_the_largest_is_first);
	tcase_add_test(runs, test_huge_memory_and_other_stay_apart);
	tcase_add_loop_test(runs, test_any_ranges_in_any_order, 0, 20);
	suite_add_tcase(suite, runs);
	return unit_run(suite);
}
