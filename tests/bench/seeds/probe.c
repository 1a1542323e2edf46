/* SPDX-License-Identifier: MIT */
/*
 * Whether idle threads starve a running one. Eight threads each take, write and free 46 MiB in blocks of 96 to 480 KiB, once, and
 * wait in pthread_cond_wait from then on. Beside them a thread takes 3 MiB in buffers of 256 KiB, writes and frees them, and waits
 * 500 ms in poll, 20 times. How many minor faults does each use cost it? The first two uses do not count.
 */
#include "crew.h"

#include <poll.h>

#define THREADS 8
#define BUFFERS 12 /* of 256 KiB: 3 MiB */
#define PAUSE_MS 500

static struct stress_rng rngs[THREADS];
static struct pile piles[THREADS];

static void compile(unsigned index)
{
	pile_fill(&piles[index], &rngs[index], BURST_LOW, BURST_HIGH, BURST_BYTES);
	pile_free(&piles[index]);
}

static uint64_t use_buffers(void)
{
	static struct pile pile;
	uint64_t before = thread_faults();
	pile_fill_count(&pile, BUFFER_BYTES, BUFFERS);
	uint64_t faults = thread_faults() - before;
	pile_free(&pile);
	return faults;
}

int main(void)
{
	static struct crew crew = {.job = compile, .threads = THREADS};
	static struct samples faults;
	unsigned uses = scenario_rounds(20, 6);
	scenario_begin("probe");
	for (unsigned t = 0; t < THREADS; t++)
		rngs[t] = stress_rng_make(t);
	crew_start(&crew);
	crew_order(&crew);
	crew_settle(&crew);
	for (unsigned use = 0; use < uses; use++) {
		uint64_t taken = use_buffers();
		if (use >= 2)
			samples_add(&faults, taken);
		poll(NULL, 0, PAUSE_MS);
	}
	printf("probe uses=%u faults_median=%ju faults_max=%ju\n", faults.count, (uintmax_t)samples_median(&faults),
		(uintmax_t)samples_max(&faults));
	crew_end(&crew);
	return 0;
}
