/* SPDX-License-Identifier: MIT */
/*
 * The table of calls through which every layer above enters the kernel. Tests replace entries to count calls, to refuse the n-th
 * one, and to move the clock by hand. Results are 0 or a count, else -errno; libc's errno is never touched.
 *
 * The table is written only at start-up (by tests, before threads exist) and read by all threads.
 */
#ifndef LULL_KERNEL_KERNEL_H
#define LULL_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct abi_pm_scan_arg;

#define KERNEL_NO_TIMEOUT UINT64_MAX

/* Return LEN bytes at ADDR; the answer bears the same tag. */
struct kernel_request {
	void *addr;
	size_t len; /* less than 4 GiB */
	uint64_t tag;
};

struct kernel_answer {
	uint64_t tag;
	int result; /* 0 or -errno */
};

struct kernel {
	/* A private anonymous mapping without overcommit charge where the mode allows (MAP_NORESERVE). flags: extra MAP_ bits.
	 * Returns the address, or -errno as an intptr_t in -4095..-1. */
	intptr_t (*mmap)(void *addr, size_t len, int prot, int flags);
	int (*munmap)(void *addr, size_t len);
	/* Move what is mapped at FROM to TO (MREMAP_DONTUNMAP: FROM stays mapped, empty), dropping what is there. Returns TO or -errno, and
	 * then there may be nothing at TO. */
	intptr_t (*mremap)(void *from, size_t len, void *to);
	int (*mprotect)(void *addr, size_t len, int prot);
	int (*madvise)(void *addr, size_t len, int advice);
	/* vec: a byte for each OS page, bit 0 set where one is resident. */
	int (*mincore)(void *addr, size_t len, unsigned char *vec);
	/* On this process itself. Returns bytes advised (may be short) or -errno. n <= 1024 (UIO_MAXIOV). */
	ssize_t (*process_madvise)(const struct iovec *vec, size_t n, int advice);
	/* Sleeps while *word == expected, at most timeout_ns (KERNEL_NO_TIMEOUT: for good). 0 on a wake, -EAGAIN, -ETIMEDOUT, -EINTR. */
	int (*futex_wait)(const void *word, uint32_t expected, uint64_t timeout_ns);
	int (*futex_wake)(const void *word, int n);
	/* 1 while new memory of this process is locked, but only as it is touched (mlockall with MCL_FUTURE and MCL_ONFAULT); else 0. */
	int (*locks_on_fault)(void);
	/* The one ring of io_uring, of the calling thread alone: the other three are for the thread that opened it. It has no descriptor once
	 * this returns, and no child inherits it. At most so many requests are in flight at once. workers_max: threads of the kernel's, at most
	 * one for each processor. 0 or -errno. */
	int (*ring_open)(unsigned entries, unsigned workers_max);
	/* Hand over N requests to advise memory. Returns how many were taken, the first ones, or -errno for none. Does not wait. */
	ssize_t (*ring_submit)(const struct kernel_request *request, size_t n, int advice);
	/* The next answer, in any order. When there is none, sleep until EXPECTED are there. Something is in flight. */
	struct kernel_answer (*ring_wait)(unsigned expected);
	/* Nothing is in flight. */
	void (*ring_close)(void);
	/* CLOCK_MONOTONIC in nanoseconds. */
	uint64_t (*now_ns)(void);
	/* What all threads of the process, or the calling one alone, have had of the processors, nanoseconds. */
	uint64_t (*cpu_ns)(bool own);
	/* A userfaultfd that records writes without a handler (UFFD_FEATURE_WP_ASYNC), above the program's descriptors; or -errno. */
	int (*uffd_open)(void);
	/* Let it record writes to whole OS pages of this process that are armed (pagemap_scan). */
	int (*uffd_watch)(int fd, void *addr, size_t len);
	/* /proc/self/pagemap, above the program's descriptors; or -errno. */
	int (*pagemap_open)(void);
	/* PAGEMAP_SCAN. Returns how many entries of the vector are filled, or -errno. */
	long (*pagemap_scan)(int fd, struct abi_pm_scan_arg *arg);
};

extern struct kernel kernel;

/* Read the clock through libc, which need not enter the kernel for it. At start, and not where a sanitizer's runtime stands before libc:
 * its clock_gettime is not there yet when the first memory is wanted. */
void kernel_use_libc_clock(void);

#endif
