/* SPDX-License-Identifier: MIT */
/*
 * Suite reclaim: which memory is old enough at which tick; the clock is moved by hand. Numbers told to the caller are what the kernel
 * accepted. A kernel that refuses everything is asked ever more rarely.
 */
#include "reclaim/reclaim.h"

#include "heap/heap.h"
#include "kernel/advise.h"
#include "reclaim/internal.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/region/memory.h"

#include <errno.h>
#include <sys/wait.h>

#define BIG (48 * KIB)

static struct reclaim_left left;

static void begin(void)
{
	memory_without_huge_pages();
	fake_kernel_install();
	fake_clock_set(UINT64_C(1000) * RECLAIM_TICK_NS);
	advise_set_way(ADVISE_LOOP);
}

/* A tick of the scavenger. */
static size_t tick(void)
{
	left = (struct reclaim_left){0};
	fake_clock_add(RECLAIM_TICK_NS);
	return reclaim_pass(&left);
}

static void use_big(void)
{
	char *p = alloc(BIG);

	memset(p, 1, BIG);
	heap_free_slow(p);
}

/* A page with one live block and a hole of fifteen OS pages. */
static char *make_hole(void)
{
	static char *p[16];

	for (int i = 0; i < 16; i++)
		memset(p[i] = alloc(OS_PAGE_SIZE), 1, OS_PAGE_SIZE);
	for (int i = 1; i < 16; i++)
		heap_free_slow(p[i]);
	return p[0];
}

#define HOLE (15 * OS_PAGE_SIZE)

/* --- what is old ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_a_big_page_goes_when_two_ticks_saw_no_allocation)
{
	begin();
	tick();
	use_big();
	ck_assert_uint_eq(tick(), 0);
	ck_assert(left.more);
	ck_assert_uint_eq(tick(), BIG);
	ck_assert(!left.more);
	ck_assert_uint_eq(tick(), 0);
}
END_TEST

START_TEST(test_a_big_page_in_use_again_and_again_stays)
{
	begin();
	for (int i = 0; i < 20; i++) {
		use_big();
		ck_assert_uint_eq(tick(), 0);
		ck_assert(left.more);
	}
	ck_assert_uint_eq(page_away_bytes, 0);
	ck_assert_uint_eq(tick(), BIG);
}
END_TEST

START_TEST(test_passes_within_a_tick_age_nothing)
{
	begin();
	tick();
	use_big();
	uint32_t epoch = heap_epoch;
	for (int i = 0; i < 10; i++) {
		fake_clock_add(RECLAIM_TICK_NS / 20);
		left = (struct reclaim_left){0};
		ck_assert_uint_eq(reclaim_pass(&left), 0);
		ck_assert(left.more);
	}
	ck_assert_uint_eq(heap_epoch, epoch);
	tick();
	ck_assert_uint_eq(heap_epoch, epoch + 1);
}
END_TEST

START_TEST(test_free_slices_go_at_the_second_pass)
{
	begin();
	char *p = alloc(5 * MIB);
	memset(p, 1, 5 * MIB);
	heap_free_slow(p);
	ck_assert_uint_eq(tick(), 0);
	ck_assert(left.more);
	ck_assert_uint_eq(tick(), 5 * MIB);
	ck_assert(!left.more);
	ck_assert_uint_eq(memory_resident(p, 5 * MIB), 0);
}
END_TEST

START_TEST(test_a_running_heap_is_left_to_its_thread)
{
	begin();
	make_hole();
	for (int i = 0; i < 5; i++) {
		ck_assert_uint_eq(tick(), 0);
		ck_assert(!left.more && !left.new_park);
	}
}
END_TEST

START_TEST(test_a_park_is_swept_when_it_lasts_from_pass_to_pass)
{
	begin();
	make_hole();
	for (int i = 0; i < 3; i++) { /* a new park each time */
		heap_park();
		ck_assert_uint_eq(tick(), 0);
		ck_assert(left.new_park);
		heap_unpark();
	}
	heap_park();
	ck_assert_uint_eq(tick(), 0);
	ck_assert(left.new_park);
	ck_assert_uint_eq(tick(), HOLE);
	ck_assert(!left.new_park);
	ck_assert_uint_eq(tick(), 0);
	ck_assert(!left.new_park);
	heap_unpark();
	heap_check(heap_tls);
}
END_TEST

static char *kept;

static void *leave_hole(void *unused)
{
	kept = make_hole();
	heap_thread_end();
	return unused;
}

