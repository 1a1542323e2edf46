/* SPDX-License-Identifier: MIT */
/*
 * Windows are opened by arming their slices and closed by looking at them, at most one of each a second. Whether the process is busy is
 * told by its processor time: a program that writes to memory it has had for long calls no allocator. When nobody is busy the open windows
 * are still closed if something else wakes the scavenger in time, and forgotten if not.
 *
 * State is guarded by the lock, held over the kernel calls: only fork ever waits for it, for some milliseconds.
 */
#include "reclaim/track.h"

#include "base/random.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/lock.h"
#include "kernel/track.h"
#include "page/page.h"
#include "reclaim/hole.h"
#include "reclaim/track_plan.h"
#include "region/region.h"

#include <errno.h>
#include <stdatomic.h>

#define EPOCH_NS TRACK_NS_PER_S
/* Looks further apart than this say nothing about the last second: that there was one at all is a reason for another. */
#define LOOKS_APART_NS (2 * EPOCH_NS)
/* One processor in a hundred: below it a process waits, and chatters as it does. */
#define BUSY_PART 100
#define CLOSE_NS (60 * EPOCH_NS)

/* Resident bytes are counted this often, and so seldom that it takes at most 0.025 % of a processor (measured: 1.3 ms a GiB by
 * PAGEMAP_SCAN, 4.5 ms by mincore). */
#define RESIDENT_NS (10 * EPOCH_NS)
#define RESIDENT_PART 4000

static struct {
	struct lock lock;
	enum track_mode mode;
	bool watches;          /* descriptors are open, regions registered */
	bool seeded;
	struct random random;
	struct track_plan plan;
	uint64_t looked_ns;    /* last look, and the processor time then */
	uint64_t cpu_ns;
	uint64_t busy_ns;      /* the last look that found the process busy */
	uint64_t resident_ns;  /* when resident bytes are counted next */
	_Atomic uint64_t wake_ns; /* when the scavenger is wanted; UINT64_MAX: not. Relaxed: its own thread's */
	/* what others read; relaxed */
	_Atomic uint64_t bytes[TRACK_SPANS], resident_bytes, faults, spent_ns;
	_Atomic uint64_t book_bytes; /* what the books said when resident bytes were counted */
	_Atomic unsigned state;
} track = {.wake_ns = UINT64_MAX};

void track_set_mode(enum track_mode mode)
{
	track.mode = mode;
	track_plan_init(&track.plan, mode == TRACK_FULL);
}

static void publish(enum track_state state)
{
	for (unsigned span = 0; span < TRACK_SPANS; span++)
		atomic_store_explicit(&track.bytes[span], track.plan.bytes[span], memory_order_relaxed);
	atomic_store_explicit(&track.faults, track.plan.faults, memory_order_relaxed);
	atomic_store_explicit(&track.spent_ns, track.plan.spent_ns, memory_order_relaxed);
	atomic_store_explicit(&track.state, state, memory_order_relaxed);
}

static size_t usable_slices(const struct region *region)
{
	return atomic_load_explicit(&region->limit, memory_order_acquire);
}

static size_t all_slices(void)
{
	size_t n = 0;

	for (size_t i = 0; i < region_n(); i++)
		n += usable_slices(region_at(i));
	return n;
}

/* --- windows ---------------------------------------------------------------------------------------------------------------------- */

/* Whole reservations: what is made usable later is watched from the start, and each stays the two mappings it is. */
static bool watch_regions(void)
{
	bool done = true;

	for (size_t i = 0; i < region_n(); i++)
		done &= track_watch(region_at(i)->base, region_at(i)->slices * SLICE_SIZE);
	return done;
}

/* fn of what is watched of every slice of the window's sample that is usable now. False: fn said no. */
static bool each_part(enum track_span span, bool (*fn)(char *part, void *sum), void *sum)
{
	const struct track_window *window = &track.plan.window[span];

	for (size_t i = 0; i < region_n(); i++) {
		const struct region *region = region_at(i);
		size_t slices = usable_slices(region);
		for (size_t at = window->offset; at < slices; at += window->stride) {
			if (!fn(region->base + at * SLICE_SIZE + track_plan_part(span, at), sum))
				return false;
		}
	}
	return true;
}

struct armed {
	size_t slices, pages;
};

static bool arm(char *part, void *sum)
{
	struct armed *armed = sum;
	long pages = track_arm(part, TRACK_PART_BYTES);

	if (pages < 0)
		return false;
	armed->slices++;
	armed->pages += (size_t)pages;
	return true;
}

/* What could not be armed would pass for written: then there is no window. Some memory is mapped anew at times, and wants to be watched
 * anew. */
