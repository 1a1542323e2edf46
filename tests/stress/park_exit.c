/* SPDX-License-Identifier: MIT */
/*
 * Parks against claims. Short threads take over the heaps of ended ones, leave holes, and are parked and run again many times while one
 * thread gives back all that is free, without a pause, and another frees blocks that lie in any heap. Every second thread ends in its
 * park. A park is what lull makes around a blocking call; under the preload it is such a call.
 */
#include "../support/stress_util.h"

#include <sched.h>

#ifdef STRESS_STANDARD_NAMES
#include <poll.h>

static void park_enter(void)
{
}

static void park_leave(void)
{
	poll(NULL, 0, 1);
}
#else
#include "heap/heap.h"

static void park_enter(void)
{
	heap_park();
}

static void park_leave(void)
{
	heap_unpark();
}
#endif

#define THREADS 1200
#define AT_ONCE 6
#define PARKS 8
#define BLOCKS 160
#define BOXES 128
#define SPINS 20

static struct stress_block pool[AT_ONCE * BLOCKS + BOXES + BOXES];
static struct stress_block *_Atomic boxes[BOXES];
static atomic_bool stop;
static pthread_key_t late_key;

struct slot {
	struct stress_rng rng;
	struct stress_block *table[BLOCKS];
	pthread_t thread;
};

static struct slot slots[AT_ONCE];

static size_t mixed_size(struct stress_rng *rng)
{
	uint64_t dice = stress_below(rng, 1000);
	if (dice < 900)
		return stress_between(rng, 1, 2048);
	if (dice < 990)
		return stress_between(rng, 2049, 20 * STRESS_KIB);
	return stress_between(rng, 20 * STRESS_KIB, 200 * STRESS_KIB);
}

static void leave_holes(struct slot *slot)
{
	struct stress_rng *rng = &slot->rng;
	for (unsigned i = 0; i < BLOCKS; i++) {
		struct stress_block **at = &slot->table[i];
		if (!(*at)->p)
			stress_block_new(*at, mixed_size(rng), rng);
		if (stress_below(rng, 8) == 0)
			*at = stress_box_swap(&boxes[stress_below(rng, BOXES)], *at);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		if (slot->table[i]->p && stress_below(rng, 8) != 0)
			stress_block_free(slot->table[i]);
}

/* Runs as a TLS destructor, perhaps in the park. */
static void free_late(void *p)
{
	unsigned char *more = stress_malloc(300);
	if (!more)
		stress_fail("out of memory in a TLS destructor");
	memset(more, 0x5a, 300);
	stress_free(p);
	stress_free(more);
}

static void *live_and_park(void *arg)
{
	struct slot *slot = arg;
	leave_holes(slot);
	pthread_setspecific(late_key, stress_malloc(200));
	for (unsigned i = 0; i < PARKS; i++) {
		park_enter();
		for (uint64_t spins = stress_below(&slot->rng, SPINS); spins > 0; spins--)
			sched_yield();
		if (i == PARKS - 1 && stress_below(&slot->rng, 2) == 0)
			return NULL;
		if (stress_below(&slot->rng, 4) != 0) /* else the next malloc ends it */
			park_leave();
		if (i % 4 == 3)
			leave_holes(slot);
	}
	return NULL;
}

static void *collect(void *unused)
{
	for (unsigned i = 0; !atomic_load(&stop); i++) {
		stress_collect(i % 4 != 0);
		sched_yield();
	}
	return unused;
}

/* From whichever heap. */
static void *free_from_boxes(void *arg)
{
	struct stress_block **own = arg;
	struct stress_rng rng = stress_rng_make(77);
	while (!atomic_load(&stop)) {
		struct stress_block **at = &own[stress_below(&rng, BOXES)];
		*at = stress_box_swap(&boxes[stress_below(&rng, BOXES)], *at);
		if ((*at)->p)
			stress_block_free(*at);
		if (stress_below(&rng, 8) == 0)
			sched_yield();
	}
	return NULL;
}

static void share_out(struct stress_block **to_free)
{
	struct stress_block *next = pool;
	for (unsigned i = 0; i < BOXES; i++) {
		atomic_store(&boxes[i], next++);
		to_free[i] = next++;
	}
	for (unsigned i = 0; i < AT_ONCE; i++) {
		slots[i].rng = stress_rng_make(i);
		for (unsigned k = 0; k < BLOCKS; k++)
			slots[i].table[k] = next++;
	}
}

int main(int argc, char **argv)
{
	static struct stress_block *to_free[BOXES];
	stress_begin(argc, argv, "park_exit");
	pthread_key_create(&late_key, free_late);
	share_out(to_free);
	pthread_t collector = stress_thread(collect, NULL);
	pthread_t freer = stress_thread(free_from_boxes, to_free);
	unsigned total = stress_count(THREADS);
	for (unsigned done = 0; done < total; done += AT_ONCE) {
		for (unsigned i = 0; i < AT_ONCE; i++)
			slots[i].thread = stress_thread(live_and_park, &slots[i]);
		for (unsigned i = 0; i < AT_ONCE; i++)
			pthread_join(slots[i].thread, NULL);
	}
	atomic_store(&stop, true);
	pthread_join(collector, NULL);
	pthread_join(freer, NULL);
	for (size_t i = 0; i < sizeof(pool) / sizeof(pool[0]); i++)
		if (pool[i].p)
			stress_block_free(&pool[i]);
	dprintf(STDOUT_FILENO, "park_exit: %u threads, all blocks whole\n", total);
	return 0;
}
