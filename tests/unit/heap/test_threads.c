/* SPDX-License-Identifier: MIT */
/*
 * Suite threads: who holds a heap. A heap has one holder whatever threads and sweeps do; heaps of ended threads are used again, whole
 * or page by page; a thread that has ended its heap may still allocate and free; a fork child finds whole heaps only.
 */
#include "heap/heap.h"

#include "heap/internal.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"

#include <sys/wait.h>
#include <unistd.h>

#define BIG (48 * KIB) /* a medium page has ten of them */

/* --- attaching ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(test_a_thread_gets_its_heap_with_its_first_malloc)
{
	ck_assert_ptr_eq(heap_tls, &heap_empty);
	void *p = alloc(100);

	ck_assert_ptr_ne(heap_tls, &heap_empty);
	ck_assert_ptr_eq(owner_of(page_under(p)), heap_tls);
	ck_assert_ptr_eq(heap_mine(), heap_tls);
	ck_assert_uint_eq(heap_counts().heaps, 1);
	ck_assert_uint_eq(heap_counts().attached, 1);
	ck_assert_uint_eq(heap_counts().orphans, 0);
	for (unsigned c = 0; c < SMALL_CLASSES; c++)
		ck_assert_ptr_eq(heap_empty.current[c], &page_empty);
}
END_TEST

static void *only_free(void *block)
{
	heap_free_slow(block);
	return heap_tls == &heap_empty ? NULL : block;
}

START_TEST(test_a_thread_that_only_frees_gets_no_heap)
{
	void *got, *small = alloc(100);

	ck_assert_int_eq(pthread_join(thread_start(only_free, small), &got), 0);
	ck_assert_ptr_null(got);
	ck_assert_int_eq(pthread_join(thread_start(only_free, alloc(BIG)), &got), 0);
	ck_assert_ptr_null(got);
	ck_assert_uint_eq(heap_counts().heaps, 1);
}
END_TEST

static atomic_uint attach_calls;

static void count_attach(void)
{
	atomic_fetch_add(&attach_calls, 1);
	ck_assert_ptr_ne(heap_tls, &heap_empty); /* so that it may allocate */
}

static void *attach_and_end(void *unused)
{
	for (int i = 0; i < 3; i++)
		heap_free_slow(alloc(64));
	heap_thread_end();
	return unused;
}

START_TEST(test_the_caller_is_told_once_for_each_thread)
{
	heap_on_attach = count_attach;
	alloc(64);
	alloc(BIG);
	heap_park();
	alloc(64);
	ck_assert_uint_eq(attach_calls, 1);
	for (int i = 0; i < 3; i++)
		thread_run(attach_and_end, NULL);
	ck_assert_uint_eq(attach_calls, 4);
}
END_TEST

/* --- ended threads -------------------------------------------------------------------------------------------------------------------- */

struct left {
	size_t size;
	unsigned n, gaps; /* every gaps-th block is freed before the end; 0: none */
	char *block[2000];
	struct heap *heap;
};

static struct left left;

/* Leaves blocks behind, with gaps, and a word of their own in each. */
static void *leave_blocks(void *arg)
{
	struct left *l = arg;

	for (unsigned i = 0; i < l->n; i++) {
		l->block[i] = alloc(l->size);
		memcpy(l->block[i], &i, sizeof(i));
	}
	for (unsigned i = 0; l->gaps != 0 && i < l->n; i += l->gaps) {
		heap_free_slow(l->block[i]);
		l->block[i] = NULL;
	}
	l->heap = heap_tls;
	heap_thread_end();
	ck_assert_ptr_eq(heap_tls, &heap_empty);
	return NULL;
}

static void ck_left_whole(const struct left *l)
{
	for (unsigned i = 0; i < l->n; i++) {
		unsigned word;

		if (l->block[i] == NULL)
			continue;
		memcpy(&word, l->block[i], sizeof(word));
		unit_holds(word == i);
	}
}

