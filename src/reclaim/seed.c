/* SPDX-License-Identifier: MIT */
/*
 * See seed.h. The parked heap is held for finding, a batch at a time; its thread can have it back between two pages.
 */
#include "reclaim/seed.h"

#include "kernel/advise.h"
#include "reclaim/hole.h"
#include "reclaim/internal.h"
#include "reclaim/sweep.h"

/* Own large pages past their hold that one look decides on together; later ones are decided first come, first served. */
#define CANDIDATES 64

/* --- who keeps a page --------------------------------------------------------------------------------------------------------------- */

static uint16_t mark_of(const struct heap *heap)
{
	return (uint16_t)(PAGE_KEPT | (heap->number & (PAGE_KEPT - 1)));
}

/* A heap that still counts this page to its share. Marks are 15 bits of the heap's number: one that two heaps share keeps a page a little
 * longer. */
static bool is_kept_by_other(const struct page *page, const struct heap *heap)
{
	if ((page->collects & PAGE_KEPT) == 0 || page->collects == mark_of(heap))
		return false;
	for (const struct heap *other = heap_first(); other != NULL; other = other->next)
		if (mark_of(other) == page->collects && other->floor_bytes > 0)
			return true;
	return false;
}

/* FREE: the page's free blocks. */
static size_t resident_bytes(const struct page *page, uint64_t free)
{
	uint64_t away = atomic_load_explicit(&page->away_blocks, memory_order_relaxed);
	return (size_t)__builtin_popcountll(free & ~away) * page->block_bytes;
}

static size_t resident_blocks_bytes(const struct page *page)
{
	return resident_bytes(page, atomic_load_explicit(&page->word, memory_order_acquire));
}

static unsigned age_of(const struct page *page, const struct heap *owner)
{
	return (uint16_t)(heap_epoch(owner) - atomic_load_explicit(&page->stamp, memory_order_relaxed));
}

static bool keep(struct heap *heap, struct page *page, size_t bytes)
{
	if (!policy_floor_take(&sweep_policy, bytes))
		return false;
	heap->floor_bytes += bytes;
	page->collects = mark_of(heap);
	return true;
}

static void note_held(struct heap *heap, unsigned what)
{
	atomic_fetch_or_explicit(&heap->held, (uint8_t)what, memory_order_relaxed);
}

/* --- the heap's own pages ------------------------------------------------------------------------------------------------------------ */

struct candidate {
	struct page *page;
	unsigned age;
};

struct own_sweep {
	struct advise_batch *batch;
	bool begun;  /* small pages were looked at, large ones were */
	bool looked;
	bool more;   /* the batch was full */
	unsigned n;
	struct candidate candidate[CANDIDATES]; /* youngest first */
};

static void give_up(struct own_sweep *sweep, struct heap *heap, struct page *page)
{
	page->collects = 0;
	if (page->block_bytes >= HEAP_SEED_LARGE_MIN && heap_retire_page(heap, page))
		return;
	if (sweep_has_room(sweep->batch, HOLE_RANGES_BIG))
		hole_big(sweep->batch, page, page_now_ms());
	else
		sweep->more = true;
}

static void add_candidate(struct own_sweep *sweep, struct page *page, unsigned age)
{
	unsigned i = sweep->n++;
	for (; i > 0 && sweep->candidate[i - 1].age > age; i--)
		sweep->candidate[i] = sweep->candidate[i - 1];
	sweep->candidate[i] = (struct candidate){.page = page, .age = age};
}

static void decide(struct own_sweep *sweep, struct heap *heap, struct page *page, unsigned age)
{
	if (age >= sweep_policy.keep_steps || !keep(heap, page, resident_blocks_bytes(page)))
		give_up(sweep, heap, page);
}

