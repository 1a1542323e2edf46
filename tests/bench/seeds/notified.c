/* SPDX-License-Identifier: MIT */
/*
 * A thread that is notified soon. It frees 10 MiB of large blocks and then waits 200 times, each wait ended by a notify within some
 * milliseconds: far inside the 100 ms before a first release. How many sweeps and how many releases do those waits cause?
 *
 *   notified WAIT   how it waits: cond (the preload parks it) or lull_cond (waits.h)
 */
#include "waits.h"

#include <lull/stats.h>

#define NOTIFIES 200
#define BUFFERS 40

static unsigned waited;
static bool waiting;
static __typeof__(&lull_cond_notify_one) notify_one;

/* Notifies whoever waits, a millisecond after it began to, until there were enough waits. */
static void *notify(void *arg)
{
	(void)arg;
	for (;;) {
		stress_pause_ms(1);
		pthread_mutex_lock(&waits.lock);
		bool ends = waited == NOTIFIES;
		if (waiting && waits.way == WAIT_LULL_COND)
			notify_one(&waits.lull_cond);
		else if (waiting)
			pthread_cond_signal(&waits.cond);
		waiting = false;
		pthread_mutex_unlock(&waits.lock);
		if (ends)
			return NULL;
	}
}

/* `waiting` is false again when the notify was for this wait. */
static void wait_for_notify(void)
{
	waiting = true;
	while (waiting && waits.way == WAIT_LULL_COND)
		waits.cond_timedwait(&waits.lull_cond, &waits.lock, &waits.release, LULL_WAIT_FOREVER);
	while (waiting)
		pthread_cond_wait(&waits.cond, &waits.lock);
	waited++;
}

int main(int argc, char **argv)
{
	static struct pile pile;
	struct lull_stats before = {0}, after = {0};
	__typeof__(&lull_stats_read) read_stats;
	scenario_begin("notified");
	waits_begin(argc == 2 ? argv[1] : "");
	*(void **)&read_stats = scenario_need_call("lull_stats_read");
	if (waits.way == WAIT_LULL_COND)
		*(void **)&notify_one = scenario_need_call("lull_cond_notify_one");
	pthread_t notifier = stress_thread(notify, NULL);
	pile_fill_count(&pile, BUFFER_BYTES, BUFFERS);
	pile_free(&pile);
	read_stats(&before, sizeof(before));
	unsigned releases = 0;
	pthread_mutex_lock(&waits.lock);
	while (waited < NOTIFIES) {
		if (waits.way == WAIT_LULL_COND)
			waits.release_reset(&waits.release, now_ns());
		wait_for_notify();
		releases += waits.release.made;
	}
	pthread_mutex_unlock(&waits.lock);
	read_stats(&after, sizeof(after));
	pthread_join(notifier, NULL);
	printf("notified waits=%u releases=%u sweeps=%ju\n", waited, releases, (uintmax_t)(after.sweeps - before.sweeps));
	return 0;
}