static void open_window(enum track_span span, uint64_t now)
{
	struct armed armed = {0};
	uint64_t begin = kernel.cpu_ns(true);

	if (!track_plan_open(&track.plan, span, all_slices(), random_next(&track.random), now))
		return;
	if (span != TRACK_EPOCH)
		watch_regions();
	if (each_part(span, arm, &armed)) {
		track_plan_opened(&track.plan, span, armed.slices, armed.pages, kernel.cpu_ns(true) - begin);
		return;
	}
	track_plan_cancel(&track.plan, span, kernel.cpu_ns(true) - begin);
	watch_regions();
}

static bool look(char *part, void *sum)
{
	return track_look(part, TRACK_PART_BYTES, sum) == 0;
}

static void close_window(enum track_span span, uint64_t now)
{
	struct track_seen seen = {0};
	uint64_t begin = kernel.cpu_ns(true);
	bool done = each_part(span, look, &seen);
	uint64_t cost = kernel.cpu_ns(true) - begin;

	if (done)
		track_plan_close(&track.plan, span, seen.written, cost, now);
	else
		track_plan_cancel(&track.plan, span, cost);
}

static void close_due(uint64_t now)
{
	for (unsigned span = 0; span < TRACK_SPANS; span++)
		if (track_plan_is_due(&track.plan, (enum track_span)span, now))
			close_window((enum track_span)span, now);
}

/* --- beginning and end ------------------------------------------------------------------------------------------------------------ */

static void end_watch(void)
{
	if (track.watches)
		track_close();
	track.watches = false;
	track_plan_restart(&track.plan, 0);
}

/* Open from the last look, or now. False: refused, or not just now. */
static bool begin_watch(uint64_t now)
{
	if (track.watches && track_is_open())
		return true;
	end_watch(); /* the program may have closed it */
	track.watches = track_open();
	if (!track.watches)
		return false;
	if (!track.seeded)
		random_init(&track.random, (uintptr_t)&track);
	track.seeded = true;
	if (!watch_regions() || !track_price(&track.plan.fault_ns, &track.plan.arm_ns)) {
		end_watch();
		caps_refused(CAPS_UFFD_WP_ASYNC, -EPERM);
		return false;
	}
	track_plan_restart(&track.plan, now);
	return true;
}

/* --- resident bytes --------------------------------------------------------------------------------------------------------------- */

static uint64_t resident_by_books(void)
{
	struct region_counts counts = region_counts();
	uint64_t away = atomic_load_explicit(&page_away_bytes, memory_order_relaxed);
	uint64_t held = counts.taken_bytes + counts.dirty_bytes;

	return held > away ? held - away : 0;
}

/* Not by the tables where they cannot be read. */
static uint64_t resident_of(const struct region *region)
{
	size_t bytes = usable_slices(region) * SLICE_SIZE;
	struct track_seen seen = {0};

	if (track.watches && track_look(region->base, bytes, &seen) == 0)
		return seen.present * OS_PAGE_SIZE;
	return hole_resident(region->base, bytes);
}

static uint64_t resident_by_kernel(uint64_t *ret_cost_ns)
{
	uint64_t begin = kernel.cpu_ns(true), bytes = 0;

	for (size_t i = 0; i < region_n(); i++)
		bytes += resident_of(region_at(i));
	*ret_cost_ns = kernel.cpu_ns(true) - begin;
	return bytes;
}

static void count_resident(uint64_t now)
{
	uint64_t bytes, cost = 0;

	if (now < track.resident_ns)
		return;
	if (track.watches || caps_state(CAPS_MINCORE) == CAP_STATE_LIVE) /* which is not asked for this alone */
		bytes = resident_by_kernel(&cost);
	else
		bytes = resident_by_books();
	track.plan.spent_ns += cost;
	track.resident_ns = now + max_size(RESIDENT_NS, cost * RESIDENT_PART);
	atomic_store_explicit(&track.book_bytes, resident_by_books(), memory_order_relaxed);
	atomic_store_explicit(&track.resident_bytes, bytes, memory_order_relaxed);
}

/* As last counted, and what was taken and given back since. */
static uint64_t resident_now(void)
{
	uint64_t counted = atomic_load_explicit(&track.resident_bytes, memory_order_relaxed);
	uint64_t then = atomic_load_explicit(&track.book_bytes, memory_order_relaxed), now = resident_by_books();

	if (counted == 0 || now >= then)
		return counted == 0 ? 0 : counted + (now - then);
	return counted > then - now ? counted - (then - now) : 0;
}

/* --- looks ------------------------------------------------------------------------------------------------------------------------ */

static void wake_at(uint64_t ns)
{
	atomic_store_explicit(&track.wake_ns, ns, memory_order_relaxed);
}

