/* SPDX-License-Identifier: MIT */
/*
 * lull: the statistics page.
 *
 * One struct lull_stats sits at the start of a sealed memfd named "lull-stats" in every process that runs under lull; a reader
 * finds it as /proc/PID/fd/N -> /memfd:lull-stats and maps it read-only. A second OS page holds the control word. Counters
 * only grow; gauges move both ways. Fields are plain 64-bit words written with relaxed atomic stores: each is exact, a set of
 * them is not a snapshot.
 */
#ifndef LULL_STATS_H
#define LULL_STATS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LULL_STATS_MEMFD_NAME "lull-stats"
#define LULL_STATS_MAGIC 0x535441544c4c554cULL
#define LULL_STATS_VERSION 1

struct lull_stats {
	uint64_t magic;               /* LULL_STATS_MAGIC once the page is filled */
	uint32_t version;             /* LULL_STATS_VERSION; fields are only ever appended */
	uint32_t size_bytes;          /* sizeof(struct lull_stats) of the writer */
	uint64_t pid;                 /* the writer's pid in its own pid namespace */
	/* gauges, bytes */
	uint64_t reserved_bytes;      /* address space reserved for blocks */
	uint64_t committed_bytes;     /* of it usable (read-write) */
	uint64_t in_pages_bytes;      /* slices that belong to pages, free blocks in them included */
	uint64_t dirty_bytes;         /* free slices not yet returned: resident, waiting for their age */
	uint64_t away_bytes;          /* holes in pages: returned to the kernel and not taken into use since */
	/* counters */
	uint64_t returned_bytes;      /* accepted by the kernel, ever */
	uint64_t return_calls;        /* kernel calls made to return memory */
	uint64_t return_failed_bytes; /* refused by the kernel: still resident, tried again later */
	uint64_t refaulted_bytes;     /* away memory taken into use again */
	uint64_t sweeps;              /* heaps looked over for holes */
	uint64_t swept_pages;         /* pages looked over */
	uint64_t parks;               /* blocking calls around which a thread parked */
	uint64_t scavenger_wakes;     /* times the scavenger was woken or timed out */
	uint64_t threads_started;     /* heaps attached to threads, ever */
	uint64_t heaps;               /* gauge: heaps in existence */
	uint64_t heaps_orphaned;      /* gauge: heaps whose thread ended, waiting for adoption */
	uint64_t late_bytes;          /* gauge: blocks freed by other threads into pages of threads that sleep unseen, not yet given back */
	uint64_t way;                 /* which call returns memory now: 0 madvise loop, 1 process_madvise */
	uint64_t policy;              /* 0 default, 1 the seed system's */
	uint64_t kept_bytes;          /* gauge: free memory kept on purpose past the hold, under the floor, resident */
	uint64_t floor_bytes;         /* gauge: how much may be */
	uint64_t ghost_hits;          /* returned memory wanted again within the break-even time of 1 s, times */
	uint64_t ghost_bytes;         /* and bytes */
	uint64_t full_sweeps;         /* sweeps that looked at every page, changed or not */
	uint64_t busy_looks;          /* looks of threads that do not block at their own pages that found something to return */
	uint64_t idle_stages;         /* deeper collects because the whole process was quiet */
};

/* Fills *ret with this process's numbers; size is sizeof(*ret) of the caller. Any thread; looks at each region under its lock;
 * does not enter the kernel. */
void lull_stats_read(struct lull_stats *ret, uint32_t size);

#ifdef __cplusplus
}
#endif
#endif
