/* SPDX-License-Identifier: MIT */
/*
 * Suite reclaim: which memory is old enough at which tick; the clock is moved by hand. Numbers told to the caller are what the kernel
 * accepted. A kernel that refuses everything is asked ever more rarely.
 */
#include "reclaim/reclaim.h"

#include "heap/heap.h"
#include "kernel/advise.h"
#include "kernel/kernel.h"
#include "page/reuse.h"
#include "reclaim/handoff.h"
#include "reclaim/internal.h"
#include "reclaim/sweep.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/reclaim/other_thread.h"
#include "unit/region/memory.h"

#include <errno.h>
#include <lull/idle.h>
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

/* --- what is old ------------------------------------------------------------------------------------------------------------------- */

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
	uint32_t epoch = heap_epoch(heap_tls);
	for (int i = 0; i < 10; i++) {
		fake_clock_add(RECLAIM_TICK_NS / 20);
		left = (struct reclaim_left){0};
		ck_assert_uint_eq(reclaim_pass(&left), 0);
		ck_assert(left.more);
	}
	ck_assert_uint_eq(heap_epoch(heap_tls), epoch);
	tick();
	ck_assert_uint_eq(heap_epoch(heap_tls), epoch + 1);
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

static void *free_it(void *block)
{
	heap_free_slow(block);
	return NULL;
}

/* Its thread sleeps and cannot fold them in; the pass does. */
START_TEST(test_what_others_free_into_a_parked_heap_goes_with_the_next_passes)
{
	begin();
	char *small = make_hole(), *large = alloc(300 * KIB);
	memset(large, 1, 300 * KIB);
	heap_park();
	ck_assert_uint_eq(tick() + tick(), HOLE);
	tick();
	thread_run(free_it, small);
	thread_run(free_it, large);
	size_t bytes = 0;
	for (int i = 0; i < 4; i++)
		bytes += tick();
	ck_assert_uint_ge(bytes, 300 * KIB);
	ck_assert_uint_eq(memory_resident(small, OS_PAGE_SIZE), 0);
	ck_assert_uint_eq(memory_resident((char *)align_up((uintptr_t)large, OS_PAGE_SIZE), 296 * KIB), 0);
	heap_unpark();
}
END_TEST

static struct kernel fake;
static char *freed_meanwhile;

static int free_meanwhile(void *addr, size_t len, int advice)
{
	if (freed_meanwhile != NULL)
		heap_free_slow(freed_meanwhile);
	freed_meanwhile = NULL;
	return fake.madvise(addr, len, advice);
}

