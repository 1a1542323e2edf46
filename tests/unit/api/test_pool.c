/* SPDX-License-Identifier: MIT */
/*
 * Suite pool: every job runs once, threads come when they are wanted and go when they are not, and idle ones follow the release rule.
 */
#include "unit/api/play.h"

#include <lull/pool.h>

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static struct lull_pool pool;

struct job {
	struct lull_pool_job job; /* first */
	atomic_uint runs;
	unsigned place; /* in the order of running */
};

static atomic_uint ran;
static atomic_bool gate; /* jobs that wait for it hold their thread */

static void note(struct lull_pool_job *job)
{
	struct job *self = (struct job *)job;

	self->place = atomic_fetch_add(&ran, 1);
	atomic_fetch_add(&self->runs, 1);
}

static void note_at_gate(struct lull_pool_job *job)
{
	while (!atomic_load(&gate))
		sched_yield();
	note(job);
}

static void begin(unsigned threads_max, uint64_t idle_ns)
{
	ck_assert_int_eq(lull_pool_init(&pool, threads_max, idle_ns), 0);
	ck_assert_uint_eq(lull_pool_threads(&pool), 0);
}

static void submit(struct job *job, void (*run)(struct lull_pool_job *))
{
	job->job.run = run;
	ck_assert_int_eq(lull_pool_submit(&pool, &job->job), 0);
}

static void await_sleeps(unsigned n)
{
	while (atomic_load(&fast.sleeps) < n)
		sched_yield();
}

static unsigned tasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* Joined threads: the kernel has none of them, or will not for long. A sanitizer has one of its own. */
static void await_threads_gone(void)
{
	while (!SANITIZED && tasks() > 1)
		sched_yield();
}

/* --- jobs ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_a_pool_without_threads_is_refused)
{
	ck_assert_int_eq(lull_pool_init(&pool, 0, LULL_POOL_IDLE_NS), EINVAL);
}
END_TEST

START_TEST(test_a_pool_without_jobs_has_no_thread_and_is_idle)
{
	begin(4, LULL_POOL_IDLE_NS);
	lull_pool_wait(&pool);
	lull_pool_destroy(&pool);
}
END_TEST

#define JOBS 100

START_TEST(test_one_thread_runs_jobs_in_order)
{
	static struct job jobs[JOBS];

	begin(1, LULL_POOL_IDLE_NS);
	for (int i = 0; i < JOBS; i++)
		submit(&jobs[i], note);
	lull_pool_wait(&pool);
	for (unsigned i = 0; i < JOBS; i++) {
		ck_assert_uint_eq(jobs[i].runs, 1);
		ck_assert_uint_eq(jobs[i].place, i);
	}
	ck_assert_uint_eq(lull_pool_threads(&pool), 1);
	lull_pool_destroy(&pool);
}
END_TEST

START_TEST(test_destroy_runs_what_is_queued)
{
	static struct job jobs[JOBS];

	begin(2, LULL_POOL_IDLE_NS);
	for (int i = 0; i < JOBS; i++)
		submit(&jobs[i], note);
	lull_pool_destroy(&pool);
	ck_assert_uint_eq(atomic_load(&ran), JOBS);
}
END_TEST

static void run_again(struct lull_pool_job *job)
{
	note(job);
	if (atomic_load(&ran) < JOBS)
		ck_assert_int_eq(lull_pool_submit(&pool, job), 0);
}

static void run_and_free(struct lull_pool_job *job)
{
	note(job);
	free(job);
}

START_TEST(test_a_job_that_runs_is_its_functions)
{
	struct job again = {0};

	begin(2, LULL_POOL_IDLE_NS);
	submit(&again, run_again);
	if (_i == 0)
		lull_pool_wait(&pool);
	lull_pool_destroy(&pool);
	ck_assert_uint_eq(again.runs, JOBS);
	begin(2, LULL_POOL_IDLE_NS);
	for (int i = 0; i < JOBS; i++)
		submit(calloc(1, sizeof(struct job)), run_and_free);
	lull_pool_destroy(&pool);
	ck_assert_uint_eq(atomic_load(&ran), 2 * JOBS);
}
END_TEST

/* --- threads -------------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_threads_start_while_all_are_busy_up_to_the_limit)
{
	struct job jobs[5] = {0};

	begin(3, LULL_POOL_IDLE_NS);
	for (unsigned i = 0; i < 5; i++) {
		submit(&jobs[i], note_at_gate);
		ck_assert_uint_eq(lull_pool_threads(&pool), i < 3 ? i + 1 : 3);
	}
	atomic_store(&gate, true);
	lull_pool_wait(&pool);
	ck_assert_uint_eq(atomic_load(&ran), 5);
	lull_pool_destroy(&pool);
	await_threads_gone();
}
END_TEST

START_TEST(test_a_thread_that_sleeps_is_woken_and_no_other_started)
{
	struct job job = {0};

	fast_begin();
	fast.for_good = true;
	begin(3, LULL_POOL_IDLE_NS);
	for (unsigned i = 0; i < JOBS; i++) {
		unsigned before = atomic_load(&fast.sleeps);
		submit(&job, note);
		while (atomic_load(&job.runs) == i)
			sched_yield();
		await_sleeps(before + 1);
		ck_assert_uint_eq(lull_pool_threads(&pool), 1);
	}
	lull_pool_destroy(&pool);
}
END_TEST

START_TEST(test_idle_threads_end_and_new_ones_come)
{
	struct job jobs[3] = {0};

	begin(3, 1 * MS);
	for (int round = 0; round < 3; round++) {
		atomic_store(&gate, false);
		for (unsigned i = 0; i < 3; i++)
			submit(&jobs[i], note_at_gate);
		ck_assert_uint_eq(lull_pool_threads(&pool), 3);
		atomic_store(&gate, true);
		while (lull_pool_threads(&pool) > 0)
			sched_yield();
		ck_assert_uint_eq(atomic_load(&ran), 3 * ((unsigned)round + 1));
	}
	lull_pool_destroy(&pool);
	await_threads_gone();
}
END_TEST

START_TEST(test_a_job_without_any_thread_to_run_it_stays_the_callers)
{
	struct job job = {0}, second = {0};
	struct rlimit before, none;

	begin(2, LULL_POOL_IDLE_NS);
	job.job.run = note;
	ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
	none = before;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_AS, &none); /* no room for a stack */
	int err = lull_pool_submit(&pool, &job.job);
	setrlimit(RLIMIT_AS, &before);
	ck_assert_int_eq(err, EAGAIN);
	lull_pool_wait(&pool);
	ck_assert_uint_eq(job.runs, 0);
	submit(&job, note_at_gate);
	setrlimit(RLIMIT_AS, &none); /* with one that is busy, it is done later */
	second.job.run = note;
	err = lull_pool_submit(&pool, &second.job);
	setrlimit(RLIMIT_AS, &before);
	ck_assert_int_eq(err, 0);
	ck_assert_uint_eq(lull_pool_threads(&pool), 1);
	atomic_store(&gate, true);
	lull_pool_wait(&pool);
	ck_assert_uint_eq(atomic_load(&ran), 2);
	lull_pool_destroy(&pool);
}
END_TEST

