/* SPDX-License-Identifier: MIT */
/*
 * Suite region: slices are found where they should be, held by one party at a time and said to be clean only when they read as zero;
 * what the kernel refuses leaves everything usable; a purge holds what it returns. The last tests compare long random histories
 * with a plain model, by one thread and by four.
 */
#include "region/region.h"

#include "base/random.h"
#include "kernel/map.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/region/memory.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

static char *alloc(size_t n)
{
	bool clean;
	char *addr = region_alloc(n, 1, &clean);

	ck_assert_ptr_nonnull(addr);
	return addr;
}

static char *alloc_dirty(size_t n)
{
	char *addr = alloc(n);

	memset(addr, 0xa5, n * SLICE_SIZE);
	return addr;
}

static size_t limit_of(const struct region *region)
{
	return atomic_load(&region->limit);
}

/* --- what lies behind ----------------------------------------------------------------------------------------------------------------- */

START_TEST(test_only_clean_slices_right_behind_are_taken)
{
	char *dirty, *at = alloc(40); /* so that slices behind are usable */

	region_free(at, 40, true);
	at = alloc(1);
	ck_assert_uint_eq(region_take_clean(at + SLICE_SIZE, 6), 6);
	ck_assert_uint_eq(region_counts().taken_bytes, 7 * SLICE_SIZE);
	region_free(at + 3 * SLICE_SIZE, 2, false); /* 3 and 4 of 0 to 6 */
	region_free(at + SLICE_SIZE, 2, true);
	ck_assert_uint_eq(region_take_clean(at + SLICE_SIZE, 6), 2);
	dirty = at + 3 * SLICE_SIZE;
	ck_assert_uint_eq(region_take_clean(dirty, 6), 0);
	ck_assert_uint_eq(region_take_clean(at + 5 * SLICE_SIZE, 6), 0); /* taken */
	ck_assert_uint_eq(region_take_clean(at + 7 * SLICE_SIZE, 0), 0);
	ck_assert_uint_eq(region_counts().dirty_bytes, 2 * SLICE_SIZE);
}
END_TEST

START_TEST(test_slices_behind_the_usable_ones_are_left)
{
	char *at = alloc(1);
	size_t usable = limit_of(region_at(0));

	ck_assert_uint_eq(region_take_clean(at + SLICE_SIZE, 10 * usable), usable - 1);
	ck_assert_uint_eq(limit_of(region_at(0)), usable);
	ck_assert_uint_eq(region_take_clean(at + usable * SLICE_SIZE, 1), 0);
}
END_TEST

/* --- huge pages ---------------------------------------------------------------------------------------------------------------------- */

#define HUGE_SLICES (2 * MIB / SLICE_SIZE)

static char *alloc_huge(size_t n)
{
	bool clean;
	char *addr = region_alloc(n * HUGE_SLICES, HUGE_SLICES, &clean);

	ck_assert_ptr_nonnull(addr);
	region_mark_huge(addr, n * 2 * MIB);
	return addr;
}

START_TEST(test_memory_may_be_huge_where_it_was_said)
{
	char *addr;

	alloc(1);
	addr = alloc_huge(3);
	ck_assert(!region_may_be_huge(addr - 2 * MIB, 2 * MIB));
	ck_assert(region_may_be_huge(addr - OS_PAGE_SIZE, 2 * OS_PAGE_SIZE));
	ck_assert(region_may_be_huge(addr + 6 * MIB - OS_PAGE_SIZE, OS_PAGE_SIZE));
	ck_assert(!region_may_be_huge(addr + 6 * MIB, 2 * MIB));
	ck_assert_uint_eq(region_counts().huge_bytes, 6 * MIB);
}
END_TEST

START_TEST(test_a_returned_part_leaves_it_huge_and_the_whole_does_not)
{
	char *addr = alloc_huge(3);

	region_note_returned(addr + MIB, 2 * MIB);
	ck_assert_uint_eq(region_counts().huge_bytes, 6 * MIB);
	region_note_returned(addr + MIB, 3 * MIB);
	ck_assert_uint_eq(region_counts().huge_bytes, 4 * MIB);
	ck_assert(!region_may_be_huge(addr + 2 * MIB, 2 * MIB));
}
END_TEST

START_TEST(test_free_slices_are_huge_until_all_of_them_are_clean)
{
	char *addr = alloc_huge(1);
	struct region *region = region_at(0);
	size_t n, slice;

	region_free(addr, 10, false);
	region_free(addr + 10 * SLICE_SIZE, HUGE_SLICES - 10, true);
	ck_assert_uint_eq(region_counts().huge_bytes, 2 * MIB);
	slice = region_purge_take(region, 0, true, 4, &n);
	region_purge_give(region, slice, n, true);
	ck_assert_uint_eq(region_counts().huge_bytes, 2 * MIB);
	slice = region_purge_take(region, 0, true, 64, &n);
	region_purge_give(region, slice, n, false);
	ck_assert_uint_eq(region_counts().huge_bytes, 2 * MIB);
	slice = region_purge_take(region, 0, true, 64, &n);
	region_purge_give(region, slice, n, true);
	ck_assert_uint_eq(region_counts().huge_bytes, 0);
}
END_TEST

