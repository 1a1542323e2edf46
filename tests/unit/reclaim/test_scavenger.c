/* SPDX-License-Identifier: MIT */
/*
 * Suite scavenger: the thread is there when there is work, asleep until an idle stage when there is none, gone when it is told to, and
 * no business of the program's signals. The clock is the real one: the tests wait for what must happen, however long it takes.
 */
#include "reclaim/reclaim.h"

#include "base/random.h"
#include "heap/heap.h"
#include "kernel/advise.h"
#include "kernel/bell.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/ring.h"
#include "reclaim/internal.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/region/memory.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

static struct kernel real;
static atomic_uint sleeps; /* waits for the next idle stage, a day away: nothing is left to do */

#define DAY_S 86400
#define HOUR_NS (UINT64_C(3600) * 1000 * 1000 * 1000)

static int count_sleeps(const void *word, uint32_t expected, uint64_t timeout_ns)
{
	/* locks wait without a timeout */
	if (timeout_ns > HOUR_NS && timeout_ns != KERNEL_NO_TIMEOUT)
		atomic_fetch_add(&sleeps, 1);
	return real.futex_wait(word, expected, timeout_ns);
}

static void begin(void)
{
	memory_without_huge_pages();
	advise_set_way(ADVISE_LOOP);
	real = kernel;
	kernel.futex_wait = count_sleeps;
	reclaim_set_stages((const uint32_t[]){DAY_S}, 1);
}

static void await_sleep(unsigned n)
{
	while (atomic_load(&sleeps) < n)
		sched_yield();
}

/* The value of a line of /proc/self/task/TID/status for the thread named "lull"; false when there is no such thread. */
static bool scavenger_status(const char *key, char *ret, size_t len)
{
	DIR *tasks = opendir("/proc/self/task");
	bool found = false;

	ck_assert_ptr_nonnull(tasks);
	for (struct dirent *task; !found && (task = readdir(tasks)) != NULL;) {
		char path[300], line[256], name[64] = "";
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
		FILE *status = fopen(path, "r");
		while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
			sscanf(line, "Name: %63s", name);
			if (strcmp(name, "lull") == 0 && strncmp(line, key, strlen(key)) == 0) {
				snprintf(ret, len, "%s", line + strlen(key));
				found = true;
			}
		}
		if (status != NULL)
			fclose(status);
	}
	closedir(tasks);
	return found;
}

static bool is_running(void)
{
	char ignored[64];

	return scavenger_status("Pid:", ignored, sizeof(ignored));
}

/* --- coming and going ----------------------------------------------------------------------------------------------------------------- */

START_TEST(test_it_starts_when_it_is_asked_to_and_once)
{
	begin();
	ck_assert(!scavenger_is_there());
	bell_ring_now();
	ck_assert(bell_unanswered);
	errno = 1234;
	reclaim_scavenger_start();
	ck_assert_int_eq(errno, 1234);
	ck_assert(!bell_unanswered);
	ck_assert(scavenger_is_there());
	await_sleep(1);
	ck_assert(is_running());
	reclaim_scavenger_start();
	bell_ring(GIB);
	ck_assert(!bell_unanswered);
	reclaim_scavenger_stop();
}
END_TEST

START_TEST(test_stopping_joins_and_it_can_start_again)
{
	begin();
	reclaim_scavenger_stop();
	for (int i = 0; i < 3; i++) {
		reclaim_scavenger_start();
		ck_assert(scavenger_is_there());
		if (i == 1)
			await_sleep(1); /* asleep, not only at work */
		reclaim_scavenger_stop();
		ck_assert(!scavenger_is_there());
		/* joined: the kernel has no such thread, or will not for long */
		while (is_running())
			sched_yield();
		bell_ring_now();
		ck_assert(bell_unanswered);
	}
}
END_TEST

