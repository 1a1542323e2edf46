/* SPDX-License-Identifier: MIT */
/*
 * What the scenario programs of this folder share: clocks, fault counts, samples with their median, piles of large blocks, and calls
 * of lull that are looked up when a scenario wants them.
 *
 * Each program is one scenario: libc and threads only, so that the same binary runs under any allocator that is preloaded. It prints
 * one line, "NAME KEY=NUMBER ..." with whole numbers whose key ends in the unit, and judges nothing: what a number should be is in
 * the table of `run`. A scenario that needs a call which the process does not have prints "NAME no_such_call=CALL" instead.
 * Notes of a program (samples, pointers of piles) lie in static memory or mappings of its own, so that they are no blocks themselves.
 * SEEDS_QUICK=1 takes fewer rounds: for trying a program out, not for its numbers.
 */
#ifndef SEEDS_SCENARIO_H
#define SEEDS_SCENARIO_H

#define STRESS_STANDARD_NAMES 1
#include "../../support/stress_util.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define NS_PER_MS UINT64_C(1000000)
#define SAMPLES_MAX 512

/* Compiler threads ask for blocks of 96 to 480 KiB, 46 MiB in one go: the burst that the seed's figures are about. */
#define BURST_LOW (96 * STRESS_KIB)
#define BURST_HIGH (480 * STRESS_KIB)
#define BURST_BYTES (46 * STRESS_MIB)
/* The buffer that the seed's busy thread takes again and again. */
#define BUFFER_BYTES (256 * STRESS_KIB)
/* 132 MiB in blocks of 96 KiB, the most any scenario piles up, are 1408. */
#define PILE_MAX 1536

static const char *scenario_name;

/* ---- start and end ---- */

static inline void scenario_begin(const char *name)
{
	scenario_name = stress_name = name;
	alarm(stress_limit_s());
}

static inline bool scenario_is_quick(void)
{
	return stress_env("SEEDS_QUICK", 0) != 0;
}

static inline unsigned scenario_rounds(unsigned full, unsigned quick)
{
	return scenario_is_quick() ? quick : full;
}

/* A pointer to the call, or ends the program with the line that says it is missing. */
__attribute__((unused)) static void *scenario_need_call(const char *call)
{
	void *address = dlsym(RTLD_DEFAULT, call);
	if (!address) {
		printf("%s no_such_call=%s\n", scenario_name, call);
		exit(0);
	}
	return address;
}

/* ---- time and faults ---- */

static inline uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

__attribute__((unused)) static void sleep_until(uint64_t when_ns)
{
	struct timespec when = timespec_of(when_ns);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
		;
}

/* Works without a call into the allocator or the kernel: the clock is read in user space. */
__attribute__((unused)) static void compute_until(uint64_t when_ns)
{
	while (now_ns() < when_ns)
		;
}

/* Minor faults of the calling thread so far. */
__attribute__((unused)) static uint64_t thread_faults(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_minflt;
}

/* ---- samples ---- */

struct samples {
	unsigned count;
	uint64_t values[SAMPLES_MAX]; /* ascending */
};

__attribute__((unused)) static void samples_add(struct samples *samples, uint64_t value)
{
	if (samples->count == SAMPLES_MAX)
		stress_fail("more than %d samples", SAMPLES_MAX);
	unsigned at = samples->count++;
	for (; at > 0 && samples->values[at - 1] > value; at--)
		samples->values[at] = samples->values[at - 1];
	samples->values[at] = value;
}

/* Of an even count the upper of the two in the middle, so that the result is a number that was seen. */
static inline uint64_t samples_median(const struct samples *samples)
{
	return samples->count ? samples->values[samples->count / 2] : 0;
}

static inline uint64_t samples_max(const struct samples *samples)
{
	return samples->count ? samples->values[samples->count - 1] : 0;
}

/* ---- piles: blocks taken, written and freed together ---- */

struct pile {
	unsigned count;
	void *blocks[PILE_MAX];
};

/* Its notes become resident now, so that they are no growth later. */
__attribute__((unused)) static void pile_prepare(struct pile *pile)
{
	memset(pile, 0x5a, sizeof(*pile));
	pile->count = 0;
}

static inline void pile_add(struct pile *pile, size_t size)
{
	void *block = malloc(size);
	if (!block || pile->count == PILE_MAX)
		stress_fail("no room for a block of %zu bytes", size);
	memset(block, 0x5a, size);
	pile->blocks[pile->count++] = block;
}

/* Blocks of LOW to HIGH bytes until they are TOTAL bytes. */
__attribute__((unused)) static void pile_fill(struct pile *pile, struct stress_rng *rng, size_t low, size_t high, size_t total)
{
	for (size_t sum = 0, size; sum < total; sum += size) {
		size = stress_between(rng, low, high);
		pile_add(pile, size);
	}
}

__attribute__((unused)) static void pile_fill_count(struct pile *pile, size_t size, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		pile_add(pile, size);
}

__attribute__((unused)) static void pile_free(struct pile *pile)
{
	for (unsigned i = 0; i < pile->count; i++)
		free(pile->blocks[i]);
	pile->count = 0;
}

/* How much more is resident now. */
__attribute__((unused)) static uint64_t growth_kib(size_t baseline_kib)
{
	size_t now = stress_rss_anon_kib();
	return now > baseline_kib ? now - baseline_kib : 0;
}

#endif
