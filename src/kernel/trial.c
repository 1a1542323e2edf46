/* SPDX-License-Identifier: MIT */
/*
 * One function per capability. They run in a process that may have few rights and little stack, and in which nobody answers a fault: no
 * libc call but clone, no allocation, nothing that could wait for ever (a userfaultfd is opened so that an unanswered fault is a signal).
 */
#include "kernel/trial.h"

#include "kernel/kernel.h"
#include "kernel/stats_page.h"
#include "kernel/sys.h"
#include "kernel/trial_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>

/* The first OS page holds a 1; the second is untouched; the others are for what a trial maps, and for the stack of its thread. */
#define TRIAL_PAGES 8
#define HUGE_BYTES (2 * MIB)

size_t trial_bytes(enum cap cap)
{
	/* a whole aligned huge page lies somewhere in it */
	return cap == CAPS_HUGE_PAGES ? 2 * HUGE_BYTES : TRIAL_PAGES * OS_PAGE_SIZE;
}

static char *page_at(const struct trial *trial, unsigned i)
{
	return trial->page + i * OS_PAGE_SIZE;
}

static char byte_at(const char *at)
{
	return *(const volatile char *)at;
}

static void write_at(char *at, char value)
{
	*(volatile char *)at = value;
}

/* --- madvise ---------------------------------------------------------------------------------------------------------------------- */

static bool is_resident(char *page)
{
	unsigned char resident = 0;

	return kernel.mincore(page, OS_PAGE_SIZE, &resident) == 0 && (resident & 1) != 0;
}

static void try_dontneed(struct trial *trial)
{
	trial->answer = kernel.madvise(trial->page, OS_PAGE_SIZE, MADV_DONTNEED);
	/* all new memory is locked: what it does to other memory can be seen all the same */
	if (trial->answer == -EINVAL)
		trial->answer = kernel.madvise(trial->page, OS_PAGE_SIZE, MADV_DONTNEED_LOCKED);
	trial->effect = trial->answer == 0 && byte_at(trial->page) == 0;
}

static void try_dontneed_locked(struct trial *trial)
{
	trial->answer = kernel.madvise(trial->page, OS_PAGE_SIZE, MADV_DONTNEED_LOCKED);
	trial->effect = trial->answer == 0 && byte_at(trial->page) == 0;
}

/* Nothing to be seen: both say what may be done some time, and a yes to which nothing is done does no harm. The content is judged: it
 * is what it was or, once FREE was obeyed, zero. */
static void try_hint(struct trial *trial, int advice)
{
	trial->answer = kernel.madvise(trial->page, OS_PAGE_SIZE, advice);
	trial->effect = trial->answer == 0 && (byte_at(trial->page) == 1 || (advice == MADV_FREE && byte_at(trial->page) == 0));
}

static void try_free(struct trial *trial)
{
	try_hint(trial, MADV_FREE);
}

static void try_cold(struct trial *trial)
{
	try_hint(trial, MADV_COLD);
}

static void try_populate(struct trial *trial)
{
	trial->answer = kernel.madvise(page_at(trial, 1), OS_PAGE_SIZE, MADV_POPULATE_WRITE);
	trial->effect = trial->answer == 0 && (!trial->sees_resident || is_resident(page_at(trial, 1)));
}

/* The last OS page of it is there when only the first was touched. The advice is accepted too where huge pages are switched off. */
static void try_huge_pages(struct trial *trial)
{
	char *huge = (char *)align_up((uintptr_t)trial->page + 1, HUGE_BYTES);
	char *last = huge + HUGE_BYTES - OS_PAGE_SIZE;

	if (is_resident(last)) { /* new memory is locked: it was filled, in OS pages, before we came */
		trial->answer = -EINVAL;
		return;
	}
	trial->answer = kernel.madvise(huge, HUGE_BYTES, MADV_HUGEPAGE);
	if (trial->answer != 0)
		return;
	write_at(huge, 1);
	trial->effect = is_resident(last);
	if (!trial->effect)
		trial->answer = -EOPNOTSUPP;
}

