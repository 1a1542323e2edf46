/* SPDX-License-Identifier: MIT */
/*
 * Locks are taken in the order in which a single thread nests them (statistics, reclaim, heaps, regions, meta) and given back in
 * reverse. The child has one thread: it starts a scavenger of its own when it needs one, and has its own statistics page.
 *
 * vfork, posix_spawn and _Fork run no handlers. The first two borrow the parent's memory while the parent stands still; the child of
 * _Fork may, as POSIX has it, make async-signal-safe calls only, which allocate nothing.
 */
#include "api/fork.h"

#include "api/address.h"
#include "api/init.h"
#include "api/stats.h"
#include "heap/heap.h"
#include "reclaim/reclaim.h"
#include "region/meta.h"
#include "region/region.h"

#include <pthread.h>

void fork_lock_all(void)
{
	stats_fork_prepare();
	reclaim_fork_prepare();
	heap_fork_prepare();
	region_fork_prepare();
	meta_fork_prepare();
}

static void done(bool child)
{
	meta_fork_done(child);
	region_fork_done(child);
	heap_fork_done(child);
	reclaim_fork_done(child);
	stats_fork_done(child);
	address_fork_done(child);
}

void fork_unlock_all(void)
{
	done(false);
}

static void done_in_child(void)
{
	init_forked();
	done(true);
}

void fork_register(void)
{
	pthread_atfork(fork_lock_all, fork_unlock_all, done_in_child);
}
