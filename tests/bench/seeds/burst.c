/* SPDX-License-Identifier: MIT */
/*
 * Bursts of compiler threads. Eight threads each take and write 46 MiB in blocks of 96 to 480 KiB, free them, and wait in
 * pthread_cond_wait. How much more is resident than before the first burst, 100 ms, 250 ms and 1 s after the last thread began to
 * wait? The first burst is warm-up and does not count: nothing was idle before it. Bursts begin 2.5 s after the last one ended.
 */
#include "crew.h"

#define THREADS 8
#define APART_MS 2500

static const unsigned looks_ms[] = {100, 250, 1000};
#define LOOKS (sizeof(looks_ms) / sizeof(looks_ms[0]))

static struct stress_rng rngs[THREADS];
static struct pile piles[THREADS];

static void compile(unsigned index)
{
	pile_fill(&piles[index], &rngs[index], BURST_LOW, BURST_HIGH, BURST_BYTES);
	pile_free(&piles[index]);
}

int main(void)
{
	static struct crew crew = {.job = compile, .threads = THREADS};
	static struct samples growth[LOOKS];
	unsigned bursts = scenario_rounds(6, 3);
	scenario_begin("burst");
	for (unsigned t = 0; t < THREADS; t++) {
		rngs[t] = stress_rng_make(t);
		pile_prepare(&piles[t]);
	}
	crew_start(&crew);
	size_t baseline = stress_rss_anon_kib();
	for (unsigned burst = 0; burst < bursts; burst++) {
		crew_order(&crew);
		crew_settle(&crew);
		uint64_t idle_since = now_ns();
		for (unsigned look = 0; look < LOOKS; look++) {
			sleep_until(idle_since + looks_ms[look] * NS_PER_MS);
			if (burst > 0)
				samples_add(&growth[look], growth_kib(baseline));
		}
		sleep_until(idle_since + APART_MS * NS_PER_MS);
	}
	printf("burst bursts=%u baseline_kib=%zu", bursts - 1, baseline);
	for (unsigned look = 0; look < LOOKS; look++)
		printf(" growth_%ums_median_kib=%ju growth_%ums_worst_kib=%ju", looks_ms[look], (uintmax_t)samples_median(&growth[look]),
			looks_ms[look], (uintmax_t)samples_max(&growth[look]));
	puts("");
	crew_end(&crew);
	return 0;
}
