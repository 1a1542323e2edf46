/* SPDX-License-Identifier: MIT */
/*
 * One thread allocates, others free: the blocks a consumer frees must come back to the producer. 8 GiB of blocks pass through a
 * queue of at most QUEUE_BYTES; anonymous RSS may never pass what is in flight plus ALLOWANCE_KIB.
 */
#include "../support/stress_util.h"

#include <sched.h>

#define CONSUMERS 3
#define QUEUE 4096
#define QUEUE_BYTES (8 * STRESS_MIB)

/*
 * Blocks in flight (8 MiB) sit in partly used pages of many classes, and what was just freed is not yet reused or returned. A
 * producer that never sees its blocks again passes this line within the first hundredth of the run.
 */
#define ALLOWANCE_KIB (56 * 1024)

/* A ring with one producer; each consumer takes the next ticket and waits for that entry. */
static struct stress_block ring[QUEUE];
static atomic_size_t written, taken;
static atomic_size_t emptied; /* bytes the consumers gave back */
static atomic_bool done;
static atomic_bool ready[QUEUE]; /* entry i is filled; the producer sets it, the consumer whose ticket it is clears it */

static void *consume(void *arg)
{
	(void)arg;
	for (;;) {
		size_t ticket = atomic_fetch_add(&taken, 1);
		size_t at = ticket % QUEUE;
		while (!atomic_load_explicit(&ready[at], memory_order_acquire) || ticket >= atomic_load(&written)) {
			if (atomic_load(&done) && ticket >= atomic_load(&written))
				return NULL;
			sched_yield();
		}
		struct stress_block block = ring[at];
		size_t bytes = block.size;
		stress_block_free(&block);
		atomic_fetch_add(&emptied, bytes);
		atomic_store_explicit(&ready[at], false, memory_order_release);
	}
}

static void produce(size_t *filled, size_t size, struct stress_rng *rng)
{
	size_t ticket = atomic_load_explicit(&written, memory_order_relaxed), at = ticket % QUEUE;
	while (atomic_load_explicit(&ready[at], memory_order_acquire) || *filled - atomic_load(&emptied) + size > QUEUE_BYTES)
		sched_yield();
	stress_block_new(&ring[at], size, rng);
	*filled += ring[at].size;
	atomic_store_explicit(&ready[at], true, memory_order_release);
	atomic_store(&written, ticket + 1);
}

static size_t watch_rss(size_t most)
{
	size_t now = stress_rss_anon_kib();
	return now > most ? now : most;
}

static void run(const char *name, size_t low, size_t high, size_t total)
{
	pthread_t consumers[CONSUMERS];
	struct stress_rng rng = stress_rng_make(low);
	size_t filled = 0, before = stress_rss_anon_kib(), most = before, next_look = 0;
	atomic_store(&written, 0);
	atomic_store(&taken, 0);
	atomic_store(&emptied, 0);
	atomic_store(&done, false);
	for (unsigned i = 0; i < CONSUMERS; i++)
		consumers[i] = stress_thread(consume, NULL);
	while (filled < total) {
		produce(&filled, stress_between(&rng, low, high), &rng);
		if (filled < next_look)
			continue;
		most = watch_rss(most);
		next_look = filled + total / 32;
		stress_thread_idle();
	}
	atomic_store(&done, true);
	for (unsigned i = 0; i < CONSUMERS; i++)
		pthread_join(consumers[i], NULL);
	most = watch_rss(most);
	dprintf(STDOUT_FILENO, "producer_consumer: %s passed_kib=%zu rss_before_kib=%zu rss_most_kib=%zu\n", name, filled / 1024, before, most);
#ifndef STRESS_SANITIZER
	if (most > before + QUEUE_BYTES / 1024 + ALLOWANCE_KIB)
		stress_fail("%s blocks: RSS grew by %zu KiB while at most %zu KiB were live", name, most - before, QUEUE_BYTES / 1024);
#endif
}

int main(int argc, char **argv)
{
	stress_begin(argc, argv, "producer_consumer");
	size_t unit = stress_count(1024) * STRESS_MIB;
	run("small", 1, 1024, unit / 2);
	run("small and medium", 512, 32 * STRESS_KIB, unit);
	run("large", 64 * STRESS_KIB, 512 * STRESS_KIB, unit * 2);
	run("singleton", 512 * STRESS_KIB + 1, 2 * STRESS_MIB, unit);
	return 0;
}
