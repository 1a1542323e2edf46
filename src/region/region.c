/* SPDX-License-Identifier: MIT */
/*
 * Slices are found first fit by address, one word of the bitmap (a 4 MiB chunk) at a time: that keeps the upper chunks whole for large
 * pages and lets the same addresses be used again, resident. A region grows by making memory usable up to a new limit; the records of
 * these slices become usable first, so that a slice below the limit always has one.
 */
#include "region/region.h"

#include "kernel/caps.h"
#include "kernel/map.h"
#include "kernel/rlimit.h"
#include "region/meta.h"

/* The first step is one slice more than nothing, so that under mlockall(MCL_FUTURE), which fills what becomes usable, a first malloc costs
 * 256 KiB; then an eighth of what there is, at most 64 MiB at once. */
#define STEP_FIRST 4
#define STEP_MAX (64 * MIB / SLICE_SIZE)
/* Records become usable for this many slices at once: 64 KiB of records, and one OS page of their past. */
#define RECORD_STEP (OS_PAGE_SIZE / sizeof(struct slice_past))

/* A huge page, in slices. */
#define HUGE_SLICES (2 * MIB / SLICE_SIZE)
#define HUGE_PER_CHUNK (CHUNK_SLICES / HUGE_SLICES)

struct region_primary region_primary = {0};

static struct {
	struct lock lock;              /* guards growth of the table */
	_Atomic size_t n;              /* release: pairs with the acquire in region_n */
	struct region region[REGIONS_MAX];
} table;

/* --- the table ------------------------------------------------------------------------------------------------------------------ */

size_t region_n(void)
{
	return atomic_load_explicit(&table.n, memory_order_acquire);
}

struct region *region_at(size_t i)
{
	return &table.region[i];
}

struct region *region_of(const void *addr)
{
	size_t n = region_n();
	for (size_t i = 0; i < n; i++) {
		struct region *region = &table.region[i];
		if ((size_t)((const char *)addr - region->base) < region->slices * SLICE_SIZE)
			return region;
	}
	return NULL;
}

static size_t slice_of(const struct region *region, const void *addr)
{
	return (size_t)((const char *)addr - region->base) >> SLICE_SHIFT;
}

static char *slice_addr(const struct region *region, size_t slice)
{
	return region->base + (slice << SLICE_SHIFT);
}

void *region_record(const void *addr)
{
	struct region *region = region_of(addr);
	if (region == NULL)
		return NULL;
	size_t slice = slice_of(region, addr);
	/* acquire: pairs with the release in region_grow; below the limit the record is readable */
	if (slice >= atomic_load_explicit(&region->limit, memory_order_acquire))
		return NULL;
	return region->records + slice * RECORD_SIZE;
}

/* --- creation ------------------------------------------------------------------------------------------------------------------- */

static bool region_alloc_maps(struct region *region)
{
	size_t words = region->slices / CHUNK_SLICES;
	/* one allocation, so that a refusal leaves nothing behind */
	size_t per_chunk = align_up(words, 64) / 64;
	uint64_t *maps = meta_alloc((4 * words + 2 * per_chunk + HUGE_PER_CHUNK * per_chunk) * sizeof(uint64_t));
	if (maps == NULL)
		return false;
	region->free = maps;
	region->dirty = maps + words;
	region->young = maps + 2 * words;
	region->freed = (_Atomic uint64_t *)(maps + 3 * words);
	region->uncommitted = maps + 4 * words;
	region->recorded = maps + 4 * words + per_chunk;
	region->huge = (_Atomic uint64_t *)(maps + 4 * words + 2 * per_chunk);
	return true;
}

