/* SPDX-License-Identifier: MIT */
/*
 * A program without a background thread that blocks now and then: its own threads do the work on their way into each wait. 64 MiB of
 * blocks of one size are allocated, written and freed, then the program sleeps again and again.
 *
 *   inline SIZE own     freed by the thread that sleeps
 *   inline SIZE ended   by one that ended
 *   inline SIZE stop    by the thread that sleeps, after lull_scavenger_stop
 *
 * Exit 0 when all but LEFT_KIB of it went within WAITS waits.
 */
#define STRESS_STANDARD_NAMES 1
#include "../../support/stress_util.h"

#include <dlfcn.h>

#define BYTES (64 * STRESS_MIB)
#define LEFT_KIB 4096
#define WAITS 200 /* of 60 ms, longer than a tick: three are enough on a quiet machine */

static size_t size;

static void *burst(void *unused)
{
	size_t n = BYTES / size;
	void **block = malloc(n * sizeof(*block));

	for (size_t i = 0; i < n; i++)
		memset(block[i] = malloc(size), 1, size);
	for (size_t i = 0; i < n; i++)
		free(block[i]);
	free(block);
	return unused;
}

static void stop_the_scavenger(void)
{
	void (*stop)(void);

	*(void **)&stop = dlsym(RTLD_DEFAULT, "lull_scavenger_stop");
	if (stop == NULL)
		stress_fail("no lull_scavenger_stop");
	stop();
}

int main(int argc, char **argv)
{
	unsigned waits = 0;

	stress_name = "inline";
	alarm(stress_limit_s());
	if (argc != 3)
		stress_fail("usage: inline SIZE own|ended|stop");
	size = strtoul(argv[1], NULL, 10);
	size_t baseline = stress_rss_anon_kib(), left;
	if (strcmp(argv[2], "ended") == 0)
		pthread_join(stress_thread(burst, NULL), NULL);
	else
		burst(NULL);
	if (strcmp(argv[2], "stop") == 0)
		stop_the_scavenger();
	do {
		stress_pause_ms(60);
		left = stress_rss_anon_kib() - baseline;
	} while (left > LEFT_KIB && ++waits < WAITS);
	printf("inline %s %s: %zu KiB left after %u waits\n", argv[1], argv[2], left, waits + 1);
	return left > LEFT_KIB;
}
