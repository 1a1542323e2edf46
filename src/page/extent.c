/* SPDX-License-Identifier: MIT */
/*
 * One 64-bit word an entry, and the looks that fill it. A look costs one call of 2 to 3 us for a block, for a singleton up to 16 of them.
 */
#include "page/extent.h"

#include "kernel/bell.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/populate.h"
#include "page/reuse.h"
#include "page/sizeclass.h"

#include <stdatomic.h>
#include <string.h>

/* What is found over and over is taken for certain after this many times; as many are wanted at most after waste. */
#define SURE 2
#define WARY_MAX 63

struct extent {
	uint8_t known; /* looks, up to SURE */
	uint8_t parts; /* written, of EXTENT_PARTS */
	uint8_t more;  /* the least that was found lately, while more than `parts` was, */
	uint8_t again; /* this many times in a row */
	uint8_t wary;  /* more times than this it must be */
	uint8_t unused[3];
};

static _Atomic uint64_t table[REUSE_KEYS];

static struct extent entry(uint32_t key)
{
	uint64_t word = atomic_load_explicit(&table[key], memory_order_relaxed);
	struct extent extent;

	memcpy(&extent, &word, sizeof(extent));
	return extent;
}

static void set_entry(uint32_t key, struct extent extent)
{
	uint64_t word;

	memcpy(&word, &extent, sizeof(word));
	atomic_store_explicit(&table[key], word, memory_order_relaxed);
}

/* --- what is known -------------------------------------------------------------------------------------------------------------- */

size_t extent_bytes(uint32_t key, size_t block_bytes)
{
	struct extent extent = entry(key);
	size_t bytes = extent.parts == EXTENT_PARTS ? block_bytes : block_bytes / EXTENT_PARTS * extent.parts;

	return bytes < EXTENT_MIN_BYTES ? 0 : min_size(bytes, EXTENT_MAX_BYTES);
}

bool extent_is_unknown(uint32_t key)
{
	return entry(key).known == 0;
}

bool extent_is_whole(uint32_t key)
{
	struct extent extent = entry(key);

	return extent.known >= SURE && extent.parts == EXTENT_PARTS;
}

static void learn_less(struct extent *extent, unsigned parts)
{
	extent->known = 1;
	extent->parts = (uint8_t)parts;
	extent->again = 0;
}

static void learn_more(struct extent *extent, unsigned parts)
{
	extent->more = (uint8_t)(extent->again == 0 ? parts : min_size(extent->more, parts));
	if (extent->again++ < extent->wary)
		return;
	extent->parts = extent->more;
	extent->known = 1;
	extent->again = 0;
}

static void learn_same(struct extent *extent)
{
	extent->known = (uint8_t)min_size(extent->known + 1u, SURE);
	extent->again = 0;
	if (extent->wary > 0 && extent->parts > 0)
		extent->wary--;
}

void extent_learn(uint32_t key, unsigned parts, bool wasted)
{
	struct extent extent = entry(key);

	if (wasted)
		extent.wary = (uint8_t)min_size(2u * extent.wary + 1, WARY_MAX);
	if (extent.known == 0 || parts < extent.parts)
		learn_less(&extent, parts);
	else if (parts > extent.parts)
		learn_more(&extent, parts);
	else
		learn_same(&extent);
	set_entry(key, extent);
}

/* --- looks ---------------------------------------------------------------------------------------------------------------------- */

#define BLOCK_OS_PAGES (LARGE_MAX / OS_PAGE_SIZE)

static bool is_zero(const char *os_page)
{
	const uint64_t *word = (const uint64_t *)os_page;

	for (size_t i = 0; i < OS_PAGE_SIZE / sizeof(*word); i += 4)
		if (word[i] | word[i + 1] | word[i + 2] | word[i + 3])
			return false;
	return true;
}

/* What a look saw of the OS pages of a range. */
struct seen {
	size_t first_gap; /* OS pages before the first that is not written, */
	size_t end;       /* and up to the last that is */
	size_t written;
	size_t wasted;    /* brought in and not written */
};

