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
	uint64_t way;                 /* which call returns memory now: 0 madvise loop, 1 process_madvise, 2 io_uring for large runs */
	uint64_t policy;              /* 0 default, 1 the seed system's */
	uint64_t kept_bytes;          /* gauge: free memory kept on purpose past the hold, under the floor, resident */
	uint64_t floor_bytes;         /* gauge: how much may be */
	uint64_t ghost_hits;          /* returned memory wanted again within the break-even time of 1 s, times */
	uint64_t ghost_bytes;         /* and bytes */
	uint64_t full_sweeps;         /* sweeps that looked at every page, changed or not */
	uint64_t busy_looks;          /* looks of threads that do not block at their own pages that found something to return */
	uint64_t idle_stages;         /* deeper collects because the whole process was quiet */
	uint64_t caps_low;            /* what the kernel allowed: see below */
	uint64_t caps_high;
	uint64_t ring_batches;        /* hand-overs to io_uring */
	uint64_t ring_bytes;          /* returned by it */
	uint64_t vector_bytes;        /* returned by process_madvise */
	uint64_t split_bytes;         /* split off huge pages before they were returned */
	uint64_t populated_bytes;     /* brought in ahead of the program's writes */
	uint64_t populate_calls;      /* kernel calls made for that */
	uint64_t populate_wasted_bytes; /* of those looked at later, found not written */
	uint64_t huge_bytes;          /* gauge: memory that may be in huge pages */
	uint64_t track_mode;          /* LULL_TRACK: 0 auto, 1 off, 2 full */
	uint64_t track_state;         /* 0 rests: off, little memory or a process that does nothing; 1 watches for writes; 2 refused */
	uint64_t ws_epoch_bytes;      /* gauge: lull's memory written in one second, mean of the last ten; 0: not known or nothing */
	uint64_t ws_10s_bytes;        /* gauge: in the last finished ten seconds, each OS page once; 0 as above */
	uint64_t ws_60s_bytes;        /* gauge: in the last finished minute; 0 as above */
	uint64_t resident_bytes;      /* gauge: of memory for blocks: counted at most once in ten seconds, and what was
	                               * taken and given back since; 0: not counted */
	uint64_t track_faults;        /* faults caused by watching */
	uint64_t track_us;            /* processor time it cost, those faults included, microseconds */
	uint64_t moved_bytes;         /* by realloc, as OS pages instead of copied */
};

/* Three bits for each capability, the lowest first, LULL_STATS_CAPS_WORD of them in a word, as `lull doctor PID` lists them by name:
 * 0 not asked, 1 live, 2 absent, 3 not permitted, 4 broken, 5 off. The order is that of enum cap (src/kernel/caps.h), appended to only.
 * Bit 60 of caps_high: the program installed a system call filter, and lull makes no call but mmap, munmap, mprotect, madvise, futex. */
#define LULL_STATS_CAPS_WORD 20
#define LULL_STATS_CAPS_MINIMAL (UINT64_C(1) << 60)

/* Fills *ret with this process's numbers; size is sizeof(*ret) of the caller. Any thread; looks at each region under its lock;
 * does not enter the kernel. */
void lull_stats_read(struct lull_stats *ret, uint32_t size);

#ifdef __cplusplus
}
#endif
#endif
