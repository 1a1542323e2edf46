/* SPDX-License-Identifier: MIT */
/*
 * When to sweep what. The scavenger ticks while there is something to give back and sleeps otherwise; lull_thread_idle and lull_collect
 * sweep on the thread that calls them. All sweeps take the reclaim lock, which no malloc or free ever waits for.
 */
#include "reclaim/reclaim.h"

#include "heap/heap.h"
#include "kernel/advise.h"
#include "kernel/bell.h"
#include "kernel/kernel.h"
#include "kernel/lock.h"
#include "reclaim/internal.h"
#include "reclaim/sweep.h"

static struct lock lock;
static uint64_t epoch_moved_ns; /* guarded by lock */
static struct {                 /* guarded by lock */
	unsigned refused;           /* passes in a row in which the kernel refused all */
	uint64_t until_ns;
} back_off;

/* The lock goes to whoever comes first; this many pauses, some 100 us, are longer than a sleeper needs to wake. */
#define BREATHE_PAUSES 4000

void reclaim_breathe(void)
{
	/* relaxed: whoever comes to wait later waits for one batch */
	if (atomic_load_explicit(&lock.state, memory_order_relaxed) != 2)
		return;
	lock_release(&lock);
	for (unsigned i = 0; i < BREATHE_PAUSES && atomic_load_explicit(&lock.state, memory_order_relaxed) == 0; i++)
		cpu_relax();
	lock_take(&lock);
}

/* --- passes --------------------------------------------------------------------------------------------------------------------- */

static void move_epoch(void)
{
	uint64_t now = kernel.now_ns();
	if (now - epoch_moved_ns < RECLAIM_TICK_NS)
		return;
	epoch_moved_ns = now;
	atomic_fetch_add_explicit(&heap_epoch, 1, memory_order_relaxed);
}

/* A heap nobody works on: an orphan, or one that is still in the park it was in at the last look. */
static bool is_quiet(struct heap *heap)
{
	uint32_t seq = atomic_load_explicit(&heap->park_seq, memory_order_relaxed);
	bool seen = heap->park_seen == seq;
	heap->park_seen = seq;
	return seen;
}

static bool has_work(struct heap *heap)
{
	return atomic_load_explicit(&heap->changed_n, memory_order_relaxed) > 0 ||
	       atomic_load_explicit(&heap->remote_pages, memory_order_relaxed) != NULL ||
	       atomic_load_explicit(&heap->listed_pages, memory_order_relaxed) != NULL ||
	       atomic_load_explicit(&heap->retry, memory_order_relaxed);
}

static size_t sweep_heaps(bool force, struct reclaim_left *left)
{
	size_t bytes = 0;
	for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next) {
		bool parked = atomic_load_explicit(&heap->state, memory_order_acquire) == HEAP_PARKED;
		if (!parked || !has_work(heap))
			continue;
		if (force || is_quiet(heap))
			bytes += sweep_parked(heap);
		else
			left->new_park = true;
	}
	return bytes;
}

/* 50 ms, doubled ten times: 51 s. */
#define BACK_OFF_MAX 10

/* Under full mlockall and the like every return is refused: try again ever more rarely, up to a minute. */
static void note_refusals(const struct advise_counts *before)
{
	struct advise_counts now = advise_counts();
	if (now.returned_bytes != before->returned_bytes)
		back_off.refused = 0;
	else if (now.failed_bytes != before->failed_bytes)
		back_off.refused += back_off.refused < BACK_OFF_MAX;
	else
		return;
	back_off.until_ns = back_off.refused == 0 ? 0 : kernel.now_ns() + (RECLAIM_TICK_NS << back_off.refused);
}

static size_t pass(bool force, struct reclaim_left *left)
{
	struct advise_counts before = advise_counts();
	uint64_t now = kernel.now_ns();
	if (!force && back_off.until_ns > now) {
		left->more = true;
		left->wait_ns = back_off.until_ns - now;
		return 0;
	}
	move_epoch();
	size_t bytes = sweep_heaps(force, left);
	bytes += sweep_big(NULL, force, &left->more);
	bytes += sweep_slices(force, &left->more);
	note_refusals(&before);
	return bytes;
}

size_t reclaim_pass(struct reclaim_left *left)
{
	lock_take(&lock);
	size_t bytes = pass(false, left);
	lock_release(&lock);
	if (reclaim_on_tick != NULL)
		reclaim_on_tick();
	return bytes;
}

size_t reclaim_thread(void)
{
	struct heap *heap = heap_tls == &heap_empty ? NULL : heap_tls;
	bool left = false;
	if (heap == NULL)
		return 0;
	lock_take(&lock);
	size_t bytes = sweep_own(heap);
	bytes += sweep_big(heap, true, &left);
	bytes += sweep_slices(true, &left);
	lock_release(&lock);
	return bytes;
}

size_t reclaim_collect(bool force)
{
	struct reclaim_left left = {0};
	struct heap *heap = force && heap_tls != &heap_empty ? heap_tls : NULL;
	lock_take(&lock);
	size_t bytes = heap != NULL ? sweep_own(heap) : 0;
	bytes += pass(force, &left);
	lock_release(&lock);
	return bytes;
}

/* --- around blocking calls --------------------------------------------------------------------------------------------------------- */

/* Free bytes in changed pages for which a thread is parked, and for which a scavenger is started: as for other frees, see bell.h. */
#define PARK_BYTES (128 * KIB)
/* More changed pages than this are worth it whatever is free in them: counting them at each blocking call would cost more. */
#define PARK_PAGES_ANYWAY 64

static bool is_worth_sweeping(const struct heap *heap)
{
	size_t need = scavenger_is_there() ? PARK_BYTES : BELL_START_BYTES;
	return heap_changed_n() >= PARK_PAGES_ANYWAY || heap_changed_bytes(heap, PARK_PAGES_ANYWAY) >= need;
}

void reclaim_idle_enter_slow(void)
{
	bool now = is_worth_sweeping(heap_tls);
	if (now && !scavenger_is_there())
		reclaim_scavenger_start();
	/* Without a sweep in sight: for what others may free into it. They ring the bell themselves. */
	if (!now && (heap_small_n() < RECLAIM_PARK_SMALL || heap_counts().threads < 2))
		return;
	if (!heap_park())
		return;
	if (now)
		bell_ring_now();
}

void reclaim_idle_leave_slow(void)
{
	heap_unpark();
}

/* --- numbers, fork ------------------------------------------------------------------------------------------------------------------ */

/* From the heaps, which count them anyway: one shared counter would be written by every event loop. */
static uint64_t count_parks(void)
{
	uint64_t n = 0;
	for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next)
		n += atomic_load_explicit(&heap->park_seq, memory_order_relaxed);
	return n;
}

struct reclaim_counts reclaim_counts(void)
{
	return (struct reclaim_counts){
		.sweeps = atomic_load_explicit(&sweep_heaps_n, memory_order_relaxed),
		.swept_pages = atomic_load_explicit(&sweep_pages_n, memory_order_relaxed),
		.parks = count_parks(),
		.wakes = scavenger_wakes(),
	};
}

void reclaim_fork_prepare(void)
{
	heap_unpark();
	scavenger_fork_prepare();
	lock_take(&lock);
}

void reclaim_fork_done(bool child)
{
	lock_fork_done(&lock, child);
	scavenger_fork_done(child);
}
