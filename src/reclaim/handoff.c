/* SPDX-License-Identifier: MIT */
/*
 * Two batches: threads fill the one while the holder of the reclaim lock flushes the other, so that the lock here is held for finding holes
 * only, never while the kernel works.
 */
#include "reclaim/handoff.h"

#include "kernel/advise.h"
#include "kernel/bell.h"
#include "kernel/lock.h"
#include "reclaim/hole.h"
#include "reclaim/sweep.h"

static struct {
	struct lock lock; /* guards which batch is being filled, and that one */
	unsigned filling;
	struct advise_batch batch[2];
} handoff;

static struct advise_batch *begin(void)
{
	lock_take(&handoff.lock);
	struct advise_batch *batch = &handoff.batch[handoff.filling];
	batch->done = hole_done;
	return batch;
}

static bool end(const struct advise_batch *batch)
{
	bool any = batch->n > 0;
	lock_release(&handoff.lock);
	if (any)
		bell_ring_now();
	return any;
}

bool handoff_changed(struct heap *heap)
{
	atomic_fetch_add_explicit(&sweep_heaps_n, 1, memory_order_relaxed);
	sweep_count(heap);
	heap_take_remote(heap);
	heap_retire_away(heap);
	struct advise_batch *batch = begin();
	bool more = sweep_small(batch, heap, true);
	end(batch);
	return !more;
}

bool handoff_quiet(struct heap *heap, unsigned max_pages)
{
	struct advise_batch *batch = begin();
	sweep_quiet(batch, heap, max_pages);
	return end(batch);
}

size_t handoff_flush(void)
{
	lock_take(&handoff.lock);
	struct advise_batch *batch = &handoff.batch[handoff.filling];
	handoff.filling ^= 1;
	lock_release(&handoff.lock);
	/* only the holder of the reclaim lock comes here, so the batch just left is nobody else's; the other is empty */
	return advise_batch_flush(batch);
}

void handoff_fork_prepare(void)
{
	lock_take(&handoff.lock);
}

void handoff_fork_done(bool child)
{
	lock_fork_done(&handoff.lock, child);
}