START_TEST(test_the_next_thread_takes_an_ended_threads_heap_over)
{
	left = (struct left){.size = 200, .n = 1000, .gaps = 2};
	thread_run(leave_blocks, &left);
	ck_assert_uint_eq(heap_counts().orphans, 1);
	ck_assert_uint_eq(state_of(left.heap), HEAP_PARKED);
	ck_assert_uint_eq(atomic_load(&left.heap->orphan), 1);

	alloc(16);
	ck_assert_ptr_eq(heap_tls, left.heap);
	ck_assert_uint_eq(heap_counts().orphans, 0);
	ck_assert_uint_eq(heap_counts().heaps, 1);
	ck_assert_uint_eq(state_of(heap_tls), HEAP_RUNNING);
	ck_assert_uint_eq(atomic_load(&heap_tls->orphan), 0);
	/* what was left free is used before fresh memory */
	uint64_t taken = region_counts().taken_bytes;
	for (unsigned i = 0; i < 500; i++)
		alloc(200);
	ck_assert_uint_eq(region_counts().taken_bytes, taken);
	ck_left_whole(&left);
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_threads_one_after_another_share_one_heap)
{
	for (int i = 0; i < 100; i++)
		thread_run(attach_and_end, NULL);
	ck_assert_uint_eq(heap_counts().heaps, 1);
	ck_assert_uint_eq(heap_counts().attached, 100);
	ck_assert_uint_eq(heap_counts().orphans, 1);
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
}
END_TEST

static void *free_remotely_then_fill(void *arg)
{
	struct left *l = arg;

	for (unsigned i = 0; i < l->n; i++) {
		heap_free_slow(l->block[i]);
		l->block[i] = NULL;
	}
	return NULL;
}

/* The heap's thread is gone: what is freed now waits on the orphan until it is adopted or picked from. */
START_TEST(test_blocks_freed_after_their_thread_ended_are_found_at_adoption)
{
	left = (struct left){.size = _i ? BIG : 200, .n = 100};
	thread_run(leave_blocks, &left);
	uint64_t taken = region_counts().taken_bytes;

	thread_run(free_remotely_then_fill, &left);
	left.heap = NULL;
	for (unsigned i = 0; i < 100; i++)
		alloc(left.size);
	ck_assert_uint_eq(region_counts().taken_bytes, taken);
	ck_assert_uint_eq(heap_counts().heaps, 1);
	heap_check(heap_tls);
}
END_TEST

START_TEST(test_a_page_is_picked_from_an_orphan)
{
	alloc(16); /* has a heap of its own before the other thread starts */
	left = (struct left){.size = _i ? BIG : 200, .n = 5};
	thread_run(leave_blocks, &left);
	struct page *page = page_under(left.block[0]);

	ck_assert_ptr_eq(owner_of(page), left.heap);
	char *got = alloc(left.size);
	ck_assert_ptr_eq(page_under(got), page);
	ck_assert_ptr_eq(owner_of(page), heap_tls);
	ck_assert_uint_eq(heap_counts().orphans, 1);
	ck_assert_uint_eq(state_of(left.heap), HEAP_PARKED);
	ck_left_whole(&left);
	for (unsigned i = 0; i < left.n; i++)
		heap_free_slow(left.block[i]);
	if (_i == 0)
		ck_assert_uint_eq(page->used, 2); /* got, and the pin: the frees were local */
	heap_check(heap_tls);
	heap_check(left.heap);
}
END_TEST

START_TEST(test_nothing_is_picked_from_an_orphan_that_is_being_swept)
{
	alloc(16);
	left = (struct left){.size = _i ? BIG : 200, .n = 5};
	thread_run(leave_blocks, &left);
	struct page *page = page_under(left.block[0]);

	ck_assert(heap_claim(left.heap));
	char *got = alloc(left.size);
	ck_assert_ptr_ne(page_under(got), page);
	ck_assert_uint_eq(state_of(left.heap), HEAP_SWEEPING);
	ck_assert_uint_eq(heap_counts().orphans, 1);
	heap_unclaim(left.heap);
	while (page_under(alloc(left.size)) != page)
		unit_holds(owner_of(page) == left.heap);
	ck_left_whole(&left);
}
END_TEST

