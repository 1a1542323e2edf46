/* SPDX-License-Identifier: MIT */
/*
 * Suite advise: what reaches the kernel, whose fate is told and how, and when a way closes. Mostly on invented addresses with a
 * kernel that only counts; the last tests return real memory and look at it. Tests of all ways loop over them.
 */
#include "kernel/advise.h"

#include "base/random.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/map.h"
#include "kernel/ring.h"
#include "support/fake_kernel.h"
#include "support/unit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BASE ((char *)0x100000000)

static struct advise_batch batch;
static int ways; /* how many of them this kernel has: the fake is asked only for those */

static struct told {
	unsigned times;
	bool ok;
	struct advise_range range;
} told[4096]; /* by the number that tests pass as bits */

static size_t told_n;

static void tell(const struct advise_range *range, bool ok)
{
	struct told *entry = &told[range->bits];

	told_n++;
	entry->times++;
	entry->ok = ok;
	entry->range = *range;
}

static void set_up(void)
{
	/* on the real kernel; the fake's ring is there for who asks */
	caps_has(CAPS_DONTNEED);
	caps_has(CAPS_PROCESS_MADVISE_COLD);
	fake_kernel_install();
	fake_kernel_dry();
	advise_batch_init(&batch, tell);
}

static void ask_all(void)
{
	caps_has(CAPS_PROCESS_MADVISE);
	caps_has(CAPS_URING_MADVISE);
}

static void set_up_way(int way)
{
	if (way == ADVISE_URING)
		ask_all();
	set_up();
	advise_set_way((enum advise_way)way);
	if (way == ADVISE_URING)
		ring_own();
}

/* Range NUMBER is at OS page PAGE, PAGES long. */
static void add(unsigned number, size_t page, size_t pages)
{
	advise_batch_add(&batch, BASE + page * OS_PAGE_SIZE, pages * OS_PAGE_SIZE, &told[number], number);
}

static void ck_told(unsigned number, bool ok)
{
	unit_holds(told[number].times == 1);
	unit_holds(told[number].ok == ok);
	unit_holds(told[number].range.owner == &told[number]);
}

static enum fake_call call_of(int way)
{
	static const enum fake_call calls[] = {
		[ADVISE_LOOP] = FAKE_MADVISE,
		[ADVISE_VECTOR] = FAKE_PROCESS_MADVISE,
		[ADVISE_URING] = FAKE_RING_SUBMIT,
	};

	return calls[way];
}

static void ck_record(int way, size_t i, size_t page, size_t pages)
{
	const struct fake_record *record = fake_record_of(call_of(way), i);

	unit_holds(record);
	unit_holds(record->addr == BASE + page * OS_PAGE_SIZE);
	unit_holds(record->len == pages * OS_PAGE_SIZE);
	unit_holds(record->arg == MADV_DONTNEED);
}

START_TEST(test_an_empty_flush_does_nothing)
{
	set_up();
	ck_assert_uint_eq(advise_batch_finish(&batch), 0);
	ck_assert_uint_eq(fake_records(), 0);
	ck_assert_uint_eq(told_n, 0);
}
END_TEST

START_TEST(test_adding_does_not_enter_the_kernel)
{
	set_up();
	for (unsigned i = 0; i < ADVISE_BATCH_RANGES; i++)
		add(i, 2 * i, 1);
	ck_assert_uint_eq(fake_records(), 0);
	ck_assert_uint_eq(batch.n, ADVISE_BATCH_RANGES);
	ck_assert_uint_eq(batch.bytes, ADVISE_BATCH_RANGES * OS_PAGE_SIZE);
}
END_TEST

START_TEST(test_a_full_batch_is_flushed_by_the_next_add)
{
	set_up_way(_i);
	for (unsigned i = 0; i <= ADVISE_BATCH_RANGES; i++)
		add(i, 2 * i, 1);
	ck_assert_uint_eq(batch.n, 1);
	ck_assert_uint_eq(told_n, ADVISE_BATCH_RANGES - ring_in_flight());
	advise_batch_finish(&batch);
	ck_assert_uint_eq(advise_counts().returned_bytes, (ADVISE_BATCH_RANGES + 1) * OS_PAGE_SIZE);
	for (unsigned i = 0; i <= ADVISE_BATCH_RANGES; i++)
		ck_told(i, true);
}
END_TEST