START_TEST(test_what_is_freed_during_a_pass_goes_with_the_next_ones)
{
	begin();
	char *p = alloc(MIB), *between = alloc(MIB);
	freed_meanwhile = alloc(MIB);
	memset(p, 1, MIB);
	memset(freed_meanwhile, 1, MIB);
	heap_free_slow(p);
	tick();
	fake = kernel;
	kernel.madvise = free_meanwhile;
	ck_assert_uint_eq(tick(), MIB);
	ck_assert_ptr_null(freed_meanwhile);
	ck_assert(left.more); /* so the scavenger comes again */
	ck_assert_uint_eq(tick() + tick(), MIB);
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
	heap_free_slow(between);
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

/* --- at once ----------------------------------------------------------------------------------------------------------------------- */

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

/* Its small pages at once; its large ones when they are old; nothing of others. */
START_TEST(test_a_threads_own_sweep_takes_its_own)
{
	begin();
	ck_assert_uint_eq(reclaim_thread(), 0);
	thread_run(leave_hole, NULL);
	char *p = alloc(64);
	struct heap *mine = heap_tls;
	make_hole();
	use_big();
	reclaim_thread();
	ck_assert_uint_ge(page_away_bytes, HOLE - OS_PAGE_SIZE);
	ck_assert(reclaim_pending() && reclaim_pending_own());
	fake_clock_add(RECLAIM_TICK_NS);
	reclaim_thread();
	ck_assert(reclaim_pending_own());
	fake_clock_add(RECLAIM_TICK_NS);
	ck_assert_uint_ge(reclaim_thread(), BIG);
	ck_assert(!reclaim_pending() && !reclaim_pending_own());
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

START_TEST(test_force_by_a_parked_thread_sweeps_its_heap_too)
{
	begin();
	struct heap *mine = (make_hole(), heap_tls);
	heap_park();
	ck_assert_uint_eq(reclaim_collect(true), HOLE);
	ck_assert_uint_eq(state_of(mine), HEAP_PARKED);
	heap_unpark();
	heap_check(mine);
}
END_TEST

static atomic_int working;

/* The first call of the kernel takes long. */
static int work_slowly(void *addr, size_t len, int advice)
{
	if (atomic_fetch_add(&working, 1) == 0)
		for (int i = 0; i < 2000; i++)
			sched_yield();
	return fake.madvise(addr, len, advice);
}

static void *make_a_pass(void *unused)
{
	tick();
	return unused;
}

/* Freed while a pass is in progress that does not look there any more: gone all the same when a forced collect returns. */
START_TEST(test_force_waits_for_a_pass_in_progress_and_takes_what_that_left)
{
	begin();
	char *p = alloc(MIB), *between = alloc(MIB), *q = alloc(MIB);
	memset(p, 1, MIB);
	memset(q, 1, MIB);
	heap_free_slow(p);
	tick();
	fake = kernel;
	kernel.madvise = work_slowly;
	pthread_t thread = thread_start(make_a_pass, NULL);
	step_await(&working, 1);
	heap_free_slow(q);
	reclaim_collect(true);
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
	ck_assert_uint_eq(memory_resident(p, MIB) + memory_resident(q, MIB), 0);
	pthread_join(thread, NULL);
	heap_free_slow(between);
}
END_TEST

/* --- heaps and their clocks -------------------------------------------------------------------------------------------------------- */

static struct other other;

static void do_use_big(void *unused)
{
	(void)unused;
	use_big();
}

static void do_sweep_a_tick_later(void *unused)
{
	(void)unused;
	fake_clock_add(RECLAIM_TICK_NS);
	reclaim_thread();
}

START_TEST(test_the_sweeps_of_another_heap_do_not_age_mine)
{
	begin();
	other_start(&other);
	tick();
	use_big();
	uint32_t epoch = heap_epoch(heap_tls);
	for (int i = 0; i < 20; i++) {
		other_do(&other, do_use_big, NULL);
		other_do(&other, do_sweep_a_tick_later, NULL);
	}
	ck_assert_uint_eq(heap_epoch(heap_tls), epoch);
	ck_assert_uint_eq(page_away_bytes, 0);
	/* the other one's own are its business */
	other_do(&other, do_sweep_a_tick_later, NULL);
	ck_assert_uint_eq(page_away_bytes, BIG);
	ck_assert_uint_eq(tick() + tick(), BIG);
	other_end(&other);
}
END_TEST

/* --- what comes back --------------------------------------------------------------------------------------------------------------- */

#define SINGLE (2 * MIB)
#define TICK_MS (RECLAIM_TICK_NS / 1000000)

static void use_single(void)
{
	char *p = alloc(SINGLE);

	memset(p, 1, SINGLE);
	heap_free_slow(p);
}

START_TEST(test_a_singleton_known_to_come_back_is_kept_for_half_as_long_again)
{
	begin();
	use_single();
	tick();
	ck_assert_uint_eq(tick(), SINGLE);
	use_single(); /* two ticks after: a mistake, to learn from */
	ck_assert_uint_eq(reclaim_counts().ghost_hits, 1);
	ck_assert_uint_eq(reclaim_counts().ghost_bytes, SINGLE);
	unsigned keep = policy_keep_steps(&sweep_policy, 2 * TICK_MS);
	for (unsigned i = 1; i < keep; i++) {
		ck_assert_uint_eq(tick(), 0);
		ck_assert(left.more);
	}
	ck_assert_uint_eq(tick(), SINGLE);
	ck_assert(!left.more);
	/* held in vain: forgotten */
	fake_clock_add(100 * RECLAIM_TICK_NS);
	use_single();
	ck_assert_uint_eq(reclaim_counts().ghost_hits, 1);
	ck_assert_uint_eq(tick(), 0);
	ck_assert_uint_eq(tick(), SINGLE);
}
END_TEST

START_TEST(test_a_singleton_used_every_300_ms_is_returned_once)
{
	begin();
	uint64_t returned = 0;
	for (int round = 0; round < 20; round++) {
		use_single();
		for (int i = 0; i < 6; i++)
			returned += tick();
	}
	ck_assert_uint_eq(returned, SINGLE);
}
END_TEST

static unsigned ticks_until(size_t bytes)
{
	unsigned ticks = 1;

	while (tick() != bytes && ticks < 100)
		ticks++;
	return ticks;
}

START_TEST(test_a_big_page_that_came_back_is_kept_the_next_time)
{
	begin();
	tick();
	use_big();
	ck_assert_uint_eq(ticks_until(BIG), 2);
	tick();
	use_big();
	ck_assert_uint_eq(reclaim_counts().ghost_hits, 1);
	ck_assert_uint_eq(ticks_until(BIG), policy_keep_steps(&sweep_policy, 3 * TICK_MS));
	/* held in vain: the next time it goes at once */
	fake_clock_add(100 * RECLAIM_TICK_NS);
	tick();
	use_big();
	ck_assert_uint_eq(ticks_until(BIG), 2);
}
END_TEST

/* Memory that is in use again, and for long, was not held in vain. */
START_TEST(test_what_is_in_use_again_is_not_forgotten)
{
	begin();
	tick();
	use_big();
	ticks_until(BIG);
	use_big();
	char *p = alloc(BIG);
	uint32_t key = page_reuse_key(page_under(p));
	ck_assert_uint_ne(reuse_ms(key), 0);
	for (int i = 0; i < 40; i++)
		tick();
	ck_assert_uint_ne(reuse_ms(key), 0);
	heap_free_slow(p);
}
END_TEST

/* Two pages' worth once, one page's worth ever since: the page too many goes, and what is known of the other one stays. */
START_TEST(test_a_page_too_many_does_not_teach_that_none_comes_back)
{
	char *p[20];

	begin();
	tick();
	use_big();
	ticks_until(BIG);
	use_big();
	uint32_t key = page_reuse_key(page_under(p[0] = alloc(BIG)));
	for (int i = 1; i < 20; i++)
		memset(p[i] = alloc(BIG), 1, BIG);
	heap_take_remote(heap_tls);
	for (int i = 0; i < 20; i++)
		heap_free_slow(p[i]);
	size_t bytes = 0;
	for (int i = 0; i < 40; i++) {
		char *q = alloc(BIG);
		memset(q, 1, BIG);
		heap_free_slow(q);
		bytes += tick();
	}
	ck_assert_uint_gt(bytes, 0);
	ck_assert_uint_ne(reuse_ms(key), 0);
}
END_TEST

/* 3 MiB, known to come back, of a floor of 4. */
static void use_3_mib(void)
{
	char *p[12];

	for (int i = 0; i < 12; i++)
		memset(p[i] = alloc(256 * KIB), 1, 256 * KIB);
	for (int i = 0; i < 12; i++)
		heap_free_slow(p[i]);
}

START_TEST(test_a_threads_own_sweeps_do_not_use_up_the_floor)
{
	begin();
	use_3_mib();
	ck_assert_uint_eq(tick() + tick() + tick(), 3 * MIB);
	use_3_mib();
	size_t bytes = tick() + tick();
	for (int i = 0; i < 5; i++)
		bytes += reclaim_thread();
	bytes += tick() + tick();
	ck_assert_uint_eq(bytes, 0);
	ck_assert_uint_eq(reclaim_counts().kept_bytes, 3 * MIB);
}
END_TEST

#define BUFFERS 40

static void use_buffers(void)
{
	char *buffer[BUFFERS];

	for (int i = 0; i < BUFFERS; i++)
		memset(buffer[i] = alloc(256 * KIB), 1, 256 * KIB);
	for (int i = 0; i < BUFFERS; i++)
		heap_free_slow(buffer[i]);
}

/* 10 MiB every 300 ms, beside a thread that sweeps itself: more than the floor at first, which learns. When the use ends it all goes. */
/* A page that was returned and retired is missed though its slices serve something else by now. */
START_TEST(test_memory_wanted_again_is_a_ghost_hit_wherever_it_comes_from)
{
	bool clean;
	size_t gone = 0;

	begin();
	tick();
	use_buffers();
	heap_park();
	for (int i = 0; i < 6; i++)
		gone += tick();
	heap_unpark();
	ck_assert_uint_ge(gone, BUFFERS * 256 * KIB);
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
	ck_assert_ptr_nonnull(region_alloc(4 * CHUNK_SLICES, CHUNK_SLICES, &clean));
	use_buffers();
	ck_assert_uint_ge(reclaim_counts().ghost_bytes, 2 * LARGE_SLICES * SLICE_SIZE);
	heap_park();
	for (int i = 0; i < 6; i++)
		ck_assert_uint_eq(tick(), 0);
}
END_TEST

/* Though the other was used last. */
START_TEST(test_what_is_expected_back_sooner_has_the_floor)
{
	begin();
	char *soon = alloc(BIG), *late = alloc(64 * KIB);
	memset(soon, 1, BIG);
	memset(late, 1, 64 * KIB);
	reuse_note(page_reuse_key(page_under(soon)), 200, 0);
	reuse_note(page_reuse_key(page_under(late)), 800, 0);
	sweep_policy.floor_bytes = sweep_policy.floor_min = sweep_policy.floor_max = 64 * KIB;
	heap_free_slow(soon);
	tick();
	char *again = alloc(64 * KIB);
	heap_free_slow(late);
	heap_free_slow(again);
	for (int i = 0; i < 5; i++)
		tick();
	ck_assert_uint_eq(memory_resident(soon, BIG), BIG / OS_PAGE_SIZE);
	ck_assert_uint_eq(memory_resident(late, 64 * KIB), 0);
}
END_TEST

/* Wholly free small pages: what is learned of them is learned of all sizes together. */
START_TEST(test_small_pages_that_came_back_are_kept_the_next_time)
{
	static char *block[512];
	size_t gone = 0;

	begin();
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < array_len(block); i++)
			memset(block[i] = alloc(2000), 1, 2000);
		for (size_t i = 0; i < array_len(block); i++)
			heap_free_slow(block[i]);
		gone = 0;
		for (int i = 0; i < 6; i++)
			gone += tick();
		if (round == 0)
			ck_assert_uint_ge(gone, 10 * SLICE_SIZE);
		if (round == 1)
			ck_assert_uint_ge(reclaim_counts().ghost_bytes, 10 * SLICE_SIZE);
	}
	ck_assert_uint_eq(gone, 0);
	for (int i = 0; i < 20; i++)
		gone += tick();
	ck_assert_uint_ge(gone, 10 * SLICE_SIZE);
}
END_TEST

