/* SPDX-License-Identifier: MIT */
/*
 * A heap's medium and large pages. Taking and freeing a block is one atomic step on the page's word (page/big.c); the heap only
 * remembers where to look: a current page and a queue per class. A page found full is dropped from both; the free that gives it a
 * block again puts it on its heap's stack. `nowhere` is 0 while the page is in one of these places, so that exactly one does.
 */
#include "heap/internal.h"
#include "heap/list.h"
#include "page/extent.h"
#include "page/reuse.h"

/* Queue pages looked at: those whose blocks are all in flight are passed over. */
#define QUEUE_LOOK 8

static struct page_list *queue_of(struct heap *heap, const struct page *page)
{
	return &heap->big_queue[page->size_class - SMALL_CLASSES];
}

static void enqueue(struct heap *heap, struct page *page)
{
	page_set_place(page, PLACE_QUEUE);
	list_append(queue_of(heap, page), page);
}

static bool list_again(struct page *page)
{
	uint8_t yes = 1;
	return atomic_compare_exchange_strong(&page->nowhere, &yes, 0);
}

/* The page seems full: on no list, unless a block came free just now. seq_cst, with big_free: it sets the word, then looks at nowhere;
 * this sets nowhere, then looks at the word. */
static void drop_full(struct heap *heap, struct page *page)
{
	page_set_place(page, PLACE_FULL);
	atomic_store(&page->nowhere, 1);
	if (atomic_load(&page->word) != 0 && list_again(page))
		enqueue(heap, page);
}

static void push_listed(struct page *page)
{
	struct heap *heap = atomic_load_explicit(&page->owner, memory_order_acquire);
	struct page *head = atomic_load_explicit(&heap->listed_pages, memory_order_relaxed);
	do {
		atomic_store_explicit(&page->listed_next, head, memory_order_relaxed);
		/* release: pairs with the acquire in big_take_listed */
	} while (!atomic_compare_exchange_weak_explicit(&heap->listed_pages, &head, page, memory_order_release, memory_order_relaxed));
}

void big_take_listed(struct heap *heap)
{
	struct page *page = atomic_exchange_explicit(&heap->listed_pages, NULL, memory_order_acquire);
	while (page != NULL) {
		struct page *next = atomic_load_explicit(&page->listed_next, memory_order_relaxed);
		if (atomic_load_explicit(&page->owner, memory_order_acquire) == heap)
			enqueue(heap, page);
		else
			push_listed(page); /* it moved since */
		page = next;
	}
}

static bool has_resident(const struct page *page)
{
	uint64_t away = atomic_load_explicit(&page->away_blocks, memory_order_relaxed);
	return (atomic_load_explicit(&page->word, memory_order_relaxed) & ~away) != 0;
}

/* The seed system's threads give a page up when it is full, and take back one at a time: the others are abandoned pages, which every
 * thread's sweep passes. */
static void take_one_listed(struct heap *heap, unsigned b, bool resident)
{
	struct page *page = atomic_exchange_explicit(&heap->listed_pages, NULL, memory_order_acquire);
	bool taken = false;
	while (page != NULL) {
		struct page *next = atomic_load_explicit(&page->listed_next, memory_order_relaxed);
		bool mine = atomic_load_explicit(&page->owner, memory_order_acquire) == heap;
		if (mine && !taken && page->size_class == SMALL_CLASSES + b && (!resident || has_resident(page))) {
			taken = true;
			enqueue(heap, page);
		} else {
			push_listed(page);
		}
		page = next;
	}
}

/* resident: only one that has resident blocks will do. */
static void take_listed_for(struct heap *heap, unsigned b, bool resident)
{
	/* relaxed: what is missed now is found next time */
	if (atomic_load_explicit(&heap->listed_pages, memory_order_relaxed) == NULL)
		return;
	if (heap_one_clock)
		take_one_listed(heap, b, resident);
	else
		big_take_listed(heap);
}

void big_adopt(struct heap *heap, struct page *page)
{
	uint32_t key = heap_block_key(heap, page);
	if (page_reuse_key(page) == key) /* its slices were the same heap's, of the same class, and were returned */
		reuse_note(key, page_now_ms() - page_gone_ms(page), page_bytes(page));
	page_set_past(page, key, 0);
	atomic_store_explicit(&page->stamp, (uint16_t)heap_epoch(heap), memory_order_relaxed);
}

/* The block is not resident and will be written, as far as others of its kind were. */
static void bring_in(const struct heap *heap, struct page *page, void *block)
{
	size_t bytes = extent_bytes(heap_block_key(heap, page), page->block_bytes);
	if (bytes > 0)
		page_bring_in(page, block, bytes);
}

static void *take(const struct heap *heap, struct page *page, bool *ret_clean)
{
	void *block = page_take_block(page, ret_clean);
	if (block != NULL && *ret_clean)
		bring_in(heap, page, block);
	uint16_t epoch = (uint16_t)heap_epoch(heap);
	if (block == NULL || atomic_load_explicit(&page->stamp, memory_order_relaxed) == epoch)
		return block;
	atomic_store_explicit(&page->stamp, epoch, memory_order_relaxed);
	reuse_touch(page_reuse_key(page), epoch);
	return block;
}

