/* SPDX-License-Identifier: MIT */
/*
 * Two batches, static because a sweep must not allocate and one runs at a time: holes, and runs of free slices.
 */
#include "reclaim/sweep.h"

#include "heap/list.h"
#include "kernel/kernel.h"
#include "kernel/populate.h"
#include "kernel/rlimit.h"
#include "page/reuse.h"
#include "reclaim/hole.h"
#include "reclaim/internal.h"

_Atomic uint64_t sweep_heaps_n;
_Atomic uint64_t sweep_pages_n;
_Atomic uint64_t sweep_full_n;

/* What is handed over at once of free slices: at the measured 50 to 100 us per MiB, a few milliseconds until somebody else can sweep. */
#define SLICES_BATCH_BYTES (64 * MIB)
/* The seed's: a sweep can miss nothing for longer than this many. Here changes are tracked exactly, so this finds what a defect would
 * hide. */
#define FULL_EVERY 64

struct policy sweep_policy = POLICY_DEFAULT;

static uint64_t aged_ns; /* when free slices were last counted as a tick older */

static struct advise_batch holes;
static struct advise_batch slices;

/* --- what sweeps share ------------------------------------------------------------------------------------------------------------ */

static size_t budget = SIZE_MAX;

size_t sweep_set_budget(size_t bytes)
{
	size_t before = budget;
	budget = bytes;
	return before;
}

/* What is queued is all that may go in this pass. Batches of others (handoff.c) are not flushed by it. */
static bool is_spent(const struct advise_batch *batch)
{
	return (batch == &holes || batch == &slices) && batch->bytes >= budget;
}

static size_t flush(struct advise_batch *batch)
{
	budget -= budget == SIZE_MAX ? 0 : min_size(budget, batch->bytes);
	size_t bytes = advise_batch_flush(batch);
	if (reclaim_is_wanted()) {
		/* whoever takes the lock next may fork, or be no owner of the ring */
		bytes += advise_finish();
		reclaim_breathe();
	}
	return bytes;
}

struct advise_batch *sweep_begin(void)
{
	advise_batch_init(&holes, hole_done);
	atomic_fetch_add_explicit(&sweep_heaps_n, 1, memory_order_relaxed);
	return &holes;
}

size_t sweep_flush(void)
{
	return flush(&holes);
}

bool sweep_has_room(const struct advise_batch *batch, unsigned ranges)
{
	return batch->n + ranges <= ADVISE_BATCH_RANGES;
}

uint32_t sweep_gone_ms(unsigned age)
{
	return page_now_ms() - (uint32_t)(age * (sweep_policy.step_ns / 1000000));
}

void sweep_count(struct heap *heap)
{
	if (++heap->sweeps % FULL_EVERY != 0)
		return;
	heap_touch_all(heap);
	atomic_fetch_add_explicit(&sweep_full_n, 1, memory_order_relaxed);
}

/* --- small pages ------------------------------------------------------------------------------------------------------------------ */

static void sweep_page(struct advise_batch *batch, struct heap *heap, struct page *page)
{
	hole_small(batch, page);
	heap_settle(heap, page);
	atomic_fetch_add_explicit(&sweep_pages_n, 1, memory_order_relaxed);
}

bool sweep_small(struct advise_batch *batch, struct heap *heap, bool first)
{
	heap_take_remote(heap);
	/* once a sweep: what this one is refused waits for the next */
	if (first && atomic_exchange_explicit(&heap->retry, 0, memory_order_relaxed))
		heap_touch_all(heap);
	while (heap->changed != NULL && sweep_has_room(batch, HOLE_RANGES_SMALL) && !is_spent(batch)) {
		/* relaxed: the thread waits; a moment later is soon enough */
		if (atomic_load_explicit(&heap->wanted, memory_order_relaxed))
			return false;
		sweep_page(batch, heap, heap->changed);
	}
	return heap->changed != NULL;
}

static bool sweep_part(struct heap *heap, bool first)
{
	if (first)
		sweep_count(heap);
	heap_take_remote(heap);
	atomic_store_explicit(&heap->emptied, 0, memory_order_relaxed); /* before the look: what comes later is seen next time */
	heap_retire_away(heap);
	return sweep_small(&holes, heap, first);
}

size_t sweep_own(struct heap *heap)
{
	size_t bytes = 0;
	sweep_begin();
	for (bool more = true, first = true; more; first = false) {
		more = sweep_part(heap, first);
		bytes += sweep_flush();
		more &= budget > 0;
	}
	return bytes;
}

size_t sweep_parked(struct heap *heap)
{
	size_t bytes = 0;
	sweep_begin();
	for (bool more = true, first = true; more && heap_claim(heap); first = false) {
		more = sweep_part(heap, first);
		heap_unclaim(heap);
		bytes += sweep_flush();
		more &= budget > 0;
	}
	return bytes;
}