START_TEST(test_it_sleeps_when_there_is_nothing_and_wakes_for_enough)
{
	begin();
	reclaim_scavenger_start();
	await_sleep(1);
	uint64_t wakes = scavenger_wakes();
	ck_assert_uint_le(wakes, 3 * RECLAIM_QUIET_TICKS);
	bell_ring(BELL_WAKE_BYTES / 2); /* too little */
	ck_assert_uint_eq(scavenger_wakes(), wakes);
	bell_ring(BELL_WAKE_BYTES);
	while (scavenger_wakes() == wakes)
		sched_yield();
	await_sleep(2);
	ck_assert_uint_eq(reclaim_counts().wakes, scavenger_wakes());
	reclaim_scavenger_stop();
}
END_TEST

START_TEST(test_signals_are_none_of_its_business)
{
	static const int blocked[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF, SIGPIPE};
	static const int open[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
	char text[64];
	sigset_t before, after;

	begin();
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	reclaim_scavenger_start();
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int sig = 1; sig < 65; sig++)
		ck_assert_int_eq(sigismember(&before, sig), sigismember(&after, sig));
	await_sleep(1);
	ck_assert(scavenger_status("SigBlk:", text, sizeof(text)));
	uint64_t mask = strtoull(text, NULL, 16);
	for (size_t i = 0; i < array_len(blocked); i++)
		ck_assert_msg(mask >> (blocked[i] - 1) & 1, "signal %d", blocked[i]);
	for (size_t i = 0; i < array_len(open); i++)
		ck_assert_msg(!(mask >> (open[i] - 1) & 1), "signal %d", open[i]);
	reclaim_scavenger_stop();
}
END_TEST

/* --- its work ------------------------------------------------------------------------------------------------------------------------- */

#define PAGES 32
#define HOLES (PAGES * 15 * OS_PAGE_SIZE)

static char *os_page[PAGES * 16];

/* Pages of sixteen OS pages; all but the first block of each is free: 60 KiB a page. */
static void make_holes(int pages)
{
	for (int i = 0; i < pages * 16; i++)
		memset(os_page[i] = alloc(OS_PAGE_SIZE), 1, OS_PAGE_SIZE);
	for (int i = 0; i < pages * 16; i++)
		if (i % 16 != 0)
			heap_free_slow(os_page[i]);
	ck_assert_uint_eq(heap_changed_n(), pages);
}

static void *make_holes_and_idle(void *arg)
{
	make_holes(PAGES);
	errno = 4321;
	reclaim_idle_enter_slow();
	ck_assert_int_eq(errno, 4321);
	ck_assert_ptr_eq(heap_tls, &heap_empty);
	step_await(arg, 1);
	reclaim_idle_leave_slow();
	ck_assert_int_eq(errno, 4321);
	for (int i = 0; i < PAGES * 16; i += 16)
		unit_holds(os_page[i][OS_PAGE_SIZE - 1] == 1);
	heap_check(heap_tls);
	return NULL;
}

START_TEST(test_an_idle_threads_holes_go_while_it_waits)
{
	static atomic_int step;

	begin();
	pthread_t thread = thread_start(make_holes_and_idle, &step);
	while (atomic_load(&page_away_bytes) < HOLES)
		sched_yield();
	ck_assert_uint_eq(page_away_bytes, HOLES);
	ck_assert_uint_eq(reclaim_counts().parks, 1);
	step_reach(&step, 1);
	pthread_join(thread, NULL);
	await_sleep(1);
	reclaim_scavenger_stop();
}
END_TEST

START_TEST(test_freed_slices_go_without_anyone_asking)
{
	begin();
	char *p = alloc(5 * MIB);
	memset(p, 1, 5 * MIB);
	heap_free_slow(p);
	ck_assert(bell_unanswered);
	reclaim_scavenger_start();
	while (region_counts().dirty_bytes > 0)
		sched_yield();
	await_sleep(1);
	ck_assert_uint_eq(memory_resident(p, 5 * MIB), 0);
	reclaim_scavenger_stop();
}
END_TEST

