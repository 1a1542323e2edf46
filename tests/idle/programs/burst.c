/* SPDX-License-Identifier: MIT */
/*
 * Bursts of threads that then wait. Eight threads each allocate and write 46 MiB in blocks of 96 to 480 KiB; the blocks are freed and
 * every thread waits in pthread_cond_wait. How much more is resident than before the burst, 250 ms and 1 s later?
 *
 *   burst own     each thread frees its own blocks, then waits
 *   burst other   the threads wait with their blocks live; another thread frees them, then waits as well
 *
 * Prints one line. Exit 0 when growth 250 ms after the best of three bursts, and after each of them in the end, is at most LIMIT_KIB.
 */
#define STRESS_STANDARD_NAMES 1
#include "../../support/stress_util.h"

#define THREADS 8
#define BURST_BYTES (46 * STRESS_MIB)
#define MAX_BLOCKS 512 /* of at least 96 KiB each */
#define BURSTS 3
#define LIMIT_KIB 4096
#define IN_THE_END_MS 5000

struct worker {
	struct stress_rng rng;
	void *blocks[MAX_BLOCKS];
	unsigned count;
	pthread_t thread;
};

static struct worker workers[THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_changed = PTHREAD_COND_INITIALIZER;
static pthread_cond_t waiting_changed = PTHREAD_COND_INITIALIZER;
static unsigned burst, clean_up; /* numbers of the last one asked for */
static unsigned waiting;         /* threads that wait for the next one */
static bool freed_by_other;

static void allocate(struct worker *w)
{
	w->count = 0;
	for (size_t sum = 0; sum < BURST_BYTES;) {
		size_t size = stress_between(&w->rng, 96 * STRESS_KIB, 480 * STRESS_KIB);
		unsigned char *p = malloc(size);
		if (!p)
			stress_fail("out of memory");
		memset(p, 0x5a, size);
		w->blocks[w->count++] = p;
		sum += size;
	}
}

static void release(struct worker *w)
{
	for (unsigned i = 0; i < w->count; i++)
		free(w->blocks[i]);
	w->count = 0;
}

/* Waits for *number to pass `done`. The lock makes "waiting" exact: whoever sees the count has every one of them in the wait. */
static void wait_for_work(const unsigned *number, unsigned done)
{
	pthread_mutex_lock(&lock);
	waiting++;
	pthread_cond_signal(&waiting_changed);
	while (*number == done)
		pthread_cond_wait(&work_changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	for (unsigned done = 0;; done++) {
		wait_for_work(&burst, done);
		if (done == BURSTS)
			return NULL;
		allocate(w);
		if (!freed_by_other)
			release(w);
	}
}

static void *free_blocks_of_others(void *arg)
{
	(void)arg;
	for (unsigned done = 0;; done++) {
		wait_for_work(&clean_up, done);
		if (done == BURSTS)
			return NULL;
		for (unsigned t = 0; t < THREADS; t++)
			release(&workers[t]);
	}
}

/* Starts what waits for *number, if anything is asked for, and returns once `threads` threads wait again. */
static void run_and_wait(unsigned *number, unsigned starting, unsigned threads)
{
	pthread_mutex_lock(&lock);
	if (number) {
		++*number;
		waiting -= starting;
		pthread_cond_broadcast(&work_changed);
	}
	while (waiting < threads)
		pthread_cond_wait(&waiting_changed, &lock);
	pthread_mutex_unlock(&lock);
}

static size_t growth_kib(size_t baseline)
{
	size_t now = stress_rss_anon_kib();
	return now > baseline ? now - baseline : 0;
}

int main(int argc, char **argv)
{
	size_t best_250ms = SIZE_MAX, best_1s = SIZE_MAX, worst_end = 0, peak = 0;
	stress_name = "burst";
	alarm(stress_limit_s());
	freed_by_other = argc > 1 && strcmp(argv[1], "other") == 0;
	unsigned threads = THREADS + freed_by_other;
	pthread_t other = {0};
	for (unsigned t = 0; t < THREADS; t++) {
		workers[t].rng = stress_rng_make(t);
		workers[t].thread = stress_thread(work, &workers[t]);
	}
	if (freed_by_other)
		other = stress_thread(free_blocks_of_others, NULL);
	run_and_wait(NULL, 0, threads);
	size_t baseline = stress_rss_anon_kib();
	for (unsigned i = 0; i < BURSTS; i++) {
		run_and_wait(&burst, THREADS, threads);
		if (freed_by_other) {
			peak = growth_kib(baseline);
			run_and_wait(&clean_up, 1, threads);
		}
		stress_pause_ms(250);
		size_t growth = growth_kib(baseline);
		best_250ms = growth < best_250ms ? growth : best_250ms;
		stress_pause_ms(750);
		growth = growth_kib(baseline);
		best_1s = growth < best_1s ? growth : best_1s;
		for (unsigned ms = 1000; growth > LIMIT_KIB && ms < IN_THE_END_MS; ms += 100, growth = growth_kib(baseline))
			stress_pause_ms(100);
		worst_end = growth > worst_end ? growth : worst_end;
	}
	printf("burst-%s baseline_kib=%zu growth_kib_250ms=%zu growth_kib_1s=%zu growth_kib_end=%zu", freed_by_other ? "other" : "own",
		baseline, best_250ms, best_1s, worst_end);
	if (freed_by_other)
		printf(" live_kib=%zu", peak);
	puts("");
	pthread_mutex_lock(&lock);
	burst++;
	clean_up++;
	pthread_cond_broadcast(&work_changed);
	pthread_mutex_unlock(&lock);
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(workers[t].thread, NULL);
	if (freed_by_other)
		pthread_join(other, NULL);
	return best_250ms > LIMIT_KIB || worst_end > LIMIT_KIB;
}
