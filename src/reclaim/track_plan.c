/* SPDX-License-Identifier: MIT */
/*
 * Accounts and estimates. What a slice costs is learned per window, since in a minute more of it is written than in a second; before the
 * first window has closed, all that is watched of it is taken to be written.
 */
#include "reclaim/track_plan.h"

#include "base/random.h"

/* What each window gets of the budget and the fewest slices it opens for: fewer say nothing. The one-second window is paid for anew each
 * second, and its mean over ten is shown; the others save up for ten and sixty. The sum is TRACK_BUDGET_PPM. */
static const struct {
	uint64_t span_ns;
	unsigned ppm;
	size_t fewest;
} spans[TRACK_SPANS] = {
	[TRACK_EPOCH] = {TRACK_NS_PER_S, 1000, 4},
	[TRACK_TEN] = {10 * TRACK_NS_PER_S, 1750, 32},
	[TRACK_MINUTE] = {60 * TRACK_NS_PER_S, 1750, 64},
};

/* The most a window watches: 4096 slices meet a set of 1 % of memory 40 times. */
#define MOST_SLICES 4096

void track_plan_init(struct track_plan *plan, bool full)
{
	*plan = (struct track_plan){.full = full};
}

/* What is saved up for two windows; no more, or calm would pay for a burst. */
static int64_t most_credit(enum track_span span)
{
	return (int64_t)(spans[span].span_ns / 1000000 * spans[span].ppm * 2);
}

void track_plan_credit(struct track_plan *plan, uint64_t now_ns)
{
	uint64_t passed = plan->credited_ns == 0 ? 0 : now_ns - plan->credited_ns;

	plan->credited_ns = now_ns;
	for (unsigned span = 0; span < TRACK_SPANS; span++) {
		struct track_window *window = &plan->window[span];
		window->credit_ns += (int64_t)(min_size(passed, spans[span].span_ns) * spans[span].ppm / 1000000);
		if (window->credit_ns > most_credit((enum track_span)span))
			window->credit_ns = most_credit((enum track_span)span);
	}
}

void track_plan_restart(struct track_plan *plan, uint64_t now_ns)
{
	plan->credited_ns = now_ns;
	plan->epochs = 0;
	for (unsigned span = 0; span < TRACK_SPANS; span++) {
		plan->window[span].opened_ns = 0;
		plan->bytes[span] = 0;
	}
}

static void debit(struct track_plan *plan, enum track_span span, uint64_t cost_ns)
{
	plan->window[span].credit_ns -= (int64_t)cost_ns;
	plan->spent_ns += cost_ns;
}

static uint64_t slice_price(const struct track_plan *plan, const struct track_window *window)
{
	uint64_t worst = plan->arm_ns + TRACK_PART_BYTES / OS_PAGE_SIZE * plan->fault_ns;
	uint64_t second = plan->window[TRACK_EPOCH].slice_ns;

	if (window->slice_ns != 0)
		return window->slice_ns;
	/* in a longer time more of it is written: twice as much, to begin with */
	return max_size(second != 0 ? min_size(2 * second, worst) : worst, 1);
}

/* 0: not now. */
static size_t affordable(const struct track_plan *plan, enum track_span span, size_t slices)
{
	const struct track_window *window = &plan->window[span];
	size_t n;

	if (plan->full)
		return min_size(slices, MOST_SLICES);
	if (window->credit_ns <= 0)
		return 0;
	n = min_size((size_t)window->credit_ns / slice_price(plan, window), MOST_SLICES);
	if (n >= spans[span].fewest)
		return n;
	/* all is saved that may be, and it does not do: the few are paid for afterwards, by waiting for longer */
	return window->credit_ns == most_credit(span) ? spans[span].fewest : 0;
}

bool track_plan_open(struct track_plan *plan, enum track_span span, size_t slices, uint64_t random, uint64_t now_ns)
{
	struct track_window *window = &plan->window[span];
	size_t n = window->opened_ns != 0 ? 0 : affordable(plan, span, slices);

	if (n == 0)
		return false;
	window->opened_ns = now_ns;
	window->stride = ((slices + n - 1) / n) | 1;
	window->offset = random % window->stride;
	return true;
}

void track_plan_opened(struct track_plan *plan, enum track_span span, size_t slices, size_t armed, uint64_t cost_ns)
{
	struct track_window *window = &plan->window[span];

	window->slices = slices;
	window->armed = armed;
	if (slices > 0)
		plan->arm_ns = cost_ns / slices;
	debit(plan, span, cost_ns);
}

bool track_plan_is_due(const struct track_plan *plan, enum track_span span, uint64_t now_ns)
{
	uint64_t opened_ns = plan->window[span].opened_ns;

	return opened_ns != 0 && now_ns - opened_ns >= spans[span].span_ns;
}

/* A mean, so that one epoch's small sample does not make the number jump. */
static uint64_t mean_epoch(const struct track_plan *plan)
{
	unsigned n = (unsigned)min_size(plan->epochs, TRACK_MEAN);
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += plan->epoch_bytes[i];
	return n == 0 ? 0 : sum / n;
}

static void note_bytes(struct track_plan *plan, enum track_span span, uint64_t bytes)
{
	plan->bytes[span] = bytes;
	if (span != TRACK_EPOCH)
		return;
	plan->epoch_bytes[plan->epochs++ % TRACK_MEAN] = bytes;
	plan->bytes[span] = mean_epoch(plan);
}

/* Late by more than half: something kept the scavenger from waking, and the sample stands for a longer time than it says. */
static bool is_late(const struct track_window *window, enum track_span span, uint64_t now_ns)
{
	return now_ns - window->opened_ns > spans[span].span_ns + spans[span].span_ns / 2;
}

void track_plan_close(struct track_plan *plan, enum track_span span, size_t written, uint64_t cost_ns, uint64_t now_ns)
{
	struct track_window *window = &plan->window[span];
	uint64_t faults = min_size(window->armed, written);
	uint64_t cost = cost_ns + faults * plan->fault_ns;

	if (!is_late(window, span, now_ns))
		note_bytes(plan, span, written * OS_PAGE_SIZE * TRACK_PARTS * window->stride);
	if (window->slices > 0)
		window->slice_ns = max_size(plan->arm_ns + cost / window->slices, 1);
	plan->faults += faults;
	track_plan_cancel(plan, span, cost);
}

void track_plan_cancel(struct track_plan *plan, enum track_span span, uint64_t cost_ns)
{
	plan->window[span].opened_ns = 0;
	debit(plan, span, cost_ns);
}

size_t track_plan_part(enum track_span span, size_t slice)
{
	return (random_mix(slice) + span) % TRACK_PARTS * TRACK_PART_BYTES;
}
