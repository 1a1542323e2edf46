/* SPDX-License-Identifier: MIT */
/*
 * Heaps: a thread's set of pages.
 *
 * A thread reaches its heap through one initial-exec thread-local pointer. It starts, and while the thread is parked it is again, at
 * heap_empty, whose lists are empty and which owns no page: every malloc then takes the slow path, every free the cross-thread one.
 *
 * A heap is held by one party at a time: its thread (RUNNING, and PARKING: about to promise), nobody (PARKED: a thread that promised not
 * to allocate, or an orphan whose thread ended), or a sweep (SWEEPING). Only the thread leaves RUNNING; only a sweep goes
 * PARKED -> SWEEPING -> PARKED. An orphan is taken over whole by the next thread that starts, and picked from by threads that need pages.
 *
 * Heaps are never freed: other threads may still push freed blocks at a heap whose thread is long gone.
 */
#ifndef LULL_HEAP_HEAP_H
#define LULL_HEAP_HEAP_H

#include "base/base.h"
#include "base/random.h"
#include "page/page.h"
#include "page/reuse.h"

#include <stdatomic.h>

/* Sizes up to this find their page with one load, indexed by the byte: 4 KiB of table per heap for two instructions less per malloc. */
#define DIRECT_MAX 512

enum heap_state { HEAP_RUNNING = 0, HEAP_PARKED, HEAP_SWEEPING, HEAP_PARKING };

struct page_list {
	struct page *head, *tail;
};

struct heap {
	/* Holder only. */
	struct page *by_size[DIRECT_MAX + 1]; /* page to allocate SIZE from: current[sizeclass_of(SIZE)] */
	struct page *current[SMALL_CLASSES];  /* or &page_empty */
	struct page_list queue[SMALL_CLASSES]; /* other pages with blocks to hand out, or wholly free */
	struct page *big[BIG_CLASSES];         /* medium and large: page to try first, or NULL */
	struct page_list big_queue[BIG_CLASSES];
	struct page *changed;                 /* small pages freed into since they were last swept */
	_Atomic uint32_t changed_n;           /* holder writes; relaxed hint for others */
	struct random random;                 /* page secrets */
	size_t freed_bytes;                   /* freed since the bell was last told */
	uint32_t small_n, big_n;              /* pages this heap owns: small ones, medium and large ones */
	struct {
		uint32_t n, ms;               /* retired after all of them was returned; in use last then (page_now_ms) */
	} gone[BIG_CLASSES];                  /* medium and large pages: wanted again soon, they had better been held */
	uint32_t unlooked_n;                  /* medium and large pages retired without a look at how far they were written */
	uint32_t big_changed;                 /* seed policy: weight of its large blocks that its thread freed since the last sweep, as pages */
	size_t stay_bytes;                    /* seed policy: wholly free large pages that may wait for the next sweep, bytes */
	uint32_t tick;                        /* heap_tick when its thread last had a look at its own pages, */
	uint32_t looked_ms;                   /* and the time */
	uint32_t slow_n;                      /* slow paths its thread took */
	struct {
		uint32_t since_ms;            /* page_now_ms */
		uint32_t n, before_n;         /* small pages made since then, and in as long a time before */
	} grown;
	uint32_t number;                      /* constant; counts heaps from 1 */
	uintptr_t park_sp, park_self;         /* of a parked thread: its stack pointer and pthread_self; 0 for orphans */
	/* Any thread. */
	_Atomic uint32_t state;               /* enum heap_state; see above. The transitions carry acquire and release */
	_Atomic uint32_t wanted;              /* 1: the thread waits for a sweep to let go */
	_Atomic uint32_t park_seq;            /* counts parks, so that a sweep can tell a lasting park from a new one. Relaxed */
	_Atomic uint32_t orphan;              /* 1: no thread; waits for adoption */
	_Atomic uint32_t emptied;             /* 1: a sweep returned all of a wholly free medium or large page, which can be retired. Relaxed */
	_Atomic uint32_t retry;               /* 1: the kernel refused holes of this heap: look at every page again */
	_Atomic uint32_t asked;               /* 1: the thread that parked it asks for a sweep at once. Relaxed; the park publishes it */
	_Atomic uint32_t scheduled;           /* seed policy, 1: the scavenger comes by itself, parks need not wake it. seq_cst: the thread
	                                       * publishes its park, then reads this; the scavenger clears this, then looks at the park */
	_Atomic uint32_t epoch;               /* its own clock: moves when its pages are looked at. Reclaim moves it; relaxed: one step behind
	                                       * is within its meaning */
	_Atomic uint8_t held;                 /* enum heap_held: what the last sweep of it left. Sweep writes; relaxed: a hint */
	/* Guarded by the reclaim lock. */
	uint64_t epoch_ns;                    /* when `epoch` moved last */
	size_t floor_bytes;                   /* seed policy: its share of the floor, */
	uint32_t floor_epoch;                 /* decided on then */
	uint32_t sweeps;                      /* of this heap, ever. Its holder */
	uint32_t park_seen;                   /* park_seq when last looked at */
	struct heap_look {                    /* seed policy: what the scavenger knows of its parks (reclaim/parks.h) */
		uint32_t park_seq;            /* the park last looked at */
		uint32_t state;
		uint64_t due_ns;              /* when it is looked at next */
		uint64_t swept_ns;            /* end of its last sweep, in whatever park; 0: none yet */
		uint32_t first_epoch;         /* of this park's first sweep */
		uint32_t sweeps;              /* of this park */
	} look;
	struct page *_Atomic remote_pages;    /* small pages with remote frees, a stack by remote_next: anyone pushes, the holder takes all */
	struct page *_Atomic listed_pages;    /* the same for medium and large pages that got free blocks, by listed_next */
	struct heap *next;                    /* all heaps. Constant */
	struct heap *orphan_next;             /* queue of orphans; guarded by its lock */
};

