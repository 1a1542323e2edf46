/* SPDX-License-Identifier: MIT */
/*
 * The aligned calls, each as glibc 2.36 answers it (malloc/malloc.c there: _mid_memalign, __posix_memalign, __libc_pvalloc), since that is
 * what programs were tried with: an alignment that is no power of two is rounded up, only posix_memalign refuses it; one that cannot be
 * rounded up is EINVAL; every other refusal is ENOMEM. posix_memalign answers by its result and leaves errno as it was.
 *
 * Any thread.
 */
#include "api/fast.h"
#include "api/init.h"
#include "api/inside.h"
#include "reclaim/reclaim.h"

#include <lull/malloc.h>

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

/* What every block has by itself. */
#define ALIGN_ALWAYS ((size_t)16)

/* align: a power of two. NULL when there is no memory; errno is the caller's business. */
static void *alloc_aligned(size_t align, size_t size)
{
	init_maybe();
	inside_enter();
	void *p = heap_alloc_aligned(size, align);
	if (unlikely(p == NULL && size <= PTRDIFF_MAX && align <= PTRDIFF_MAX)) {
		reclaim_collect(true);
		p = heap_alloc_aligned(size, align);
	}
	inside_leave();
	scavenger_maybe_start();
	return p;
}

/* align: at most SIZE_MAX / 2 + 1, the largest power of two */
static size_t round_up_pow2(size_t align)
{
	return is_pow2(align) ? align : (size_t)2 << bit_highest(align);
}

exported void *lull_memalign(size_t align, size_t size)
{
	if (align <= ALIGN_ALWAYS)
		return lull_malloc(size);
	if (align > SIZE_MAX / 2 + 1) {
		errno = EINVAL;
		return NULL;
	}
	void *p = alloc_aligned(round_up_pow2(align), size);
	if (p == NULL)
		errno = ENOMEM;
	return p;
}

exported void *lull_aligned_alloc(size_t align, size_t size)
{
	return lull_memalign(align, size);
}

exported int lull_posix_memalign(void **ret, size_t align, size_t size)
{
	if (!is_pow2(align) || align < sizeof(void *))
		return EINVAL;
	void *p = alloc_aligned(max_size(align, ALIGN_ALWAYS), size);
	if (p == NULL)
		return ENOMEM;
	*ret = p;
	return 0;
}

exported void *lull_valloc(size_t size)
{
	return lull_memalign(OS_PAGE_SIZE, size);
}

exported void *lull_pvalloc(size_t size)
{
	if (size > PTRDIFF_MAX) { /* before the rounding can wrap */
		errno = ENOMEM;
		return NULL;
	}
	return lull_memalign(OS_PAGE_SIZE, align_up(size, OS_PAGE_SIZE));
}

#if LULL_OVERRIDE

#define SAME_AS(name) exported __attribute__((alias(#name), copy(name)))

SAME_AS(lull_memalign) void *memalign(size_t align, size_t size);
SAME_AS(lull_aligned_alloc) void *aligned_alloc(size_t align, size_t size);
SAME_AS(lull_posix_memalign) int posix_memalign(void **ret, size_t align, size_t size);
SAME_AS(lull_valloc) void *valloc(size_t size);
SAME_AS(lull_pvalloc) void *pvalloc(size_t size);

#endif
