/* SPDX-License-Identifier: MIT */
/*
 * Two batches, static because a sweep must not allocate and one runs at a time: holes, and runs of free slices.
 */
#include "reclaim/sweep.h"

#include "kernel/advise.h"
#include "kernel/rlimit.h"
#include "reclaim/hole.h"
#include "reclaim/internal.h"

_Atomic uint64_t sweep_heaps_n;
_Atomic uint64_t sweep_pages_n;

/* What is handed over at once of free slices: at the measured 50 to 100 us per MiB, a few milliseconds until somebody else can sweep. */
#define SLICES_BATCH_BYTES (64 * MIB)

static struct advise_batch holes;
static struct advise_batch slices;

/* --- heaps ---------------------------------------------------------------------------------------------------------------------- */

static size_t flush(struct advise_batch *batch)
{
	size_t bytes = advise_batch_flush(batch);
	reclaim_breathe();
	return bytes;
}

static bool batch_has_room(unsigned ranges)
{
	return holes.n + ranges <= ADVISE_BATCH_RANGES;
}

/* Queue holes of changed pages until the batch is full or the thread wants its heap. True: there is more to look at. Holder. */
static bool sweep_part(struct heap *heap, bool first)
{
	heap_take_remote(heap);
	/* once a sweep: what this one is refused waits for the next */
	if (first && atomic_exchange_explicit(&heap->retry, 0, memory_order_relaxed))
		heap_touch_all(heap);
	heap_retire_empty(heap);
	while (heap->changed != NULL && batch_has_room(HOLE_RANGES_SMALL)) {
		/* relaxed: the thread waits; a moment later is soon enough */
		if (atomic_load_explicit(&heap->wanted, memory_order_relaxed))
			return false;
		struct page *page = heap->changed;
		hole_small(&holes, page);
		heap_settle(heap, page);
		atomic_fetch_add_explicit(&sweep_pages_n, 1, memory_order_relaxed);
	}
	return heap->changed != NULL;
}

static void begin(void)
{
	advise_batch_init(&holes, hole_done);
	atomic_fetch_add_explicit(&sweep_heaps_n, 1, memory_order_relaxed);
}

size_t sweep_own(struct heap *heap)
{
	size_t bytes = 0;
	begin();
	for (bool more = true, first = true; more; first = false) {
		more = sweep_part(heap, first);
		bytes += flush(&holes);
	}
	return bytes;
}

size_t sweep_parked(struct heap *heap)
{
	size_t bytes = 0;
	begin();
	for (bool more = true, first = true; more && heap_claim(heap); first = false) {
		more = sweep_part(heap, first);
		heap_unclaim(heap);
		bytes += flush(&holes);
	}
	return bytes;
}

/* --- medium and large pages ------------------------------------------------------------------------------------------------------ */

static struct page *page_at(const struct region *region, size_t slice)
{
	return (struct page *)(region->records + slice * RECORD_SIZE);
}

/* One word of marks. Returns those that stay: young pages, or another heap's. */
static uint64_t sweep_marks(struct region *region, size_t word, struct heap *owner, bool force)
{
	/* seq_cst: clears the marks before the pages are read, see region_mark_freed */
	uint64_t marks = atomic_exchange(&region->freed[word], 0);
	uint64_t left = 0;
	for (; marks != 0; marks &= marks - 1) {
		struct page *page = page_at(region, word * 64 + bit_lowest(marks));
		bool mine = owner == NULL || atomic_load_explicit(&page->owner, memory_order_relaxed) == owner;
		if (!batch_has_room(HOLE_RANGES_BIG))
			flush(&holes);
		if (!mine || !hole_big(&holes, page, force))
			left |= marks & -marks;
		atomic_fetch_add_explicit(&sweep_pages_n, 1, memory_order_relaxed);
	}
	if (left != 0)
		atomic_fetch_or(&region->freed[word], left);
	return left;
}

size_t sweep_big(struct heap *owner, bool force, bool *ret_left)
{
	uint64_t before = advise_counts().returned_bytes;
	advise_batch_init(&holes, hole_done);
	for (size_t i = 0; i < region_n(); i++) {
		struct region *region = region_at(i);
		size_t words = align_up(atomic_load_explicit(&region->limit, memory_order_acquire), 64) / 64;
		for (size_t word = 0; word < words; word++) {
			/* relaxed: a mark set meanwhile is seen next time */
			if (atomic_load_explicit(&region->freed[word], memory_order_relaxed) != 0 && sweep_marks(region, word, owner, force) != 0)
				*ret_left = true;
		}
	}
	advise_batch_flush(&holes);
	return advise_counts().returned_bytes - before;
}

/* --- free slices ----------------------------------------------------------------------------------------------------------------- */

static void slices_done(const struct advise_range *range, bool ok)
{
	struct region *region = range->owner;
	region_purge_give(region, (size_t)(range->addr - region->base) >> SLICE_SHIFT, range->len >> SLICE_SHIFT, ok);
}

static void sweep_region(struct region *region, bool force)
{
	size_t n;
	size_t slice = 0;
	while ((slice = region_purge_take(region, slice, force, ADVISE_CALL_BYTES / SLICE_SIZE, &n)) != SIZE_MAX) {
		advise_batch_add(&slices, region->base + (slice << SLICE_SHIFT), n << SLICE_SHIFT, region, 0);
		slice += n;
		if (slices.bytes >= SLICES_BATCH_BYTES)
			flush(&slices);
	}
}

size_t sweep_slices(bool force, bool *ret_left)
{
	uint64_t before = advise_counts().returned_bytes;
	bool strict = rlimit_overcommit() == 2;
	advise_batch_init(&slices, slices_done);
	for (size_t i = 0; i < region_n(); i++) {
		struct region *region = region_at(i);
		sweep_region(region, force);
		flush(&slices);
		if (region_purge_age(region) > 0)
			*ret_left = true;
		if (strict)
			region_uncommit(region);
	}
	return advise_counts().returned_bytes - before;
}
