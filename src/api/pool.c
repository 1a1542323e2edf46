/* SPDX-License-Identifier: MIT */
/*
 * lull_pool: worker threads as a runtime's compiler threads are made. All state is under the pool's mutex. A worker looks at the queue
 * before it waits and after each wait, whatever ended it, so a job that found nobody to wake is seen by the next thread that looks.
 *
 * Threads end one by one, long before the pool does: each one that ends takes the place of the one that ended before it, and joins that.
 */
#include "base/base.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <lull/pool.h>

exported int lull_pool_init(struct lull_pool *pool, unsigned threads_max, uint64_t idle_ns)
{
	if (threads_max == 0)
		return EINVAL;
	*pool = (struct lull_pool){
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.work = LULL_COND_INIT,
		.quiet = LULL_COND_INIT,
		.threads_max = threads_max,
		.idle_ns = idle_ns,
	};
	return 0;
}

/* --- the queue, mutex held --------------------------------------------------------------------------------------------------------- */

static void put(struct lull_pool *pool, struct lull_pool_job *job)
{
	job->next = NULL;
	if (pool->last != NULL)
		pool->last->next = job;
	else
		pool->first = job;
	pool->last = job;
}

static struct lull_pool_job *take(struct lull_pool *pool)
{
	struct lull_pool_job *job = pool->first;
	if (job == NULL)
		return NULL;
	pool->first = job->next;
	if (pool->first == NULL)
		pool->last = NULL;
	return job;
}

/* --- a worker ---------------------------------------------------------------------------------------------------------------------- */

/* Mutex held, but not while the job runs. */
static void run(struct lull_pool *pool, struct lull_pool_job *job, struct lull_idle_release *release)
{
	pool->running++;
	pthread_mutex_unlock(&pool->mutex);
	lull_idle_release_reset(release, kernel.now_ns());
	job->run(job);
	pthread_mutex_lock(&pool->mutex);
	pool->running--;
	if (pool->running == 0 && pool->first == NULL)
		lull_cond_notify_all(&pool->quiet);
}

/* Mutex held. Until the pool ends, or nothing came for too long. */
static void work_until_idle(struct lull_pool *pool)
{
	struct lull_idle_release release = {0};
	bool timed_out = false;
	for (;;) {
		struct lull_pool_job *job = take(pool);
		if (job != NULL) {
			run(pool, job, &release);
			timed_out = false;
			continue;
		}
		if (pool->ending || timed_out)
			return;
		timed_out = lull_cond_timedwait(&pool->work, &pool->mutex, &release, pool->idle_ns) == LULL_WAIT_TIMED_OUT;
	}
}

/* Mutex held. True: *ret_before has ended before, and is the caller's to join. */
static bool take_place(struct lull_pool *pool, pthread_t *ret_before)
{
	bool joins = pool->has_ended;
	*ret_before = pool->ended;
	pool->ended = pthread_self();
	pool->has_ended = true;
	return joins;
}

static void *work(void *arg)
{
	struct lull_pool *pool = arg;
	pthread_t before;
	pthread_mutex_lock(&pool->mutex);
	work_until_idle(pool);
	bool joins = take_place(pool, &before);
	if (--pool->threads == 0)
		lull_cond_notify_all(&pool->quiet);
	pthread_mutex_unlock(&pool->mutex); /* the pool may be gone from here on, once this thread is joined */
	if (joins)
		pthread_join(before, NULL);
	return NULL;
}

/* --- for its users ----------------------------------------------------------------------------------------------------------------- */

/* Mutex held. 0 when there is a thread that will look at the queue. */
static int start_one(struct lull_pool *pool)
{
	pthread_t thread;
	if (pool->threads == pool->threads_max)
		return 0;
	int err = pthread_create(&thread, NULL, work, pool);
	if (err == 0)
		pool->threads++;
	return pool->threads > 0 ? 0 : err;
}

exported int lull_pool_submit(struct lull_pool *pool, struct lull_pool_job *job)
{
	int err = 0;
	if (job->run == NULL)
		return EINVAL;
	pthread_mutex_lock(&pool->mutex);
	put(pool, job);
	if (!lull_cond_notify_one(&pool->work))
		err = start_one(pool);
	if (err != 0)
		take(pool); /* the only one: with others in the queue there is a thread */
	pthread_mutex_unlock(&pool->mutex);
	return err;
}

/* Mutex held. Whoever waits here is as idle as a worker. */
static void wait_quiet(struct lull_pool *pool, struct lull_idle_release *release)
{
	lull_cond_timedwait(&pool->quiet, &pool->mutex, release, LULL_WAIT_FOREVER);
}

exported void lull_pool_wait(struct lull_pool *pool)
{
	struct lull_idle_release release;
	lull_idle_release_reset(&release, kernel.now_ns());
	pthread_mutex_lock(&pool->mutex);
	while (pool->first != NULL || pool->running > 0)
		wait_quiet(pool, &release);
	pthread_mutex_unlock(&pool->mutex);
}

/* The pool is the caller's memory: whoever is cancelled leaves it only when it is whole. */
static void join(pthread_t thread)
{
	int before;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_join(thread, NULL);
	pthread_setcancelstate(before, &before);
}

exported void lull_pool_destroy(struct lull_pool *pool)
{
	struct lull_idle_release release;
	lull_idle_release_reset(&release, kernel.now_ns());
	pthread_mutex_lock(&pool->mutex);
	pool->ending = true;
	lull_cond_notify_all(&pool->work);
	while (pool->threads > 0)
		wait_quiet(pool, &release);
	pthread_mutex_unlock(&pool->mutex);
	if (pool->has_ended)
		join(pool->ended);
	lull_cond_destroy(&pool->work);
	lull_cond_destroy(&pool->quiet);
	pthread_mutex_destroy(&pool->mutex);
}

exported unsigned lull_pool_threads(struct lull_pool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	unsigned threads = pool->threads;
	pthread_mutex_unlock(&pool->mutex);
	return threads;
}