static bool may_watch(void)
{
	enum cap_state state = caps_state(CAPS_UFFD_WP_ASYNC);

	return state == CAP_STATE_LIVE || state == CAP_STATE_UNKNOWN;
}

static enum track_state watch(uint64_t now)
{
	if (!begin_watch(now))
		return may_watch() ? TRACK_RESTS : TRACK_REFUSED;
	track_plan_credit(&track.plan, now);
	close_due(now);
	for (unsigned span = 0; span < TRACK_SPANS; span++)
		open_window((enum track_span)span, kernel.now_ns());
	return TRACK_WATCHES;
}

/* Nothing is opened. After a minute nothing was written in that minute, to speak of. */
static enum track_state rest(uint64_t now)
{
	if (!track.watches)
		return TRACK_RESTS;
	close_due(now);
	if (now - track.busy_ns < CLOSE_NS) {
		wake_at(track.busy_ns + CLOSE_NS);
		return TRACK_WATCHES;
	}
	end_watch();
	return TRACK_RESTS;
}

/* Nobody is woken to see whether it has become more: most growth comes with frees, which wake the scavenger anyway. */
static enum track_state look_at_little(uint64_t now)
{
	end_watch();
	track.looked_ns = now;
	wake_at(UINT64_MAX);
	return TRACK_RESTS;
}

static enum track_state look_at_process(uint64_t now)
{
	uint64_t cpu = kernel.cpu_ns(false);
	uint64_t passed = now - track.looked_ns, used = cpu - track.cpu_ns;
	bool first = track.looked_ns == 0 || passed > LOOKS_APART_NS;

	track.looked_ns = now;
	track.cpu_ns = cpu;
	wake_at(now + EPOCH_NS);
	if (first)
		return track.watches ? TRACK_WATCHES : TRACK_RESTS;
	if (used >= passed / BUSY_PART) {
		track.busy_ns = now;
		return watch(now);
	}
	wake_at(UINT64_MAX);
	return rest(now);
}

/* Under a filter that allows nothing, nothing is called here; descriptors that are open then stay as they are. */
static enum track_state look_refused(uint64_t now)
{
	track.looked_ns = now;
	track.watches = false;
	track_plan_restart(&track.plan, now);
	wake_at(UINT64_MAX);
	return TRACK_REFUSED;
}

void track_tick(void)
{
	uint64_t now = kernel.now_ns();
	enum track_state state;

	if (track.mode == TRACK_OFF)
		return;
	lock_take(&track.lock);
	if (track.looked_ns == 0 || now - track.looked_ns >= EPOCH_NS) {
		if (!may_watch())
			state = look_refused(now);
		else if (region_counts().taken_bytes < TRACK_HEAP_BYTES)
			state = look_at_little(now);
		else
			state = look_at_process(now);
		count_resident(kernel.now_ns());
		publish(state);
	}
	lock_release(&track.lock);
}

uint64_t track_wait_ns(uint64_t now_ns)
{
	uint64_t at = atomic_load_explicit(&track.wake_ns, memory_order_relaxed);

	if (at == UINT64_MAX)
		return KERNEL_NO_TIMEOUT;
	return at > now_ns ? at - now_ns : 0;
}

static void forget(void)
{
	end_watch();
	track.looked_ns = 0;
	track.resident_ns = 0;
	wake_at(UINT64_MAX);
	publish(TRACK_RESTS);
}

void track_stop(void)
{
	lock_take(&track.lock);
	forget();
	lock_release(&track.lock);
}

struct track_counts track_counts(void)
{
	return (struct track_counts){
		.mode = track.mode,
		.state = (enum track_state)atomic_load_explicit(&track.state, memory_order_relaxed),
		.epoch_bytes = atomic_load_explicit(&track.bytes[TRACK_EPOCH], memory_order_relaxed),
		.ten_bytes = atomic_load_explicit(&track.bytes[TRACK_TEN], memory_order_relaxed),
		.minute_bytes = atomic_load_explicit(&track.bytes[TRACK_MINUTE], memory_order_relaxed),
		.resident_bytes = resident_now(),
		.faults = atomic_load_explicit(&track.faults, memory_order_relaxed),
		.spent_us = atomic_load_explicit(&track.spent_ns, memory_order_relaxed) / 1000,
	};
}

void track_fork_prepare(void)
{
	lock_take(&track.lock);
}

/* The child's memory is not watched, and its copies of the descriptors lead to the parent's. */
void track_fork_done(bool child)
{
	if (child) {
		forget();
		track.plan.faults = 0;
		track.plan.spent_ns = 0;
		publish(TRACK_RESTS);
		atomic_store_explicit(&track.resident_bytes, 0, memory_order_relaxed);
	}
	lock_fork_done(&track.lock, child);
}
