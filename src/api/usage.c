/* SPDX-License-Identifier: MIT */
/*
 * The walk goes from record to record of each region, over the slices in use only. It takes no lock: records stay mapped, and a page that
 * comes, goes or changes under the walk costs exactness, no more.
 */
#include "api/usage.h"

#include "page/page.h"
#include "region/region.h"

#include <stdatomic.h>

static void count_blocks(struct usage *usage, const struct page *page, uint64_t used)
{
	used = min_size(used, page->capacity);
	usage->used_bytes += used * page->block_bytes;
	usage->free_blocks += page->capacity - used;
}

/* used is read while its owner counts: see above. Pinned pages count one more than they have out. */
static uint64_t small_used(const struct page *page)
{
	uint64_t pinned = page_place(page) == PLACE_CURRENT;
	uint64_t late = atomic_load_explicit(&page->remote, memory_order_relaxed) >> 32;
	uint64_t used = __atomic_load_n(&page->used, __ATOMIC_RELAXED);

	return used > pinned + late ? used - pinned - late : 0;
}

static uint64_t big_used(const struct page *page)
{
	uint64_t word = atomic_load_explicit(&page->word, memory_order_relaxed);

	return page->capacity - (uint64_t)__builtin_popcountll(word);
}

/* Returns how many slices the page holds. */
__attribute__((no_sanitize("thread"))) static size_t count_page(struct usage *usage, const struct page *page)
{
	switch (atomic_load_explicit(&page->kind, memory_order_acquire)) {
	case PAGE_SMALL:
		count_blocks(usage, page, small_used(page));
		return SMALL_SLICES;
	case PAGE_MEDIUM:
		count_blocks(usage, page, big_used(page));
		return MEDIUM_SLICES;
	case PAGE_LARGE:
		count_blocks(usage, page, big_used(page));
		return LARGE_SLICES;
	case PAGE_SINGLE:
		usage->used_bytes += page->bytes;
		return max_size(1, page->bytes >> SLICE_SHIFT);
	default:
		return 1;
	}
}

static void count_region(struct usage *usage, const struct region *region)
{
	size_t limit = atomic_load_explicit(&region->limit, memory_order_acquire);

	for (size_t slice = 0; slice < limit;)
		slice += count_page(usage, (const struct page *)(region->records + slice * RECORD_SIZE));
}

struct usage usage_read(void)
{
	struct usage usage = {0};
	struct region_counts counts = region_counts();

	for (size_t i = 0; i < region_n(); i++)
		count_region(&usage, region_at(i));
	usage.dirty_bytes = counts.dirty_bytes;
	usage.total_bytes = max_size(counts.taken_bytes + counts.dirty_bytes, usage.used_bytes);
	return usage;
}