/* n: OS pages, at most BLOCK_OS_PAGES; of these the first POPULATED were brought in. What is not resident is not read: that would be a
 * fault. False: the kernel does not tell. */
static bool look(const char *addr, size_t n, size_t populated, struct seen *ret)
{
	unsigned char vec[BLOCK_OS_PAGES];

	*ret = (struct seen){.first_gap = n};
	if (!caps_has(CAPS_MINCORE) || kernel.mincore((char *)addr, n * OS_PAGE_SIZE, vec) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		bool wasted = vec[i] & 1 && i < populated && is_zero(addr + i * OS_PAGE_SIZE);
		if (vec[i] & 1 && !wasted) {
			ret->written++;
			ret->end = i + 1;
		} else {
			ret->first_gap = min_size(ret->first_gap, i);
			ret->wasted += wasted;
		}
	}
	return true;
}

/* Up to where a block counts as written: a zero OS page here and there among written ones is part of it, a lone written one far behind is
 * not. */
static size_t written_end(const struct seen *seen)
{
	return seen->written >= seen->end - seen->end / 4 ? seen->end : seen->first_gap;
}

void extent_look_block(uint32_t key, const char *addr, size_t len, size_t populated)
{
	/* an OS page shared with a neighbour says nothing about this block */
	const char *from = (const char *)align_up((uintptr_t)addr, OS_PAGE_SIZE);
	const char *to = (const char *)align_down((uintptr_t)addr + len, OS_PAGE_SIZE);
	size_t n = (size_t)(to - from) / OS_PAGE_SIZE;
	struct seen seen;

	if (len < EXTENT_MIN_BYTES || !look(from, n, populated / OS_PAGE_SIZE, &seen))
		return;
	size_t end = written_end(&seen);
	/* rounded up, so that extent_bytes, which rounds down, comes to the same OS page */
	unsigned parts = end == n ? EXTENT_PARTS : (unsigned)((end * OS_PAGE_SIZE * EXTENT_PARTS + len - 1) / len);
	extent_learn(key, parts, end < min_size(n, populated / OS_PAGE_SIZE));
	populate_note_waste(seen.wasted * OS_PAGE_SIZE);
}

/* A singleton is looked at in this many places, the ends of its sixteenths, in each at this many OS pages: all of one of up to 1 MiB. */
#define SINGLE_LOOKS 16
#define SINGLE_OS_PAGES 16

static size_t sixteenths(size_t len, unsigned n)
{
	return n == SINGLE_LOOKS ? len : align_down(len / SINGLE_LOOKS * n, OS_PAGE_SIZE);
}

static bool is_written_before(const char *addr, size_t offset, size_t populated)
{
	size_t from = offset - SINGLE_OS_PAGES * OS_PAGE_SIZE;
	size_t before = populated > from ? (populated - from) / OS_PAGE_SIZE : 0;
	struct seen seen;

	return look(addr + from, SINGLE_OS_PAGES, before, &seen) && seen.end == SINGLE_OS_PAGES && written_end(&seen) == SINGLE_OS_PAGES;
}

void extent_look_single(uint32_t key, const char *addr, size_t len, size_t populated)
{
	unsigned looks = 0;

	if (!caps_has(CAPS_MINCORE))
		return;
	/* the first sixteenth of the smallest ends before as many OS pages as a look has */
	while (looks < SINGLE_LOOKS && is_written_before(addr, max_size(sixteenths(len, looks + 1), SINGLE_OS_PAGES * OS_PAGE_SIZE), populated))
		looks++;
	size_t found = sixteenths(len, looks);
	extent_learn(key, looks * (EXTENT_PARTS / SINGLE_LOOKS), found < populated);
	populate_note_waste(populated > found ? populated - found : 0);
}

bool extent_may_look(size_t bytes)
{
	enum cap_state state = caps_state(CAPS_MINCORE);

	return state == CAP_STATE_LIVE || (state == CAP_STATE_UNKNOWN && bytes >= BELL_START_BYTES);
}
