/* SPDX-License-Identifier: MIT */
/*
 * Suite address: waiting for a value to change. The bad moments are played on one thread; order, counts and the sum of all wakes are
 * looked at with threads.
 */
#include "api/address.h"

#include "heap/heap.h"
#include "unit/api/play.h"

#include <lull/malloc.h>
#include <lull/stats.h>
#include <lull/wait.h>

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic uint32_t word;
static _Atomic uint64_t wide;
static struct lull_wait_token token = LULL_WAIT_TOKEN_INIT, other_token = LULL_WAIT_TOKEN_INIT;

static void begin(void)
{
	play_begin();
	play.held = PLAY_MAX;
}

static enum lull_wait_result wait_ns(uint64_t timeout_ns)
{
	return lull_wait_on_address32(&word, 0, timeout_ns, &token);
}

static void wake(void)
{
	ck_assert_uint_eq(lull_wake_address(&word, LULL_WAKE_ALL), 1);
}

static void wake_nobody(void)
{
	ck_assert_uint_eq(lull_wake_address(&word, LULL_WAKE_ALL), 0);
}

static void terminate(void)
{
	lull_wait_terminate(&token);
}

/* --- values and timeouts -------------------------------------------------------------------------------------------------------------- */

START_TEST(test_another_value_is_not_waited_for)
{
	begin();
	word = 1;
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_NOT_EQUAL);
	wide = UINT64_C(1) << 63; /* the lower half is as expected */
	ck_assert_int_eq(lull_wait_on_address64(&wide, 0, LULL_WAIT_FOREVER, NULL), LULL_WAIT_NOT_EQUAL);
	ck_assert_uint_eq(play.sleeps, 0);
	wake_nobody();
	ck_assert_uint_eq(lull_wake_address(&wide, 1), 0);
}
END_TEST

START_TEST(test_32_bits_are_32_bits)
{
	static struct {
		_Alignas(8) uint32_t value;
		uint32_t neighbour;
	} pair = {7, 8};

	begin();
	ck_assert_int_eq(lull_wait_on_address32(&pair.value, 7, 10 * MS, NULL), LULL_WAIT_TIMED_OUT);
	ck_assert_int_eq(lull_wait_on_address64(&pair, 7, 10 * MS, NULL), LULL_WAIT_NOT_EQUAL);
	ck_assert_int_eq(lull_wait_on_address64(&pair, (UINT64_C(8) << 32) + 7, 10 * MS, NULL), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), 20 * MS);
}
END_TEST

START_TEST(test_a_wait_has_as_many_releases_as_its_timeout_has_room_for)
{
	static const struct {
		uint64_t timeout_ns;
		unsigned releases;
	} cases[] = {{0, 0}, {100 * MS, 0}, {100 * MS + 1, 1}, {200 * MS, 1}, {200 * MS + 1, 2}, {10000 * MS, 4}};

	begin();
	ck_assert_int_eq(wait_ns(cases[_i].timeout_ns), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), cases[_i].timeout_ns);
	ck_assert_uint_eq(play.releases, cases[_i].releases);
	wake_nobody();
}
END_TEST

START_TEST(test_each_wait_is_an_idle_period_of_its_own)
{
	begin();
	for (unsigned i = 1; i <= 3; i++) {
		ck_assert_int_eq(wait_ns(150 * MS), LULL_WAIT_TIMED_OUT);
		ck_assert_uint_eq(play.releases, i);
	}
	play.held = 0;
	ck_assert_int_eq(wait_ns(1000 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play.releases, 4);
}
END_TEST

START_TEST(test_a_wake_within_100_ms_has_nothing_to_do_with_the_allocator)
{
	begin();
	play_at(50 * MS, play_interrupt);
	play_at(99 * MS, wake);
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 99 * MS);
	ck_assert_uint_eq(play.releases + play.asked + play.ends, 0);
	ck_assert_ptr_eq(heap_tls, &heap_empty);
}
END_TEST

START_TEST(test_a_release_handed_over_is_a_park_until_the_wait_ends)
{
	begin();
	play.hand_over = true;
	play_at(300 * MS, wake);
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 300 * MS);
	ck_assert_uint_eq(play.releases, 1);
	ck_assert_uint_eq(play.ends, 1);
}
END_TEST

/* --- bad moments ---------------------------------------------------------------------------------------------------------------------- */

static void wake_others(void)
{
	_Atomic uint32_t *neighbours = &word + 1;

	/* many more than there are lists: some share one with the word; an address is never followed */
	for (uintptr_t i = 0; i < 4096; i++)
		ck_assert_uint_eq(lull_wake_address(neighbours + i, LULL_WAKE_ALL), 0);
	ck_assert_uint_eq(lull_wake_address(&word, 0), 0);
	wake();
}

