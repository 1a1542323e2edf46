/* SPDX-License-Identifier: MIT */
/*
 * A run is cut into requests of FLIGHT_REQUEST_BYTES at most, so a request may cover many ranges, and a range may need many requests. Each
 * range counts down the bytes that are still open; answers come in any order.
 */
#include "kernel/flight.h"

#include "kernel/kernel.h"
#include "kernel/returns.h"
#include "kernel/ring.h"

/* A request costs some 5 us beside the 25 to 40 us for each MiB (measured); of this size large runs are shared out evenly. Cut at multiples
 * of it, each has a page table to itself: two threads of the kernel's in one table get in each other's way, and took twice as long. */
#define FLIGHT_REQUEST_BYTES (2 * MIB)

/* All of one batch's. */
#define FLIGHT_RANGES ADVISE_BATCH_RANGES

struct flight_range {
	struct advise_range range;
	void (*done)(const struct advise_range *range, bool ok);
	size_t open; /* bytes not answered yet */
	bool refused;
};

static struct {
	uint32_t n; /* ranges in use; back to 0 when all were told */
	struct ring_request queue[RING_ENTRIES]; /* gathered for the next hand-over */
	size_t queued;
	size_t accepted;
	bool asked_locked;
	struct flight_range range[FLIGHT_RANGES];
} flight;

static void answer_range(struct flight_range *in_flight, size_t len, bool ok)
{
	in_flight->refused |= !ok;
	in_flight->open -= len;
	if (in_flight->open == 0)
		flight.accepted += returns_tell(in_flight->done, &in_flight->range, !in_flight->refused);
}

/* What REQUEST has of the range. */
static size_t overlap(const struct ring_request *request, const struct advise_range *range, char **ret_addr)
{
	char *from = request->addr > range->addr ? request->addr : range->addr;
	char *end = request->addr + request->len, *range_end = range->addr + range->len;

	*ret_addr = from;
	return (size_t)((end < range_end ? end : range_end) - from);
}

static void answer_request(const struct ring_request *request, bool ok)
{
	/* a refusal may be the fault of one range only, or of the ring */
	if (!ok)
		ok = returns_madvise(request->addr, request->len, &flight.asked_locked);
	for (uint32_t i = request->first; i < request->first + request->n; i++) {
		char *addr;
		size_t len = overlap(request, &flight.range[i].range, &addr);

		answer_range(&flight.range[i], len, ok || (request->n > 1 && returns_madvise(addr, len, &flight.asked_locked)));
	}
}

/* Until only LEFT are in flight. */
static void take_answers(size_t left)
{
	while (ring_in_flight() > left) {
		struct ring_request request;
		int result = ring_answer(&request, ring_in_flight() - left);

		if (result == 0)
			returns_count(&returns_counters.ring_bytes, request.len);
		answer_request(&request, result == 0);
	}
}

static void submit(void)
{
	size_t taken;

	if (flight.queued == 0)
		return;
	taken = ring_submit(flight.queue, flight.queued, returns_advice());
	returns_count(&returns_counters.calls, 1);
	returns_count(&returns_counters.ring_batches, 1);
	for (size_t i = taken; i < flight.queued; i++)
		answer_request(&flight.queue[i], false);
	flight.queued = 0;
}

static void queue(const struct ring_request *request)
{
	if (flight.queued + ring_in_flight() == RING_ENTRIES) {
		submit();
		take_answers(RING_ENTRIES / 2);
	}
	flight.queue[flight.queued++] = *request;
}

static size_t take_accepted(void)
{
	size_t bytes = flight.accepted;

	flight.accepted = 0;
	return bytes;
}

static void finish(void)
{
	submit();
	take_answers(0);
	flight.n = 0;
	flight.asked_locked = false;
}

/* The ranges of RUN take their places; returns the first one's. */
static uint32_t seat_ranges(const struct advise_batch *batch, const struct advise_run *run)
{
	uint32_t first = flight.n;

	for (uint32_t i = 0; i < run->n; i++) {
		const struct advise_range *range = &batch->range[run->first + i];

		flight.range[flight.n++] = (struct flight_range){.range = *range, .done = batch->done, .open = range->len};
	}
	return first;
}

/* The ranges from AT on that overlap the LEN bytes at ADDR. */
static void cover(struct ring_request *request, uint32_t at, uint32_t end)
{
	while (flight.range[at].range.addr + flight.range[at].range.len <= request->addr)
		at++;
	request->first = at;
	while (at < end && flight.range[at].range.addr < request->addr + request->len)
		at++;
	request->n = at - request->first;
}

static void add_run(const struct advise_batch *batch, const struct advise_run *run)
{
	uint32_t first = seat_ranges(batch, run), end = flight.n;

	for (size_t at = 0; at < run->len;) {
		char *addr = run->addr + at;
		size_t most = FLIGHT_REQUEST_BYTES - (uintptr_t)addr % FLIGHT_REQUEST_BYTES;
		struct ring_request request = {.addr = addr, .len = min_size(run->len - at, most)};

		cover(&request, first, end);
		first = request.first;
		at += request.len;
		queue(&request);
	}
}

size_t flight_add(struct advise_batch *batch, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (flight.n + batch->run[i].n > FLIGHT_RANGES)
			finish();
		add_run(batch, &batch->run[i]);
	}
	submit();
	return take_accepted();
}

size_t flight_finish(void)
{
	finish();
	return take_accepted();
}

void flight_forget(void)
{
	flight.n = 0;
	flight.queued = 0;
	ring_forget();
}
