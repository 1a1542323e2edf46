/* SPDX-License-Identifier: MIT */
/*
 * malloc, free and what is made of these two. The heap layer knows neither errno nor second tries: here an allocation that fails is tried
 * once more after everything that can be returned was returned, and errno is set where the standards ask for it and left alone where
 * they do not (free).
 *
 * Any thread.
 */
#include "api/fast.h"
#include "api/init.h"
#include "api/inside.h"
#include "kernel/report.h"
#include "reclaim/reclaim.h"

#include <lull/malloc.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- slow paths ----------------------------------------------------------------------------------------------------------------- */

/* Once more after a forced collect; a size no machine has is refused at once. */
static void *alloc_again(size_t size, void *(*alloc)(size_t size))
{
	void *p = NULL;

	if (size <= PTRDIFF_MAX) {
		reclaim_collect(true);
		p = alloc(size);
	}
	if (p == NULL)
		errno = ENOMEM;
	return p;
}

static always_inline void *alloc_slow(size_t size, void *(*alloc)(size_t size))
{
	init_maybe();
	inside_enter();
	void *p = alloc(size);
	if (unlikely(p == NULL))
		p = alloc_again(size, alloc);
	reclaim_look_maybe();
	inside_leave();
	scavenger_maybe_start();
	return p;
}

/* Small sizes past the table of the fast path: the same steps, with the class computed. */
static inside_fast void *try_class(size_t size)
{
	return pop_from(heap_tls->current[sizeclass_of(size)]);
}

noinline void *malloc_slow(size_t size)
{
	if (size > DIRECT_MAX && size <= SMALL_MAX) {
		void *p = try_class(size);
		if (p != NULL)
			return p;
	}
	return alloc_slow(size, heap_alloc_slow);
}

static noinline void *calloc_slow(size_t size)
{
	return alloc_slow(size, heap_alloc_zero);
}

noinline void free_slow(void *p)
{
	if (p == NULL)
		return;
	init_maybe();
	inside_enter();
	heap_free_slow(p);
	inside_leave();
	scavenger_maybe_start();
}

static noinline void free_emptied_slow(struct page *page)
{
	heap_page_emptied(page);
	inside_leave();
	scavenger_maybe_start();
}

/* Without a gap between the fast path, which has emptied the page, and the count that says that it is not finished. */
inside_fast void free_emptied(struct page *page)
{
	inside_enter();
	free_emptied_slow(page);
}

noinline void free_twice(const struct page *page)
{
	report_misuse("double free", page->start + page_first(page));
}

/* --- malloc, calloc, free ------------------------------------------------------------------------------------------------------- */

inside_fast exported void *lull_malloc(size_t size)
{
	void *p = fast_try(size);

	return likely(p != NULL) ? p : malloc_slow(size);
}

inside_fast exported void lull_free(void *p)
{
	fast_free(p);
}

static noinline void *calloc_small_slow(size_t bytes)
{
	void *p = malloc_slow(bytes);

	return likely(p != NULL) ? memset(p, 0, bytes) : NULL;
}

/* Free small blocks carry links, so these are always cleared; larger ones may be known to be zero. */
inside_fast exported void *lull_calloc(size_t count, size_t size)
{
	size_t bytes;

	if (unlikely(__builtin_mul_overflow(count, size, &bytes)))
		bytes = SIZE_MAX; /* refused as any size above PTRDIFF_MAX is */
	if (bytes > DIRECT_MAX)
		return calloc_slow(bytes);
	void *p = fast_try(bytes);
	return likely(p != NULL) ? memset(p, 0, bytes) : calloc_small_slow(bytes);
}

/* C23. The size is the caller's word for what we know already. */
inside_fast exported void lull_free_sized(void *p, size_t size)
{
	(void)size;
	fast_free(p);
}

inside_fast exported void lull_free_aligned_sized(void *p, size_t align, size_t size)
{
	(void)align;
	(void)size;
	fast_free(p);
}

exported size_t lull_malloc_usable_size(const void *p)
{
	return heap_usable(p);
}

/* --- realloc -------------------------------------------------------------------------------------------------------------------- */

/* From here on blocks are moved by their OS pages (heap_move). Measured (tests/bench/realloc): 20 to 80 times cheaper than copying to fresh
 * memory at 1 MiB already, but finding out that it may be done means reading a list of mappings, and each is a mapping more. */
#define MOVE_BYTES_MIN MIB

/* Put the first BYTES of P into a new block of SIZE bytes, *ret (NULL: there is no memory), without copying. True: they are there, and P is
 * only good to be freed; false: they are to be copied. */
static bool move(void *p, size_t size, size_t bytes, void **ret)
{
	enum move_result result = MOVE_LOST;

	*ret = alloc_slow(size, heap_alloc_to_fill);
	if (*ret == NULL)
		return false;
	inside_enter();
	result = heap_move(*ret, p);
	if (result == MOVE_REFUSED)
		heap_bring_in(*ret, bytes);
	inside_leave();
	if (unlikely(result == MOVE_LOST))
		*ret = lull_malloc(size);
	return result == MOVE_DONE;
}

static void *realloc_moved(void *p, size_t size)
{
	size_t bytes = min_size(heap_usable(p), size);
	bool done = false;
	void *moved;

	if (bytes >= MOVE_BYTES_MIN)
		done = move(p, size, bytes, &moved);
	else
		moved = lull_malloc(size);
	if (moved == NULL)
		return NULL;
	if (!done)
		memcpy(moved, p, bytes);
	lull_free(p);
	return moved;
}

exported void *lull_realloc(void *p, size_t size)
{
	if (p == NULL)
		return lull_malloc(size);
	if (size == 0) {
		lull_free(p);
		return NULL;
	}
	inside_enter();
	bool done = heap_resize_in_place(p, size);
	inside_leave();
	if (done)
		return p;
	return realloc_moved(p, size);
}

exported void *lull_reallocarray(void *p, size_t count, size_t size)
{
	size_t bytes;

	if (unlikely(__builtin_mul_overflow(count, size, &bytes))) {
		errno = ENOMEM;
		return NULL;
	}
	return lull_realloc(p, bytes);
}

/* --- the standard names --------------------------------------------------------------------------------------------------------- */

#if LULL_OVERRIDE

#define SAME_AS(name) exported __attribute__((alias(#name), copy(name)))

SAME_AS(lull_malloc) void *malloc(size_t size);
SAME_AS(lull_free) void free(void *p);
SAME_AS(lull_calloc) void *calloc(size_t count, size_t size);
SAME_AS(lull_realloc) void *realloc(void *p, size_t size);
SAME_AS(lull_reallocarray) void *reallocarray(void *p, size_t count, size_t size);
SAME_AS(lull_malloc_usable_size) size_t malloc_usable_size(void *p);
SAME_AS(lull_free_sized) void free_sized(void *p, size_t size);
SAME_AS(lull_free_aligned_sized) void free_aligned_sized(void *p, size_t align, size_t size);

#endif