START_TEST(test_a_wake_is_for_its_address_only)
{
	begin();
	play_at(10 * MS, wake_others);
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 10 * MS);
}
END_TEST

static uint64_t now_and_change(void)
{
	if (atomic_exchange(&word, 1) == 0)
		wake_nobody();
	return PLAY_START;
}

START_TEST(test_a_wake_before_the_value_is_looked_at_is_seen_in_the_value)
{
	begin();
	kernel.now_ns = now_and_change;
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_NOT_EQUAL);
	ck_assert_uint_eq(play.sleeps, 0);
}
END_TEST

static int change_and_sleep(const void *told, uint32_t expected, uint64_t timeout_ns)
{
	atomic_store(&word, 1);
	wake();
	return play_sleep(told, expected, timeout_ns);
}

START_TEST(test_a_wake_between_the_look_and_the_sleep_is_not_lost)
{
	begin();
	kernel.futex_wait = change_and_sleep;
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_OK);
	ck_assert_uint_eq(play.sleeps, 0);
	ck_assert_uint_eq(play_now(), 0);
}
END_TEST

START_TEST(test_a_wake_during_the_second_release_is_not_lost)
{
	begin();
	play.release_ns = 20 * MS;
	play_at(230 * MS, wake);
	play_at(235 * MS, wake_nobody);
	ck_assert_int_eq(wait_ns(_i == 0 ? LULL_WAIT_FOREVER : 1000 * MS), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 240 * MS);
	ck_assert_uint_eq(play.releases, 2);
	wake_nobody();
}
END_TEST

START_TEST(test_a_wake_during_a_release_that_outlasts_the_timeout_is_not_lost)
{
	begin();
	play.release_ns = 100 * MS;
	play_at(320 * MS, wake);
	ck_assert_int_eq(wait_ns(350 * MS), LULL_WAIT_OK);
	ck_assert_uint_eq(play_now(), 400 * MS);
}
END_TEST

START_TEST(test_a_timeout_during_a_release_is_the_end_after_it)
{
	begin();
	play.release_ns = 100 * MS;
	ck_assert_int_eq(wait_ns(350 * MS), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), 400 * MS);
	ck_assert_uint_eq(play.releases, 2);
	wake_nobody();
}
END_TEST

/* --- termination ---------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_a_terminated_token_waits_no_more)
{
	begin();
	terminate();
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_TERMINATED);
	ck_assert_int_eq(wait_ns(0), LULL_WAIT_TERMINATED);
	ck_assert_uint_eq(play.sleeps, 0);
	wake_nobody();
	token = (struct lull_wait_token)LULL_WAIT_TOKEN_INIT;
	ck_assert_int_eq(wait_ns(10 * MS), LULL_WAIT_TIMED_OUT);
}
END_TEST

START_TEST(test_termination_ends_a_sleep)
{
	begin();
	play_at(50 * MS, terminate);
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_TERMINATED);
	ck_assert_uint_eq(play_now(), 50 * MS);
	wake_nobody();
}
END_TEST

static void terminate_other(void)
{
	lull_wait_terminate(&other_token);
}

START_TEST(test_termination_is_for_its_token_only)
{
	begin();
	play_at(50 * MS, terminate_other);
	ck_assert_int_eq(_i == 0 ? wait_ns(80 * MS) : lull_wait_on_address32(&word, 0, 80 * MS, NULL), LULL_WAIT_TIMED_OUT);
	ck_assert_uint_eq(play_now(), 80 * MS);
}
END_TEST

START_TEST(test_termination_during_a_release_ends_the_wait_after_it)
{
	begin();
	play.release_ns = 100 * MS;
	play_at(150 * MS, terminate);
	play_at(160 * MS, wake_nobody);
	/* past the timeout too: what came first counts */
	ck_assert_int_eq(wait_ns(_i == 0 ? LULL_WAIT_FOREVER : 180 * MS), LULL_WAIT_TERMINATED);
	ck_assert_uint_eq(play_now(), 200 * MS);
	ck_assert_uint_eq(play.releases, 1);
}
END_TEST

START_TEST(test_a_wake_that_was_counted_stays_one_though_the_token_is_terminated)
{
	begin();
	play.release_ns = 100 * MS;
	play_at(150 * MS, wake);
	play_at(160 * MS, terminate);
	ck_assert_int_eq(wait_ns(LULL_WAIT_FOREVER), LULL_WAIT_OK);
}
END_TEST

/* --- threads -------------------------------------------------------------------------------------------------------------------------- */

#define THREADS 6