START_TEST(test_touching_ranges_are_merged_and_larger_runs_come_first)
{
	set_up_way(_i);
	add(0, 30, 2);
	add(1, 10, 5);
	add(2, 15, 1);
	add(3, 0, 4);
	add(4, 32, 8);
	add(5, 16, 4);
	ck_assert_uint_eq(advise_batch_finish(&batch), 24 * OS_PAGE_SIZE);
	ck_record(_i, 0, 10, 10);
	ck_record(_i, 1, 30, 10);
	ck_record(_i, 2, 0, 4);
	ck_assert_uint_eq(fake_records(), 3);
	ck_assert_uint_eq(fake_calls(call_of(_i)), _i == ADVISE_LOOP ? 3 : 1);
	for (unsigned i = 0; i < 6; i++)
		ck_told(i, true);
	ck_assert_uint_eq(batch.n, 0);
	ck_assert_uint_eq(batch.bytes, 0);
}
END_TEST

START_TEST(test_any_order_comes_out_sorted)
{
	struct random random = {.state = (uint64_t)_i};
	unsigned order[ADVISE_BATCH_RANGES];

	set_up_way(ADVISE_LOOP);
	for (unsigned i = 0; i < ADVISE_BATCH_RANGES; i++) {
		unsigned j = random_below(&random, i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (unsigned i = 0; i < ADVISE_BATCH_RANGES; i++)
		add(order[i], 2 * order[i], 1);
	advise_batch_finish(&batch);
	for (unsigned i = 0; i < ADVISE_BATCH_RANGES; i++) {
		ck_told(i, true);
		ck_record(ADVISE_LOOP, i, 2 * i, 1);
	}
}
END_TEST

START_TEST(test_no_call_covers_more_than_the_bound)
{
	const size_t most = ADVISE_CALL_BYTES / OS_PAGE_SIZE;

	set_up_way(_i);
	add(0, 0, 2 * most + 100);
	add(1, 2 * most + 100, 50);
	ck_assert_uint_eq(advise_batch_finish(&batch), (2 * most + 150) * OS_PAGE_SIZE);
	ck_record(_i, 0, 0, most);
	ck_record(_i, 1, most, most);
	ck_record(_i, 2, 2 * most, 150);
	ck_assert_uint_eq(fake_calls(call_of(_i)), 3);
	ck_told(0, true);
	ck_told(1, true);
}
END_TEST

START_TEST(test_a_vector_of_scattered_ranges_keeps_the_bound)
{
	const size_t half = ADVISE_CALL_BYTES / OS_PAGE_SIZE / 2;

	set_up_way(ADVISE_VECTOR);
	for (unsigned i = 0; i < 5; i++)
		add(i, i * 2 * half, half);
	advise_batch_finish(&batch);
	ck_assert_uint_eq(fake_calls(FAKE_PROCESS_MADVISE), 3);
	ck_assert_uint_eq(fake_records(), 5);
}
END_TEST

START_TEST(test_short_answers_are_continued)
{
	size_t queued;

	set_up_way(ADVISE_VECTOR);
	fake_short_vector((size_t)_i * OS_PAGE_SIZE);
	for (unsigned i = 0; i < 20; i++)
		add(i, 10 * i, 1 + i % 7);
	queued = batch.bytes;
	ck_assert_uint_eq(advise_batch_finish(&batch), queued);
	for (unsigned i = 0; i < 20; i++)
		ck_told(i, true);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 0);
	ck_assert_int_eq(advise_way(), ADVISE_VECTOR);
}
END_TEST

static const int refusals[] = {ENOSYS, EPERM, EINVAL, EBADF, EFAULT, EAGAIN};

START_TEST(test_a_refused_vector_call_closes_that_way_and_loses_nothing)
{
	set_up_way(ADVISE_VECTOR);
	fake_refuse_all(FAKE_PROCESS_MADVISE, refusals[_i]);
	for (unsigned i = 0; i < 10; i++)
		add(i, 2 * i, 1);
	ck_assert_uint_eq(advise_batch_finish(&batch), 10 * OS_PAGE_SIZE);
	for (unsigned i = 0; i < 10; i++)
		ck_told(i, true);
	ck_assert_int_eq(advise_way(), ADVISE_LOOP);
	ck_assert_int_ne(caps_state(CAPS_PROCESS_MADVISE), CAP_STATE_LIVE);
	add(10, 0, 1);
	advise_batch_finish(&batch);
	ck_assert_uint_eq(fake_calls(FAKE_PROCESS_MADVISE), 1);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 11);
}
END_TEST