/* With nobody else to return them. */
START_TEST(test_free_slices_are_pending_for_who_sweeps_itself)
{
	size_t bytes = 0;

	begin();
	char *p = alloc(5 * MIB);
	alloc(16);
	memset(p, 1, 5 * MIB);
	heap_free_slow(p);
	for (int i = 0; i < LULL_IDLE_RELEASES; i++) {
		bytes += reclaim_thread();
		if (!reclaim_pending_own())
			break;
		fake_clock_add(LULL_IDLE_INTERVAL_NS);
	}
	ck_assert_uint_ge(bytes, 5 * MIB);
	ck_assert(!reclaim_pending());
}
END_TEST

START_TEST(test_buffers_used_every_300_ms_stay_and_go_when_they_are_not)
{
	begin();
	other_start(&other);
	other_do(&other, do_use_big, NULL);
	uint64_t before = 0;
	for (int round = 0; round < 20; round++) {
		if (round == 5)
			before = page_refaulted_bytes;
		use_buffers();
		for (int i = 0; i < 6; i++) {
			tick();
			if (i % 2 == 1)
				other_do(&other, do_sweep_a_tick_later, NULL);
		}
	}
	ck_assert_uint_eq(page_refaulted_bytes, before);
	size_t learned = sweep_policy.floor_bytes;
	ck_assert_uint_ge(learned, BUFFERS * 256 * KIB);
	uint64_t away = page_away_bytes;
	for (int i = 0; i < 40; i++)
		tick();
	ck_assert_uint_ge(page_away_bytes - away, BUFFERS * 256 * KIB);
	ck_assert_uint_lt(sweep_policy.floor_bytes, learned);
	ck_assert_uint_eq(reclaim_counts().kept_bytes, 0);
	other_end(&other);
}
END_TEST

