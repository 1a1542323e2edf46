/* SPDX-License-Identifier: MIT */
/*
 * A page: a run of slices that holds blocks of one size class, and its record.
 *
 * Small pages (one slice, blocks up to 8 KiB) keep a list of free blocks that only the holder of the heap touches; other threads push
 * onto `remote`. The list is threaded through the blocks: a link is the 16-bit offset of the next block, encoded with the page's secret,
 * so that a program's stray write decodes to something out of range, which the one compare on malloc's path already tests.
 *
 * Medium pages (512 KiB, blocks to 64 KiB) and large pages (4 MiB, to 512 KiB) keep their free blocks as bits of one word. Clearing a
 * bit with a compare-and-swap takes the block, whoever does it: a thread that wants memory, or a sweep that wants to return it.
 *
 * A singleton holds one block of any size.
 *
 * Conservation (page_check): used - pinned + listed + away + unformed = capacity for small pages, where a block is away when it overlaps
 * an OS page in `away`; no listed block overlaps one.
 *
 * A page is described by the record of its first slice; those of its other slices are not touched. Medium and large pages start at
 * multiples of their own size, so any address in them leads there. Records are never unmapped, and zero while nothing lives there for long;
 * their kind is only ever changed by who holds every block of the page.
 */
#ifndef LULL_PAGE_PAGE_H
#define LULL_PAGE_PAGE_H

#include "base/base.h"
#include "kernel/move.h"
#include "page/sizeclass.h"
#include "region/region.h"

#include <stdatomic.h>

struct heap;

enum page_kind { PAGE_NONE = 0, PAGE_SMALL, PAGE_MEDIUM, PAGE_LARGE, PAGE_SINGLE, PAGE_DYING };

/* In `collects`: a sweep decided that the page may stay; whose, the other bits say. */
#define PAGE_KEPT 0x8000

#define SMALL_SLICES 1u
#define MEDIUM_SLICES 8u
#define LARGE_SLICES 64u
#define SMALL_UNITS (SLICE_SIZE / OS_PAGE_SIZE)

/* In `away` of a singleton: its contents were moved off, all of it reads as zero; contents were moved to it, it is a mapping apart. */
#define PAGE_SINGLE_EMPTY 1
#define PAGE_SINGLE_MOVED 2

/* The offset that ends a small page's list: the first value that is no offset into a slice. */
#define OFFSET_END SLICE_SIZE

/* Where a small page of a heap is. */
enum page_place { PLACE_FULL = 0, PLACE_QUEUE, PLACE_CURRENT };

struct page {
	/* First line: the fast paths. Holder of the heap only, but `tag`, which any thread compares. */
	struct heap *_Atomic tag; /* the heap whose thread may free into this page without ado; NULL: take the slow path. Set exactly while
	                           * the page is on its heap's list of changed pages. Relaxed: equals a reader's heap only if that wrote it */
	union {
		uint64_t free;    /* small: encoded offset of the first listed block (offset ^ secret) */
		uint64_t bytes;   /* singleton: bytes usable, a multiple of the OS page size */
	};
	union {
		uint64_t secret;           /* small: random, constant while the page lives */
		_Atomic uint64_t returned; /* medium, large: of the away blocks, those that were resident once (statistics) */
	};
	union {
		uint64_t key;              /* small: start ^ secret, so that address ^ key is an encoded offset */
		_Atomic uint64_t brought;  /* medium, large: blocks whose memory was brought in since it was last away. Holder of the block */
		size_t brought_bytes;      /* singleton: this much was, from the start on */
	};
	char *start;                 /* first block, which is the page's first byte. Constant while the page lives */
	union {
		uint32_t used;       /* small: blocks handed out, remotely freed ones included, plus 1 while the page is current */
		uint32_t dirty_end;  /* medium, large: the page's bytes while those past the last block may be resident, else 0. The sweep that
		                      * holds the last block */
	};
	uint32_t block_bytes;        /* constant while the page lives; 0 for singletons */
	uint16_t capacity;           /* blocks the page has room for. Constant */
	union {
		uint16_t formed;     /* small: blocks that exist so far */
		uint16_t collects;   /* large, seed policy: see reclaim/seed.h. Reclaim lock */
		uint16_t fresh;      /* singleton: what is resident of it came so while it was this block. Holder of the block */
	};
	uint16_t away;               /* small: OS pages that are away or in flight. Singleton: PAGE_SINGLE_ bits; its holder */
	uint8_t size_class;          /* constant */
	_Atomic uint8_t kind;        /* enum page_kind. release on creation pairs with the acquire of page_of's callers in other threads */
	/* small; holder of the heap */
	uint16_t dirty_tail : 1;     /* OS pages past the formed blocks may be resident */
	uint16_t quiet : 15;         /* what the page looked like at the last slow-path look (reclaim/sweep.c) */
	_Atomic uint8_t place;       /* enum page_place; for medium and large pages FULL also while on the stack. Holder of the heap writes;
	                              * relaxed: others take it for a hint */
	_Atomic uint8_t nowhere;     /* medium, large: 1 while full and on no list. 0 otherwise and for all other records, live or not */
	union {
		_Atomic uint32_t flight; /* small: low 16 bits: OS pages handed to the kernel, unanswered; high 16: refused. Sweep sets, its
		                          * completion clears with release; the holder reads with acquire before it reuses them */
		_Atomic uint16_t stamp;  /* medium, large: low bits of the epoch of the last allocation. Relaxed: one allocation behind is
		                          * fine. Read by sweeps that do not hold the page: what shares its place is atomic, too */
	};
	/* Second line: any thread. */
	_Atomic uint64_t word;       /* medium, large: bit set = block free. 0 for every other kind */
	union {
		_Atomic uint64_t remote; /* small: blocks other threads freed: count << 32 | offset + 1 of the first, 0 = none */
		_Atomic uint64_t past;   /* others: key under which it is known how soon this memory comes back (page/reuse.h) << 32 | when those
		                          * of its blocks that are away were in use last (page_now_ms). Of a new page: what its slices were
		                          * before, if they were returned. Seed policy: 1 << 32 when its own heap's thread freed into it last.
		                          * Relaxed: off is off */
	};
	union {
		_Atomic uint64_t away_blocks;      /* medium, large: whole OS pages of the block read as zero. Written by the block's holder */
		struct page *_Atomic remote_next;  /* small: next page with remote frees on its heap's stack */
	};
	struct heap *_Atomic owner;  /* heap the page belongs to; changes only while that heap is held by the one who changes it */
	struct page *next, *prev;    /* the queue of its class. Holder of the heap */
	union {
		struct page *changed_next;        /* small: list of changed pages. Holder of the heap */
		struct page *_Atomic listed_next; /* medium, large: stack of pages that got free blocks again */
	};
	struct page *changed_prev;
};