/* --- handing out ------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_fresh_slices_are_aligned_clean_and_writable)
{
	static const struct {
		size_t n, align;
	} asked[] = {{1, 1}, {8, 8}, {64, 64}, {3, 1}, {5, 4}, {65, 1}, {200, 64}, {1, 64}, {7, 2}, {64, 1}};

	for (size_t i = 0; i < array_len(asked); i++) {
		bool clean = false;
		char *addr = region_alloc(asked[i].n, asked[i].align, &clean);

		ck_assert_ptr_nonnull(addr);
		ck_assert_uint_eq((uintptr_t)addr % (asked[i].align * SLICE_SIZE), 0);
		ck_assert(clean);
		ck_assert(memory_is_zero(addr, asked[i].n * SLICE_SIZE));
		memset(addr, 1, asked[i].n * SLICE_SIZE);
	}
}
END_TEST

START_TEST(test_alignment_beyond_a_chunk_is_that_of_the_address)
{
	size_t align = (size_t)CHUNK_SLICES << (_i + 1); /* 8 MiB to 2 GiB */

	alloc(1);
	for (int i = 0; i < 3; i++) {
		bool clean;
		char *addr = region_alloc(2, align, &clean);

		ck_assert_ptr_nonnull(addr);
		ck_assert_uint_eq((uintptr_t)addr % (align * SLICE_SIZE), 0);
		memset(addr, 1, 2 * SLICE_SIZE);
	}
}
END_TEST

START_TEST(test_the_lowest_run_that_fits_is_taken)
{
	char *a = alloc(4), *b = alloc(2), *c = alloc(4), *d = alloc(1);

	ck_assert_ptr_eq(b, a + 4 * SLICE_SIZE);
	ck_assert_ptr_eq(c, b + 2 * SLICE_SIZE);
	region_free(b, 2, true);
	region_free(c, 4, true);
	ck_assert_ptr_eq(alloc(6), b);
	region_free(a, 4, true);
	ck_assert_ptr_eq(alloc(3), a);
	ck_assert_ptr_eq(alloc(1), a + 3 * SLICE_SIZE);
	ck_assert(alloc(1) > d);
}
END_TEST

START_TEST(test_a_dirty_slice_is_preferred_to_a_clean_one)
{
	char *a = alloc(1), *b = alloc_dirty(1), *c = alloc(1);
	bool clean = true;

	region_free(a, 1, true);
	region_free(b, 1, false);
	ck_assert_ptr_eq(region_alloc(1, 1, &clean), b);
	ck_assert(!clean);
	ck_assert_ptr_eq(region_alloc(1, 1, &clean), a);
	ck_assert(clean);
	(void)c;
}
END_TEST

START_TEST(test_a_dirty_run_is_preferred_for_pages_of_eight_and_sixty_four)
{
	size_t n = _i == 0 ? 8 : 64;
	bool clean = true;
	char *run[3];

	for (size_t i = 0; i < array_len(run); i++)
		ck_assert_ptr_nonnull(run[i] = region_alloc(n, n, &clean));
	region_free(run[0], n, true);
	region_free(run[1], n, false);
	ck_assert_ptr_eq(region_alloc(n, n, &clean), run[1]);
	ck_assert(!clean);
	ck_assert_ptr_eq(region_alloc(n, n, &clean), run[0]);
	ck_assert(clean);
}
END_TEST

START_TEST(test_one_dirty_slice_makes_a_run_dirty)
{
	bool clean = true;
	char *a = alloc(8);

	region_free(a, 5, true);
	region_free(a + 5 * SLICE_SIZE, 1, false);
	region_free(a + 6 * SLICE_SIZE, 2, true);
	ck_assert_ptr_eq(region_alloc(8, 1, &clean), a);
	ck_assert(!clean);
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
}
END_TEST

START_TEST(test_extend_takes_what_is_behind_when_it_is_free)
{
	bool clean = false;
	char *a = alloc(2), *b = alloc(2), *c = alloc(1);

	ck_assert(!region_extend(a + 2 * SLICE_SIZE, 1, &clean));
	region_free(b, 2, false);
	ck_assert(!region_extend(a + 2 * SLICE_SIZE, 3, &clean));
	ck_assert(region_extend(a + 2 * SLICE_SIZE, 2, &clean));
	ck_assert(!clean);
	/* beyond everything that is usable yet */
	ck_assert(region_extend(c + SLICE_SIZE, 300, &clean));
	ck_assert(clean);
	memset(c, 1, 301 * SLICE_SIZE);
	ck_assert_ptr_eq(alloc(1), c + 301 * SLICE_SIZE);
}
END_TEST

START_TEST(test_extend_ends_with_the_region)
{
	char *a = alloc(1);
	struct region *region = region_at(0);
	char *end = region->base + region->slices * SLICE_SIZE;
	bool clean;

	ck_assert(!region_extend(a + SLICE_SIZE, region->slices, &clean));
	ck_assert(region_extend(a + SLICE_SIZE, region->slices - 1, &clean));
	ck_assert(!region_extend(end, 1, &clean));
}
END_TEST

START_TEST(test_sizes_no_kernel_has_are_null)
{
	static const size_t sizes[] = {SIZE_MAX, SIZE_MAX / SLICE_SIZE, SIZE_MAX / 4 / SLICE_SIZE, (size_t)1 << 40};
	bool clean;

	for (size_t i = 0; i < array_len(sizes); i++) {
		ck_assert_ptr_null(region_alloc(sizes[i], 1, &clean));
		ck_assert_ptr_null(region_alloc(1, (size_t)1 << (63 - i), &clean));
	}
	alloc(1);
}
END_TEST