/* A call that writes there is told that it cannot. A touch of ours would be told by a signal, and the system's log. */
static void try_guard_pages(struct trial *trial)
{
	uint64_t *word = (uint64_t *)trial->page;

	trial->answer = kernel.madvise(trial->page, OS_PAGE_SIZE, MADV_GUARD_INSTALL);
	if (trial->answer != 0)
		return;
	trial->effect = sys_sigprocmask(0, NULL, word) == -EFAULT;
	trial->answer = kernel.madvise(trial->page, OS_PAGE_SIZE, MADV_GUARD_REMOVE);
	trial->effect = trial->effect && trial->answer == 0 && sys_sigprocmask(0, NULL, word) == 0;
}

static void try_process_madvise(struct trial *trial)
{
	struct iovec vec = {.iov_base = trial->page, .iov_len = OS_PAGE_SIZE};

	trial->answer = kernel.process_madvise(&vec, 1, MADV_DONTNEED);
	trial->effect = trial->answer == (long)OS_PAGE_SIZE && byte_at(trial->page) == 0;
}

static void try_process_madvise_cold(struct trial *trial)
{
	struct iovec vec = {.iov_base = trial->page, .iov_len = OS_PAGE_SIZE};

	trial->answer = kernel.process_madvise(&vec, 1, MADV_COLD);
	trial->effect = trial->answer == (long)OS_PAGE_SIZE && byte_at(trial->page) == 1;
}

/* --- address space ---------------------------------------------------------------------------------------------------------------- */

/* Onto a page of ours, so that nothing is left when it works and we die. */
static void try_mremap(struct trial *trial)
{
	char *to = page_at(trial, 3);

	trial->answer = sys_call(SYS_mremap, (long)trial->page, (long)OS_PAGE_SIZE, (long)OS_PAGE_SIZE,
				 MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, (long)to, 0);
	trial->effect = trial->answer == (long)to && byte_at(to) == 1 && byte_at(trial->page) == 0;
}

/* A name is seen in /proc/PID/maps only, and wanted there only: the kernel is believed. */
static void try_vma_name(struct trial *trial)
{
	trial->answer = sys_call(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, (long)trial->page, (long)OS_PAGE_SIZE, (long)"lull", 0);
	trial->effect = trial->answer == 0;
}

static void try_mincore(struct trial *trial)
{
	unsigned char resident = 0;

	trial->answer = kernel.mincore(trial->page, OS_PAGE_SIZE, &resident);
	trial->effect = trial->answer == 0 && (resident & 1) != 0;
}

/* --- pagemap and userfaultfd ------------------------------------------------------------------------------------------------------ */

static int open_file(const char *path, int flags)
{
	return (int)sys_call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0, 0, 0);
}

static long call_ioctl(int fd, unsigned long what, void *arg)
{
	return sys_call(SYS_ioctl, fd, (long)what, (long)arg, 0, 0, 0);
}

/* Whether the first OS page is of CATEGORY: 1 or 0, or -errno. */
static long scan(int pagemap, const struct trial *trial, uint64_t category, uint64_t flags)
{
	struct abi_page_region region = {0};
	struct abi_pm_scan_arg arg = {
		.size = sizeof(arg),
		.flags = flags,
		.start = (uintptr_t)trial->page,
		.end = (uintptr_t)trial->page + OS_PAGE_SIZE,
		.vec = (uintptr_t)&region,
		.vec_len = 1,
		.category_mask = category,
		.return_mask = category,
	};
	long ret = call_ioctl(pagemap, ABI_PAGEMAP_SCAN, &arg);

	if (ret < 0)
		return ret;
	return ret == 1 && region.start == (uintptr_t)trial->page && region.categories == category;
}