static atomic_uint woken_n;
static unsigned order[THREADS];

static void *wait_once(void *arg)
{
	unit_holds(lull_wait_on_address32(&word, 0, LULL_WAIT_FOREVER, &token) == LULL_WAIT_OK);
	order[(uintptr_t)arg] = atomic_fetch_add(&woken_n, 1);
	return NULL;
}

static void start_and_sleep(pthread_t *thread, uintptr_t number)
{
	unsigned before = atomic_load(&fast.sleeps);

	ck_assert_int_eq(pthread_create(thread, NULL, wait_once, (void *)number), 0);
	while (atomic_load(&fast.sleeps) == before)
		sched_yield();
}

static void start_all(pthread_t *threads)
{
	fast_begin();
	fast.for_good = true;
	for (uintptr_t i = 0; i < THREADS; i++)
		start_and_sleep(&threads[i], i);
}

START_TEST(test_wakes_go_in_the_order_of_arrival)
{
	pthread_t threads[THREADS];

	start_all(threads);
	for (unsigned i = 0; i < THREADS; i++) {
		ck_assert_uint_eq(lull_wake_address(&word, 1), 1);
		pthread_join(threads[i], NULL);
		ck_assert_uint_eq(order[i], i);
	}
	wake_nobody();
}
END_TEST

