/* SPDX-License-Identifier: MIT */
/*
 * Holes. For each size class many blocks are allocated, a random 19 of 20 freed, and memory given back: the survivors are whole,
 * the freed places can be used again beside them, and nothing is handed out twice. Three ways: freed by the owner who then calls
 * lull_thread_idle, freed by another thread before the owner's call, and freed by another thread that also collects while the owner
 * only waits.
 */
#include "../support/stress_util.h"

#define MAX_BLOCKS 20000
#define MIN_BLOCKS 24
#define BATCH_BYTES (3 * STRESS_MIB / 2)
#define KEEP_ONE_IN 20

enum way { FREED_BY_OWNER, FREED_BY_OTHER, COLLECTED_BY_OTHER, WAYS };

struct batch {
	struct stress_block blocks[MAX_BLOCKS];
	unsigned count;
	size_t size;
	struct stress_rng rng;
	enum way way;
};

static struct batch batch;

static void fill_all(struct batch *b)
{
	for (unsigned i = 0; i < b->count; i++)
		if (!b->blocks[i].p)
			stress_block_adopt(&b->blocks[i], stress_malloc(b->size), b->size, stress_natural_align(b->size), &b->rng);
}

static void check_all(const struct batch *b, const char *when)
{
	for (unsigned i = 0; i < b->count; i++)
		if (b->blocks[i].p)
			stress_check(&b->blocks[i], when);
}

static void free_most(struct batch *b, unsigned keep_one_in)
{
	for (unsigned i = 0; i < b->count; i++)
		if (b->blocks[i].p && (!keep_one_in || stress_below(&b->rng, keep_one_in)))
			stress_block_free(&b->blocks[i]);
}

static void *other_thread(void *arg)
{
	struct batch *b = arg;
	free_most(b, KEEP_ONE_IN);
	if (b->way == COLLECTED_BY_OTHER)
		stress_collect(true);
	return NULL;
}

static void make_holes(struct batch *b)
{
	if (b->way == FREED_BY_OWNER) {
		free_most(b, KEEP_ONE_IN);
	} else {
		pthread_t thread = stress_thread(other_thread, b);
		pthread_join(thread, NULL);
	}
	if (b->way != COLLECTED_BY_OTHER)
		stress_thread_idle();
}

static void run(struct batch *b, size_t size, enum way way)
{
	size_t fit = BATCH_BYTES / size;
	b->size = size;
	b->way = way;
	b->count = fit > MAX_BLOCKS ? MAX_BLOCKS : fit < MIN_BLOCKS ? MIN_BLOCKS : (unsigned)fit;
	b->rng = stress_rng_make(size * WAYS + way);
	fill_all(b);
	make_holes(b);
	check_all(b, "after the holes went back");
	fill_all(b);
	check_all(b, "after the holes were filled again");
	make_holes(b);
	check_all(b, "after the holes went back again");
	free_most(b, 0);
}

int main(int argc, char **argv)
{
	unsigned sizes = 0;
	stress_begin(argc, argv, "holes");
	for (size_t size = 8; size <= STRESS_MIB; size = stress_next_size(size), sizes++) {
#ifdef STRESS_SANITIZER
		run(&batch, size, (enum way)((sizes + stress_seed) % WAYS));
#else
		for (int way = 0; way < WAYS; way++)
			run(&batch, size, (enum way)way);
#endif
	}
	dprintf(STDOUT_FILENO, "holes: %u sizes, survivors whole\n", sizes);
	return 0;
}
