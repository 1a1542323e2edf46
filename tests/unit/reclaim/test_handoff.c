/* SPDX-License-Identifier: MIT */
/*
 * Suite handoff: what a thread hands over is nobody's until the kernel has answered; then it is away, or back as it was. No thread waits
 * for a flush under way, and nothing is lost when there is no room.
 */
#include "reclaim/handoff.h"

#include "kernel/advise.h"
#include "kernel/bell.h"
#include "kernel/kernel.h"
#include "reclaim/internal.h"
#include "reclaim/reclaim.h"
#include "reclaim/sweep.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/region/memory.h"

#include <errno.h>
#include <sys/wait.h>

static void begin(void)
{
	memory_without_huge_pages();
	fake_kernel_install();
	advise_set_way(ADVISE_LOOP);
}

#define MANY 100

static char *os_page[MANY * 16];

/* Pages of sixteen blocks of one OS page each; all but the first block of each are freed: one hole a page. */
static void make_holes(unsigned pages)
{
	for (unsigned i = 0; i < pages * 16; i++)
		memset(os_page[i] = alloc(OS_PAGE_SIZE), 1, OS_PAGE_SIZE);
	for (unsigned i = 0; i < pages * 16; i++)
		if (i % 16 != 0)
			heap_free_slow(os_page[i]);
}

#define HOLE (15 * OS_PAGE_SIZE)

static bool in_flight(const char *block)
{
	return (atomic_load(&page_under(block)->flight) & 0xffff) != 0;
}

static bool is_hole(const char *block)
{
	for (unsigned i = 0; i < MANY * 16 && os_page[i] != NULL; i++)
		if (i % 16 != 0 && os_page[i] == block)
			return true;
	return false;
}

START_TEST(test_what_is_handed_over_is_nobodys_before_the_flush)
{
	begin();
	make_holes(3);
	fake_forget();
	ck_assert(handoff_changed(heap_tls));
	ck_assert_uint_eq(heap_changed_n(), 0);
	ck_assert_uint_eq(fake_calls(FAKE_MADVISE), 0);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(in_flight(os_page[i * 16]));
	for (int i = 0; i < 100; i++) {
		char *p = alloc(OS_PAGE_SIZE);
		memset(p, 2, OS_PAGE_SIZE);
		ck_assert(!is_hole(p));
	}
	ck_assert_uint_eq(page_away_bytes, 0);
	ck_assert_uint_eq(handoff_flush(), 3 * HOLE);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert(!in_flight(os_page[i * 16]));
		ck_assert_int_eq(os_page[i * 16][OS_PAGE_SIZE - 1], 1);
		ck_assert_uint_eq(memory_resident(os_page[i * 16], SLICE_SIZE), 1);
	}
	ck_assert_uint_eq(page_away_bytes, 3 * HOLE);
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_after_the_flush_it_is_used_again)
{
	begin();
	make_holes(2);
	handoff_changed(heap_tls);
	handoff_flush();
	unsigned again = 0;
	for (int i = 0; i < 40; i++)
		again += is_hole(alloc(OS_PAGE_SIZE));
	ck_assert_uint_eq(again, 30);
	ck_assert_uint_eq(page_away_bytes, 0);
	ck_assert_uint_eq(handoff_flush(), 0);
}
END_TEST

START_TEST(test_what_the_kernel_refuses_comes_back_and_is_asked_for_again)
{
	begin();
	make_holes(2);
	handoff_changed(heap_tls);
	fake_refuse_all(FAKE_MADVISE, EINVAL);
	ck_assert_uint_eq(handoff_flush(), 0);
	ck_assert_uint_eq(page_away_bytes, 0);
	ck_assert(!in_flight(os_page[0]));
	fake_refuse_all(FAKE_MADVISE, 0);
	ck_assert(handoff_changed(heap_tls));
	ck_assert_uint_eq(handoff_flush(), 2 * HOLE);
	ck_assert_uint_eq(page_away_bytes, 2 * HOLE);
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_refused_holes_can_be_used_at_once)
{
	begin();
	make_holes(2);
	handoff_changed(heap_tls);
	fake_refuse_all(FAKE_MADVISE, EINVAL);
	handoff_flush();
	unsigned again = 0;
	for (int i = 0; i < 40; i++)
		again += is_hole(alloc(OS_PAGE_SIZE));
	ck_assert_uint_eq(again, 30);
	heap_check(heap_tls);
}
END_TEST