/* The maps say "taken" for slices above the limit, so that those of an untouched region are untouched as well. */
static bool region_create(struct region *region, size_t bytes)
{
	size_t record_bytes = align_up(bytes / SLICE_SIZE * RECORD_SIZE, OS_PAGE_SIZE);
	size_t past_bytes = align_up(bytes / SLICE_SIZE * sizeof(struct slice_past), OS_PAGE_SIZE);
	region->slices = bytes / SLICE_SIZE;
	region->step = STEP_FIRST;
	region->base = map_reserve(bytes, CHUNK_SLICES * SLICE_SIZE);
	if (region->base == NULL)
		return false;
	region->records = map_reserve(record_bytes, CHUNK_SLICES * RECORD_SIZE);
	region->past = (struct slice_past *)map_reserve(past_bytes, OS_PAGE_SIZE);
	if (region->records != NULL && region->past != NULL && region_alloc_maps(region)) {
		/* a huge page would bring 2 MiB where 4 KiB are used, and keep them though a part was returned */
		map_no_huge_pages(region->base, bytes);
		return true;
	}
	if (region->records != NULL)
		map_release(region->records, record_bytes);
	if (region->past != NULL)
		map_release((char *)region->past, past_bytes);
	map_release(region->base, bytes);
	return false;
}

/* Under RLIMIT_AS take at most a quarter of it at once: the program maps things too. */
static size_t region_bytes_to_try(size_t need)
{
	size_t limit = rlimit_address_space();
	size_t bytes = REGION_BYTES_MAX;
	while (bytes > limit / 4 && bytes > REGION_BYTES_MIN)
		bytes /= 2;
	while (bytes < need)
		bytes *= 2;
	return bytes;
}

static void region_publish(struct region *region, size_t n)
{
	if (n == 0) {
		region_primary.base = (uintptr_t)region->base;
		region_primary.records = region->records;
	}
	atomic_store_explicit(&table.n, n + 1, memory_order_release);
}

/* Another region, of at least N slices. seen: regions that existed when the caller found them all full. */
static bool region_add(size_t n, size_t seen)
{
	lock_take(&table.lock);
	bool done = region_n() > seen; /* someone else was faster */
	size_t need = align_up(n, CHUNK_SLICES) * SLICE_SIZE;
	for (size_t bytes = region_bytes_to_try(need); !done && region_n() < REGIONS_MAX; bytes /= 2) {
		if (bytes < max_size(need, REGION_BYTES_MIN))
			bytes = need;
		size_t next = region_n();
		done = region_create(&table.region[next], bytes);
		if (done)
			region_publish(&table.region[next], next);
		else if (bytes == need || bytes <= REGION_BYTES_MIN)
			break;
	}
	lock_release(&table.lock);
	return done;
}

/* Late, and not by those who allocate: a program that gives nothing back makes no unusual call. */
void region_name_all(void)
{
	static size_t named;
	for (; named < region_n() && caps_has(CAPS_VMA_NAME); named++)
		map_name(region_at(named)->base, region_at(named)->slices * SLICE_SIZE);
}

/* --- growth --------------------------------------------------------------------------------------------------------------------- */

static void map_set(uint64_t *map, size_t from, size_t n, bool value)
{
	while (n > 0) {
		size_t bit = from % 64;
		size_t take = min_size(n, 64 - bit);
		uint64_t mask = bits_low((unsigned)take) << bit;
		if (value)
			map[from / 64] |= mask;
		else
			map[from / 64] &= ~mask;
		from += take;
		n -= take;
	}
}

static bool map_test(const uint64_t *map, size_t i)
{
	return map[i / 64] >> (i % 64) & 1;
}

static size_t map_count(const uint64_t *map, size_t from, size_t n)
{
	size_t count = 0;
	for (size_t i = from; i < from + n;) {
		size_t take = min_size(from + n - i, 64 - i % 64);
		count += (size_t)__builtin_popcountll(map[i / 64] >> (i % 64) & bits_low((unsigned)take));
		i += take;
	}
	return count;
}

static bool records_grow(struct region *region, size_t from, size_t to)
{
	size_t usable = align_up(from, RECORD_STEP);
	size_t want = min_size(align_up(to, RECORD_STEP), align_up(region->slices, OS_PAGE_SIZE / RECORD_SIZE));
	if (want <= usable)
		return true;
	size_t past_end = align_up(want * sizeof(struct slice_past), OS_PAGE_SIZE);
	return map_commit((char *)(region->past + usable), past_end - usable * sizeof(struct slice_past)) &&
	       map_commit(region->records + usable * RECORD_SIZE, (want - usable) * RECORD_SIZE);
}