START_TEST(test_an_ended_threads_heap_is_swept_by_the_second_pass)
{
	begin();
	thread_run(leave_hole, NULL);
	size_t bytes = tick();
	bytes += tick();
	ck_assert_uint_eq(bytes, HOLE);
	ck_assert_int_eq(kept[100], 1);
	/* and what is freed into it later */
	alloc(16);
	heap_park();
	heap_free_slow(kept);
	bytes = tick() + tick() + tick();
	ck_assert_uint_ge(bytes, OS_PAGE_SIZE);
}
END_TEST

/* --- at once -------------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_force_takes_everything_at_once)
{
	begin();
	make_hole();
	use_big();
	char *p = alloc(2 * MIB);
	memset(p, 1, 2 * MIB);
	heap_free_slow(p);
	uint64_t before = advise_counts().returned_bytes;
	ck_assert_uint_eq(reclaim_collect(false), 0);
	size_t bytes = reclaim_collect(true);
	/* the medium page is wholly free: its slices go, with the block's bytes in them */
	ck_assert_uint_ge(bytes, HOLE + BIG + 2 * MIB);
	ck_assert_uint_eq(bytes, advise_counts().returned_bytes - before);
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
	ck_assert_uint_eq(reclaim_collect(true), 0);
}
END_TEST

START_TEST(test_a_threads_own_sweep_takes_its_own_and_free_slices)
{
	begin();
	ck_assert_uint_eq(reclaim_thread(), 0);
	thread_run(leave_hole, NULL);
	char *p = alloc(64);
	struct heap *mine = heap_tls;
	make_hole();
	use_big();
	size_t bytes = reclaim_thread();
	ck_assert_uint_ge(bytes, HOLE + BIG);
	ck_assert_uint_eq(reclaim_thread(), 0);
	heap_park();
	ck_assert_uint_eq(reclaim_thread(), 0);
	ck_assert_uint_eq(state_of(mine), HEAP_PARKED);
	heap_unpark();
	heap_free_slow(p);
}
END_TEST

static atomic_int step;

static void *park_and_stay(void *unused)
{
	make_hole();
	heap_park();
	step_reach(&step, 1);
	step_await(&step, 2);
	return unused;
}

START_TEST(test_force_sweeps_a_new_park_too)
{
	begin();
	pthread_t thread = thread_start(park_and_stay, NULL);
	step_await(&step, 1);
	ck_assert_uint_eq(reclaim_collect(false), 0);
	ck_assert_uint_eq(reclaim_collect(true), HOLE);
	step_reach(&step, 2);
	pthread_join(thread, NULL);
}
END_TEST

/* --- refusals ------------------------------------------------------------------------------------------------------------------------- */

/* 9 refusals in a row, each followed by twice the wait; 14: and from the tenth on by the longest one, for as long as it lasts. */
static void ck_waits(int refusals)
{
	uint64_t wait = 2 * RECLAIM_TICK_NS;

	begin();
	char *p = alloc(MIB);
	memset(p, 1, MIB);
	heap_free_slow(p);
	fake_refuse_all(FAKE_MADVISE, EINVAL);
	tick();
	for (int i = 0; i < refusals; i++) {
		unsigned calls = fake_calls(FAKE_MADVISE);
		ck_assert_uint_eq(tick(), 0);
		ck_assert(left.more);
		ck_assert_uint_gt(fake_calls(FAKE_MADVISE), calls);
		ck_assert_uint_eq(left.wait_ns, 0);
		/* not asked until the wait is over */
		calls = fake_calls(FAKE_MADVISE);
		left = (struct reclaim_left){0};
		fake_clock_add(wait - RECLAIM_TICK_NS);
		ck_assert_uint_eq(reclaim_pass(&left), 0);
		ck_assert(left.more);
		ck_assert_uint_eq(left.wait_ns, RECLAIM_TICK_NS);
		ck_assert_uint_eq(fake_calls(FAKE_MADVISE), calls);
		if (i < 9)
			wait *= 2;
	}
	ck_assert_uint_le(wait, UINT64_C(60) * 1000 * 1000 * 1000);
	/* once it takes something all is as before */
	fake_refuse_all(FAKE_MADVISE, 0);
	ck_assert_uint_eq(tick(), MIB);
	ck_assert_uint_eq(tick(), 0);
	ck_assert_uint_eq(left.wait_ns, 0);
}

START_TEST(test_refusals_are_followed_by_ever_longer_waits)
{
	ck_waits(9);
}
END_TEST

START_TEST(test_the_longest_wait_follows_each_further_refusal)
{
	ck_waits(14);
}
END_TEST

