/* SPDX-License-Identifier: MIT */
/*
 * Suite heap: any size and alignment to the right kind of page; zeroed memory is zero whatever was there before; what can be resized in
 * place is; freed bytes are told to the bell; a pointer that is no block ends the process.
 */
#include "heap/heap.h"

#include "kernel/advise.h"
#include "kernel/bell.h"
#include "reclaim/sweep.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/page/dies.h"
#include "unit/region/memory.h"

#include <errno.h>

static const size_t sizes[] = {0, 1, 16, 17, 100, 512, 513, 5000, 8192, 8193, 9 * KIB, 20 * KIB, 65536,
				65537, 300 * KIB, 512 * KIB, 512 * KIB + 1, 3 * MIB};

static unsigned kind_for(size_t size)
{
	if (size <= MEDIUM_MAX)
		return size <= SMALL_MAX ? PAGE_SMALL : PAGE_MEDIUM;
	return size <= LARGE_MAX ? PAGE_LARGE : PAGE_SINGLE;
}

START_TEST(test_every_size_is_served_and_usable)
{
	for (size_t i = 0; i < array_len(sizes); i++) {
		char *p = alloc(sizes[i]);
		size_t usable = heap_usable(p);

		ck_assert_uint_ge(usable, sizes[i]);
		ck_assert_uint_eq((uintptr_t)p % 16, 0);
		memset(p, 1, usable);
		ck_assert_uint_eq(page_under(p)->kind, kind_for(sizes[i]));
		if (i % 2)
			heap_free_slow(p);
	}
	ck_assert_uint_eq(heap_usable(NULL), 0);
	heap_free_slow(NULL);
}
END_TEST

START_TEST(test_sizes_nobody_has_are_null)
{
	ck_assert_ptr_null(heap_alloc_slow((size_t)PTRDIFF_MAX + 1));
	ck_assert_ptr_null(heap_alloc_slow(SIZE_MAX));
	ck_assert_ptr_null(heap_alloc_zero(SIZE_MAX - 4095));
	ck_assert_ptr_null(heap_alloc_aligned(SIZE_MAX, 64));
	ck_assert_ptr_null(heap_alloc_aligned(64, (size_t)1 << 63));
}
END_TEST

START_TEST(test_every_alignment_is_kept)
{
	for (size_t align = 1; align <= 16 * MIB; align *= 2) {
		for (size_t i = 0; i < array_len(sizes); i++) {
			char *p = heap_alloc_aligned(sizes[i], align);
			ck_assert_ptr_nonnull(p);
			ck_assert_uint_eq((uintptr_t)p % align, 0);
			unit_holds(heap_usable(p) >= sizes[i]);
			p[0] = 1;
			if (align % 3 != 0 && i % 3)
				heap_free_slow(p);
		}
	}
	heap_check(heap_tls);
}
END_TEST

static void fill_and_free(size_t size)
{
	static char *p[64];
	size_t n = size > LARGE_MAX ? 1 : size > SMALL_MAX ? 6 : 64;

	for (size_t i = 0; i < n; i++) {
		p[i] = alloc(size);
		memset(p[i], 0xff, heap_usable(p[i]));
	}
	for (size_t i = 0; i < n; i++)
		heap_free_slow(p[i]);
}

/* Fresh, used before, returned to the kernel in between, and its slices used by another class before. */
START_TEST(test_zeroed_memory_is_zero_whatever_it_was)
{
	advise_set_way(ADVISE_LOOP);
	for (size_t i = 0; i < array_len(sizes); i++) {
		for (int round = 0; round < 4; round++) {
			struct sweep_left left = {0};
			size_t size = sizes[i];
			char *p[4];

			for (int k = 0; k < 4; k++) {
				p[k] = heap_alloc_zero(size);
				ck_assert_ptr_nonnull(p[k]);
				ck_assert(memory_is_zero(p[k], size));
				memset(p[k], 0xee, heap_usable(p[k]));
			}
			for (int k = 0; k < 4; k++)
				heap_free_slow(p[k]);
			fill_and_free(size);
			if (round == 1)
				sweep_big(NULL, true, &left);
			if (round == 2)
				heap_retire_empty(heap_tls);
		}
	}
}
END_TEST

START_TEST(test_resizing_in_place_keeps_the_block_where_that_is_sensible)
{
	char *p = alloc(1000); /* 1024 */

	ck_assert(heap_resize_in_place(p, 1024));
	ck_assert(heap_resize_in_place(p, 513));
	ck_assert(!heap_resize_in_place(p, 512));
	ck_assert(!heap_resize_in_place(p, 1025));
	p = alloc(64);
	ck_assert(heap_resize_in_place(p, 1));
	p = alloc(5 * MIB);
	memset(p, 3, 5 * MIB);
	ck_assert(heap_resize_in_place(p, 6 * MIB));
	ck_assert_uint_eq(heap_usable(p), 6 * MIB);
	ck_assert(heap_resize_in_place(p, MIB));
	ck_assert_uint_eq(heap_usable(p), MIB);
	ck_assert(memory_is_filled(p, MIB, 3));
	ck_assert(!heap_resize_in_place(p, LARGE_MAX));
	ck_assert(!heap_resize_in_place(p, SIZE_MAX));
	ck_assert_uint_eq(heap_usable(p), MIB);
}
END_TEST

