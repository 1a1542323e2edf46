/* SPDX-License-Identifier: MIT */
/*
 * How much of the memory in pages is in the program's hands: not counted anywhere, since malloc and free have no instruction to spare
 * for it, but found by a walk over all pages.
 */
#ifndef LULL_API_USAGE_H
#define LULL_API_USAGE_H

#include "base/base.h"

struct usage {
	uint64_t total_bytes; /* pages and dirty slices: what is or may be resident, and holes */
	uint64_t used_bytes;  /* blocks handed out, at the size of their class; <= total_bytes */
	uint64_t free_blocks; /* blocks in pages that are not */
	uint64_t dirty_bytes; /* free slices not yet returned */
};

/* About 1 ms per GiB in use. Any thread; others may allocate and free meanwhile, then the sums are of no one moment. */
struct usage usage_read(void) hidden;

#endif