/* Make slices usable up to at least TO. */
static bool region_grow_to(struct region *region, size_t to)
{
	size_t from = atomic_load_explicit(&region->limit, memory_order_relaxed);
	if (to <= from)
		return true;
	if (!records_grow(region, from, to) || !map_commit(slice_addr(region, from), (to - from) * SLICE_SIZE))
		return false;
	map_set(region->free, from, to - from, true);
	atomic_store_explicit(&region->limit, to, memory_order_release);
	if (region == &table.region[0])
		atomic_store_explicit(&region_primary.limit, to, memory_order_relaxed);
	return true;
}

static bool region_grow(struct region *region, size_t to)
{
	size_t from = atomic_load_explicit(&region->limit, memory_order_relaxed);
	if (to <= from)
		return true;
	size_t more = min_size(max_size(to, from + region->step), region->slices);
	if (region_grow_to(region, more)) {
		region->step = min_size(max_size(STEP_FIRST, more / 8), STEP_MAX);
		return true;
	}
	return more > to && region_grow_to(region, to);
}

/* --- finding slices ------------------------------------------------------------------------------------------------------------- */

/* The first slice at or after SLICE whose address is a multiple of ALIGN slices. */
static size_t slice_align_up(const struct region *region, size_t slice, size_t align)
{
	size_t first = (uintptr_t)region->base >> SLICE_SHIFT;
	return align_up(first + slice, align) - first;
}

static bool slices_are_free(const struct region *region, size_t slice, size_t n)
{
	return map_count(region->free, slice, n) == n;
}

/* The first bit at or after FROM that has VALUE, or END. */
static size_t map_find(const uint64_t *map, size_t from, size_t end, bool value)
{
	while (from < end) {
		uint64_t word = (value ? map[from / 64] : ~map[from / 64]) >> (from % 64);
		if (word != 0)
			return min_size(from + bit_lowest(word), end);
		from = (from / 64 + 1) * 64;
	}
	return end;
}

/* The first N free slices aligned to ALIGN that begin below END, or SIZE_MAX. A run that reaches END goes on in slices that are not
 * usable yet, all of them free. */
static size_t find_run(const struct region *region, size_t n, size_t align, size_t end)
{
	size_t slice = region->first * CHUNK_SLICES;
	for (;;) {
		slice = slice_align_up(region, map_find(region->free, slice, end, true), align);
		if (slice >= end)
			return SIZE_MAX;
		size_t stop = map_find(region->free, slice, min_size(end, slice + n), false);
		if (stop == slice + n || stop == end)
			return slice + n <= region->slices ? slice : SIZE_MAX;
		slice = stop;
	}
}

/* One slice, a dirty one if there is any: it needs no fault. */
static size_t find_one(const struct region *region, size_t end)
{
	size_t chunks = align_up(end, CHUNK_SLICES) / CHUNK_SLICES;
	if (region->dirty_slices > 0) {
		for (size_t c = region->first; c < chunks; c++) {
			uint64_t usable = region->free[c] & region->dirty[c];
			if (usable != 0)
				return c * CHUNK_SLICES + bit_lowest(usable);
		}
	}
	for (size_t c = region->first; c < chunks; c++) {
		if (region->free[c] != 0)
			return c * CHUNK_SLICES + bit_lowest(region->free[c]);
	}
	return SIZE_MAX;
}

/* An aligned run that is wholly dirty, for pages of 8 and 64 slices. */
static size_t find_dirty(const struct region *region, size_t n, size_t end)
{
	if (region->dirty_slices < n)
		return SIZE_MAX;
	for (size_t c = region->first; c < align_up(end, CHUNK_SLICES) / CHUNK_SLICES; c++) {
		uint64_t usable = region->free[c] & region->dirty[c];
		for (size_t i = 0; usable != 0 && i < CHUNK_SLICES; i += n) {
			uint64_t mask = bits_low((unsigned)n) << i;
			if ((usable & mask) == mask)
				return c * CHUNK_SLICES + i;
		}
	}
	return SIZE_MAX;
}