static void try_pagemap_scan(struct trial *trial)
{
	int fd = open_file("/proc/self/pagemap", O_RDONLY);

	trial->answer = fd;
	if (fd < 0)
		return;
	trial->answer = scan(fd, trial, ABI_PAGE_IS_PRESENT, 0);
	/* and what is not there is not seen */
	trial->effect = trial->answer == 1 && scan(fd, trial, ABI_PAGE_IS_HUGE, 0) == 0;
	sys_close(fd);
}

static int uffd_by_call(void)
{
	return (int)sys_call(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY, 0, 0, 0, 0, 0);
}

static int uffd_by_device(void)
{
	int device = open_file("/dev/userfaultfd", O_RDWR);
	int fd;

	if (device < 0)
		return device;
	fd = (int)call_ioctl(device, USERFAULTFD_IOC_NEW, (void *)(O_CLOEXEC | O_NONBLOCK | (long)UFFD_USER_MODE_ONLY));
	sys_close(device);
	return fd;
}

/* One that watches OS page AT in MODE, or -errno. */
static int uffd_open(const struct trial *trial, uint64_t features, char *at, uint64_t mode)
{
	int fd = trial->by_device ? uffd_by_device() : uffd_by_call();
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	struct uffdio_register reg = {.range = {.start = (uintptr_t)at, .len = OS_PAGE_SIZE}, .mode = mode};
	long err;

	if (fd < 0)
		return fd;
	err = call_ioctl(fd, UFFDIO_API, &api);
	if (err == 0)
		err = call_ioctl(fd, UFFDIO_REGISTER, &reg);
	if (err == 0)
		return fd;
	sys_close(fd);
	/* no userfaultfd at all: something answered in the kernel's place */
	return err == -ENOTTY ? -EIO : (int)err;
}

/* Memory that is not there is filled in by the call, not by a fault. */
static void try_uffd(struct trial *trial)
{
	char *at = page_at(trial, 1);
	struct uffdio_copy copy = {.dst = (uintptr_t)at, .src = (uintptr_t)trial->page, .len = OS_PAGE_SIZE};
	int fd = uffd_open(trial, UFFD_FEATURE_SIGBUS, at, UFFDIO_REGISTER_MODE_MISSING);

	trial->answer = fd;
	if (fd < 0)
		return;
	trial->answer = call_ioctl(fd, UFFDIO_COPY, &copy);
	/* locked as all new memory: it was filled before we came */
	trial->effect = trial->answer == -EEXIST || (trial->answer == 0 && byte_at(at) == 1);
	sys_close(fd);
}

static void try_uffd_move(struct trial *trial)
{
	char *at = page_at(trial, 1);
	struct abi_uffdio_move move = {.dst = (uintptr_t)at, .src = (uintptr_t)trial->page, .len = OS_PAGE_SIZE};
	int fd = uffd_open(trial, UFFD_FEATURE_SIGBUS | ABI_UFFD_FEATURE_MOVE, at, UFFDIO_REGISTER_MODE_MISSING);

	trial->answer = fd;
	if (fd < 0)
		return;
	trial->answer = call_ioctl(fd, ABI_UFFDIO_MOVE, &move);
	trial->effect = trial->answer == 0 && byte_at(at) == 1 && byte_at(trial->page) == 0;
	sys_close(fd);
}

/* Armed, untouched: not seen. Written: seen. */
static void watch_writes(struct trial *trial, int pagemap)
{
	trial->answer = scan(pagemap, trial, ABI_PAGE_IS_WRITTEN, ABI_PM_SCAN_WP_MATCHING | ABI_PM_SCAN_CHECK_WPASYNC);
	if (trial->answer < 0 || scan(pagemap, trial, ABI_PAGE_IS_WRITTEN, 0) != 0)
		return;
	write_at(trial->page, 2);
	trial->answer = scan(pagemap, trial, ABI_PAGE_IS_WRITTEN, 0);
	trial->effect = trial->answer == 1;
}

