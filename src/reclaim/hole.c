/* SPDX-License-Identifier: MIT */
/*
 * Small pages are looked at by the holder of the heap: count for each OS page how many of the blocks that overlap it are listed; where
 * all are, take these blocks off the list first and give the OS page up afterwards, since the list runs through the blocks.
 *
 * Medium and large pages need no holder: clearing a block's bit holds it.
 */
#include "reclaim/hole.h"

#include "heap/heap.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"

void hole_queue(struct advise_batch *batch, char *addr, size_t len, void *owner, uint64_t bits)
{
	if (region_may_be_huge(addr, len))
		advise_batch_add_huge(batch, addr, len, owner, bits);
	else
		advise_batch_add(batch, addr, len, owner, bits);
}

/* --- small pages ---------------------------------------------------------------------------------------------------------------- */

static void count_listed(const struct page *page, uint16_t count[SMALL_UNITS])
{
	page_listed(page); /* whole and free of cycles, or the end */
	for (uint64_t offset = page_first(page); offset != OFFSET_END; offset = page_next(page, offset)) {
		for (uint32_t units = page_block_units(page, (unsigned)(offset / page->block_bytes)); units != 0; units &= units - 1)
			count[bit_lowest(units)]++;
	}
}

/* Every formed block that overlaps UNIT is listed, or away already because of a neighbouring OS page. */
static bool unit_is_free(const struct page *page, unsigned unit, unsigned listed)
{
	size_t from = (size_t)unit << OS_PAGE_SHIFT;
	size_t formed = (size_t)page->formed * page->block_bytes;
	if (from >= formed || (from + OS_PAGE_SIZE > formed && page->formed < page->capacity))
		return false;
	unsigned first = (unsigned)(from / page->block_bytes);
	unsigned last = (unsigned)(min_size(from + OS_PAGE_SIZE, formed) - 1) / page->block_bytes;
	unsigned away = page_is_away(page, first);
	if (last != first)
		away += page_is_away(page, last);
	return listed + away == last - first + 1;
}

/* OS pages wholly past the formed blocks that came resident from an earlier life of the slice. */
static uint32_t tail_units(struct page *page)
{
	if (!page->dirty_tail)
		return 0;
	page->dirty_tail = 0;
	size_t formed = align_up((size_t)page->formed * page->block_bytes, OS_PAGE_SIZE) >> OS_PAGE_SHIFT;
	return (uint32_t)(bits_low(SMALL_UNITS) & ~bits_low((unsigned)formed));
}

static uint32_t find_units(struct page *page)
{
	uint16_t listed[SMALL_UNITS] = {0};
	uint32_t units = 0;
	count_listed(page, listed);
	for (unsigned unit = 0; unit < SMALL_UNITS; unit++) {
		if (!(page->away >> unit & 1) && unit_is_free(page, unit, listed[unit]))
			units |= UINT32_C(1) << unit;
	}
	return units | (tail_units(page) & ~(uint32_t)page->away);
}

/* OS pages the kernel refused last time: off the list already, resident still. */
static uint32_t take_refused(struct page *page)
{
	uint32_t flight = atomic_load_explicit(&page->flight, memory_order_relaxed);
	uint32_t refused = page->away & (flight >> 16) & ~flight;
	if (refused != 0)
		atomic_fetch_and_explicit(&page->flight, ~(refused << 16), memory_order_relaxed);
	return refused;
}

/* Relink the list without the blocks that overlap UNITS. */
static void unlist(struct page *page, uint32_t units)
{
	uint64_t *link = &page->free;
	uint64_t next;
	for (uint64_t offset = page_first(page); offset != OFFSET_END; offset = next) {
		next = page_next(page, offset);
		if (page_block_units(page, (unsigned)(offset / page->block_bytes)) & units)
			continue;
		*link = offset ^ page->secret;
		link = (uint64_t *)(page->start + offset);
	}
	*link = OFFSET_END ^ page->secret;
}

void hole_small(struct advise_batch *batch, struct page *page)
{
	uint32_t units = find_units(page);
	if (units != 0)
		unlist(page, units);
	page->away |= (uint16_t)units;
	units |= take_refused(page);
	if (units == 0)
		return;
	atomic_fetch_or_explicit(&page->flight, units, memory_order_relaxed);
	page_check(page);
	while (units != 0) {
		unsigned first = bit_lowest(units);
		unsigned n = bit_lowest(~((uint64_t)units >> first));
		uint32_t run = (uint32_t)(bits_low(n) << first);
		hole_queue(batch, page->start + ((size_t)first << OS_PAGE_SHIFT), (size_t)n << OS_PAGE_SHIFT, page, run);
		units &= ~run;
	}
}

static void small_done(struct page *page, uint32_t units, bool ok)
{
	if (ok) {
		uint64_t bytes = (uint64_t)__builtin_popcount(units) << OS_PAGE_SHIFT;
		atomic_fetch_add_explicit(&page_away_bytes, bytes, memory_order_relaxed);
	} else {
		struct heap *owner = atomic_load_explicit(&page->owner, memory_order_acquire);
		atomic_fetch_or_explicit(&page->flight, units << 16, memory_order_relaxed);
		atomic_store_explicit(&owner->retry, 1, memory_order_relaxed);
	}
	/* release: pairs with the acquire of the holder who brings the OS pages back or destroys the page */
	atomic_fetch_and_explicit(&page->flight, ~units, memory_order_release);
}

/* --- medium and large pages ------------------------------------------------------------------------------------------------------ */