/* --- growth ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(test_the_first_slice_makes_no_more_than_256_KiB_usable)
{
	alloc(1);
	ck_assert_uint_eq(region_counts().committed_bytes, 256 * KIB);
	ck_assert_uint_eq(region_counts().taken_bytes, SLICE_SIZE);
}
END_TEST

START_TEST(test_growth_takes_ever_fewer_calls)
{
	fake_kernel_install();
	for (size_t i = 0; i < 16384; i++)
		alloc(1);
	/* eight steps of 4 slices, then an eighth of what there is each time: 70 steps to 16384; and records, 512 at a time */
	ck_assert_uint_lt(fake_calls(FAKE_MPROTECT), 160);
	ck_assert_uint_lt(region_counts().committed_bytes, 16384 * SLICE_SIZE / 8 * 9 + 64 * MIB);
	ck_assert_uint_eq(region_n(), 1);
}
END_TEST

START_TEST(test_every_slice_has_a_record_of_its_own)
{
	char *a = alloc(1500); /* several steps of records */
	char *first = region_record(a);

	for (size_t i = 0; i < 1500; i++) {
		char *record = region_record(a + i * SLICE_SIZE + i);

		ck_assert_ptr_eq(record, first + i * RECORD_SIZE);
		ck_assert(memory_is_zero(record, RECORD_SIZE));
		memset(record, 7, RECORD_SIZE);
	}
	ck_assert(memory_is_zero(a, 1500 * SLICE_SIZE));
	ck_assert_ptr_eq(region_record(a + SLICE_SIZE - 1), first);
}
END_TEST

START_TEST(test_foreign_addresses_have_no_record)
{
	static int elsewhere;
	int here = 0;
	char *a;

	ck_assert_ptr_null(region_record(&here));
	a = alloc(1);
	struct region *region = region_at(0);
	char *end = region->base + region->slices * SLICE_SIZE;

	const void *foreign[] = {NULL, (void *)1, (void *)~(uintptr_t)0, &here, &region_primary, (void *)((uintptr_t)1 << 47),
		(void *)((uintptr_t)a | (uintptr_t)1 << 60), (void *)((uintptr_t)a ^ (uintptr_t)1 << 63), region->base - 1, region->records,
		region->base + limit_of(region) * SLICE_SIZE, end - 1, end, &elsewhere};
	for (size_t i = 0; i < array_len(foreign); i++)
		ck_assert_ptr_null(region_record(foreign[i]));
	ck_assert_ptr_nonnull(region_record(region->base + limit_of(region) * SLICE_SIZE - 1));
}
END_TEST

START_TEST(test_a_full_region_is_followed_by_another)
{
	char *a = alloc(1), *b, *c;
	size_t slices = region_at(0)->slices;

	b = alloc(slices); /* address space only: nothing is touched */
	ck_assert_uint_eq(region_n(), 2);
	c = alloc(1);
	ck_assert_ptr_eq(region_of(a), region_at(0));
	ck_assert_ptr_eq(region_of(b), region_at(1));
	ck_assert_ptr_eq(region_of(b + (slices - 1) * SLICE_SIZE), region_at(1));
	ck_assert_ptr_eq(region_of(c), region_at(0));
	b[slices * SLICE_SIZE - 1] = 1;
	region_free(b, slices, false);
	ck_assert_ptr_eq(alloc(slices), b);
}
END_TEST

/* --- refusals ---------------------------------------------------------------------------------------------------------------------- */

/* Take slices of several kinds; each holds its number. Some may be refused. */
#define KINDS 24
static size_t fill(char *got[KINDS], size_t slices[KINDS])
{
	size_t refused = 0;

	for (size_t i = 0; i < KINDS; i++) {
		bool clean;

		slices[i] = i % 3 == 0 ? 1 : i % 3 == 1 ? 8 : 64 * i;
		got[i] = region_alloc(slices[i], i % 3 == 1 ? 8 : 1, &clean);
		refused += got[i] == NULL;
		for (size_t k = 0; got[i] != NULL && k < slices[i]; k++)
			memset(got[i] + k * SLICE_SIZE, (int)i + 1, OS_PAGE_SIZE);
	}
	return refused;
}

static void ck_filled(char *got[KINDS], const size_t slices[KINDS])
{
	for (size_t i = 0; i < KINDS; i++)
		for (size_t k = 0; got[i] != NULL && k < slices[i]; k++)
			ck_assert_int_eq(got[i][k * SLICE_SIZE], (int)i + 1);
}

static void refuse_nth(enum fake_call call, unsigned nth)
{
	char *first[KINDS], *second[KINDS];
	size_t first_n[KINDS], second_n[KINDS];

	fake_kernel_install();
	fake_refuse(call, nth, ENOMEM);
	/* one refusal is no reason to fail where a smaller step would do, but it may be */
	ck_assert_uint_le(fill(first, first_n), 1);
	fake_refuse(call, 0, 0);
	ck_assert_uint_eq(fill(second, second_n), 0);
	ck_filled(first, first_n);
	ck_filled(second, second_n);
}

START_TEST(test_a_refused_mmap_leaves_everything_usable)
{
	refuse_nth(FAKE_MMAP, (unsigned)_i + 1);
}
END_TEST

START_TEST(test_a_refused_mprotect_leaves_everything_usable)
{
	refuse_nth(FAKE_MPROTECT, (unsigned)_i + 1);
}
END_TEST

START_TEST(test_refused_memory_costs_no_more_regions)
{
	size_t slices;
	char *a = alloc(1);
	bool clean;

	fake_kernel_install();
	fake_refuse_all(FAKE_MPROTECT, ENOMEM);
	for (int i = 0; i < 4; i++) {
		ck_assert_ptr_null(region_alloc(1000, 1, &clean));
		ck_assert_ptr_null(region_alloc(64, 64, &clean));
	}
	ck_assert_uint_eq(region_n(), 1);
	/* what is usable already still is */
	slices = limit_of(region_at(0));
	for (size_t i = 1; i < slices; i++)
		alloc(1);
	fake_refuse_all(FAKE_MPROTECT, 0);
	ck_assert_ptr_eq(alloc(1000), a + slices * SLICE_SIZE);
}
END_TEST

