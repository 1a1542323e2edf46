/* SPDX-License-Identifier: MIT */
/*
 * What small, medium, large pages and singletons share: creation, destruction, and finding a page from an address.
 */
#include "page/page.h"

_Atomic uint64_t page_away_bytes;
_Atomic uint64_t page_refaulted_bytes;

/* free = OFFSET_END ^ secret with secret 0: always the slow path. */
struct page page_empty = {.free = OFFSET_END};

static struct page *record_at(struct page *page, size_t slice)
{
	return (struct page *)((char *)page + slice * RECORD_SIZE);
}

struct page *page_of(const void *addr)
{
	struct page *page = region_record(addr);
	if (page == NULL)
		return NULL;
	/* acquire: pairs with the release in page_create; a block reached this thread, so its page's record is complete */
	unsigned kind = atomic_load_explicit(&page->kind, memory_order_acquire);
	if (kind == PAGE_INTERIOR) {
		page = (struct page *)((char *)page - (size_t)page->formed * RECORD_SIZE);
		kind = atomic_load_explicit(&page->kind, memory_order_acquire);
	}
	return kind == PAGE_NONE || kind == PAGE_DYING ? NULL : page;
}

bool page_is_inside_single(const void *addr)
{
	char *slice = (char *)align_down((uintptr_t)addr, SLICE_SIZE);
	const struct page *page = region_record(slice);
	while (page != NULL && atomic_load_explicit(&page->kind, memory_order_relaxed) == PAGE_NONE) {
		slice -= SLICE_SIZE;
		page = region_record(slice);
	}
	return page != NULL && atomic_load_explicit(&page->kind, memory_order_relaxed) == PAGE_SINGLE &&
	       (size_t)((const char *)addr - page->start) < page->bytes;
}

bool page_is_block(const struct page *page, const void *addr)
{
	size_t offset = (size_t)((const char *)addr - page->start);
	switch (atomic_load_explicit(&page->kind, memory_order_relaxed)) {
	case PAGE_SINGLE:
		return offset == 0;
	default:
		return offset % page->block_bytes == 0 && offset / page->block_bytes < page->capacity;
	}
}

static unsigned class_slices(unsigned size_class)
{
	if (size_class < SMALL_CLASSES)
		return SMALL_SLICES;
	return size_class < SMALL_CLASSES + MEDIUM_CLASSES ? MEDIUM_SLICES : LARGE_SLICES;
}

static enum page_kind class_kind(unsigned size_class)
{
	if (size_class < SMALL_CLASSES)
		return PAGE_SMALL;
	return size_class < SMALL_CLASSES + MEDIUM_CLASSES ? PAGE_MEDIUM : PAGE_LARGE;
}

static void init_small(struct page *page, uint64_t secret, bool clean)
{
	page->dirty_tail = !clean;
	page->secret = secret;
	page->key = (uint64_t)(uintptr_t)page->start ^ secret;
	page->free = OFFSET_END ^ secret;
	page->used = 0;
	page->formed = 0;
	page->away = 0;
	page->place = PLACE_QUEUE;
	page->changed_next = page->changed_prev = NULL;
	atomic_store_explicit(&page->flight, 0, memory_order_relaxed);
	atomic_store_explicit(&page->remote, 0, memory_order_relaxed);
	atomic_store_explicit(&page->remote_next, NULL, memory_order_relaxed);
}

static void init_big(struct page *page, unsigned slices, bool clean)
{
	atomic_store_explicit(&page->returned, 0, memory_order_relaxed);
	atomic_store_explicit(&page->away_blocks, clean ? page_full_word(page) : 0, memory_order_relaxed);
	atomic_store_explicit(&page->listed_next, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->stamp, 0, memory_order_relaxed);
	page->dirty_end = clean ? 0 : (uint32_t)(slices * SLICE_SIZE);
	page->place = PLACE_FULL;
	page->changed_prev = NULL;
	for (unsigned i = 1; i < slices; i++) {
		struct page *interior = record_at(page, i);
		interior->formed = (uint16_t)i;
		atomic_store_explicit(&interior->kind, PAGE_INTERIOR, memory_order_relaxed);
	}
}

