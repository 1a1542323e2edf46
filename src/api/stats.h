/* SPDX-License-Identifier: MIT */
/*
 * The public numbers: gathered from the layers that count them, on request or onto the page that others can look at.
 */
#ifndef LULL_API_STATS_H
#define LULL_API_STATS_H

#include "base/base.h"

/* LULL_STATS: whether there is to be a page. At start. */
void stats_publish(bool on) hidden;

/* One tick of the scavenger, on its thread: opens the page at the first one, then renews the numbers on it. */
void stats_tick(void) hidden;

/* fork; before all locks of the layers below. The child gets a page of its own. */
void stats_fork_prepare(void) hidden;
void stats_fork_done(bool child) hidden;

#endif
