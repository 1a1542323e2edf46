/* SPDX-License-Identifier: MIT */
/*
 * What the files of this folder share: the two kinds of queue, and heaps without a thread.
 */
#ifndef LULL_HEAP_INTERNAL_H
#define LULL_HEAP_INTERNAL_H

#include "heap/heap.h"

/* small.c; holder */
void *small_alloc(struct heap *heap, unsigned size_class) hidden;
void small_free(struct heap *heap, struct page *page, void *block) hidden;
void small_take_remote(struct heap *heap) hidden;
void small_push_remote(struct page *page, void *block) hidden; /* any thread */
void small_retire_empty(struct heap *heap) hidden;
/* A page with something to hand out, or NULL: off every list of HEAP, its owner still. */
struct page *small_give(struct heap *heap, unsigned size_class) hidden;

/* big.c; holder, but big_free: any thread */
void *big_alloc(struct heap *heap, unsigned size_class, bool *ret_clean) hidden;
void big_free(struct page *page, void *block) hidden;
void big_take_listed(struct heap *heap) hidden;
struct page *big_give(struct heap *heap, unsigned size_class) hidden;
/* PAGE becomes HEAP's: from now on it ages by its clock. */
void big_adopt(struct heap *heap, struct page *page) hidden;
/* Only pages of the first N medium and large classes. */
void big_retire_classes(struct heap *heap, unsigned n) hidden;

/* heap.c: bytes were freed that a pass could return; counted per thread, told to the bell in steps. */
void heap_note_freed(size_t bytes) hidden;

/* threads.c: a page of an ended thread with something to hand out, now HEAP's and on no list, or NULL. */
struct page *orphan_take_page(struct heap *heap, unsigned size_class) hidden;
/* For one call of a thread that has ended its own heap: any heap without a thread. NULL: no memory. */
struct heap *orphan_borrow(void) hidden;
void orphan_return(struct heap *heap) hidden;

#endif
