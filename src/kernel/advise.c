/* SPDX-License-Identifier: MIT */
/*
 * A flush turns its ranges into runs and gives each the way that is cheapest for it. What goes to the ring is handed over first, so that
 * the kernel's threads work on it while this one returns the rest.
 */
#include "kernel/advise.h"

#include "kernel/caps.h"
#include "kernel/discard.h"
#include "kernel/flight.h"
#include "kernel/map.h"
#include "kernel/returns.h"
#include "kernel/ring.h"
#include "kernel/runs.h"

/* Before anyone chose, each batch goes the cheapest way. */
#define WAY_AUTO (-1)

/* A batch's runs of RING_RUN_BYTES and more go to the ring when they have RING_BYTES together. Measured on 2 processors, whole cost in us
 * of each run by madvise, vector, ring: 64 KiB 44, 2, 44; 256 KiB 13, 7, 13; 512 KiB 18, 14, 20; 1 MiB 33, 28, 37; 4 MiB 114, 113, 128; of
 * the ring's the owner pays 0.4 to 3 when four or more are handed over. So small runs are far cheaper by vector, and from 512 KiB on the
 * ring costs a few us a run more, and frees this thread to return the small ones, and other processors to help. Less than 2 MiB are not
 * worth waking, or making, a thread of the kernel's (some 100 us). */
#define RING_RUN_BYTES (512 * KIB)
#define RING_BYTES (2 * MIB)

static _Atomic int forced_way = WAY_AUTO;
struct returns_counters returns_counters;

static uint64_t counted(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

struct advise_counts advise_counts(void)
{
	return (struct advise_counts){
		.calls = counted(&returns_counters.calls),
		.returned_bytes = counted(&returns_counters.returned_bytes),
		.failed_bytes = counted(&returns_counters.failed_bytes),
		.ring_batches = counted(&returns_counters.ring_batches),
		.ring_bytes = counted(&returns_counters.ring_bytes),
		.vector_bytes = counted(&returns_counters.vector_bytes),
		.split_bytes = counted(&returns_counters.split_bytes),
	};
}

size_t returns_tell(void (*done)(const struct advise_range *range, bool ok), const struct advise_range *range, bool ok)
{
	returns_count(ok ? &returns_counters.returned_bytes : &returns_counters.failed_bytes, range->len);
	done(range, ok);
	return ok ? range->len : 0;
}

/* --- ways ----------------------------------------------------------------------------------------------------------------------- */

static int forced(void)
{
	return atomic_load_explicit(&forced_way, memory_order_relaxed);
}

enum advise_way advise_way(void)
{
	int way = forced();

	if (way == ADVISE_LOOP)
		return ADVISE_LOOP;
	if (way != ADVISE_VECTOR && ring_is_possible())
		return ADVISE_URING;
	return discard_by_vector() ? ADVISE_VECTOR : ADVISE_LOOP;
}

void advise_set_way(enum advise_way way)
{
	if (way == ADVISE_VECTOR)
		discard_force_vector();
	atomic_store_explicit(&forced_way, (int)way, memory_order_relaxed);
}

/* How many of the runs, the first ones, go to the ring. */
static size_t choose_for_ring(const struct advise_batch *batch, size_t runs)
{
	size_t n = 0, bytes = 0;

	if (forced() == ADVISE_LOOP || forced() == ADVISE_VECTOR || !ring_is_mine())
		return 0;
	if (forced() == ADVISE_URING)
		return ring_ready() ? runs : 0;
	while (n < runs && batch->run[n].len >= RING_RUN_BYTES)
		bytes += batch->run[n++].len;
	return bytes >= RING_BYTES && ring_ready() ? n : 0;
}

/* --- batches -------------------------------------------------------------------------------------------------------------------- */

void advise_batch_init(struct advise_batch *batch, void (*done)(const struct advise_range *range, bool ok))
{
	batch->done = done;
	batch->n = 0;
	batch->bytes = 0;
}

static void add(struct advise_batch *batch, const struct advise_range *range)
{
	lull_assert(range->len > 0 && range->len % OS_PAGE_SIZE == 0 && (uintptr_t)range->addr % OS_PAGE_SIZE == 0);
	if (batch->n == ADVISE_BATCH_RANGES)
		advise_batch_flush(batch);
	batch->range[batch->n++] = *range;
	batch->bytes += range->len;
}

void advise_batch_add(struct advise_batch *batch, char *addr, size_t len, void *owner, uint64_t bits)
{
	add(batch, &(struct advise_range){.addr = addr, .len = len, .owner = owner, .bits = bits});
}

void advise_batch_add_huge(struct advise_batch *batch, char *addr, size_t len, void *owner, uint64_t bits)
{
	add(batch, &(struct advise_range){.addr = addr, .len = len, .owner = owner, .bits = bits, .huge = true});
}

static void refuse_all(const struct advise_batch *batch)
{
	for (size_t i = 0; i < batch->n; i++)
		returns_tell(batch->done, &batch->range[i], false);
}

static size_t hand_over(struct advise_batch *batch)
{
	size_t runs = runs_make(batch->run, batch->range, batch->n), for_ring, bytes;

	if (forced() != ADVISE_LOOP)
		discard_find();
	discard_split(batch, runs);
	for_ring = choose_for_ring(batch, runs);
	bytes = for_ring > 0 ? flight_add(batch, for_ring) : 0;
	return bytes + discard_runs(batch, for_ring, runs, forced() != ADVISE_LOOP);
}

size_t advise_batch_flush(struct advise_batch *batch)
{
	size_t bytes = 0;

	if (batch->n == 0)
		return 0;
	if (!map_can_drop())
		refuse_all(batch);
	else
		bytes = hand_over(batch);
	batch->n = 0;
	batch->bytes = 0;
	return bytes;
}

size_t advise_batch_finish(struct advise_batch *batch)
{
	size_t bytes = advise_batch_flush(batch);

	return bytes + advise_finish();
}

size_t advise_finish(void)
{
	return ring_is_mine() ? flight_finish() : 0;
}
