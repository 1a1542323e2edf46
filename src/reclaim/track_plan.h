/* SPDX-License-Identifier: MIT */
/*
 * How much of memory is watched for writes, and what follows from what was seen. Pure: fed with a clock, counts and costs.
 *
 * The rule. A working set over T is the number of distinct OS pages written in T. Its sample is a set of slices armed once, when the
 * window opens, and looked at once, when it closes: a page written a thousand times in between counts once and costs one fault. Three
 * windows (1 s, 10 s, 60 s) have a sample each, of different parts of slices, so that opening one does not disturb another. A page
 * that was not there when the window opened and is there when it closes was written in it.
 *
 * The sample is systematic: every stride-th slice of a region in address order from a random offset, so that a contiguous set is met in
 * proportion to its size. The stride is odd, so that a pattern that repeats every two, four, ... slices is met in proportion as well. Of
 * each slice a quarter is armed, by a hash another one in each slice and for each window: arming costs as much as two faults, whatever its
 * length (kernel/track.c), so less would save little, and more would tell little, since what is written lies together.
 *
 * The budget. Each window has an account that is credited with a share of the time that passes and debited with what watching really cost:
 * the time of the tracker's own calls, and a fault for each page found written, at the price of a fault in this process. A window opens
 * when its account can pay for a sample, with as many slices as it can pay for. So the sum stays under the budget whatever a fault costs.
 *
 * Holder of the tracker's lock.
 */
#ifndef LULL_RECLAIM_TRACK_PLAN_H
#define LULL_RECLAIM_TRACK_PLAN_H

#include "base/base.h"

enum track_span { TRACK_EPOCH, TRACK_TEN, TRACK_MINUTE, TRACK_SPANS };

/* What is watched of a slice. */
#define TRACK_PARTS 4
#define TRACK_PART_BYTES (SLICE_SIZE / TRACK_PARTS)

#define TRACK_NS_PER_S UINT64_C(1000000000)

/* Millionths of one processor's time; the promise is 0.5 %, and the price of a fault is a sample as well. */
#define TRACK_BUDGET_PPM 4500

struct track_window {
	int64_t credit_ns;      /* what may be spent; below 0: was overspent */
	uint64_t opened_ns;     /* 0: not open */
	uint64_t slice_ns;      /* what a watched slice costs; 0: not known yet */
	size_t stride, offset;  /* slices; constant while open */
	size_t slices, armed;   /* watched; OS pages armed in them */
};

/* The mean of the last so many one-second windows stands for an epoch: within the budget one of them sees too little. */
#define TRACK_MEAN 10

struct track_plan {
	bool full;              /* no budget: as many slices as a window takes */
	uint64_t fault_ns;      /* price of one fault */
	uint64_t arm_ns;        /* of one call that arms */
	uint64_t credited_ns;   /* time up to which accounts are credited */
	struct track_window window[TRACK_SPANS];
	uint64_t epoch_bytes[TRACK_MEAN];
	unsigned epochs;        /* one-second windows closed, ever */
	uint64_t bytes[TRACK_SPANS]; /* the working sets */
	uint64_t faults, spent_ns;   /* caused and spent, ever; spent_ns includes the faults */
};

void track_plan_init(struct track_plan *plan, bool full) hidden;
/* Time has passed in which the tracker was awake. */
void track_plan_credit(struct track_plan *plan, uint64_t now_ns) hidden;
/* Nothing was watched up to now: closed windows, accounts as they are, working sets 0. */
void track_plan_restart(struct track_plan *plan, uint64_t now_ns) hidden;

/* Open a window over SLICES of address space if it can be paid for. random: any number. True: of slices offset, offset + stride, ... the
 * part that track_plan_part says is to be armed now, and track_plan_opened told what came of it. */
bool track_plan_open(struct track_plan *plan, enum track_span span, size_t slices, uint64_t random, uint64_t now_ns) hidden;
void track_plan_opened(struct track_plan *plan, enum track_span span, size_t slices, size_t armed, uint64_t cost_ns) hidden;

/* The window is open and its time is up. */
bool track_plan_is_due(const struct track_plan *plan, enum track_span span, uint64_t now_ns) hidden;
/* written: OS pages found written in its slices; cost_ns: of looking. It is closed, and what was seen counts unless it comes too late. */
void track_plan_close(struct track_plan *plan, enum track_span span, size_t written, uint64_t cost_ns, uint64_t now_ns) hidden;
/* It is closed, nothing was learned. */
void track_plan_cancel(struct track_plan *plan, enum track_span span, uint64_t cost_ns) hidden;

/* Where in a slice its part for a window begins, bytes. */
size_t track_plan_part(enum track_span span, size_t slice) hidden;

#endif