START_TEST(test_a_vector_call_that_fails_midway_is_finished_by_the_loop)
{
	set_up_way(ADVISE_VECTOR);
	fake_short_vector(3 * OS_PAGE_SIZE);
	fake_refuse(FAKE_PROCESS_MADVISE, 2, EPERM);
	for (unsigned i = 0; i < 10; i++)
		add(i, 2 * i, 1);
	ck_assert_uint_eq(advise_batch_finish(&batch), 10 * OS_PAGE_SIZE);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 7);
	ck_assert_int_eq(advise_way(), ADVISE_LOOP);
}
END_TEST

START_TEST(test_locked_memory_fails_alone_and_closes_no_way)
{
	set_up_way(_i);
	fake_lock_range(BASE + 22 * OS_PAGE_SIZE, OS_PAGE_SIZE);
	for (unsigned i = 0; i < 10; i++)
		add(i, 4 * i, i < 4 ? 3 : 4); /* 4 to 9 touch each other */
	ck_assert_uint_eq(advise_batch_finish(&batch), (4 * 3 + 5 * 4) * OS_PAGE_SIZE);
	for (unsigned i = 0; i < 10; i++)
		ck_told(i, i != 5);
	ck_assert_int_eq(advise_way(), _i);
	ck_assert_uint_eq(advise_counts().failed_bytes, 4 * OS_PAGE_SIZE);
	ck_assert_uint_eq(advise_counts().returned_bytes, 32 * OS_PAGE_SIZE);
}
END_TEST

START_TEST(test_when_all_is_locked_nothing_is_returned_and_no_way_closes)
{
	set_up_way(_i);
	fake_lock_range(BASE, MIB);
	for (unsigned i = 0; i < 10; i++)
		add(i, 2 * i, 1);
	ck_assert_uint_eq(advise_batch_finish(&batch), 0);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 10);
	for (unsigned i = 0; i < 10; i++)
		ck_told(i, false);
	ck_assert_int_eq(advise_way(), _i);
	ck_assert_uint_eq(advise_counts().failed_bytes, 10 * OS_PAGE_SIZE);
}
END_TEST

START_TEST(test_a_range_with_one_refused_part_is_refused)
{
	const size_t most = ADVISE_CALL_BYTES / OS_PAGE_SIZE;

	set_up_way(_i);
	fake_lock_range(BASE + (most + 5) * OS_PAGE_SIZE, OS_PAGE_SIZE);
	add(0, 0, 3 * most);
	add(1, 3 * most, 1);
	ck_assert_uint_eq(advise_batch_finish(&batch), OS_PAGE_SIZE);
	ck_told(0, false);
	ck_told(1, true);
	ck_assert_uint_eq(advise_counts().failed_bytes, 3 * ADVISE_CALL_BYTES);
	ck_assert_uint_eq(advise_counts().returned_bytes, OS_PAGE_SIZE);
}
END_TEST

START_TEST(test_calls_are_counted_as_made)
{
	set_up_way(_i);
	fake_lock_range(BASE, OS_PAGE_SIZE);
	for (unsigned i = 0; i < 10; i++)
		add(i, i, 1);
	advise_batch_finish(&batch);
	ck_assert_uint_eq(advise_counts().calls, fake_calls(FAKE_MADVISE) + fake_calls(call_of(_i)) * (_i != ADVISE_LOOP));
}
END_TEST

