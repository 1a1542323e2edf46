/* SPDX-License-Identifier: MIT */
/*
 * From a size or an address to the kind of page that serves it. What the fast paths in api/malloc.c do not settle comes here.
 */
#include "heap/heap.h"

#include "heap/internal.h"
#include "kernel/bell.h"
#include "kernel/map.h"
#include "kernel/report.h"
#include "kernel/rlimit.h"
#include "page/extent.h"
#include "page/reuse.h"

#include <stdint.h>
#include <string.h>

void heap_note_freed(size_t bytes)
{
	struct heap *heap = heap_tls;
	if (heap == &heap_empty) {
		bell_ring(bytes);
		return;
	}
	heap->freed_bytes += bytes;
	if (heap->freed_bytes >= BELL_WAKE_BYTES) {
		bell_ring(heap->freed_bytes);
		heap->freed_bytes = 0;
	}
}

/* --- allocation ----------------------------------------------------------------------------------------------------------------- */

/* The calling thread's heap, or a borrowed one when the thread has already ended its own. */
static struct heap *heap_enter(bool *ret_borrowed)
{
	struct heap *heap = heap_mine();
	*ret_borrowed = heap == NULL;
	return heap != NULL ? heap : orphan_borrow();
}

static void *alloc_class(unsigned c, bool *ret_clean)
{
	bool borrowed;
	struct heap *heap = heap_enter(&borrowed);
	if (heap == NULL)
		return NULL;
	*ret_clean = false;
	void *block = c < SMALL_CLASSES ? small_alloc(heap, c) : big_alloc(heap, c, ret_clean);
	if (borrowed)
		orphan_return(heap);
	return block;
}

static struct page *make_single(size_t size, size_t align, bool *ret_clean)
{
	if (rlimit_is_obvious_overcommit(size))
		return NULL;
	struct page *page = page_create_single(max_size(size, 1), align, ret_clean);
	if (page == NULL)
		return NULL;
	uint32_t key = reuse_key(heap_tls->number, BIG_CLASSES);
	if (page_reuse_key(page) == key)
		reuse_note(key, page_now_ms() - page_gone_ms(page), page->bytes);
	page_set_past(page, key, 0);
	return page;
}

static void *alloc_single(size_t size, size_t align, bool *ret_clean)
{
	struct page *page = make_single(size, align, ret_clean);
	if (page == NULL)
		return NULL;
	uint32_t key = page_reuse_key(page);
	if (*ret_clean)
		page_single_bring_in(page, 0, extent_bytes(key, page->bytes), extent_is_whole(key));
	return page->start;
}

static void *alloc_any(size_t size, bool *ret_clean)
{
	if (size > PTRDIFF_MAX)
		return NULL;
	if (size <= LARGE_MAX)
		return alloc_class(sizeclass_of(size), ret_clean);
	return alloc_single(size, 1, ret_clean);
}

void *heap_alloc_slow(size_t size)
{
	bool clean;
	return alloc_any(size, &clean);
}

void *heap_alloc_zero(size_t size)
{
	bool clean;
	void *block = alloc_any(size, &clean);
	if (block == NULL)
		return NULL;
	if (!clean && size > LARGE_MAX)
		map_clear(block, align_up(size, OS_PAGE_SIZE), region_may_be_huge(block, size));
	else if (!clean)
		memset(block, 0, size);
	else if (size <= LARGE_MAX)
		page_clear_edges(page_of(block), block);
	return block;
}

/* A class whose blocks are all multiples of ALIGN, since pages start at multiples of their own size. */
static unsigned aligned_class(size_t size, size_t align)
{
	unsigned c = sizeclass_of(max_size(size, align));
	while (c < SIZE_CLASSES && sizeclass_bytes(c) % align != 0)
		c++;
	return c;
}

void *heap_alloc_aligned(size_t size, size_t align)
{
	bool clean;
	if (size > PTRDIFF_MAX || align > PTRDIFF_MAX)
		return NULL;
	if (align <= 16)
		return alloc_any(size, &clean);
	if (size <= LARGE_MAX && align <= LARGE_MAX) {
		unsigned c = aligned_class(size, align);
		/* a page of a small class starts at a multiple of a slice, which is enough for every small block size */
		if (c < SIZE_CLASSES)
			return alloc_class(c, &clean);
	}
	return alloc_single(size, align, &clean);
}

/* --- free ----------------------------------------------------------------------------------------------------------------------- */

bool (*heap_on_foreign)(void *p, size_t *ret_usable);

/* Not in any region, and somebody took care of it. */
static bool is_foreign(void *p, size_t *ret_usable)
{
	return region_record(p) == NULL && heap_on_foreign != NULL && heap_on_foreign(p, ret_usable);
}

