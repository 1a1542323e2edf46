/* SPDX-License-Identifier: MIT */
/*
 * The words every layer shares: sizes, alignment, bit scans, branch hints, checks. No system call, no global state.
 */
#ifndef LULL_BASE_BASE_H
#define LULL_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

/* The kernel's page on the systems lull is built for (x86-64, and arm64 with 4 KiB pages); checked against AT_PAGESZ at start. */
#define OS_PAGE_SHIFT 12
#define OS_PAGE_SIZE ((size_t)1 << OS_PAGE_SHIFT)

/* What a region hands out (design: 64 KiB, sixteen OS pages, so that a small page's holes fit one 16-bit word). */
#define SLICE_SHIFT 16
#define SLICE_SIZE ((size_t)1 << SLICE_SHIFT)

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define noinline __attribute__((noinline))
#define hidden __attribute__((visibility("hidden")))
#define exported __attribute__((visibility("default")))
#define array_len(a) (sizeof(a) / sizeof((a)[0]))

/* Our own mistakes: checked in debug builds, assumed away in release builds. Reports through the one function base may call upwards
 * without knowing it: defined in kernel/report.c, so that base itself never enters the kernel. */
void report_bug(const char *expr, const char *file, int line) __attribute__((noreturn, cold));
#ifdef LULL_DEBUG
#define lull_assert(x) ((x) ? (void)0 : report_bug(#x, __FILE__, __LINE__))
#else
#define lull_assert(x) ((void)sizeof(x))
#endif

static inline size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

static inline bool is_pow2(size_t x)
{
	return x != 0 && (x & (x - 1)) == 0;
}

/* In the middle of a spin: give the other hardware thread the core for a moment. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* align: a power of two. Wraps when X is within ALIGN of SIZE_MAX: callers bound X by PTRDIFF_MAX first. */
static inline size_t align_up(size_t x, size_t align)
{
	return (x + align - 1) & ~(align - 1);
}

static inline size_t align_down(size_t x, size_t align)
{
	return x & ~(align - 1);
}

/* x != 0: index of the lowest and of the highest bit set */
static inline unsigned bit_lowest(uint64_t x)
{
	return (unsigned)__builtin_ctzll(x);
}

static inline unsigned bit_highest(uint64_t x)
{
	return 63u - (unsigned)__builtin_clzll(x);
}

/* The low N bits, N in 0..64. */
static inline uint64_t bits_low(unsigned n)
{
	return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
}

#endif