static void try_uffd_wp_async(struct trial *trial)
{
	int pagemap = open_file("/proc/self/pagemap", O_RDONLY);
	int fd = uffd_open(trial, ABI_UFFD_FEATURE_WP_ASYNC, trial->page, UFFDIO_REGISTER_MODE_WP);

	trial->answer = fd < 0 ? fd : pagemap;
	if (trial->answer >= 0)
		watch_writes(trial, pagemap);
	if (pagemap >= 0)
		sys_close(pagemap);
	if (fd >= 0)
		sys_close(fd);
}

static void watch_uses(struct trial *trial, int fd, int pagemap)
{
	struct abi_uffdio_rwprotect protect = {.start = (uintptr_t)trial->page, .len = OS_PAGE_SIZE, .mode = 1};

	trial->answer = call_ioctl(fd, ABI_UFFDIO_RWPROTECT, &protect);
	if (trial->answer < 0 || scan(pagemap, trial, ABI_PAGE_IS_ACCESSED, 0) != 0)
		return;
	byte_at(trial->page);
	trial->answer = scan(pagemap, trial, ABI_PAGE_IS_ACCESSED, 0);
	trial->effect = trial->answer == 1;
}

static void try_uffd_rwp(struct trial *trial)
{
	uint64_t features = ABI_UFFD_FEATURE_RWP | ABI_UFFD_FEATURE_RWP_ASYNC;
	int pagemap = open_file("/proc/self/pagemap", O_RDONLY);
	int fd = uffd_open(trial, features, trial->page, ABI_UFFDIO_REGISTER_MODE_RWP);

	trial->answer = fd < 0 ? fd : pagemap;
	if (trial->answer >= 0)
		watch_uses(trial, fd, pagemap);
	if (pagemap >= 0)
		sys_close(pagemap);
	if (fd >= 0)
		sys_close(fd);
}

/* --- the rest --------------------------------------------------------------------------------------------------------------------- */

static void try_sysinfo(struct trial *trial)
{
	struct sysinfo info = {0};

	trial->answer = sys_sysinfo(&info);
	trial->effect = trial->answer == 0 && info.totalram > 0;
}

static void try_proc(struct trial *trial)
{
	char mode = 0;
	int fd = open_file("/proc/sys/vm/overcommit_memory", O_RDONLY);

	trial->answer = fd;
	if (fd < 0)
		return;
	trial->answer = sys_call(SYS_read, fd, (long)&mode, 1, 0, 0, 0);
	trial->effect = trial->answer == 1 && mode >= '0' && mode <= '2';
	sys_close(fd);
}

/* Switched off in the kernel, the file may be there and refuse the read. */
static void try_psi(struct trial *trial)
{
	char text[64] = "";
	int fd = open_file("/proc/pressure/memory", O_RDONLY);

	trial->answer = fd;
	if (fd < 0)
		return;
	trial->answer = sys_call(SYS_read, fd, (long)text, sizeof(text) - 1, 0, 0, 0);
	trial->effect = trial->answer > 5 && text[0] == 's' && text[1] == 'o' && text[2] == 'm' && text[3] == 'e' && text[4] == ' ';
	sys_close(fd);
}

static long call_membarrier(int what)
{
	return sys_call(SYS_membarrier, what, 0, 0, 0, 0, 0);
}

static void try_membarrier(struct trial *trial)
{
	trial->answer = call_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	if (trial->answer == 0)
		trial->answer = call_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	trial->effect = trial->answer == 0;
}

static void try_memfd(struct trial *trial)
{
	trial->answer = stats_page_try(page_at(trial, 3));
	trial->effect = trial->answer == 0;
}

struct trial_thread {
	atomic_bool ran;
	_Atomic uint32_t id; /* 0 once the kernel is done with it */
};