/* A page exhausted when its thread ended is on no list: only the free makes it one to pick. */
START_TEST(test_a_full_page_of_an_orphan_is_picked_after_a_free)
{
	alloc(16);
	left = (struct left){.size = _i ? BIG : 8 * KIB, .n = _i ? 10 : 8};
	thread_run(leave_blocks, &left);
	struct page *page = page_under(left.block[3]);

	ck_assert_ptr_ne(page_under(alloc(left.size)), page);
	while (_i ? heap_tls->big[sizeclass_of(BIG) - SMALL_CLASSES]->word != 0 : !page_is_exhausted(heap_tls->current[sizeclass_of(8 * KIB)]))
		alloc(left.size);
	heap_free_slow(left.block[3]);
	ck_assert_ptr_eq(alloc(left.size), left.block[3]);
	ck_assert_ptr_eq(owner_of(page), heap_tls);
}
END_TEST

/* The free read the owner, the page was picked, then the push came: whoever takes that stack passes the page on. */
START_TEST(test_a_page_on_its_former_owners_stack_is_passed_on)
{
	alloc(16);
	left = (struct left){.size = 200, .n = 5};
	thread_run(leave_blocks, &left);
	struct page *page = page_under(left.block[0]);

	ck_assert(page_push_remote(page, left.block[2]));
	alloc(200);
	ck_assert_ptr_eq(owner_of(page), heap_tls);
	atomic_store(&page->remote_next, NULL);
	atomic_store(&left.heap->remote_pages, page);

	ck_assert(heap_claim(left.heap));
	heap_take_remote(left.heap);
	heap_unclaim(left.heap);
	ck_assert_ptr_eq(atomic_load(&heap_tls->remote_pages), page);
	ck_assert_uint_eq(page->used, 7); /* 5 and 1 and the pin */
	heap_take_remote(heap_tls);
	ck_assert_uint_eq(page->used, 6);
	ck_assert_ptr_eq(alloc(200), left.block[2]);
}
END_TEST

START_TEST(test_a_big_page_on_its_former_owners_stack_is_passed_on)
{
	alloc(16);
	left = (struct left){.size = BIG, .n = 5};
	thread_run(leave_blocks, &left);
	struct page *page = page_under(left.block[0]);

	ck_assert(heap_claim(left.heap));
	heap_take_remote(left.heap);
	heap_retire_empty(left.heap);
	struct page *given = big_give(left.heap, page->size_class);
	ck_assert_ptr_eq(given, page);
	atomic_store(&page->owner, heap_tls);
	atomic_store(&page->listed_next, NULL);
	atomic_store(&left.heap->listed_pages, page);
	heap_take_remote(left.heap);
	heap_unclaim(left.heap);
	ck_assert_ptr_eq(atomic_load(&heap_tls->listed_pages), page);
	ck_assert_ptr_eq(page_under(alloc(BIG)), page);
}
END_TEST

static void *go_on_after_the_end(void *unused)
{
	static char *small[2000];

	alloc(64);
	char *own = alloc(300);
	heap_thread_end();
	for (int i = 0; i < 2000; i++) {
		small[i] = alloc(i % 3 == 0 ? BIG : 64);
		memset(small[i], i, 64);
		ck_assert_ptr_eq(heap_tls, &heap_empty);
	}
	for (int i = 0; i < 2000; i++) {
		unit_holds(small[i][0] == (char)i && small[i][63] == (char)i);
		heap_free_slow(small[i]);
	}
	heap_free_slow(own);
	ck_assert_ptr_null(heap_mine());
	ck_assert(!heap_park());
	heap_unpark();
	return unused;
}