/* --- releases ------------------------------------------------------------------------------------------------------------------------- */

static bool count_release(void)
{
	atomic_fetch_add(&fast.releases, 1);
	return false;
}

/* The main thread does not wait in the pool here: it would follow the rule, too. */
START_TEST(test_an_idle_worker_releases_four_times_for_each_time_it_worked)
{
	struct job job = {0};

	fast_begin();
	idle_release_calls.release = count_release;
	begin(1, LULL_WAIT_FOREVER);
	for (unsigned round = 1; round <= 3; round++) {
		submit(&job, note);
		while (atomic_load(&fast.releases) < round * LULL_IDLE_RELEASES)
			sched_yield();
	}
	idle_release_calls.release = fast_release; /* whoever destroys waits, and may release */
	ck_assert_uint_eq(atomic_load(&fast.releases), 3 * LULL_IDLE_RELEASES);
	lull_pool_destroy(&pool);
}
END_TEST

/* --- many ----------------------------------------------------------------------------------------------------------------------------- */

#define SUBMITTERS 3
#define MANY 2000

static struct job many[SUBMITTERS][MANY];

static void *submit_many(void *arg)
{
	struct job *jobs = arg;

	for (unsigned i = 0; i < MANY; i++) {
		submit(&jobs[i], note);
		if (i % 64 == 0)
			lull_pool_wait(&pool);
	}
	return NULL;
}

/* Idle for a moment only: threads come and go all the time. */
START_TEST(test_every_job_runs_once)
{
	pthread_t threads[SUBMITTERS];

	fast_begin();
	begin(4, _i == 0 ? 50 * MS : 350 * MS);
	for (int i = 0; i < SUBMITTERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, submit_many, many[i]), 0);
	for (int i = 0; i < SUBMITTERS; i++)
		pthread_join(threads[i], NULL);
	lull_pool_wait(&pool);
	ck_assert_uint_eq(atomic_load(&ran), SUBMITTERS * MANY);
	for (int i = 0; i < SUBMITTERS; i++)
		for (int j = 0; j < MANY; j++)
			unit_holds(many[i][j].runs == 1);
	lull_pool_destroy(&pool);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("pool");
	TCase *work = tcase_create("jobs"), *threads = tcase_create("threads"), *idle = tcase_create("releases"), *crowd = tcase_create("many");

	tcase_add_test(work, test_a_pool_without_threads_is_refused);
	tcase_add_test(work, test_a_pool_without_jobs_has_no_thread_and_is_idle);
	tcase_add_test(work, test_one_thread_runs_jobs_in_order);
	tcase_add_test(work, test_destroy_runs_what_is_queued);
	tcase_add_loop_test(work, test_a_job_that_runs_is_its_functions, 0, 2);
	tcase_add_test(threads, test_threads_start_while_all_are_busy_up_to_the_limit);
	tcase_add_test(threads, test_a_thread_that_sleeps_is_woken_and_no_other_started);
	tcase_add_test(threads, test_idle_threads_end_and_new_ones_come);
	if (!SANITIZED) /* they need memory at any time */
		tcase_add_test(threads, test_a_job_without_any_thread_to_run_it_stays_the_callers);
	tcase_add_test(idle, test_an_idle_worker_releases_four_times_for_each_time_it_worked);
	tcase_add_loop_test(crowd, test_every_job_runs_once, 0, 2);
	suite_add_tcase(suite, work);
	suite_add_tcase(suite, threads);
	suite_add_tcase(suite, idle);
	suite_add_tcase(suite, crowd);
	return unit_run(suite);
}