static atomic_bool stop;

#define RACE_BLOCKS 40

/* What a thread does that starts, works and ends, over and over: its pages come and go while they are looked at. */
static void *make_and_drop_pages(void *arg)
{
	static const size_t sizes[] = {256 * KIB, 512 * KIB, 96 * KIB, 40 * KIB, 4096, 600 * KIB};
	struct random random = {.state = (uintptr_t)arg};

	while (!atomic_load(&stop)) {
		char *block[RACE_BLOCKS];
		size_t size = sizes[random_below(&random, array_len(sizes))];
		for (int i = 0; i < RACE_BLOCKS; i++)
			memset(block[i] = alloc(size), i, 64);
		uint32_t old = heap_epoch(heap_tls) + 3;
		for (int i = 0; i < RACE_BLOCKS; i++) {
			/* the first half is past its hold when the other half is freed */
			while (i == RACE_BLOCKS / 2 && (int32_t)(old - heap_epoch(heap_tls)) > 0 && !atomic_load(&stop))
				sched_yield();
			unit_holds(memory_is_filled(block[i], 64, (char)i));
			heap_free_slow(block[i]);
		}
		heap_take_remote(heap_tls);
		heap_retire_empty(heap_tls);
		reclaim_look_maybe();
		heap_check(heap_tls);
	}
	return NULL;
}