START_TEST(test_the_first_flush_asks_what_there_is)
{
	set_up();
	ck_assert_int_eq(advise_way(), ADVISE_LOOP);
	fake_kernel_install(); /* not dry: the probe looks at the effect */
	advise_batch_add(&batch, map_reserve(MIB, MIB), MIB, &told[0], 0);
	advise_batch_finish(&batch);
	ck_told(0, true);
	ck_assert_int_eq(caps_state(CAPS_PROCESS_MADVISE), CAP_STATE_LIVE);
	ck_assert_int_eq(advise_way(), ADVISE_VECTOR);
	ck_assert_uint_eq(fake_calls(FAKE_PROCESS_MADVISE), 2);
}
END_TEST

START_TEST(test_what_caps_found_missing_is_not_called)
{
	set_up();
	fake_refuse_all(FAKE_PROCESS_MADVISE, ENOSYS);
	ck_assert(!caps_has(CAPS_PROCESS_MADVISE));
	fake_forget();
	add(0, 0, 1);
	advise_batch_finish(&batch);
	ck_told(0, true);
	ck_assert_uint_eq(fake_calls(FAKE_PROCESS_MADVISE), 0);
}
END_TEST

START_TEST(test_forcing_the_capability_off_wins_over_a_chosen_way)
{
	set_up_way(ADVISE_VECTOR);
	caps_force_off(CAPS_PROCESS_MADVISE);
	add(0, 0, 1);
	advise_batch_finish(&batch);
	ck_told(0, true);
	ck_assert_int_eq(advise_way(), ADVISE_LOOP);
	ck_assert_uint_eq(fake_calls(FAKE_PROCESS_MADVISE), 0);
}
END_TEST

/* --- the ring --------------------------------------------------------------------------------------------------------------------- */

#define MIB_PAGES (MIB / OS_PAGE_SIZE)

/* The fake has process_madvise also where the kernel does not (before 6.13), so it is the one that is asked. */
static void set_up_auto(bool ring)
{
	fake_kernel_install();
	ask_all();
	set_up();
	if (ring)
		ring_own();
}

/* Ranges FIRST to FIRST + N, of MIB each, with as much between them. */
static void add_large(unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		add(i, 2 * i * MIB_PAGES, MIB_PAGES);
}

static void add_small(unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		add(i, 1000 * MIB_PAGES + 2 * i, 1);
}

START_TEST(test_requests_are_cut_to_2_mib)
{
	const size_t most = 2 * MIB_PAGES;

	set_up_way(ADVISE_URING);
	add(0, 0, 2 * most - 1);
	add(1, 2 * most - 1, 51);
	add(2, 2 * most + 50, 1);
	ck_assert_uint_eq(advise_batch_finish(&batch), (2 * most + 51) * OS_PAGE_SIZE);
	ck_record(ADVISE_URING, 0, 0, most);
	ck_record(ADVISE_URING, 1, most, most);
	ck_record(ADVISE_URING, 2, 2 * most, 51);
	for (unsigned i = 0; i < 3; i++)
		ck_told(i, true);
	ck_assert_uint_eq(fake_calls(FAKE_RING_SUBMIT), 1);
}
END_TEST

START_TEST(test_large_runs_go_to_the_ring_first_and_small_ones_by_vector_meanwhile)
{
	set_up_auto(true);
	add_small(100, 50);
	add_large(0, 16);
	ck_assert_uint_eq(advise_batch_flush(&batch), 50 * OS_PAGE_SIZE);
	ck_assert_uint_eq(told_n, 50);
	ck_assert_uint_eq(batch.n, 0);
	ck_assert_uint_eq(ring_in_flight(), 16);
	ck_assert_int_eq(fake_record(0)->call, FAKE_RING_SUBMIT);
	ck_assert_uint_eq(fake_calls(FAKE_RING_SUBMIT), 1);
	ck_assert_uint_eq(fake_calls(FAKE_PROCESS_MADVISE), 1);
	ck_assert_uint_eq(fake_bytes(FAKE_RING_SUBMIT), 16 * MIB);
	ck_assert_uint_eq(advise_finish(), 16 * MIB);
	for (unsigned i = 0; i < 16; i++)
		ck_told(i, true);
	ck_assert_uint_eq(ring_in_flight(), 0);
	ck_assert_int_eq(advise_way(), ADVISE_URING);
	ck_assert_uint_eq(advise_counts().ring_batches, 1);
	ck_assert_uint_eq(advise_counts().ring_bytes, 16 * MIB);
	ck_assert_uint_eq(advise_counts().vector_bytes, 50 * OS_PAGE_SIZE);
}
END_TEST

