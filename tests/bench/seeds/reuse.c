/* SPDX-License-Identifier: MIT */
/*
 * A thread that takes the same buffers again and again. Each round it takes BUFFERS x 256 KiB, writes them, frees them, and spends
 * 300 ms in between. How many minor faults does taking and writing cost it in a round? The first two rounds do not count.
 *
 *   reuse BUFFERS PAUSE HELPERS
 *   PAUSE    spin: it computes, with no call into the allocator or the kernel · sleep: it blocks in clock_nanosleep
 *   HELPERS  four threads beside it. none · idle: they wait in pthread_cond_wait · sweep: each takes and frees a little and calls
 *            lull_thread_idle every 100 ms, where that call exists · alloc: they wait, and in every third round one of them takes,
 *            writes and frees 46 MiB of 96 to 480 KiB, as a compiler thread does whose work ends in that round
 */
#include "crew.h"

#define HELPERS 4
#define PAUSE_MS 300
#define SWEEP_MS 100
#define LITTLE_BLOCKS 8

enum helpers { NONE, IDLE, SWEEP, ALLOC, HELPERS_KINDS };

static const char *const helper_names[HELPERS_KINDS] = {"none", "idle", "sweep", "alloc"};

static struct pile pile_of_helper;
static struct stress_rng rng_of_helper;
static _Atomic bool stop;

static void compile(unsigned index)
{
	if (index > 0)
		return;
	pile_fill(&pile_of_helper, &rng_of_helper, BURST_LOW, BURST_HIGH, BURST_BYTES);
	pile_free(&pile_of_helper);
}

static void take_a_little(struct stress_rng *rng)
{
	void *blocks[LITTLE_BLOCKS];
	for (unsigned i = 0; i < LITTLE_BLOCKS; i++) {
		size_t size = stress_between(rng, 64, 16 * STRESS_KIB);
		blocks[i] = malloc(size);
		if (!blocks[i])
			stress_fail("out of memory");
		memset(blocks[i], 0x5a, size);
	}
	for (unsigned i = 0; i < LITTLE_BLOCKS; i++)
		free(blocks[i]);
}

static void *sweep(void *arg)
{
	struct stress_rng rng = stress_rng_make((uintptr_t)arg);
	while (!stop) {
		take_a_little(&rng);
		stress_thread_idle();
		stress_pause_ms(SWEEP_MS);
	}
	return NULL;
}

static uint64_t take_buffers(struct pile *pile, unsigned buffers)
{
	uint64_t before = thread_faults();
	pile_fill_count(pile, BUFFER_BYTES, buffers);
	uint64_t faults = thread_faults() - before;
	pile_free(pile);
	return faults;
}

static enum helpers parse_helpers(const char *text)
{
	for (unsigned kind = 0; kind < HELPERS_KINDS; kind++)
		if (strcmp(text, helper_names[kind]) == 0)
			return (enum helpers)kind;
	stress_fail("'%s' is not one of: none idle sweep alloc", text);
}

static void run_rounds(unsigned buffers, bool sleeps, struct crew *compilers, struct samples *faults)
{
	static struct pile pile;
	unsigned rounds = scenario_rounds(14, 6);
	for (unsigned round = 0; round < rounds; round++) {
		uint64_t taken = take_buffers(&pile, buffers), until = now_ns() + PAUSE_MS * NS_PER_MS;
		if (round >= 2)
			samples_add(faults, taken);
		if (compilers && round % 3 == 2) {
			crew_settle(compilers);
			crew_order(compilers);
		}
		if (sleeps)
			sleep_until(until);
		else
			compute_until(until);
	}
}

int main(int argc, char **argv)
{
	static struct crew crew = {.job = compile, .threads = HELPERS};
	static struct samples faults;
	pthread_t sweepers[HELPERS];
	scenario_begin("reuse");
	unsigned buffers = argc == 4 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	if (buffers == 0 || buffers > PILE_MAX || (strcmp(argv[2], "spin") && strcmp(argv[2], "sleep")))
		stress_fail("arguments: BUFFERS spin|sleep HELPERS");
	enum helpers helpers = parse_helpers(argv[3]);
	rng_of_helper = stress_rng_make(1);
	for (unsigned i = 0; helpers == SWEEP && i < HELPERS; i++)
		sweepers[i] = stress_thread(sweep, (void *)(uintptr_t)(i + 2));
	if (helpers == IDLE || helpers == ALLOC)
		crew_start(&crew);
	run_rounds(buffers, strcmp(argv[2], "sleep") == 0, helpers == ALLOC ? &crew : NULL, &faults);
	printf("reuse rounds=%u faults_median=%ju faults_max=%ju touched_pages=%zu\n", faults.count, (uintmax_t)samples_median(&faults),
		(uintmax_t)samples_max(&faults), buffers * BUFFER_BYTES / STRESS_OS_PAGE);
	stop = true;
	for (unsigned i = 0; helpers == SWEEP && i < HELPERS; i++)
		pthread_join(sweepers[i], NULL);
	if (helpers == IDLE || helpers == ALLOC)
		crew_end(&crew);
	return 0;
}