START_TEST(test_pages_that_come_and_go_while_they_are_looked_at_stay_whole)
{
	pthread_t threads[2];

	begin();
	for (int i = 0; i < 2; i++)
		threads[i] = thread_start(make_and_drop_pages, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < 2000; i++) {
		tick();
		if (i % 8 == 0)
			sched_yield();
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

/* --- a thread that never blocks ---------------------------------------------------------------------------------------------------- */

#define LOOK_NS (UINT64_C(100) * 1000 * 1000)

static bool looks_and_hands_over(uint64_t after_ns)
{
	uint64_t before = reclaim_counts().looks;

	fake_clock_add(after_ns);
	reclaim_look_slow();
	return reclaim_counts().looks > before;
}

START_TEST(test_a_look_hands_over_what_was_quiet_since_the_last_one)
{
	begin();
	char *kept_block = make_hole();
	ck_assert(!looks_and_hands_over(LOOK_NS)); /* starts the clock */
	ck_assert(!looks_and_hands_over(LOOK_NS)); /* sees the pages */
	ck_assert(looks_and_hands_over(LOOK_NS));
	ck_assert_uint_eq(handoff_flush(), HOLE);
	ck_assert_int_eq(kept_block[OS_PAGE_SIZE - 1], 1);
	ck_assert(!looks_and_hands_over(LOOK_NS));
}
END_TEST

/* 0, 1: at an even and at an odd millisecond of the clock. */
START_TEST(test_a_thread_looks_at_most_once_in_100_ms)
{
	begin();
	fake_clock_add((uint64_t)_i * 1000000);
	make_hole();
	for (int look = 1; look < 3; look++) {
		for (int i = 0; i < 20; i++)
			ck_assert(!looks_and_hands_over(0));
		ck_assert(!looks_and_hands_over(LOOK_NS - 1000000));
		fake_clock_add(1000000);
	}
	ck_assert(looks_and_hands_over(0));
	ck_assert_uint_eq(handoff_flush(), HOLE);
}
END_TEST

START_TEST(test_a_page_in_use_is_not_handed_over)
{
	begin();
	make_hole();
	for (int i = 0; i < 10; i++) {
		ck_assert(!looks_and_hands_over(LOOK_NS));
		alloc(OS_PAGE_SIZE);
	}
	ck_assert_uint_eq(handoff_flush(), 0);
}
END_TEST

/* As what others freed while the thread slept in a call that nobody sees. */
START_TEST(test_remote_frees_into_a_heap_that_runs_go_with_its_next_look)
{
	begin();
	char *p[16];
	for (int i = 0; i < 16; i++)
		memset(p[i] = alloc(OS_PAGE_SIZE), 1, OS_PAGE_SIZE);
	reclaim_look_slow();
	for (int i = 1; i < 16; i++)
		thread_run(free_it, p[i]);
	fake_clock_add(LOOK_NS);
	tick();
	ck_assert_uint_eq(handoff_flush(), 0);
	uint64_t before = reclaim_counts().looks;
	reclaim_look_maybe(); /* the tick says that there is a reason to */
	ck_assert_uint_eq(reclaim_counts().looks, before + 1);
	ck_assert_uint_eq(handoff_flush(), HOLE);
	ck_assert_int_eq(p[0][0], 1);
}
END_TEST

START_TEST(test_without_ticks_every_64th_slow_path_reads_the_clock)
{
	begin();
	alloc(64);
	for (unsigned i = 0; i < RECLAIM_LOOK_EVERY; i++) {
		ck_assert_uint_eq(heap_tls->looked_ms, 0);
		reclaim_look_maybe();
	}
	ck_assert_uint_ne(heap_tls->looked_ms, 0);
}
END_TEST

static void *look_and_end(void *unused)
{
	make_hole();
	reclaim_look_slow();
	looks_and_hands_over(LOOK_NS);
	heap_thread_end();
	return unused;
}

/* What a thread takes over is not old because the thread is new. */
START_TEST(test_the_first_look_of_a_new_thread_starts_its_clock)
{
	begin();
	thread_run(look_and_end, NULL);
	fake_clock_add(LOOK_NS);
	alloc(64); /* takes the heap over */
	ck_assert_uint_gt(heap_changed_n(), 0);
	ck_assert(!looks_and_hands_over(0));
	ck_assert(looks_and_hands_over(LOOK_NS));
}
END_TEST

START_TEST(test_the_seeds_threads_do_not_look)
{
	begin();
	reclaim_set_policy(true);
	make_hole();
	for (int i = 0; i < 5; i++)
		ck_assert(!looks_and_hands_over(LOOK_NS));
	ck_assert_uint_eq(handoff_flush(), 0);
}
END_TEST

/* --- refusals ---------------------------------------------------------------------------------------------------------------------- */

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

/* --- the rest ---------------------------------------------------------------------------------------------------------------------- */

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
	TCase *back = tcase_create("what comes back"), *busy = tcase_create("busy"), *rest = tcase_create("rest");

	tcase_add_test(old, test_a_big_page_goes_when_two_ticks_saw_no_allocation);
	tcase_add_test(old, test_a_big_page_in_use_again_and_again_stays);
	tcase_add_test(old, test_passes_within_a_tick_age_nothing);
	tcase_add_test(old, test_free_slices_go_at_the_second_pass);
	tcase_add_test(old, test_a_running_heap_is_left_to_its_thread);
	tcase_add_test(old, test_a_park_is_swept_when_it_lasts_from_pass_to_pass);
	tcase_add_test(old, test_what_others_free_into_a_parked_heap_goes_with_the_next_passes);
	tcase_add_test(old, test_what_is_freed_during_a_pass_goes_with_the_next_ones);
	tcase_add_test(old, test_an_ended_threads_heap_is_swept_by_the_second_pass);
	tcase_add_test(now, test_force_takes_everything_at_once);
	tcase_add_test(now, test_a_threads_own_sweep_takes_its_own);
	tcase_add_test(now, test_force_sweeps_a_new_park_too);
	tcase_add_test(now, test_force_by_a_parked_thread_sweeps_its_heap_too);
	tcase_add_test(now, test_force_waits_for_a_pass_in_progress_and_takes_what_that_left);
	tcase_add_test(back, test_the_sweeps_of_another_heap_do_not_age_mine);
	tcase_add_test(back, test_a_singleton_known_to_come_back_is_kept_for_half_as_long_again);
	tcase_add_test(back, test_a_singleton_used_every_300_ms_is_returned_once);
	tcase_add_test(back, test_a_big_page_that_came_back_is_kept_the_next_time);
	tcase_add_test(back, test_a_page_too_many_does_not_teach_that_none_comes_back);
	tcase_add_test(back, test_a_threads_own_sweeps_do_not_use_up_the_floor);
	tcase_add_test(back, test_small_pages_that_came_back_are_kept_the_next_time);
	tcase_add_test(back, test_memory_wanted_again_is_a_ghost_hit_wherever_it_comes_from);
	tcase_add_test(back, test_what_is_expected_back_sooner_has_the_floor);
	tcase_add_test(back, test_free_slices_are_pending_for_who_sweeps_itself);
	tcase_add_test(back, test_what_is_in_use_again_is_not_forgotten);
	tcase_add_test(back, test_buffers_used_every_300_ms_stay_and_go_when_they_are_not);
	tcase_add_test(back, test_pages_that_come_and_go_while_they_are_looked_at_stay_whole);
	tcase_add_test(busy, test_a_look_hands_over_what_was_quiet_since_the_last_one);
	tcase_add_loop_test(busy, test_a_thread_looks_at_most_once_in_100_ms, 0, 2);
	tcase_add_test(busy, test_a_page_in_use_is_not_handed_over);
	tcase_add_test(busy, test_remote_frees_into_a_heap_that_runs_go_with_its_next_look);
	tcase_add_test(busy, test_without_ticks_every_64th_slow_path_reads_the_clock);
	tcase_add_test(busy, test_the_first_look_of_a_new_thread_starts_its_clock);
	tcase_add_test(busy, test_the_seeds_threads_do_not_look);
	tcase_add_test(refused, test_refusals_are_followed_by_ever_longer_waits);
	tcase_add_test(refused, test_the_longest_wait_follows_each_further_refusal);
	tcase_add_test(refused, test_force_asks_in_spite_of_refusals);
	tcase_add_test(refused, test_one_refusal_among_others_is_no_reason_to_wait);
	tcase_add_test(rest, test_the_tick_function_is_called_by_each_pass);
	tcase_add_test(rest, test_sweeps_and_pages_are_counted);
	tcase_add_test(rest, test_parent_and_child_go_on_after_a_fork);
	suite_add_tcase(suite, old);
	suite_add_tcase(suite, now);
	suite_add_tcase(suite, back);
	suite_add_tcase(suite, busy);
	suite_add_tcase(suite, refused);
	suite_add_tcase(suite, rest);
	return unit_run(suite);
}
