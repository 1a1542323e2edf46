/* SPDX-License-Identifier: MIT */
/*
 * A heap's medium and large pages. Taking and freeing a block is one atomic step on the page's word (page/big.c); the heap only
 * remembers where to look: a current page and a queue per class. A page found full is dropped from both; the free that gives it a
 * block again puts it on its heap's stack. `listed` is 1 while the page is in one of these places, so that exactly one does.
 */
#include "heap/internal.h"
#include "heap/list.h"

/* Queue pages looked at: those whose blocks are all in flight are passed over. */
#define QUEUE_LOOK 8

static struct page_list *queue_of(struct heap *heap, const struct page *page)
{
	return &heap->big_queue[page->size_class - SMALL_CLASSES];
}

static void enqueue(struct heap *heap, struct page *page)
{
	page->place = PLACE_QUEUE;
	list_append(queue_of(heap, page), page);
}

static bool list_again(struct page *page)
{
	uint8_t no = 0;
	return atomic_compare_exchange_strong(&page->listed, &no, 1);
}

/* The page seems full: on no list, unless a block came free just now. seq_cst, with big_free: it sets the word, then looks at listed;
 * this clears listed, then looks at the word. */
static void drop_full(struct heap *heap, struct page *page)
{
	page->place = PLACE_FULL;
	atomic_store(&page->listed, 0);
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

static void *take(struct page *page, bool *ret_clean)
{
	void *block = page_take_block(page, ret_clean);
	uint16_t epoch = (uint16_t)atomic_load_explicit(&heap_epoch, memory_order_relaxed);
	if (block != NULL && atomic_load_explicit(&page->stamp, memory_order_relaxed) != epoch)
		atomic_store_explicit(&page->stamp, epoch, memory_order_relaxed);
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

static struct page *next_page(struct heap *heap, unsigned c)
{
	unsigned b = c - SMALL_CLASSES;
	struct page *page = dequeue(heap, b);
	if (page == NULL)
		page = orphan_take_page(heap, c);
	if (page == NULL)
		page = page_create(heap, c, 0);
	if (page == NULL)
		return NULL;
	struct page *old = heap->big[b];
	heap->big[b] = page;
	page->place = PLACE_CURRENT;
	if (old != NULL)
		drop_full(heap, old);
	return page;
}

void *big_alloc(struct heap *heap, unsigned c, bool *ret_clean)
{
	struct page *page = heap->big[c - SMALL_CLASSES];
	for (;;) {
		void *block = page == NULL ? NULL : take(page, ret_clean);
		if (block != NULL)
			return block;
		/* relaxed: what is missed now is found next time */
		if (atomic_load_explicit(&heap->listed_pages, memory_order_relaxed) != NULL)
			big_take_listed(heap);
		page = next_page(heap, c);
		if (page == NULL)
			return NULL;
	}
}

void heap_put_blocks(struct page *page, uint64_t bits)
{
	/* seq_cst: as in page_free_block */
	if (atomic_fetch_or(&page->word, bits) == 0 && atomic_load(&page->listed) == 0 && list_again(page))
		push_listed(page);
}

/* Wholly free and in the queue: its slices may serve another class. Holder. */
static bool retire(struct heap *heap, struct page *page)
{
	size_t bytes = (size_t)page->capacity * page->block_bytes;
	if (!page_take_all(page))
		return false;
	list_remove(queue_of(heap, page), page);
	page_destroy(page);
	heap_note_freed(bytes);
	return true;
}

void big_free(struct page *page, void *block)
{
	struct heap *owner = atomic_load_explicit(&page->owner, memory_order_relaxed);
	size_t bytes = page->block_bytes;
	char *start = page->start;
	bool mine = owner == heap_tls;
	enum page_freed freed = page_free_block(page, block);
	/* From here on the page may be gone, unless this thread holds its heap: its owner may have taken all blocks and destroyed it.
	 * Records stay readable, and the two steps below are harmless on any record: whatever is not a full page is listed, whoever lists a
	 * full one does it alone, and a mark for a page that is not there is dropped by the sweep. */
	if (freed == PAGE_FREED_FIRST && atomic_load(&page->listed) == 0 && list_again(page))
		push_listed(page);
	region_mark_freed(start);
	heap_note_freed(bytes);
	if (freed == PAGE_FREED_LAST && mine && page->place == PLACE_QUEUE)
		retire(owner, page);
}

void big_retire_empty(struct heap *heap)
{
	for (unsigned b = 0; b < BIG_CLASSES; b++) {
		struct page *page = heap->big[b];
		if (page != NULL && atomic_load_explicit(&page->word, memory_order_relaxed) == page_full_word(page)) {
			heap->big[b] = NULL;
			enqueue(heap, page);
		}
		struct page *next;
		for (page = heap->big_queue[b].head; page != NULL; page = next) {
			next = page->next;
			retire(heap, page);
		}
	}
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
		page->place = PLACE_FULL;
	return page;
}
