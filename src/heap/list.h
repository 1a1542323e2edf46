/* SPDX-License-Identifier: MIT */
/*
 * The lists of a heap: pages by class (first in, first out), and pages changed since they were last swept. Holder of the heap only.
 */
#ifndef LULL_HEAP_LIST_H
#define LULL_HEAP_LIST_H

#include "heap/heap.h"

static inline void list_append(struct page_list *list, struct page *page)
{
	page->next = NULL;
	page->prev = list->tail;
	if (list->tail != NULL)
		list->tail->next = page;
	else
		list->head = page;
	list->tail = page;
}

static inline void list_remove(struct page_list *list, struct page *page)
{
	if (page->prev != NULL)
		page->prev->next = page->next;
	else
		list->head = page->next;
	if (page->next != NULL)
		page->next->prev = page->prev;
	else
		list->tail = page->prev;
	page->next = page->prev = NULL;
}

static inline void changed_count(struct heap *heap, int more)
{
	uint32_t n = atomic_load_explicit(&heap->changed_n, memory_order_relaxed);
	atomic_store_explicit(&heap->changed_n, n + (uint32_t)more, memory_order_relaxed);
}

static inline void changed_add(struct heap *heap, struct page *page)
{
	page->changed_prev = NULL;
	page->changed_next = heap->changed;
	if (heap->changed != NULL)
		heap->changed->changed_prev = page;
	heap->changed = page;
	changed_count(heap, 1);
	atomic_store_explicit(&page->tag, heap, memory_order_relaxed);
}

static inline void changed_remove(struct heap *heap, struct page *page)
{
	if (page->changed_prev != NULL)
		page->changed_prev->changed_next = page->changed_next;
	else
		heap->changed = page->changed_next;
	if (page->changed_next != NULL)
		page->changed_next->changed_prev = page->changed_prev;
	page->changed_next = page->changed_prev = NULL;
	changed_count(heap, -1);
	atomic_store_explicit(&page->tag, NULL, memory_order_relaxed);
}

static inline bool is_changed(const struct page *page)
{
	return atomic_load_explicit(&page->tag, memory_order_relaxed) != NULL;
}

#endif