/* The real kernel refuses large steps and allows small ones. */
START_TEST(test_a_size_over_the_data_limit_costs_no_more_regions)
{
	const struct rlimit limit = {256 * MIB, 256 * MIB};
	bool clean;

	alloc(1);
	ck_assert_int_eq(setrlimit(RLIMIT_DATA, &limit), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_ptr_null(region_alloc(GIB / SLICE_SIZE, 1, &clean));
	ck_assert_uint_eq(region_n(), 1);
	alloc(8);
}
END_TEST

START_TEST(test_address_space_that_is_refused_again_and_again_costs_nothing)
{
	bool clean;

	alloc(1);
	fake_kernel_install();
	for (int i = 0; i < 2000; i++)
		ck_assert_ptr_null(region_alloc((size_t)1 << 45, 1, &clean));
	/* records of its own, taken for each try and lost, would show here */
	ck_assert_uint_le(fake_calls(FAKE_MPROTECT), 1);
	ck_assert_uint_eq(region_n(), 1);
}
END_TEST

START_TEST(test_what_a_failed_region_took_is_given_back)
{
	bool clean;

	fake_kernel_install();
	fake_refuse_all(FAKE_MPROTECT, ENOMEM);
	ck_assert_ptr_null(region_alloc(1, 1, &clean));
	/* the reservation that records of lull's own share stays */
	ck_assert_uint_le(fake_bytes(FAKE_MMAP) - fake_bytes(FAKE_MUNMAP), 4 * MIB);
}
END_TEST

START_TEST(test_a_small_address_space_is_used_in_small_regions)
{
	const struct rlimit limit = {160 * MIB, 160 * MIB};
	size_t got = 0;
	bool clean;

	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	ck_assert_ptr_null(region_alloc(GIB / SLICE_SIZE, 1, &clean));
	for (char *addr; (addr = region_alloc(8, 8, &clean)) != NULL; got += 8 * SLICE_SIZE)
		memset(addr, 1, 8 * SLICE_SIZE);
	ck_assert_uint_gt(got, 80 * MIB);
	ck_assert_uint_gt(region_n(), 1);
}
END_TEST

/* --- purging ----------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_a_young_slice_stays_one_pass)
{
	char *a = alloc_dirty(4);
	struct region *region = region_at(0);
	size_t n = 9;

	region_free(a, 4, false);
	ck_assert_uint_eq(region_counts().dirty_bytes, 4 * SLICE_SIZE);
	ck_assert_uint_eq(region_purge_take(region, 0, false, 64, &n), SIZE_MAX);
	ck_assert_uint_eq(region_purge_age(region), 4);
	ck_assert_uint_eq(region_purge_take(region, 0, false, 64, &n), 0);
	ck_assert_uint_eq(n, 4);
	region_purge_give(region, 0, n, true);
	ck_assert_uint_eq(region_purge_age(region), 0);
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
}
END_TEST

START_TEST(test_force_takes_the_young_too)
{
	char *a = alloc_dirty(4);
	struct region *region = region_at(0);
	size_t n;

	region_free(a + SLICE_SIZE, 2, false);
	ck_assert_uint_eq(region_purge_take(region, 0, true, 64, &n), 1);
	ck_assert_uint_eq(n, 2);
	region_purge_give(region, 1, n, false);
	/* refused: dirty still, and no longer young */
	ck_assert_uint_eq(region_counts().dirty_bytes, 2 * SLICE_SIZE);
	ck_assert_uint_eq(region_purge_take(region, 0, false, 64, &n), 1);
	region_purge_give(region, 1, n, true);
	ck_assert_uint_eq(region_purge_take(region, 0, true, 64, &n), SIZE_MAX);
}
END_TEST

START_TEST(test_a_purge_takes_each_dirty_run_once_and_no_more_than_asked)
{
	char *a = alloc_dirty(200);
	struct region *region = region_at(0);
	size_t n, slice = 0;

	region_free(a + 3 * SLICE_SIZE, 130, false); /* over two words' ends */
	region_free(a + 140 * SLICE_SIZE, 1, false);
	region_free(a + 150 * SLICE_SIZE, 2, true);
	ck_assert_uint_eq(region_purge_take(region, 0, true, 100, &n), 3);
	ck_assert_uint_eq(n, 100);
	ck_assert_uint_eq(slice = region_purge_take(region, 103, true, 100, &n), 103);
	ck_assert_uint_eq(n, 30);
	ck_assert_uint_eq(slice = region_purge_take(region, slice + n, true, 100, &n), 140);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(region_purge_take(region, slice + n, true, 100, &n), SIZE_MAX);
	ck_assert_uint_eq(region_purge_take(region, 1u << 20, true, 100, &n), SIZE_MAX);
}
END_TEST

START_TEST(test_nobody_is_handed_what_a_purge_holds)
{
	char *a = alloc_dirty(64);
	struct region *region = region_at(0);
	bool clean;
	size_t n;

	region_free(a, 64, false);
	ck_assert_uint_eq(region_purge_take(region, 0, true, 64, &n), 0);
	ck_assert_uint_eq(n, 64);
	for (int i = 0; i < 100; i++)
		ck_assert(alloc(1) >= a + 64 * SLICE_SIZE);
	ck_assert(!region_extend(a + SLICE_SIZE, 1, &clean));
	madvise(a, 64 * SLICE_SIZE, MADV_DONTNEED);
	region_purge_give(region, 0, 64, true);
	ck_assert_ptr_eq(region_alloc(64, 1, &clean), a);
	ck_assert(clean);
	ck_assert(memory_is_zero(a, 64 * SLICE_SIZE));
}
END_TEST

