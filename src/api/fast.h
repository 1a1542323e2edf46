/* SPDX-License-Identifier: MIT */
/*
 * The fast paths of malloc and free, inlined into each entry point (malloc, operator new, ...) so that the common case calls nothing and
 * sets up no frame. Whatever is not common is one jump to a function that starts over with the same argument. 14 instructions for malloc,
 * 20 for free. Functions that use these are marked inside_fast (inside.h).
 *
 * Any thread, at any time of the process's life: before the first malloc a thread runs on heap_empty, whose lists lead to the slow calls.
 */
#ifndef LULL_API_FAST_H
#define LULL_API_FAST_H

#include "base/base.h"
#include "heap/heap.h"

#define always_inline inline __attribute__((always_inline))

/* malloc.c: what the fast paths jump to. */
void *malloc_slow(size_t size) hidden;                             /* NULL with ENOMEM */
void free_slow(void *p) hidden;                                    /* any pointer */
/* The block was freed last before it is freed again: it is the first on the page's list. */
void free_twice(const struct page *page) hidden __attribute__((noreturn, cold));
void free_emptied(struct page *page) hidden;

/* page_pop, written out so that the offset is decoded once. NULL: the slow path's turn. */
static always_inline void *pop_from(struct page *page)
{
	uint64_t offset = page_first(page);
	if (unlikely(offset >= OFFSET_END))
		return NULL;
	char *block = page->start + offset;
	page->free = *(uint64_t *)block;
	page->used++;
	if (block == NULL)
		__builtin_unreachable(); /* saves callers the test */
	return block;
}

static always_inline void *fast_try(size_t size)
{
	if (unlikely(size > DIRECT_MAX))
		return NULL;
	return pop_from(heap_tls->by_size[size]);
}

/* A relaxed load that the compiler may fold into the comparison it feeds: gcc 12 keeps atomic loads apart, at an instruction each. The
 * word is aligned, so the load cannot be torn. */
#ifdef __SANITIZE_THREAD__
#define fast_load(word, type) atomic_load_explicit(&(word), memory_order_relaxed)
#else
#define fast_load(word, type) (*(type const *)&(word))
#endif

/* One block less in use. True when that was the last one or, after a double free, none was. Written out where the flags of the
 * subtraction itself can feed the jump; no compiler at hand finds that for a word in memory. */
static always_inline bool fast_unuse(struct page *page)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	bool none;

	__asm__("subl $1, %0" : "+m"(page->used), "=@ccle"(none));
	return none;
#else
	return (int32_t)--page->used <= 0;
#endif
}

static always_inline void fast_free(void *p)
{
	/* relaxed, twice: a pointer that was handed over carries its own ordering, and only the owner can find its own heap in tag */
	size_t slice = ((uintptr_t)p - region_primary.base) >> SLICE_SHIFT;
	if (unlikely(slice >= fast_load(region_primary.limit, size_t))) {
		free_slow(p);
		return;
	}
	struct page *page = (struct page *)(region_primary.records + slice * RECORD_SIZE);
	if (unlikely(fast_load(page->tag, struct heap *) != heap_tls)) {
		free_slow(p);
		return;
	}
	uint64_t first = page->free;
	*(uint64_t *)p = first;
	uint64_t link = (uint64_t)(uintptr_t)p ^ page->key;
	if (unlikely(first == link))
		free_twice(page);
	page->free = link;
	if (unlikely(fast_unuse(page)))
		free_emptied(page);
}

#endif
