/* SPDX-License-Identifier: MIT */
/*
 * Late frees. Eight threads each take and write 46 MiB in blocks of 96 to 480 KiB and wait, the blocks live. 250 ms later another
 * thread frees them all, and waits too. How much more is resident than before the first burst, 250 ms and 1 s after those frees?
 * The first burst is warm-up and does not count.
 *
 *   late_frees seen    the eight threads wait in pthread_cond_wait
 *   late_frees unseen  they wait in a system call of their own that no preloaded library can see
 */
#include "crew.h"

#define THREADS 8
#define LATE_MS 250
#define APART_MS 2500

static struct stress_rng rngs[THREADS];
static struct pile piles[THREADS];

static void compile(unsigned index)
{
	pile_fill(&piles[index], &rngs[index], BURST_LOW, BURST_HIGH, BURST_BYTES);
}

static void free_all(unsigned index)
{
	(void)index;
	for (unsigned t = 0; t < THREADS; t++)
		pile_free(&piles[t]);
}

static struct crew compilers = {.job = compile, .threads = THREADS};
static struct crew collector = {.job = free_all, .threads = 1};
static struct samples live, at_250ms, at_1s;

static void run_burst(size_t baseline_kib, bool counts)
{
	crew_order(&compilers);
	crew_settle(&compilers);
	stress_pause_ms(LATE_MS);
	uint64_t growth_live = growth_kib(baseline_kib);
	crew_order(&collector);
	crew_settle(&collector);
	uint64_t freed_at = now_ns();
	sleep_until(freed_at + 250 * NS_PER_MS);
	uint64_t growth = growth_kib(baseline_kib);
	sleep_until(freed_at + 1000 * NS_PER_MS);
	if (counts) {
		samples_add(&live, growth_live);
		samples_add(&at_250ms, growth);
		samples_add(&at_1s, growth_kib(baseline_kib));
	}
	sleep_until(freed_at + APART_MS * NS_PER_MS);
}

int main(int argc, char **argv)
{
	unsigned bursts = scenario_rounds(5, 3);
	scenario_begin("late_frees");
	if (argc != 2 || (strcmp(argv[1], "seen") && strcmp(argv[1], "unseen")))
		stress_fail("one argument: seen or unseen");
	compilers.raw = strcmp(argv[1], "unseen") == 0;
	for (unsigned t = 0; t < THREADS; t++) {
		rngs[t] = stress_rng_make(t);
		pile_prepare(&piles[t]);
	}
	crew_start(&compilers);
	crew_start(&collector);
	size_t baseline = stress_rss_anon_kib();
	for (unsigned burst = 0; burst < bursts; burst++)
		run_burst(baseline, burst > 0);
	printf("late_frees bursts=%u baseline_kib=%zu live_median_kib=%ju growth_250ms_median_kib=%ju growth_250ms_worst_kib=%ju "
		   "growth_1000ms_median_kib=%ju growth_1000ms_worst_kib=%ju stays_250ms_permille=%ju\n",
		bursts - 1, baseline, (uintmax_t)samples_median(&live), (uintmax_t)samples_median(&at_250ms), (uintmax_t)samples_max(&at_250ms),
		(uintmax_t)samples_median(&at_1s), (uintmax_t)samples_max(&at_1s),
		(uintmax_t)(samples_median(&at_250ms) * 1000 / samples_median(&live)));
	crew_end(&compilers);
	crew_end(&collector);
	return 0;
}