static int thread_main(void *arg)
{
	struct trial_thread *thread = (struct trial_thread *)arg;

	atomic_store_explicit(&thread->ran, true, memory_order_release); /* pairs with the acquire after it has ended */
	return 0;
}

/* libc makes threads by clone3 where that answers anything but ENOSYS. No filter can look at its arguments, so bad ones show as well as
 * good ones whether the call is let through: then the kernel itself finds them too short. */
static long call_clone3_badly(void)
{
	long ret = sys_call(SYS_clone3, 0, 0, 0, 0, 0, 0);

	return ret == -EINVAL || ret == -ENOSYS ? 0 : ret;
}

static void try_thread(struct trial *trial)
{
	const int kind = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM;
	struct trial_thread thread = {.id = UINT32_MAX};
	int saved = errno, id;

	trial->answer = call_clone3_badly();
	if (trial->answer != 0)
		return;
	id = clone(thread_main, trial->page + trial_bytes(trial->cap), kind | CLONE_CHILD_CLEARTID, &thread, NULL, NULL, &thread.id);
	trial->answer = id < 0 ? -errno : 0;
	errno = saved;
	if (id < 0)
		return;
	/* the kernel clears the word and wakes as the last thing: its stack is ours again */
	for (uint32_t seen; (seen = atomic_load_explicit(&thread.id, memory_order_acquire)) != 0;)
		sys_futex(&thread.id, FUTEX_WAIT, seen, NULL);
	trial->effect = atomic_load_explicit(&thread.ran, memory_order_acquire);
}

static void try_thread_name(struct trial *trial)
{
	char name[16] = "";

	trial->answer = sys_call(SYS_prctl, PR_SET_NAME, (long)"lull", 0, 0, 0, 0);
	if (trial->answer == 0)
		trial->answer = sys_call(SYS_prctl, PR_GET_NAME, (long)name, 0, 0, 0, 0);
	trial->effect = trial->answer == 0 && name[0] == 'l';
}

/* --- which is which --------------------------------------------------------------------------------------------------------------- */

static void (*const trials[CAPS_COUNT])(struct trial *trial) = {
	[CAPS_DONTNEED] = try_dontneed,
	[CAPS_PROCESS_MADVISE] = try_process_madvise,
	[CAPS_PROCESS_MADVISE_COLD] = try_process_madvise_cold,
	[CAPS_DONTNEED_LOCKED] = try_dontneed_locked,
	[CAPS_FREE] = try_free,
	[CAPS_COLD] = try_cold,
	[CAPS_URING] = trial_ring,
	[CAPS_URING_MADVISE] = trial_ring_madvise,
	[CAPS_URING_POLL] = trial_ring_poll,
	[CAPS_URING_FUTEX] = trial_ring_futex,
	[CAPS_POPULATE] = try_populate,
	[CAPS_HUGE_PAGES] = try_huge_pages,
	[CAPS_MREMAP] = try_mremap,
	[CAPS_GUARD_PAGES] = try_guard_pages,
	[CAPS_VMA_NAME] = try_vma_name,
	[CAPS_MINCORE] = try_mincore,
	[CAPS_PAGEMAP_SCAN] = try_pagemap_scan,
	[CAPS_UFFD] = try_uffd,
	[CAPS_UFFD_DEV] = try_uffd,
	[CAPS_UFFD_WP_ASYNC] = try_uffd_wp_async,
	[CAPS_UFFD_MOVE] = try_uffd_move,
	[CAPS_UFFD_RWP] = try_uffd_rwp,
	[CAPS_SYSINFO] = try_sysinfo,
	[CAPS_PSI] = try_psi,
	[CAPS_MEMBARRIER] = try_membarrier,
	[CAPS_MEMFD] = try_memfd,
	[CAPS_THREAD] = try_thread,
	[CAPS_THREAD_NAME] = try_thread_name,
	[CAPS_PROC] = try_proc,
};

void trial_run(struct trial *trial)
{
	trials[trial->cap](trial);
	trial->ended = true;
}
