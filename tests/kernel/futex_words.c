/* SPDX-License-Identifier: MIT */
/*
 * What sleeping on a word promises: no sleep when the word has changed already, an end at the time given (and not before), a wake
 * that says how many it woke.
 */
#include "kernel/kernel.h"
#include "support/fact.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MS 1000000u

static atomic_uint word;
static atomic_int result = 1;

static void *sleep_on_word(void *arg)
{
	(void)arg;
	atomic_store(&result, kernel.futex_wait(&word, 0, KERNEL_NO_TIMEOUT));
	return NULL;
}

int main(void)
{
	pthread_t thread;
	uint64_t before = kernel.now_ns();

	fact(kernel.futex_wait(&word, 1, KERNEL_NO_TIMEOUT) == -EAGAIN, "a changed word means no sleep");
	fact(kernel.futex_wait(&word, 0, 0) == -ETIMEDOUT, "no time means no sleep");
	fact(kernel.futex_wait(&word, 0, 20 * MS) == -ETIMEDOUT, "time runs out");
	fact(kernel.now_ns() - before >= 20 * MS, "but not early");
	fact(kernel.futex_wake(&word, 1) == 0, "nobody to wake");
	fact(pthread_create(&thread, NULL, sleep_on_word, NULL) == 0, "a thread");
	while (kernel.futex_wake(&word, 1) == 0)
		sched_yield();
	pthread_join(thread, NULL);
	fact(result == 0, "a sleeper is woken and knows");
	return 0;
}
