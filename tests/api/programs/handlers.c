/* SPDX-License-Identifier: MIT */
/*
 * Signal handlers that block, having interrupted malloc or free anywhere: while they wait, everything free in the process is given back.
 * What the interrupted call was about to do must still be right afterwards. Every block is filled with its own byte and checked before it
 * is freed; a heap swept in the middle of a call shows as a wrong byte, a damaged list, or one block handed out twice.
 *
 * seed: from the command line, else from the clock; printed.
 */
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 2
#define BLOCKS 8192
#define SIGNALS 500
/* Calls between two signals to a worker, so that there is something to give back each time. */
#define OPS_BETWEEN 5000
/* How long a handler waits: some passes over the heaps. */
#define WAIT_MS 2

static int never_ready[2];
static _Atomic int stop;
static _Atomic unsigned handled;
static _Atomic unsigned ops[WORKERS];

struct block {
	unsigned size;
	unsigned char byte;
	unsigned char data[];
};

static void wait_in_handler(int signal)
{
	struct pollfd fd = {.fd = never_ready[0], .events = POLLIN};

	(void)signal;
	atomic_fetch_add(&handled, 1);
	poll(&fd, 1, WAIT_MS);
}

static struct block *block_new(unsigned *seed)
{
	unsigned size = (unsigned)rand_r(seed) % 480;
	struct block *block = malloc(sizeof(*block) + size);

	if (block == NULL)
		abort();
	block->size = size;
	block->byte = (unsigned char)rand_r(seed);
	memset(block->data, block->byte, size);
	return block;
}

static void block_end(struct block *block)
{
	for (unsigned i = 0; block != NULL && i < block->size; i++) {
		if (block->data[i] != block->byte) {
			fprintf(stderr, "a byte of a block changed\n");
			abort();
		}
	}
	free(block);
}

/* Leaves whole OS pages free. */
static void thin_out(struct block **blocks)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		if (i % 32 != 0) {
			block_end(blocks[i]);
			blocks[i] = NULL;
		}
	}
}

struct job {
	_Atomic unsigned *ops;
	unsigned seed;
};

static void *work(void *arg)
{
	struct block **blocks = calloc(BLOCKS, sizeof(*blocks));
	const struct job *job = arg;
	unsigned seed = job->seed;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct block **slot = &blocks[(unsigned)rand_r(&seed) % BLOCKS];
		struct block *old = *slot;

		*slot = old != NULL ? NULL : block_new(&seed);
		block_end(old);
		atomic_fetch_add_explicit(job->ops, 1, memory_order_relaxed);
		if (rand_r(&seed) % (4 * BLOCKS) == 0)
			thin_out(blocks);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		block_end(blocks[i]);
	free(blocks);
	return NULL;
}

/* Lets a worker work, stops it in a handler wherever it is, and gives back what there is meanwhile. Returns whether there was something. */
static int interrupt(pthread_t thread, _Atomic unsigned *done)
{
	unsigned before = atomic_load(done), seen = atomic_load(&handled);

	while (atomic_load(done) - before < OPS_BETWEEN)
		sched_yield();
	pthread_kill(thread, SIGUSR1);
	while (atomic_load(&handled) == seen)
		sched_yield();
	usleep(200);
	return malloc_trim(0);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = wait_in_handler, .sa_flags = SA_RESTART};
	unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : (unsigned)time(NULL);
	struct job jobs[WORKERS];
	pthread_t threads[WORKERS];
	unsigned trims = 0;

	printf("handlers: seed %u\n", seed);
	if (pipe(never_ready) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
		return 1;
	for (unsigned i = 0; i < WORKERS; i++) {
		jobs[i] = (struct job){.ops = &ops[i], .seed = seed + i};
		pthread_create(&threads[i], NULL, work, &jobs[i]);
	}
	for (unsigned i = 0; i < SIGNALS; i++)
		trims += interrupt(threads[i % WORKERS], &ops[i % WORKERS]) != 0;
	atomic_store(&stop, 1);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	printf("%u signals handled, memory given back %u times\n", atomic_load(&handled), trims);
	return 0;
}
