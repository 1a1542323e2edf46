/* SPDX-License-Identifier: MIT */
/*
 * A cursor walks the runs. Each step covers the next ADVISE_CALL_BYTES at most, in one vector call, or a run or part of it by madvise; then
 * the cursor moves over what was answered and tells each range passed. So ranges larger than a call, short answers and refusals are all
 * the same thing: where the cursor stands.
 *
 * When the vector call makes no progress, the first run is put to madvise. If that takes the very same bytes, the vector call was
 * what the kernel refused, and that way is closed; if not, the memory was (locked pages), and the walk goes on behind it.
 */
#include "kernel/discard.h"

#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/returns.h"

#include <errno.h>
#include <sys/mman.h>

/* --- which way ------------------------------------------------------------------------------------------------------------------ */

enum vector_state { VECTOR_AS_CAPS_SAYS, VECTOR_FORCED, VECTOR_CLOSED };

static _Atomic int vector_state;

bool discard_by_vector(void)
{
	enum cap_state found = caps_state(CAPS_PROCESS_MADVISE);
	int state = atomic_load_explicit(&vector_state, memory_order_relaxed);

	if (state == VECTOR_CLOSED || found == CAP_STATE_OFF)
		return false;
	return state == VECTOR_FORCED || found == CAP_STATE_LIVE;
}

void discard_find(void)
{
	if (atomic_load_explicit(&vector_state, memory_order_relaxed) == VECTOR_AS_CAPS_SAYS)
		caps_has(CAPS_PROCESS_MADVISE);
}

void discard_force_vector(void)
{
	atomic_store_explicit(&vector_state, VECTOR_FORCED, memory_order_relaxed);
}

static void close_vector(int err)
{
	caps_refused(CAPS_PROCESS_MADVISE, err);
	atomic_store_explicit(&vector_state, VECTOR_CLOSED, memory_order_relaxed);
}

/* --- one madvise ---------------------------------------------------------------------------------------------------------------- */

/* Relaxed: whoever still uses the first is refused and finds out by itself. */
static _Atomic int advice = MADV_DONTNEED;

int returns_advice(void)
{
	return atomic_load_explicit(&advice, memory_order_relaxed);
}

/* A refusal may mean that the memory is locked as it is touched: then it may go, and be locked again when it is next touched. Asked once a
 * flush. Memory locked for good stays: the program wants no faults on it. */
static bool found_locked_on_fault(bool *asked_locked)
{
	if (*asked_locked || returns_advice() == MADV_DONTNEED_LOCKED)
		return false;
	*asked_locked = true;
	if (!kernel.locks_on_fault())
		return false;
	atomic_store_explicit(&advice, MADV_DONTNEED_LOCKED, memory_order_relaxed);
	return true;
}

bool returns_madvise(char *addr, size_t len, bool *asked_locked)
{
	int ret;

	returns_count(&returns_counters.calls, 1);
	ret = kernel.madvise(addr, len, returns_advice());
	if (ret == -EINVAL && found_locked_on_fault(asked_locked)) {
		returns_count(&returns_counters.calls, 1);
		ret = kernel.madvise(addr, len, returns_advice());
	}
	return ret == 0;
}

/* --- the cursor ----------------------------------------------------------------------------------------------------------------- */

struct cursor {
	struct advise_batch *batch;
	size_t run, runs; /* the run it is in, and where they end */
	size_t range;     /* the range in that, */
	size_t offset;    /* bytes of it answered, */
	bool refused;     /* some of them with no */
	size_t accepted;  /* bytes of ranges taken whole */
	bool asked_locked;
};

static void enter_run(struct cursor *cursor, size_t run)
{
	cursor->run = run;
	cursor->range = run < cursor->runs ? cursor->batch->run[run].first : 0;
}

static void tell(struct cursor *cursor)
{
	const struct advise_run *run = &cursor->batch->run[cursor->run];

	cursor->accepted += returns_tell(cursor->batch->done, &cursor->batch->range[cursor->range], !cursor->refused);
	cursor->offset = 0;
	cursor->refused = false;
	if (++cursor->range == run->first + run->n)
		enter_run(cursor, cursor->run + 1);
}

/* The kernel answered the next LEN bytes with OK. */
static void move(struct cursor *cursor, size_t len, bool ok)
{
	while (len > 0) {
		const struct advise_range *range = &cursor->batch->range[cursor->range];
		size_t step = min_size(len, range->len - cursor->offset);

		cursor->refused |= !ok;
		cursor->offset += step;
		len -= step;
		if (cursor->offset == range->len)
			tell(cursor);
	}
}

static char *position(const struct cursor *cursor)
{
	return cursor->batch->range[cursor->range].addr + cursor->offset;
}

/* What is left of run I, MAX bytes at most; of the run the cursor is in, behind it. */
static struct iovec part_of(const struct cursor *cursor, size_t i, size_t max)
{
	const struct advise_run *run = &cursor->batch->run[i];
	char *from = i == cursor->run ? position(cursor) : run->addr;

	return (struct iovec){.iov_base = from, .iov_len = min_size((size_t)(run->addr + run->len - from), max)};
}

/* Fill VEC with what follows the cursor: at most ADVISE_BATCH_RANGES entries and ADVISE_CALL_BYTES. Returns how many. */
static size_t gather(const struct cursor *cursor, struct iovec *vec)
{
	size_t left = ADVISE_CALL_BYTES, n = 0;

	for (size_t i = cursor->run; i < cursor->runs && left > 0 && n < ADVISE_BATCH_RANGES; i++) {
		vec[n] = part_of(cursor, i, left);
		left -= vec[n++].iov_len;
	}
	return n;
}