static struct page *dequeue(struct heap *heap, unsigned b)
{
	struct page *page = heap->big_queue[b].head;
	for (unsigned i = 0; page != NULL && i < QUEUE_LOOK; i++, page = page->next) {
		if (atomic_load_explicit(&page->word, memory_order_relaxed) != 0) {
			list_remove(&heap->big_queue[b], page);
			return page;
		}
	}
	return NULL;
}

/* A new page, where one of the class was returned a short while ago: a ghost hit, whatever slices it is made of. */
static void note_back(struct heap *heap, const struct page *page)
{
	unsigned b = page->size_class - SMALL_CLASSES;
	uint32_t key = heap_block_key(heap, page);
	if (heap->gone[b].n == 0)
		return;
	heap->gone[b].n--;
	if (page_reuse_key(page) != key) /* else big_adopt counts it */
		reuse_note(key, page_now_ms() - heap->gone[b].ms, page_bytes(page));
}

static struct page *create(struct heap *heap, unsigned c)
{
	/* what other classes of this heap have wholly free is resident still, likely; under the seed policy it is for a sweep to decide */
	if (!heap_one_clock)
		heap_retire_empty(heap);
	struct page *page = page_create(heap, c, 0);
	if (page == NULL)
		return NULL;
	heap->big_n++;
	note_back(heap, page);
	big_adopt(heap, page);
	return page;
}

static struct page *next_page(struct heap *heap, unsigned c)
{
	unsigned b = c - SMALL_CLASSES;
	struct page *page = dequeue(heap, b);
	if (page == NULL)
		page = orphan_take_page(heap, c);
	if (page == NULL)
		page = create(heap, c);
	if (page == NULL)
		return NULL;
	struct page *old = heap->big[b];
	heap->big[b] = page;
	page_set_place(page, PLACE_CURRENT);
	if (old != NULL)
		drop_full(heap, old);
	return page;
}

static void abandon(struct page *page)
{
	page_set_place(page, PLACE_FULL);
	push_listed(page);
}

/* The current page has nothing that is resident: another one may, before this one takes a fault. Else a working set slightly larger than a
 * page drifts into fresh memory with each use. */
static struct page *prefer_resident(struct heap *heap, unsigned b)
{
	struct page *old = heap->big[b];
	if (old == NULL || has_resident(old))
		return old;
	take_listed_for(heap, b, true);
	struct page *page = heap->big_queue[b].head;
	for (unsigned i = 0; page != NULL && i < QUEUE_LOOK && !has_resident(page); i++)
		page = page->next;
	if (page == NULL || !has_resident(page))
		return old;
	list_remove(&heap->big_queue[b], page);
	page_set_place(page, PLACE_CURRENT);
	heap->big[b] = page;
	if (heap_one_clock)
		abandon(old);
	else
		enqueue(heap, old);
	return page;
}

void *big_alloc(struct heap *heap, unsigned c, bool *ret_clean)
{
	struct page *page = prefer_resident(heap, c - SMALL_CLASSES);
	for (;;) {
		void *block = page == NULL ? NULL : take(heap, page, ret_clean);
		if (block != NULL)
			return block;
		take_listed_for(heap, c - SMALL_CLASSES, false);
		page = next_page(heap, c);
		if (page == NULL)
			return NULL;
	}
}

void heap_put_blocks(struct page *page, uint64_t bits)
{
	/* seq_cst: as in page_free_block */
	if (atomic_fetch_or(&page->word, bits) == 0 && atomic_load(&page->nowhere) && list_again(page))
		push_listed(page);
}

static void note_gone(struct heap *heap, const struct page *page)
{
	unsigned b = page->size_class - SMALL_CLASSES;
	uint32_t ms = page_gone_ms(page);
	if (ms - heap->gone[b].ms > REUSE_MAX_MS) /* those from before come back too late, if at all */
		heap->gone[b].n = 0;
	heap->gone[b].n++;
	heap->gone[b].ms = ms;
}

/* Pages that pass without a look at how far their blocks were written: a thread that makes and drops a page with each call then pays a
 * fifth of a microsecond for it each time. */
#define LOOK_EVERY 16

/* The thread holds all blocks; RESIDENT ones were handed out. */
static void look_at(struct heap *heap, const struct page *page, uint64_t resident)
{
	uint32_t key = heap_block_key(heap, page);
	if (!extent_is_unknown(key) && ++heap->unlooked_n % LOOK_EVERY != 0)
		return;
	if (extent_may_look(page_bytes(page)))
		page_look_at(page, resident, key);
}

/* Wholly free and in the queue: its slices may serve another class. Holder. */
static bool retire(struct heap *heap, struct page *page)
{
	if (!page_take_all(page))
		return false;
	uint64_t resident = page_full_word(page) & ~atomic_load_explicit(&page->away_blocks, memory_order_relaxed);
	if (resident == 0 && atomic_load_explicit(&page->returned, memory_order_relaxed) != 0)
		note_gone(heap, page);
	look_at(heap, page, resident);
	size_t bytes = (size_t)__builtin_popcountll(resident) * page->block_bytes;
	list_remove(queue_of(heap, page), page);
	page_destroy(page);
	heap->big_n--;
	heap_note_freed(bytes);
	return true;
}

