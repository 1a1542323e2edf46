/* SPDX-License-Identifier: MIT */
/*
 * The table's entries as the running kernel fulfils them. No state but one remembered refusal; any thread, also a vfork child.
 */
#include "kernel/kernel.h"

#include "base/base.h"
#include "kernel/abi.h"
#include "kernel/caps.h"
#include "kernel/fd.h"
#include "kernel/sys.h"
#include "kernel/uring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>

#define NS_PER_S 1000000000u

static intptr_t real_mmap(void *addr, size_t len, int prot, int flags)
{
	return sys_mmap(addr, len, prot, flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
}

static int real_munmap(void *addr, size_t len)
{
	return sys_munmap(addr, len);
}

static intptr_t real_mremap(void *from, size_t len, void *to)
{
	return sys_call(SYS_mremap, (long)from, (long)len, (long)len, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, (long)to, 0);
}

static int real_mprotect(void *addr, size_t len, int prot)
{
	return sys_mprotect(addr, len, prot);
}

static int real_madvise(void *addr, size_t len, int advice)
{
	return sys_madvise(addr, len, advice);
}

static int real_mincore(void *addr, size_t len, unsigned char *vec)
{
	return sys_mincore(addr, len, vec);
}

/* 6.13 allows DONTNEED on oneself but has no name for oneself yet: a descriptor for this one call. Keeping it open would cost the
 * program a number it may count, close or hand to a child. */
static ssize_t madvise_by_descriptor(const struct iovec *vec, size_t n, int advice)
{
	int fd = sys_pidfd_open(sys_getpid());
	ssize_t done;

	if (fd < 0)
		return fd;
	done = sys_process_madvise(fd, vec, n, advice);
	sys_close(fd);
	return done;
}

static ssize_t real_process_madvise(const struct iovec *vec, size_t n, int advice)
{
	static atomic_bool no_self;
	ssize_t done;

	if (!atomic_load_explicit(&no_self, memory_order_relaxed)) {
		done = sys_process_madvise(PIDFD_SELF_THREAD, vec, n, advice);
		if (done != -EBADF)
			return done;
		atomic_store_explicit(&no_self, true, memory_order_relaxed);
	}
	return madvise_by_descriptor(vec, n, advice);
}

static int real_futex_wait(const void *word, uint32_t expected, uint64_t timeout_ns)
{
	struct timespec timeout = {
		.tv_sec = (time_t)(timeout_ns / NS_PER_S),
		.tv_nsec = (long)(timeout_ns % NS_PER_S),
	};

	return sys_futex(word, FUTEX_WAIT_PRIVATE, expected, timeout_ns == KERNEL_NO_TIMEOUT ? NULL : &timeout);
}

static int real_futex_wake(const void *word, int n)
{
	return sys_futex(word, FUTEX_WAKE_PRIVATE, (uint32_t)n, NULL);
}

/* Tried on an OS page of new memory, since nothing tells it: locked memory refuses DONTNEED (kernel-side: VM_LOCKED), and memory locked for
 * good is there before it is touched. */
static int real_locks_on_fault(void)
{
	intptr_t page = real_mmap(NULL, OS_PAGE_SIZE, PROT_READ | PROT_WRITE, 0);
	unsigned char resident = 1;
	bool locked;

	if (page < 0)
		return 0;
	locked = sys_madvise((void *)page, OS_PAGE_SIZE, MADV_DONTNEED) == -EINVAL;
	if (!caps_has(CAPS_MINCORE) || sys_mincore((void *)page, OS_PAGE_SIZE, &resident) < 0)
		resident = 1;
	sys_munmap((void *)page, OS_PAGE_SIZE);
	return locked && !(resident & 1);
}

/* --- userfaultfd, pagemap --------------------------------------------------------------------------------------------------------- */

static int open_file(const char *path, int flags)
{
	return (int)sys_call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0, 0, 0);
}

/* Which door is open was found by the probe. */
static int uffd_enter(void)
{
	const long flags = O_CLOEXEC | O_NONBLOCK | (long)UFFD_USER_MODE_ONLY;
	int device, fd;

	if (caps_has(CAPS_UFFD))
		return (int)sys_call(SYS_userfaultfd, flags, 0, 0, 0, 0, 0);
	device = open_file("/dev/userfaultfd", O_RDWR);
	if (device < 0)
		return device;
	fd = (int)sys_call(SYS_ioctl, device, USERFAULTFD_IOC_NEW, flags, 0, 0, 0);
	sys_close(device);
	return fd;
}

static int real_uffd_open(void)
{
	struct uffdio_api api = {.api = UFFD_API, .features = ABI_UFFD_FEATURE_WP_ASYNC};
	int fd = uffd_enter();
	long err;

	if (fd < 0)
		return fd;
	err = sys_call(SYS_ioctl, fd, UFFDIO_API, (long)&api, 0, 0, 0);
	if (err == 0)
		return fd_move_up(fd);
	sys_close(fd);
	return (int)err;
}

static int real_uffd_watch(int fd, void *addr, size_t len)
{
	struct uffdio_register reg = {.range = {.start = (uintptr_t)addr, .len = len}, .mode = UFFDIO_REGISTER_MODE_WP};

	return (int)sys_call(SYS_ioctl, fd, UFFDIO_REGISTER, (long)&reg, 0, 0, 0);
}

static int real_pagemap_open(void)
{
	int fd = open_file("/proc/self/pagemap", O_RDONLY);

	return fd < 0 ? fd : fd_move_up(fd);
}

static long real_pagemap_scan(int fd, struct abi_pm_scan_arg *arg)
{
	return sys_call(SYS_ioctl, fd, (long)ABI_PAGEMAP_SCAN, (long)arg, 0, 0, 0);
}

/* --- clocks ----------------------------------------------------------------------------------------------------------------------- */

static uint64_t real_now_ns(void)
{
	struct timespec now = {0};

	sys_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t real_cpu_ns(bool own)
{
	struct timespec spent = {0};

	sys_call(SYS_clock_gettime, own ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID, (long)&spent, 0, 0, 0, 0);
	return (uint64_t)spent.tv_sec * NS_PER_S + (uint64_t)spent.tv_nsec;
}

/* libc's clock reads the vdso, without entering the kernel; it neither allocates nor fails for this clock. */
static uint64_t libc_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void kernel_use_libc_clock(void)
{
	kernel.now_ns = libc_now_ns;
}

struct kernel kernel = {
	.mmap = real_mmap,
	.munmap = real_munmap,
	.mremap = real_mremap,
	.mprotect = real_mprotect,
	.madvise = real_madvise,
	.mincore = real_mincore,
	.process_madvise = real_process_madvise,
	.futex_wait = real_futex_wait,
	.futex_wake = real_futex_wake,
	.locks_on_fault = real_locks_on_fault,
	.ring_open = uring_open,
	.ring_submit = uring_submit,
	.ring_wait = uring_wait,
	.ring_close = uring_close,
	.now_ns = real_now_ns,
	.cpu_ns = real_cpu_ns,
	.uffd_open = real_uffd_open,
	.uffd_watch = real_uffd_watch,
	.pagemap_open = real_pagemap_open,
	.pagemap_scan = real_pagemap_scan,
};