START_TEST(test_a_thread_may_allocate_and_free_after_its_end)
{
	thread_run(go_on_after_the_end, NULL);
	ck_assert_uint_eq(heap_counts().heaps, 1);
	ck_assert_uint_eq(heap_counts().orphans, 1);
	ck_assert_uint_eq(heap_counts().attached, 1);
	alloc(64);
	heap_take_remote(heap_tls);
	heap_retire_empty(heap_tls);
	ck_assert_uint_le(region_counts().taken_bytes, 2 * SLICE_SIZE);
	heap_check(heap_tls);
}
END_TEST

/* --- parking -------------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_a_parked_thread_is_on_the_empty_heap)
{
	ck_assert(!heap_park());
	heap_unpark();
	ck_assert_uint_eq(heap_counts().heaps, 0);

	void *p = alloc(64);
	struct heap *heap = heap_tls;

	heap_free_slow(p);
	ck_assert_uint_eq(heap_changed_n(), 1);
	uint32_t seq = atomic_load(&heap->park_seq);
	ck_assert(heap_park());
	ck_assert_ptr_eq(heap_tls, &heap_empty);
	ck_assert_uint_eq(state_of(heap), HEAP_PARKED);
	ck_assert_uint_eq(heap_changed_n(), 0);
	ck_assert(!heap_park());
	ck_assert_uint_eq(atomic_load(&heap->park_seq), seq + 1);
	heap_unpark();
	ck_assert_ptr_eq(heap_tls, heap);
	ck_assert_uint_eq(state_of(heap), HEAP_RUNNING);
	heap_unpark();
	ck_assert_uint_eq(state_of(heap), HEAP_RUNNING);
}
END_TEST

START_TEST(test_malloc_while_parked_ends_the_park)
{
	alloc(64);
	struct heap *heap = heap_tls;

	heap_park();
	ck_assert_ptr_eq(owner_of(page_under(alloc(64))), heap);
	ck_assert_ptr_eq(heap_tls, heap);
	ck_assert_uint_eq(state_of(heap), HEAP_RUNNING);
	ck_assert_uint_eq(heap_counts().heaps, 1);
	ck_assert_uint_eq(heap_counts().attached, 1);
}
END_TEST

/* What a signal handler leaves behind that jumps out of heap_park or heap_unpark. */
START_TEST(test_a_thread_that_was_jumped_out_of_its_park_has_its_heap_again)
{
	static const unsigned states[] = {HEAP_RUNNING, HEAP_PARKING, HEAP_PARKED};
	struct heap *heap;

	heap_free_slow(alloc(64));
	heap = heap_tls;
	for (unsigned i = 0; i < array_len(states); i++) {
		heap_tls = &heap_empty;
		atomic_store(&heap->state, states[i]);
		ck_assert(!heap_park());
		ck_assert(states[i] == HEAP_PARKED || !heap_claim(heap));
		if (i % 2 == 0)
			heap_free_slow(alloc(64));
		else
			heap_unpark();
		ck_assert_ptr_eq(heap_tls, heap);
		ck_assert_uint_eq(state_of(heap), HEAP_RUNNING);
		ck_assert(heap_park());
		ck_assert_uint_eq(state_of(heap), HEAP_PARKED);
		heap_unpark();
	}
	ck_assert_uint_eq(heap_counts().heaps, 1);
}
END_TEST

START_TEST(test_free_while_parked_leaves_the_block_for_a_sweep)
{
	char *p = alloc(64), *q = alloc(64);
	struct heap *heap = heap_tls;
	struct page *page = page_under(p);
	unsigned used = page->used, listed = page_listed(page);

	heap_park();
	heap_free_slow(p);
	heap_free_slow(q);
	ck_assert_uint_eq(state_of(heap), HEAP_PARKED);
	ck_assert_uint_eq(page->used, used);
	ck_assert_uint_eq(page_listed(page), listed);
	ck_assert_ptr_eq(atomic_load(&heap->remote_pages), page);

	ck_assert(heap_claim(heap));
	heap_take_remote(heap);
	ck_assert_uint_eq(page->used, used - 2);
	ck_assert_uint_eq(page_listed(page), listed + 2);
	ck_assert_uint_eq(atomic_load(&heap->changed_n), 1);
	heap_unclaim(heap);
	heap_unpark();
	heap_check(heap);
}
END_TEST

