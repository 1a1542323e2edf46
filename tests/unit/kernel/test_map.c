/* SPDX-License-Identifier: MIT */
/*
 * Suite map: alignment whatever the kernel hands out, refusals that leave nothing behind, the calls that are made.
 */
#include "kernel/map.h"

#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "support/fake_kernel.h"
#include "support/unit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Bytes mapped and not unmapped by recorded calls. */
static size_t kept_bytes(void)
{
	return fake_bytes(FAKE_MMAP) - fake_bytes(FAKE_MUNMAP);
}

START_TEST(test_reservations_are_aligned_and_leave_no_rest)
{
	size_t align = OS_PAGE_SIZE << _i;

	fake_kernel_install();
	for (int i = 0; i < 8; i++) {
		char *addr = map_reserve(3 * OS_PAGE_SIZE, align);

		ck_assert_ptr_nonnull(addr);
		ck_assert_uint_eq((uintptr_t)addr % align, 0);
		ck_assert_uint_eq(kept_bytes(), (size_t)(i + 1) * 3 * OS_PAGE_SIZE);
	}
}
END_TEST

START_TEST(test_a_refused_reservation_is_null)
{
	fake_kernel_install();
	fake_refuse_all(FAKE_MMAP, ENOMEM);
	ck_assert_ptr_null(map_reserve(GIB, 4 * MIB));
	ck_assert_ptr_null(map_reserve(GIB, OS_PAGE_SIZE));
	ck_assert_uint_eq(fake_calls(FAKE_MUNMAP), 0);
}
END_TEST

/* Under a small RLIMIT_AS the exact size may fit where size plus alignment does not. */
START_TEST(test_a_refusal_of_the_larger_try_leaves_nothing_mapped)
{
	const size_t align = 64 * GIB; /* never aligned by luck */

	fake_kernel_install();
	fake_refuse(FAKE_MMAP, 2, ENOMEM);
	ck_assert_ptr_null(map_reserve(OS_PAGE_SIZE, align));
	ck_assert_uint_eq(fake_calls(FAKE_MMAP), 2);
	ck_assert_uint_eq(fake_record_of(FAKE_MUNMAP, 0)->len, OS_PAGE_SIZE);
}
END_TEST

START_TEST(test_sizes_beyond_the_address_space_are_null)
{
	fake_kernel_install();
	ck_assert_ptr_null(map_reserve(align_down(SIZE_MAX, OS_PAGE_SIZE), OS_PAGE_SIZE));
	ck_assert_ptr_null(map_reserve((size_t)1 << 63, (size_t)1 << 62));
	ck_assert_uint_eq(fake_calls(FAKE_MMAP), 0);
	ck_assert_ptr_null(map_reserve((size_t)1 << 62, MIB));
}
END_TEST

START_TEST(test_committed_memory_is_zero_and_writable_and_decommit_drops_it)
{
	const size_t len = 4 * MIB;
	char *addr = map_reserve(len, MIB);

	ck_assert(map_commit(addr, len));
	for (size_t i = 0; i < len; i += OS_PAGE_SIZE)
		unit_holds(addr[i] == 0);
	memset(addr, 7, len);
	ck_assert(map_decommit(addr + MIB, MIB));
	ck_assert(map_commit(addr + MIB, MIB));
	for (size_t i = 0; i < len; i += OS_PAGE_SIZE)
		unit_holds(addr[i] == (i / MIB == 1 ? 0 : 7));
	map_release(addr, len);
}
END_TEST

START_TEST(test_a_refused_commit_and_decommit_say_so)
{
	char *addr;

	fake_kernel_install();
	addr = map_reserve(MIB, MIB);
	fake_refuse(FAKE_MPROTECT, 1, ENOMEM);
	ck_assert(!map_commit(addr, MIB));
	ck_assert(map_commit(addr, MIB));
	addr[0] = 1;
	fake_refuse(FAKE_MMAP, 1, ENOMEM);
	ck_assert(!map_decommit(addr, MIB));
	ck_assert_int_eq(addr[0], 1);
	ck_assert(map_decommit(addr, MIB));
}
END_TEST

START_TEST(test_a_release_the_kernel_cannot_do_still_gives_the_memory_back)
{
	char *addr;

	fake_kernel_install();
	addr = map_reserve(MIB, MIB);
	ck_assert(map_commit(addr, MIB));
	addr[0] = 1;
	fake_refuse(FAKE_MUNMAP, 1, ENOMEM);
	map_release(addr, MIB);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 1);
	ck_assert_int_eq(fake_record_of(FAKE_MADVISE, 0)->arg, MADV_DONTNEED);
	ck_assert_int_eq(addr[0], 0);
}
END_TEST

/* Everything of LEN bytes reads as zero. */
static bool is_zero(const char *addr, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (addr[i] != 0)
			return false;
	return true;
}

static char *make_dirty(size_t len)
{
	char *addr = map_reserve(len, 2 * MIB);

	ck_assert(map_commit(addr, len));
	memset(addr, 0xaa, len);
	return addr;
}

START_TEST(test_clearing_leaves_zeros_whatever_the_kernel_does)
{
	size_t len = 5 * MIB;
	char *addr = make_dirty(len);

	map_clear(addr + 100, len - 200, false);
	ck_assert(is_zero(addr + 100, len - 200));
	ck_assert_int_eq((unsigned char)addr[99], 0xaa);
	ck_assert_int_eq((unsigned char)addr[len - 100], 0xaa);
	memset(addr, 0xaa, len);
	fake_kernel_install();
	fake_refuse_all(FAKE_MADVISE, EINVAL);
	map_clear(addr, len, true);
	ck_assert(is_zero(addr, len));
}
END_TEST

/* Its yes is not believed: it is not asked. */
START_TEST(test_a_kernel_that_lies_drops_nothing)
{
	size_t len = 4 * MIB;
	char *addr = make_dirty(len);

	caps_force_off(CAPS_DONTNEED);
	fake_kernel_install();
	ck_assert(!map_can_drop());
	ck_assert(!map_drop(addr, len));
	ck_assert_int_eq((unsigned char)addr[0], 0xaa);
	map_clear(addr, len, false);
	ck_assert(is_zero(addr, len));
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 0);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("map");
	TCase *reserve = tcase_create("reserve"), *commit = tcase_create("commit");

	tcase_add_loop_test(reserve, test_reservations_are_aligned_and_leave_no_rest, 0, 20);
	tcase_add_test(reserve, test_a_refused_reservation_is_null);
	tcase_add_test(reserve, test_a_refusal_of_the_larger_try_leaves_nothing_mapped);
	tcase_add_test(reserve, test_sizes_beyond_the_address_space_are_null);
	tcase_add_test(commit, test_committed_memory_is_zero_and_writable_and_decommit_drops_it);
	tcase_add_test(commit, test_a_refused_commit_and_decommit_say_so);
	tcase_add_test(commit, test_a_release_the_kernel_cannot_do_still_gives_the_memory_back);
	tcase_add_test(commit, test_clearing_leaves_zeros_whatever_the_kernel_does);
	tcase_add_test(commit, test_a_kernel_that_lies_drops_nothing);
	suite_add_tcase(suite, reserve);
	suite_add_tcase(suite, commit);
	return unit_run(suite);
}
