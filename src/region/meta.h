/* SPDX-License-Identifier: MIT */
/*
 * Memory for lull's own records that live as long as the process: heaps, regions, bitmaps. Zero when handed out, never given back.
 */
#ifndef LULL_REGION_META_H
#define LULL_REGION_META_H

#include "base/base.h"

/* len: bytes. Returns zeroed memory aligned to 128 bytes, or NULL when the kernel refuses. Any thread. */
void *meta_alloc(size_t len) hidden;
void meta_fork_prepare(void) hidden;
void meta_fork_done(bool child) hidden;

#endif