START_TEST(test_only_a_parked_heap_that_is_not_wanted_can_be_claimed)
{
	alloc(64);
	struct heap *heap = heap_tls;

	ck_assert(!heap_claim(heap));
	heap_park();
	ck_assert(heap_claim(heap));
	ck_assert_uint_eq(state_of(heap), HEAP_SWEEPING);
	ck_assert(!heap_claim(heap));
	heap_unclaim(heap);
	ck_assert_uint_eq(state_of(heap), HEAP_PARKED);
	atomic_store(&heap->wanted, 1);
	ck_assert(!heap_claim(heap));
	heap_unpark();
	ck_assert_uint_eq(atomic_load(&heap->wanted), 0);
}
END_TEST

START_TEST(test_parks_that_nobody_disturbs_enter_no_kernel)
{
	alloc(64);
	struct heap *heap = heap_tls;

	fake_kernel_install();
	for (int i = 0; i < 100; i++) {
		heap_park();
		ck_assert(heap_claim(heap));
		heap_unclaim(heap);
		heap_unpark();
	}
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAIT), 0);
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAKE), 0);
}
END_TEST

static atomic_int step;
static struct heap *shown;
static uint64_t held_by_one; /* plain on purpose: the holder's, so that the thread sanitizer sees a second one */

static void *park_and_want(void *unused)
{
	alloc(64);
	shown = heap_tls;
	held_by_one++;
	heap_park();
	step_reach(&step, 1);
	step_await(&step, 2);
	if (unused)
		alloc(64);
	else
		heap_unpark();
	held_by_one++;
	step_reach(&step, 3);
	return NULL;
}

/* 0: heap_unpark, 1: malloc */
START_TEST(test_the_thread_waits_until_the_sweep_lets_go)
{
	fake_kernel_install();
	pthread_t thread = thread_start(park_and_want, _i ? &step : NULL);

	step_await(&step, 1);
	ck_assert(heap_claim(shown));
	step_reach(&step, 2);
	while (fake_calls(FAKE_FUTEX_WAIT) == 0)
		sched_yield();
	ck_assert_uint_eq(atomic_load(&shown->wanted), 1);
	ck_assert_int_eq(step, 2);
	ck_assert_uint_eq(held_by_one, 1);
	held_by_one = 10;
	heap_unclaim(shown);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(held_by_one, 11);
	ck_assert_uint_eq(fake_calls(FAKE_FUTEX_WAKE), 1);
	ck_assert_uint_eq(state_of(shown), HEAP_RUNNING);
	ck_assert_uint_eq(atomic_load(&shown->wanted), 0);
}
END_TEST

#define PARKS 1000
#define CLAIMS 20 /* the threads go on until this many sweeps came between */
#define HANDS 64

static char *_Atomic hand[HANDS];
static _Atomic uint64_t claims_n, parks_done;

/* Blocks go to the others, who free them while this heap is parked, swept or neither. */
static void *park_often(void *unused)
{
	unsigned turns = 0, i;

	alloc(64);
	shown = heap_tls;
	step_reach(&step, 1);
	for (i = 0; i < PARKS || claims_n < CLAIMS; i++) {
		char *p = alloc(i % 5 == 0 ? BIG : 48);

		memset(p, (int)i, 48);
		held_by_one++;
		p = atomic_exchange(&hand[i % HANDS], p);
		if (p != NULL)
			heap_free_slow(p);
		turns += heap_park();
		if (i % 16 == 0)
			sched_yield();
		if (i % 2)
			heap_unpark();
	}
	heap_unpark();
	step_reach(&step, 2);
	ck_assert_uint_eq(turns, i);
	parks_done = i;
	return unused;
}