START_TEST(test_idle_without_a_heap_or_twice_is_harmless)
{
	begin();
	reclaim_idle_leave_slow();
	reclaim_idle_enter_slow();
	ck_assert_uint_eq(reclaim_counts().parks, 0);
	reclaim_idle_leave_slow();
	make_holes(PAGES);
	reclaim_idle_leave_slow();
	reclaim_idle_enter_slow();
	reclaim_idle_enter_slow();
	ck_assert_uint_eq(reclaim_counts().parks, 1);
	reclaim_idle_leave_slow();
	ck_assert_ptr_ne(heap_tls, &heap_empty);
	reclaim_scavenger_stop();
}
END_TEST

/* 240 KiB: no reason to start a thread, but to park when there is one; 60 KiB are neither. */
START_TEST(test_a_little_is_not_worth_a_thread_and_less_not_a_park)
{
	begin();
	make_holes(_i == 0 ? 4 : 1);
	reclaim_idle_enter_slow();
	ck_assert(!scavenger_is_there());
	ck_assert_uint_eq(reclaim_counts().parks, 0);
	reclaim_scavenger_start();
	reclaim_idle_enter_slow();
	ck_assert_uint_eq(reclaim_counts().parks, _i == 0);
	reclaim_idle_leave_slow();
	reclaim_scavenger_stop();
}
END_TEST

/* --- the ring --------------------------------------------------------------------------------------------------------------------- */

#define LARGE (8 * MIB)

/* Something happens on the test's thread while the scavenger waits for the ring: it is told, and waits a moment for it to begin. */
static atomic_int in_wait; /* 1: the scavenger is there; 2: the test has begun */
static atomic_uint opened, closed;

static struct kernel_answer wait_with_company(unsigned expected)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&in_wait, &none, 1))
		while (atomic_load(&in_wait) == 1)
			sched_yield();
	return real.ring_wait(expected);
}

/* Earlier: something was just handed over, and the pass goes on. Until the test's thread waits for the scavenger's lock. */
static ssize_t submit_with_company(const struct kernel_request *request, size_t n, int advice)
{
	ssize_t taken = real.ring_submit(request, n, advice);
	int none = 0;

	if (atomic_compare_exchange_strong(&in_wait, &none, 1))
		while (!reclaim_is_wanted())
			sched_yield();
	return taken;
}

static int count_open(unsigned entries, unsigned workers_max)
{
	atomic_fetch_add(&opened, 1);
	return real.ring_open(entries, workers_max);
}

static void count_close(void)
{
	atomic_fetch_add(&closed, 1);
	real.ring_close();
}

static void begin_ring(bool company)
{
	begin();
	advise_set_way(ADVISE_URING);
	kernel.ring_open = count_open;
	kernel.ring_close = count_close;
	if (company)
		kernel.ring_wait = wait_with_company;
	else
		atomic_store(&in_wait, 2);
}

/* Frees what the scavenger will return by the ring. */
static char *free_large(void)
{
	char *p = alloc(LARGE);

	memset(p, 1, LARGE);
	heap_free_slow(p);
	reclaim_scavenger_start();
	return p;
}

static void await_company(void)
{
	while (atomic_load(&in_wait) == 0)
		sched_yield();
}

static void *be_company(void *unused)
{
	sched_yield();
	atomic_store(&in_wait, 2);
	return unused;
}

/* Lets the scavenger go on, soon: the caller is about to ask for a lock it holds. */
static pthread_t let_go_on(void)
{
	return thread_start(be_company, NULL);
}

/* What is in flight is not dirty any more, and not returned yet. */
static void await_returned(size_t bytes)
{
	while (region_counts().dirty_bytes > 0 || advise_counts().returned_bytes < bytes)
		sched_yield();
}

