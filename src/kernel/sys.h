/* SPDX-License-Identifier: MIT */
/*
 * Thin wrappers of system calls: the kernel's own result, 0 or a count or -errno. On x86-64 and arm64 libc is not involved: no errno, no
 * thread-local word, no allocation, so these work before libc is ready, in the child of a vfork and in a process that is falling
 * apart. Every system call lull makes by itself goes through sys_call(), so a search for SYS_ in this folder lists them all.
 */
#ifndef LULL_KERNEL_SYS_H
#define LULL_KERNEL_SYS_H

#include "kernel/abi.h"

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <errno.h>
#include <unistd.h>
#endif

struct iovec;
struct rlimit;
struct timespec;
struct sysinfo;
struct utsname;

_Static_assert(sizeof(long) == 8 && sizeof(void *) == 8, "lull is for 64-bit systems");

/* Arguments a call does not take are passed as 0 and ignored by the kernel. */
static inline long sys_call(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#else
	int saved = errno;
	long ret = syscall(nr, a, b, c, d, e, f);

	if (ret == -1)
		ret = -errno;
	errno = saved;
	return ret;
#endif
}

static inline intptr_t sys_mmap(void *addr, size_t len, int prot, int flags)
{
	return sys_call(SYS_mmap, (long)addr, (long)len, prot, flags, -1, 0);
}

static inline int sys_munmap(void *addr, size_t len)
{
	return (int)sys_call(SYS_munmap, (long)addr, (long)len, 0, 0, 0, 0);
}

static inline int sys_mprotect(void *addr, size_t len, int prot)
{
	return (int)sys_call(SYS_mprotect, (long)addr, (long)len, prot, 0, 0, 0);
}

static inline int sys_madvise(void *addr, size_t len, int advice)
{
	return (int)sys_call(SYS_madvise, (long)addr, (long)len, advice, 0, 0, 0);
}

static inline int sys_mincore(void *addr, size_t len, unsigned char *vec)
{
	return (int)sys_call(SYS_mincore, (long)addr, (long)len, (long)vec, 0, 0, 0);
}

static inline long sys_process_madvise(int pidfd, const struct iovec *vec, size_t n, int advice)
{
	return sys_call(SYS_process_madvise, pidfd, (long)vec, (long)n, advice, 0, 0);
}

static inline int sys_futex(const void *word, int op, uint32_t val, const struct timespec *timeout)
{
	return (int)sys_call(SYS_futex, (long)word, op, (long)val, (long)timeout, 0, 0);
}

static inline long sys_write(int fd, const void *buf, size_t len)
{
	return sys_call(SYS_write, fd, (long)buf, (long)len, 0, 0, 0);
}

static inline int sys_close(int fd)
{
	return (int)sys_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* Returns bytes of the mask that were filled. */
static inline int sys_sched_getaffinity(void *mask, size_t len)
{
	return (int)sys_call(SYS_sched_getaffinity, 0, (long)len, (long)mask, 0, 0, 0);
}

static inline int sys_io_uring_enter(int fd, unsigned submit, unsigned wait, unsigned flags)
{
	return (int)sys_call(SYS_io_uring_enter, fd, submit, wait, flags, 0, 0);
}

static inline int sys_io_uring_register(int fd, unsigned what, void *arg, unsigned n)
{
	return (int)sys_call(SYS_io_uring_register, fd, what, (long)arg, n, 0, 0);
}

static inline int sys_getpid(void)
{
	return (int)sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static inline int sys_pidfd_open(int pid)
{
	return (int)sys_call(SYS_pidfd_open, pid, 0, 0, 0, 0, 0);
}

static inline int sys_sysinfo(struct sysinfo *ret)
{
	return (int)sys_call(SYS_sysinfo, (long)ret, 0, 0, 0, 0, 0);
}

static inline int sys_uname(struct utsname *name)
{
	return (int)sys_call(SYS_uname, (long)name, 0, 0, 0, 0, 0);
}

static inline int sys_wait4(int pid, int *status, int options)
{
	return (int)sys_call(SYS_wait4, pid, (long)status, options, 0, 0, 0);
}

static inline int sys_setrlimit(int what, const struct rlimit *limit)
{
	return (int)sys_call(SYS_prlimit64, 0, what, (long)limit, 0, 0, 0);
}

/* set, old: the kernel's 64-bit signal set, bit N-1 for signal N; either may be NULL. */
static inline int sys_sigprocmask(int how, const uint64_t *set, uint64_t *old)
{
	return (int)sys_call(SYS_rt_sigprocmask, how, (long)set, (long)old, sizeof(*set), 0, 0);
}

#endif
