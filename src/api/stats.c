/* SPDX-License-Identifier: MIT */
/*
 * Every number is one relaxed load of a counter somewhere below, each exact, all together no snapshot. The page is opened when there
 * is a scavenger to keep it fresh: a process without one has given nothing back yet.
 *
 * stats_tick: the scavenger's thread and, in a process without one, whoever makes its passes. lull_stats_read: any thread.
 */
#include "api/stats.h"

#include "api/init.h"
#include "heap/heap.h"
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/lock.h"
#include "kernel/populate.h"
#include "kernel/move.h"
#include "kernel/stats_page.h"
#include "page/page.h"
#include "reclaim/reclaim.h"
#include "reclaim/track.h"
#include "region/region.h"

#include <lull/stats.h>

#include <stdatomic.h>
#include <string.h>

/* Pages with late frees looked at per heap: what is counted past that is a detail. */
#define LATE_LOOK 256

static bool publish = true; /* written at start */
static struct lock lock;    /* one writer of the page; without a scavenger there may be several */

void stats_publish(bool on)
{
	publish = on;
}

/* Blocks that wait in one heap for a thread that is not parked. The stack may change under this look; its records stay, so the worst is
 * a wrong sum. */
__attribute__((no_sanitize("thread"))) static uint64_t late_of(struct heap *heap)
{
	struct page *page = atomic_load_explicit(&heap->remote_pages, memory_order_acquire);
	uint64_t bytes = 0;

	for (unsigned i = 0; page != NULL && i < LATE_LOOK; i++) {
		if (atomic_load_explicit(&page->kind, memory_order_acquire) != PAGE_SMALL)
			break;
		bytes += (atomic_load_explicit(&page->remote, memory_order_relaxed) >> 32) * page->block_bytes;
		page = atomic_load_explicit(&page->remote_next, memory_order_relaxed);
	}
	return bytes;
}

static uint64_t late_bytes(void)
{
	uint64_t bytes = 0;

	for (struct heap *heap = heap_first(); heap != NULL; heap = heap->next)
		if (atomic_load_explicit(&heap->state, memory_order_relaxed) == HEAP_RUNNING)
			bytes += late_of(heap);
	return bytes;
}

static void gather(struct lull_stats *ret)
{
	struct region_counts region = region_counts();
	struct heap_counts heap = heap_counts();
	struct reclaim_counts reclaim = reclaim_counts();
	struct advise_counts advise = advise_counts();
	struct populate_counts populate = populate_counts();
	struct track_counts track = track_counts();

	*ret = (struct lull_stats){
		.magic = LULL_STATS_MAGIC,
		.version = LULL_STATS_VERSION,
		.size_bytes = sizeof(*ret),
		.pid = (uint64_t)init_pid,
		.reserved_bytes = region.reserved_bytes,
		.committed_bytes = region.committed_bytes,
		.in_pages_bytes = region.taken_bytes,
		.dirty_bytes = region.dirty_bytes,
		.away_bytes = atomic_load_explicit(&page_away_bytes, memory_order_relaxed),
		.returned_bytes = advise.returned_bytes,
		.return_calls = advise.calls,
		.return_failed_bytes = advise.failed_bytes,
		.refaulted_bytes = atomic_load_explicit(&page_refaulted_bytes, memory_order_relaxed),
		.sweeps = reclaim.sweeps,
		.swept_pages = reclaim.swept_pages,
		.parks = reclaim.parks,
		.scavenger_wakes = reclaim.wakes,
		.threads_started = heap.attached,
		.heaps = heap.heaps,
		.heaps_orphaned = heap.orphans,
		.late_bytes = late_bytes(),
		.way = advise_way(),
		.policy = reclaim.seed,
		.kept_bytes = reclaim.kept_bytes,
		.floor_bytes = reclaim.floor_bytes,
		.ghost_hits = reclaim.ghost_hits,
		.ghost_bytes = reclaim.ghost_bytes,
		.full_sweeps = reclaim.full_sweeps,
		.busy_looks = reclaim.looks,
		.idle_stages = reclaim.stages,
		.ring_batches = advise.ring_batches,
		.ring_bytes = advise.ring_bytes,
		.vector_bytes = advise.vector_bytes,
		.split_bytes = advise.split_bytes,
		.populated_bytes = populate.bytes,
		.populate_calls = populate.calls,
		.populate_wasted_bytes = populate.wasted_bytes,
		.huge_bytes = region.huge_bytes,
		.track_mode = track.mode,
		.track_state = track.state,
		.ws_epoch_bytes = track.epoch_bytes,
		.ws_10s_bytes = track.ten_bytes,
		.ws_60s_bytes = track.minute_bytes,
		.resident_bytes = track.resident_bytes,
		.track_faults = track.faults,
		.track_us = track.spent_us,
		.moved_bytes = move_bytes(),
	};
	caps_pack(&ret->caps_low, &ret->caps_high);
}

exported void lull_stats_read(struct lull_stats *ret, uint32_t size)
{
	struct lull_stats stats;

	init_maybe();
	gather(&stats);
	memcpy(ret, &stats, min_size(size, sizeof(stats)));
}

/* The words behind the head, which the page has had since it was opened. */
static void write_page(struct lull_stats *page)
{
	struct lull_stats stats;
	const size_t head = offsetof(struct lull_stats, reserved_bytes) / sizeof(uint64_t);
	const uint64_t *from = (const uint64_t *)&stats;
	uint64_t *to = (uint64_t *)page;

	gather(&stats);
	for (size_t i = head; i < sizeof(stats) / sizeof(uint64_t); i++)
		__atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
}

void stats_tick(void)
{
	struct lull_stats *page;

	if (!publish || !lock_try(&lock))
		return;
	page = stats_page_open();
	if (page != NULL)
		write_page(page);
	lock_release(&lock);
}

void stats_fork_prepare(void)
{
	lock_take(&lock);
}

void stats_fork_done(bool child)
{
	if (child)
		stats_page_renew();
	lock_fork_done(&lock, child);
}
