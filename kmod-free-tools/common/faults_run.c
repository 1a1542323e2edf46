/* SPDX-License-Identifier: MIT */
/*
 * All ways end with the same writes, one byte in each OS page, so that they differ in how the memory came there. lull is the one this
 * command is linked with (lull_malloc); the calls it makes are counted where it makes them, in the table of kernel/kernel.h.
 *
 * lull populates what it found written before, so the same blocks are taken, written, freed and returned a few times first.
 */
#include "common/faults_run.h"

#include "common/measuring.h"

#include "base/base.h"
#include "kernel/kernel.h"

#include <lull/idle.h>
#include <lull/malloc.h>
#include <lull/stats.h>

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* linux/mman.h, 5.14 */
#endif

#define HUGE_BYTES (2 * MIB)

/* Rounds before the measured one: the first teaches what is written, and one more shows that it was learned. */
#define LEARN_ROUNDS 3

/* What is freed is with the kernel after three looks of 50 ms; 40 times that is a machine that does nothing for us. */
#define AWAY_WAIT_MS 6000
#define AWAY_POLL_MS 10

static const char *const names[FAULTS_WAYS] = {
	[FAULTS_TOUCH] = "touch",
	[FAULTS_POPULATE] = "populate",
	[FAULTS_HUGE_TOUCH] = "huge, touch",
	[FAULTS_HUGE_POPULATE] = "huge, populate",
	[FAULTS_LULL_ONE] = "lull, one block",
	[FAULTS_LULL_LARGE] = "lull, 256 KiB",
	[FAULTS_LULL_MEDIUM] = "lull, 16 KiB",
};

const char *faults_way_name(enum faults_way way)
{
	return names[way];
}

static enum tool_exit is_absent(struct faults_answer *ret, const char *why)
{
	ret->absent = 1;
	snprintf(ret->reason, sizeof(ret->reason), "%s", why);
	return TOOL_OK;
}

static enum tool_exit failed(const char *what)
{
	say("measure faults", "%s: %s", what, strerror(errno));
	return TOOL_CANNOT;
}

static void write_pages(char *addr, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += OS_PAGE_SIZE)
		*(volatile char *)(addr + at) = 1;
}

static uint64_t count_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_minflt;
}

/* ---- bare memory ---- */

static bool is_huge(enum faults_way way)
{
	return way == FAULTS_HUGE_TOUCH || way == FAULTS_HUGE_POPULATE;
}

static bool is_populated(enum faults_way way)
{
	return way == FAULTS_POPULATE || way == FAULTS_HUGE_POPULATE;
}

/* Aligned for huge pages; the rest of the mapping stays untouched. */
static char *map_bare(size_t bytes)
{
	char *addr = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return addr == MAP_FAILED ? NULL : (char *)align_up((uintptr_t)addr, HUGE_BYTES);
}

/* In memory once and returned, as what lull takes back: the page tables are there. ENOSYS or EINVAL: a kernel without huge pages. */
static bool make_away(char *addr, size_t bytes)
{
	(void)madvise(addr, bytes, MADV_NOHUGEPAGE);
	write_pages(addr, bytes);
	return madvise(addr, bytes, MADV_DONTNEED) == 0 && addr[0] == 0;
}

static bool take_bare(enum faults_way way, char *addr, size_t bytes, struct faults_answer *ret)
{
	uint64_t start = measuring_now_ns(), faults = count_faults(), taken, taken_faults;

	if (is_huge(way) && ++ret->calls > 0 && madvise(addr, bytes, MADV_HUGEPAGE) != 0)
		return false;
	if (is_populated(way) && ++ret->calls > 0 && madvise(addr, bytes, MADV_POPULATE_WRITE) != 0)
		return false;
	taken = measuring_now_ns();
	taken_faults = count_faults();
	write_pages(addr, bytes);
	ret->total_ns = measuring_now_ns() - start;
	ret->take_ns = taken - start;
	ret->write_ns = ret->total_ns - ret->take_ns;
	ret->write_faults = count_faults() - taken_faults;
	ret->minor_faults = count_faults() - faults;
	return true;
}

static enum tool_exit run_bare(const struct faults_plan *plan, struct faults_answer *ret)
{
	char *addr = map_bare(plan->bytes);
	char why[96];