START_TEST(test_no_memory_is_null_and_leaves_the_heap_whole)
{
	fake_kernel_install();
	alloc(64);
	fake_refuse_all(FAKE_MMAP, ENOMEM);
	fake_refuse_all(FAKE_MPROTECT, ENOMEM);
	for (size_t i = 0; i < array_len(sizes); i++)
		for (void *p = heap_alloc_slow(sizes[i]); p != NULL && sizes[i] > 64;)
			p = heap_alloc_slow(sizes[i]);
	ck_assert_ptr_null(heap_alloc_slow(MIB));
	ck_assert_ptr_null(heap_alloc_slow(300 * KIB));
	ck_assert_ptr_null(heap_alloc_zero(300 * KIB));
	heap_check(heap_tls);
	fake_refuse_all(FAKE_MMAP, 0);
	fake_refuse_all(FAKE_MPROTECT, 0);
	for (size_t i = 0; i < array_len(sizes); i++)
		heap_free_slow(alloc(sizes[i]));
	heap_check(heap_tls);
}
END_TEST

/* The first thread without memory for a heap. */
START_TEST(test_no_memory_for_a_heap_is_null)
{
	fake_kernel_install();
	fake_refuse_all(FAKE_MMAP, ENOMEM);
	ck_assert_ptr_null(heap_alloc_slow(64));
	ck_assert_ptr_eq(heap_tls, &heap_empty);
	ck_assert_uint_eq(heap_counts().heaps, 0);
	fake_refuse_all(FAKE_MMAP, 0);
	alloc(64);
}
END_TEST

START_TEST(test_a_megabyte_freed_in_parts_rings_the_bell)
{
	static char *p[32];

	for (int i = 0; i < 32; i++)
		p[i] = alloc(48 * KIB);
	for (int i = 0; i < 10; i++)
		heap_free_slow(p[i]);
	ck_assert(!bell_unanswered);
	for (int i = 10; i < 32; i++)
		heap_free_slow(p[i]);
	ck_assert(bell_unanswered);
}
END_TEST

/* --- mistakes ------------------------------------------------------------------------------------------------------------------------- */

static void free_once(void *p)
{
	heap_free_slow(p);
}

static void free_twice(void *p)
{
	heap_free_slow(p);
	heap_free_slow(p);
}

static void ask_usable(void *p)
{
	ck_assert_uint_ne(heap_usable(p), 12345);
}

START_TEST(test_what_is_no_block_ends_the_process)
{
	int local;
	char *single = alloc(2 * MIB), *large = alloc(300 * KIB);

	ck_dies(free_once, &local, "invalid pointer");
	ck_dies(free_once, (void *)16, "invalid pointer");
	ck_dies(free_once, (void *)(UINTPTR_MAX - 15), "invalid pointer");
	ck_dies(free_once, single + 16, "invalid pointer");
	ck_dies(free_once, single + MIB, "invalid pointer");
	ck_dies(free_once, large + 16, "invalid pointer");
	ck_dies(free_twice, single, "double free");
	ck_dies(free_twice, large, "double free");
	ck_dies(ask_usable, &local, "invalid pointer");
	ck_dies(ask_usable, large + 8, "invalid pointer");
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("heap");
	TCase *blocks = tcase_create("blocks"), *none = tcase_create("no memory"), *mistakes = tcase_create("mistakes");

	tcase_add_test(blocks, test_every_size_is_served_and_usable);
	tcase_add_test(blocks, test_sizes_nobody_has_are_null);
	tcase_add_test(blocks, test_every_alignment_is_kept);
	tcase_add_test(blocks, test_zeroed_memory_is_zero_whatever_it_was);
	tcase_add_test(blocks, test_resizing_in_place_keeps_the_block_where_that_is_sensible);
	tcase_add_test(blocks, test_a_megabyte_freed_in_parts_rings_the_bell);
	tcase_add_test(none, test_no_memory_is_null_and_leaves_the_heap_whole);
	tcase_add_test(none, test_no_memory_for_a_heap_is_null);
	tcase_add_test(mistakes, test_what_is_no_block_ends_the_process);
	suite_add_tcase(suite, blocks);
	suite_add_tcase(suite, none);
	suite_add_tcase(suite, mistakes);
	return unit_run(suite);
}