_Static_assert(sizeof(struct page) == RECORD_SIZE, "a record is two cache lines");
_Static_assert(offsetof(struct page, word) == 64, "other threads touch the second line only");

static inline enum page_place page_place(const struct page *page)
{
	return atomic_load_explicit(&page->place, memory_order_relaxed);
}

static inline void page_set_place(struct page *page, enum page_place place)
{
	atomic_store_explicit(&page->place, (uint8_t)place, memory_order_relaxed);
}

/* What malloc finds before there is a page: an empty list, never written. */
extern struct page page_empty hidden;

/* The head record of the page ADDR points into, or NULL when ADDR is not inside a live page. Valid for any value. */
struct page *page_of(const void *addr) hidden;

/* True when ADDR is somewhere inside a live singleton. Slow: for the message of a process about to end. */
bool page_is_inside_single(const void *addr) hidden;

/* True when ADDR is where a block of PAGE begins. Any thread. */
bool page_is_block(const struct page *page, const void *addr) hidden;

/*
 * Create a page on fresh slices. heap: its owner. secret: random.
 * Returns NULL when there is no memory. The new page has no formed blocks (small) or all blocks free (medium, large).
 */
struct page *page_create(struct heap *heap, unsigned size_class, uint64_t secret) hidden;
/* bytes: usable size wanted, > 0; align: bytes, a power of two. ret_clean: reads as zero. */
struct page *page_create_single(size_t bytes, size_t align, bool *ret_clean) hidden;
/* Bring in a small page of fresh slices and, for pages to come, fresh ones right behind it: N slices in all, at most. These are free
 * slices, resident from now on, and go back like others if nobody takes them. reuse_key: whom they are for. Returns how many came in.
 * Holder. */
size_t page_bring_in_ahead(struct page *page, size_t n, uint32_t reuse_key) hidden;
/* Give a page's slices back. The caller holds every block: small: used == 0; medium, large: it took all bits; singleton: it made the kind
 * PAGE_DYING. On no list any more. */
void page_destroy(struct page *page) hidden;
/* The same for a small page, whose record has no room for the key. */
void page_destroy_small(struct page *page, uint32_t reuse_key) hidden;
/* Singletons: slices they hold; change the usable size in place to BYTES (> 0). False: the slices behind are taken. */
size_t page_single_slices(const struct page *page) hidden;
bool page_single_resize(struct page *page, size_t bytes, bool *ret_clean) hidden;
/* Bring in what lies between the first FROM and the first TO bytes of a singleton. huge: in huge pages, as far as they fit in between. */
void page_single_bring_in(struct page *page, size_t from, size_t to, bool huge) hidden;
/* Move what FROM holds to TO, a new singleton, as much as fits: then FROM is only good to be destroyed. The caller holds both. */
enum move_result page_single_move(struct page *to, struct page *from) hidden;

/* --- small pages; holder of the heap only ------------------------------------------------------------------------------------ */