struct page *page_create(struct heap *heap, unsigned size_class, uint64_t secret)
{
	unsigned slices = class_slices(size_class);
	bool clean;
	char *start = region_alloc(slices, slices, &clean);
	if (start == NULL)
		return NULL;
	struct page *page = region_record(start);
	page->start = start;
	page->size_class = (uint8_t)size_class;
	page->block_bytes = (uint32_t)sizeclass_bytes(size_class);
	page->capacity = (uint16_t)(slices * SLICE_SIZE / page->block_bytes);
	page->next = page->prev = NULL;
	atomic_store_explicit(&page->tag, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->listed, 1, memory_order_relaxed);
	atomic_store_explicit(&page->owner, heap, memory_order_relaxed);
	enum page_kind kind = class_kind(size_class);
	if (kind == PAGE_SMALL)
		init_small(page, secret, clean);
	else
		init_big(page, slices, clean);
	/* release: pairs with the acquire in page_of */
	atomic_store_explicit(&page->kind, kind, memory_order_release);
	if (kind != PAGE_SMALL) /* release: pairs with the acquire of whoever takes a block */
		atomic_store_explicit(&page->word, page_full_word(page), memory_order_release);
	return page;
}

void page_destroy(struct page *page)
{
	enum page_kind kind = atomic_load_explicit(&page->kind, memory_order_relaxed);
	bool single = kind == PAGE_DYING;
	size_t slices = single ? page_single_slices(page) : class_slices(page->size_class);
	bool clean = false;
	uint64_t gone = 0;
	if (kind == PAGE_SMALL) {
		gone = (uint64_t)__builtin_popcount(page->away & ~(atomic_load_explicit(&page->flight, memory_order_relaxed) >> 16)) * OS_PAGE_SIZE;
		clean = page->formed == 0 && !page->dirty_tail;
	} else if (!single) {
		uint64_t away = atomic_load_explicit(&page->away_blocks, memory_order_relaxed);
		gone = (uint64_t)__builtin_popcountll(atomic_load_explicit(&page->returned, memory_order_relaxed)) * page->block_bytes;
		clean = away == page_full_word(page) && gone == 0;
		for (size_t i = 1; i < slices; i++)
			atomic_store_explicit(&record_at(page, i)->kind, PAGE_NONE, memory_order_relaxed);
	}
	atomic_fetch_sub_explicit(&page_away_bytes, gone, memory_order_relaxed);
	atomic_store_explicit(&page->tag, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->owner, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->kind, PAGE_NONE, memory_order_release);
	region_free(page->start, slices, clean);
}

/* --- singletons ----------------------------------------------------------------------------------------------------------------- */

size_t page_single_slices(const struct page *page)
{
	return align_up(page->bytes, SLICE_SIZE) / SLICE_SIZE;
}

struct page *page_create_single(size_t bytes, size_t align, bool *ret_clean)
{
	bytes = align_up(bytes, OS_PAGE_SIZE);
	size_t slices = align_up(bytes, SLICE_SIZE) / SLICE_SIZE;
	char *start = region_alloc(slices, max_size(align / SLICE_SIZE, 1), ret_clean);
	if (start == NULL)
		return NULL;
	struct page *page = region_record(start);
	page->start = start;
	page->bytes = bytes;
	page->block_bytes = 0;
	page->size_class = SIZE_CLASSES;
	page->capacity = 1;
	atomic_store_explicit(&page->listed, 1, memory_order_relaxed);
	page->next = page->prev = NULL;
	atomic_store_explicit(&page->tag, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->owner, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->kind, PAGE_SINGLE, memory_order_release);
	return page;
}

bool page_single_resize(struct page *page, size_t bytes, bool *ret_clean)
{
	size_t have = page_single_slices(page);
	bytes = align_up(bytes, OS_PAGE_SIZE);
	size_t want = align_up(bytes, SLICE_SIZE) / SLICE_SIZE;
	*ret_clean = false;
	if (want > have && !region_extend(page->start + have * SLICE_SIZE, want - have, ret_clean))
		return false;
	if (want < have)
		region_free(page->start + want * SLICE_SIZE, have - want, false);
	page->bytes = bytes;
	return true;
}
