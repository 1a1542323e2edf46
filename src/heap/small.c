/* SPDX-License-Identifier: MIT */
/*
 * A heap's small pages. For each class one page is current: malloc pops from its list. It counts as used once more than it has blocks
 * out ("pinned"), so that the fast free never finds it empty. Other pages with something to hand out wait in a queue, oldest first,
 * since the oldest has had most time to collect free blocks; exhausted pages are on no list.
 *
 * A page is on the changed list, and tagged for the fast free, from its first free after a sweep to the next sweep. So sweeps look
 * only at pages that can have new holes, and the fast path counts nothing for it.
 */
#include "heap/internal.h"
#include "heap/list.h"
#include "kernel/bell.h"
#include "kernel/report.h"
#include "page/reuse.h"

/* Queue pages looked at for a usable one: pages whose holes are all in flight are passed over. */
#define QUEUE_LOOK 4

static bool in_flight(const struct page *page)
{
	/* acquire: pairs with the completion; the slices may be used for something else after this */
	return (atomic_load_explicit(&page->flight, memory_order_acquire) & 0xffff) != 0;
}

static void enqueue(struct heap *heap, struct page *page)
{
	page_set_place(page, PLACE_QUEUE);
	list_append(&heap->queue[page->size_class], page);
}

/* --- the current page ----------------------------------------------------------------------------------------------------------- */

static void set_current(struct heap *heap, unsigned c, struct page *page)
{
	size_t from = c == 0 ? 0 : sizeclass_bytes(c - 1) + 1;
	size_t to = min_size(sizeclass_bytes(c), DIRECT_MAX);
	heap->current[c] = page;
	for (size_t size = from; size <= to; size++)
		heap->by_size[size] = page;
}

static void pin(struct heap *heap, unsigned c, struct page *page)
{
	page_set_place(page, PLACE_CURRENT);
	page->used++;
	set_current(heap, c, page);
}

/* The page is current no more; on no list. */
static void unpin(struct heap *heap, unsigned c)
{
	struct page *page = heap->current[c];
	page->used--;
	page_set_place(page, PLACE_FULL);
	set_current(heap, c, &page_empty);
}

/* What is learned of a heap's wholly free small pages is learned of all of them together. */
static uint32_t key_of(const struct heap *heap)
{
	return reuse_key(heap->number, BIG_CLASSES + 1);
}

static void destroy(struct heap *heap, struct page *page)
{
	if (is_changed(page))
		changed_remove(heap, page);
	page_destroy_small(page, key_of(heap));
	heap->small_n--;
	heap_note_freed(SLICE_SIZE);
}

static void put_aside(struct heap *heap, struct page *page)
{
	if (!page_is_exhausted(page))
		enqueue(heap, page);
	else if (is_changed(page))
		changed_remove(heap, page);
}

static bool has_blocks(struct page *page)
{
	return page_has_listed(page) || page_extend(page);
}

static struct page *dequeue(struct heap *heap, unsigned c)
{
	struct page *page = heap->queue[c].head;
	for (unsigned i = 0; page != NULL && i < QUEUE_LOOK; i++, page = page->next) {
		if (has_blocks(page)) {
			list_remove(&heap->queue[c], page);
			return page;
		}
	}
	return NULL;
}

/* Small pages are brought in ahead while the heap makes one after the other: as many at once as it made others in the last GROWN_MS to
 * twice that. A pause of as long ends it; what nobody took by then goes back with the next sweep. */
#define GROWN_MS 100
/* At most a sixteenth of what the heap has in small pages, so less than 1 MiB of them does without, and no more than 2 MiB: a call for that
 * takes half a millisecond or more, and larger ones cost no less for each OS page. */
#define AHEAD_SHARE 16
#define AHEAD_MAX (2 * MIB / SLICE_SIZE)