/* 1 MiB is too little; and 8 MiB in runs of a quarter. */
START_TEST(test_little_does_not_go_to_the_ring)
{
	set_up_auto(true);
	add_large(0, 1);
	advise_batch_finish(&batch);
	for (unsigned i = 100; i < 132; i++)
		add(i, 2 * i * MIB_PAGES, MIB_PAGES / 4);
	advise_batch_finish(&batch);
	ck_assert_uint_eq(told_n, 33);
	ck_assert_uint_eq(fake_calls(FAKE_RING_OPEN), 0);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 0);
}
END_TEST

START_TEST(test_ranges_that_touch_are_one_large_run)
{
	set_up_auto(true);
	for (unsigned i = 0; i < 400; i++)
		add(i, i * 16, 16);
	advise_batch_finish(&batch);
	ck_assert_uint_eq(fake_bytes(FAKE_RING_SUBMIT), 25 * MIB);
	for (unsigned i = 0; i < 400; i++)
		ck_told(i, true);
}
END_TEST

START_TEST(test_only_its_owner_uses_the_ring)
{
	set_up_auto(false);
	add_large(0, 16);
	ck_assert_uint_eq(advise_batch_flush(&batch), 16 * MIB);
	advise_set_way(ADVISE_URING);
	add_large(16, 16);
	ck_assert_uint_eq(advise_batch_flush(&batch), 16 * MIB);
	ck_assert_uint_eq(fake_calls(FAKE_RING_OPEN), 0);
	ck_assert_uint_gt(fake_calls(FAKE_PROCESS_MADVISE), 0);
}
END_TEST

START_TEST(test_other_ways_are_forced_past_the_ring)
{
	set_up_auto(true);
	advise_set_way((enum advise_way)_i);
	add_large(0, 16);
	ck_assert_uint_eq(advise_batch_flush(&batch), 16 * MIB);
	ck_assert_uint_eq(fake_calls(FAKE_RING_OPEN), 0);
	ck_assert_uint_gt(fake_calls(call_of(_i)), 0);
	ck_assert_int_eq(advise_way(), _i);
}
END_TEST

static unsigned others_told;

static void tell_other(const struct advise_range *range, bool ok)
{
	unit_holds(ok && range->bits == 7);
	others_told++;
}

START_TEST(test_a_batch_is_filled_again_while_its_ranges_are_in_flight)
{
	static struct advise_batch other;

	set_up_way(ADVISE_URING);
	advise_batch_init(&other, tell_other);
	add_large(0, 20);
	advise_batch_flush(&batch);
	advise_batch_add(&other, BASE + 500 * MIB, MIB, &told[7], 7);
	advise_batch_flush(&other);
	add_large(20, 20);
	advise_batch_flush(&batch);
	ck_assert_uint_eq(told_n + others_told, 0);
	ck_assert_uint_eq(ring_in_flight(), 41);
	ck_assert_uint_eq(advise_finish(), 41 * MIB);
	for (unsigned i = 0; i < 40; i++)
		ck_told(i, true);
	ck_assert_uint_eq(others_told, 1);
}
END_TEST

