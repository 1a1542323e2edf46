/* SPDX-License-Identifier: MIT */
/*
 * When to sweep what. The scavenger ticks while there is something to give back and sleeps otherwise; lull_thread_idle and lull_collect
 * sweep on the thread that calls them. All sweeps take the reclaim lock, which no malloc or free ever waits for.
 */
#include "reclaim/reclaim.h"

#include "heap/heap.h"
#include "kernel/advise.h"
#include "kernel/bell.h"
#include "kernel/flight.h"
#include "kernel/kernel.h"
#include "kernel/lock.h"
#include "kernel/ring.h"
#include "kernel/rlimit.h"
#include "page/reuse.h"
#include "reclaim/handoff.h"
#include "reclaim/internal.h"
#include "reclaim/parks.h"
#include "reclaim/seed.h"
#include "reclaim/sweep.h"
#include "reclaim/track.h"

static struct lock lock;
static uint64_t process_epoch_ns; /* guarded by lock: when heap_process_epoch moved last, */
static uint64_t ghosts_seen;      /* ghost bytes at the last pass, */
static bool memory_known;         /* the policy was told */
static _Atomic uint64_t stages_n, looks_n;
static _Atomic uint64_t floor_bytes, kept_bytes; /* as of the last sweep; relaxed */
static struct {                 /* guarded by lock */
	unsigned refused;           /* passes in a row in which the kernel refused all */
	uint64_t until_ns;
} back_off;

/* The lock goes to whoever comes first; this many pauses, some 100 us, are longer than a sleeper needs to wake. */
#define BREATHE_PAUSES 4000

bool reclaim_is_wanted(void)
{
	/* relaxed: whoever comes to wait later waits for one batch */
	return atomic_load_explicit(&lock.state, memory_order_relaxed) == 2;
}

void reclaim_breathe(void)
{
	if (!reclaim_is_wanted())
		return;
	size_t budget = sweep_set_budget(SIZE_MAX); /* ours is none of theirs */
	lock_release(&lock);
	for (unsigned i = 0; i < BREATHE_PAUSES && atomic_load_explicit(&lock.state, memory_order_relaxed) == 0; i++)
		cpu_relax();
	lock_take(&lock);
	sweep_set_budget(budget);
}

/* --- clocks ----------------------------------------------------------------------------------------------------------------------- */

void reclaim_move_clock(struct heap *heap)
{
	_Atomic uint32_t *clock = heap_one_clock ? &heap_process_epoch : &heap->epoch;
	uint64_t *since_ns = heap_one_clock ? &process_epoch_ns : &heap->epoch_ns;
	if (!policy_may_step(&sweep_policy, *since_ns, kernel.now_ns()))
		return;
	atomic_fetch_add_explicit(clock, 1, memory_order_relaxed);
	/* read after the move: whoever sees the epoch sees it last for a whole step at least */
	*since_ns = kernel.now_ns();
}

/* --- passes --------------------------------------------------------------------------------------------------------------------- */

/* A heap nobody works on: an orphan, or one that is still in the park it was in at the last look, or whose thread asks for it. */
static bool is_quiet(struct heap *heap)
{
	uint32_t seq = atomic_load_explicit(&heap->park_seq, memory_order_relaxed);
	bool seen = heap->park_seen == seq;
	heap->park_seen = seq;
	return atomic_exchange_explicit(&heap->asked, 0, memory_order_relaxed) || seen;
}

static bool has_work(struct heap *heap)
{
	return atomic_load_explicit(&heap->changed_n, memory_order_relaxed) > 0 ||
	       atomic_load_explicit(&heap->remote_pages, memory_order_relaxed) != NULL ||
	       atomic_load_explicit(&heap->listed_pages, memory_order_relaxed) != NULL ||
	       atomic_load_explicit(&heap->emptied, memory_order_relaxed) || atomic_load_explicit(&heap->retry, memory_order_relaxed);
}

static bool is_parked(const struct heap *heap)
{
	return atomic_load_explicit(&heap->state, memory_order_acquire) == HEAP_PARKED;
}