static void own_page(struct heap *heap, struct page *page, void *arg)
{
	struct own_sweep *sweep = arg;
	unsigned age = age_of(page, heap);
	/* relaxed: the thread waits; a moment later is soon enough */
	if (atomic_load_explicit(&heap->wanted, memory_order_relaxed))
		return;
	if (!sweep->looked && page->collects & PAGE_KEPT)
		page->collects = 0;
	if (page->collects & PAGE_KEPT)
		return;
	if (resident_blocks_bytes(page) == 0)
		heap_retire_page(heap, page);
	else if (page->block_bytes < HEAP_SEED_LARGE_MIN || sweep_policy.step_ns == 0)
		give_up(sweep, heap, page);
	else if (age < sweep_policy.young_steps)
		note_held(heap, HEAP_HELD_ANY | HEAP_HELD_OWN);
	else if (sweep->n < CANDIDATES)
		add_candidate(sweep, page, age);
	else
		decide(sweep, heap, page, age);
}

/* The heap is held. If its thread wants it back before the list is decided, those pages stay as they are, uncounted. */
static void sweep_own_pages(struct own_sweep *sweep, struct heap *heap)
{
	sweep->n = 0;
	sweep->more = false;
	heap_each_big(heap, own_page, sweep);
	for (unsigned i = 0; i < sweep->n; i++) {
		if (atomic_load_explicit(&heap->wanted, memory_order_relaxed))
			return;
		decide(sweep, heap, sweep->candidate[i].page, sweep->candidate[i].age);
	}
	sweep->looked = true;
}

/* --- abandoned pages ------------------------------------------------------------------------------------------------------------------ */

static bool is_abandoned(const struct page *page, const struct heap *owner)
{
	return page_place(page) == PLACE_FULL || atomic_load_explicit(&owner->orphan, memory_order_relaxed);
}

struct abandoned_sweep {
	struct heap *heap; /* the one that is swept */
	struct advise_batch *batch;
};

/* The page is abandoned, and its free blocks, of which BYTES are resident, are held. Does it stay as it is? */
static bool abandoned_stays(struct heap *heap, struct page *page, size_t bytes)
{
	const struct heap *owner = atomic_load_explicit(&page->owner, memory_order_relaxed);
	unsigned age = age_of(page, owner);
	if (page->block_bytes < HEAP_SEED_LARGE_MIN || sweep_policy.step_ns == 0 || bytes == 0)
		return false;
	if (age < sweep_policy.young_steps) {
		note_held(heap, HEAP_HELD_ANY);
		return true;
	}
	if (age < sweep_policy.keep_steps && (is_kept_by_other(page, heap) || keep(heap, page, bytes)))
		return true;
	page->collects = 0;
	return false;
}

static bool may_be_abandoned(const struct page *page)
{
	const struct heap *owner = atomic_load_explicit(&page->owner, memory_order_relaxed);
	return owner != NULL && is_abandoned(page, owner);
}

/* Hold the page's free blocks, as whoever allocates them would: until they are put back the page stays what it is. */
static uint64_t hold_free_blocks(struct page *page)
{
	/* a look first: a page that is full costs no locked write */
	if (atomic_load_explicit(&page->word, memory_order_relaxed) == 0)
		return 0;
	/* acquire: pairs with the release that made the page, and with the frees */
	return atomic_exchange_explicit(&page->word, 0, memory_order_acquire);
}

static bool abandoned_page(struct page *page, void *arg)
{
	struct abandoned_sweep *sweep = arg;
	/* relaxed: hints. No free block, or no such page any more: what comes later sets the mark again */
	if (atomic_load_explicit(&page->word, memory_order_relaxed) == 0)
		return true;
	if (!may_be_abandoned(page))
		return false;
	uint64_t held = hold_free_blocks(page);
	if (held == 0)
		return true;
	bool leave = !may_be_abandoned(page) || abandoned_stays(sweep->heap, page, resident_bytes(page, held));
	heap_put_blocks(page, held);
	if (leave)
		return false;
	if (!sweep_has_room(sweep->batch, HOLE_RANGES_BIG))
		sweep_flush();
	hole_big(sweep->batch, page, page_now_ms());
	return true;
}