/* Every second block: eight ranges a page, and a batch has room for 64 such pages. */
static void make_many_holes(void)
{
	for (unsigned i = 0; i < MANY * 16; i++)
		memset(os_page[i] = alloc(OS_PAGE_SIZE), 1, OS_PAGE_SIZE);
	for (unsigned i = 0; i < MANY * 16; i += 2)
		heap_free_slow(os_page[i]);
}

START_TEST(test_without_room_for_all_the_rest_waits)
{
	begin();
	make_many_holes();
	ck_assert(!handoff_changed(heap_tls));
	unsigned left = heap_changed_n();
	ck_assert_uint_eq(left, MANY - ADVISE_BATCH_RANGES / 8);
	ck_assert(!handoff_changed(heap_tls)); /* no room at all now */
	ck_assert_uint_eq(heap_changed_n(), left);
	ck_assert_uint_eq(handoff_flush(), (MANY - left) * 8 * OS_PAGE_SIZE);
	ck_assert(handoff_changed(heap_tls));
	ck_assert_uint_eq(heap_changed_n(), 0);
	ck_assert_uint_eq(handoff_flush(), left * 8 * OS_PAGE_SIZE);
	for (unsigned i = 1; i < MANY * 16; i += 2)
		unit_holds(memory_is_filled(os_page[i], OS_PAGE_SIZE, 1));
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_handing_over_wakes_the_scavenger_and_nothing_does_not)
{
	begin();
	bell_answered(true);
	make_holes(1);
	bell_wait(0);
	handoff_changed(heap_tls);
	ck_assert_uint_ge(bell_wait(0), BELL_WAKE_BYTES);
	handoff_flush();
	handoff_changed(heap_tls);
	ck_assert_uint_eq(bell_wait(0), 0);
	bell_answered(false);
}
END_TEST

START_TEST(test_wholly_free_pages_become_slices_without_being_handed_over)
{
	begin();
	make_holes(3);
	for (unsigned i = 0; i < 3; i++)
		heap_free_slow(os_page[i * 16]);
	ck_assert(handoff_changed(heap_tls));
	ck_assert_uint_eq(handoff_flush(), 0);
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
}
END_TEST

/* A page whose last block is freed while its holes are in flight stays until the answer is there. */
START_TEST(test_a_page_emptied_meanwhile_stays_until_the_answer)
{
	begin();
	make_holes(2);
	handoff_changed(heap_tls);
	heap_free_slow(os_page[0]);
	heap_free_slow(os_page[16]);
	heap_retire_empty(heap_tls);
	ck_assert_ptr_nonnull(page_of(os_page[0]));
	ck_assert_ptr_nonnull(page_of(os_page[16]));
	handoff_flush();
	heap_retire_empty(heap_tls);
	ck_assert_ptr_null(page_of(os_page[0]));
	ck_assert_uint_eq(page_away_bytes, 0);
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
}
END_TEST

static struct kernel fake;
static unsigned handed_over;

/* While the kernel works on one batch another is filled: the lock is not held meanwhile. */
static int hand_over_meanwhile(void *addr, size_t len, int advice)
{
	if (handed_over++ == 0) {
		for (unsigned i = 0; i < 16; i++)
			heap_free_slow(os_page[i * 16]);
		ck_assert(handoff_quiet(heap_tls, 100) || heap_changed_n() > 0);
		make_holes(2);
		ck_assert(handoff_changed(heap_tls));
	}
	return fake.madvise(addr, len, advice);
}

