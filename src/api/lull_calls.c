/* SPDX-License-Identifier: MIT */
/*
 * The calls of <lull/idle.h>: the reclaim layer's, with start-up before and the scavenger's start after them as on every slow path.
 * Any thread.
 */
#include "api/init.h"
#include "api/inside.h"
#include "reclaim/reclaim.h"

#include <lull/idle.h>

exported void lull_thread_idle(void)
{
	init_maybe();
	inside_enter();
	reclaim_thread();
	inside_leave();
	scavenger_maybe_start();
}

exported bool lull_thread_idle_start(void)
{
	init_maybe();
	/* in a handler that interrupted malloc the heap is not whole */
	return !inside_slow_path() && reclaim_park();
}

exported void lull_thread_idle_end(void)
{
	reclaim_unpark();
}

exported void lull_scavenger_stop(void)
{
	reclaim_scavenger_end();
}

exported bool lull_thread_idle_pending(void)
{
	return reclaim_pending();
}

exported bool lull_thread_idle_pending_own(void)
{
	return reclaim_pending_own();
}

exported size_t lull_collect(bool force)
{
	init_maybe();
	inside_enter();
	size_t bytes = reclaim_collect(force);
	inside_leave();
	scavenger_maybe_start();
	return bytes;
}
