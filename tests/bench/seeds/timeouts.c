/* SPDX-License-Identifier: MIT */
/*
 * Late timeouts. A thread takes and writes 22 to 132 MiB of large blocks in six patterns, frees them, and waits 220 ms: the time that
 * falls right after a second release begins. 16 waits for each pattern: how many of the 96 end more than 2 ms late? As the control, the
 * same wait is made once more each time while the blocks are still live, with nothing to give back: its lateness is the machine's.
 *
 *   timeouts WAIT   how it waits: cond, lull_cond or address (waits.h)
 */
#include "waits.h"

#define WAIT_MS 220
#define LATE_US 2000

enum order { FORWARD, BACKWARD, EVERY_OTHER, SHUFFLED };

static const struct pattern {
	size_t low, high, total;
	enum order order;
} patterns[] = {
	{BURST_LOW, BURST_LOW, 22 * STRESS_MIB, FORWARD},
	{BURST_LOW, BURST_HIGH, 44 * STRESS_MIB, FORWARD},
	{BUFFER_BYTES, BUFFER_BYTES, 66 * STRESS_MIB, EVERY_OTHER},
	{BURST_LOW, BURST_HIGH, 88 * STRESS_MIB, BACKWARD},
	{BURST_HIGH, BURST_HIGH, 110 * STRESS_MIB, FORWARD},
	{BURST_LOW, BURST_HIGH, 132 * STRESS_MIB, SHUFFLED},
};
#define PATTERNS (sizeof(patterns) / sizeof(patterns[0]))

static struct pile pile;

static void swap_blocks(unsigned a, unsigned b)
{
	void *block = pile.blocks[a];
	pile.blocks[a] = pile.blocks[b];
	pile.blocks[b] = block;
}

/* The order in which pile_free will take them. */
static void arrange(enum order order, struct stress_rng *rng)
{
	unsigned n = pile.count;
	for (unsigned i = 0; order == BACKWARD && i < n / 2; i++)
		swap_blocks(i, n - 1 - i);
	for (unsigned i = 0; order == EVERY_OTHER && 2 * i < n; i++)
		swap_blocks(i, 2 * i);
	for (unsigned i = n; order == SHUFFLED && i > 1; i--)
		swap_blocks(i - 1, (unsigned)stress_below(rng, i));
}

/* Returns how many microseconds after its time the wait ended. */
static uint64_t lateness_us(void)
{
	uint64_t due = now_ns() + WAIT_MS * NS_PER_MS;
	waits_wait(WAIT_MS * NS_PER_MS);
	uint64_t now = now_ns();
	return now > due ? (now - due) / 1000 : 0;
}

static unsigned late_of(const struct samples *samples)
{
	unsigned late = 0;
	for (unsigned i = 0; i < samples->count; i++)
		late += samples->values[i] > LATE_US;
	return late;
}

static void report(const char *prefix, const struct samples *samples)
{
	printf(" %slate_count=%u %slate_median_us=%ju %slate_max_us=%ju", prefix, late_of(samples), prefix, (uintmax_t)samples_median(samples),
		prefix, (uintmax_t)samples_max(samples));
}

int main(int argc, char **argv)
{
	static struct samples freed, live;
	struct stress_rng rng = stress_rng_make(1);
	unsigned waits_each = scenario_rounds(16, 2);
	scenario_begin("timeouts");
	waits_begin(argc == 2 ? argv[1] : "");
	for (unsigned round = 0; round < waits_each * PATTERNS; round++) {
		const struct pattern *pattern = &patterns[round % PATTERNS];
		pile_fill(&pile, &rng, pattern->low, pattern->high, pattern->total);
		arrange(pattern->order, &rng);
		samples_add(&live, lateness_us());
		pile_free(&pile);
		samples_add(&freed, lateness_us());
	}
	printf("timeouts waits=%u", freed.count);
	report("", &freed);
	report("control_", &live);
	puts("");
	return 0;
}
