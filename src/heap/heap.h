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
	uint32_t small_n;                     /* small pages this heap owns */
	uintptr_t park_sp, park_self;         /* of a parked thread: its stack pointer and pthread_self; 0 for orphans */
	/* Any thread. */
	_Atomic uint32_t state;               /* enum heap_state; see above. The transitions carry acquire and release */
	_Atomic uint32_t wanted;              /* 1: the thread waits for a sweep to let go */
	_Atomic uint32_t park_seq;            /* counts parks, so that a sweep can tell a lasting park from a new one. Relaxed */
	_Atomic uint32_t orphan;              /* 1: no thread; waits for adoption */
	_Atomic uint32_t retry;               /* 1: the kernel refused holes of this heap: look at every page again */
	uint32_t park_seen;                   /* scavenger only: park_seq when last looked at */
	struct page *_Atomic remote_pages;    /* small pages with remote frees, a stack by remote_next: anyone pushes, the holder takes all */
	struct page *_Atomic listed_pages;    /* the same for medium and large pages that got free blocks, by listed_next */
	struct heap *next;                    /* all heaps. Constant */
	struct heap *orphan_next;             /* queue of orphans; guarded by its lock */
};

extern __thread struct heap *heap_tls __attribute__((tls_model("initial-exec"))) hidden;
extern struct heap heap_empty hidden;

/* Moves on each tick of the scavenger; large blocks remember it, so that memory in use right now is left alone. Relaxed: one tick off is
 * within its meaning. */
extern _Atomic uint32_t heap_epoch hidden;

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
	return atomic_load_explicit(&heap_tls->changed_n, memory_order_relaxed);
}
/* Small pages the thread's heap owns: into which others may free while it is parked. 0 while parked. */
static inline uint32_t heap_small_n(void)
{
	return heap_tls->small_n;
}

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
/* Wholly free pages go back to their region. Holder. */
void heap_retire_empty(struct heap *heap) hidden;
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