/* A fold of what every allocation from a page and every free into it changes; 15 bits. */
static uint16_t look_of(const struct page *page)
{
	uint64_t x = (page->free ^ page->used) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint16_t)(x >> 49);
}

void sweep_quiet(struct advise_batch *batch, struct heap *heap, unsigned max_pages)
{
	/* new ones come to stand before it, and any of those behind it may turn out to be empty, and go */
	struct page mark = {0};
	changed_add(heap, &mark);
	heap_take_remote(heap);
	while (heap->changed != &mark && sweep_has_room(batch, HOLE_RANGES_SMALL))
		sweep_page(batch, heap, heap->changed);
	struct page *next, *before = mark.changed_next;
	changed_remove(heap, &mark);
	for (struct page *page = before; page != NULL && max_pages > 0; page = next, max_pages--) {
		next = page->changed_next;
		uint16_t look = look_of(page);
		if (page->quiet != look)
			page->quiet = look & 0x7fff;
		else if (sweep_has_room(batch, HOLE_RANGES_SMALL))
			sweep_page(batch, heap, page);
	}
}

/* --- medium and large pages ------------------------------------------------------------------------------------------------------ */

static struct page *page_at(const struct region *region, size_t slice)
{
	return (struct page *)(region->records + slice * RECORD_SIZE);
}

static void sweep_word(struct region *region, size_t word, bool (*fn)(struct page *page, void *arg), void *arg)
{
	/* seq_cst: clears the marks before the pages are read, see region_mark_freed */
	uint64_t marks = atomic_exchange(&region->freed[word], 0);
	uint64_t left = 0;
	for (; marks != 0; marks &= marks - 1) {
		if (!fn(page_at(region, word * 64 + bit_lowest(marks)), arg))
			left |= marks & -marks;
		atomic_fetch_add_explicit(&sweep_pages_n, 1, memory_order_relaxed);
	}
	if (left != 0)
		atomic_fetch_or(&region->freed[word], left);
}

void sweep_marked(bool (*fn)(struct page *page, void *arg), void *arg)
{
	for (size_t i = 0; i < region_n(); i++) {
		struct region *region = region_at(i);
		size_t words = align_up(atomic_load_explicit(&region->limit, memory_order_acquire), 64) / 64;
		for (size_t word = 0; word < words; word++) {
			/* relaxed: a mark set meanwhile is seen next time */
			if (atomic_load_explicit(&region->freed[word], memory_order_relaxed) != 0)
				sweep_word(region, word, fn, arg);
		}
	}
}

struct big_sweep {
	struct heap *owner; /* NULL: any */
	bool force;
	struct sweep_left *left;
};

/* Held in vain: what was learned of this memory is no longer so, unless others of its kind are in use (key 0): then this one was one too
 * many. Where nothing is resident nothing was held: it may all be in use again. */
static void note_vain(struct sweep_left *left, size_t bytes, uint32_t key)
{
	left->vain_bytes += bytes;
	if (bytes > 0 && key != 0)
		reuse_forget(key);
}

/* Under the floor. What is expected back sooner is cheaper to keep and comes first; of the same, what was used last. Like an age this grows
 * by one each step. */
static bool fits(const struct sweep_left *left, unsigned age, unsigned keep_steps, size_t bytes)
{
	unsigned rank = age + keep_steps;
	if (left->part)
		return policy_floor_has_room(&sweep_policy, rank, bytes);
	return policy_floor_fits(&sweep_policy, rank, bytes);
}

/* May the page's free memory stay? ret_age: steps since its last allocation. */
static bool big_stays(const struct page *page, const struct heap *owner, struct sweep_left *left, unsigned *ret_age)
{
	uint32_t key = page_reuse_key(page);
	unsigned age = (uint16_t)(heap_epoch(owner) - atomic_load_explicit(&page->stamp, memory_order_relaxed));
	unsigned keep_steps = policy_keep_steps(&sweep_policy, reuse_ms(key));
	*ret_age = age;
	switch (policy_judge(&sweep_policy, age, keep_steps)) {
	case POLICY_HOLD:
		return true;
	case POLICY_KEEP:
		return fits(left, age, keep_steps, hole_big_resident(page));
	case POLICY_EXPIRED:
		note_vain(left, hole_big_resident(page), (uint16_t)(heap_epoch(owner) - reuse_touched(key)) < age ? 0 : key);
		return false;
	case POLICY_RETURN:
		return false;
	}
	return false;
}

