/* SPDX-License-Identifier: MIT */
/*
 * Blocks of 1 B to 2 MiB move between 2, 4, 8, 16, 32 and 64 threads while memory is given back around them.
 *
 * Each thread owns a table of blocks. A step swaps a block with a box (half of the boxes are one atomic pointer, half are behind a
 * mutex), allocates, resizes or frees, so most blocks are freed by a thread that did not allocate them. Every block is checked
 * byte for byte before it changes or goes. Some threads call lull_thread_idle and lull_collect between steps, and one thread does
 * nothing but collect, so that holes go away while others allocate beside them. With the standard names the threads also block now
 * and then in the calls that the preload watches, so that they are swept while others free into their pages.
 */
#include "../support/stress_util.h"

#include <poll.h>
#include <semaphore.h>

#define MAX_THREADS 64
#define BLOCKS_PER_THREAD 24
#define BOXES 128 /* of each kind: fewer than the blocks of 8 threads, so that none stays in a box for long */

static struct stress_block pool[MAX_THREADS * BLOCKS_PER_THREAD + 2 * BOXES];
static struct stress_block *_Atomic boxes[BOXES];
static struct stress_block *locked_boxes[BOXES];
static pthread_mutex_t locks[BOXES];

struct worker {
	unsigned index;
	unsigned steps;
	struct stress_rng rng;
	struct stress_block *table[BLOCKS_PER_THREAD];
	pthread_t thread;
};

static struct worker workers[MAX_THREADS];
static atomic_bool collector_stop;

static struct stress_block *locked_swap(unsigned at, struct stress_block *block)
{
	pthread_mutex_lock(&locks[at]);
	struct stress_block *got = locked_boxes[at];
	locked_boxes[at] = block;
	pthread_mutex_unlock(&locks[at]);
	return got;
}

static struct stress_block *swap(struct stress_rng *rng, struct stress_block *block)
{
	unsigned at = (unsigned)stress_below(rng, BOXES);
	return stress_random(rng) & 1 ? stress_box_swap(&boxes[at], block) : locked_swap(at, block);
}

static void give_back(struct worker *w)
{
	if (w->index % 3 == 0)
		stress_thread_idle();
	else if (w->index % 5 == 1)
		stress_collect(false);
	else if (w->index % 7 == 2)
		stress_collect(true);
}

#ifdef STRESS_STANDARD_NAMES
/* At most a few hundred microseconds in one of the calls that block. */
static void block_a_while(struct stress_rng *rng)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
	struct timespec span = {.tv_nsec = (long)stress_between(rng, 1000, 300000)}, until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += span.tv_nsec;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	switch (stress_below(rng, 4)) {
	case 0:
		nanosleep(&span, NULL);
		break;
	case 1:
		ppoll(NULL, 0, &span, NULL);
		break;
	case 2:
		pthread_mutex_lock(&lock);
		pthread_cond_timedwait(&never, &lock, &until);
		pthread_mutex_unlock(&lock);
		break;
	default: {
		sem_t sem;
		sem_init(&sem, 0, 0);
		sem_timedwait(&sem, &until);
		sem_destroy(&sem);
	}
	}
}
#else
static void block_a_while(struct stress_rng *rng)
{
	(void)rng;
}
#endif

static void step(struct worker *w)
{
	struct stress_rng *rng = &w->rng;
	struct stress_block **at = &w->table[stress_below(rng, BLOCKS_PER_THREAD)];
	uint64_t dice = stress_below(rng, 100);
	if (dice < 40)
		*at = swap(rng, *at);
	else if (!(*at)->p)
		stress_block_new(*at, stress_size(rng), rng);
	else if (dice < 55)
		stress_block_resize(*at, stress_size(rng), rng);
	else
		stress_block_free(*at);
	if (stress_below(rng, 500) == 0)
		give_back(w);
	if (stress_below(rng, 200) == 0)
		block_a_while(rng);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	for (unsigned i = 0; i < w->steps; i++)
		step(w);
	return NULL;
}

static void *collect(void *arg)
{
	(void)arg;
	for (unsigned i = 0; !atomic_load(&collector_stop); i++) {
		stress_collect(i % 3 != 0);
		stress_pause_ms(2);
	}
	return NULL;
}

static void deal_descriptors(unsigned threads)
{
	struct stress_block *next = pool;
	for (unsigned i = 0; i < BOXES; i++) {
		atomic_store(&boxes[i], next++);
		locked_boxes[i] = next++;
	}
	for (unsigned t = 0; t < threads; t++)
		for (unsigned i = 0; i < BLOCKS_PER_THREAD; i++)
			workers[t].table[i] = next++;
}

/* All blocks still live, wherever they are, are whole; the main thread frees them. Returns how many there were. */
static unsigned free_survivors(void)
{
	unsigned survivors = 0;
	for (size_t i = 0; i < sizeof(pool) / sizeof(pool[0]); i++) {
		if (!pool[i].p)
			continue;
		stress_block_free(&pool[i]);
		survivors++;
	}
	return survivors;
}

static void run(unsigned threads, unsigned steps)
{
	deal_descriptors(threads);
	atomic_store(&collector_stop, false);
	pthread_t collector = stress_thread(collect, NULL);
	for (unsigned t = 0; t < threads; t++) {
		workers[t].index = t;
		workers[t].steps = steps / threads;
		workers[t].rng = stress_rng_make(threads * 1000 + t);
		workers[t].thread = stress_thread(work, &workers[t]);
	}
	for (unsigned t = 0; t < threads; t++)
		pthread_join(workers[t].thread, NULL);
	atomic_store(&collector_stop, true);
	pthread_join(collector, NULL);
	dprintf(STDOUT_FILENO, "move: %u threads, %u steps, %u survivors whole\n", threads, steps, free_survivors());
}

int main(int argc, char **argv)
{
	stress_begin(argc, argv, "move");
	for (unsigned i = 0; i < BOXES; i++)
		pthread_mutex_init(&locks[i], NULL);
	for (unsigned threads = 2; threads <= MAX_THREADS; threads *= 2)
		run(threads, stress_count(60000));
	return 0;
}
