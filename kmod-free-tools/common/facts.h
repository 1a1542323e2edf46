/* SPDX-License-Identifier: MIT */
/*
 * What around a process decides what lull may do in it: knobs of the kernel, limits, filters and the container, as far as they can be read.
 * Under a recorded tree all of it is read below that.
 */
#ifndef LULL_TOOLS_FACTS_H
#define LULL_TOOLS_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FACT_TEXT 64
/* A number that could not be read. */
#define FACT_UNKNOWN (-1)
/* A limit that is none. */
#define FACT_UNLIMITED INT64_MAX

struct facts {
	char kernel[FACT_TEXT];
	char container[FACT_TEXT]; /* "none" or what it looks like */
	char lsm[FACT_TEXT];       /* the security module's word for the process, "none", or "?" */
	char thp[FACT_TEXT];       /* always, madvise, never, or "?" */
	char cgroup[FACT_TEXT];    /* "v2, read-write" */
	char psi[FACT_TEXT];       /* "none", "refused", "read-only", "read-write" */
	bool cgroup_is_read_only;
	int64_t seccomp;           /* 0 none, 1 strict, 2 filter */
	int64_t seccomp_filters;
	int64_t no_new_privs;
	int64_t cap_eff;           /* bits of capabilities(7) */
	int64_t io_uring_disabled, unprivileged_userfaultfd, overcommit_memory, max_map_count;
	int64_t limit_as, limit_nproc, limit_nofile, limit_memlock;
	int64_t swap_bytes;
};

/* capabilities(7), by number. */
#define FACT_CAP_SYS_PTRACE 19
#define FACT_CAP_SYS_ADMIN 21
#define FACT_CAP_SYS_RESOURCE 24

bool facts_has_cap(const struct facts *facts, int cap);

/* root: "" for the running system. process: descriptor from procfs_open. */
void facts_read(const char *root, int process, struct facts *ret);

#endif