/* A free of a large block makes its thread worth parking, as this many changed small pages would. */
#define BIG_WEIGHT 4

/* The last block was freed: does the page stay what it is? With blocks nobody ever touched, or that are away, it does: as free slices all
 * of it would pass for resident. So it does when its memory is known to come back. Under the seed policy a large page waits for the next
 * sweep, on a heap that was swept before. */
static bool may_stay(struct heap *heap, const struct page *page)
{
	size_t bytes = (size_t)page->capacity * page->block_bytes;
	if (!heap_one_clock)
		return atomic_load_explicit(&page->away_blocks, memory_order_relaxed) != 0 || reuse_ms(page_reuse_key(page)) != 0;
	if (page->block_bytes < HEAP_SEED_LARGE_MIN || bytes > heap->stay_bytes)
		return false;
	heap->stay_bytes -= bytes;
	return true;
}

void big_free(struct page *page, void *block)
{
	struct heap *owner = atomic_load_explicit(&page->owner, memory_order_relaxed);
	size_t bytes = page->block_bytes;
	char *start = page->start;
	bool mine = owner == heap_tls;
	if (heap_one_clock) /* who frees last decides: what the heap's own thread freed waits for a sweep, if the page is abandoned then */
		page_set_past(page, mine, 0);
	enum page_freed freed = page_free_block(page, block);
	/* From here on the page may be gone, unless this thread holds its heap: its owner may have taken all blocks and destroyed it.
	 * Records stay readable, and the two steps below are harmless on any record: whatever is not a full page is listed, whoever lists a
	 * full one does it alone, and a mark for a page that is not there is dropped by the sweep. */
	if (freed == PAGE_FREED_FIRST && atomic_load(&page->nowhere) && list_again(page))
		push_listed(page);
	region_mark_freed(start);
	heap_note_freed(bytes);
	if (!mine)
		return;
	if (heap_one_clock && bytes >= HEAP_SEED_LARGE_MIN)
		owner->big_changed += BIG_WEIGHT;
	if (freed == PAGE_FREED_LAST && page_place(page) == PLACE_QUEUE && !may_stay(owner, page))
		retire(owner, page);
}

static bool is_wholly_free(const struct page *page)
{
	return atomic_load_explicit(&page->word, memory_order_relaxed) == page_full_word(page);
}

bool heap_retire_page(struct heap *heap, struct page *page)
{
	unsigned b = page->size_class - SMALL_CLASSES;
	if (!is_wholly_free(page))
		return false;
	if (page_place(page) == PLACE_CURRENT) {
		heap->big[b] = NULL;
		enqueue(heap, page);
	}
	return page_place(page) == PLACE_QUEUE && retire(heap, page);
}

void heap_each_big(struct heap *heap, void (*fn)(struct heap *heap, struct page *page, void *arg), void *arg)
{
	for (unsigned b = 0; b < BIG_CLASSES; b++) {
		struct page *next;
		for (struct page *page = heap->big_queue[b].head; page != NULL; page = next) {
			next = page->next;
			if (atomic_load_explicit(&page->word, memory_order_relaxed) != 0)
				fn(heap, page, arg);
		}
		struct page *page = heap->big[b];
		if (page != NULL && atomic_load_explicit(&page->word, memory_order_relaxed) != 0)
			fn(heap, page, arg);
	}
}

void big_retire_classes(struct heap *heap, unsigned n)
{
	for (unsigned b = 0; b < n; b++) {
		struct page *next;
		for (struct page *page = heap->big_queue[b].head; page != NULL; page = next) {
			next = page->next;
			retire(heap, page);
		}
		if (heap->big[b] != NULL)
			heap_retire_page(heap, heap->big[b]);
	}
}

/* Collects that are not forced which a wholly free large page outlives. The seed: gone within 40. */
#define WAITING_COLLECTS 16

static void retire_waiting(struct heap *heap, struct page *page, void *unused)
{
	(void)unused;
	if (page->block_bytes < HEAP_SEED_LARGE_MIN || page->collects & PAGE_KEPT || !is_wholly_free(page))
		return;
	if (++page->collects >= WAITING_COLLECTS)
		heap_retire_page(heap, page);
}

void heap_retire_waiting(struct heap *heap)
{
	heap_each_big(heap, retire_waiting, NULL);
}

struct page *big_give(struct heap *heap, unsigned c)
{
	unsigned b = c - SMALL_CLASSES;
	struct page *page = dequeue(heap, b);
	if (page == NULL && heap->big[b] != NULL && atomic_load_explicit(&heap->big[b]->word, memory_order_relaxed) != 0) {
		page = heap->big[b];
		heap->big[b] = NULL;
	}
	if (page != NULL)
		page_set_place(page, PLACE_FULL);
	return page;
}
