/* SPDX-License-Identifier: MIT */
/*
 * First no unusual call begins any more, then those under way are waited for: a filter may be put over all threads at once. Each pass, look
 * and statistics update runs under a lock of ours, so that whoever has had them all has seen them all end.
 *
 * The child of a vfork comes here too, and its parent, whose memory it has, is reduced with it: the other way round, a child with
 * memory of its own could not be told from it.
 */
#include "api/filter.h"

#include "api/fork.h"
#include "api/init.h"
#include "api/inside.h"
#include "kernel/caps.h"
#include "reclaim/reclaim.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>

static void await_calls_under_way(void)
{
	reclaim_scavenger_settle();
	inside_enter();
	fork_lock_all();
	fork_unlock_all();
	inside_leave();
}

static void expect_filter(void)
{
	init_maybe();
	caps_minimal();
	/* in a handler that interrupted a call of ours the locks may be this thread's own */
	if (!inside_slow_path())
		await_calls_under_way();
}

void filter_before_prctl(int option, unsigned long mode, unsigned long program)
{
	if (option != PR_SET_SECCOMP)
		return;
	if (mode == SECCOMP_MODE_STRICT || (mode == SECCOMP_MODE_FILTER && program != 0))
		expect_filter();
}

void filter_before_seccomp(unsigned long operation, unsigned long flags, unsigned long program)
{
	bool strict = operation == SECCOMP_SET_MODE_STRICT && flags == 0 && program == 0;

	if (strict || (operation == SECCOMP_SET_MODE_FILTER && program != 0))
		expect_filter();
}
