/* SPDX-License-Identifier: MIT */
/*
 * Which OS pages were written since the last look: a userfaultfd that only records (UFFD_FEATURE_WP_ASYNC), armed and read through
 * /proc/self/pagemap (PAGEMAP_SCAN). Arming makes the next write to a page one fault; nothing else in the program notices. Both descriptors
 * may be closed by the program at any time; the recording is then over, and so it is in a fork child.
 *
 * One thread at a time: the caller has a lock.
 */
#ifndef LULL_KERNEL_TRACK_H
#define LULL_KERNEL_TRACK_H

#include "base/base.h"

struct track_seen {
	size_t present; /* OS pages in memory */
	size_t written; /* of them: not armed, or written since. Those of huge pages count as written: they cannot be armed */
};

/* True when it is open now. False: this kernel does not let us, or not just now. */
bool track_open(void) hidden;
/* Still open, and still ours. */
bool track_is_open(void) hidden;
/* Everything recorded is forgotten, mappings are as before it was opened. Harmless when it is not open; also in a fork child, for the
 * copies of the parent's descriptors, without effect on the parent. */
void track_close(void) hidden;

/* Of a range of anonymous memory: may be armed from now on. Harmless when it may already. */
bool track_watch(char *addr, size_t len) hidden;

/* What of it is present, written and no part of a huge page is armed. Memory that is not there is not touched: the tables for it would
 * cost memory. Returns OS pages armed, or -errno. */
long track_arm(char *addr, size_t len) hidden;

/* Count; changes nothing. 0 or -errno. ret is added to. Needs no track_watch. */
int track_look(char *addr, size_t len, struct track_seen *ret) hidden;

/* What one write to an armed page costs, and arming some pages side by side, nanoseconds, tried on memory of its own. False: could not. */
bool track_price(uint64_t *ret_fault_ns, uint64_t *ret_arm_ns) hidden;

#endif