/* The live page whose block P is, or the end. */
static struct page *page_of_block(const void *p)
{
	struct page *page = page_of(p);
	if (page == NULL) {
		/* ours, but nothing lives there: it was freed before */
		bool freed = region_record(p) != NULL && !page_is_inside_single(p);
		report_misuse(freed ? "double free" : "invalid pointer", p);
	}
	if (!page_is_block(page, p))
		report_misuse("invalid pointer", p);
	return page;
}

static void free_single(struct page *page, void *p)
{
	size_t bytes = page->bytes;
	uint8_t kind = PAGE_SINGLE;
	/* of two threads that free the block at once only one gets past this */
	if (!atomic_compare_exchange_strong(&page->kind, &kind, PAGE_DYING))
		report_misuse("double free", p);
	/* what was resident before it was handed out says nothing about how far it was written */
	if (page->fresh && extent_may_look(bytes))
		extent_look_single(page_reuse_key(page), page->start, bytes, page->brought_bytes);
	page_destroy(page);
	heap_note_freed(bytes);
}

void heap_free_slow(void *p)
{
	if (p == NULL)
		return;
	if (unlikely(heap_on_foreign != NULL) && is_foreign(p, NULL))
		return;
	struct page *page = page_of_block(p);
	switch (atomic_load_explicit(&page->kind, memory_order_relaxed)) {
	case PAGE_SMALL: {
		struct heap *owner = atomic_load_explicit(&page->owner, memory_order_relaxed);
		if (owner == heap_tls)
			small_free(owner, page, p);
		else
			small_push_remote(page, p);
		break;
	}
	case PAGE_SINGLE:
		free_single(page, p);
		break;
	default:
		big_free(page, p);
	}
}

/* --- questions about a block ------------------------------------------------------------------------------------------------------ */

size_t heap_usable(const void *p)
{
	size_t bytes;
	if (p == NULL)
		return 0;
	if (is_foreign((void *)p, &bytes))
		return bytes;
	const struct page *page = page_of_block(p);
	return atomic_load_explicit(&page->kind, memory_order_relaxed) == PAGE_SINGLE ? page->bytes : page->block_bytes;
}

/* Shrinking keeps the block while more than half of it is used: copying would cost more than it gives back. */
bool heap_resize_in_place(void *p, size_t size)
{
	bool clean;
	if (is_foreign(p, &(size_t){0}))
		return false;
	struct page *page = page_of_block(p);
	if (atomic_load_explicit(&page->kind, memory_order_relaxed) != PAGE_SINGLE)
		return size <= page->block_bytes && (size > page->block_bytes / 2 || page->block_bytes <= 64);
	if (size <= LARGE_MAX || size > PTRDIFF_MAX || rlimit_is_obvious_overcommit(size))
		return false;
	size_t before = page->bytes;
	if (!page_single_resize(page, size, &clean))
		return false;
	uint32_t key = page_reuse_key(page);
	if (clean)
		page_single_bring_in(page, before, extent_bytes(key, page->bytes), extent_is_whole(key));
	if (before > page->bytes)
		heap_note_freed(before - page->bytes);
	return true;
}

static struct page *single_at(void *p)
{
	struct page *page = page_of(p);
	return page != NULL && atomic_load_explicit(&page->kind, memory_order_relaxed) == PAGE_SINGLE ? page : NULL;
}

void *heap_alloc_to_fill(size_t size)
{
	bool clean;
	if (size <= LARGE_MAX || size > PTRDIFF_MAX)
		return heap_alloc_slow(size);
	struct page *page = make_single(size, SLICE_SIZE, &clean);
	return page == NULL ? NULL : page->start;
}

void heap_bring_in(void *p, size_t bytes)
{
	struct page *page = single_at(p);
	if (page != NULL && page->fresh)
		page_single_bring_in(page, 0, min_size(bytes, page->bytes), extent_is_whole(page_reuse_key(page)));
}

enum move_result heap_move(void *to, void *from)
{
	struct page *new = single_at(to), *old = single_at(from);
	return new == NULL || old == NULL ? MOVE_REFUSED : page_single_move(new, old);
}

void heap_take_remote(struct heap *heap)
{
	small_take_remote(heap);
	big_take_listed(heap);
}

void heap_retire_empty(struct heap *heap)
{
	small_retire_empty(heap);
	big_retire_classes(heap, BIG_CLASSES);
}

static void retire_away(struct heap *heap, struct page *page, void *unused)
{
	(void)unused;
	if (atomic_load_explicit(&page->away_blocks, memory_order_relaxed) == page_full_word(page))
		heap_retire_page(heap, page);
}

void heap_retire_away(struct heap *heap)
{
	small_retire_empty(heap);
	heap_each_big(heap, retire_away, NULL);
}

void heap_retire_small(struct heap *heap)
{
	small_retire_empty(heap);
	big_retire_classes(heap, MEDIUM_CLASSES);
}