static bool recommit(struct region *region, size_t slice, size_t n)
{
	for (size_t c = slice / CHUNK_SLICES; c <= (slice + n - 1) / CHUNK_SLICES; c++) {
		if (!map_test(region->uncommitted, c))
			continue;
		if (!map_commit(slice_addr(region, c * CHUNK_SLICES), CHUNK_SLICES * SLICE_SIZE))
			return false;
		map_set(region->uncommitted, c, 1, false);
	}
	return true;
}

/* The slices are free and inside the region: hold them. */
static bool take_slices(struct region *region, size_t slice, size_t n, bool *ret_clean)
{
	if (!region_grow(region, slice + n) || !recommit(region, slice, n))
		return false;
	size_t dirty = map_count(region->dirty, slice, n);
	map_set(region->free, slice, n, false);
	map_set(region->dirty, slice, n, false);
	map_set(region->young, slice, n, false);
	region->dirty_slices -= dirty;
	map_set(region->recorded, slice / CHUNK_SLICES, (slice + n - 1) / CHUNK_SLICES - slice / CHUNK_SLICES + 1, true);
	*ret_clean = dirty == 0;
	return true;
}

static size_t find_slices(const struct region *region, size_t n, size_t align)
{
	size_t limit = atomic_load_explicit(&region->limit, memory_order_relaxed);
	size_t slice = SIZE_MAX;
	if (n == 1 && align == 1)
		slice = find_one(region, limit);
	else if (n == align && n <= CHUNK_SLICES)
		slice = find_dirty(region, n, limit);
	if (slice == SIZE_MAX)
		slice = find_run(region, n, align, limit);
	if (slice == SIZE_MAX && slice_align_up(region, limit, align) + n <= region->slices)
		slice = slice_align_up(region, limit, align);
	return slice;
}

static char *alloc_from(struct region *region, size_t n, size_t align, bool *ret_clean, bool *ret_refused)
{
	lock_take(&region->lock);
	size_t slice = find_slices(region, n, align);
	char *addr = NULL;
	*ret_refused = slice != SIZE_MAX;
	if (slice != SIZE_MAX && take_slices(region, slice, n, ret_clean)) {
		addr = slice_addr(region, slice);
		size_t limit = atomic_load_explicit(&region->limit, memory_order_relaxed);
		while (region->first * CHUNK_SLICES < limit && region->free[region->first] == 0 &&
		       (region->first + 1) * CHUNK_SLICES <= limit)
			region->first++;
	}
	lock_release(&region->lock);
	return addr;
}

char *region_alloc(size_t n, size_t align, bool *ret_clean)
{
	/* align_up below must not wrap, and no region is larger than this times a few */
	if (n > SIZE_MAX / 4 / SLICE_SIZE || align > SIZE_MAX / 4 / SLICE_SIZE)
		return NULL;
	for (;;) {
		size_t seen = region_n();
		bool refused = false;
		for (size_t i = 0; i < seen; i++) {
			bool here;
			char *addr = alloc_from(&table.region[i], n, align, ret_clean, &here);
			if (addr != NULL)
				return addr;
			refused |= here;
		}
		/* there is room, but no memory: another region would not have it either */
		if (refused)
			return NULL;
		/* regions start at chunk boundaries: a stricter alignment needs room to move */
		if (!region_add(align > CHUNK_SLICES ? n + align : n, seen))
			return NULL;
	}
}

bool region_extend(char *addr, size_t n, bool *ret_clean)
{
	struct region *region = region_of(addr - 1);
	size_t slice = slice_of(region, addr);
	bool done = false;
	lock_take(&region->lock);
	size_t limit = atomic_load_explicit(&region->limit, memory_order_relaxed);
	size_t inside = slice < limit ? min_size(n, limit - slice) : 0;
	if (slice + n <= region->slices && slices_are_free(region, slice, inside))
		done = take_slices(region, slice, n, ret_clean);
	lock_release(&region->lock);
	return done;
}