extern __thread struct heap *heap_tls __attribute__((tls_model("initial-exec"))) hidden;
extern struct heap heap_empty hidden;

/* The clock by which a heap's pages age: its own, or, under the seed policy, the process's. */
extern _Atomic uint32_t heap_process_epoch hidden;
extern bool heap_one_clock hidden; /* set at start */
static inline uint32_t heap_epoch(const struct heap *heap)
{
	return atomic_load_explicit(heap_one_clock ? &heap_process_epoch : &heap->epoch, memory_order_relaxed);
}

/* Moves with each pass of the scavenger; slow paths compare, so that a thread that never blocks has a look at its own pages now and then.
 * Relaxed. */
extern _Atomic uint32_t heap_tick hidden;

/* What a sweep left because it is young or under the floor. */
enum heap_held {
	HEAP_HELD_ANY = 1, /* in any page it passed */
	HEAP_HELD_OWN = 2, /* in a page of the heap that was swept */
};

/* Blocks the seed system holds back: those over its largest medium size. */
#define HEAP_SEED_LARGE_MIN 86699

/* Under which it is known of a medium or large page's blocks how soon they come back and how far they are written. */
static inline uint32_t heap_block_key(const struct heap *heap, const struct page *page)
{
	return reuse_key(heap->number, page->size_class - SMALL_CLASSES);
}

/* --- allocation: no errno, no retry; NULL when there is no memory ----------------------------------------------------------------- */

void *heap_alloc_slow(size_t size) hidden;                  /* any size; NULL above PTRDIFF_MAX */
void *heap_alloc_zero(size_t size) hidden;                  /* zeroed; memory known to be zero is not written */
void *heap_alloc_aligned(size_t size, size_t align) hidden; /* align: a power of two */
void heap_free_slow(void *p) hidden;                        /* any pointer; NULL is fine; aborts on misuse */
/* A small page of the calling thread had its `used` drop to zero or below. */
void heap_page_emptied(struct page *page) hidden;
/* Usable bytes of a live block; 0 for NULL; aborts on a pointer that is no block. */
size_t heap_usable(const void *p) hidden;
/* What to do with a pointer that is not lull's: free it (ret_usable NULL) or tell its usable bytes. False: it is nobody's, a misuse. NULL
 * here: always a misuse. Set at start, for processes in which a sanitizer's runtime serves some of the calls that allocate. */
extern bool (*heap_on_foreign)(void *p, size_t *ret_usable) hidden;
/* Resize in place if that is possible and sensible. */
bool heap_resize_in_place(void *p, size_t size) hidden;
/* A block that is to hold what another one does: heap_alloc_slow, but nothing of it is brought in yet. If it is to be copied after all:
 * bring in its first BYTES. */
void *heap_alloc_to_fill(size_t size) hidden;
void heap_bring_in(void *p, size_t bytes) hidden;
/* Make the new block TO hold what FROM holds, without copying: for two of over 512 KiB. DONE: FROM is only good to be freed. LOST: TO is
 * nobody's any more. */
