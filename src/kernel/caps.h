/* SPDX-License-Identifier: MIT */
/*
 * What this kernel offers us beyond the calls every allocator makes. Each capability is asked for once, when first needed, by doing
 * the real thing in small in a child that shares our memory: a system call filter may kill instead of refuse, and then only the
 * child is gone. The answer is kept for the life of the process and its forks (both run under the same kernel and filter).
 *
 * Any thread. Two threads asking at the same time both probe and come to the same answer.
 */
#ifndef LULL_KERNEL_CAPS_H
#define LULL_KERNEL_CAPS_H

#include "base/base.h"

/* The order is part of the statistics page (lull/stats.h): append only, whatever the headings say. */
enum cap {
	/* returning memory */
	CAPS_DONTNEED,             /* madvise(MADV_DONTNEED) really empties memory: it reads as zero afterwards */
	CAPS_PROCESS_MADVISE,      /* process_madvise(MADV_DONTNEED) on ourselves */
	CAPS_PROCESS_MADVISE_COLD, /* the same with MADV_COLD */
	CAPS_DONTNEED_LOCKED,      /* MADV_DONTNEED_LOCKED */
	CAPS_FREE,                 /* MADV_FREE */
	CAPS_COLD,                 /* MADV_COLD */
	CAPS_URING,                /* a ring of io_uring that needs no descriptor of ours (IORING_REGISTER_RING_FDS) */
	CAPS_URING_MADVISE,        /* IORING_OP_MADVISE on it */
	CAPS_URING_POLL,           /* IORING_OP_POLL_ADD */
	CAPS_URING_FUTEX,          /* IORING_OP_FUTEX_WAIT */
	/* taking it back, moving it */
	CAPS_POPULATE,             /* MADV_POPULATE_WRITE */
	CAPS_HUGE_PAGES,           /* MADV_HUGEPAGE gives a huge page */
	CAPS_MREMAP,               /* mremap(MREMAP_DONTUNMAP) */
	CAPS_GUARD_PAGES,          /* MADV_GUARD_INSTALL */
	CAPS_VMA_NAME,             /* PR_SET_VMA_ANON_NAME */
	/* what is there, what is used */
	CAPS_MINCORE,              /* which OS pages are resident */
	CAPS_PAGEMAP_SCAN,         /* the PAGEMAP_SCAN ioctl of /proc/self/pagemap */
	CAPS_UFFD,                 /* userfaultfd, by its system call with UFFD_USER_MODE_ONLY */
	CAPS_UFFD_DEV,             /* userfaultfd, by /dev/userfaultfd */
	CAPS_UFFD_WP_ASYNC,        /* UFFD_FEATURE_WP_ASYNC: which OS pages were written, without a handler */
	CAPS_UFFD_MOVE,            /* UFFDIO_MOVE */
	CAPS_UFFD_RWP,             /* UFFD_FEATURE_RWP_ASYNC: which were read or written */
	/* the rest */
	CAPS_SYSINFO,              /* how much memory there is */
	CAPS_PSI,                  /* /proc/pressure/memory or the own cgroup's memory.pressure can be read */
	CAPS_MEMBARRIER,           /* membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) */
	CAPS_MEMFD,                /* memfd_create: the statistics page */
	CAPS_THREAD,               /* a thread of our own */
	CAPS_THREAD_NAME,          /* PR_SET_NAME for it */
	CAPS_PROC,                 /* files in /proc can be opened and read */
	CAPS_COUNT
};

enum cap_state {
	CAP_STATE_UNKNOWN,       /* not asked yet */
	CAP_STATE_LIVE,          /* works, its effect was seen */
	CAP_STATE_ABSENT,        /* this kernel does not have it */
	CAP_STATE_NOT_PERMITTED, /* it does, but not for us: rights, or a filter that refuses or kills */
	CAP_STATE_BROKEN,        /* failed in a way it should not, or said yes and did nothing */
	CAP_STATE_OFF            /* not to be asked: LULL_CAPS, or a filter the program installed */
};

/* Probes on the first call, enters the kernel only then. */
bool caps_has(enum cap cap) hidden;

/* Whether CAP can only be had with BASE. Either door to userfaultfd does: CAPS_UFFD stands for both. */
bool caps_stands_on(enum cap cap, enum cap base) hidden;

/* What is known so far; does not probe. What stands on another capability that is not live is as that one is. */
enum cap_state caps_state(enum cap cap) hidden;

/* Why CAP is not live: -errno of the call that was refused, CAPS_KILLED, or 0: it is live, not asked, off, or did nothing. */
int caps_reason(enum cap cap) hidden;
#define CAPS_KILLED 1

/* What CAP stands on: true and *ret one that is not live, when CAP can only be had with it. */
bool caps_lacks(enum cap cap, enum cap *ret) hidden;

/* Never probe or use CAP again. Wins over whatever was found. */
void caps_force_off(enum cap cap) hidden;

/* A filter of the program's is about to be installed: from here on nothing is asked or used but DONTNEED. Returns when no unusual call
 * counted by caps_begin is under way any more. For good. */
void caps_minimal(void) hidden;
bool caps_is_minimal(void) hidden;

/* Around calls that a filter of the program's may forbid at any moment and that no lock of ours covers. False: not to be made. */
bool caps_begin(void) hidden;
void caps_end(void) hidden;

/* The call behind CAP was refused in use with -ERR: remember, unless forced off. */
void caps_refused(enum cap cap, int err) hidden;

/* All states as the statistics page has them. */
void caps_pack(uint64_t *ret_low, uint64_t *ret_high) hidden;

/* Names for options and people: "process_madvise"; "live", "absent", "not permitted", "broken", "off", "not asked". */
const char *caps_name(enum cap cap) hidden;
const char *caps_state_name(enum cap_state state) hidden;

/* name: LEN bytes, not terminated. True and *ret set when it names a capability. */
bool caps_find(const char *name, size_t len, enum cap *ret) hidden;

#endif
