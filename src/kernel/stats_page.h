/* SPDX-License-Identifier: MIT */
/*
 * Where the statistics live so that others can look: a sealed memfd named "lull-stats", found under /proc/PID/fd, so the kernel's
 * ptrace rules decide who may. The mapping outlives the descriptor: a program that closes all its descriptors loses only the
 * way in from outside, never the memory.
 *
 * One per process. The caller sees to it that one thread at a time is here.
 */
#ifndef LULL_KERNEL_STATS_PAGE_H
#define LULL_KERNEL_STATS_PAGE_H

#include "base/base.h"

#include <lull/stats.h>

/* The struct and, an OS page further on, the control word. */
#define STATS_PAGE_BYTES (2 * OS_PAGE_SIZE)

/* Returns the page, zero but for magic, version, size and pid, to stay at its address for the life of the process and of its forks; the
 * same one on every call. NULL when anything was refused: then nothing is left open, and a later call tries anew. */
struct lull_stats *stats_page_open(void) hidden;

/* In a fork child, before it writes any statistics: the page at this address is the child's alone from here on, private and zero. It is
 * visible to others, with its own pid, once the child calls stats_page_open; the parent's is left as it is. */
void stats_page_renew(void) hidden;

/* Make such a page at AT, STATS_PAGE_BYTES of the caller's memory, and nothing else; for the probe. 0 or -errno. */
int stats_page_try(void *at) hidden;

#endif
