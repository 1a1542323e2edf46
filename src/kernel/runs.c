/* SPDX-License-Identifier: MIT */
/*
 * Heap sort twice: ranges by address, runs by size. Sweeps mostly queue in address order already.
 */
#include "kernel/runs.h"

#include <string.h>

/* Larger than each of the things sorted here. */
#define ITEM_MAX 64

struct items {
	char *base;
	size_t size;
	bool (*before)(const void *a, const void *b);
};

static char *item(const struct items *items, size_t i)
{
	return items->base + i * items->size;
}

static void swap(const struct items *items, size_t i, size_t j)
{
	char saved[ITEM_MAX];

	memcpy(saved, item(items, i), items->size);
	memcpy(item(items, i), item(items, j), items->size);
	memcpy(item(items, j), saved, items->size);
}

static bool before(const struct items *items, size_t i, size_t j)
{
	return items->before(item(items, i), item(items, j));
}

/* Let the item at ROOT sink until no child of it belongs behind it. */
static void sink(const struct items *items, size_t root, size_t n)
{
	size_t child;

	while ((child = 2 * root + 1) < n) {
		if (child + 1 < n && before(items, child, child + 1))
			child++;
		if (!before(items, root, child))
			return;
		swap(items, root, child);
		root = child;
	}
}

static bool is_sorted(const struct items *items, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (before(items, i, i - 1))
			return false;
	return true;
}

static void sort(const struct items *items, size_t n)
{
	if (is_sorted(items, n))
		return;
	for (size_t i = n / 2; i-- > 0;)
		sink(items, i, n);
	for (size_t end = n; end-- > 1;) {
		swap(items, 0, end);
		sink(items, 0, end);
	}
}

static bool range_before(const void *a, const void *b)
{
	return ((const struct advise_range *)a)->addr < ((const struct advise_range *)b)->addr;
}

static bool run_before(const void *a, const void *b)
{
	const struct advise_run *run_a = a, *run_b = b;

	return run_a->len != run_b->len ? run_a->len > run_b->len : run_a->first < run_b->first;
}

static bool goes_on(const struct advise_run *run, const struct advise_range *range)
{
	return run->addr + run->len == range->addr && run->huge == range->huge;
}

size_t runs_make(struct advise_run *run, struct advise_range *range, size_t n)
{
	size_t runs = 0;

	_Static_assert(sizeof(*run) <= ITEM_MAX && sizeof(*range) <= ITEM_MAX, "room to swap");
	sort(&(struct items){.base = (char *)range, .size = sizeof(*range), .before = range_before}, n);
	for (size_t i = 0; i < n; i++) {
		if (runs == 0 || !goes_on(&run[runs - 1], &range[i]))
			run[runs++] = (struct advise_run){.addr = range[i].addr, .first = (uint32_t)i, .huge = range[i].huge};
		run[runs - 1].len += range[i].len;
		run[runs - 1].n++;
	}
	sort(&(struct items){.base = (char *)run, .size = sizeof(*run), .before = run_before}, runs);
	return runs;
}