/* More than the ring has entries, more ranges than have seats, answers in any order, short submits. */
START_TEST(test_more_than_there_is_room_for)
{
	set_up_way(ADVISE_URING);
	fake_ring_reverse(_i & 1);
	fake_ring_short((size_t)(_i & 2 ? 7 : 0));
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 500; i++)
			add(round * 500 + i, 2 * (round * 500 + i), 1);
		advise_batch_flush(&batch);
	}
	advise_finish();
	for (unsigned i = 0; i < 1500; i++)
		ck_told(i, true);
	ck_assert_uint_eq(advise_counts().returned_bytes, 1500 * OS_PAGE_SIZE);
	ck_assert_uint_eq(ring_in_flight(), 0);
}
END_TEST

START_TEST(test_what_the_ring_could_not_do_the_loop_does)
{
	set_up_way(ADVISE_URING);
	fake_ring_fail((unsigned)_i, ECANCELED);
	add_large(0, 30);
	ck_assert_uint_eq(advise_batch_finish(&batch), 30 * MIB);
	for (unsigned i = 0; i < 30; i++)
		ck_told(i, true);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 30u / (unsigned)_i);
	ck_assert_uint_eq(advise_counts().ring_bytes, (30 - 30 / (size_t)_i) * MIB);
	ck_assert_uint_eq(advise_counts().returned_bytes, 30 * MIB);
}
END_TEST

START_TEST(test_a_ring_without_workers_is_left_alone_for_a_while)
{
	set_up_way(ADVISE_URING);
	fake_ring_fail(1, ECANCELED);
	add_large(0, 2);
	advise_batch_finish(&batch);
	fake_forget();
	add_large(2, 2);
	advise_batch_finish(&batch);
	ck_assert_uint_eq(fake_calls(FAKE_RING_SUBMIT), 0);
	fake_ring_fail(0, 0);
	fake_clock_add(RING_REST_NS);
	add_large(4, 2);
	advise_batch_finish(&batch);
	ck_assert_uint_eq(fake_calls(FAKE_RING_SUBMIT), 1);
	for (unsigned i = 0; i < 6; i++)
		ck_told(i, true);
}
END_TEST

START_TEST(test_a_refused_hand_over_is_done_by_the_loop)
{
	set_up_way(ADVISE_URING);
	fake_refuse_all(FAKE_RING_SUBMIT, _i ? EPERM : EAGAIN);
	add_large(0, 30);
	ck_assert_uint_eq(advise_batch_finish(&batch), 30 * MIB);
	for (unsigned i = 0; i < 30; i++)
		ck_told(i, true);
	ck_assert_int_eq(advise_way() == ADVISE_URING, _i == 0);
	ck_assert_uint_eq(advise_counts().ring_bytes, 0);
}
END_TEST

START_TEST(test_a_ring_that_cannot_be_opened_is_no_loss_and_is_seen)
{
	set_up_way(ADVISE_URING);
	fake_refuse_all(FAKE_RING_OPEN, EPERM);
	ck_assert_int_eq(advise_way(), ADVISE_URING);
	for (unsigned round = 0; round < 2; round++) {
		add_large(round * 20, 20);
		ck_assert_uint_eq(advise_batch_flush(&batch), 20 * MIB);
	}
	ck_assert_uint_eq(fake_calls(FAKE_RING_OPEN), 1);
	ck_assert_int_ne(advise_way(), ADVISE_URING);
}
END_TEST

START_TEST(test_a_capability_switched_off_later_ends_the_use_of_the_ring)
{
	set_up_way(ADVISE_URING);
	add_large(0, 2);
	advise_batch_finish(&batch);
	caps_force_off(CAPS_URING);
	fake_forget();
	add_large(2, 2);
	ck_assert_uint_eq(advise_batch_flush(&batch), 2 * MIB);
	ck_assert_uint_eq(fake_calls(FAKE_RING_SUBMIT), 0);
	ck_assert_int_ne(advise_way(), ADVISE_URING);
}
END_TEST

/* --- kernels that lie -------------------------------------------------------------------------------------------------------------- */

static struct kernel fake;

static int say_yes(void *addr, size_t len, int advice)
{
	(void)addr, (void)len, (void)advice;
	return 0;
}

