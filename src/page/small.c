/* SPDX-License-Identifier: MIT */
/*
 * Small pages: the list of free blocks, the blocks other threads leave, and forming or bringing back blocks one OS page at a time, so
 * that memory is touched only as it is used. All of it belongs to the holder of the heap, but page_push_remote.
 */
#include "page/page.h"

#include "kernel/populate.h"
#include "kernel/report.h"
#include "page/reuse.h"

#define REMOTE_ONE (UINT64_C(1) << 32)

static char *block_at(const struct page *page, unsigned block)
{
	return page->start + (size_t)block * page->block_bytes;
}

uint32_t page_block_units(const struct page *page, unsigned block)
{
	size_t from = (size_t)block * page->block_bytes;
	unsigned first = (unsigned)(from >> OS_PAGE_SHIFT);
	unsigned last = (unsigned)((from + page->block_bytes - 1) >> OS_PAGE_SHIFT);
	return (uint32_t)(bits_low(last - first + 1) << first);
}

bool page_is_away(const struct page *page, unsigned block)
{
	return (page_block_units(page, block) & page->away) != 0;
}

uint64_t page_next(const struct page *page, uint64_t offset)
{
	uint64_t next = *(const uint64_t *)(page->start + offset) ^ page->secret;
	if (next == OFFSET_END)
		return next;
	if (next > OFFSET_END || next % page->block_bytes != 0 || next / page->block_bytes >= page->formed)
		report_misuse("damaged block", page->start + offset);
	return next;
}

/* --- forming and bringing back -------------------------------------------------------------------------------------------------- */

/* Push those of the blocks FROM .. TO - 1 that are not away, so that the lowest is handed out first. Returns how many. */
static unsigned push_range(struct page *page, unsigned from, unsigned to)
{
	unsigned pushed = 0;
	for (unsigned i = to; i-- > from;) {
		if (page_is_away(page, i))
			continue;
		page_push(page, block_at(page, i));
		pushed++;
	}
	return pushed;
}

/* At most up to the next OS page boundary, but at least one block. */
static bool form(struct page *page)
{
	if (page->formed == page->capacity)
		return false;
	unsigned from = page->formed;
	size_t end = align_up((size_t)from * page->block_bytes + 1, OS_PAGE_SIZE);
	unsigned to = (unsigned)max_size(end / page->block_bytes, from + 1);
	page->formed = (uint16_t)min_size(to, page->capacity);
	return push_range(page, from, page->formed) > 0;
}

/* The lowest run of away OS pages that the kernel has answered for. */
static uint32_t lowest_run(uint32_t units)
{
	if (units == 0)
		return 0;
	unsigned first = bit_lowest(units);
	unsigned len = bit_lowest(~((uint64_t)units >> first));
	return (uint32_t)(bits_low(len) << first);
}

/* Each block gets a link, so where blocks are no larger than an OS page all of the run is about to be touched. */
static void bring_in(struct page *page, size_t from, size_t to)
{
	if (to - from > OS_PAGE_SIZE && page->block_bytes <= OS_PAGE_SIZE)
		populate_range(page->start + from, to - from);
}

/* Blocks that become whole again may also reach into a neighbour that stays away: then they stay away too. */
static bool bring_back(struct page *page)
{
	for (;;) {
		/* acquire: pairs with the release of the completion that clears the flight bits */
		uint32_t flight = atomic_load_explicit(&page->flight, memory_order_acquire);
		uint32_t run = lowest_run(page->away & ~flight & 0xffff);
		if (run == 0)
			return false;
		uint32_t refused = run & (flight >> 16);
		if (refused != 0)
			atomic_fetch_and_explicit(&page->flight, ~(refused << 16), memory_order_relaxed);
		uint64_t bytes = (uint64_t)__builtin_popcount(run & ~refused) * OS_PAGE_SIZE;
		atomic_fetch_sub_explicit(&page_away_bytes, bytes, memory_order_relaxed);
		atomic_fetch_add_explicit(&page_refaulted_bytes, bytes, memory_order_relaxed);
		page->away &= (uint16_t)~run;
		size_t from = (size_t)bit_lowest(run) << OS_PAGE_SHIFT;
		size_t to = (size_t)(bit_highest(run) + 1) << OS_PAGE_SHIFT;
		bring_in(page, from, to);
		unsigned last = (unsigned)min_size((to - 1) / page->block_bytes + 1, page->formed);
		if (push_range(page, (unsigned)(from / page->block_bytes), last) > 0)
			return true;
	}
}

