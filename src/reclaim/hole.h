/* SPDX-License-Identifier: MIT */
/*
 * Holes: OS pages inside a page in use that hold nothing but free blocks. Finding one takes its blocks out of circulation and queues the
 * range; what the kernel answers decides whether they come back as away or as they were.
 */
#ifndef LULL_RECLAIM_HOLE_H
#define LULL_RECLAIM_HOLE_H

#include "kernel/advise.h"
#include "page/page.h"

/* Ranges one small page can have at most: every second of its OS pages. */
#define HOLE_RANGES_SMALL (SMALL_UNITS / 2)
/* And a medium or large page: every second block. */
#define HOLE_RANGES_BIG 32

/* The function for advise_batch_init of batches that hole_small and hole_big add to. */
void hole_done(const struct advise_range *range, bool ok) hidden;

/* Queue a range; what it needs where it may lie in huge pages is asked of the region. */
void hole_queue(struct advise_batch *batch, char *addr, size_t len, void *owner, uint64_t bits) hidden;

/* Queue all holes of a small page. Holder of its heap. Aborts on damaged links and on a block that is listed twice. */
void hole_small(struct advise_batch *batch, struct page *page) hidden;

/* Queue the resident free blocks of a medium or large page. Any thread; PAGE may be anything: what is no such page is left alone.
 * gone_ms: when they were in use last, see struct page. */
void hole_big(struct advise_batch *batch, struct page *page, uint32_t gone_ms) hidden;
/* How much of that is resident, as the kernel counts: bytes, a multiple of the OS page size. Any thread; a look, no more. */
size_t hole_big_resident(const struct page *page) hidden;
/* The same for LEN bytes at ADDR, which are lull's. */
size_t hole_resident(const char *addr, size_t len) hidden;

#endif
