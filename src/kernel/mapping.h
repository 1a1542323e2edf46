/* SPDX-License-Identifier: MIT */
/*
 * What is mapped where in this process, from /proc/self/maps, and which OS pages of a private mapping are copies of its own, from
 * /proc/self/pagemap. The text is read in pieces into a small buffer on the stack and never kept: its lines may be of any length.
 *
 * No state. Any thread, signal handlers too; the answer is as good as the mappings stay what they are.
 */
#ifndef LULL_KERNEL_MAPPING_H
#define LULL_KERNEL_MAPPING_H

#include "base/base.h"

struct mapping {
	uintptr_t start, end;
	bool can_write;
	bool is_shared;
	bool is_file; /* has an inode; false: anonymous, a stack, the vdso and the like */
};

/* One pass over the text of a maps file, for one range. judge is asked of every mapping that overlaps: 0, it will do; else -errno, which
 * ends the scan. */
struct mapping_scan {
	uintptr_t next, end;    /* of the range: what no mapping has covered yet; when all is covered, next is where the last one ends */
	int (*judge)(const struct mapping *mapping);
	struct mapping mapping; /* the line being read */
	unsigned field;         /* where in it */
	unsigned column;        /* and where in that field */
	uint64_t number;
};

void mapping_scan_begin(struct mapping_scan *scan, uintptr_t addr, size_t len, int (*judge)(const struct mapping *mapping)) hidden;
/* The next N bytes of the text. 1: mappings without a gap cover the range, and all of them will do. 0: the answer needs more of the
 * text; at its end that means -ENOMEM. Else -ENOMEM for a gap, the judge's answer, or -ENOSYS: this is no such text. */
int mapping_scan_feed(struct mapping_scan *scan, const char *text, size_t n) hidden;

/*
 * Judge what is mapped in a range of this process.
 *
 * ret_end   where the mapping ends that the last byte is in
 *
 * Returns 0, -ENOMEM when a part is not mapped, the judge's answer, or -ENOSYS where that cannot be read.
 */
int mapping_check(uintptr_t addr, size_t len, int (*judge)(const struct mapping *mapping), uintptr_t *ret_end) hidden;

/* An entry of pagemap (Documentation/admin-guide/mm/pagemap.rst): the OS page is in memory (63) or swapped out (62), and is not the
 * file's own (61). Of a private mapping of a file that is a copy made by a write. */
static inline bool mapping_is_copy(uint64_t entry)
{
	return entry >> 62 != 0 && (entry >> 61 & 1) == 0;
}

/* addr, len: whole OS pages of private mappings. 1 when one of them is a copy, 0 when none is, -ENOSYS where that cannot be read. */
int mapping_has_copies(uintptr_t addr, size_t len) hidden;

#endif