/* A page more. Returns how many others were made lately. */
static uint32_t note_grown(struct heap *heap)
{
	uint32_t now_ms = page_now_ms(), ago_ms = now_ms - heap->grown.since_ms;
	if (ago_ms >= GROWN_MS) {
		heap->grown.before_n = ago_ms < 2 * GROWN_MS ? heap->grown.n : 0;
		heap->grown.n = 0;
		heap->grown.since_ms = now_ms;
	}
	return heap->grown.before_n + heap->grown.n++;
}

/* PAGE is new; fresh: of slices that are not resident. */
static void grow(struct heap *heap, struct page *page, bool fresh)
{
	size_t n = min_size(note_grown(heap), min_size(heap->small_n / AHEAD_SHARE, AHEAD_MAX));
	if (!fresh || n == 0)
		return;
	size_t in = page_bring_in_ahead(page, n, key_of(heap)) * SLICE_SIZE;
	if (in >= BELL_START_BYTES) /* what is less may lie about until somebody sweeps */
		heap_note_freed(in);
}

static struct page *create(struct heap *heap, unsigned c)
{
	struct page *page = page_create(heap, c, random_next(&heap->random));
	if (page == NULL)
		return NULL;
	heap->small_n++;
	struct slice_past past = region_past(page->start);
	if (!page->dirty_tail && past.key == key_of(heap)) /* it was this heap's, and was returned */
		reuse_note(past.key, page_now_ms() - past.ms, SLICE_SIZE);
	grow(heap, page, !page->dirty_tail);
	return page;
}

/* Replace the exhausted current page. NULL: no memory. */
static struct page *next_page(struct heap *heap, unsigned c)
{
	struct page *page = dequeue(heap, c);
	if (page == NULL)
		page = orphan_take_page(heap, c);
	if (page == NULL)
		page = create(heap, c);
	if (page == NULL)
		return NULL;
	struct page *old = heap->current[c];
	if (old != &page_empty) {
		unpin(heap, c);
		put_aside(heap, old);
	}
	pin(heap, c, page);
	return page;
}

void *small_alloc(struct heap *heap, unsigned c)
{
	struct page *page = heap->current[c];
	for (;;) {
		uint64_t first = page_first(page);
		if (first < OFFSET_END)
			return page_pop(page);
		if (first != OFFSET_END)
			report_misuse("damaged block", page->start);
		/* relaxed: what is missed now is found next time */
		if (atomic_load_explicit(&heap->remote_pages, memory_order_relaxed) != NULL) {
			small_take_remote(heap);
			if (page_has_listed(page))
				continue;
		}
		if (page_extend(page))
			continue;
		page = next_page(heap, c);
		if (page == NULL)
			return NULL;
	}
}

/* --- free ----------------------------------------------------------------------------------------------------------------------- */

/* A page in the queue has no block out: keep it if it is the only one there, else its slice may serve another class. */
static void emptied(struct heap *heap, struct page *page)
{
	struct page_list *queue = &heap->queue[page->size_class];
	if (queue->head == queue->tail || in_flight(page))
		return;
	list_remove(queue, page);
	destroy(heap, page);
}

/* Blocks were just listed. */
static void got_blocks(struct heap *heap, struct page *page)
{
	if (page_place(page) == PLACE_FULL)
		enqueue(heap, page);
	if (!is_changed(page))
		changed_add(heap, page);
	if (page->used == 0)
		emptied(heap, page);
}

void small_free(struct heap *heap, struct page *page, void *block)
{
	uint64_t link = (uint64_t)(uintptr_t)block ^ page->key;
	bool pinned = page_place(page) == PLACE_CURRENT;
	if ((size_t)((char *)block - page->start) >= (size_t)page->formed * page->block_bytes)
		report_misuse("invalid pointer", block);
	if (page->free == link || page->used <= pinned)
		report_misuse("double free", block);
	page_push(page, block);
	page->used--;
	got_blocks(heap, page);
}

