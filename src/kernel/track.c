/* SPDX-License-Identifier: MIT */
/*
 * Arming is one PAGEMAP_SCAN that selects and write-protects in one step, so nothing is armed that was not there or not ours. Each such
 * call ends in a TLB flush on every processor that runs the process, which costs more than the pages do (measured on a virtual machine:
 * 70 us a call, 0.4 us a page); looking without arming flushes nothing (2 us). So callers arm runs, and look as often as they like.
 */
#include "kernel/track.h"

#include "kernel/abi.h"
#include "kernel/caps.h"
#include "kernel/fd.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <sys/mman.h>

/* Answers taken from the kernel at once: 1.5 KiB of stack. Runs of pages of one kind are one entry each. */
#define LOOK_RUNS 64

static struct {
	struct fd_mark uffd, pagemap;
} state = {.uffd = {.fd = -1}, .pagemap = {.fd = -1}};

bool track_is_open(void)
{
	return fd_is_ours(&state.uffd) && fd_is_ours(&state.pagemap);
}

static struct fd_mark mark_of(int fd, enum cap cap)
{
	if (fd >= 0)
		return fd_remember(fd);
	if (fd != -EMFILE && fd != -ENFILE && fd != -ENOMEM) /* those pass */
		caps_refused(cap, fd);
	return FD_NONE;
}

bool track_open(void)
{
	if (!caps_has(CAPS_UFFD_WP_ASYNC))
		return false;
	if (track_is_open())
		return true;
	track_close();
	state.uffd = mark_of(kernel.uffd_open(), CAPS_UFFD_WP_ASYNC);
	if (state.uffd.fd >= 0)
		state.pagemap = mark_of(kernel.pagemap_open(), CAPS_PAGEMAP_SCAN);
	if (state.pagemap.fd >= 0)
		return true;
	track_close();
	return false;
}

void track_close(void)
{
	fd_close(&state.uffd);
	fd_close(&state.pagemap);
}

bool track_watch(char *addr, size_t len)
{
	return fd_is_ours(&state.uffd) && kernel.uffd_watch(state.uffd.fd, addr, len) == 0;
}

static size_t pages_of(const struct abi_page_region *run)
{
	return (run->end - run->start) >> OS_PAGE_SHIFT;
}

/* Ask until all of the range is answered. 0 or -errno. */
static int scan_all(struct abi_pm_scan_arg *arg, void (*count)(void *sum, const struct abi_page_region *run), void *sum)
{
	struct abi_page_region runs[LOOK_RUNS];

	arg->size = sizeof(*arg);
	arg->vec = (uintptr_t)runs;
	arg->vec_len = LOOK_RUNS;
	while (arg->start < arg->end) {
		long n = kernel.pagemap_scan(state.pagemap.fd, arg);

		if (n < 0)
			return (int)n;
		for (long i = 0; i < n; i++)
			count(sum, &runs[i]);
		if (arg->walk_end <= arg->start)
			return -EIO;
		arg->start = arg->walk_end;
	}
	return 0;
}

static void count_pages(void *sum, const struct abi_page_region *run)
{
	*(size_t *)sum += pages_of(run);
}

long track_arm(char *addr, size_t len)
{
	const uint64_t not = ABI_PAGE_IS_HUGE | ABI_PAGE_IS_PFNZERO;
	struct abi_pm_scan_arg arg = {
		.flags = ABI_PM_SCAN_WP_MATCHING | ABI_PM_SCAN_CHECK_WPASYNC,
		.start = (uintptr_t)addr,
		.end = (uintptr_t)addr + len,
		.category_mask = ABI_PAGE_IS_PRESENT | ABI_PAGE_IS_WRITTEN | not,
		.category_inverted = not,
		.return_mask = ABI_PAGE_IS_PRESENT,
	};
	size_t pages = 0;
	int err = fd_is_ours(&state.pagemap) ? scan_all(&arg, count_pages, &pages) : -EBADF;

	return err != 0 ? err : (long)pages;
}

static void count_seen(void *sum, const struct abi_page_region *run)
{
	struct track_seen *seen = sum;
	bool written = run->categories & (ABI_PAGE_IS_WRITTEN | ABI_PAGE_IS_HUGE) && !(run->categories & ABI_PAGE_IS_PFNZERO);

	seen->present += pages_of(run);
	seen->written += written ? pages_of(run) : 0;
}

int track_look(char *addr, size_t len, struct track_seen *ret)
{
	struct abi_pm_scan_arg arg = {
		.start = (uintptr_t)addr,
		.end = (uintptr_t)addr + len,
		.category_mask = ABI_PAGE_IS_PRESENT,
		.return_mask = ABI_PAGE_IS_PRESENT | ABI_PAGE_IS_WRITTEN | ABI_PAGE_IS_HUGE | ABI_PAGE_IS_PFNZERO,
	};

	return fd_is_ours(&state.pagemap) ? scan_all(&arg, count_seen, ret) : -EBADF;
}

/* --- what it costs ------------------------------------------------------------------------------------------------------------------ */

/* Pages written for one price, and how often: the first time everything is cold. */
#define PRICE_PAGES (SLICE_SIZE / OS_PAGE_SIZE)
#define PRICE_TRIES 4

/* The median, since a thread may be put off the processor in the middle of any of them. */
static uint64_t write_pages(volatile char *at)
{
	uint64_t took[PRICE_PAGES];

	for (size_t i = 0; i < PRICE_PAGES; i++) {
		uint64_t begin = kernel.now_ns();
		at[i * OS_PAGE_SIZE] = 1;
		uint64_t ns = kernel.now_ns() - begin;
		size_t to = i;
		for (; to > 0 && took[to - 1] > ns; to--)
			took[to] = took[to - 1];
		took[to] = ns;
	}
	return took[PRICE_PAGES / 2];
}

static bool price_on(char *at, uint64_t *ret_fault_ns, uint64_t *ret_arm_ns)
{
	uint64_t best = UINT64_MAX;

	write_pages(at);
	if (!track_watch(at, SLICE_SIZE))
		return false;
	for (unsigned i = 0; i < PRICE_TRIES; i++) {
		uint64_t begin = kernel.cpu_ns(true);
		if (track_arm(at, SLICE_SIZE) <= 0)
			return false;
		best = min_size(best, kernel.cpu_ns(true) - begin);
		*ret_fault_ns = write_pages(at);
	}
	*ret_arm_ns = best;
	return true;
}

bool track_price(uint64_t *ret_fault_ns, uint64_t *ret_arm_ns)
{
	intptr_t at = kernel.mmap(NULL, SLICE_SIZE, PROT_READ | PROT_WRITE, 0);
	bool done;

	if (at < 0)
		return false;
	done = price_on((char *)at, ret_fault_ns, ret_arm_ns);
	kernel.munmap((void *)at, SLICE_SIZE);
	return done;
}