START_TEST(test_a_thread_hands_over_while_the_kernel_works)
{
	begin();
	make_holes(16);
	handoff_changed(heap_tls);
	fake = kernel;
	kernel.madvise = hand_over_meanwhile;
	ck_assert_uint_eq(handoff_flush(), 16 * HOLE);
	ck_assert_uint_ge(handoff_flush(), 2 * HOLE);
	ck_assert_uint_eq(handoff_flush(), 0);
	heap_check(heap_tls);
}
END_TEST

/* --- quiet pages ------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_only_what_nothing_was_done_to_since_the_last_look_is_handed_over)
{
	begin();
	make_holes(2);
	ck_assert(!handoff_quiet(heap_tls, 100)); /* the first look only looks */
	char *p = alloc(OS_PAGE_SIZE); /* in one of the two */
	heap_free_slow(p);
	char *q = alloc(OS_PAGE_SIZE);
	struct page *busy = page_under(q);
	ck_assert(handoff_quiet(heap_tls, 100));
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(in_flight(os_page[i * 16]), page_under(os_page[i * 16]) != busy);
	/* and when it is quiet in its turn */
	ck_assert(handoff_quiet(heap_tls, 100));
	ck_assert(in_flight(q));
	handoff_flush();
	ck_assert_uint_eq(page_away_bytes, 2 * HOLE - OS_PAGE_SIZE);
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_no_more_pages_are_looked_at_than_asked_for)
{
	begin();
	make_holes(10);
	ck_assert(!handoff_quiet(heap_tls, 4));
	ck_assert(handoff_quiet(heap_tls, 4));
	ck_assert_uint_eq(heap_changed_n(), 6);
	ck_assert_uint_eq(handoff_flush(), 4 * HOLE);
	handoff_quiet(heap_tls, 100);
	handoff_quiet(heap_tls, 100);
	ck_assert_uint_eq(handoff_flush(), 6 * HOLE);
}
END_TEST

static void *free_some(void *from)
{
	for (unsigned i = *(unsigned *)from; i < MANY * 16 && os_page[i] != NULL; i++)
		heap_free_slow(os_page[i]);
	return NULL;
}

/* What others freed is not this thread's doing: it was quiet all along. */
START_TEST(test_what_others_freed_is_handed_over_at_once)
{
	unsigned from = 16 + 1;

	begin();
	for (unsigned i = 0; i < 2 * 16; i++)
		memset(os_page[i] = alloc(OS_PAGE_SIZE), 1, OS_PAGE_SIZE);
	heap_free_slow(os_page[3]);
	thread_run(free_some, &from);
	ck_assert(handoff_quiet(heap_tls, 100));
	ck_assert_uint_eq(handoff_flush(), HOLE);
	ck_assert_uint_eq(heap_changed_n(), 1);
	ck_assert_int_eq(os_page[16][0], 1);
}
END_TEST

/* The page at the head of the changed ones is emptied by others, and given back in the middle of the look. */
START_TEST(test_a_changed_page_that_others_emptied_does_not_confuse_the_look)
{
	unsigned from = 3 * 16 + 1;

	begin();
	for (unsigned i = 0; i < 4 * 16; i++)
		memset(os_page[i] = alloc(OS_PAGE_SIZE), 1, OS_PAGE_SIZE);
	char *current = alloc(OS_PAGE_SIZE);
	heap_free_slow(os_page[1]); /* its page waits in the queue, so that the next one is not the only one there */
	heap_free_slow(os_page[3 * 16]);
	ck_assert_ptr_eq(heap_tls->changed, page_under(os_page[3 * 16 + 1]));
	ck_assert_ptr_ne(heap_tls->changed, page_under(current));
	thread_run(free_some, &from);
	handoff_quiet(heap_tls, 100);
	ck_assert_ptr_null(page_of(os_page[3 * 16]));
	ck_assert(handoff_quiet(heap_tls, 100));
	ck_assert_uint_eq(handoff_flush(), OS_PAGE_SIZE);
	ck_assert_int_eq(os_page[0][OS_PAGE_SIZE - 1], 1);
	heap_check(heap_tls);
}
END_TEST

