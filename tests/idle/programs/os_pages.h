/* SPDX-License-Identifier: MIT */
/*
 * Which OS pages could go back, and which are back: exact, from the addresses of the blocks.
 *
 * Every block is noted before anything is freed, with whether it will be kept. An OS page is whole free when some block overlaps it
 * and no kept block does. It is back when the kernel has nothing there: neither present nor swapped in /proc/self/pagemap, which
 * every process may read for its own pages. The notes are in a mapping of their own, so that they are no blocks themselves.
 * os_pages_note: any thread; the rest: one thread.
 */
#ifndef OS_PAGES_H
#define OS_PAGES_H

#define STRESS_STANDARD_NAMES 1
#include "../../support/stress_util.h"

#include <sys/mman.h>

#define OS_PAGES_NOTES ((size_t)4 << 20)

/* number of the OS page times two, plus one if a kept block is there; after os_pages_find: the numbers of whole free ones */
static uint64_t *os_pages;
static _Atomic size_t os_pages_count;

__attribute__((unused)) static void *own_mapping(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		stress_fail("mmap of %zu bytes: %s", bytes, strerror(errno));
	return p;
}

static void os_pages_start(void)
{
	os_pages = own_mapping(OS_PAGES_NOTES * sizeof(*os_pages));
	atomic_store(&os_pages_count, 0);
}

static void os_pages_note(const void *p, size_t size, bool kept)
{
	uint64_t first = (uintptr_t)p / STRESS_OS_PAGE, last = ((uintptr_t)p + size - 1) / STRESS_OS_PAGE;
	size_t at = atomic_fetch_add(&os_pages_count, last - first + 1);
	if (at + (last - first) >= OS_PAGES_NOTES)
		stress_fail("more than %zu OS pages to note", OS_PAGES_NOTES);
	for (uint64_t page = first; page <= last; page++)
		os_pages[at++] = page * 2 + kept;
}

static void sift_down(uint64_t *items, size_t at, size_t count)
{
	uint64_t item = items[at];
	for (size_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && items[child + 1] > items[child])
			child++;
		if (items[child] <= item)
			break;
		items[at] = items[child];
	}
	items[at] = item;
}

/* Heap sort: libc's qsort takes memory from malloc. */
static void sort(uint64_t *items, size_t count)
{
	for (size_t at = count / 2; at-- > 0;)
		sift_down(items, at, count);
	for (size_t end = count; end-- > 1;) {
		uint64_t largest = items[0];
		items[0] = items[end];
		items[end] = largest;
		sift_down(items, 0, end);
	}
}

/* All notes are made: leaves the whole free OS pages in os_pages and returns how many they are. */
static size_t os_pages_find(void)
{
	size_t count = atomic_load(&os_pages_count), whole = 0;
	sort(os_pages, count);
	for (size_t at = 0; at < count;) {
		uint64_t page = os_pages[at] / 2, kept = 0;
		for (; at < count && os_pages[at] / 2 == page; at++)
			kept |= os_pages[at] & 1;
		if (!kept)
			os_pages[whole++] = page;
	}
	atomic_store(&os_pages_count, whole);
	return whole;
}

/* How many of `run` consecutive OS pages from `page` on are back. */
static size_t back_in_run(int pagemap, uint64_t page, size_t run)
{
	uint64_t entries[512];
	size_t back = 0;
	ssize_t n = pread(pagemap, entries, run * sizeof(*entries), (off_t)(page * sizeof(*entries)));
	if (n != (ssize_t)(run * sizeof(*entries)))
		stress_fail("read /proc/self/pagemap: %s", n < 0 ? strerror(errno) : "short");
	for (size_t i = 0; i < run; i++)
		back += entries[i] >> 62 == 0; /* bit 63 present, bit 62 swapped */
	return back;
}

/* How many of the whole free OS pages are back now. */
static size_t os_pages_back(void)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		stress_fail("open /proc/self/pagemap: %s", strerror(errno));
	size_t count = atomic_load(&os_pages_count), back = 0;
	for (size_t at = 0, run; at < count; at += run) {
		for (run = 1; at + run < count && run < 512 && os_pages[at + run] == os_pages[at] + run; run++)
			;
		back += back_in_run(pagemap, os_pages[at], run);
	}
	close(pagemap);
	return back;
}

#endif
