/* SPDX-License-Identifier: MIT */
/*
 * Medium and large pages: one word of free blocks. Whoever clears a bit holds the block, be it to use it or to return its memory.
 *
 * away_blocks tells which blocks' whole OS pages read as zero. A block's bit in it is written by its holder only, atomically because
 * the neighbours' bits share the word. OS pages that a block shares with a neighbour are never promised to be zero: page_clear_edges.
 */
#include "page/page.h"

#include "kernel/populate.h"
#include "kernel/report.h"
#include "page/extent.h"
#include "page/reuse.h"

static unsigned block_index(const struct page *page, const void *block)
{
	return (unsigned)((size_t)((const char *)block - page->start) / page->block_bytes);
}

/* The caller holds the block: forget that it was away. */
static bool bring_back(struct page *page, uint64_t bit)
{
	if ((atomic_load_explicit(&page->away_blocks, memory_order_relaxed) & bit) == 0)
		return false;
	atomic_fetch_and_explicit(&page->away_blocks, ~bit, memory_order_relaxed);
	if (atomic_load_explicit(&page->returned, memory_order_relaxed) & bit) {
		atomic_fetch_and_explicit(&page->returned, ~bit, memory_order_relaxed);
		atomic_fetch_sub_explicit(&page_away_bytes, page->block_bytes, memory_order_relaxed);
		atomic_fetch_add_explicit(&page_refaulted_bytes, page->block_bytes, memory_order_relaxed);
		reuse_note(page_reuse_key(page), page_now_ms() - page_gone_ms(page), page->block_bytes);
	}
	return true;
}

void *page_take_block(struct page *page, bool *ret_clean)
{
	uint64_t word = atomic_load_explicit(&page->word, memory_order_relaxed);
	uint64_t bit;
	do {
		if (word == 0)
			return NULL;
		uint64_t resident = word & ~atomic_load_explicit(&page->away_blocks, memory_order_relaxed);
		uint64_t from = resident != 0 ? resident : word;
		bit = from & -from;
		/* acquire: pairs with the release that set the bit, by the thread that freed the block or by the sweep that returned it */
	} while (!atomic_compare_exchange_weak_explicit(&page->word, &word, word & ~bit, memory_order_acquire, memory_order_relaxed));
	*ret_clean = bring_back(page, bit);
	return page->start + (size_t)bit_lowest(bit) * page->block_bytes;
}

void page_bring_in(struct page *page, void *block, size_t bytes)
{
	char *from = (char *)align_down((uintptr_t)block, OS_PAGE_SIZE);
	char *to = (char *)align_down((uintptr_t)block + bytes, OS_PAGE_SIZE);
	if (populate_range(from, (size_t)(to - from)))
		atomic_fetch_or_explicit(&page->brought, UINT64_C(1) << block_index(page, block), memory_order_relaxed);
}

/* One of BITS, another one each time: the lowest are used more than the rest. */
static unsigned any_of(uint64_t bits)
{
	static _Atomic unsigned turn;
	unsigned from = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) % 64;
	uint64_t behind = bits & ~bits_low(from);
	return bit_lowest(behind != 0 ? behind : bits);
}

void page_look_at(const struct page *page, uint64_t blocks, uint32_t key)
{
	uint64_t brought = blocks & atomic_load_explicit(&page->brought, memory_order_relaxed);
	if (blocks == 0)
		return;
	unsigned block = any_of(brought != 0 ? brought : blocks);
	const char *addr = page->start + (size_t)block * page->block_bytes;
	extent_look_block(key, addr, page->block_bytes, brought != 0 ? extent_bytes(key, page->block_bytes) : 0);
}

enum page_freed page_free_block(struct page *page, void *block)
{
	uint64_t bit = UINT64_C(1) << block_index(page, block);
	uint64_t full = page_full_word(page); /* after the free the page may be gone */
	/* seq_cst: releases the block to its next holder, and orders with `nowhere` and region_mark_freed, which are read next */
	uint64_t before = atomic_fetch_or_explicit(&page->word, bit, memory_order_seq_cst);
	if (unlikely(before & bit))
		report_misuse("double free", block);
	if (before == 0)
		return PAGE_FREED_FIRST;
	return (before | bit) == full ? PAGE_FREED_LAST : PAGE_FREED;
}

bool page_take_all(struct page *page)
{
	uint64_t full = page_full_word(page);
	return atomic_compare_exchange_strong_explicit(&page->word, &full, 0, memory_order_acquire, memory_order_relaxed);
}

void page_clear_edges(const struct page *page, void *block)
{
	char *from = block, *to = from + page->block_bytes;
	char *first = (char *)align_up((uintptr_t)from, OS_PAGE_SIZE);
	char *last = (char *)align_down((uintptr_t)to, OS_PAGE_SIZE);
	__builtin_memset(from, 0, (size_t)(first - from));
	__builtin_memset(last, 0, (size_t)(to - last));
}
