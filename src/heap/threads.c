/* SPDX-License-Identifier: MIT */
/*
 * Heaps and threads: attaching, parking, ending, taking over, fork.
 *
 * Threads wait for a sweep only as long as one page's walk takes: sweeps look at `wanted` between pages. Orphans wait in a queue; a
 * heap on it is PARKED, or SWEEPING for a moment.
 */
#include "heap/heap.h"
#include "heap/internal.h"

#include "kernel/kernel.h"
#include "kernel/lock.h"
#include "region/meta.h"

#include <pthread.h>

/* Orphans looked at when a thread needs a page. */
#define ORPHAN_LOOK 4
/* Spins before a thread sleeps for its heap: a page's walk takes about as long as a sleep and a wake. */
#define WANT_SPINS 256

struct heap heap_empty = {
	.by_size = {[0 ... DIRECT_MAX] = &page_empty},
	.current = {[0 ... SMALL_CLASSES - 1] = &page_empty},
};

__thread struct heap *heap_tls __attribute__((tls_model("initial-exec"))) = &heap_empty;
static __thread struct heap *heap_own __attribute__((tls_model("initial-exec"))); /* this thread's heap, parked or not */
static __thread bool heap_ended __attribute__((tls_model("initial-exec")));

_Atomic uint32_t heap_process_epoch;
_Atomic uint32_t heap_tick;
bool heap_one_clock;
void (*heap_on_attach)(void);

static struct heap *_Atomic all; /* release: pairs with the acquire in heap_first; heaps are only ever added */
static _Atomic uint64_t attached_n;
static _Atomic uint64_t heaps_n;
static _Atomic uint64_t threads_n;

static struct {
	struct lock lock;
	struct heap *head, *tail;
	_Atomic size_t n; /* relaxed hint for those who may look */
} orphans;

/* --- orphans -------------------------------------------------------------------------------------------------------------------- */

static void orphan_push(struct heap *heap)
{
	lock_take(&orphans.lock);
	heap->orphan_next = NULL;
	if (orphans.head == NULL)
		orphans.head = heap;
	else
		orphans.tail->orphan_next = heap;
	orphans.tail = heap;
	atomic_fetch_add_explicit(&orphans.n, 1, memory_order_relaxed);
	lock_release(&orphans.lock);
}

static struct heap *orphan_pop(void)
{
	if (atomic_load_explicit(&orphans.n, memory_order_relaxed) == 0)
		return NULL;
	lock_take(&orphans.lock);
	struct heap *heap = orphans.head;
	if (heap != NULL) {
		orphans.head = heap->orphan_next;
		atomic_fetch_sub_explicit(&orphans.n, 1, memory_order_relaxed);
	}
	lock_release(&orphans.lock);
	return heap;
}

static struct page *give_page(struct heap *from, struct heap *to, unsigned c)
{
	struct page *page = c < SMALL_CLASSES ? small_give(from, c) : big_give(from, c);
	if (page == NULL)
		return NULL;
	if (c < SMALL_CLASSES) {
		from->small_n--;
		to->small_n++;
	} else {
		from->big_n--;
		to->big_n++;
		big_adopt(to, page);
	}
	/* release: pairs with the acquire of those who look for the heap of a page they freed into */
	atomic_store_explicit(&page->owner, to, memory_order_release);
	return page;
}

struct page *orphan_take_page(struct heap *heap, unsigned c)
{
	struct page *page = NULL;
	for (unsigned i = 0; page == NULL && i < ORPHAN_LOOK; i++) {
		struct heap *orphan = orphan_pop();
		if (orphan == NULL)
			return NULL;
		if (heap_claim(orphan)) {
			heap_take_remote(orphan);
			page = give_page(orphan, heap, c);
			heap_unclaim(orphan);
		}
		orphan_push(orphan);
	}
	return page;
}

/* --- taking and leaving a heap --------------------------------------------------------------------------------------------------- */

bool (*heap_is_torn)(uintptr_t sp, uintptr_t self);

static bool is_torn(const struct heap *heap)
{
	return heap->park_sp != 0 && heap_is_torn != NULL && heap_is_torn(heap->park_sp, heap->park_self);
}

