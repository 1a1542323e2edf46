/* SPDX-License-Identifier: MIT */
/*
 * A second thread that does what the test tells it, one thing after another, so that a test can be written down in the order in which
 * things happen. Between two tasks it does nothing at all with the allocator.
 */
#ifndef TESTS_UNIT_RECLAIM_OTHER_THREAD_H
#define TESTS_UNIT_RECLAIM_OTHER_THREAD_H

#include "unit/heap/heaps.h"

enum other_todo { OTHER_NOTHING = 0, OTHER_TASK, OTHER_END };

struct other {
	pthread_t thread;
	void (*task)(void *arg);
	void *arg;
	atomic_int todo; /* enum other_todo; seq_cst publishes the two above */
};

static inline void *other_main(void *arg)
{
	struct other *other = arg;

	for (;;) {
		switch (atomic_load(&other->todo)) {
		case OTHER_NOTHING:
			sched_yield();
			break;
		case OTHER_TASK:
			other->task(other->arg);
			atomic_store(&other->todo, OTHER_NOTHING);
			break;
		default:
			return NULL;
		}
	}
}

static inline void other_start(struct other *other)
{
	other->thread = thread_start(other_main, other);
}

/* Returns when it is done. */
static inline void other_do(struct other *other, void (*task)(void *arg), void *arg)
{
	other->task = task;
	other->arg = arg;
	atomic_store(&other->todo, OTHER_TASK);
	while (atomic_load(&other->todo) != OTHER_NOTHING)
		sched_yield();
}

static inline void other_end(struct other *other)
{
	atomic_store(&other->todo, OTHER_END);
	ck_assert_int_eq(pthread_join(other->thread, NULL), 0);
}

#endif