START_TEST(test_a_wake_says_how_many_there_were)
{
	pthread_t threads[THREADS];

	start_all(threads);
	ck_assert_uint_eq(lull_wake_address(&word, 2), 2);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	ck_assert_uint_eq(atomic_load(&woken_n), 2);
	ck_assert_uint_eq(lull_wake_address(&word, LULL_WAKE_ALL), THREADS - 2);
	for (unsigned i = 2; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	wake_nobody();
}
END_TEST

/* In the child nobody waits, and its own waits work. */
static int child_of_fork(void)
{
	address_fork_done(true);
	if (lull_wake_address(&word, LULL_WAKE_ALL) != 0)
		return 1;
	fast.for_good = false;
	if (lull_wait_on_address32(&word, 0, MS, NULL) != LULL_WAIT_TIMED_OUT)
		return 2;
	return 0;
}

START_TEST(test_a_fork_child_has_no_waiters)
{
	pthread_t threads[THREADS];
	int status;

	start_all(threads);
	pid_t pid = fork();
	if (pid == 0)
		_exit(child_of_fork());
	address_fork_done(false);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_uint_eq(lull_wake_address(&word, LULL_WAKE_ALL), THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}
END_TEST

#define WORDS 3
#define WAITS 3000

static _Atomic uint32_t words[WORDS];
static struct lull_wait_token tokens[THREADS];
static atomic_ulong ok, timed_out, not_equal, counted;
static atomic_uint at_work;

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223; /* Numerical Recipes' quick generator: any will do */
	return *state >> 16;
}

static void *wait_often(void *arg)
{
	uint32_t number = (uint32_t)(uintptr_t)arg, random = number;

	for (unsigned i = 0; i < WAITS; i++) {
		_Atomic uint32_t *at = &words[next_random(&random) % WORDS];
		enum lull_wait_result result = lull_wait_on_address32(at, atomic_load(at), next_random(&random) % 500 * MS, &tokens[number]);
		atomic_fetch_add(result == LULL_WAIT_OK ? &ok : result == LULL_WAIT_TIMED_OUT ? &timed_out : &not_equal, 1);
		unit_holds(result != LULL_WAIT_TERMINATED);
	}
	/* and once for good */
	unit_holds(lull_wait_on_address32(&words[0], UINT32_MAX, LULL_WAIT_FOREVER, NULL) == LULL_WAIT_NOT_EQUAL);
	enum lull_wait_result last = lull_wait_on_address64(&wide, 0, LULL_WAIT_FOREVER, &tokens[number]);
	unit_holds(last == LULL_WAIT_TERMINATED);
	atomic_fetch_sub(&at_work, 1);
	return NULL;
}

static void *wake_often(void *arg)
{
	uint32_t random = 99;

	(void)arg;
	while (atomic_load(&at_work) > 0) {
		_Atomic uint32_t *at = &words[next_random(&random) % WORDS];
		atomic_store(at, next_random(&random) % 4);
		atomic_fetch_add(&counted, lull_wake_address(at, next_random(&random) % 3));
		if (next_random(&random) % 8 == 0)
			sched_yield();
	}
	return NULL;
}

static bool all_wait_for_good(void)
{
	return atomic_load(&ok) + atomic_load(&timed_out) + atomic_load(&not_equal) == THREADS * WAITS;
}

/* Each wake that was counted ended one wait as woken, and no other wait ended so. */
START_TEST(test_wakes_counted_and_waits_woken_are_the_same_number)
{
	pthread_t threads[THREADS], waker;

	fast_begin();
	atomic_store(&at_work, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, wait_often, (void *)i), 0);
	ck_assert_int_eq(pthread_create(&waker, NULL, wake_often, NULL), 0);
	while (!all_wait_for_good())
		sched_yield();
	for (int i = 0; i < THREADS; i++)
		lull_wait_terminate(&tokens[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(waker, NULL);
	ck_assert_uint_eq(atomic_load(&ok), atomic_load(&counted));
	ck_assert_uint_gt(atomic_load(&ok), 0);
	ck_assert_uint_gt(atomic_load(&fast.releases), 0);
	ck_assert_uint_gt(atomic_load(&fast.ends), 0);
}
END_TEST

/* --- for real ------------------------------------------------------------------------------------------------------------------------- */

#define BLOCKS 1024
#define HOLES (BLOCKS / 16 * 15 * OS_PAGE_SIZE)

static uint64_t returned_bytes(void)
{
	struct lull_stats stats;

	lull_stats_read(&stats, sizeof(stats));
	return stats.returned_bytes;
}

static void *make_holes_and_wait(void *arg)
{
	static char *block[BLOCKS];

	(void)arg;
	for (int i = 0; i < BLOCKS; i++)
		memset(block[i] = lull_malloc(OS_PAGE_SIZE), 1, OS_PAGE_SIZE);
	for (int i = 0; i < BLOCKS; i++)
		if (i % 16 != 0)
			lull_free(block[i]);
	unit_holds(wait_ns(LULL_WAIT_FOREVER) == LULL_WAIT_OK);
	for (int i = 0; i < BLOCKS; i += 16) {
		unit_holds(block[i][OS_PAGE_SIZE - 1] == 1);
		lull_free(block[i]);
	}
	lull_free(lull_malloc(OS_PAGE_SIZE));
	return NULL;
}

START_TEST(test_memory_goes_back_while_a_thread_waits)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, make_holes_and_wait, NULL), 0);
	while (returned_bytes() < HOLES)
		sched_yield();
	wake();
	pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("address");
	TCase *values = tcase_create("values"), *moments = tcase_create("moments"), *ends = tcase_create("termination");
	TCase *threads = tcase_create("threads"), *real = tcase_create("for real");

	tcase_add_test(values, test_another_value_is_not_waited_for);
	tcase_add_test(values, test_32_bits_are_32_bits);
	tcase_add_loop_test(values, test_a_wait_has_as_many_releases_as_its_timeout_has_room_for, 0, 6);
	tcase_add_test(values, test_each_wait_is_an_idle_period_of_its_own);
	tcase_add_test(values, test_a_wake_within_100_ms_has_nothing_to_do_with_the_allocator);
	tcase_add_test(values, test_a_release_handed_over_is_a_park_until_the_wait_ends);
	tcase_add_test(moments, test_a_wake_is_for_its_address_only);
	tcase_add_test(moments, test_a_wake_before_the_value_is_looked_at_is_seen_in_the_value);
	tcase_add_test(moments, test_a_wake_between_the_look_and_the_sleep_is_not_lost);
	tcase_add_loop_test(moments, test_a_wake_during_the_second_release_is_not_lost, 0, 2);
	tcase_add_test(moments, test_a_wake_during_a_release_that_outlasts_the_timeout_is_not_lost);
	tcase_add_test(moments, test_a_timeout_during_a_release_is_the_end_after_it);
	tcase_add_test(ends, test_a_terminated_token_waits_no_more);
	tcase_add_test(ends, test_termination_ends_a_sleep);
	tcase_add_loop_test(ends, test_termination_is_for_its_token_only, 0, 2);
	tcase_add_loop_test(ends, test_termination_during_a_release_ends_the_wait_after_it, 0, 2);
	tcase_add_test(ends, test_a_wake_that_was_counted_stays_one_though_the_token_is_terminated);
	tcase_add_test(threads, test_wakes_go_in_the_order_of_arrival);
	tcase_add_test(threads, test_a_wake_says_how_many_there_were);
	tcase_add_test(threads, test_a_fork_child_has_no_waiters);
	tcase_add_test(threads, test_wakes_counted_and_waits_woken_are_the_same_number);
	tcase_add_test(real, test_memory_goes_back_while_a_thread_waits);
	suite_add_tcase(suite, real);
	suite_add_tcase(suite, values);
	suite_add_tcase(suite, moments);
	suite_add_tcase(suite, ends);
	suite_add_tcase(suite, threads);
	return unit_run(suite);
}