static void *sweep_often(void *unused)
{
	while (step < 2) {
		if (!heap_claim(shown)) {
			sched_yield();
			continue;
		}
		claims_n++;
		held_by_one++;
		heap_take_remote(shown);
		heap_retire_empty(shown);
		heap_check(shown);
		heap_unclaim(shown);
	}
	return unused;
}

static void *free_often(void *unused)
{
	for (unsigned i = 0; step < 2; i++) {
		char *p = atomic_exchange(&hand[i % HANDS], NULL);

		if (p != NULL)
			heap_free_slow(p);
		else if (i % HANDS == 0)
			sched_yield();
	}
	return unused;
}

START_TEST(test_a_heap_has_one_holder_through_parks_and_claims)
{
	pthread_t thread[4];

	thread[0] = thread_start(park_often, NULL);
	step_await(&step, 1);
	for (int i = 0; i < 2; i++)
		thread[1 + i] = thread_start(sweep_often, NULL);
	thread[3] = thread_start(free_often, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(held_by_one, parks_done + claims_n);
	for (int i = 0; i < HANDS; i++)
		if (hand[i] != NULL)
			heap_free_slow(hand[i]);
	heap_take_remote(shown); /* its thread is gone without a word: nobody else holds it */
	heap_retire_empty(shown);
	heap_check(shown);
	/* all but the first block came back */
	ck_assert_uint_le(region_counts().taken_bytes, SLICE_SIZE);
}
END_TEST

static void *churn(void *arg)
{
	unsigned salt = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 60; i++) {
		char *p = alloc(i % 7 == 0 ? BIG : 16 + (i * salt) % 1000), *q;

		memset(p, (int)i, 16);
		q = atomic_exchange(&hand[(i * salt) % HANDS], p);
		if (q != NULL)
			heap_free_slow(q);
	}
	heap_thread_end();
	return NULL;
}

/* Frees, adoptions and picks all race; nothing is lost in the end. */
START_TEST(test_heaps_of_threads_that_come_and_go_stay_whole)
{
	pthread_t thread[4];

	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 0; i < array_len(thread); i++)
			thread[i] = thread_start(churn, (void *)(uintptr_t)(2 * i + round + 1));
		for (unsigned i = 0; i < array_len(thread); i++)
			pthread_join(thread[i], NULL);
	}
	for (int i = 0; i < HANDS; i++)
		if (hand[i] != NULL)
			heap_free_slow(hand[i]);
	ck_assert_uint_le(heap_counts().heaps, 2 * array_len(thread)); /* one a thread, and one it picks from */
	ck_assert_uint_eq(heap_counts().orphans, heap_counts().heaps);
	for (unsigned pass = 0; pass < 2; pass++) { /* a page may have to be passed on once */
		for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next) {
			ck_assert(heap_claim(heap));
			heap_take_remote(heap);
			heap_retire_empty(heap);
			heap_check(heap);
			heap_unclaim(heap);
		}
	}
	ck_assert_uint_eq(region_counts().taken_bytes, 0);
}
END_TEST

/* --- fork ----------------------------------------------------------------------------------------------------------------------------- */

struct forked {
	struct heap *heap;
	bool park;
};

static void *stay(void *arg)
{
	struct forked *f = arg;

	alloc(64);
	f->heap = heap_tls;
	if (f->park)
		heap_park();
	atomic_fetch_add(&step, 1);
	step_await(&step, 10);
	return NULL;
}

static int child_of_fork(struct heap *mine, const struct forked *parked, const struct forked *running)
{
	heap_fork_done(true);
	if (heap_tls != mine || state_of(mine) != HEAP_RUNNING)
		return 1;
	/* the parked one and the orphan of before; the one in use may be caught in anything */
	if (heap_counts().orphans != 2 || !atomic_load(&parked->heap->orphan) || atomic_load(&running->heap->orphan))
		return 2;
	if (state_of(running->heap) != HEAP_RUNNING || !heap_claim(parked->heap))
		return 3;
	heap_unclaim(parked->heap);
	/* a second life on a heap taken over: the lock is free, the queue whole */
	heap_thread_end();
	char *p = heap_alloc_slow(64);
	if (p == NULL || heap_counts().orphans != 3)
		return 4;
	memset(p, 1, 64);
	heap_free_slow(p);
	return 0;
}