enum move_result heap_move(void *to, void *from) hidden;

/* --- the thread's heap -------------------------------------------------------------------------------------------------------------- */

/* Called once for each thread that gets a heap, so that the api layer can arrange for heap_thread_end at its exit. Set at start. */
extern void (*heap_on_attach)(void) hidden;
/* The calling thread ends: its heap is an orphan from now on. Later calls of this thread work on a borrowed heap. */
void heap_thread_end(void) hidden;

/* Promise not to allocate or free until heap_unpark. False, and nothing to undo: the thread has no heap, or is parked already. */
bool heap_park(void) hidden;
void heap_unpark(void) hidden;
/* Pages freed into since the last sweep: what a park would offer. 0 while parked. */
static inline uint32_t heap_changed_n(void)
{
	const struct heap *heap = heap_tls;
	return atomic_load_explicit(&heap->changed_n, memory_order_relaxed) + heap->big_changed;
}
/* Small pages the thread's heap owns, into which others may free while it is parked; a medium or large one, which may become empty, counts
 * for HEAP_BIG_WEIGHT. 0 while parked. */
#define HEAP_BIG_WEIGHT 16
static inline uint32_t heap_pages_n(void)
{
	const struct heap *heap = heap_tls;
	return heap->small_n + heap->big_n * HEAP_BIG_WEIGHT;
}

/* The scavenger comes for the calling thread's parked heap by itself. After heap_park, in its order: see `scheduled`. */
bool heap_is_scheduled(void) hidden;

/* Bytes of the free blocks in the heap's changed pages, at most MAX_PAGES of them: what a sweep could return at best. Holder. */
size_t heap_changed_bytes(const struct heap *heap, unsigned max_pages) hidden;

/* --- for sweeps --------------------------------------------------------------------------------------------------------------------- */

struct heap *heap_first(void) hidden; /* all heaps, by ->next */
/* Asked of a parked thread's stack by the sweep that has just claimed its heap: may the heap be in the middle of a call, because a signal
 * handler that interrupted malloc blocks? NULL: never. Set at start. */
extern bool (*heap_is_torn)(uintptr_t sp, uintptr_t self) hidden;
/* Take a parked heap, or give it back. False: it is not parked, or torn. */
bool heap_claim(struct heap *heap) hidden;
void heap_unclaim(struct heap *heap) hidden;
/* The heap the calling thread runs on, attached or taken out of its park if need be, or NULL: no memory, or the thread has ended its
 * own. */
struct heap *heap_mine(void) hidden;
/* Free BITS of a medium or large page that a sweep held. Any thread. */
void heap_put_blocks(struct page *page, uint64_t bits) hidden;
/* Fold in what other threads left: remote frees, pages with free blocks. Holder. */
void heap_take_remote(struct heap *heap) hidden;
/* Wholly free pages go back to their region. Holder. heap_retire_small: all but large ones; heap_retire_away: small ones, and of the others
 * those with nothing resident left. */
void heap_retire_empty(struct heap *heap) hidden;
void heap_retire_small(struct heap *heap) hidden;
void heap_retire_away(struct heap *heap) hidden;
/* This large page, if it is wholly free. Holder. */
bool heap_retire_page(struct heap *heap, struct page *page) hidden;
/* Wholly free large pages that no sweep has decided on, at a collect that is not forced: gone after a few. Seed policy; holder. */
void heap_retire_waiting(struct heap *heap) hidden;
/* Call FN for each medium and large page in the lists of HEAP that has a free block. FN may retire the page. Holder. */
void heap_each_big(struct heap *heap, void (*fn)(struct heap *heap, struct page *page, void *arg), void *arg) hidden;
/* The page is as it was last swept: its next free takes the slow path and says so. Holder. */
void heap_settle(struct heap *heap, struct page *page) hidden;
/* Put every page that may hold blocks on the changed list again. Holder. */
void heap_touch_all(struct heap *heap) hidden;

struct heap_counts {
	uint64_t heaps, orphans; /* now */
	uint64_t attached;       /* threads that got a heap, ever */
	uint64_t threads;        /* threads that have one now */
};
struct heap_counts heap_counts(void) hidden;

/* fork: the child keeps the calling thread's heap and the orphans; heaps of threads that are not there any more stay as they are. */
void heap_fork_prepare(void) hidden;
void heap_fork_done(bool child) hidden;

void heap_check(struct heap *heap) hidden; /* debug builds */

#endif
