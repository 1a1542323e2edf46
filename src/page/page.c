/* SPDX-License-Identifier: MIT */
/*
 * What small, medium, large pages and singletons share: creation, destruction, and finding a page from an address.
 */
#include "page/page.h"

#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/populate.h"

_Atomic uint64_t page_away_bytes;
_Atomic uint64_t page_refaulted_bytes;

/* free = OFFSET_END ^ secret with secret 0: always the slow path. */
struct page page_empty = {.free = OFFSET_END};

static enum page_kind kind_of(const struct page *page)
{
	/* acquire: pairs with the release in page_create; a block reached this thread, so its page's record is complete */
	return (enum page_kind)atomic_load_explicit(&page->kind, memory_order_acquire);
}

/* The record of the first slice of the aligned N slices that PAGE's is one of: records are aligned as their slices are. */
static struct page *head_at(struct page *page, size_t n)
{
	return (struct page *)align_down((uintptr_t)page, n * RECORD_SIZE);
}

struct page *page_of(const void *addr)
{
	struct page *page = region_record(addr), *head;
	if (page == NULL)
		return NULL;
	switch (kind_of(page)) {
	case PAGE_NONE: /* no page starts in this slice; one may reach into it */
		head = head_at(page, MEDIUM_SLICES);
		if (kind_of(head) == PAGE_MEDIUM)
			return head;
		head = head_at(page, LARGE_SLICES);
		return kind_of(head) == PAGE_LARGE ? head : NULL;
	case PAGE_DYING:
		return NULL;
	default:
		return page;
	}
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

uint32_t page_now_ms(void)
{
	return (uint32_t)(kernel.now_ns() / 1000000);
}

/* What the slices at ADDR, which were taken, were used for last, for those above to see: a ghost hit, maybe. */
static void take_over_past(struct page *page, bool clean)
{
	struct slice_past past = region_past(page->start);
	page_set_past(page, clean ? past.key : 0, past.ms);
}

/* Atomic for sweeps that still look at the page that was here before: page_shape. */
static void set_shape(struct page *page, char *start, uint32_t block_bytes)
{
	__atomic_store_n(&page->start, start, __ATOMIC_RELAXED);
	__atomic_store_n(&page->block_bytes, block_bytes, __ATOMIC_RELAXED);
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
	page->quiet = 0;
	atomic_store_explicit(&page->place, PLACE_QUEUE, memory_order_relaxed);
	page->changed_next = page->changed_prev = NULL;
	atomic_store_explicit(&page->flight, 0, memory_order_relaxed);
	atomic_store_explicit(&page->remote, 0, memory_order_relaxed);
	atomic_store_explicit(&page->remote_next, NULL, memory_order_relaxed);
}

static void init_big(struct page *page, unsigned slices, bool clean)
{
	atomic_store_explicit(&page->returned, 0, memory_order_relaxed);
	atomic_store_explicit(&page->brought, 0, memory_order_relaxed);
	atomic_store_explicit(&page->away_blocks, clean ? page_full_word(page) : 0, memory_order_relaxed);
	atomic_store_explicit(&page->listed_next, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->stamp, 0, memory_order_relaxed);
	page->dirty_end = clean ? 0 : (uint32_t)(slices * SLICE_SIZE);
	take_over_past(page, clean);
	page->collects = 0;
	atomic_store_explicit(&page->place, PLACE_FULL, memory_order_relaxed);
	page->changed_prev = NULL;
}

struct page *page_create(struct heap *heap, unsigned size_class, uint64_t secret)
{
	unsigned slices = class_slices(size_class);
	bool clean;
	char *start = region_alloc(slices, slices, &clean);
	if (start == NULL)
		return NULL;
	struct page *page = region_record(start);
	set_shape(page, start, (uint32_t)sizeclass_bytes(size_class));
	page->size_class = (uint8_t)size_class;
	page->capacity = (uint16_t)(slices * SLICE_SIZE / page->block_bytes);
	page->next = page->prev = NULL;
	atomic_store_explicit(&page->tag, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->nowhere, 0, memory_order_relaxed);
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

static void destroy(struct page *page, uint32_t reuse_key)
{
	enum page_kind kind = atomic_load_explicit(&page->kind, memory_order_relaxed);
	bool single = kind == PAGE_DYING;
	size_t slices = single ? page_single_slices(page) : class_slices(page->size_class);
	bool clean = false;
	uint64_t gone = 0;
	if (single)
		clean = page->away & PAGE_SINGLE_MOVED ? move_restore(page->start, slices * SLICE_SIZE, true) : page->away & PAGE_SINGLE_EMPTY;
	if (kind == PAGE_SMALL) {
		gone = (uint64_t)__builtin_popcount(page->away & ~(atomic_load_explicit(&page->flight, memory_order_relaxed) >> 16)) * OS_PAGE_SIZE;
		clean = page->formed == 0 && !page->dirty_tail;
	} else if (!single) {
		uint64_t away = atomic_load_explicit(&page->away_blocks, memory_order_relaxed);
		gone = (uint64_t)__builtin_popcountll(atomic_load_explicit(&page->returned, memory_order_relaxed)) * page->block_bytes;
		/* what blocks have for themselves is away; is there anything else? */
		bool shared = page->block_bytes % OS_PAGE_SIZE != 0 || page->dirty_end != 0;
		clean = away == page_full_word(page) && (gone == 0 || !shared);
	}
	atomic_fetch_sub_explicit(&page_away_bytes, gone, memory_order_relaxed);
	atomic_store_explicit(&page->tag, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->owner, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->kind, PAGE_NONE, memory_order_release);
	struct slice_past past = {0};
	if (reuse_key != 0 && (!clean || gone != 0))
		past = (struct slice_past){.key = reuse_key, .ms = clean ? page_gone_ms(page) : page_now_ms()};
	region_free_past(page->start, slices, clean, past);
}

void page_destroy(struct page *page)
{
	destroy(page, page_reuse_key(page));
}

void page_destroy_small(struct page *page, uint32_t reuse_key)
{
	destroy(page, reuse_key);
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
	set_shape(page, start, 0);
	page->bytes = bytes;
	page->brought_bytes = 0;
	page->fresh = *ret_clean;
	take_over_past(page, *ret_clean);
	page->size_class = SIZE_CLASSES;
	page->capacity = 1;
	page->away = 0;
	atomic_store_explicit(&page->nowhere, 0, memory_order_relaxed);
	page->next = page->prev = NULL;
	atomic_store_explicit(&page->tag, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->owner, NULL, memory_order_relaxed);
	atomic_store_explicit(&page->kind, PAGE_SINGLE, memory_order_release);
	return page;
}

static void free_tail(const struct page *page, size_t want, size_t have)
{
	char *tail = page->start + want * SLICE_SIZE;
	bool clean = page->away & PAGE_SINGLE_MOVED && move_restore(tail, (have - want) * SLICE_SIZE, false);
	region_free(tail, have - want, clean);
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
		free_tail(page, want, have);
	page->fresh &= want <= have || *ret_clean;
	page->bytes = bytes;
	page->brought_bytes = min_size(page->brought_bytes, bytes);
	return true;
}

static bool bring_in(char *from, char *to)
{
	return from == to || populate_range(from, (size_t)(to - from));
}

/* The whole huge pages between FROM and TO as such, and what is left before and behind. */
static bool bring_in_huge(char *from, char *to)
{
	char *first = (char *)align_up((uintptr_t)from, HUGE_BYTES), *last = (char *)align_down((uintptr_t)to, HUGE_BYTES);
	if (first >= last)
		return bring_in(from, to);
	region_mark_huge(first, (size_t)(last - first));
	return populate_huge(first, (size_t)(last - first)) && bring_in(from, first) && bring_in(last, to);
}

void page_single_bring_in(struct page *page, size_t from, size_t to, bool huge)
{
	to = align_down(to, OS_PAGE_SIZE);
	if (to <= from)
		return;
	huge = huge && caps_has(CAPS_HUGE_PAGES);
	if (huge ? bring_in_huge(page->start + from, page->start + to) : bring_in(page->start + from, page->start + to))
		page->brought_bytes = to;
}

/* Parts of huge pages came to lie there, at any offset. */
static void mark_parts_huge(char *addr, size_t len)
{
	char *first = (char *)align_down((uintptr_t)addr, HUGE_BYTES), *last = (char *)align_up((uintptr_t)addr + len, HUGE_BYTES);
	region_mark_huge(first, (size_t)(last - first));
}

/* Whole slices, so that nothing an earlier life left behind the block stays in FROM. */
enum move_result page_single_move(struct page *to, struct page *from)
{
	size_t have = page_single_slices(from), slices = min_size(have, page_single_slices(to));
	enum move_result result = move_pages(to->start, from->start, slices * SLICE_SIZE);
	if (result != MOVE_DONE)
		return result;
	to->away |= PAGE_SINGLE_MOVED;
	to->fresh &= from->fresh;
	to->brought_bytes = min_size(from->brought_bytes, slices * SLICE_SIZE);
	from->fresh = 0; /* how far it was written is seen where it is now */
	if (region_may_be_huge(from->start, slices * SLICE_SIZE))
		mark_parts_huge(to->start, slices * SLICE_SIZE);
	if (slices == have)
		from->away |= PAGE_SINGLE_EMPTY;
	return result;
}