START_TEST(test_a_fork_child_keeps_its_own_heap_and_takes_over_parked_ones)
{
	struct forked parked = {.park = true}, running = {.park = false};
	int status;

	alloc(64);
	struct heap *mine = heap_tls;
	pthread_t a = thread_start(stay, &parked), b = thread_start(stay, &running);

	step_await(&step, 2);
	thread_run(attach_and_end, NULL);
	ck_assert_uint_eq(heap_counts().orphans, 1);
	heap_park(); /* the fork itself ends it */
	heap_fork_prepare();
	pid_t pid = fork();
	if (pid == 0)
		_exit(child_of_fork(mine, &parked, &running));
	heap_fork_done(false);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	/* the parent is as it was */
	ck_assert_ptr_eq(heap_tls, mine);
	ck_assert_uint_eq(heap_counts().orphans, 1);
	ck_assert_uint_eq(atomic_load(&parked.heap->orphan), 0);
	thread_run(attach_and_end, NULL);
	step_reach(&step, 10);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
}
END_TEST

static TCase *threads(void)
{
	TCase *tcase = tcase_create("threads");

	tcase_add_test(tcase, test_a_thread_gets_its_heap_with_its_first_malloc);
	tcase_add_test(tcase, test_a_thread_that_only_frees_gets_no_heap);
	tcase_add_test(tcase, test_the_caller_is_told_once_for_each_thread);
	tcase_add_test(tcase, test_the_next_thread_takes_an_ended_threads_heap_over);
	tcase_add_test(tcase, test_threads_one_after_another_share_one_heap);
	tcase_add_loop_test(tcase, test_blocks_freed_after_their_thread_ended_are_found_at_adoption, 0, 2);
	tcase_add_loop_test(tcase, test_a_page_is_picked_from_an_orphan, 0, 2);
	tcase_add_loop_test(tcase, test_nothing_is_picked_from_an_orphan_that_is_being_swept, 0, 2);
	tcase_add_loop_test(tcase, test_a_full_page_of_an_orphan_is_picked_after_a_free, 0, 2);
	tcase_add_test(tcase, test_a_page_on_its_former_owners_stack_is_passed_on);
	tcase_add_test(tcase, test_a_big_page_on_its_former_owners_stack_is_passed_on);
	tcase_add_test(tcase, test_a_thread_may_allocate_and_free_after_its_end);
	tcase_add_test(tcase, test_heaps_of_threads_that_come_and_go_stay_whole);
	tcase_add_test(tcase, test_a_fork_child_keeps_its_own_heap_and_takes_over_parked_ones);
	return tcase;
}

static TCase *parking(void)
{
	TCase *tcase = tcase_create("parking");

	tcase_add_test(tcase, test_a_parked_thread_is_on_the_empty_heap);
	tcase_add_test(tcase, test_malloc_while_parked_ends_the_park);
	tcase_add_test(tcase, test_a_thread_that_was_jumped_out_of_its_park_has_its_heap_again);
	tcase_add_test(tcase, test_free_while_parked_leaves_the_block_for_a_sweep);
	tcase_add_test(tcase, test_only_a_parked_heap_that_is_not_wanted_can_be_claimed);
	tcase_add_test(tcase, test_parks_that_nobody_disturbs_enter_no_kernel);
	tcase_add_loop_test(tcase, test_the_thread_waits_until_the_sweep_lets_go, 0, 2);
	tcase_add_test(tcase, test_a_heap_has_one_holder_through_parks_and_claims);
	return tcase;
}

int main(void)
{
	Suite *suite = unit_suite("threads");

	suite_add_tcase(suite, threads());
	suite_add_tcase(suite, parking());
	return unit_run(suite);
}
