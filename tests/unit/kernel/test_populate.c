/* SPDX-License-Identifier: MIT */
/*
 * Suite populate: a range is brought in by calls of bounded size; a call the kernel does not know is not made again, one it has no memory
 * for not for a while, longer each time; and nothing of it is the caller's trouble.
 */
#include "kernel/populate.h"

#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/region/memory.h"

#include <errno.h>
#include <sys/mman.h>

#define LEN (20 * MIB)
#define SECOND UINT64_C(1000000000)

static char *memory;

/* A clean fake, the capability asked for already. Where it is not to be had, the answers are all the same, but nothing comes in. */
static void setup(void)
{
	memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	/* where huge pages are always given, more would come in; lull's own reservations are marked so */
	madvise(memory, LEN, MADV_NOHUGEPAGE);
	fake_kernel_install();
	caps_has(CAPS_POPULATE);
	fake_forget();
}

static bool is_live(void)
{
	return caps_state(CAPS_POPULATE) == CAP_STATE_LIVE;
}

START_TEST(test_a_range_is_resident_afterwards)
{
	if (!is_live())
		return;
	ck_assert(populate_range(memory + MIB, MIB));
	ck_assert_uint_eq(memory_resident(memory, 3 * MIB), MIB / OS_PAGE_SIZE);
	ck_assert_uint_eq(populate_counts().calls, 1);
	ck_assert_uint_eq(populate_counts().bytes, MIB);
}
END_TEST

START_TEST(test_one_call_covers_no_more_than_its_bound)
{
	if (!is_live())
		return;
	fake_kernel_dry();
	ck_assert(populate_range(memory, LEN));
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 3);
	for (size_t i = 0; i < 3; i++) {
		ck_assert_ptr_eq(fake_record(i)->addr, memory + i * POPULATE_CALL_BYTES);
		ck_assert_uint_le(fake_record(i)->len, POPULATE_CALL_BYTES);
	}
	ck_assert_uint_eq(fake_bytes(FAKE_MADVISE), LEN);
}
END_TEST

START_TEST(test_an_unknown_advice_is_not_given_again)
{
	static const int refusals[] = {EINVAL, ENOSYS, EPERM};

	if (!is_live())
		return;
	fake_refuse_all(FAKE_MADVISE, refusals[_i]);
	ck_assert(!populate_range(memory, LEN));
	ck_assert(!populate_range(memory, LEN));
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 1);
	ck_assert_uint_eq(populate_counts().refused, 1);
	ck_assert_uint_eq(populate_counts().bytes, 0);
	ck_assert(!caps_has(CAPS_POPULATE));
}
END_TEST

static bool tries_now(void)
{
	unsigned before = fake_calls(FAKE_MADVISE);

	populate_range(memory, OS_PAGE_SIZE);
	return fake_calls(FAKE_MADVISE) > before;
}

START_TEST(test_without_memory_it_pauses_longer_each_time)
{
	static const int refusals[] = {ENOMEM, EAGAIN, EFAULT};
	uint64_t pause = SECOND;

	if (!is_live())
		return;
	fake_clock_set(5 * SECOND);
	fake_refuse_all(FAKE_MADVISE, refusals[_i]);
	ck_assert(tries_now());
	for (unsigned i = 0; i < 8; i++) {
		fake_clock_add(pause - 1);
		ck_assert(!tries_now());
		fake_clock_add(1);
		ck_assert(tries_now());
		pause = i < 6 ? 2 * pause : pause;
	}
	ck_assert(is_live());
}
END_TEST

START_TEST(test_a_success_ends_the_pauses)
{
	if (!is_live())
		return;
	fake_refuse(FAKE_MADVISE, 1, ENOMEM);
	ck_assert(tries_now());
	fake_clock_add(SECOND);
	ck_assert(tries_now()); /* accepted */
	ck_assert(tries_now());
	fake_refuse(FAKE_MADVISE, 1, ENOMEM);
	ck_assert(tries_now());
	fake_clock_add(SECOND); /* the first pause again, not the second */
	ck_assert(tries_now());
}
END_TEST

START_TEST(test_forced_off_nothing_is_called)
{
	caps_force_off(CAPS_POPULATE);
	ck_assert(!populate_range(memory, LEN));
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 0);
	ck_assert_uint_eq(populate_counts().calls, 0);
}
END_TEST

/* --- huge pages ---------------------------------------------------------------------------------------------------------------------- */

static char *huge_memory(void)
{
	return (char *)align_up((uintptr_t)memory, HUGE_BYTES);
}

/* Both are live, or there is nothing to be seen. */
static bool has_huge(void)
{
	bool yes = is_live() && caps_has(CAPS_HUGE_PAGES);

	fake_forget();
	return yes;
}

static void ck_advice(size_t i, int advice)
{
	ck_assert_ptr_nonnull(fake_record(i));
	ck_assert_int_eq(fake_record(i)->arg, advice);
	ck_assert_ptr_eq(fake_record(i)->addr, huge_memory());
	ck_assert_uint_eq(fake_record(i)->len, 2 * HUGE_BYTES);
}

START_TEST(test_huge_pages_are_asked_for_during_the_call_only)
{
	if (!has_huge())
		return;
	ck_assert(populate_huge(huge_memory(), 2 * HUGE_BYTES));
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 3);
	ck_advice(0, MADV_HUGEPAGE);
	ck_advice(2, MADV_NOHUGEPAGE);
	ck_assert_uint_eq(memory_resident(huge_memory(), 2 * HUGE_BYTES), 2 * HUGE_BYTES / OS_PAGE_SIZE);
}
END_TEST

START_TEST(test_without_huge_pages_it_is_small_ones)
{
	static const int refusals[] = {EINVAL, ENOMEM};

	if (!has_huge())
		return;
	fake_refuse(FAKE_MADVISE, 1, refusals[_i]);
	ck_assert(populate_huge(huge_memory(), 2 * HUGE_BYTES));
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 2);
	ck_assert_int_eq(caps_has(CAPS_HUGE_PAGES), refusals[_i] == ENOMEM);
}
END_TEST

/* Else every range would leave a mapping behind. */
START_TEST(test_what_cannot_be_undone_is_not_done_again)
{
	if (!has_huge())
		return;
	fake_refuse(FAKE_MADVISE, 3, EINVAL);
	ck_assert(populate_huge(huge_memory(), 2 * HUGE_BYTES));
	ck_assert(!caps_has(CAPS_HUGE_PAGES));
	ck_assert(!populate_huge(huge_memory(), 2 * HUGE_BYTES));
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 3);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("populate");
	TCase *all = tcase_create("all"), *huge = tcase_create("huge");

	tcase_add_checked_fixture(all, setup, NULL);
	tcase_add_test(all, test_a_range_is_resident_afterwards);
	tcase_add_test(all, test_one_call_covers_no_more_than_its_bound);
	tcase_add_loop_test(all, test_an_unknown_advice_is_not_given_again, 0, 3);
	tcase_add_loop_test(all, test_without_memory_it_pauses_longer_each_time, 0, 3);
	tcase_add_test(all, test_a_success_ends_the_pauses);
	tcase_add_test(all, test_forced_off_nothing_is_called);
	tcase_add_checked_fixture(huge, setup, NULL);
	tcase_add_test(huge, test_huge_pages_are_asked_for_during_the_call_only);
	tcase_add_loop_test(huge, test_without_huge_pages_it_is_small_ones, 0, 2);
	tcase_add_test(huge, test_what_cannot_be_undone_is_not_done_again);
	suite_add_tcase(suite, all);
	suite_add_tcase(suite, huge);
	return unit_run(suite);
}
