/* SPDX-License-Identifier: MIT */
/*
 * One timed wait of the calling thread that nobody ends before its time, made in one of three ways:
 *
 *   cond       pthread_cond_timedwait on the monotonic clock: what every program has
 *   lull_cond  lull_cond_timedwait, after work was done (lull_idle_release_reset)
 *   address    lull_wait_on_address32
 *
 * The last two are looked up when they are wanted; a process without them ends with the line that names the call.
 */
#ifndef SEEDS_WAITS_H
#define SEEDS_WAITS_H

#include "scenario.h"

#include <lull/wait.h>

enum wait_way { WAIT_COND, WAIT_LULL_COND, WAIT_ADDRESS, WAIT_WAYS };

static const char *const wait_names[WAIT_WAYS] = {"cond", "lull_cond", "address"};

static struct {
	enum wait_way way;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct lull_cond lull_cond;
	struct lull_idle_release release;
	uint32_t word;
	__typeof__(&lull_cond_timedwait) cond_timedwait;
	__typeof__(&lull_idle_release_reset) release_reset;
	__typeof__(&lull_wait_on_address32) wait_on_address;
} waits = {.lock = PTHREAD_MUTEX_INITIALIZER, .lull_cond = LULL_COND_INIT};

static void waits_begin(const char *name)
{
	pthread_condattr_t attributes;
	for (waits.way = 0; waits.way < WAIT_WAYS && strcmp(name, wait_names[waits.way]) != 0; waits.way++)
		;
	if (waits.way == WAIT_WAYS)
		stress_fail("'%s' is not one of: cond lull_cond address", name);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&waits.cond, &attributes);
	if (waits.way == WAIT_LULL_COND) {
		*(void **)&waits.cond_timedwait = scenario_need_call("lull_cond_timedwait");
		*(void **)&waits.release_reset = scenario_need_call("lull_idle_release_reset");
	}
	if (waits.way == WAIT_ADDRESS)
		*(void **)&waits.wait_on_address = scenario_need_call("lull_wait_on_address32");
}

__attribute__((unused)) static void waits_wait(uint64_t ns)
{
	struct timespec until = timespec_of(now_ns() + ns);
	if (waits.way == WAIT_ADDRESS) {
		waits.wait_on_address(&waits.word, 0, ns, NULL);
		return;
	}
	if (waits.way == WAIT_LULL_COND)
		waits.release_reset(&waits.release, now_ns());
	pthread_mutex_lock(&waits.lock);
	if (waits.way == WAIT_LULL_COND)
		waits.cond_timedwait(&waits.lull_cond, &waits.lock, &waits.release, ns);
	else
		while (pthread_cond_timedwait(&waits.cond, &waits.lock, &until) != ETIMEDOUT)
			;
	pthread_mutex_unlock(&waits.lock);
}

#endif