bool page_extend(struct page *page)
{
	return bring_back(page) || form(page);
}

size_t page_bring_in_ahead(struct page *page, size_t n, uint32_t reuse_key)
{
	size_t behind = region_take_clean(page->start + SLICE_SIZE, n - 1);
	bool in = populate_range(page->start, (behind + 1) * SLICE_SIZE);
	page->dirty_tail |= in;
	/* of what was refused some may have come in all the same */
	if (behind > 0)
		region_free_past(page->start + SLICE_SIZE, behind, false, (struct slice_past){.key = reuse_key | REUSE_AHEAD, .ms = page_now_ms()});
	return in ? behind + 1 : 0;
}

bool page_is_exhausted(const struct page *page)
{
	return !page_has_listed(page) && page->away == 0 && page->formed == page->capacity;
}

/* --- what other threads freed --------------------------------------------------------------------------------------------------- */

bool page_push_remote(struct page *page, void *block)
{
	uint64_t offset = (uint64_t)((char *)block - page->start);
	uint64_t old = atomic_load_explicit(&page->remote, memory_order_relaxed);
	uint64_t new;
	do {
		uint64_t next = old == 0 ? OFFSET_END : (uint32_t)old - 1;
		if (unlikely(next == offset))
			report_misuse("double free", block);
		*(uint64_t *)block = next ^ page->secret;
		new = ((old >> 32) + 1) << 32 | (offset + 1);
		/* release: pairs with the acquire in page_take_remote, which reads the link just written */
	} while (!atomic_compare_exchange_weak_explicit(&page->remote, &old, new, memory_order_release, memory_order_relaxed));
	return old == 0;
}

unsigned page_take_remote(struct page *page)
{
	uint64_t remote = atomic_exchange_explicit(&page->remote, 0, memory_order_acquire);
	if (remote == 0)
		return 0;
	unsigned n = (unsigned)(remote >> 32);
	if (n > page->used - (page_place(page) == PLACE_CURRENT))
		report_misuse("double free", page->start + (uint32_t)remote - 1);
	uint64_t first = (uint32_t)remote - 1;
	if (first / page->block_bytes >= page->formed)
		report_misuse("invalid pointer", page->start + first);
	uint64_t last = first;
	for (unsigned i = 1; i < n; i++) {
		last = page_next(page, last);
		if (last == OFFSET_END)
			report_misuse("damaged block", page->start + first);
	}
	if (page_next(page, last) != OFFSET_END)
		report_misuse("double free", page->start + last);
	*(uint64_t *)(page->start + last) = page->free;
	page->free = first ^ page->secret;
	page->used -= n;
	return n;
}

unsigned page_listed(const struct page *page)
{
	unsigned n = 0;
	for (uint64_t offset = page_first(page); offset != OFFSET_END; offset = page_next(page, offset)) {
		if (offset > OFFSET_END)
			report_misuse("damaged block", page->start);
		if (++n > page->formed)
			report_misuse("double free", page->start + offset);
	}
	return n;
}

static unsigned count_away(const struct page *page)
{
	unsigned n = 0;
	for (unsigned i = 0; i < page->formed; i++)
		n += page_is_away(page, i);
	return n;
}

void page_check(const struct page *page)
{
	if (atomic_load_explicit(&page->kind, memory_order_relaxed) != PAGE_SMALL) {
		lull_assert((atomic_load_explicit(&page->word, memory_order_relaxed) & ~page_full_word(page)) == 0);
		return;
	}
	unsigned pinned = page_place(page) == PLACE_CURRENT;
	unsigned away = count_away(page);
	lull_assert(page->formed <= page->capacity);
	lull_assert(page->used - pinned + page_listed(page) + away == page->formed);
	for (uint64_t offset = page_first(page); offset != OFFSET_END; offset = page_next(page, offset))
		lull_assert(!page_is_away(page, (unsigned)(offset / page->block_bytes)));
	(void)pinned;
	(void)away;
}