/* Ten times as fast, for this thread and the scavenger alike: five seconds are half a one. */
static uint64_t fast_now(void)
{
	return real.now_ns() * 10;
}

static int fast_wait(const void *word, uint32_t expected, uint64_t timeout_ns)
{
	return count_sleeps(word, expected, timeout_ns > HOUR_NS ? timeout_ns : timeout_ns / 10);
}

START_TEST(test_large_runs_go_by_the_ring_which_is_closed_when_all_is_quiet)
{
	begin_ring(false);
	kernel.now_ns = fast_now;
	kernel.futex_wait = fast_wait;
	char *p = free_large();
	await_returned(LARGE);
	ck_assert_uint_ge(advise_counts().ring_bytes, LARGE);
	ck_assert_uint_eq(memory_resident(p, 8 * MIB), 0);
	ck_assert_uint_eq(atomic_load(&opened), 1);
	/* five seconds later, and only then */
	while (atomic_load(&closed) == 0)
		sched_yield();
	uint64_t wakes = scavenger_wakes();
	unsigned before = atomic_load(&sleeps);
	await_sleep(before);
	ck_assert_uint_le(scavenger_wakes(), wakes + 1);
	reclaim_scavenger_stop();
	ck_assert_uint_eq(atomic_load(&closed), 1);
}
END_TEST

START_TEST(test_stopping_waits_for_what_is_in_flight_and_closes_the_ring)
{
	begin_ring(true);
	char *p = free_large();
	await_company();
	pthread_t company = let_go_on();
	reclaim_scavenger_stop();
	pthread_join(company, NULL);
	ck_assert_uint_eq(atomic_load(&opened), 1);
	ck_assert_uint_eq(atomic_load(&closed), 1);
	ck_assert_uint_eq(ring_in_flight(), 0);
	ck_assert_uint_ge(advise_counts().returned_bytes, LARGE);
	ck_assert_uint_eq(memory_resident(p, 8 * MIB), 0);
}
END_TEST

START_TEST(test_a_forced_collect_beside_finds_nothing_in_flight)
{
	begin_ring(true);
	char *p = alloc(LARGE);
	memset(p, 1, LARGE);
	free_large();
	await_company();
	heap_free_slow(p);
	pthread_t company = let_go_on();
	reclaim_collect(true);
	pthread_join(company, NULL);
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
	ck_assert_uint_ge(advise_counts().returned_bytes, 2 * LARGE);
	reclaim_scavenger_stop();
}
END_TEST

static int child_without_ring(void)
{
	reclaim_fork_done(true);
	if (ring_in_flight() != 0 || ring_is_mine() || region_counts().dirty_bytes != 0)
		return 1;
	char *p = alloc(LARGE);
	if (!memory_is_filled(p, LARGE, 0)) /* returned memory, and new */
		return 2;
	memset(p, 1, LARGE);
	heap_free_slow(p);
	if (reclaim_collect(true) < LARGE || region_counts().dirty_bytes != 0)
		return 3;
	if (UNIT_SANITIZER) /* no threads in the child of a process with threads */
		return 0;
	/* it opens one of its own */
	uint64_t before = advise_counts().ring_bytes;
	free_large();
	while (advise_counts().ring_bytes < before + LARGE)
		sched_yield();
	reclaim_scavenger_stop();
	return atomic_load(&opened) == 2 ? 0 : 4;
}