static size_t sweep_heaps(bool force, struct reclaim_left *left)
{
	size_t bytes = 0;
	for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next) {
		if (!is_parked(heap) || !has_work(heap))
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

/* Where the kernel may not be asked: what the smallest machines have, so that little is held, but more than nothing. */
#define MEMORY_UNKNOWN GIB

/* What was wanted again since the last pass, bytes. The first time that matters the policy learns how much memory there is. */
static size_t new_ghosts(void)
{
	uint64_t now = reuse_counts().ghost_bytes;
	size_t bytes = (size_t)(now - ghosts_seen);
	ghosts_seen = now;
	if (bytes > 0 && !memory_known) {
		size_t memory = rlimit_memory();
		policy_know_memory(&sweep_policy, memory != 0 ? memory : MEMORY_UNKNOWN);
		memory_known = true;
	}
	return bytes;
}

static size_t default_pass(bool force, struct reclaim_left *left)
{
	struct sweep_left sweep_left = {0};
	for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next) {
		reclaim_move_clock(heap);
		atomic_store_explicit(&heap->held, 0, memory_order_relaxed);
	}
	size_t bytes = sweep_heaps(force, left);
	bytes += sweep_big(NULL, force, &sweep_left);
	bytes += sweep_slices(force, &sweep_left);
	policy_end_pass(&sweep_policy, new_ghosts(), sweep_left.vain_bytes);
	left->more |= sweep_left.more;
	return bytes;
}

static size_t seed_park(struct heap *heap, struct reclaim_left *left)
{
	uint64_t now = kernel.now_ns();
	if (!parks_is_due(&sweep_policy, heap, now, &left->due_ns))
		return 0;
	size_t bytes = seed_sweep_parked(heap);
	parks_swept(&sweep_policy, heap, kernel.now_ns(), &left->due_ns);
	return bytes;
}

static size_t seed_pass(struct reclaim_left *left)
{
	struct sweep_left sweep_left = {0};
	size_t bytes = 0;
	for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next) {
		bool orphan = atomic_load_explicit(&heap->orphan, memory_order_relaxed);
		if (!orphan)
			bytes += seed_park(heap, left);
		else if (is_parked(heap) && has_work(heap))
			bytes += seed_sweep_orphan(heap);
	}
	bytes += seed_sweep_freed();
	bytes += sweep_slices(false, &sweep_left);
	left->more |= sweep_left.more;
	return bytes;
}

/* A forced pass takes what is kept: it holds no part of the floor any more. */
static void give_shares(void)
{
	for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next)
		seed_give_share(heap);
}

static void publish(void)
{
	atomic_store_explicit(&floor_bytes, sweep_policy.floor_bytes, memory_order_relaxed);
	atomic_store_explicit(&kept_bytes, sweep_policy.seed ? sweep_policy.shared_bytes : sweep_policy.kept_bytes, memory_order_relaxed);
}

static size_t pass(bool force, struct reclaim_left *left)
{
	struct advise_counts before = advise_counts();
	uint64_t now = kernel.now_ns();
	size_t bytes = handoff_flush();
	left->due_ns = UINT64_MAX;
	if (!force && back_off.until_ns > now) {
		left->more = true;
		left->wait_ns = back_off.until_ns - now;
		return bytes + advise_finish();
	}
	atomic_fetch_add_explicit(&heap_tick, 1, memory_order_relaxed);
	if (force)
		give_shares();
	bytes += sweep_policy.seed && !force ? seed_pass(left) : default_pass(force, left);
	bytes += advise_finish();
	note_refusals(&before);
	publish();
	return bytes;
}

size_t reclaim_pass(struct reclaim_left *left)
{
	lock_take(&lock);
	size_t bytes = pass(false, left);
	left->rest_ns = ring_rest();
	lock_release(&lock);
	if (reclaim_on_tick != NULL)
		reclaim_on_tick();
	return bytes;
}

size_t reclaim_collect(bool force)
{
	struct reclaim_left left = {0};
	struct heap *heap = heap_tls != &heap_empty ? heap_tls : NULL;
	size_t bytes = 0;
	lock_take(&lock);
	if (heap != NULL && force)
		bytes += sweep_own(heap);
	else if (heap != NULL && sweep_policy.seed)
		seed_collect(heap);
	bytes += pass(force, &left);
	lock_release(&lock);
	return bytes;
}

void reclaim_ring_own(void)
{
	lock_take(&lock);
	ring_own();
	lock_release(&lock);
}

void reclaim_ring_disown(void)
{
	lock_take(&lock);
	handoff_flush();
	advise_finish();
	ring_disown();
	lock_release(&lock);
}