START_TEST(test_force_asks_in_spite_of_refusals)
{
	begin();
	char *p = alloc(MIB);
	memset(p, 1, MIB);
	heap_free_slow(p);
	fake_refuse_all(FAKE_MADVISE, EINVAL);
	tick();
	tick();
	ck_assert_uint_eq(reclaim_collect(true), 0);
	fake_refuse_all(FAKE_MADVISE, 0);
	ck_assert_uint_eq(reclaim_collect(false), 0);
	ck_assert_uint_eq(reclaim_collect(true), MIB);
}
END_TEST

/* What is refused beside something that is accepted delays nothing. */
START_TEST(test_one_refusal_among_others_is_no_reason_to_wait)
{
	begin();
	char *p = alloc(MIB), *between = alloc(MIB);
	memset(p, 1, MIB);
	fake_lock_range(p, MIB);
	heap_free_slow(p);
	tick();
	for (int i = 0; i < 5; i++) {
		char *q = alloc(2 * MIB);
		memset(q, 1, 2 * MIB);
		heap_free_slow(q);
		ck_assert_uint_eq(reclaim_collect(true), 2 * MIB);
		ck_assert_uint_eq(tick(), 0); /* alone again: refused, and from here on there is a wait */
		ck_assert(left.more);
		left = (struct reclaim_left){0};
		reclaim_pass(&left);
		ck_assert_uint_eq(left.wait_ns, 2 * RECLAIM_TICK_NS); /* the first of its row */
	}
	heap_free_slow(between);
}
END_TEST

/* --- the rest ------------------------------------------------------------------------------------------------------------------------- */

static unsigned ticks;

static void count_tick(void)
{
	ticks++;
}

START_TEST(test_the_tick_function_is_called_by_each_pass)
{
	begin();
	reclaim_on_tick = count_tick;
	tick();
	tick();
	ck_assert_uint_eq(ticks, 2);
	reclaim_collect(true);
	ck_assert_uint_eq(ticks, 2);
}
END_TEST

START_TEST(test_sweeps_and_pages_are_counted)
{
	begin();
	make_hole();
	struct reclaim_counts before = reclaim_counts();
	reclaim_thread();
	ck_assert_uint_eq(reclaim_counts().sweeps, before.sweeps + 1);
	ck_assert_uint_eq(reclaim_counts().swept_pages, before.swept_pages + 1);
}
END_TEST

START_TEST(test_parent_and_child_go_on_after_a_fork)
{
	int status;

	begin();
	make_hole();
	heap_park();
	reclaim_fork_prepare();
	ck_assert_ptr_ne(heap_tls, &heap_empty);
	pid_t pid = fork();
	reclaim_fork_done(pid == 0);
	if (pid == 0)
		_exit(reclaim_collect(true) != HOLE);
	ck_assert_uint_eq(reclaim_collect(true), HOLE);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("reclaim");
	TCase *old = tcase_create("what is old"), *now = tcase_create("at once"), *refused = tcase_create("refusals");
	TCase *rest = tcase_create("rest");

	tcase_add_test(old, test_a_big_page_goes_when_two_ticks_saw_no_allocation);
	tcase_add_test(old, test_a_big_page_in_use_again_and_again_stays);
	tcase_add_test(old, test_passes_within_a_tick_age_nothing);
	tcase_add_test(old, test_free_slices_go_at_the_second_pass);
	tcase_add_test(old, test_a_running_heap_is_left_to_its_thread);
	tcase_add_test(old, test_a_park_is_swept_when_it_lasts_from_pass_to_pass);
	tcase_add_test(old, test_an_ended_threads_heap_is_swept_by_the_second_pass);
	tcase_add_test(now, test_force_takes_everything_at_once);
	tcase_add_test(now, test_a_threads_own_sweep_takes_its_own_and_free_slices);
	tcase_add_test(now, test_force_sweeps_a_new_park_too);
	tcase_add_test(refused, test_refusals_are_followed_by_ever_longer_waits);
	tcase_add_test(refused, test_the_longest_wait_follows_each_further_refusal);
	tcase_add_test(refused, test_force_asks_in_spite_of_refusals);
	tcase_add_test(refused, test_one_refusal_among_others_is_no_reason_to_wait);
	tcase_add_test(rest, test_the_tick_function_is_called_by_each_pass);
	tcase_add_test(rest, test_sweeps_and_pages_are_counted);
	tcase_add_test(rest, test_parent_and_child_go_on_after_a_fork);
	suite_add_tcase(suite, old);
	suite_add_tcase(suite, now);
	suite_add_tcase(suite, refused);
	suite_add_tcase(suite, rest);
	return unit_run(suite);
}
