/* SPDX-License-Identifier: MIT */
/*
 * lull: a small pool of worker threads that is quiet when it has nothing to do. A thread starts when a job finds none asleep, up to a
 * limit; jobs run in the order in which they were submitted; an idle thread gives its memory back by the rule of lull/idle.h and ends
 * after a timeout, which returns the rest of it. The pool and its jobs lie in the caller's memory; nothing is allocated for a job.
 *
 * All calls may be made from any thread, also from a job, but for lull_pool_wait and lull_pool_destroy, which would wait for that job.
 * None of them is a cancellation point or async-signal-safe. The child of a fork has no threads: there a pool is initialised anew.
 */
#ifndef LULL_POOL_H
#define LULL_POOL_H

#include <lull/wait.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 10 s, what language engines give their helper threads: one more thread in ten seconds costs nothing that is felt. */
#define LULL_POOL_IDLE_NS (UINT64_C(10) * 1000 * 1000 * 1000)

/*
 * One piece of work, the pool's from lull_pool_submit until RUN is called; then it is the function's, which may free it or submit it again.
 * run must return: neither pthread_exit nor a cancellation may end it. It gets the signals that the submitting thread did not block when
 * it started the worker.
 */
struct lull_pool_job {
	void (*run)(struct lull_pool_job *job);
	struct lull_pool_job *next; /* the pool's */
};

/* Lull's own. */
struct lull_pool {
	pthread_mutex_t mutex;
	struct lull_cond work;  /* a job was queued, or the pool ends */
	struct lull_cond quiet; /* nothing is queued or running, or no thread is left */
	struct lull_pool_job *first, *last;
	unsigned threads_max, threads, running;
	uint64_t idle_ns;
	bool ending;
	bool has_ended;  /* ended is valid */
	pthread_t ended; /* the thread that ended last: it joins the one before it, and is joined by the next or by destroy */
};

/*
 * threads_max  1 or more
 * idle_ns      nanoseconds an idle thread stays: LULL_POOL_IDLE_NS, or LULL_WAIT_FOREVER for no end
 * Returns 0 or EINVAL. Starts no thread.
 */
int lull_pool_init(struct lull_pool *pool, unsigned threads_max, uint64_t idle_ns);

/* Queue JOB, and wake or start a thread for it. Returns 0; EINVAL when its run is NULL; or the error of pthread_create (EAGAIN) when there
 * is no thread and none can be started. After an error JOB is the caller's still. */
int lull_pool_submit(struct lull_pool *pool, struct lull_pool_job *job);

/* Wait until no job is queued or running. */
void lull_pool_wait(struct lull_pool *pool);

/* Run what is queued, end all threads and wait for them. Afterwards POOL is mere memory. */
void lull_pool_destroy(struct lull_pool *pool);

/* Threads there are now, working or idle. */
unsigned lull_pool_threads(struct lull_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
