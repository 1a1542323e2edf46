/* SPDX-License-Identifier: MIT */
/*
 * A crew: threads that wait for an order, do one job each and wait again, as the threads of a compiler do. The main thread gives
 * orders and learns when all of them wait.
 *
 * They wait in pthread_cond_wait, or (raw) in a futex call that is made by an instruction of this file: no preloaded library sees
 * that one. A job gets the thread's index. Only the main thread calls crew_start, crew_order, crew_settle and crew_end.
 */
#ifndef SEEDS_CREW_H
#define SEEDS_CREW_H

#include "scenario.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#define CREW_MAX 8

struct crew {
	void (*job)(unsigned index);
	unsigned threads;
	bool raw;
	bool ends;
	pthread_mutex_t lock;
	pthread_cond_t ordered_changed, waiting_changed;
	_Atomic uint32_t ordered; /* number of the last order; changes under the lock */
	unsigned waiting;         /* threads that wait for an order, under the lock */
	pthread_t ids[CREW_MAX];
};

struct crew_member {
	struct crew *crew;
	unsigned index;
};

/* futex(2) without libc: FUTEX_WAIT on *word while it holds `value`, FUTEX_WAKE of everybody otherwise. */
static inline long raw_futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
#if defined(__x86_64__)
	long result;
	register long timeout __asm__("r10") = 0;
	__asm__ volatile("syscall"
					 : "=a"(result)
					 : "a"(SYS_futex), "D"(word), "S"(operation | FUTEX_PRIVATE_FLAG), "d"(value), "r"(timeout)
					 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_futex;
	register long result __asm__("x0") = (long)word;
	register long op __asm__("x1") = operation | FUTEX_PRIVATE_FLAG;
	register long val __asm__("x2") = value;
	register long timeout __asm__("x3") = 0;
	__asm__ volatile("svc #0" : "+r"(result) : "r"(number), "r"(op), "r"(val), "r"(timeout) : "memory");
	return result;
#else
#error "add the system call instruction of this architecture"
#endif
}

static void crew_wait_raw(struct crew *crew, uint32_t done)
{
	pthread_mutex_unlock(&crew->lock);
	while (atomic_load(&crew->ordered) == done)
		raw_futex(&crew->ordered, FUTEX_WAIT, done);
	pthread_mutex_lock(&crew->lock);
}

/* The lock makes "waiting" exact for the condition; a raw waiter is at most a few instructions short of its wait. */
static void crew_wait_for_order(struct crew *crew, uint32_t done)
{
	pthread_mutex_lock(&crew->lock);
	crew->waiting++;
	pthread_cond_signal(&crew->waiting_changed);
	while (atomic_load(&crew->ordered) == done) {
		if (crew->raw)
			crew_wait_raw(crew, done);
		else
			pthread_cond_wait(&crew->ordered_changed, &crew->lock);
	}
	pthread_mutex_unlock(&crew->lock);
}

static void *crew_work(void *arg)
{
	struct crew_member member = *(struct crew_member *)arg;
	for (uint32_t done = 0;; done++) {
		crew_wait_for_order(member.crew, done);
		if (member.crew->ends)
			return NULL;
		member.crew->job(member.index);
	}
}

/* Returns once all threads wait. */
__attribute__((unused)) static void crew_settle(struct crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	while (crew->waiting < crew->threads)
		pthread_cond_wait(&crew->waiting_changed, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
}

__attribute__((unused)) static void crew_start(struct crew *crew)
{
	static struct crew_member members[2 * CREW_MAX];
	static unsigned started; /* of all crews: a thread reads its member after crew_start has returned, maybe */
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->ordered_changed, NULL);
	pthread_cond_init(&crew->waiting_changed, NULL);
	for (unsigned i = 0; i < crew->threads; i++) {
		struct crew_member *member = &members[started++];
		*member = (struct crew_member){.crew = crew, .index = i};
		crew->ids[i] = stress_thread(crew_work, member);
	}
	crew_settle(crew);
}

/* Everybody does the job once; does not wait for them. They must be settled. */
__attribute__((unused)) static void crew_order(struct crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	crew->waiting = 0;
	atomic_fetch_add(&crew->ordered, 1);
	pthread_cond_broadcast(&crew->ordered_changed);
	pthread_mutex_unlock(&crew->lock);
	if (crew->raw)
		raw_futex(&crew->ordered, FUTEX_WAKE, INT32_MAX);
}

__attribute__((unused)) static void crew_end(struct crew *crew)
{
	crew_settle(crew);
	crew->ends = true;
	crew_order(crew);
	for (unsigned i = 0; i < crew->threads; i++)
		pthread_join(crew->ids[i], NULL);
}

#endif