void heap_page_emptied(struct page *page)
{
	if (page_place(page) == PLACE_CURRENT || page->used != 0)
		report_misuse("double free", page->start + page_first(page));
	emptied(heap_tls, page);
}

/* --- frees from other threads --------------------------------------------------------------------------------------------------- */

static void push_remote_page(struct heap *heap, struct page *page)
{
	struct page *head = atomic_load_explicit(&heap->remote_pages, memory_order_relaxed);
	do {
		atomic_store_explicit(&page->remote_next, head, memory_order_relaxed);
		/* release: pairs with the acquire in small_take_remote, which reads remote_next */
	} while (!atomic_compare_exchange_weak_explicit(&heap->remote_pages, &head, page, memory_order_release, memory_order_relaxed));
}

/* The page is on one heap's stack, or about to be, exactly while its remote word is not 0: the one who makes it so pushes it. As long
 * as it is not 0 its blocks count as used, so neither page nor heap can go. */
void small_push_remote(struct page *page, void *block)
{
	if (!page_push_remote(page, block))
		return;
	push_remote_page(atomic_load_explicit(&page->owner, memory_order_acquire), page);
	heap_note_freed(SLICE_SIZE); /* what a page can hold: its owner may be asleep, and then only a sweep finds the blocks */
}

void small_take_remote(struct heap *heap)
{
	struct page *page = atomic_exchange_explicit(&heap->remote_pages, NULL, memory_order_acquire);
	while (page != NULL) {
		struct page *next = atomic_load_explicit(&page->remote_next, memory_order_relaxed);
		struct heap *owner = atomic_load_explicit(&page->owner, memory_order_acquire);
		if (owner != heap)
			push_remote_page(owner, page); /* it moved since: orphan_take_page */
		else if (page_take_remote(page) > 0)
			got_blocks(heap, page);
		page = next;
	}
}

/* --- giving pages up ------------------------------------------------------------------------------------------------------------ */

void small_retire_empty(struct heap *heap)
{
	for (unsigned c = 0; c < SMALL_CLASSES; c++) {
		struct page *page = heap->current[c];
		if (page != &page_empty && page->used == 1) {
			unpin(heap, c);
			enqueue(heap, page);
		}
		struct page *next;
		for (page = heap->queue[c].head; page != NULL; page = next) {
			next = page->next;
			if (page->used > 0 || in_flight(page))
				continue;
			list_remove(&heap->queue[c], page);
			destroy(heap, page);
		}
	}
}

struct page *small_give(struct heap *heap, unsigned c)
{
	struct page *page = dequeue(heap, c);
	if (page == NULL && heap->current[c] != &page_empty && has_blocks(heap->current[c])) {
		page = heap->current[c];
		unpin(heap, c);
	}
	if (page != NULL && is_changed(page))
		changed_remove(heap, page);
	return page;
}

static size_t changed_bytes(const struct page *page)
{
	size_t free = (size_t)(page->formed + (page_place(page) == PLACE_CURRENT) - page->used) * page->block_bytes;
	size_t away = (size_t)__builtin_popcount(page->away) << OS_PAGE_SHIFT; /* those of the unformed tail included: low is fine */
	return free > away ? free - away : 0;
}

size_t heap_changed_bytes(const struct heap *heap, unsigned max_pages)
{
	size_t bytes = 0;
	for (const struct page *page = heap->changed; page != NULL && max_pages > 0; page = page->changed_next, max_pages--)
		bytes += changed_bytes(page);
	return bytes;
}

void heap_settle(struct heap *heap, struct page *page)
{
	changed_remove(heap, page);
}

void heap_touch_all(struct heap *heap)
{
	for (unsigned c = 0; c < SMALL_CLASSES; c++) {
		for (struct page *page = heap->queue[c].head; page != NULL; page = page->next) {
			if (!is_changed(page))
				changed_add(heap, page);
		}
		if (heap->current[c] != &page_empty && !is_changed(heap->current[c]))
			changed_add(heap, heap->current[c]);
	}
}
