/* SPDX-License-Identifier: MIT */
/*
 * What tests of heaps share: running a function as a thread of its own, and meeting points between such a thread and the test.
 */
#ifndef TESTS_UNIT_HEAP_HEAPS_H
#define TESTS_UNIT_HEAP_HEAPS_H

#include "heap/heap.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

static inline pthread_t thread_start(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
	return thread;
}

/* Start and end. */
static inline void thread_run(void *(*fn)(void *), void *arg)
{
	ck_assert_int_eq(pthread_join(thread_start(fn, arg), NULL), 0);
}

/* Steps of a play between threads: whoever waits for step N goes on when it was reached. */
static inline void step_reach(atomic_int *step, int n)
{
	atomic_store(step, n);
}

static inline void step_await(atomic_int *step, int n)
{
	for (unsigned i = 0; atomic_load(step) < n; i++) {
		if (i < 1000) /* close on the other's heels, where both have a processor */
			cpu_relax();
		else
			sched_yield();
	}
}

static inline struct page *page_under(const void *block)
{
	struct page *page = page_of(block);

	ck_assert_ptr_nonnull(page);
	return page;
}

static inline void *alloc(size_t size)
{
	void *block = heap_alloc_slow(size);

	ck_assert_ptr_nonnull(block);
	return block;
}

static inline unsigned state_of(struct heap *heap)
{
	return atomic_load(&heap->state);
}

static inline struct heap *owner_of(struct page *page)
{
	return atomic_load(&page->owner);
}

#endif
