/* SPDX-License-Identifier: MIT */
/*
 * 100 000 short threads. Each allocates and frees a little, leaves some blocks behind for others to free, and allocates and frees
 * once more in a TLS destructor, when its heap may already be gone. What a thread leaves must be found again: anonymous RSS after
 * 100 000 threads is that after 10 000, give or take GROWTH_KIB.
 */
#include "../support/stress_util.h"

#ifdef STRESS_TSAN
#define THREADS 25000 /* ThreadSanitizer takes 10 ms for each */
#else
#define THREADS 100000
#endif
#define AT_ONCE 8
#define BLOCKS_PER_THREAD 12
#define BOXES 256

/*
 * Live blocks differ by chance from one moment to another (256 boxes, 1 KiB on average), heaps of ended threads wait for adoption,
 * and up to 4 MiB may be held on purpose. 64 bytes lost per thread would show as 5.5 MiB.
 */
#define GROWTH_KIB (5 * 1024)

static struct stress_block pool[AT_ONCE * BLOCKS_PER_THREAD + BOXES];
static struct stress_block *_Atomic boxes[BOXES];
static pthread_key_t late_key;

struct slot {
	struct stress_rng rng;
	struct stress_block *table[BLOCKS_PER_THREAD];
	pthread_t thread;
};

static struct slot slots[AT_ONCE];

static size_t short_lived_size(struct stress_rng *rng)
{
	uint64_t dice = stress_below(rng, 1000);
	if (dice < 960)
		return stress_between(rng, 1, 1024);
	if (dice < 995)
		return stress_between(rng, 1025, 12 * STRESS_KIB);
	return stress_between(rng, 12 * STRESS_KIB, 100 * STRESS_KIB);
}

/* Runs as a TLS destructor: a block of the thread is freed, another one lives and dies after it. */
static void free_late(void *p)
{
	stress_free(p);
	unsigned char *more = stress_malloc(200);
	if (!more)
		stress_fail("out of memory in a TLS destructor");
	memset(more, 0x5a, 200);
	stress_free(more);
}

static void *live_shortly(void *arg)
{
	struct slot *slot = arg;
	struct stress_rng *rng = &slot->rng;
	for (unsigned i = 0; i < BLOCKS_PER_THREAD; i++) {
		struct stress_block **at = &slot->table[i];
		if ((*at)->p)
			stress_block_free(*at);
		stress_block_new(*at, short_lived_size(rng), rng);
		*at = stress_box_swap(&boxes[stress_below(rng, BOXES)], *at);
	}
	for (unsigned i = 0; i < BLOCKS_PER_THREAD; i += 2)
		if (slot->table[i]->p)
			stress_block_free(slot->table[i]);
	if (stress_below(rng, 4) == 0)
		pthread_setspecific(late_key, stress_malloc(100));
	return NULL;
}

static void storm(unsigned threads)
{
	for (unsigned done = 0; done < threads; done += AT_ONCE) {
		for (unsigned i = 0; i < AT_ONCE; i++)
			slots[i].thread = stress_thread(live_shortly, &slots[i]);
		for (unsigned i = 0; i < AT_ONCE; i++)
			pthread_join(slots[i].thread, NULL);
	}
}

/* The least of ten looks, each after a few more threads: the chance part of the live blocks evens out. */
static size_t settled_rss_kib(void)
{
	size_t least = SIZE_MAX;
	for (unsigned i = 0; i < 10; i++) {
		storm(4 * AT_ONCE);
		size_t now = stress_rss_anon_kib();
		least = now < least ? now : least;
	}
	return least;
}

int main(int argc, char **argv)
{
	stress_begin(argc, argv, "thread_exit");
	pthread_key_create(&late_key, free_late);
	struct stress_block *next = pool;
	for (unsigned i = 0; i < BOXES; i++)
		atomic_store(&boxes[i], next++);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		slots[i].rng = stress_rng_make(i);
		for (unsigned k = 0; k < BLOCKS_PER_THREAD; k++)
			slots[i].table[k] = next++;
	}
	unsigned total = stress_count(THREADS), early = total / 10;
	storm(early);
	size_t before = settled_rss_kib();
	storm(total - early);
	size_t after = settled_rss_kib();
	dprintf(STDOUT_FILENO, "thread_exit: rss_after_%u_threads_kib=%zu rss_after_%u_threads_kib=%zu\n", early, before, total, after);
#ifndef STRESS_SANITIZER
	if (after > before + GROWTH_KIB)
		stress_fail("RSS grew by %zu KiB, more than %d", after - before, GROWTH_KIB);
#endif
	for (size_t i = 0; i < sizeof(pool) / sizeof(pool[0]); i++)
		if (pool[i].p)
			stress_block_free(&pool[i]);
	return 0;
}
