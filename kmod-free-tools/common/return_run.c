/* SPDX-License-Identifier: MIT */
/*
 * Each run goes through the same batch twice: the first time opens what is opened on first use (the ring, the kernel's workers, lull's
 * thread) and has one OS page of each hole in memory, the second has all and is timed.
 *
 * Every OS page is written, not only populated: in some virtual machines unmapping a page that was never used is cheaper.
 */
#include "common/return_run.h"

#include "common/contained.h"
#include "common/measuring.h"

#include "base/base.h"
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/ring.h"

#include <lull/idle.h>
#include <lull/malloc.h>
#include <lull/stats.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Between two holes: as much as a hole, and of large ones enough to keep them apart. */
#define GAP_BYTES_MAX (64 * KIB)

/* lull's thread returns what was handed over within some looks of 50 ms each; the follow-up rule of lull/idle.h takes four times 100 ms. */
#define HAND_OVER_POLL_MS 10

static const char *const names[RETURN_WAYS] = {
	[RETURN_MADVISE] = "madvise",
	[RETURN_VECTOR] = "vector",
	[RETURN_URING] = "uring",
	[RETURN_HAND_OVER] = "handover",
	[RETURN_AUTO] = "auto",
};

static const char *const huge_names[HUGE_WAYS] = {
	[HUGE_DONTNEED] = "MADV_DONTNEED alone",
	[HUGE_SPLIT] = "lull, split first",
};

const char *return_way_name(enum return_way way)
{
	return names[way];
}

const char *huge_way_name(enum huge_way way)
{
	return huge_names[way];
}

static enum tool_exit failed(const char *what)
{
	say("measure return", "%s: %s", what, strerror(errno));
	return TOOL_CANNOT;
}

static bool is_there(enum cap cap, char *reason, size_t len)
{
	enum cap base = cap;
	int err;

	if (caps_has(cap))
		return true;
	caps_lacks(cap, &base);
	err = caps_reason(base);
	snprintf(reason, len, "%s: %s%s%s", caps_name(base), caps_state_name(caps_state(base)), err == 0 ? "" : ": ",
		err == 0 ? "" : err == CAPS_KILLED ? "killed by a filter" : strerror(-err));
	return false;
}

static char *map_memory(size_t bytes, size_t align)
{
	char *addr = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return addr == MAP_FAILED ? NULL : (char *)align_up((uintptr_t)addr, align);
}

static void write_pages(char *addr, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += OS_PAGE_SIZE)
		*(volatile char *)(addr + at) = 1;
}

/* ---- a busy neighbour ---- */

static atomic_int busy_tid; /* 0 until the thread runs; then it runs to the end of the process */

static void *keep_busy(void *unused)
{
	(void)unused;
	atomic_store(&busy_tid, gettid());
	for (;;)
		cpu_relax();
	return NULL;
}

static bool start_busy(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, keep_busy, NULL) != 0)
		return false;
	while (atomic_load(&busy_tid) == 0)
		poll(NULL, 0, 1);
	return true;
}

/* ---- looking before and after ---- */

struct look {
	struct advise_counts counts;
	uint64_t usage_bytes, rss_bytes, others_ns, own_ns, start_ns;
};

static struct look look_before(void)
{
	struct look look = {
		.counts = advise_counts(),
		.usage_bytes = memory_group_usage(&contained_group),
		.rss_bytes = measuring_rss_bytes(),
		.others_ns = measuring_others_cpu_ns(atomic_load(&busy_tid)),
	};

	look.own_ns = measuring_own_cpu_ns();
	look.start_ns = measuring_now_ns();
	return look;
}

static uint64_t by_of(const struct advise_counts *before, const struct advise_counts *after)
{
	uint64_t vector = after->vector_bytes - before->vector_bytes, ring = after->ring_bytes - before->ring_bytes;
	uint64_t all = after->returned_bytes - before->returned_bytes;

	return (vector > 0 ? RETURN_BY_VECTOR : 0) | (ring > 0 ? RETURN_BY_URING : 0) | (all > vector + ring ? RETURN_BY_MADVISE : 0);
}

/* A rise is no return: what others in the same cgroup took meanwhile. */
static uint64_t fall(uint64_t before, uint64_t after)
{
	return before == UINT64_MAX || after == UINT64_MAX ? UINT64_MAX : before > after ? before - after : 0;
}

