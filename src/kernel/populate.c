/* SPDX-License-Identifier: MIT */
/*
 * MADV_POPULATE_WRITE. The only state is how long not to ask again, and counters; all relaxed: a thread that misses a refusal is refused
 * itself.
 */
#include "kernel/populate.h"

#include "kernel/caps.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

/* Linux 5.14; libc's headers of before then do not know it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* No memory, or a cgroup at its limit: that rarely changes within less than this. Doubled with each refusal in a row, up to a minute. */
#define PAUSE_NS (UINT64_C(1000) * 1000 * 1000)
#define PAUSE_MAX_SHIFT 6

static _Atomic uint64_t calls_n, populated_bytes, wasted_bytes, refused_n;
static _Atomic uint64_t paused_until_ns; /* 0: not */
static _Atomic unsigned pauses;          /* in a row */

static bool is_paused(void)
{
	uint64_t until = atomic_load_explicit(&paused_until_ns, memory_order_relaxed);

	return until != 0 && kernel.now_ns() < until;
}

static void pause_for_a_while(void)
{
	unsigned n = atomic_load_explicit(&pauses, memory_order_relaxed);

	atomic_store_explicit(&paused_until_ns, kernel.now_ns() + (PAUSE_NS << n), memory_order_relaxed);
	atomic_store_explicit(&pauses, (unsigned)min_size(n + 1, PAUSE_MAX_SHIFT), memory_order_relaxed);
}

static void end_pause(void)
{
	if (atomic_load_explicit(&paused_until_ns, memory_order_relaxed) == 0)
		return;
	atomic_store_explicit(&paused_until_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&pauses, 0, memory_order_relaxed);
}

static void note_refusal(int err)
{
	atomic_fetch_add_explicit(&refused_n, 1, memory_order_relaxed);
	switch (err) {
	case -EINVAL: /* all of lull's memory is plain: it is the advice that is not known */
	case -ENOSYS:
	case -EPERM:
	case -EACCES:
		caps_refused(CAPS_POPULATE, err);
		break;
	default:
		pause_for_a_while();
	}
}

bool populate_range(char *addr, size_t len)
{
	char *end = addr + len;
	size_t step;
	int err;

	lull_assert(len > 0 && len % OS_PAGE_SIZE == 0 && (uintptr_t)addr % OS_PAGE_SIZE == 0);
	if (is_paused() || !caps_has(CAPS_POPULATE))
		return false;
	for (; addr < end; addr += step) {
		step = min_size((size_t)(end - addr), POPULATE_CALL_BYTES);
		err = kernel.madvise(addr, step, MADV_POPULATE_WRITE);
		atomic_fetch_add_explicit(&calls_n, 1, memory_order_relaxed);
		if (err != 0) {
			note_refusal(err);
			return false;
		}
		atomic_fetch_add_explicit(&populated_bytes, step, memory_order_relaxed);
	}
	end_pause();
	return true;
}

/* Back to what all of lull's memory is. Where that fails a mapping of its own is left, but no more than one. */
static void end_huge(char *addr, size_t len)
{
	int err = kernel.madvise(addr, len, MADV_NOHUGEPAGE);

	if (err != 0)
		caps_refused(CAPS_HUGE_PAGES, err);
}

bool populate_huge(char *addr, size_t len)
{
	lull_assert(len > 0 && len % HUGE_BYTES == 0 && (uintptr_t)addr % HUGE_BYTES == 0);
	if (is_paused() || !caps_has(CAPS_POPULATE) || !caps_has(CAPS_HUGE_PAGES))
		return false;
	int err = kernel.madvise(addr, len, MADV_HUGEPAGE);
	if (err == -ENOMEM || err == -EAGAIN) /* no mapping more is to be had just now */
		return populate_range(addr, len);
	if (err != 0) {
		caps_refused(CAPS_HUGE_PAGES, err);
		return populate_range(addr, len);
	}
	bool in = populate_range(addr, len);
	end_huge(addr, len);
	return in;
}

void populate_note_waste(size_t bytes)
{
	atomic_fetch_add_explicit(&wasted_bytes, bytes, memory_order_relaxed);
}

struct populate_counts populate_counts(void)
{
	return (struct populate_counts){
		.calls = atomic_load_explicit(&calls_n, memory_order_relaxed),
		.bytes = atomic_load_explicit(&populated_bytes, memory_order_relaxed),
		.wasted_bytes = atomic_load_explicit(&wasted_bytes, memory_order_relaxed),
		.refused = atomic_load_explicit(&refused_n, memory_order_relaxed),
	};
}