/* Blocks to hold: the resident free ones, and free neighbours of theirs that are away, because of the OS page the two share. */
static uint64_t wanted_blocks(const struct page *page, struct page_shape shape, uint64_t word)
{
	uint64_t away = atomic_load_explicit(&page->away_blocks, memory_order_relaxed);
	uint64_t resident = word & ~away;
	if (shape.block_bytes % OS_PAGE_SIZE == 0)
		return resident;
	return resident | ((resident << 1 | resident >> 1) & word & away);
}

/* OS pages asked about at once: 1 MiB, in a quarter of a KiB of stack. */
#define RESIDENT_LOOK 256

size_t hole_resident(const char *addr, size_t len)
{
	unsigned char vec[RESIDENT_LOOK];
	size_t bytes = 0;
	if (!caps_has(CAPS_MINCORE))
		return len; /* all of it may be */
	for (size_t at = 0; at < len; at += RESIDENT_LOOK * OS_PAGE_SIZE) {
		size_t step = min_size(len - at, RESIDENT_LOOK * OS_PAGE_SIZE);
		if (kernel.mincore((char *)addr + at, step, vec) != 0)
			return len;
		for (size_t i = 0; i < step / OS_PAGE_SIZE; i++)
			bytes += (vec[i] & 1) * OS_PAGE_SIZE;
	}
	return bytes;
}

/* The OS pages that N blocks from FIRST on have for themselves; none where the page became one of small blocks meanwhile. */
static char *run_bounds(struct page_shape shape, unsigned first, unsigned n, size_t *ret_len)
{
	uintptr_t from = align_up((uintptr_t)shape.start + (size_t)first * shape.block_bytes, OS_PAGE_SIZE);
	uintptr_t to = align_down((uintptr_t)shape.start + (size_t)(first + n) * shape.block_bytes, OS_PAGE_SIZE);
	*ret_len = to > from ? to - from : 0;
	return (char *)from;
}

static unsigned first_run(uint64_t bits, unsigned *ret_n)
{
	unsigned first = bit_lowest(bits);
	uint64_t rest = ~(bits >> first);
	*ret_n = rest == 0 ? 64 : bit_lowest(rest);
	return first;
}

size_t hole_big_resident(const struct page *page)
{
	struct page_shape shape = page_shape(page);
	uint64_t blocks = wanted_blocks(page, shape, atomic_load_explicit(&page->word, memory_order_relaxed));
	size_t bytes = 0;
	while (blocks != 0) {
		unsigned n;
		unsigned first = first_run(blocks, &n);
		size_t len;
		const char *from = run_bounds(shape, first, n, &len);
		bytes += hole_resident(from, len);
		blocks &= ~(bits_low(n) << first);
	}
	return bytes;
}

static uint32_t block_key(const struct page *page)
{
	return heap_block_key(atomic_load_explicit(&page->owner, memory_order_relaxed), page);
}

void hole_big(struct advise_batch *batch, struct page *page, uint32_t gone_ms)
{
	/* seq_cst: after the mark of region_mark_freed was cleared, see there. Not 0 only while this is a live medium or large page; if it
	 * becomes another one meanwhile, holding a block of that one is just as good, and from then on the page stays what it is. */
	uint64_t word = atomic_load(&page->word);
	uint64_t held;
	do {
		if (word == 0)
			return;
		held = wanted_blocks(page, page_shape(page), word);
		if (held == 0)
			return;
		/* acquire: as for whoever takes a block to use it */
	} while (!atomic_compare_exchange_weak_explicit(&page->word, &word, word & ~held, memory_order_acquire, memory_order_relaxed));
	page_set_past(page, page_reuse_key(page), gone_ms);
	/* 2 to 3 us, less than returning one OS page costs: only what goes away is ever brought in */
	page_look_at(page, held & ~atomic_load_explicit(&page->away_blocks, memory_order_relaxed), block_key(page));
	while (held != 0) {
		unsigned n;
		unsigned first = first_run(held, &n);
		uint64_t run = bits_low(n) << first;
		size_t len;
		char *from = run_bounds(page_shape(page), first, n, &len);
		if (first + n == page->capacity && page->dirty_end != 0) {
			len = (size_t)(page->start + page->dirty_end - from);
			page->dirty_end = 0;
		}
		hole_queue(batch, from, len, page, run);
		held &= ~run;
	}
}

/* With BLOCKS, which the caller still holds, all of the page is free. */
static void note_emptied(const struct page *page, uint64_t blocks)
{
	struct heap *owner = atomic_load_explicit(&page->owner, memory_order_relaxed);
	if ((atomic_load_explicit(&page->word, memory_order_relaxed) | blocks) == page_full_word(page))
		atomic_store_explicit(&owner->emptied, 1, memory_order_relaxed);
}

static void big_done(struct page *page, uint64_t blocks, bool ok)
{
	if (ok) {
		atomic_fetch_or_explicit(&page->away_blocks, blocks, memory_order_relaxed);
		atomic_fetch_and_explicit(&page->brought, ~blocks, memory_order_relaxed);
		uint64_t before = atomic_fetch_or_explicit(&page->returned, blocks, memory_order_relaxed);
		uint64_t bytes = (uint64_t)__builtin_popcountll(blocks & ~before) * page->block_bytes;
		atomic_fetch_add_explicit(&page_away_bytes, bytes, memory_order_relaxed);
		note_emptied(page, blocks);
	} else {
		region_mark_freed(page->start);
	}
	heap_put_blocks(page, blocks);
}

void hole_done(const struct advise_range *range, bool ok)
{
	struct page *page = range->owner;
	if (ok && range->huge)
		region_note_returned(range->addr, range->len);
	if (atomic_load_explicit(&page->kind, memory_order_relaxed) == PAGE_SMALL)
		small_done(page, (uint32_t)range->bits, ok);
	else
		big_done(page, range->bits, ok);
}