/* --- threads, fork ----------------------------------------------------------------------------------------------------------------- */

#define ROUNDS 400

static atomic_uint running;

static void *use_and_hand_over(void *arg)
{
	struct random random = {.state = (uintptr_t)arg};
	char *block[200] = {0};

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 200; i++) {
			size_t size = 500 + (size_t)i * 16;
			if (block[i] != NULL && random_below(&random, 2)) {
				unit_holds(memory_is_filled(block[i], size, (char)i));
				heap_free_slow(block[i]);
				block[i] = NULL;
			} else if (block[i] == NULL) {
				memset(block[i] = alloc(size), i, size);
			}
		}
		if (random_below(&random, 2))
			handoff_changed(heap_tls);
		else
			handoff_quiet(heap_tls, 64);
		heap_check(heap_tls);
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

/* The flusher is one thread, as the holder of the reclaim lock is. */
START_TEST(test_two_threads_hand_over_while_a_third_returns)
{
	pthread_t threads[2];
	size_t bytes = 0;

	begin();
	atomic_store(&running, 2);
	for (int i = 0; i < 2; i++)
		threads[i] = thread_start(use_and_hand_over, (void *)(uintptr_t)(i + 1));
	while (atomic_load(&running) > 0) {
		bytes += handoff_flush();
		sched_yield();
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_gt(bytes, 0);
}
END_TEST

START_TEST(test_parent_and_child_each_return_what_was_handed_over_before_a_fork)
{
	int status;

	begin();
	make_holes(3);
	handoff_changed(heap_tls);
	reclaim_fork_prepare();
	pid_t pid = fork();
	reclaim_fork_done(pid == 0);
	if (pid == 0)
		_exit(handoff_flush() != 3 * HOLE || os_page[0][0] != 1 || in_flight(os_page[0]));
	ck_assert_uint_eq(handoff_flush(), 3 * HOLE);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("handoff");
	TCase *over = tcase_create("handing over"), *quiet = tcase_create("quiet pages"), *threads = tcase_create("threads, fork");

	tcase_add_test(over, test_what_is_handed_over_is_nobodys_before_the_flush);
	tcase_add_test(over, test_after_the_flush_it_is_used_again);
	tcase_add_test(over, test_what_the_kernel_refuses_comes_back_and_is_asked_for_again);
	tcase_add_test(over, test_refused_holes_can_be_used_at_once);
	tcase_add_test(over, test_without_room_for_all_the_rest_waits);
	tcase_add_test(over, test_handing_over_wakes_the_scavenger_and_nothing_does_not);
	tcase_add_test(over, test_wholly_free_pages_become_slices_without_being_handed_over);
	tcase_add_test(over, test_a_page_emptied_meanwhile_stays_until_the_answer);
	tcase_add_test(over, test_a_thread_hands_over_while_the_kernel_works);
	tcase_add_test(quiet, test_only_what_nothing_was_done_to_since_the_last_look_is_handed_over);
	tcase_add_test(quiet, test_no_more_pages_are_looked_at_than_asked_for);
	tcase_add_test(quiet, test_what_others_freed_is_handed_over_at_once);
	tcase_add_test(quiet, test_a_changed_page_that_others_emptied_does_not_confuse_the_look);
	tcase_add_test(threads, test_two_threads_hand_over_while_a_third_returns);
	tcase_add_test(threads, test_parent_and_child_each_return_what_was_handed_over_before_a_fork);
	suite_add_tcase(suite, over);
	suite_add_tcase(suite, quiet);
	suite_add_tcase(suite, threads);
	return unit_run(suite);
}