START_TEST(test_a_kernel_that_only_says_yes_is_not_asked_and_nothing_is_away)
{
	fake_kernel_install();
	fake = kernel;
	kernel.madvise = say_yes;
	ck_assert(!caps_has(CAPS_DONTNEED));
	kernel = fake;
	advise_batch_init(&batch, tell);
	if (_i != 0)
		advise_set_way((enum advise_way)(_i - 1));
	add(0, 0, 1);
	add(1, 2, 1);
	fake_forget();
	ck_assert_uint_eq(advise_batch_finish(&batch), 0);
	ck_told(0, false);
	ck_told(1, false);
	ck_assert_uint_eq(fake_records(), 0);
	ck_assert_uint_eq(advise_counts().failed_bytes, 2 * OS_PAGE_SIZE);
	ck_assert_uint_eq(batch.n, 0);
}
END_TEST

/* --- on real memory ----------------------------------------------------------------------------------------------------------------- */

#define FIELD_PAGES 512

/* Writes the number of its range + 1 on each OS page of the field. */
static void write_field(char *field, const unsigned *range_of)
{
	for (size_t page = 0; page < FIELD_PAGES; page++)
		*(unsigned *)(field + page * OS_PAGE_SIZE) = range_of[page] + 1;
}

static void ck_field(const char *field, const unsigned *range_of)
{
	for (size_t page = 0; page < FIELD_PAGES; page++) {
		unsigned number = range_of[page], seen = *(const unsigned *)(field + page * OS_PAGE_SIZE);

		if (number == 0)
			unit_holds(seen == 1);
		else if (told[number].ok)
			unit_holds(seen == 0);
	}
}

/* Cuts the field into ranges 1, 2, ... with gaps (0) between some; a few ranges hold a locked page. */
START_TEST(test_random_fields_end_as_told)
{
	static unsigned range_of[FIELD_PAGES];
	static bool locked[FIELD_PAGES];
	const int way = _i % ways;
	struct random random = {.state = (uint64_t)_i / 3};
	char *field = map_reserve(FIELD_PAGES * OS_PAGE_SIZE, OS_PAGE_SIZE);
	unsigned ranges = 0;

	set_up_way(way);
	fake_kernel_install(); /* not dry */
	fake_short_vector((_i / 3) % 3 * 64 * KIB);
	fake_ring_short((_i / 3) % 3 * 10);
	fake_ring_reverse((_i / 3) % 2);
	fake_ring_fail((_i / 3) % 4, ECANCELED);
	ck_assert(map_commit(field, FIELD_PAGES * OS_PAGE_SIZE));
	for (size_t page = 0, len; page < FIELD_PAGES; page += len) {
		bool gap = random_below(&random, 3) == 0;

		len = min_size(1 + random_below(&random, 12), FIELD_PAGES - page);
		ranges += !gap;
		for (size_t i = page; i < page + len; i++)
			range_of[i] = gap ? 0 : ranges;
	}
	for (int i = 0; i < 8; i++) {
		size_t page = random_below(&random, FIELD_PAGES);

		locked[page] = true;
		fake_lock_range(field + page * OS_PAGE_SIZE, OS_PAGE_SIZE);
	}
	write_field(field, range_of);
	for (size_t page = 0, len; page < FIELD_PAGES; page += len) {
		for (len = 1; page + len < FIELD_PAGES && range_of[page + len] == range_of[page];)
			len++;
		if (range_of[page])
			advise_batch_add(&batch, field + page * OS_PAGE_SIZE, len * OS_PAGE_SIZE, &told[range_of[page]], range_of[page]);
	}
	advise_batch_finish(&batch);
	for (size_t page = 0; page < FIELD_PAGES; page++)
		if (locked[page] && range_of[page])
			ck_told(range_of[page], false);
	ck_assert_uint_eq(told_n, ranges);
	ck_field(field, range_of);
	ck_assert_int_eq(advise_way(), way);
}
END_TEST

static void add_all_ways(TCase *tcase, const TTest *test)
{
	tcase_add_loop_test(tcase, test, ADVISE_LOOP, ways);
}

