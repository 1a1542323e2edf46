/* SPDX-License-Identifier: MIT */
/*
 * What the stress programs share: the allocator's names, seeded random numbers, blocks that carry a pattern, the boxes through
 * which blocks change threads, and a look at what is resident.
 *
 * Names. A program calls stress_malloc() and friends. They are the lull_ names of the prefixed build, or with
 * -DSTRESS_STANDARD_NAMES the standard ones, so that one source also runs on the C library and under any preload. The idle calls
 * are then looked up and do nothing where they are missing.
 * Patterns. Each word of a block is made from its address and a tag that no two allocations share: a block that was handed out
 * twice, moved by mistake or dropped while in use cannot look right.
 * Runs. The seed is argv[1], else STRESS_SEED, else 1, and is printed. STRESS_SCALE (percent) scales the counts; a sanitizer build
 * takes a tenth. The library itself allocates nothing.
 */
#ifndef STRESS_UTIL_H
#define STRESS_UTIL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef STRESS_STANDARD_NAMES
#include <dlfcn.h>
#include <malloc.h>
#define stress_malloc malloc
#define stress_calloc calloc
#define stress_free free
#define stress_realloc realloc
#define stress_aligned_alloc aligned_alloc
#define stress_usable_size malloc_usable_size
#else
#include <lull/idle.h>
#include <lull/malloc.h>
#define stress_malloc lull_malloc
#define stress_calloc lull_calloc
#define stress_free lull_free
#define stress_realloc lull_realloc
#define stress_aligned_alloc lull_aligned_alloc
#define stress_usable_size lull_malloc_usable_size
#endif

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STRESS_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define STRESS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define STRESS_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define STRESS_ASAN 1
#endif
#if defined(STRESS_TSAN) || defined(STRESS_ASAN)
#define STRESS_SANITIZER 1
#endif

#define STRESS_OS_PAGE ((size_t)4096)
#define STRESS_KIB ((size_t)1024)
#define STRESS_MIB (STRESS_KIB * 1024)

/* The golden ratio in 64 bits, as in splitmix64: odd, so multiplying by it loses nothing. */
#define STRESS_GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static const char *stress_name = "stress";
static uint64_t stress_seed = 1;

/* Prints "NAME (seed N): MESSAGE" and aborts. Allocates nothing: the allocator may be what is broken. */
__attribute__((unused, noreturn, format(printf, 1, 2))) static void stress_fail(const char *format, ...)
{
	char line[512];
	va_list args;
	int n = snprintf(line, sizeof(line), "%s (seed %llu): ", stress_name, (unsigned long long)stress_seed);
	va_start(args, format);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
	va_end(args);
	if (n > (int)sizeof(line) - 1)
		n = sizeof(line) - 1;
	line[n] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n + 1) < 0)
		_exit(1);
	abort();
}

/* ---- runs ---- */

static inline unsigned long stress_env(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);
	return text && *text ? strtoul(text, NULL, 0) : otherwise;
}

/* count at STRESS_SCALE percent, at least 1 */
__attribute__((unused)) static unsigned stress_count(unsigned count)
{
#ifdef STRESS_SANITIZER
	unsigned long scale = stress_env("STRESS_SCALE", 10);
#else
	unsigned long scale = stress_env("STRESS_SCALE", 100);
#endif
	unsigned long scaled = count * scale / 100;
	return scaled ? (unsigned)scaled : 1;
}

static void stress_overdue(int signal_number)
{
	static const char text[] = "stress: still running at the time limit (STRESS_TIMEOUT_S), giving up\n";
	(void)signal_number;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

/* Seconds a whole program, and a child of it, may take before it counts as hung: far more than a loaded machine needs. */
static inline unsigned stress_limit_s(void)
{
	return (unsigned)stress_env("STRESS_TIMEOUT_S", 900);
}

/* First line of every main: name, seed, time limit. */
__attribute__((unused)) static void stress_begin(int argc, char **argv, const char *name)
{
	stress_name = name;
	stress_seed = argc > 1 ? strtoull(argv[1], NULL, 0) : stress_env("STRESS_SEED", 1);
	signal(SIGALRM, stress_overdue);
	alarm(stress_limit_s());
	dprintf(STDOUT_FILENO, "%s: seed %llu\n", name, (unsigned long long)stress_seed);
}

/* ---- random numbers: splitmix64, one state per thread ---- */

struct stress_rng {
	uint64_t state;
};

static inline struct stress_rng stress_rng_make(uint64_t stream)
{
	return (struct stress_rng){.state = stress_seed * STRESS_GOLDEN + stream * UINT64_C(0xd1342543de82ef95)};
}

static inline uint64_t stress_random(struct stress_rng *rng)
{
	uint64_t z = rng->state += STRESS_GOLDEN;
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* 0 .. n-1 */
static inline uint64_t stress_below(struct stress_rng *rng, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)stress_random(rng) * n) >> 64);
}