	if (addr == NULL)
		return failed("cannot map memory");
	if (!is_huge(plan->way) && !make_away(addr, plan->bytes)) {
		say("measure faults", "madvise(MADV_DONTNEED) does not return memory here: there is none to take back");
		return TOOL_KERNEL;
	}
	if (!take_bare(plan->way, addr, plan->bytes, ret)) {
		snprintf(why, sizeof(why), "this kernel refuses %s: %s",
			is_huge(plan->way) && ret->calls == 1 ? "MADV_HUGEPAGE" : "MADV_POPULATE_WRITE", strerror(errno));
		return is_absent(ret, why);
	}
	/* short of them the kernel falls back to OS pages */
	if (is_huge(plan->way) && measuring_huge_bytes() < plan->bytes / 2)
		return is_absent(ret, "the kernel gave no huge pages (transparent_hugepage/enabled is never, or none are free)");
	return TOOL_OK;
}

/* ---- lull ---- */

static struct kernel real;
static _Atomic uint64_t populate_calls; /* relaxed: by the measured thread, in a process where only the scavenger is beside it */

static int counting_madvise(void *addr, size_t len, int advice)
{
	if (advice == MADV_POPULATE_WRITE || advice == MADV_HUGEPAGE)
		atomic_fetch_add_explicit(&populate_calls, 1, memory_order_relaxed);
	return real.madvise(addr, len, advice);
}

static size_t block_bytes(const struct faults_plan *plan)
{
	switch (plan->way) {
	case FAULTS_LULL_LARGE:
		return 256 * KIB;
	case FAULTS_LULL_MEDIUM:
		return 16 * KIB;
	default:
		return plan->bytes;
	}
}

/* Where the blocks are is noted in memory of another kind, so that it is not counted. */
struct blocks {
	char **at;
	size_t n, bytes;
};

static bool take_blocks(const struct blocks *blocks)
{
	for (size_t i = 0; i < blocks->n; i++)
		if ((blocks->at[i] = lull_malloc(blocks->bytes)) == NULL)
			return false;
	return true;
}

static void write_blocks(const struct blocks *blocks)
{
	for (size_t i = 0; i < blocks->n; i++)
		write_pages(blocks->at[i], blocks->bytes);
}

static uint64_t returned_bytes(void)
{
	struct lull_stats stats = {0};

	lull_stats_read(&stats, sizeof(stats));
	return stats.returned_bytes;
}

/* Frees and waits until the kernel has all of it, but for a sixteenth that may share OS pages with what is in use. */
static bool give_blocks(const struct blocks *blocks, size_t bytes)
{
	uint64_t before = returned_bytes();

	for (size_t i = 0; i < blocks->n; i++)
		lull_free(blocks->at[i]);
	for (unsigned waited_ms = 0; waited_ms < AWAY_WAIT_MS; waited_ms += AWAY_POLL_MS) {
		lull_collect(true);
		if (returned_bytes() - before >= bytes - bytes / 16)
			return true;
		poll(NULL, 0, AWAY_POLL_MS);
	}
	return false;
}

static bool take_lull(const struct blocks *blocks, struct faults_answer *ret)
{
	uint64_t faults = count_faults(), calls = atomic_load_explicit(&populate_calls, memory_order_relaxed);
	uint64_t start = measuring_now_ns(), taken, taken_faults;

	if (!take_blocks(blocks))
		return false;
	taken = measuring_now_ns();
	taken_faults = count_faults();
	write_blocks(blocks);
	ret->total_ns = measuring_now_ns() - start;
	ret->take_ns = taken - start;
	ret->write_ns = ret->total_ns - ret->take_ns;
	ret->write_faults = count_faults() - taken_faults;
	ret->minor_faults = count_faults() - faults;
	ret->calls = atomic_load_explicit(&populate_calls, memory_order_relaxed) - calls;
	return true;
}

static enum tool_exit run_lull(const struct faults_plan *plan, struct faults_answer *ret)
{
	struct blocks blocks = {.bytes = block_bytes(plan)};

	real = kernel;
	kernel.madvise = counting_madvise;
	blocks.n = plan->bytes / blocks.bytes;
	blocks.at = mmap(NULL, blocks.n * sizeof(blocks.at[0]), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (blocks.at == MAP_FAILED)
		return failed("cannot map memory");
	for (unsigned round = 0; round < LEARN_ROUNDS; round++) {
		if (!take_lull(&blocks, ret))
			return failed("cannot allocate");
		if (!give_blocks(&blocks, plan->bytes)) {
			say("measure faults", "what lull was given back did not go to the kernel: there is nothing to take back");
			return TOOL_KERNEL;
		}
	}
	return take_lull(&blocks, ret) ? TOOL_OK : failed("cannot allocate");
}

enum tool_exit faults_run(const void *plan, void *ret)
{
	const struct faults_plan *ways = plan;

	return ways->way >= FAULTS_LULL_ONE ? run_lull(plan, ret) : run_bare(plan, ret);
}