/* In a child, so that the tests find everything unasked. */
static bool kernel_has_ring(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(!caps_has(CAPS_URING_MADVISE));
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void add_ring_tests(TCase *ring)
{
	tcase_add_test(ring, test_requests_are_cut_to_2_mib);
	tcase_add_test(ring, test_large_runs_go_to_the_ring_first_and_small_ones_by_vector_meanwhile);
	tcase_add_test(ring, test_little_does_not_go_to_the_ring);
	tcase_add_test(ring, test_ranges_that_touch_are_one_large_run);
	tcase_add_test(ring, test_only_its_owner_uses_the_ring);
	tcase_add_loop_test(ring, test_other_ways_are_forced_past_the_ring, ADVISE_LOOP, ADVISE_URING);
	tcase_add_test(ring, test_a_batch_is_filled_again_while_its_ranges_are_in_flight);
	tcase_add_loop_test(ring, test_more_than_there_is_room_for, 0, 4);
	tcase_add_loop_test(ring, test_what_the_ring_could_not_do_the_loop_does, 1, 4);
	tcase_add_test(ring, test_a_ring_without_workers_is_left_alone_for_a_while);
	tcase_add_loop_test(ring, test_a_refused_hand_over_is_done_by_the_loop, 0, 2);
	tcase_add_test(ring, test_a_ring_that_cannot_be_opened_is_no_loss_and_is_seen);
	tcase_add_test(ring, test_a_capability_switched_off_later_ends_the_use_of_the_ring);
}

int main(void)
{
	Suite *suite = unit_suite("advise");
	TCase *queue = tcase_create("queue"), *refused = tcase_create("refused"), *way = tcase_create("way"), *real = tcase_create("real");
	TCase *ring = tcase_create("ring"), *lies = tcase_create("lies");

	ways = kernel_has_ring() ? ADVISE_URING + 1 : ADVISE_URING;
	if (ways > ADVISE_URING)
		add_ring_tests(ring);

	tcase_add_test(queue, test_an_empty_flush_does_nothing);
	tcase_add_test(queue, test_adding_does_not_enter_the_kernel);
	add_all_ways(queue, test_a_full_batch_is_flushed_by_the_next_add);
	add_all_ways(queue, test_touching_ranges_are_merged_and_larger_runs_come_first);
	tcase_add_loop_test(queue, test_any_order_comes_out_sorted, 0, 10);
	tcase_add_loop_test(queue, test_no_call_covers_more_than_the_bound, ADVISE_LOOP, ADVISE_URING);
	tcase_add_test(queue, test_a_vector_of_scattered_ranges_keeps_the_bound);
	tcase_add_loop_test(queue, test_short_answers_are_continued, 1, 12);
	tcase_add_loop_test(refused, test_a_refused_vector_call_closes_that_way_and_loses_nothing, 0, array_len(refusals));
	tcase_add_test(refused, test_a_vector_call_that_fails_midway_is_finished_by_the_loop);
	add_all_ways(refused, test_locked_memory_fails_alone_and_closes_no_way);
	add_all_ways(refused, test_when_all_is_locked_nothing_is_returned_and_no_way_closes);
	add_all_ways(refused, test_a_range_with_one_refused_part_is_refused);
	add_all_ways(refused, test_calls_are_counted_as_made);
	tcase_add_test(way, test_the_first_flush_asks_what_there_is);
	tcase_add_test(way, test_what_caps_found_missing_is_not_called);
	tcase_add_test(way, test_forcing_the_capability_off_wins_over_a_chosen_way);
	tcase_add_loop_test(lies, test_a_kernel_that_only_says_yes_is_not_asked_and_nothing_is_away, 0, ways + 1);
	tcase_add_loop_test(real, test_random_fields_end_as_told, 0, 36);
	suite_add_tcase(suite, queue);
	suite_add_tcase(suite, refused);
	suite_add_tcase(suite, way);
	suite_add_tcase(suite, ring);
	suite_add_tcase(suite, lies);
	suite_add_tcase(suite, real);
	return unit_run(suite);
}