static bool is_clean(const struct region *region, size_t slice)
{
	return map_test(region->free, slice) && !map_test(region->dirty, slice) && !map_test(region->uncommitted, slice / CHUNK_SLICES);
}

size_t region_take_clean(char *addr, size_t n)
{
	struct region *region = region_of(addr - 1);
	size_t slice = slice_of(region, addr), got = 0;
	bool clean;
	lock_take(&region->lock);
	size_t limit = atomic_load_explicit(&region->limit, memory_order_relaxed);
	while (got < n && slice + got < limit && is_clean(region, slice + got))
		got++;
	if (got > 0 && !take_slices(region, slice, got, &clean))
		got = 0;
	lock_release(&region->lock);
	return got;
}

/* --- huge pages ----------------------------------------------------------------------------------------------------------------- */

static bool is_huge(const struct region *region, size_t unit)
{
	return atomic_load_explicit(&region->huge[unit / 64], memory_order_relaxed) >> (unit % 64) & 1;
}

static uint64_t huge_in_word(const struct region *region, size_t word)
{
	return (uint64_t)__builtin_popcountll(atomic_load_explicit(&region->huge[word], memory_order_relaxed));
}

static void set_huge(struct region *region, size_t unit, bool yes)
{
	uint64_t bit = UINT64_C(1) << (unit % 64);
	if (yes)
		atomic_fetch_or_explicit(&region->huge[unit / 64], bit, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&region->huge[unit / 64], ~bit, memory_order_relaxed);
}

/* For the 2 MiB that lie wholly in the range. */
static void set_huge_inside(const char *addr, size_t len, bool yes)
{
	struct region *region = region_of(addr);
	size_t offset = (size_t)(addr - region->base);
	lock_take(&region->lock);
	for (size_t unit = align_up(offset, 2 * MIB) / (2 * MIB); unit < (offset + len) / (2 * MIB); unit++)
		set_huge(region, unit, yes);
	lock_release(&region->lock);
}

void region_mark_huge(const char *addr, size_t len)
{
	set_huge_inside(addr, len, true);
}

void region_note_returned(const char *addr, size_t len)
{
	set_huge_inside(addr, len, false);
}

bool region_may_be_huge(const char *addr, size_t len)
{
	const struct region *region = region_of(addr);
	size_t offset = (size_t)(addr - region->base);
	for (size_t unit = offset / (2 * MIB); unit <= (offset + len - 1) / (2 * MIB); unit++) {
		if (is_huge(region, unit))
			return true;
	}
	return false;
}

/* Of the 2 MiB that the slices are part of: where all is free and clean nothing is resident. */
static void forget_huge(struct region *region, size_t slice, size_t n)
{
	for (size_t unit = slice / HUGE_SLICES; unit <= (slice + n - 1) / HUGE_SLICES; unit++) {
		size_t first = unit * HUGE_SLICES;
		if (is_huge(region, unit) && slices_are_free(region, first, HUGE_SLICES) && map_count(region->dirty, first, HUGE_SLICES) == 0)
			set_huge(region, unit, false);
	}
}

/* Free again; the caller holds the lock. */
static void put_slices(struct region *region, size_t slice, size_t n, bool clean, bool young)
{
	map_set(region->free, slice, n, true);
	map_set(region->dirty, slice, n, !clean);
	map_set(region->young, slice, n, young && !clean);
	region->dirty_slices += clean ? 0 : n;
	region->first = min_size(region->first, slice / CHUNK_SLICES);
	if (clean)
		forget_huge(region, slice, n);
}

void region_free_past(char *addr, size_t n, bool clean, struct slice_past past)
{
	struct region *region = region_of(addr);
	size_t slice = slice_of(region, addr);
	for (size_t i = 0; i < n; i++)
		region->past[slice + i] = past;
	lock_take(&region->lock);
	put_slices(region, slice, n, clean, true);
	lock_release(&region->lock);
}

void region_free(char *addr, size_t n, bool clean)
{
	region_free_past(addr, n, clean, (struct slice_past){0});
}