static inline size_t stress_between(struct stress_rng *rng, size_t low, size_t high)
{
	return low + (size_t)stress_below(rng, high - low + 1);
}

/* 1 B .. 2 MiB as programs ask: mostly small, every kind of page, a few singletons. */
__attribute__((unused)) static size_t stress_size(struct stress_rng *rng)
{
	uint64_t dice = stress_below(rng, 1000);
	if (dice < 450)
		return stress_between(rng, 1, 128);
	if (dice < 750)
		return stress_between(rng, 129, 1024);
	if (dice < 900)
		return stress_between(rng, 1025, 8 * STRESS_KIB);
	if (dice < 980)
		return stress_between(rng, 8 * STRESS_KIB + 1, 64 * STRESS_KIB);
	if (dice < 997)
		return stress_between(rng, 64 * STRESS_KIB + 1, 512 * STRESS_KIB);
	return stress_between(rng, 512 * STRESS_KIB + 1, 2 * STRESS_MIB);
}

/* The next size of a walk over all size classes, eight steps for each doubling: no class is narrower above 128 bytes. */
__attribute__((unused)) static size_t stress_next_size(size_t size)
{
	size_t step = 16;
	while (step * 16 <= size)
		step *= 2;
	return size + step;
}

/* ---- patterns and blocks ---- */

struct stress_block {
	unsigned char *p; /* NULL: empty */
	size_t size;      /* bytes asked for or, for some blocks, all that may be used */
	uint64_t tag;
};

static inline uint64_t stress_word(uintptr_t address, uint64_t tag)
{
	return (address + tag) * STRESS_GOLDEN;
}

__attribute__((unused)) static void stress_fill(const struct stress_block *block)
{
	size_t at = 0;
	for (; at + 8 <= block->size; at += 8) {
		uint64_t word = stress_word((uintptr_t)block->p + at, block->tag);
		memcpy(block->p + at, &word, 8);
	}
	uint64_t word = stress_word((uintptr_t)block->p + at, block->tag);
	memcpy(block->p + at, &word, block->size - at);
}

/* Are the first `size` bytes at p those that were filled in when the block began at `base`? */
static inline void stress_check_moved(const unsigned char *p, size_t size, uintptr_t base, uint64_t tag, const char *when)
{
	for (size_t at = 0; at < size; at += 8) {
		size_t n = size - at < 8 ? size - at : 8;
		uint64_t want = stress_word(base + at, tag), got = want;
		memcpy(&got, p + at, n);
		if (got != want)
			stress_fail("block %p (filled at 0x%lx, %zu bytes) wrong at offset %zu %s: want %016llx, found %016llx", (const void *)p,
				(unsigned long)base, size, at, when, (unsigned long long)want, (unsigned long long)got);
	}
}

__attribute__((unused)) static void stress_check(const struct stress_block *block, const char *when)
{
	stress_check_moved(block->p, block->size, (uintptr_t)block->p, block->tag, when);
}

__attribute__((unused)) static void stress_check_zero(const unsigned char *p, size_t size)
{
	for (size_t at = 0; at < size; at += 8) {
		size_t n = size - at < 8 ? size - at : 8;
		uint64_t got = 0;
		memcpy(&got, p + at, n);
		if (got)
			stress_fail(
				"calloc block %p of %zu bytes is not zero at offset %zu: %016llx", (const void *)p, size, at, (unsigned long long)got);
	}
}

/* What malloc must align to. lull aligns every block to 16; other allocators may give a block the alignment that fits into it. */
static inline size_t stress_natural_align(size_t size)
{
#ifdef STRESS_STANDARD_NAMES
	return size < 16 ? 8 : 16;
#else
	(void)size;
	return 16;
#endif
}