void reclaim_stage(void)
{
	struct reclaim_left left = {0};
	lock_take(&lock);
	pass(true, &left);
	atomic_fetch_add_explicit(&stages_n, 1, memory_order_relaxed);
	lock_release(&lock);
	if (reclaim_on_tick != NULL)
		reclaim_on_tick();
}

/* --- a thread that sweeps itself ---------------------------------------------------------------------------------------------------- */

static void note_free_large(struct heap *heap, struct page *page, void *unused)
{
	(void)unused;
	uint64_t away = atomic_load_explicit(&page->away_blocks, memory_order_relaxed);
	if (atomic_load_explicit(&page->word, memory_order_relaxed) & ~away)
		atomic_store_explicit(&heap->held, HEAP_HELD_ANY | HEAP_HELD_OWN, memory_order_relaxed);
}

/* Small pages are handed over, and large ones go by the scavenger's claims when they are old enough, so the thread waits for nobody. */
static bool hand_over(struct heap *heap)
{
	if (!scavenger_is_there() || !handoff_changed(heap))
		return false;
	atomic_store_explicit(&heap->held, 0, memory_order_relaxed);
	heap_each_big(heap, note_free_large, NULL);
	return true;
}

/* With the lock. */
static size_t sweep_here(struct heap *heap)
{
	struct sweep_left left = {.part = true};
	size_t bytes = handoff_flush();
	reclaim_move_clock(heap);
	atomic_store_explicit(&heap->held, 0, memory_order_relaxed);
	bytes += sweep_own(heap);
	bytes += sweep_big(heap, false, &left);
	bytes += sweep_slices(false, &left);
	/* free slices are nobody's: with no scavenger whoever comes by sees to them */
	if (left.more && !scavenger_is_there())
		atomic_store_explicit(&heap->held, HEAP_HELD_ANY | HEAP_HELD_OWN, memory_order_relaxed);
	return bytes;
}

static size_t sweep_here_as_seed(struct heap *heap)
{
	struct sweep_left left = {0};
	size_t bytes = seed_sweep_own(heap);
	if (!scavenger_is_there()) /* as the seed, which purges on the spot then */
		bytes += sweep_slices(true, &left);
	publish();
	return bytes;
}

size_t reclaim_thread(void)
{
	struct heap *heap = heap_tls == &heap_empty ? NULL : heap_tls;
	if (heap == NULL || (!sweep_policy.seed && hand_over(heap)))
		return 0;
	lock_take(&lock);
	size_t bytes = sweep_policy.seed ? sweep_here_as_seed(heap) : sweep_here(heap);
	lock_release(&lock);
	return bytes;
}

/* What a thread of the program's gives back before it goes on with its own work: by vectors of 64 KiB holes half a millisecond's worth, by
 * the loop eleven (measured, 44 us each). The seed's has no bound. */
#define INLINE_BYTES (16 * MIB)

size_t reclaim_pass_inline(bool own, struct reclaim_left *left)
{
	struct heap *heap = !own || heap_tls == &heap_empty ? NULL : heap_tls;
	lock_take(&lock);
	size_t bytes = 0;
	if (heap != NULL && sweep_policy.seed)
		bytes += sweep_here_as_seed(heap);
	if (!sweep_policy.seed)
		sweep_set_budget(INLINE_BYTES);
	if (heap != NULL && !sweep_policy.seed)
		bytes += sweep_here(heap);
	bytes += pass(false, left);
	left->more |= sweep_set_budget(SIZE_MAX) == 0;
	lock_release(&lock);
	if (reclaim_on_tick != NULL)
		reclaim_on_tick();
	return bytes;
}

bool reclaim_pending(void)
{
	return atomic_load_explicit(&heap_tls->held, memory_order_relaxed) & HEAP_HELD_ANY;
}

bool reclaim_pending_own(void)
{
	return atomic_load_explicit(&heap_tls->held, memory_order_relaxed) & HEAP_HELD_OWN;
}

void reclaim_thread_end(void)
{
	struct heap *heap = heap_mine();
	if (heap == NULL || !sweep_policy.seed)
		return;
	lock_take(&lock);
	seed_give_share(heap);
	/* nobody looks for an orphan at its time: the next thread's first park is one to wake for */
	atomic_store(&heap->scheduled, 0);
	lock_release(&lock);
}

/* Pages looked at in one look: what a processor does in some 20 us. */
#define LOOK_PAGES 64
#define LOOK_MS 100