/* --- what slices were used for ----------------------------------------------------------------------------------------------------- */

static void free_past(char *addr, size_t n, uint32_t key, uint32_t ms)
{
	region_free_past(addr, n, false, (struct slice_past){.key = key, .ms = ms});
}

START_TEST(test_what_slices_were_used_for_is_told_to_their_next_holder)
{
	char *a = alloc_dirty(4);

	ck_assert_uint_eq(region_past(a).key, 0);
	free_past(a, 2, 7, 1234);
	free_past(a + 2 * SLICE_SIZE, 2, 8, 99);
	ck_assert_ptr_eq(alloc(4), a);
	for (size_t i = 0; i < 4; i++) {
		ck_assert_uint_eq(region_past(a + i * SLICE_SIZE).key, i < 2 ? 7 : 8);
		ck_assert_uint_eq(region_past(a + i * SLICE_SIZE).ms, i < 2 ? 1234 : 99);
	}
	region_free(a, 4, true);
	ck_assert_ptr_eq(alloc(4), a);
	ck_assert_uint_eq(region_past(a).key, 0);
	ck_assert_uint_eq(region_past(a + 3 * SLICE_SIZE).ms, 0);
}
END_TEST

/* A return does not change what they were used for. */
START_TEST(test_the_past_outlives_a_purge)
{
	char *a = alloc_dirty(2);
	size_t n;

	free_past(a, 2, 7, 1234);
	ck_assert_uint_eq(region_purge_take(region_at(0), 0, true, 64, &n), 0);
	region_purge_give(region_at(0), 0, 2, true);
	ck_assert_ptr_eq(alloc(2), a);
	ck_assert_uint_eq(region_past(a).key, 7);
	ck_assert_uint_eq(region_past(a).ms, 1234);
}
END_TEST

static void ck_found(size_t from, bool force, size_t slice, size_t n, uint32_t key, uint32_t ms)
{
	struct slice_past past = {.key = 12345};
	size_t got = 12345;

	ck_assert_uint_eq(region_purge_find(region_at(0), from, force, &got, &past), slice);
	ck_assert_uint_eq(got, n);
	if (slice == SIZE_MAX)
		return;
	ck_assert_uint_eq(past.key, key);
	ck_assert_uint_eq(past.ms, ms);
}

START_TEST(test_a_find_splits_runs_by_their_past)
{
	char *a = alloc_dirty(12);

	free_past(a, 2, 1, 10);
	free_past(a + 2 * SLICE_SIZE, 3, 2, 10); /* another key */
	free_past(a + 5 * SLICE_SIZE, 1, 2, 11); /* another time */
	region_free(a + 6 * SLICE_SIZE, 2, false);
	free_past(a + 9 * SLICE_SIZE, 1, 1, 10); /* behind one that is taken */
	region_free(a + 10 * SLICE_SIZE, 1, true);
	free_past(a + 11 * SLICE_SIZE, 1, 1, 10);
	ck_found(0, true, 0, 2, 1, 10);
	ck_found(1, true, 1, 1, 1, 10);
	ck_found(2, true, 2, 3, 2, 10);
	ck_found(5, true, 5, 1, 2, 11);
	ck_found(6, true, 6, 2, 0, 0);
	ck_found(8, true, 9, 1, 1, 10);
	ck_found(10, true, 11, 1, 1, 10);
	ck_found(12, true, SIZE_MAX, 0, 0, 0);
}
END_TEST

START_TEST(test_a_find_leaves_the_young_unless_forced_and_holds_nothing)
{
	char *a = alloc_dirty(4);

	free_past(a, 4, 5, 50);
	ck_found(0, false, SIZE_MAX, 0, 0, 0);
	ck_found(0, true, 0, 4, 5, 50);
	region_purge_age(region_at(0));
	ck_found(0, false, 0, 4, 5, 50);
	ck_found(0, false, 0, 4, 5, 50);
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
	ck_assert_ptr_eq(alloc(1), a);
	ck_found(0, false, 1, 3, 5, 50);
}
END_TEST

/* Over the words of the maps: 200 slices of one past. */
START_TEST(test_a_run_is_found_whole_over_the_words_of_the_maps)
{
	char *a = alloc_dirty(300);

	free_past(a + 50 * SLICE_SIZE, 200, 3, 30);
	ck_found(0, true, 50, 200, 3, 30);
	ck_found(128, true, 128, 122, 3, 30);
	ck_found(250, true, SIZE_MAX, 0, 0, 0);
}
END_TEST

/* Slices freed in any order with one of three pasts: each is in exactly one run, with its own past. */
START_TEST(test_random_runs_are_found_once_each)
{
	struct random random = {.state = (uint64_t)_i};
	uint32_t key[256];
	char *a = alloc(256);

	for (size_t i = 0; i < 256; i++) {
		key[i] = random_below(&random, 4); /* 3: stays taken */
		if (key[i] < 3)
			free_past(a + i * SLICE_SIZE, 1, key[i], key[i]);
	}
	size_t n, at = 0;
	struct slice_past past;
	for (size_t slice = 0; (slice = region_purge_find(region_at(0), slice, true, &n, &past)) != SIZE_MAX; slice += n) {
		for (; at < slice; at++)
			unit_holds(key[at] == 3);
		for (; at < slice + n; at++)
			unit_holds(key[at] == past.key && past.ms == past.key);
		unit_holds(at == 256 || key[at] != past.key);
	}
	for (; at < 256; at++)
		unit_holds(key[at] == 3);
}
END_TEST

