/* SPDX-License-Identifier: MIT */
/*
 * How long free memory stays, and how much of it: a pure object fed with counts and a clock. It never enters the kernel and knows no heap;
 * sweeps ask it page by page. Two policies share it.
 *
 * Both: a page's age is the steps its clock has moved since it was last allocated from. Of age 0 or 1 it is young and stays (the hold);
 * past that it may stay for a while under the floor, a number of bytes for the whole process: by the seed's policy most recently used
 * first, by the default one what is expected back soonest.
 *
 * seed: one clock for the process, moved by sweeps only, a step of at least 100 ms; every page may stay for 256 steps; the floor is 4 MiB,
 * shared out first come, first served, and a sweep's share is given back at the heap's next sweep.
 *
 * default: each heap has its own clock, with steps of at least 50 ms. A page stays past the hold only if memory of its kind was seen to
 * come back: when the last of it that was returned was wanted again within the break-even time, it is held half as long again as that
 * took. Held in vain, it is forgotten. The floor grows by what was returned and wanted again (ghost hits) and shrinks by what was held in
 * vain.
 *
 * Guarded by the reclaim lock.
 */
#ifndef LULL_RECLAIM_POLICY_H
#define LULL_RECLAIM_POLICY_H

#include "base/base.h"
#include "page/reuse.h"

/* Ages are compared up to this; the largest floor_epochs there is. */
#define POLICY_AGES 256

struct policy {
	bool seed;
	uint64_t step_ns;      /* a clock moves at most once in this time; 0: no clock, no hold, no floor */
	unsigned young_steps;  /* ages below this are held */
	unsigned keep_steps;   /* and no page longer than this */
	size_t floor_bytes;    /* bytes that may stay past the hold, now */
	size_t floor_min, floor_max;
	/* seed */
	size_t shared_bytes;   /* of the floor, taken by heaps */
	/* default: resident free bytes that could be kept, by age, in the pass under way; and what the last one made of it */
	size_t by_age[POLICY_AGES];
	unsigned edge_age;     /* pages below this age fit under the floor together, */
	size_t edge_bytes;     /* and this many bytes of those that have it */
	size_t kept_bytes;     /* what stayed under the floor at the last pass */
};

enum policy_verdict {
	POLICY_RETURN,  /* goes */
	POLICY_HOLD,    /* young: stays whatever its size */
	POLICY_KEEP,    /* past the hold: stays if there is room under the floor */
	POLICY_EXPIRED, /* goes: was kept for as long as it may, in vain */
};

void policy_init(struct policy *policy, bool seed) hidden;

/* What it is before anybody chose: the default policy. Short against the 250 ms promised for a thread that goes idle, which are five steps;
 * long against the time between two uses of a busy thread's buffers. The floor starts as the seed's. */
#define POLICY_STEP_NS (UINT64_C(50) * 1000 * 1000)
#define POLICY_YOUNG_STEPS 2
#define POLICY_FLOOR_BYTES (4 * MIB)
#define POLICY_DEFAULT                                                                                      \
	{                                                                                                   \
		.step_ns = POLICY_STEP_NS, .young_steps = POLICY_YOUNG_STEPS,                               \
		.keep_steps = POLICY_YOUNG_STEPS + REUSE_MAX_MS * 1000000 / POLICY_STEP_NS,                 \
		.floor_bytes = POLICY_FLOOR_BYTES, .floor_min = POLICY_FLOOR_BYTES,                         \
		.floor_max = POLICY_FLOOR_BYTES, .edge_age = POLICY_AGES,                                   \
	}
/* How much memory there is to hold a part of, bytes; until then the floor does not grow. */
void policy_know_memory(struct policy *policy, size_t memory_bytes) hidden;

/* May a clock that moved at SINCE_NS move again? A clock that went backwards may: the new start heals it. */
bool policy_may_step(const struct policy *policy, uint64_t since_ns, uint64_t now_ns) hidden;

/* Steps that memory may stay in all which was last wanted again after REUSE_MS (0: never was). */
unsigned policy_keep_steps(const struct policy *policy, unsigned reuse_ms) hidden;

/* age: steps since the page was allocated from. keep_steps: from above. */
enum policy_verdict policy_judge(const struct policy *policy, unsigned age, unsigned keep_steps) hidden;

/* --- the floor, seed -------------------------------------------------------------------------------------------------------------- */

/* Room for BYTES more? Then they are taken. */
bool policy_floor_take(struct policy *policy, size_t bytes) hidden;
void policy_floor_give(struct policy *policy, size_t bytes) hidden;

/* --- the floor, default ------------------------------------------------------------------------------------------------------------ */

/* BYTES of this age, or of another rank that grows by one each step, were judged POLICY_KEEP. Do they fit? Known from the pass before: a
 * floor that is too small lets go one pass later. */
bool policy_floor_fits(struct policy *policy, unsigned age, size_t bytes) hidden;
/* The same without counting them: for a sweep of some of the pages, between two passes. */
bool policy_floor_has_room(const struct policy *policy, unsigned age, size_t bytes) hidden;
/* A pass over all pages is over. ghost_bytes: returned memory wanted again since the last pass; vain_bytes: judged POLICY_EXPIRED. */
void policy_end_pass(struct policy *policy, size_t ghost_bytes, size_t vain_bytes) hidden;

#endif