struct slice_past region_past(const char *addr)
{
	struct region *region = region_of(addr);
	return region->past[slice_of(region, addr)];
}

bool region_mark_freed(const void *addr)
{
	struct region *region = region_of(addr);
	size_t slice = slice_of(region, addr);
	_Atomic uint64_t *word = &region->freed[slice / 64];
	uint64_t bit = UINT64_C(1) << (slice % 64);
	/* A look first, so that a busy page costs no locked write. seq_cst, with the free that set the block's bit before (page_free_block)
	 * and with the sweep, which clears this bit and then reads the page: one of the two sees the other. */
	if (atomic_load_explicit(word, memory_order_seq_cst) & bit)
		return false;
	return !(atomic_fetch_or_explicit(word, bit, memory_order_seq_cst) & bit);
}

/* --- purging -------------------------------------------------------------------------------------------------------------------- */

static bool same_past(struct slice_past a, struct slice_past b)
{
	return a.key == b.key && a.ms == b.ms;
}

/* Free dirty slices in one word of the maps. */
static uint64_t purgeable(const struct region *region, size_t word, bool force)
{
	return region->free[word] & region->dirty[word] & (force ? ~UINT64_C(0) : ~region->young[word]);
}

size_t region_purge_find(struct region *region, size_t from, bool force, size_t *ret_n, struct slice_past *ret_past)
{
	lock_take(&region->lock);
	size_t limit = atomic_load_explicit(&region->limit, memory_order_relaxed);
	size_t found = SIZE_MAX, n = 0;
	for (size_t i = from; i < limit && region->dirty_slices > 0;) {
		uint64_t word = purgeable(region, i / 64, force) >> (i % 64);
		bool goes_on = word & 1 && (found == SIZE_MAX || same_past(region->past[i], region->past[found]));
		if (goes_on) {
			found = min_size(found, i++);
			n++;
		} else if (found != SIZE_MAX) {
			break;
		} else {
			i = word != 0 ? i + bit_lowest(word) : (i / 64 + 1) * 64;
		}
	}
	if (found != SIZE_MAX)
		*ret_past = region->past[found];
	lock_release(&region->lock);
	*ret_n = n;
	return found;
}

size_t region_purge_take(struct region *region, size_t from, bool force, size_t max, size_t *ret_n)
{
	lock_take(&region->lock);
	size_t limit = atomic_load_explicit(&region->limit, memory_order_relaxed);
	size_t found = SIZE_MAX, n = 0;
	for (size_t i = from; i < limit && region->dirty_slices > 0 && n < max;) {
		uint64_t word = purgeable(region, i / 64, force);
		if (word >> (i % 64) & 1) {
			if (found == SIZE_MAX)
				found = i;
			n++;
			i++;
			continue;
		}
		if (found != SIZE_MAX)
			break;
		i = word >> (i % 64) != 0 ? i + bit_lowest(word >> (i % 64)) : (i / 64 + 1) * 64;
	}
	if (found != SIZE_MAX) {
		map_set(region->free, found, n, false);
		map_set(region->dirty, found, n, false);
		region->dirty_slices -= n;
	}
	lock_release(&region->lock);
	*ret_n = n;
	return found;
}

void region_purge_give(struct region *region, size_t slice, size_t n, bool ok)
{
	lock_take(&region->lock);
	put_slices(region, slice, n, ok, false);
	lock_release(&region->lock);
}

size_t region_purge_age(struct region *region)
{
	lock_take(&region->lock);
	size_t dirty = region->dirty_slices;
	size_t words = align_up(atomic_load_explicit(&region->limit, memory_order_relaxed), 64) / 64;
	for (size_t i = 0; dirty > 0 && i < words; i++) {
		if (region->young[i] != 0)
			region->young[i] = 0;
	}
	lock_release(&region->lock);
	return dirty;
}

size_t region_dirty(struct region *region)
{
	lock_take(&region->lock);
	size_t dirty = region->dirty_slices;
	lock_release(&region->lock);
	return dirty;
}

