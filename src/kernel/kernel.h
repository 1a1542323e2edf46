/* SPDX-License-Identifier: MIT */
/*
 * The table of calls through which every layer above enters the kernel. Tests replace entries to count calls, to refuse the n-th
 * one, and to move the clock by hand. Results are 0 or a count, else -errno; libc's errno is never touched.
 *
 * The table is written only at start-up (by tests, before threads exist) and read by all threads.
 */
#ifndef LULL_KERNEL_KERNEL_H
#define LULL_KERNEL_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define KERNEL_NO_TIMEOUT UINT64_MAX

struct kernel {
	/* A private anonymous mapping without overcommit charge where the mode allows (MAP_NORESERVE). flags: extra MAP_ bits.
	 * Returns the address, or -errno as an intptr_t in -4095..-1. */
	intptr_t (*mmap)(void *addr, size_t len, int prot, int flags);
	int (*munmap)(void *addr, size_t len);
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
	/* CLOCK_MONOTONIC in nanoseconds. */
	uint64_t (*now_ns)(void);
};

extern struct kernel kernel;

/* Read the clock through libc, which need not enter the kernel for it. At start, and not where a sanitizer's runtime stands before libc:
 * its clock_gettime is not there yet when the first memory is wanted. */
void kernel_use_libc_clock(void);

#endif
