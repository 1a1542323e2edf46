/* SPDX-License-Identifier: MIT */
/*
 * Finding and mapping the statistics page of another process (lull/stats.h). The other process is not trusted: its page is used only
 * when its size is sealed, so that reading it can never fault.
 */
#ifndef LULL_TOOLS_STATS_MAP_H
#define LULL_TOOLS_STATS_MAP_H

#include <lull/stats.h>

#include <stdbool.h>

enum stats_map_result {
	STATS_MAP_OK,
	STATS_MAP_NONE,     /* the process has no such page: not under lull */
	STATS_MAP_FOREIGN,  /* it has one, of another process: made by a bare clone, which runs no fork handlers */
	STATS_MAP_VERSION,  /* it has one, of a layout this command does not know */
	STATS_MAP_DAMAGED,  /* it has one, not sealed or not filled in */
	STATS_MAP_REFUSED,  /* errno says why we may not look */
};

/*
 * process    descriptor from procfs_open
 * own_pid    the process's pid in its own pid namespace, or 0 when not known: the page must be that process's own
 * is_live    false for a recorded tree, whose pages are plain files without seals
 * ret        on STATS_MAP_OK the page as it is now, word by word; fields its writer did not have yet read TABLE_UNKNOWN;
 *            on STATS_MAP_FOREIGN and STATS_MAP_VERSION only its head
 */
enum stats_map_result stats_map_read(int process, uint64_t own_pid, bool is_live, struct lull_stats *ret);

#endif
