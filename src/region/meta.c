/* SPDX-License-Identifier: MIT */
/*
 * A bump allocator over reservations. Small requests share a reservation of META_RESERVE bytes that becomes usable step by step; a
 * large one (the bitmaps of a big region, touched sparsely) gets its own.
 */
#include "region/meta.h"

#include "kernel/lock.h"
#include "kernel/map.h"

/* A heap is 8 KiB: 4 MiB hold 500 threads; more is reserved when that is used up. */
#define META_RESERVE (4 * MIB)
#define META_STEP (64 * KIB)
#define META_ALIGN ((size_t)128)

static struct {
	struct lock lock;
	char *next;   /* next byte to hand out */
	char *usable; /* end of what is readable and writable */
	char *end;    /* end of the reservation */
} meta;

static void *meta_alloc_own(size_t len)
{
	len = align_up(len, OS_PAGE_SIZE);
	char *p = map_reserve(len, OS_PAGE_SIZE);
	if (p != NULL && !map_commit(p, len)) {
		map_release(p, len);
		p = NULL;
	}
	return p;
}

static bool meta_reserve(void)
{
	char *p = map_reserve(META_RESERVE, OS_PAGE_SIZE);
	if (p == NULL)
		return false;
	meta.next = meta.usable = p;
	meta.end = p + META_RESERVE;
	return true;
}

static void *meta_bump(size_t len)
{
	if ((size_t)(meta.end - meta.next) < len && !meta_reserve())
		return NULL;
	if ((size_t)(meta.usable - meta.next) < len) {
		size_t step = min_size(align_up(max_size(len, META_STEP), OS_PAGE_SIZE), (size_t)(meta.end - meta.usable));
		if (!map_commit(meta.usable, step))
			return NULL;
		meta.usable += step;
	}
	void *p = meta.next;
	meta.next += len;
	return p;
}

void *meta_alloc(size_t len)
{
	len = align_up(len, META_ALIGN);
	if (len >= META_STEP)
		return meta_alloc_own(len);
	lock_take(&meta.lock);
	void *p = meta_bump(len);
	lock_release(&meta.lock);
	return p;
}

void meta_fork_prepare(void)
{
	lock_take(&meta.lock);
}

void meta_fork_done(bool child)
{
	lock_fork_done(&meta.lock, child);
}