static bool sweep_marked_big(struct page *page, void *arg)
{
	struct big_sweep *sweep = arg;
	struct heap *owner = atomic_load_explicit(&page->owner, memory_order_relaxed);
	unsigned age = 0;
	if (sweep->owner != NULL && owner != sweep->owner)
		return false;
	if (is_spent(&holes)) {
		sweep->left->more = true;
		return false;
	}
	/* No free block, or no such page any more: what comes later sets the mark again. acquire: pairs with the release that made the page,
	 * whose record was another kind's before. */
	if (owner == NULL || atomic_load_explicit(&page->word, memory_order_acquire) == 0)
		return true;
	if (!sweep->force && big_stays(page, owner, sweep->left, &age)) {
		sweep->left->more = true;
		atomic_fetch_or_explicit(&owner->held, HEAP_HELD_ANY | HEAP_HELD_OWN, memory_order_relaxed);
		return false;
	}
	if (!sweep_has_room(&holes, HOLE_RANGES_BIG))
		sweep_flush();
	hole_big(&holes, page, sweep_gone_ms(age));
	return true;
}

size_t sweep_big(struct heap *owner, bool force, struct sweep_left *left)
{
	struct big_sweep sweep = {.owner = owner, .force = force, .left = left};
	uint64_t before = advise_counts().returned_bytes;
	advise_batch_init(&holes, hole_done);
	sweep_marked(sweep_marked_big, &sweep);
	flush(&holes);
	return advise_counts().returned_bytes - before;
}

/* --- free slices ----------------------------------------------------------------------------------------------------------------- */

static void slices_done(const struct advise_range *range, bool ok)
{
	struct region *region = range->owner;
	region_purge_give(region, (size_t)(range->addr - region->base) >> SLICE_SHIFT, range->len >> SLICE_SHIFT, ok);
}

/* May a run of free slices stay? */
static bool run_stays(const char *addr, size_t n, struct slice_past past, struct sweep_left *left)
{
	if (past.key & REUSE_AHEAD) {
		populate_note_waste(n << SLICE_SHIFT);
		return false;
	}
	unsigned keep_steps = past.key == 0 ? 0 : policy_keep_steps(&sweep_policy, reuse_ms(past.key));
	if (keep_steps == 0 || sweep_policy.seed)
		return false;
	unsigned age = (unsigned)((uint32_t)(page_now_ms() - past.ms) * UINT64_C(1000000) / sweep_policy.step_ns);
	switch (policy_judge(&sweep_policy, max_size(age, sweep_policy.young_steps), keep_steps)) {
	case POLICY_KEEP:
		return fits(left, age, keep_steps, hole_resident(addr, n << SLICE_SHIFT));
	case POLICY_EXPIRED:
		note_vain(left, hole_resident(addr, n << SLICE_SHIFT), past.key);
		return false;
	default:
		return false;
	}
}

/* Hand over N slices from SLICE on, as far as they are still free and dirty. */
static void purge_run(struct region *region, size_t slice, size_t n, bool force)
{
	for (size_t end = slice + n; slice < end && !is_spent(&slices);) {
		size_t got, most = max_size(1, min_size(ADVISE_CALL_BYTES, budget - slices.bytes) >> SLICE_SHIFT);
		size_t at = region_purge_take(region, slice, force, min_size(end - slice, most), &got);
		if (at == SIZE_MAX)
			return;
		if (at >= end) { /* others took the run meanwhile; this one is not judged yet */
			region_purge_give(region, at, got, false);
			return;
		}
		hole_queue(&slices, region->base + (at << SLICE_SHIFT), got << SLICE_SHIFT, region, 0);
		slice = at + got;
		if (slices.bytes >= SLICES_BATCH_BYTES)
			flush(&slices);
	}
}

static void sweep_region(struct region *region, bool force, struct sweep_left *left)
{
	size_t n;
	struct slice_past past;
	for (size_t slice = 0; (slice = region_purge_find(region, slice, force, &n, &past)) != SIZE_MAX; slice += n) {
		if (force || !run_stays(region->base + (slice << SLICE_SHIFT), n, past, left))
			purge_run(region, slice, n, force);
	}
}

/* However many sweep, slices age by the clock. */
static bool is_tick(void)
{
	uint64_t now = kernel.now_ns();
	if (now - aged_ns < RECLAIM_TICK_NS && now >= aged_ns)
		return false;
	aged_ns = now;
	return true;
}

size_t sweep_slices(bool force, struct sweep_left *left)
{
	uint64_t before = advise_counts().returned_bytes;
	bool strict = rlimit_overcommit() == 2;
	bool tick = is_tick();
	advise_batch_init(&slices, slices_done);
	for (size_t i = 0; i < region_n(); i++) {
		struct region *region = region_at(i);
		sweep_region(region, force, left);
		flush(&slices);
		left->more |= (tick ? region_purge_age(region) : region_dirty(region)) > 0;
		if (tick)
			region_trim(region);
		if (strict) {
			advise_finish(); /* what is in flight is not free yet */
			region_uncommit(region);
		}
	}
	return advise_counts().returned_bytes - before;
}
