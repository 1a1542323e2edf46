/* SPDX-License-Identifier: MIT */
/*
 * The calls of <lull/file.h>. MADV_DONTNEED would throw away what was written to a private mapping, so what is mapped is looked at first,
 * and each OS page of it: a mapping that is read-only now may have been written before, as the loader does with relocations.
 *
 * No heap is touched, no lock taken, errno left alone: any thread, signal handlers too.
 */
#include "api/file.h"

#include "api/init.h"
#include "kernel/kernel.h"
#include "kernel/mapping.h"

#include <errno.h>
#include <lull/file.h>
#include <stdatomic.h>
#include <sys/mman.h>

static _Atomic bool hints = true; /* relaxed: a switch */

void file_set_hints(bool on)
{
	atomic_store_explicit(&hints, on, memory_order_relaxed);
}

static bool is_on(void)
{
	init_maybe();
	return atomic_load_explicit(&hints, memory_order_relaxed);
}

/* Rounding up to whole OS pages must not wrap. */
static bool wraps(uintptr_t addr, size_t len)
{
	return len > UINTPTR_MAX - OS_PAGE_SIZE || addr > UINTPTR_MAX - OS_PAGE_SIZE - len;
}

exported int lull_file_willneed(const void *addr, size_t len)
{
	uintptr_t at = (uintptr_t)addr, start = align_down(at, OS_PAGE_SIZE);

	if (!is_on() || len == 0)
		return 0;
	if (wraps(at, len))
		return EINVAL;
	return -kernel.madvise((void *)start, align_up(at + len, OS_PAGE_SIZE) - start, MADV_WILLNEED);
}

static int judge_droppable(const struct mapping *mapping)
{
	if (!mapping->is_file)
		return -EBADF;
	if (mapping->is_shared)
		return -EOPNOTSUPP;
	return mapping->can_write ? -EACCES : 0;
}

/* start, end: whole OS pages of mappings that were judged. */
static int drop(uintptr_t start, uintptr_t end)
{
	int copies;

	if (start >= end)
		return 0;
	copies = mapping_has_copies(start, end - start);
	if (copies != 0)
		return copies < 0 ? copies : -EBUSY;
	return kernel.madvise((void *)start, end - start, MADV_DONTNEED);
}

exported int lull_file_done_with(const void *addr, size_t len)
{
	uintptr_t at = (uintptr_t)addr, mapping_end;
	int err;

	if (!is_on() || len == 0)
		return 0;
	if (wraps(at, len))
		return EINVAL;
	err = mapping_check(at, len, judge_droppable, &mapping_end);
	if (err != 0)
		return -err;
	/* A file's length is seldom a multiple of OS pages: nothing follows in the last one of its mapping. */
	bool to_the_end = align_up(at + len, OS_PAGE_SIZE) == mapping_end;
	return -drop(align_up(at, OS_PAGE_SIZE), to_the_end ? mapping_end : align_down(at + len, OS_PAGE_SIZE));
}
