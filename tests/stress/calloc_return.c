/* SPDX-License-Identifier: MIT */
/*
 * calloc after a return. For each size class blocks are filled with 0xAA, some or all are freed (by this thread, or by another),
 * memory is given back, and calloc of the same size must find zeros: neither a block whose return failed, nor one whose return is
 * still on its way, nor one that was used again since may be taken for known zero.
 */
#include "../support/stress_util.h"

#define MAX_BLOCKS 8192
#define BATCH_BYTES (2 * STRESS_MIB)

static unsigned char *blocks[MAX_BLOCKS];
static size_t returned_bytes;

struct job {
	size_t size;
	unsigned count;
	unsigned keep_every; /* 0: free all; n: every n-th block stays */
};

static bool is_kept(const struct job *job, unsigned i)
{
	return job->keep_every && i % job->keep_every == 0;
}

static void allocate_dirty(const struct job *job)
{
	for (unsigned i = 0; i < job->count; i++) {
		if (!blocks[i])
			blocks[i] = stress_malloc(job->size);
		if (!blocks[i])
			stress_fail("out of memory for %zu bytes", job->size);
		memset(blocks[i], 0xaa, job->size);
	}
}

static void *free_most(void *arg)
{
	const struct job *job = arg;
	for (unsigned i = 0; i < job->count; i++) {
		if (is_kept(job, i))
			continue;
		stress_free(blocks[i]);
		blocks[i] = NULL;
	}
	return NULL;
}

static void calloc_again(const struct job *job)
{
	for (unsigned i = 0; i < job->count; i++) {
		if (blocks[i])
			continue;
		blocks[i] = stress_calloc(1, job->size);
		if (!blocks[i])
			stress_fail("out of memory for calloc of %zu bytes", job->size);
		stress_check_zero(blocks[i], job->size);
	}
}

static void check_kept(const struct job *job)
{
	for (unsigned i = 0; i < job->count; i++)
		for (size_t at = 0; is_kept(job, i) && at < job->size; at++)
			if (blocks[i][at] != 0xaa)
				stress_fail("kept block %p of %zu bytes wrong at offset %zu", (void *)blocks[i], job->size, at);
}

static void free_by_other(struct job *job)
{
	pthread_t thread = stress_thread(free_most, job);
	pthread_join(thread, NULL);
}

static void run(size_t size, unsigned keep_every, bool by_other)
{
	size_t fit = BATCH_BYTES / size;
	struct job job = {.size = size, .keep_every = keep_every};
	job.count = fit > MAX_BLOCKS ? MAX_BLOCKS : fit < 3 ? 3 : (unsigned)fit;
	allocate_dirty(&job);
	if (by_other)
		free_by_other(&job);
	else
		free_most(&job);
	stress_thread_idle();
	returned_bytes += stress_collect(true);
	calloc_again(&job);
	check_kept(&job);
	/* once more at once, without a return between free and calloc: the memory is dirty again */
	allocate_dirty(&job);
	free_most(&job);
	calloc_again(&job);
	/* and with a return that comes while only half of the blocks were written since the last one */
	for (unsigned i = 0; i < job.count; i += 2)
		memset(blocks[i], 0xaa, job.size);
	job.keep_every = 0;
	free_most(&job);
	returned_bytes += stress_collect(true);
	calloc_again(&job);
	free_most(&job);
}

int main(int argc, char **argv)
{
	unsigned sizes = 0;
#ifdef STRESS_SANITIZER
	unsigned step = 0;
#endif
	stress_begin(argc, argv, "calloc_return");
	for (size_t size = 1; size <= 3 * STRESS_MIB; size = stress_next_size(size)) {
#ifdef STRESS_SANITIZER
		if (step++ % 4 != stress_seed % 4)
			continue;
#endif
		run(size, 0, false);
		run(size, 5, true);
		sizes++;
	}
	dprintf(STDOUT_FILENO, "calloc_return: %u sizes zero, collects returned %zu KiB\n", sizes, returned_bytes / 1024);
#ifndef STRESS_STANDARD_NAMES
	if (!returned_bytes)
		stress_fail("no collect returned anything: the test shows nothing");
#endif
	return 0;
}