static size_t sweep_abandoned(struct heap *heap, struct advise_batch *batch)
{
	struct abandoned_sweep sweep = {.heap = heap, .batch = batch};
	sweep_marked(abandoned_page, &sweep);
	return sweep_flush();
}

static bool freed_page(struct page *page, void *arg)
{
	struct advise_batch *batch = arg;
	const struct heap *owner = atomic_load_explicit(&page->owner, memory_order_relaxed);
	/* acquire: pairs with the release that made the page */
	uint64_t word = atomic_load_explicit(&page->word, memory_order_acquire);
	if (owner == NULL || word == 0)
		return true;
	if (!is_abandoned(page, owner) || page_reuse_key(page) != 0 || word != page_full_word(page))
		return false;
	if (!sweep_has_room(batch, HOLE_RANGES_BIG))
		sweep_flush();
	hole_big(batch, page, page_now_ms());
	return true;
}

size_t seed_sweep_freed(void)
{
	sweep_marked(freed_page, sweep_begin());
	return sweep_flush();
}

/* --- a sweep ------------------------------------------------------------------------------------------------------------------------ */

void seed_give_share(struct heap *heap)
{
	policy_floor_give(&sweep_policy, heap->floor_bytes);
	heap->floor_bytes = 0;
}

static struct advise_batch *begin(struct heap *heap)
{
	reclaim_move_clock(heap);
	seed_give_share(heap);
	heap->floor_epoch = heap_epoch(heap);
	atomic_store_explicit(&heap->held, 0, memory_order_relaxed);
	return sweep_begin();
}

/* What was found is handed over: bytes the kernel accepted. More pages than a batch has room for are looked at again from the start, so
 * a kernel that refuses all of a batch ends the sweep: it would be asked for the same for ever. */
static size_t flush_part(struct own_sweep *sweep, bool *more)
{
	size_t bytes = sweep_flush() + advise_finish();
	if (sweep->more && bytes == 0)
		*more = false;
	return bytes;
}

/* One batch's worth of a heap that is held. True: there is more. */
static bool sweep_part(struct heap *heap, struct own_sweep *sweep)
{
	bool first = !sweep->begun;
	sweep->begun = true;
	if (first) {
		sweep_count(heap);
		heap->stay_bytes = sweep_policy.step_ns == 0 ? 0 : sweep_policy.floor_bytes;
	}
	heap->big_changed = 0;
	heap_take_remote(heap);
	heap_retire_small(heap);
	if (sweep_small(sweep->batch, heap, first))
		return true;
	sweep_own_pages(sweep, heap);
	return sweep->more;
}

size_t seed_sweep_own(struct heap *heap)
{
	struct own_sweep sweep = {.batch = begin(heap)};
	size_t bytes = 0;
	for (bool more = true; more;) {
		more = sweep_part(heap, &sweep);
		bytes += flush_part(&sweep, &more);
	}
	return bytes + sweep_abandoned(heap, sweep.batch);
}

size_t seed_sweep_parked(struct heap *heap)
{
	struct own_sweep sweep = {.batch = begin(heap)};
	size_t bytes = 0;
	for (bool more = true; more && heap_claim(heap);) {
		more = sweep_part(heap, &sweep);
		heap_unclaim(heap);
		bytes += flush_part(&sweep, &more);
	}
	return bytes + sweep_abandoned(heap, sweep.batch);
}

size_t seed_sweep_orphan(struct heap *heap)
{
	struct advise_batch *batch = sweep_begin();
	size_t bytes = 0;
	for (bool more = true, first = true; more && heap_claim(heap); first = false) {
		heap_take_remote(heap);
		heap_retire_small(heap);
		more = sweep_small(batch, heap, first);
		heap_unclaim(heap);
		bytes += sweep_flush();
	}
	return bytes;
}

void seed_collect(struct heap *heap)
{
	heap_take_remote(heap);
	heap_retire_small(heap);
	heap_retire_waiting(heap);
}
