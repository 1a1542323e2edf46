/* SPDX-License-Identifier: MIT */
/*
 * What came back, and how soon: for each heap and size class, how long ago the memory that was last wanted again had been in use when it
 * was returned in vain (a ghost hit). Facts left here by those who allocate, for the policy to read.
 *
 * The table is hashed: heaps that share an entry share what was learned. Any thread; all relaxed: each entry stands for itself.
 */
#ifndef LULL_PAGE_REUSE_H
#define LULL_PAGE_REUSE_H

#include "base/base.h"

#include <stdatomic.h>

/* The break-even time: at the prices of common clouds (one processor hour costs as much as 8 GiB hours) and half a microsecond a fault,
 * holding an OS page for one second costs as much as taking it back once. Memory that comes back later is not worth holding. */
#define REUSE_MAX_MS 1000

#define REUSE_KEYS 8192

/* number: of the heap; size_class: medium and large ones, one more for singletons and one for all small pages. Never 0, which stands for
 * memory of which nothing is learned. */
static inline uint32_t reuse_key(uint32_t number, unsigned size_class)
{
	return 1 + (number * 64 + size_class) % (REUSE_KEYS - 1);
}

/* Beside a key: slices that were brought in for what the key stands for, and are not used yet. */
#define REUSE_AHEAD (UINT32_C(1) << 31)

/* Memory of KEY that was last in use AGO_MS ago and returned since is wanted again, BYTES of it. */
void reuse_note(uint32_t key, uint32_t ago_ms, size_t bytes) hidden;
/* Milliseconds, 1 .. REUSE_MAX_MS; 0: nothing came back in time. */
unsigned reuse_ms(uint32_t key) hidden;
/* It was held for as long as that says, in vain. */
void reuse_forget(uint32_t key) hidden;
/* Memory of KEY was allocated from at this time by its heap's clock: what is older is not all there is of it. */
void reuse_touch(uint32_t key, uint16_t epoch) hidden;
uint16_t reuse_touched(uint32_t key) hidden;

struct reuse_counts {
	uint64_t ghost_hits, ghost_bytes; /* ever */
};
struct reuse_counts reuse_counts(void) hidden;

#endif
