/* SPDX-License-Identifier: MIT */
/*
 * One batch of holes returned to the kernel one way: what a contained run of `lull measure return` does. The engine measured is the one
 * this command is linked with (kernel/advise.h); what an application thread pays is measured through lull as a program uses it.
 */
#ifndef LULL_TOOLS_RETURN_RUN_H
#define LULL_TOOLS_RETURN_RUN_H

#include "common/say.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum return_way {
	RETURN_MADVISE,   /* one call for each hole */
	RETURN_VECTOR,    /* process_madvise with all of them */
	RETURN_URING,     /* io_uring: the kernel's threads do the work */
	RETURN_HAND_OVER, /* lull_thread_idle: lull's thread does it */
	RETURN_AUTO,      /* as lull chooses for this batch */
	RETURN_WAYS,
};

/* Returned by these, a bit each. */
enum { RETURN_BY_MADVISE = 1, RETURN_BY_VECTOR = 2, RETURN_BY_URING = 4, RETURN_BY_ALL = 8 };

struct return_plan {
	enum return_way way;
	size_t hole_bytes; /* a multiple of the OS page size */
	unsigned holes;
	bool busy;         /* a thread of this process keeps another processor busy meanwhile */
};

/* About all holes together. All numbers first, for the medians. */
struct return_answer {
	uint64_t caller_ns;      /* until the caller goes on */
	uint64_t caller_cpu_ns;  /* its processor time until then: it may have stood aside for the kernel's workers */
	uint64_t total_ns;       /* until the kernel has answered for all; hand-over: UINT64_MAX, it waits its time */
	uint64_t cpu_ns;         /* of all threads, the kernel's workers too */
	uint64_t usage_bytes;    /* the cgroup's use fell by, or UINT64_MAX */
	uint64_t rss_bytes;      /* resident memory fell by */
	uint64_t accepted_bytes; /* the kernel said yes to */
	uint64_t by;             /* RETURN_BY_ bits */
	uint64_t absent;         /* not 0: this way is not there, for the reason below */
	char reason[120];
};

const char *return_way_name(enum return_way way);

/* plan: struct return_plan; ret: struct return_answer. */
enum tool_exit return_run(const void *plan, void *ret);

enum huge_way {
	HUGE_DONTNEED, /* MADV_DONTNEED alone */
	HUGE_SPLIT,    /* as lull does: split off first */
	HUGE_WAYS,
};

struct huge_plan {
	enum huge_way way;
	size_t bytes; /* a multiple of 2 MiB; the second half of each huge page is returned */
};

struct huge_answer {
	uint64_t rss_bytes;     /* resident memory fell by */
	uint64_t usage_bytes;   /* the cgroup's use fell by, or UINT64_MAX */
	uint64_t rewrite_bytes; /* the cgroup's use once the half was written again, less that before it was returned; may be below 0 */
	uint64_t absent;
	char reason[120];
};

const char *huge_way_name(enum huge_way way);

/* plan: struct huge_plan; ret: struct huge_answer. */
enum tool_exit huge_run(const void *plan, void *ret);

#endif