static inline uint64_t page_first(const struct page *page)
{
	return page->free ^ page->secret; /* offset of the first listed block, OFFSET_END for none, anything else is damage */
}

static inline bool page_has_listed(const struct page *page)
{
	return page_first(page) < OFFSET_END;
}

static inline void page_push(struct page *page, void *block)
{
	*(uint64_t *)block = page->free;
	page->free = (uint64_t)(uintptr_t)block ^ page->key;
}

/* The page has a listed block. */
static inline void *page_pop(struct page *page)
{
	char *block = page->start + page_first(page);
	page->free = *(uint64_t *)block;
	page->used++;
	return block;
}

/* Offset of the block listed after the one at OFFSET; aborts on a damaged link. */
uint64_t page_next(const struct page *page, uint64_t offset) hidden;

/* Blocks of the page that are on no list because they overlap an OS page that is away. */
bool page_is_away(const struct page *page, unsigned block) hidden;
/* A bit for each OS page that a block overlaps. */
uint32_t page_block_units(const struct page *page, unsigned block) hidden;

/* Make blocks available without taking a new page: the lowest run of away OS pages that is not in flight, else up to one OS page of
 * unformed blocks. False: nothing left. */
bool page_extend(struct page *page) hidden;
/* Nothing listed, nothing away, nothing unformed. */
bool page_is_exhausted(const struct page *page) hidden;

/* Move what other threads freed onto the list. Returns how many blocks. */
unsigned page_take_remote(struct page *page) hidden;

/* Any thread: leave BLOCK for the page's holder. True when it is the first since the holder last looked: tell the owner heap. */
bool page_push_remote(struct page *page, void *block) hidden;

/* Blocks on the list, counted; aborts on damage, and when a block stands on it twice. */
unsigned page_listed(const struct page *page) hidden;

/* --- medium and large pages; any thread --------------------------------------------------------------------------------------- */

static inline uint64_t page_full_word(const struct page *page)
{
	return bits_low(page->capacity);
}

/* Take the lowest free block, a resident one if there is one. NULL: none free. ret_clean: its whole OS pages read as zero. */
void *page_take_block(struct page *page, bool *ret_clean) hidden;

enum page_freed { PAGE_FREED, PAGE_FREED_FIRST, PAGE_FREED_LAST };
/* Give one block back. Aborts when it is free already. FIRST: no block was free before; LAST: now all are. */
enum page_freed page_free_block(struct page *page, void *block) hidden;

/* Bring in BYTES at the start of BLOCK, which the caller holds and which was clean; only OS pages they lie in. */
void page_bring_in(struct page *page, void *block, size_t bytes) hidden;
/* See how far one of BLOCKS, which the caller holds, is written, and learn it for KEY. */
void page_look_at(const struct page *page, uint64_t blocks, uint32_t key) hidden;

/* Take every block of a wholly free page. False: some are in use or in flight. */
bool page_take_all(struct page *page) hidden;

/* The parts of a clean block that may still hold old bytes: OS pages it shares with a neighbour. Clears them. */
void page_clear_edges(const struct page *page, void *block) hidden;

/* Debug builds: the invariants above. Holder of the heap. */
void page_check(const struct page *page) hidden;

/* CLOCK_MONOTONIC in milliseconds, low bits. */
uint32_t page_now_ms(void) hidden;

/* Where the page's blocks are, for those who hold none of them: it may be destroyed and another one be made meanwhile, so the answer can be
 * a mix of two, good for a look and no more. */
struct page_shape {
	char *start;
	uint32_t block_bytes;
};
static inline struct page_shape page_shape(const struct page *page)
{
	/* relaxed, as they are written by page_create */
	return (struct page_shape){
		.start = __atomic_load_n(&page->start, __ATOMIC_RELAXED),
		.block_bytes = __atomic_load_n(&page->block_bytes, __ATOMIC_RELAXED),
	};
}

/* Medium and large pages, singletons; see struct page. */
static inline uint32_t page_reuse_key(const struct page *page)
{
	return (uint32_t)(atomic_load_explicit(&page->past, memory_order_relaxed) >> 32);
}

static inline uint32_t page_gone_ms(const struct page *page)
{
	return (uint32_t)atomic_load_explicit(&page->past, memory_order_relaxed);
}

/* All of a medium or large page's blocks. */
static inline size_t page_bytes(const struct page *page)
{
	return (size_t)page->capacity * page->block_bytes;
}

static inline void page_set_past(struct page *page, uint32_t reuse_key, uint32_t gone_ms)
{
	atomic_store_explicit(&page->past, (uint64_t)reuse_key << 32 | gone_ms, memory_order_relaxed);
}

/* away memory now, and taken back ever, bytes; relaxed counters of the process */
extern _Atomic uint64_t page_away_bytes hidden;
extern _Atomic uint64_t page_refaulted_bytes hidden;

#endif