bool heap_claim(struct heap *heap)
{
	uint32_t parked = HEAP_PARKED;
	if (atomic_load_explicit(&heap->wanted, memory_order_relaxed))
		return false;
	/* acquire: pairs with the release of whoever parked the heap or gave it back */
	if (!atomic_compare_exchange_strong_explicit(&heap->state, &parked, HEAP_SWEEPING, memory_order_acquire, memory_order_relaxed))
		return false;
	/* Its thread cannot leave the park now, so the stack above its park stays as it is. */
	if (!is_torn(heap))
		return true;
	heap_unclaim(heap);
	return false;
}

void heap_unclaim(struct heap *heap)
{
	/* seq_cst, with heap_run: it sets wanted, then looks at the state; this sets the state, then looks at wanted */
	atomic_exchange(&heap->state, HEAP_PARKED);
	if (atomic_load(&heap->wanted))
		kernel.futex_wake(&heap->state, INT32_MAX);
}

/* RUNNING already: the thread is, or once was, in the middle of parking or of leaving a park, and this is a handler that interrupted it
 * there, or the thread after a handler that jumped out of there. */
static bool try_run(struct heap *heap)
{
	uint32_t state = atomic_load_explicit(&heap->state, memory_order_relaxed);
	if (state == HEAP_RUNNING)
		return true;
	return state != HEAP_SWEEPING &&
	       atomic_compare_exchange_strong_explicit(&heap->state, &state, HEAP_RUNNING, memory_order_acquire, memory_order_relaxed);
}

/* To RUNNING for the calling thread, which alone may do this to this heap; waits for a sweep to let go. */
static void heap_run(struct heap *heap)
{
	/* A signal handler that came in between may have left the park for us. */
	for (unsigned i = 0; heap_tls != heap && !try_run(heap); i++) {
		atomic_store(&heap->wanted, 1);
		if (i >= WANT_SPINS)
			kernel.futex_wait(&heap->state, HEAP_SWEEPING, KERNEL_NO_TIMEOUT);
		else
			cpu_relax();
	}
	atomic_store_explicit(&heap->wanted, 0, memory_order_relaxed);
}

/* --- the thread's heap ----------------------------------------------------------------------------------------------------------- */

static struct heap *heap_create(void)
{
	struct heap *heap = meta_alloc(sizeof(*heap));
	if (heap == NULL)
		return NULL;
	for (size_t i = 0; i <= DIRECT_MAX; i++)
		heap->by_size[i] = &page_empty;
	for (size_t i = 0; i < SMALL_CLASSES; i++)
		heap->current[i] = &page_empty;
	random_init(&heap->random, (uintptr_t)heap);
	heap->epoch_ns = kernel.now_ns(); /* a step begins: it lasts as long as every other */
	heap->number = (uint32_t)atomic_fetch_add_explicit(&heaps_n, 1, memory_order_relaxed) + 1;
	heap->next = atomic_load_explicit(&all, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&all, &heap->next, heap, memory_order_release, memory_order_relaxed))
		;
	return heap;
}

static struct heap *attach(void)
{
	struct heap *heap = orphan_pop();
	if (heap != NULL)
		heap_run(heap);
	else
		heap = heap_create();
	if (heap == NULL)
		return NULL;
	atomic_store_explicit(&heap->orphan, 0, memory_order_relaxed);
	heap->looked_ms = 0; /* what is old to the thread that ended is not to this one */
	atomic_fetch_add_explicit(&attached_n, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&threads_n, 1, memory_order_relaxed);
	heap_tls = heap_own = heap;
	if (heap_on_attach != NULL)
		heap_on_attach();
	return heap;
}

struct heap *heap_mine(void)
{
	if (heap_tls != &heap_empty)
		return heap_tls;
	if (heap_own != NULL) {
		heap_unpark();
		return heap_own;
	}
	return heap_ended ? NULL : attach();
}

void heap_thread_end(void)
{
	struct heap *heap = heap_mine();
	heap_ended = true;
	if (heap == NULL)
		return;
	heap_take_remote(heap);
	heap_retire_empty(heap);
	heap_tls = &heap_empty;
	heap_own = NULL;
	/* acq_rel: the last to leave does so after all others */
	atomic_fetch_sub_explicit(&threads_n, 1, memory_order_acq_rel);
	orphan_return(heap);
}

struct heap *orphan_borrow(void)
{
	struct heap *heap = orphan_pop();
	if (heap != NULL)
		heap_run(heap);
	else
		heap = heap_create();
	return heap;
}