/* --- giving up the commit charge --------------------------------------------------------------------------------------------------- */

START_TEST(test_free_clean_chunks_are_uncommitted_and_come_back)
{
	char *a = alloc(3 * CHUNK_SLICES);
	struct region *region = region_at(0);
	uint64_t before = region_counts().committed_bytes;
	bool clean = false;

	region_free(a, 2 * CHUNK_SLICES, true);
	region_uncommit(region);
	ck_assert_uint_eq(before - region_counts().committed_bytes, 8 * MIB);
	ck_assert(!memory_is_readable(a));
	ck_assert(!memory_is_readable(a + 2 * CHUNK_SLICES * SLICE_SIZE - 1));
	ck_assert(memory_is_readable(a + 2 * CHUNK_SLICES * SLICE_SIZE));
	/* a run over the border of the two */
	ck_assert_ptr_eq(region_alloc(100, 1, &clean), a);
	ck_assert(clean);
	memset(a, 1, 100 * SLICE_SIZE);
	ck_assert(memory_is_zero(a + 100 * SLICE_SIZE, 28 * SLICE_SIZE));
	ck_assert_uint_eq(region_counts().committed_bytes, before);
}
END_TEST

START_TEST(test_a_dirty_or_held_slice_keeps_its_chunk)
{
	char *a = alloc(2 * CHUNK_SLICES);
	struct region *region = region_at(0);
	uint64_t before = region_counts().committed_bytes;

	region_free(a, CHUNK_SLICES - 1, true);
	region_free(a + CHUNK_SLICES * SLICE_SIZE, CHUNK_SLICES - 1, true);
	region_free(a + (2 * CHUNK_SLICES - 1) * SLICE_SIZE, 1, false);
	region_uncommit(region);
	ck_assert_uint_eq(region_counts().committed_bytes, before);
	ck_assert(memory_is_readable(a));
}
END_TEST

START_TEST(test_refusals_to_uncommit_and_recommit_lose_nothing)
{
	char *a, *b;
	bool clean;

	fake_kernel_install();
	a = alloc(CHUNK_SLICES);
	b = alloc(CHUNK_SLICES);
	region_free(a, CHUNK_SLICES, true);
	fake_refuse(FAKE_MMAP, 1, ENOMEM);
	region_uncommit(region_at(0));
	ck_assert(memory_is_readable(a));
	region_uncommit(region_at(0));
	ck_assert(!memory_is_readable(a));
	fake_refuse_all(FAKE_MPROTECT, ENOMEM);
	ck_assert_ptr_null(region_alloc(CHUNK_SLICES, 1, &clean));
	fake_refuse_all(FAKE_MPROTECT, 0);
	ck_assert_ptr_eq(alloc_dirty(CHUNK_SLICES), a);
	(void)b;
}
END_TEST

/* --- marks ------------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_a_mark_is_told_once_until_it_is_cleared)
{
	char *a = alloc(200);
	struct region *region = region_at(0);

	ck_assert(region_mark_freed(a + 130 * SLICE_SIZE));
	ck_assert(!region_mark_freed(a + 130 * SLICE_SIZE));
	ck_assert(region_mark_freed(a + 131 * SLICE_SIZE));
	ck_assert_uint_eq(atomic_load(&region->freed[2]), UINT64_C(3) << 2);
	atomic_store(&region->freed[2], 0);
	ck_assert(region_mark_freed(a + 130 * SLICE_SIZE));
}
END_TEST

/* --- histories --------------------------------------------------------------------------------------------------------------------- */

struct held {
	char *addr;
	size_t n;
};

static void tag(char *addr, size_t n, uint64_t value)
{
	for (size_t i = 0; i < n; i++) {
		*(uint64_t *)(addr + i * SLICE_SIZE) = value;
		*(uint64_t *)(addr + (i + 1) * SLICE_SIZE - 8) = value;
	}
}

static bool is_tagged(const char *addr, size_t n, uint64_t value)
{
	for (size_t i = 0; i < n; i++)
		if (*(const uint64_t *)(addr + i * SLICE_SIZE) != value || *(const uint64_t *)(addr + (i + 1) * SLICE_SIZE - 8) != value)
			return false;
	return true;
}

#define SLOTS 64

/* One step on one slot: fill it, or check and empty it, sometimes through an extension. Returns false when something is wrong. */
static bool step(struct random *random, struct held *held, uint64_t value)
{
	bool clean;

	if (held->addr != NULL) {
		if (!is_tagged(held->addr, held->n, value))
			return false;
		if (random_below(random, 4) == 0 && region_extend(held->addr + held->n * SLICE_SIZE, 3, &clean)) {
			if (clean && !is_tagged(held->addr + held->n * SLICE_SIZE, 3, 0))
				return false;
			held->n += 3;
			tag(held->addr, held->n, value);
			return true;
		}
		region_free(held->addr, held->n, false);
		held->addr = NULL;
		return true;
	}
	static const uint8_t sizes[] = {1, 1, 1, 2, 5, 8, 8, 13, 64};
	held->n = sizes[random_below(random, array_len(sizes))];
	held->addr = region_alloc(held->n, held->n == 8 || held->n == 64 ? held->n : 1, &clean);
	if (held->addr == NULL || (clean && !is_tagged(held->addr, held->n, 0)))
		return false;
	tag(held->addr, held->n, value);
	return true;
}