/* Takes over a fresh block: alignment, usable size, pattern. One in four is filled to the last byte that may be used. */
__attribute__((unused)) static void stress_block_adopt(
	struct stress_block *block, void *p, size_t size, size_t align, struct stress_rng *rng)
{
	if (!p)
		stress_fail("out of memory for %zu bytes aligned to %zu", size, align);
	if ((uintptr_t)p % align)
		stress_fail("block %p of %zu bytes is not aligned to %zu", p, size, align);
	size_t usable = stress_usable_size(p);
	if (usable < size)
		stress_fail("block %p of %zu bytes has a usable size of %zu", p, size, usable);
	*block = (struct stress_block){.p = p, .size = size, .tag = stress_random(rng)};
	if (block->tag % 4 == 0)
		block->size = usable;
	stress_fill(block);
}

/* Allocates in one of the four ways and fills. */
__attribute__((unused)) static void stress_block_new(struct stress_block *block, size_t size, struct stress_rng *rng)
{
	size_t align = stress_natural_align(size);
	void *p;
	switch (stress_below(rng, 8)) {
	case 0:
	case 1:
		p = stress_calloc(1, size);
		if (p)
			stress_check_zero(p, size);
		break;
	case 2:
		align = (size_t)16 << stress_below(rng, 10);
		p = stress_aligned_alloc(align, size);
		break;
	case 3:
		p = stress_realloc(NULL, size);
		break;
	default:
		p = stress_malloc(size);
	}
	stress_block_adopt(block, p, size, align, rng);
}

__attribute__((unused)) static void stress_block_resize(struct stress_block *block, size_t size, struct stress_rng *rng)
{
	uintptr_t base = (uintptr_t)block->p;
	size_t kept = size < block->size ? size : block->size;
	stress_check(block, "before realloc");
	unsigned char *p = stress_realloc(block->p, size);
	if (!p)
		stress_fail("out of memory for realloc to %zu bytes", size);
	stress_check_moved(p, kept, base, block->tag, "after realloc");
	stress_block_adopt(block, p, size, stress_natural_align(size), rng);
}

__attribute__((unused)) static void stress_block_free(struct stress_block *block)
{
	stress_check(block, "before free");
	stress_free(block->p);
	block->p = NULL;
}

/* ---- boxes: blocks change threads by swapping descriptors, so that moving one allocates nothing ---- */

/* Either side may be empty. The swap orders the block's contents between the two threads. */
__attribute__((unused)) static struct stress_block *stress_box_swap(struct stress_block *_Atomic *box, struct stress_block *block)
{
	return atomic_exchange_explicit(box, block, memory_order_acq_rel);
}

/* ---- the idle calls ---- */

#ifdef STRESS_STANDARD_NAMES
__attribute__((unused)) static void stress_thread_idle(void)
{
	void (*call)(void);
	*(void **)&call = dlsym(RTLD_DEFAULT, "lull_thread_idle");
	if (call)
		call();
}

__attribute__((unused)) static size_t stress_collect(bool force)
{
	size_t (*call)(bool);
	*(void **)&call = dlsym(RTLD_DEFAULT, "lull_collect");
	return call ? call(force) : 0;
}
#else
#define stress_thread_idle lull_thread_idle
#define stress_collect lull_collect
#endif

/* ---- what is resident ---- */

/* Anonymous resident memory in KiB, from smaps_rollup: exact, where the counters of status and statm are per-CPU sums that lag. */
__attribute__((unused)) static size_t stress_rss_anon_kib(void)
{
	char text[4096];
	int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		stress_fail("open /proc/self/smaps_rollup: %s", strerror(errno));
	size_t n = 0;
	for (ssize_t got; n < sizeof(text) - 1 && (got = read(fd, text + n, sizeof(text) - 1 - n)) > 0;)
		n += (size_t)got;
	close(fd);
	text[n] = 0;
	const char *line = strstr(text, "\nAnonymous:");
	if (!line)
		stress_fail("no Anonymous line in /proc/self/smaps_rollup");
	return strtoul(line + strlen("\nAnonymous:"), NULL, 10);
}

__attribute__((unused)) static void stress_pause_ms(unsigned ms)
{
	struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

__attribute__((unused)) static pthread_t stress_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, run, arg);
	if (error)
		stress_fail("pthread_create: %s", strerror(error));
	return thread;
}

#endif