/* The first look starts the clock: what a thread takes over is not old because the thread is new. */
void reclaim_look_slow(void)
{
	struct heap *heap = heap_tls;
	uint32_t now_ms = page_now_ms();
	bool first = heap->looked_ms == 0;
	if (sweep_policy.seed)
		return;
	heap->tick = atomic_load_explicit(&heap_tick, memory_order_relaxed);
	if (!first && now_ms - heap->looked_ms < LOOK_MS)
		return;
	heap->looked_ms = now_ms != 0 ? now_ms : 1; /* 0 says never */
	if (!first && handoff_quiet(heap, LOOK_PAGES))
		atomic_fetch_add_explicit(&looks_n, 1, memory_order_relaxed);
}

/* --- policy -------------------------------------------------------------------------------------------------------------------------- */

void reclaim_set_policy(bool seed)
{
	policy_init(&sweep_policy, seed);
	heap_one_clock = seed;
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

/* Not while the scavenger comes by itself: a thread that blocks a thousand times a second wakes it now and then. */
static void ring_for_park(void)
{
	/* seq_cst, after the park: see struct heap. The fence orders the two for a park that was published by a release */
	atomic_thread_fence(memory_order_seq_cst);
	if (!heap_is_scheduled())
		bell_ring_now();
}

void reclaim_idle_enter_slow(void)
{
	bool now = is_worth_sweeping(heap_tls) || heap_tls->big_changed > 0;
	/* what others freed has nobody either; where there can be no scavenger the pass is made here */
	if ((now || atomic_load_explicit(&bell_unanswered, memory_order_relaxed)) && !scavenger_is_there())
		reclaim_scavenger_start();
	/* Without a sweep in sight: for what others may free into it. They ring the bell themselves. */
	if (!now && (heap_pages_n() < RECLAIM_PARK_OWNED || (heap_tls->big_n == 0 && heap_counts().threads < 2)))
		return;
	if (heap_park() && now)
		ring_for_park();
}

void reclaim_idle_leave_slow(void)
{
	heap_unpark();
}

bool reclaim_wait_release(void)
{
	struct heap *heap = heap_tls;
	if (sweep_policy.seed || heap == &heap_empty || !scavenger_is_there()) {
		reclaim_thread();
		return false;
	}
	atomic_store_explicit(&heap->asked, 1, memory_order_relaxed);
	if (heap_park())
		bell_ring_now();
	return true;
}

void reclaim_wait_end(void)
{
	heap_unpark();
}

bool reclaim_park(void)
{
	if (heap_tls == &heap_empty) /* nothing to sweep; and starting a thread would make it a heap, or end its park */
		return false;
	if (!scavenger_is_there())
		reclaim_scavenger_start();
	if (!scavenger_is_there() || !heap_park())
		return false;
	ring_for_park();
	return true;
}

void reclaim_unpark(void)
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
		.full_sweeps = atomic_load_explicit(&sweep_full_n, memory_order_relaxed),
		.stages = atomic_load_explicit(&stages_n, memory_order_relaxed),
		.looks = atomic_load_explicit(&looks_n, memory_order_relaxed),
		.ghost_hits = reuse_counts().ghost_hits,
		.ghost_bytes = reuse_counts().ghost_bytes,
		.floor_bytes = atomic_load_explicit(&floor_bytes, memory_order_relaxed),
		.kept_bytes = atomic_load_explicit(&kept_bytes, memory_order_relaxed),
		.seed = sweep_policy.seed,
	};
}

void reclaim_fork_prepare(void)
{
	heap_unpark();
	scavenger_fork_prepare();
	lock_take(&lock);
	track_fork_prepare();
	handoff_fork_prepare();
}

/* In the child of a fork: threads that are not there keep nothing. */
static void forget_shares(void)
{
	for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next) {
		heap->floor_bytes = 0;
		heap->look = (struct heap_look){0};
		atomic_store_explicit(&heap->held, 0, memory_order_relaxed);
		atomic_store_explicit(&heap->scheduled, 0, memory_order_relaxed);
	}
	sweep_policy.shared_bytes = 0;
}

void reclaim_fork_done(bool child)
{
	handoff_fork_done(child);
	track_fork_done(child);
	if (child) {
		flight_forget();
		forget_shares();
	}
	lock_fork_done(&lock, child);
	scavenger_fork_done(child);
}