void orphan_return(struct heap *heap)
{
	atomic_store_explicit(&heap->orphan, 1, memory_order_relaxed);
	heap->park_sp = 0;
	atomic_fetch_add_explicit(&heap->park_seq, 1, memory_order_relaxed);
	atomic_store_explicit(&heap->state, HEAP_PARKED, memory_order_release);
	orphan_push(heap);
}

/* A signal handler of this thread may come in at any instruction, allocate, wait in a park of its own, and never come back. It must not
 * see the heap in use and parked at once, which is why heap_tls leaves it first, and whatever it leaves behind must be a heap that the
 * thread can run again. PARKING says that the thread was about to park: if the heap is no longer that, a handler took it back. */
bool heap_park(void)
{
	struct heap *heap = heap_tls;
	uint32_t parking = HEAP_PARKING;
	if (heap == &heap_empty)
		return false;
	atomic_store_explicit(&heap->state, HEAP_PARKING, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	heap_tls = &heap_empty;
	atomic_signal_fence(memory_order_seq_cst);
	heap->park_sp = (uintptr_t)__builtin_frame_address(0);
	heap->park_self = (uintptr_t)pthread_self();
	/* only this thread writes it now */
	uint32_t seq = atomic_load_explicit(&heap->park_seq, memory_order_relaxed);
	atomic_store_explicit(&heap->park_seq, seq + 1, memory_order_relaxed);
	/* release: everything this thread did to the heap is seen by the sweep that claims it */
	if (atomic_compare_exchange_strong_explicit(&heap->state, &parking, HEAP_PARKED, memory_order_release, memory_order_relaxed))
		return true;
	heap_tls = heap;
	return false;
}

bool heap_is_scheduled(void)
{
	return heap_own != NULL && atomic_load(&heap_own->scheduled);
}

void heap_unpark(void)
{
	struct heap *heap = heap_own;
	if (heap == NULL || heap_tls == heap)
		return;
	heap_run(heap);
	atomic_signal_fence(memory_order_seq_cst);
	heap_tls = heap;
}

/* --- for sweeps, numbers, fork ---------------------------------------------------------------------------------------------------- */

struct heap *heap_first(void)
{
	return atomic_load_explicit(&all, memory_order_acquire);
}

struct heap_counts heap_counts(void)
{
	return (struct heap_counts){
		.heaps = atomic_load_explicit(&heaps_n, memory_order_relaxed),
		.orphans = atomic_load_explicit(&orphans.n, memory_order_relaxed),
		.threads = atomic_load_explicit(&threads_n, memory_order_acquire),
		.attached = atomic_load_explicit(&attached_n, memory_order_relaxed),
	};
}

void heap_fork_prepare(void)
{
	heap_unpark();
	lock_take(&orphans.lock);
}

/* Heaps parked by threads that are not in the child are whole: they are orphans there. Those of running threads may be caught in the
 * middle of anything: nobody allocates from them again, their blocks can still be freed. */
void heap_fork_done(bool child)
{
	lock_fork_done(&orphans.lock, child);
	if (!child)
		return;
	atomic_store_explicit(&threads_n, heap_own != NULL, memory_order_relaxed);
	for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next) {
		bool parked = atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_PARKED;
		if (heap == heap_own || !parked || atomic_load_explicit(&heap->orphan, memory_order_relaxed) || is_torn(heap))
			continue;
		atomic_store_explicit(&heap->wanted, 0, memory_order_relaxed);
		orphan_return(heap);
	}
}

static void check_list(const struct heap *heap, const struct page_list *list)
{
	for (struct page *page = list->head; page != NULL; page = page->next) {
		lull_assert(page_place(page) == PLACE_QUEUE);
		lull_assert(page->next == NULL ? list->tail == page : page->next->prev == page);
		lull_assert(atomic_load_explicit(&page->owner, memory_order_relaxed) == heap);
		page_check(page);
	}
	(void)heap;
}

void heap_check(struct heap *heap)
{
	unsigned changed = 0;
	for (struct page *page = heap->changed; page != NULL; page = page->changed_next)
		changed++;
	lull_assert(changed == heap->changed_n);
	for (unsigned c = 0; c < SMALL_CLASSES; c++) {
		check_list(heap, &heap->queue[c]);
		if (heap->current[c] != &page_empty)
			page_check(heap->current[c]);
	}
	for (unsigned b = 0; b < BIG_CLASSES; b++)
		check_list(heap, &heap->big_queue[b]);
	(void)changed;
}
