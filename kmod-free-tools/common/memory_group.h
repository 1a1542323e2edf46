/* SPDX-License-Identifier: MIT */
/*
 * The memory cgroup a measurement runs in: a new one below or beside this process's own where that is permitted, so that nobody else's
 * memory is counted, else its own, else none. Both versions of cgroups; hybrid hosts, where memory is version 1's.
 */
#ifndef LULL_TOOLS_MEMORY_GROUP_H
#define LULL_TOOLS_MEMORY_GROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct memory_group {
	char path[PATH_MAX]; /* its folder; empty: there is none to be found */
	bool is_v1;
	bool is_new;         /* made here, to be removed */
};

/* Finds or makes one. */
void memory_group_open(struct memory_group *ret);

/* Moves the calling process in. No effect but for a new one. False with errno set. */
bool memory_group_enter(const struct memory_group *group);

/* Bytes in use as the kernel counts them against the limit, or UINT64_MAX. */
uint64_t memory_group_usage(const struct memory_group *group);

/* Removes a new one; every process that entered must have been waited for. False with errno set: it is still there. */
bool memory_group_close(struct memory_group *group);

#endif