static void purge_all(bool force)
{
	for (size_t r = 0; r < region_n(); r++) {
		struct region *region = region_at(r);
		size_t n;

		for (size_t slice = 0; (slice = region_purge_take(region, slice, force, 128, &n)) != SIZE_MAX; slice += n) {
			madvise(region->base + slice * SLICE_SIZE, n * SLICE_SIZE, MADV_DONTNEED);
			region_purge_give(region, slice, n, true);
		}
		region_purge_age(region);
		region_uncommit(region);
	}
}

static bool live(uint64_t seed, unsigned steps, bool purge)
{
	struct random random = {seed};
	struct held held[SLOTS] = {0};

	for (unsigned i = 0; i < steps; i++) {
		size_t slot = random_below(&random, SLOTS);

		if (!step(&random, &held[slot], seed << 8 | slot))
			return false;
		if (purge && i % 100 == 99)
			purge_all(random_below(&random, 2) == 0);
	}
	for (size_t slot = 0; slot < SLOTS; slot++) {
		if (held[slot].addr != NULL) {
			if (!is_tagged(held[slot].addr, held[slot].n, seed << 8 | slot))
				return false;
			region_free(held[slot].addr, held[slot].n, false);
		}
	}
	return true;
}

START_TEST(test_random_histories_keep_slices_apart)
{
	ck_assert(live((uint64_t)_i + 1, 3000, true));
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
	purge_all(true);
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
}
END_TEST

static void *live_as_thread(void *seed)
{
	return live((uintptr_t)seed, 2000, (uintptr_t)seed == 1) ? seed : NULL;
}

START_TEST(test_four_threads_keep_slices_apart)
{
	pthread_t thread[4];

	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, live_as_thread, (void *)(i + 1)), 0);
	for (uintptr_t i = 0; i < 4; i++) {
		void *answer;

		pthread_join(thread[i], &answer);
		ck_assert_ptr_eq(answer, (void *)(i + 1));
	}
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
}
END_TEST

START_TEST(test_parent_and_child_go_on_after_a_fork)
{
	int status;
	pid_t pid;

	alloc(1);
	region_fork_prepare();
	pid = fork();
	region_fork_done(pid == 0);
	if (pid == 0)
		_exit(live(5, 200, true) ? 0 : 1);
	ck_assert(live(5, 200, true));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

static TCase *handing_out(void)
{
	TCase *tcase = tcase_create("handing out");

	tcase_add_test(tcase, test_memory_may_be_huge_where_it_was_said);
	tcase_add_test(tcase, test_a_returned_part_leaves_it_huge_and_the_whole_does_not);
	tcase_add_test(tcase, test_free_slices_are_huge_until_all_of_them_are_clean);
	tcase_add_test(tcase, test_only_clean_slices_right_behind_are_taken);
	tcase_add_test(tcase, test_slices_behind_the_usable_ones_are_left);
	tcase_add_test(tcase, test_fresh_slices_are_aligned_clean_and_writable);
	tcase_add_loop_test(tcase, test_alignment_beyond_a_chunk_is_that_of_the_address, 0, 9);
	tcase_add_test(tcase, test_the_lowest_run_that_fits_is_taken);
	tcase_add_test(tcase, test_a_dirty_slice_is_preferred_to_a_clean_one);
	tcase_add_loop_test(tcase, test_a_dirty_run_is_preferred_for_pages_of_eight_and_sixty_four, 0, 2);
	tcase_add_test(tcase, test_one_dirty_slice_makes_a_run_dirty);
	tcase_add_test(tcase, test_extend_takes_what_is_behind_when_it_is_free);
	tcase_add_test(tcase, test_extend_ends_with_the_region);
	tcase_add_test(tcase, test_sizes_no_kernel_has_are_null);
	return tcase;
}

/* --- records ------------------------------------------------------------------------------------------------------------------------- */

#define CHUNK_RECORDS (CHUNK_SLICES * RECORD_SIZE)

/* Three chunks whose records were written to. */
static char *take_recorded_chunks(void)
{
	bool clean;
	char *a = region_alloc(3 * CHUNK_SLICES, CHUNK_SLICES, &clean);

	ck_assert_ptr_nonnull(a);
	memset(region_record(a), 7, 3 * CHUNK_RECORDS);
	return a;
}

static size_t resident_records(const char *chunk)
{
	return memory_resident(region_record(chunk), CHUNK_RECORDS);
}

START_TEST(test_records_of_free_clean_chunks_go_and_read_as_zero)
{
	memory_without_huge_pages();
	char *a = take_recorded_chunks();
	bool clean;

	region_free(a, 3 * CHUNK_SLICES, true);
	region_trim(region_at(0));
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(resident_records(a + i * CHUNK_SLICES * SLICE_SIZE), 0);
	ck_assert(memory_is_zero(region_record(a), 3 * CHUNK_RECORDS));
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
	ck_assert_ptr_eq(region_alloc(3 * CHUNK_SLICES, CHUNK_SLICES, &clean), a);
	ck_assert(clean);
}
END_TEST

/* 0: a slice of the middle one is held; 1: it is dirty */
START_TEST(test_a_held_or_dirty_slice_keeps_the_records_of_its_chunk)
{
	memory_without_huge_pages();
	char *a = take_recorded_chunks(), *middle = a + CHUNK_SLICES * SLICE_SIZE;

	region_free(a, CHUNK_SLICES, true);
	region_free(middle + CHUNK_SLICES * SLICE_SIZE, CHUNK_SLICES, true);
	region_free(middle, CHUNK_SLICES - 1, true);
	if (_i == 1)
		region_free(middle + (CHUNK_SLICES - 1) * SLICE_SIZE, 1, false);
	region_trim(region_at(0));
	ck_assert_uint_eq(resident_records(a), 0);
	ck_assert_uint_eq(resident_records(middle), CHUNK_RECORDS / OS_PAGE_SIZE);
	ck_assert(memory_is_filled(region_record(middle), CHUNK_RECORDS, 7));
	ck_assert_uint_eq(resident_records(middle + CHUNK_SLICES * SLICE_SIZE), 0);
}
END_TEST

START_TEST(test_records_are_given_back_once_for_each_use)
{
	map_can_drop(); /* asked here it is not among the calls that are counted */
	fake_kernel_install();
	char *a = take_recorded_chunks();
	bool clean;

	region_free(a, 3 * CHUNK_SLICES, true);
	fake_forget();
	region_trim(region_at(0));
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 1);
	region_trim(region_at(0));
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 1);
	region_free(region_alloc(1, 1, &clean), 1, true);
	region_trim(region_at(0));
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 2);
	ck_assert_uint_eq(fake_bytes(FAKE_MADVISE), 4 * CHUNK_RECORDS);
}
END_TEST