static bool is_idle_chunk(const struct region *region, size_t c)
{
	bool inside = (c + 1) * CHUNK_SLICES <= atomic_load_explicit(&region->limit, memory_order_relaxed);
	return inside && region->free[c] == ~UINT64_C(0) && region->dirty[c] == 0;
}

static bool may_trim(const struct region *region, size_t c)
{
	return map_test(region->recorded, c) && is_idle_chunk(region, c);
}

/* Hold the first run of chunks at or after *C, which moves there, whose records may go. Returns how many; 0: there is none. */
static size_t hold_recorded(struct region *region, size_t *c)
{
	size_t n = 0;
	lock_take(&region->lock);
	size_t chunks = atomic_load_explicit(&region->limit, memory_order_relaxed) / CHUNK_SLICES;
	while (*c < chunks && !may_trim(region, *c))
		++*c;
	for (; *c + n < chunks && may_trim(region, *c + n); n++)
		region->free[*c + n] = 0;
	lock_release(&region->lock);
	return n;
}

void region_trim(struct region *region)
{
	for (size_t c = 0, n; (n = hold_recorded(region, &c)) > 0; c += n) {
		/* refused: they stay as they are, which is as good */
		map_drop(region->records + c * CHUNK_SLICES * RECORD_SIZE, n * CHUNK_SLICES * RECORD_SIZE);
		lock_take(&region->lock);
		put_slices(region, c * CHUNK_SLICES, n * CHUNK_SLICES, true, false);
		map_set(region->recorded, c, n, false);
		lock_release(&region->lock);
	}
}

static bool hold_idle_chunk(struct region *region, size_t c)
{
	lock_take(&region->lock);
	bool idle = is_idle_chunk(region, c) && !map_test(region->uncommitted, c);
	if (idle)
		region->free[c] = 0;
	lock_release(&region->lock);
	return idle;
}

void region_uncommit(struct region *region)
{
	size_t chunks = atomic_load_explicit(&region->limit, memory_order_acquire) / CHUNK_SLICES;
	for (size_t c = 0; c < chunks; c++) {
		if (!hold_idle_chunk(region, c))
			continue;
		char *chunk = slice_addr(region, c * CHUNK_SLICES);
		bool gone = map_decommit(chunk, CHUNK_SLICES * SLICE_SIZE);
		if (gone)
			map_no_huge_pages(chunk, CHUNK_SLICES * SLICE_SIZE); /* it is a new mapping */
		lock_take(&region->lock);
		put_slices(region, c * CHUNK_SLICES, CHUNK_SLICES, true, false);
		map_set(region->uncommitted, c, 1, gone);
		lock_release(&region->lock);
	}
}

/* --- numbers, fork -------------------------------------------------------------------------------------------------------------- */

struct region_counts region_counts(void)
{
	struct region_counts counts = {0};
	for (size_t i = 0; i < region_n(); i++) {
		struct region *region = &table.region[i];
		lock_take(&region->lock);
		size_t limit = atomic_load_explicit(&region->limit, memory_order_relaxed);
		size_t gone = map_count(region->uncommitted, 0, limit / CHUNK_SLICES) * CHUNK_SLICES;
		counts.reserved_bytes += region->slices * SLICE_SIZE;
		counts.committed_bytes += (limit - gone) * SLICE_SIZE;
		counts.taken_bytes += (limit - map_count(region->free, 0, limit)) * SLICE_SIZE;
		counts.dirty_bytes += region->dirty_slices * SLICE_SIZE;
		for (size_t unit = 0; unit < align_up(limit, HUGE_SLICES * 64) / HUGE_SLICES; unit += 64)
			counts.huge_bytes += huge_in_word(region, unit / 64) * 2 * MIB;
		lock_release(&region->lock);
	}
	return counts;
}

void region_fork_prepare(void)
{
	lock_take(&table.lock);
	for (size_t i = 0; i < region_n(); i++)
		lock_take(&table.region[i].lock);
}

void region_fork_done(bool child)
{
	for (size_t i = region_n(); i-- > 0;)
		lock_fork_done(&table.region[i].lock, child);
	lock_fork_done(&table.lock, child);
}