static void look_after(const struct look *before, struct return_answer *ret)
{
	struct advise_counts counts = advise_counts();

	ret->total_ns = measuring_now_ns() - before->start_ns;
	ret->cpu_ns = measuring_own_cpu_ns() - before->own_ns;
	ret->cpu_ns += measuring_others_cpu_ns(atomic_load(&busy_tid)) - before->others_ns;
	ret->usage_bytes = fall(before->usage_bytes, memory_group_usage(&contained_group));
	ret->rss_bytes = fall(before->rss_bytes, measuring_rss_bytes());
	ret->accepted_bytes = counts.returned_bytes - before->counts.returned_bytes;
	ret->by = by_of(&before->counts, &counts);
}

/* ---- the engine ---- */

static struct advise_batch batch;

static void forget(const struct advise_range *range, bool ok)
{
	(void)range;
	(void)ok; /* counted by the engine */
}

/* What bars this way here. */
static bool is_way_there(enum return_way way, struct return_answer *ret)
{
	switch (way) {
	case RETURN_VECTOR:
		return is_there(CAPS_PROCESS_MADVISE, ret->reason, sizeof(ret->reason));
	case RETURN_URING:
		return is_there(CAPS_URING_MADVISE, ret->reason, sizeof(ret->reason));
	case RETURN_HAND_OVER:
		return is_there(CAPS_THREAD, ret->reason, sizeof(ret->reason));
	default:
		return true;
	}
}

static void set_way(enum return_way way)
{
	if (way == RETURN_MADVISE)
		advise_set_way(ADVISE_LOOP);
	else if (way == RETURN_VECTOR)
		advise_set_way(ADVISE_VECTOR);
	else if (way == RETURN_URING)
		advise_set_way(ADVISE_URING);
}

static void note_caller(const struct look *before, struct return_answer *ret)
{
	ret->caller_ns = measuring_now_ns() - before->start_ns;
	ret->caller_cpu_ns = measuring_own_cpu_ns() - before->own_ns;
}

/* This thread is what the scavenger is in lull: it owns the ring and sees each batch to its end. */
static void return_holes(const struct return_plan *plan, char *addr, size_t apart, struct return_answer *ret)
{
	struct look before = look_before();

	for (unsigned i = 0; i < plan->holes; i++)
		advise_batch_add(&batch, addr + i * apart, plan->hole_bytes, NULL, 0);
	advise_batch_flush(&batch);
	note_caller(&before, ret);
	advise_batch_finish(&batch);
	look_after(&before, ret);
}

static enum tool_exit run_engine(const struct return_plan *plan, struct return_answer *ret)
{
	size_t apart = plan->hole_bytes + min_size(plan->hole_bytes, GAP_BYTES_MAX);
	char *addr = map_memory(plan->holes * apart, OS_PAGE_SIZE);

	if (addr == NULL)
		return failed("cannot map memory");
	(void)madvise(addr, plan->holes * apart, MADV_NOHUGEPAGE); /* as lull's regions; EINVAL: there are none */
	set_way(plan->way);
	ring_own();
	advise_batch_init(&batch, forget);
	for (unsigned i = 0; i < plan->holes; i++)
		write_pages(addr + i * apart, OS_PAGE_SIZE);
	return_holes(plan, addr, apart, ret);
	for (unsigned i = 0; i < plan->holes; i++)
		write_pages(addr + i * apart, plan->hole_bytes);
	return_holes(plan, addr, apart, ret);
	ring_disown();
	return TOOL_OK;
}

/* ---- lull ---- */

struct blocks {
	char **hole, **between; /* in turn, so that no two holes touch */
};

static bool allocate(const struct return_plan *plan, const struct blocks *blocks)
{
	for (unsigned i = 0; i < plan->holes; i++) {
		blocks->hole[i] = lull_malloc(plan->hole_bytes);
		blocks->between[i] = lull_malloc(plan->hole_bytes);
		if (blocks->hole[i] == NULL || blocks->between[i] == NULL)
			return false;
	}
	return true;
}

/* What is young stays for a while; a thread that goes on waiting asks again. */
static void await_return(const struct return_plan *plan, const struct look *before)
{
	uint64_t enough = plan->holes * plan->hole_bytes;

	for (unsigned tries = 1; tries <= LULL_IDLE_RELEASES; tries++) {
		for (unsigned ms = 0; ms < LULL_IDLE_INTERVAL_NS / 1000000; ms += HAND_OVER_POLL_MS) {
			if (advise_counts().returned_bytes - before->counts.returned_bytes >= enough)
				return;
			poll(NULL, 0, HAND_OVER_POLL_MS);
		}
		lull_thread_idle();
	}
}