START_TEST(test_a_fork_during_a_flush_waits_for_what_is_in_flight)
{
	int status;

	begin_ring(_i == 0);
	if (_i == 1) {
		atomic_store(&in_wait, 0);
		kernel.ring_submit = submit_with_company;
	}
	free_large();
	await_company();
	pthread_t company = let_go_on();
	reclaim_fork_prepare();
	ck_assert_uint_eq(ring_in_flight(), 0);
	pid_t pid = fork();
	if (pid == 0)
		_exit(child_without_ring());
	reclaim_fork_done(false);
	pthread_join(company, NULL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	/* the parent's ring works on */
	uint64_t before = advise_counts().ring_bytes;
	free_large();
	await_returned(2 * LARGE);
	ck_assert_uint_ge(advise_counts().ring_bytes, before + LARGE);
	ck_assert_uint_eq(atomic_load(&opened), 1);
	reclaim_scavenger_stop();
}
END_TEST

#define ROUNDS (UNIT_SANITIZER ? 5 : 20)

/* All of it at once, by chance. */
START_TEST(test_forks_stops_and_collects_beside_the_ring)
{
	struct random random = {.state = 1};

	begin_ring(false);
	for (int round = 0; round < ROUNDS; round++) {
		int status = 0;
		pid_t pid = -1;

		free_large();
		for (unsigned i = random_below(&random, 2000); i > 0; i--)
			sched_yield();
		switch (random_below(&random, 3)) {
		case 0:
			reclaim_fork_prepare();
			pid = fork();
			if (pid == 0)
				_exit(0);
			reclaim_fork_done(false);
			waitpid(pid, &status, 0);
			break;
		case 1:
			reclaim_scavenger_stop();
			break;
		default:
			reclaim_collect(true);
			ck_assert_uint_eq(region_counts().dirty_bytes, 0);
		}
	}
	reclaim_scavenger_start();
	await_returned(0);
	reclaim_scavenger_stop();
	ck_assert_uint_eq(atomic_load(&opened), atomic_load(&closed));
}
END_TEST

/* --- without it ----------------------------------------------------------------------------------------------------------------------- */

static size_t dirty(void)
{
	char *p = alloc(2 * MIB);

	memset(p, 1, 2 * MIB);
	heap_free_slow(p);
	return region_counts().dirty_bytes;
}

START_TEST(test_switched_off_its_work_is_done_inline_once_a_tick)
{
	begin();
	fake_kernel_install();
	fake_clock_set(UINT64_C(1000) * RECLAIM_TICK_NS);
	reclaim_enable_scavenger(false);
	ck_assert_uint_gt(dirty(), 0);
	reclaim_scavenger_start();
	ck_assert(!scavenger_is_there());
	ck_assert(!is_running());
	/* a thread without a heap makes a pass: old slices only */
	fake_clock_add(RECLAIM_TICK_NS);
	reclaim_scavenger_start();
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
	alloc(64);
	dirty();
	fake_clock_add(RECLAIM_TICK_NS - 1);
	reclaim_scavenger_start();
	ck_assert_uint_eq(region_counts().dirty_bytes, 2 * MIB);
	fake_clock_add(1);
	errno = 77;
	reclaim_scavenger_start();
	ck_assert_int_eq(errno, 77);
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
	/* and nobody is parked: nobody would sweep */
	reclaim_idle_enter_slow();
	ck_assert_ptr_ne(heap_tls, &heap_empty);
	ck_assert_uint_eq(reclaim_counts().parks, 0);
}
END_TEST

/* A thread of the program's does a bounded part of it each tick, and all of it in the end. */
START_TEST(test_inline_a_pass_is_bounded_and_the_rest_is_remembered)
{
	char *block[4];
	uint64_t before = 0;
	unsigned passes = 0;

	begin();
	fake_kernel_install();
	fake_clock_set(UINT64_C(1000) * RECLAIM_TICK_NS);
	reclaim_enable_scavenger(false);
	if (_i == 0) /* free slices */
		for (unsigned i = 0; i < 4; i++)
			block[i] = memset(alloc(16 * MIB), 1, 16 * MIB);
	else
		make_holes(PAGES);
	for (unsigned i = 0; _i == 0 && i < 4; i++)
		heap_free_slow(block[i]);
	do {
		before = advise_counts().returned_bytes;
		fake_clock_add(RECLAIM_TICK_NS);
		bell_ring_now();
		reclaim_scavenger_start();
		ck_assert_uint_le(advise_counts().returned_bytes - before, 16 * MIB + 64 * KIB);
		ck_assert_uint_lt(passes++, 20);
	} while (bell_unanswered);
	ck_assert_uint_eq(region_counts().dirty_bytes, 0);
	ck_assert_uint_ge(advise_counts().returned_bytes, _i == 0 ? 64 * MIB : HOLES);
	ck_assert_uint_ge(passes, _i == 0 ? 4 : 1);
	/* what asks for all gets all */
	if (_i == 0) {
		for (unsigned i = 0; i < 4; i++)
			block[i] = memset(alloc(16 * MIB), 1, 16 * MIB);
		for (unsigned i = 0; i < 4; i++)
			heap_free_slow(block[i]);
		ck_assert_uint_ge(reclaim_collect(true), 64 * MIB);
	}
}
END_TEST

static int child_of_fork(void)
{
	reclaim_fork_done(true);
	if (scavenger_is_there() || bell_unanswered)
		return 1;
	bell_ring_now();
	if (!bell_unanswered)
		return 2;
	if (UNIT_SANITIZER) /* no threads in the child of a process with threads */
		return 0;
	unsigned before = atomic_load(&sleeps);
	reclaim_scavenger_start();
	if (!scavenger_is_there())
		return 3;
	await_sleep(before + 1);
	reclaim_scavenger_stop();
	while (is_running())
		sched_yield();
	return 0;
}

START_TEST(test_a_fork_child_starts_its_own)
{
	int status;

	begin();
	reclaim_scavenger_start();
	if (_i == 1)
		await_sleep(1);
	reclaim_fork_prepare();
	pid_t pid = fork();
	if (pid == 0)
		_exit(child_of_fork());
	reclaim_fork_done(false);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	/* the parent's is there still */
	ck_assert(scavenger_is_there());
	await_sleep(1);
	ck_assert(is_running());
	reclaim_scavenger_stop();
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("scavenger");
	TCase *life = tcase_create("coming and going"), *work = tcase_create("work"), *without = tcase_create("without it");
	TCase *ring = tcase_create("the ring");

	tcase_add_test(life, test_it_starts_when_it_is_asked_to_and_once);
	tcase_add_test(life, test_stopping_joins_and_it_can_start_again);
	tcase_add_test(life, test_it_sleeps_when_there_is_nothing_and_wakes_for_enough);
	tcase_add_test(life, test_signals_are_none_of_its_business);
	tcase_add_test(work, test_an_idle_threads_holes_go_while_it_waits);
	tcase_add_test(work, test_freed_slices_go_without_anyone_asking);
	tcase_add_test(work, test_idle_without_a_heap_or_twice_is_harmless);
	tcase_add_loop_test(work, test_a_little_is_not_worth_a_thread_and_less_not_a_park, 0, 2);
	tcase_add_test(without, test_switched_off_its_work_is_done_inline_once_a_tick);
	tcase_add_loop_test(without, test_inline_a_pass_is_bounded_and_the_rest_is_remembered, 0, 2);
	tcase_add_loop_test(without, test_a_fork_child_starts_its_own, 0, 2);
	if (caps_has(CAPS_URING_MADVISE)) {
		tcase_add_test(ring, test_large_runs_go_by_the_ring_which_is_closed_when_all_is_quiet);
		tcase_add_test(ring, test_stopping_waits_for_what_is_in_flight_and_closes_the_ring);
		tcase_add_test(ring, test_a_forced_collect_beside_finds_nothing_in_flight);
		tcase_add_loop_test(ring, test_a_fork_during_a_flush_waits_for_what_is_in_flight, 0, 2);
		tcase_add_test(ring, test_forks_stops_and_collects_beside_the_ring);
	}
	suite_add_tcase(suite, life);
	suite_add_tcase(suite, work);
	suite_add_tcase(suite, ring);
	suite_add_tcase(suite, without);
	return unit_run(suite);
}
