/* SPDX-License-Identifier: MIT */
/*
 * How often the background thread wakes.
 *
 *   wakeups parks    a thread makes 1000 waits of 1 ms (nanosleep), and takes and frees 2 MiB of 256 KiB buffers before each
 *   wakeups parked   100 threads take and free 2 MiB each and wait in pthread_cond_wait; 1 s to settle, then 10 s of nothing
 *
 * Two counts: the wake-ups the allocator itself counts (lull_stats_read), and what the kernel says of the thread named "lull", how
 * often it blocked (voluntary_ctxt_switches). over_allowance is the first one's excess over 4 for each 100 ms and 4 more.
 */
#include "scenario.h"

#include <dirent.h>
#include <lull/stats.h>

#define PARKS 1000
#define PARKED_THREADS 100
#define BUFFERS 8 /* of 256 KiB: 2 MiB, enough for a thread to be worth a sweep */
#define WINDOW_NS (100 * NS_PER_MS)

static void (*read_stats)(struct lull_stats *, uint32_t);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned waiting;
static bool stop;

static uint64_t wakes_counted(void)
{
	struct lull_stats stats = {0};
	read_stats(&stats, sizeof(stats));
	return stats.scavenger_wakes;
}

/* The text of /proc/self/task/TID/status, or "". */
static void read_status(const char *tid, char *ret, size_t size)
{
	char path[300];
	ret[0] = '\0';
	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t n = read(fd, ret, size - 1);
	ret[n > 0 ? n : 0] = '\0';
	close(fd);
}

static uint64_t times_blocked(void)
{
	static const char name[] = "Name:\tlull\n", key[] = "\nvoluntary_ctxt_switches:";
	char status[4096];
	uint64_t blocked = 0;
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *task; tasks && (task = readdir(tasks));) {
		read_status(task->d_name, status, sizeof(status));
		const char *line = strstr(status, key);
		if (line && strncmp(status, name, sizeof(name) - 1) == 0)
			blocked += strtoul(line + sizeof(key) - 1, NULL, 10);
	}
	if (tasks)
		closedir(tasks);
	return blocked;
}

static void take_and_free(struct pile *pile)
{
	pile_fill_count(pile, BUFFER_BYTES, BUFFERS);
	pile_free(pile);
}

static void report(uint64_t wakes, uint64_t blocked, uint64_t ns)
{
	uint64_t allowed = 4 * ((ns + WINDOW_NS - 1) / WINDOW_NS) + 4;
	printf("wakeups ms=%ju wakes=%ju wakes_per_1000s=%ju over_allowance=%ju times_blocked=%ju\n", (uintmax_t)(ns / NS_PER_MS),
		(uintmax_t)wakes, (uintmax_t)(wakes * 1000 * 1000 / (ns / NS_PER_MS)), (uintmax_t)(wakes > allowed ? wakes - allowed : 0),
		(uintmax_t)blocked);
}

static void run_parks(void)
{
	static struct pile pile;
	unsigned parks = scenario_rounds(PARKS, PARKS / 4);
	take_and_free(&pile);
	stress_pause_ms(300);
	uint64_t start = now_ns(), wakes = wakes_counted(), blocked = times_blocked();
	for (unsigned i = 0; i < parks; i++) {
		take_and_free(&pile);
		stress_pause_ms(1);
	}
	wakes = wakes_counted() - wakes;
	report(wakes, times_blocked() - blocked, now_ns() - start);
}

static void *wait_parked(void *arg)
{
	static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
	static struct pile pile;
	(void)arg;
	pthread_mutex_lock(&turn); /* one pile for all, in turn */
	take_and_free(&pile);
	pthread_mutex_unlock(&turn);
	pthread_mutex_lock(&lock);
	waiting++;
	pthread_cond_broadcast(&changed);
	while (!stop)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void run_parked(void)
{
	pthread_t threads[PARKED_THREADS];
	for (unsigned i = 0; i < PARKED_THREADS; i++)
		threads[i] = stress_thread(wait_parked, NULL);
	pthread_mutex_lock(&lock);
	while (waiting < PARKED_THREADS)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	stress_pause_ms(1000);
	uint64_t start = now_ns(), wakes = wakes_counted(), blocked = times_blocked();
	stress_pause_ms(scenario_rounds(10000, 3000));
	wakes = wakes_counted() - wakes;
	report(wakes, times_blocked() - blocked, now_ns() - start);
	pthread_mutex_lock(&lock);
	stop = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < PARKED_THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	scenario_begin("wakeups");
	if (argc != 2 || (strcmp(argv[1], "parks") && strcmp(argv[1], "parked")))
		stress_fail("one argument: parks or parked");
	*(void **)&read_stats = scenario_need_call("lull_stats_read");
	if (strcmp(argv[1], "parks") == 0)
		run_parks();
	else
		run_parked();
	return 0;
}