static bool hand_over(const struct return_plan *plan, const struct blocks *blocks, size_t written, struct return_answer *ret)
{
	struct look before;

	if (!allocate(plan, blocks))
		return false;
	for (unsigned i = 0; i < plan->holes; i++)
		write_pages(blocks->hole[i], written);
	for (unsigned i = 0; i < plan->holes; i++)
		lull_free(blocks->hole[i]);
	before = look_before();
	lull_thread_idle();
	note_caller(&before, ret);
	await_return(plan, &before);
	look_after(&before, ret);
	ret->total_ns = UINT64_MAX;
	for (unsigned i = 0; i < plan->holes; i++)
		lull_free(blocks->between[i]);
	return true;
}

static enum tool_exit run_lull(const struct return_plan *plan, struct return_answer *ret)
{
	char **pointers = mmap(NULL, 2 * plan->holes * sizeof(*pointers), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct blocks blocks = {.hole = pointers, .between = pointers + plan->holes};

	if (pointers == MAP_FAILED)
		return failed("cannot map memory");
	if (!hand_over(plan, &blocks, OS_PAGE_SIZE, ret) || !hand_over(plan, &blocks, plan->hole_bytes, ret))
		return failed("cannot allocate");
	return TOOL_OK;
}

enum tool_exit return_run(const void *plan_, void *ret_)
{
	const struct return_plan *plan = plan_;
	struct return_answer *ret = ret_;

	if (!caps_has(CAPS_DONTNEED)) {
		is_there(CAPS_DONTNEED, ret->reason, sizeof(ret->reason));
		say("measure return", "madvise(MADV_DONTNEED) does not return memory here (%s)", ret->reason);
		return TOOL_KERNEL;
	}
	ret->absent = !is_way_there(plan->way, ret);
	if (ret->absent)
		return TOOL_OK;
	if (plan->busy && !start_busy())
		return failed("cannot start a thread");
	return plan->way == RETURN_HAND_OVER ? run_lull(plan, ret) : run_engine(plan, ret);
}

/* ---- halves of huge pages ---- */

#define HUGE_BYTES (2 * MIB)

static void return_halves(const struct huge_plan *plan, char *addr)
{
	advise_batch_init(&batch, forget);
	for (char *half = addr + HUGE_BYTES / 2; half < addr + plan->bytes; half += HUGE_BYTES)
		if (plan->way == HUGE_DONTNEED)
			(void)madvise(half, HUGE_BYTES / 2, MADV_DONTNEED); /* seen by what falls */
		else
			advise_batch_add_huge(&batch, half, HUGE_BYTES / 2, NULL, 0);
	advise_batch_finish(&batch);
}

static void measure_halves(const struct huge_plan *plan, char *addr, struct huge_answer *ret)
{
	uint64_t usage = memory_group_usage(&contained_group), rss = measuring_rss_bytes();

	return_halves(plan, addr);
	ret->usage_bytes = fall(usage, memory_group_usage(&contained_group));
	ret->rss_bytes = fall(rss, measuring_rss_bytes());
	for (char *half = addr + HUGE_BYTES / 2; half < addr + plan->bytes; half += HUGE_BYTES)
		write_pages(half, HUGE_BYTES / 2);
	ret->rewrite_bytes = usage == UINT64_MAX ? UINT64_MAX : memory_group_usage(&contained_group) - usage;
}

/* Written in huge pages, and from then on without: what is written again comes in OS pages, as in lull. */
static char *map_huge(size_t bytes)
{
	char *addr = map_memory(bytes, HUGE_BYTES);

	if (addr == NULL || madvise(addr, bytes, MADV_HUGEPAGE) != 0)
		return NULL;
	write_pages(addr, bytes);
	return madvise(addr, bytes, MADV_NOHUGEPAGE) == 0 ? addr : NULL;
}

enum tool_exit huge_run(const void *plan_, void *ret_)
{
	const struct huge_plan *plan = plan_;
	struct huge_answer *ret = ret_;
	char *addr;

	ret->absent = !is_there(CAPS_HUGE_PAGES, ret->reason, sizeof(ret->reason));
	if (ret->absent)
		return TOOL_OK;
	addr = map_huge(plan->bytes);
	if (addr == NULL)
		return failed("cannot map huge pages");
	ret->absent = measuring_huge_bytes() < plan->bytes / 2;
	if (ret->absent)
		snprintf(ret->reason, sizeof(ret->reason), "the kernel has too few huge pages free");
	else
		measure_halves(plan, addr, ret);
	return TOOL_OK;
}