/* Refused as a whole: one bad range must not take its neighbours along. */
static void move_range_by_range(struct cursor *cursor, size_t len)
{
	while (len > 0) {
		size_t step = min_size(len, cursor->batch->range[cursor->range].len - cursor->offset);

		move(cursor, step, returns_madvise(position(cursor), step, &cursor->asked_locked));
		len -= step;
	}
}

/* The next part of the run at hand. Returns whether the kernel took it whole. */
static bool step_loop(struct cursor *cursor)
{
	const struct advise_range *range = &cursor->batch->range[cursor->range];
	struct iovec part = part_of(cursor, cursor->run, ADVISE_CALL_BYTES);
	bool ok = returns_madvise(part.iov_base, part.iov_len, &cursor->asked_locked);

	if (ok || part.iov_len <= range->len - cursor->offset)
		move(cursor, part.iov_len, ok);
	else
		move_range_by_range(cursor, part.iov_len);
	return ok;
}

static void step_vector(struct cursor *cursor)
{
	struct iovec *vec = cursor->batch->vec;
	size_t n = gather(cursor, vec);
	int tried = returns_advice();
	ssize_t ret = kernel.process_madvise(vec, n, tried);

	returns_count(&returns_counters.calls, 1);
	if (ret > 0) {
		returns_count(&returns_counters.vector_bytes, (uint64_t)ret);
		move(cursor, (size_t)ret, true);
	} else if (step_loop(cursor) && returns_advice() == tried) {
		close_vector((int)ret);
	}
}

static void step(struct cursor *cursor, bool vector)
{
	if (vector && discard_by_vector())
		step_vector(cursor);
	else
		step_loop(cursor);
}

size_t discard_runs(struct advise_batch *batch, size_t from, size_t n, bool vector)
{
	struct cursor cursor = {.batch = batch, .runs = n};

	enter_run(&cursor, from);
	while (cursor.run < n)
		step(&cursor, vector);
	return cursor.accepted;
}

/* --- huge pages ----------------------------------------------------------------------------------------------------------------- */

/* x86-64, and arm64 with 4 KiB pages. Where huge pages have another size, more or less is split than needed. */
#define HUGE_BYTES (2 * MIB)

/* The parts of RUN that are no whole huge pages; none, one or two. */
static size_t ragged_parts(const struct advise_run *run, struct iovec part[2])
{
	uintptr_t from = (uintptr_t)run->addr, to = from + run->len;
	uintptr_t whole = align_up(from, HUGE_BYTES), end = align_down(to, HUGE_BYTES);
	size_t n = 0;

	if (whole >= end && from != whole && to != end) {
		/* within one, or over the border of two */
		part[0] = (struct iovec){.iov_base = run->addr, .iov_len = run->len};
		return 1;
	}
	if (from != whole)
		part[n++] = (struct iovec){.iov_base = run->addr, .iov_len = whole - from};
	if (to != end)
		part[n++] = (struct iovec){.iov_base = (char *)end, .iov_len = to - end};
	return n;
}

/* Any advice that works OS page by OS page makes the kernel split the huge page first, all but MADV_DONTNEED. MADV_COLD leaves the contents
 * and says only what is true; MADV_FREE may drop them, which is no harm here. */
static void split_one(const struct iovec *part)
{
	int ret = kernel.madvise(part->iov_base, part->iov_len, MADV_COLD);

	returns_count(&returns_counters.calls, 1);
	if (ret != 0) {
		ret = kernel.madvise(part->iov_base, part->iov_len, MADV_FREE);
		returns_count(&returns_counters.calls, 1);
	}
	if (ret == 0)
		returns_count(&returns_counters.split_bytes, part->iov_len);
}

/* As many of the N parts as one call may cover. */
static size_t parts_of_one_call(const struct iovec *vec, size_t n)
{
	size_t taken = 1;

	for (size_t bytes = vec[0].iov_len; taken < n && (bytes += vec[taken].iov_len) <= ADVISE_CALL_BYTES;)
		taken++;
	return taken;
}

/* Returns how many of the parts are done with. */
static size_t split_vector(const struct iovec *vec, size_t n)
{
	ssize_t ret;
	size_t done = 0;

	if (n < 2 || !caps_has(CAPS_PROCESS_MADVISE_COLD))
		return 0;
	ret = kernel.process_madvise(vec, n, MADV_COLD);
	returns_count(&returns_counters.calls, 1);
	if (ret <= 0)
		return 0;
	for (size_t left = (size_t)ret; done < n && left >= vec[done].iov_len; done++) {
		left -= vec[done].iov_len;
		returns_count(&returns_counters.split_bytes, vec[done].iov_len);
	}
	return done;
}

static void split(const struct iovec *vec, size_t n)
{
	for (size_t at = 0; at < n;) {
		size_t end = at + parts_of_one_call(&vec[at], n - at);

		at += split_vector(&vec[at], end - at);
		for (; at < end; at++)
			split_one(&vec[at]);
	}
}

void discard_split(struct advise_batch *batch, size_t runs)
{
	struct iovec *vec = batch->vec;
	size_t n = 0;

	for (size_t i = 0; i < runs; i++) {
		if (!batch->run[i].huge)
			continue;
		if (n + 2 > ADVISE_BATCH_RANGES) {
			split(vec, n);
			n = 0;
		}
		n += ragged_parts(&batch->run[i], &vec[n]);
	}
	split(vec, n);
}
