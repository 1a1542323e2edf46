/* SPDX-License-Identifier: MIT */
/*
 * A program that locks its memory, in the three forms of mlockall: what is there now (MCL_CURRENT), all that comes (MCL_FUTURE), and all
 * that comes as it is touched (MCL_FUTURE|MCL_ONFAULT). Memory locked for good stays and nothing else is claimed; memory locked as it
 * is touched goes back.
 */
#include "fallback/returns.h"

static void lock(int flags)
{
	if (mlockall(flags) != 0)
		fact_skip("mlockall: RLIMIT_MEMLOCK is too small");
}

/* What lull maps later is not locked; what it had is. */
static void lock_current(void)
{
	size_t n = returns_fill(3000);

	lock(MCL_CURRENT);
	returns_free_most(n);
	stress_collect(true);
	returns_calloc_again(n, 3000);
	returns_all_sizes();
}

static void lock_future(void)
{
	lock(MCL_CURRENT | MCL_FUTURE);
	fact(returns_all_sizes() == 0, "nothing of it is said to have gone");
}

static void lock_future_alone(void)
{
	lock(MCL_FUTURE);
	fact(returns_all_sizes() == 0, "nothing of it is said to have gone");
}

static void lock_on_fault(void)
{
	lock(MCL_FUTURE | MCL_ONFAULT);
	fact(returns_all_sizes() > RETURNS_BYTES, "most of it went");
}

int main(int argc, char **argv)
{
	stress_begin(argc, argv, "locked");
	returns_in_child("MCL_CURRENT", lock_current);
	returns_in_child("MCL_FUTURE", lock_future_alone);
	returns_in_child("MCL_CURRENT|MCL_FUTURE", lock_future);
	returns_in_child("MCL_FUTURE|MCL_ONFAULT", lock_on_fault);
	return 0;
}