START_TEST(test_records_that_are_refused_stay_as_they_are)
{
	fake_kernel_install();
	char *a = take_recorded_chunks();
	bool clean;

	region_free(a, 3 * CHUNK_SLICES, true);
	fake_refuse_all(FAKE_MADVISE, EINVAL);
	region_trim(region_at(0));
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
	ck_assert_ptr_eq(region_alloc(3 * CHUNK_SLICES, CHUNK_SLICES, &clean), a);
}
END_TEST

static TCase *records(void)
{
	TCase *tcase = tcase_create("records");

	tcase_add_test(tcase, test_records_of_free_clean_chunks_go_and_read_as_zero);
	tcase_add_loop_test(tcase, test_a_held_or_dirty_slice_keeps_the_records_of_its_chunk, 0, 2);
	tcase_add_test(tcase, test_records_are_given_back_once_for_each_use);
	tcase_add_test(tcase, test_records_that_are_refused_stay_as_they_are);
	return tcase;
}

static TCase *growth(void)
{
	TCase *tcase = tcase_create("growth");

	tcase_add_test(tcase, test_the_first_slice_makes_no_more_than_256_KiB_usable);
	tcase_add_test(tcase, test_growth_takes_ever_fewer_calls);
	tcase_add_test(tcase, test_every_slice_has_a_record_of_its_own);
	tcase_add_test(tcase, test_foreign_addresses_have_no_record);
	tcase_add_test(tcase, test_a_full_region_is_followed_by_another);
	return tcase;
}

static TCase *refusals(void)
{
	TCase *tcase = tcase_create("refusals");

	tcase_add_loop_test(tcase, test_a_refused_mmap_leaves_everything_usable, 0, 10);
	tcase_add_loop_test(tcase, test_a_refused_mprotect_leaves_everything_usable, 0, 24);
	tcase_add_test(tcase, test_refused_memory_costs_no_more_regions);
	tcase_add_test(tcase, test_address_space_that_is_refused_again_and_again_costs_nothing);
	tcase_add_test(tcase, test_what_a_failed_region_took_is_given_back);
	if (!UNIT_SANITIZER) {
		tcase_add_test(tcase, test_a_size_over_the_data_limit_costs_no_more_regions);
		tcase_add_test(tcase, test_a_small_address_space_is_used_in_small_regions);
	}
	return tcase;
}

static TCase *purging(void)
{
	TCase *tcase = tcase_create("purging");

	tcase_add_test(tcase, test_a_young_slice_stays_one_pass);
	tcase_add_test(tcase, test_force_takes_the_young_too);
	tcase_add_test(tcase, test_a_purge_takes_each_dirty_run_once_and_no_more_than_asked);
	tcase_add_test(tcase, test_nobody_is_handed_what_a_purge_holds);
	tcase_add_test(tcase, test_free_clean_chunks_are_uncommitted_and_come_back);
	tcase_add_test(tcase, test_a_dirty_or_held_slice_keeps_its_chunk);
	tcase_add_test(tcase, test_refusals_to_uncommit_and_recommit_lose_nothing);
	tcase_add_test(tcase, test_a_mark_is_told_once_until_it_is_cleared);
	return tcase;
}

static TCase *pasts(void)
{
	TCase *tcase = tcase_create("pasts");

	tcase_add_test(tcase, test_what_slices_were_used_for_is_told_to_their_next_holder);
	tcase_add_test(tcase, test_the_past_outlives_a_purge);
	tcase_add_test(tcase, test_a_find_splits_runs_by_their_past);
	tcase_add_test(tcase, test_a_find_leaves_the_young_unless_forced_and_holds_nothing);
	tcase_add_test(tcase, test_a_run_is_found_whole_over_the_words_of_the_maps);
	tcase_add_loop_test(tcase, test_random_runs_are_found_once_each, 0, 4);
	return tcase;
}

static TCase *histories(void)
{
	TCase *tcase = tcase_create("histories");

	tcase_add_loop_test(tcase, test_random_histories_keep_slices_apart, 0, 4);
	tcase_add_test(tcase, test_four_threads_keep_slices_apart);
	tcase_add_test(tcase, test_parent_and_child_go_on_after_a_fork);
	return tcase;
}

int main(void)
{
	Suite *suite = unit_suite("region");

	suite_add_tcase(suite, handing_out());
	suite_add_tcase(suite, growth());
	suite_add_tcase(suite, refusals());
	suite_add_tcase(suite, purging());
	suite_add_tcase(suite, records());
	suite_add_tcase(suite, pasts());
	suite_add_tcase(suite, histories());
	return unit_run(suite);
}
