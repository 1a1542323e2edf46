/* SPDX-License-Identifier: MIT */
/*
 * A flush walks the sorted ranges with one cursor. Each step covers the next ADVISE_CALL_BYTES at most: gathered into runs (touching
 * ranges merged), handed over in one vector call, or one run at a time by madvise; then the cursor moves over what was answered and
 * tells each range passed. So ranges larger than a call, short answers and refusals are all the same thing: where the cursor stands.
 *
 * When the vector call makes no progress, the first run is put to madvise. If that takes the very same bytes, the vector call was
 * what the kernel refused, and that way is closed; if not, the memory was (locked pages), and the flush goes on behind it.
 */
#include "kernel/advise.h"

#include "kernel/caps.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

/* Before anyone chose, the first flush asks caps. */
#define WAY_AUTO (-1)

static _Atomic int forced_way = WAY_AUTO;
/* DONTNEED until memory turned out to be locked on fault, from then on its form for locked memory, which serves both. Relaxed: whoever
 * still uses the first is refused and finds out by itself. */
static _Atomic int advice = MADV_DONTNEED;
static _Atomic uint64_t calls, returned_bytes, failed_bytes;

static void count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t counted(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

struct advise_counts advise_counts(void)
{
	return (struct advise_counts){
		.calls = counted(&calls),
		.returned_bytes = counted(&returned_bytes),
		.failed_bytes = counted(&failed_bytes),
	};
}

/* The way as far as it is known: a vector call forced off by caps is closed even when it was chosen here. */
enum advise_way advise_way(void)
{
	int way = atomic_load_explicit(&forced_way, memory_order_relaxed);
	enum cap_state state = caps_state(CAPS_PROCESS_MADVISE);

	if (way == ADVISE_LOOP || state == CAP_STATE_OFF)
		return ADVISE_LOOP;
	return way == ADVISE_VECTOR || state == CAP_STATE_LIVE ? ADVISE_VECTOR : ADVISE_LOOP;
}

void advise_set_way(enum advise_way way)
{
	atomic_store_explicit(&forced_way, (int)way, memory_order_relaxed);
}

static void find_way(void)
{
	if (atomic_load_explicit(&forced_way, memory_order_relaxed) == WAY_AUTO)
		caps_has(CAPS_PROCESS_MADVISE);
}

static void close_vector(int err)
{
	caps_refused(CAPS_PROCESS_MADVISE, err);
	advise_set_way(ADVISE_LOOP);
}

void advise_batch_init(struct advise_batch *batch, void (*done)(const struct advise_range *range, bool ok))
{
	batch->done = done;
	batch->n = 0;
	batch->bytes = 0;
}

void advise_batch_add(struct advise_batch *batch, char *addr, size_t len, void *owner, uint64_t bits)
{
	lull_assert(len > 0 && len % OS_PAGE_SIZE == 0 && (uintptr_t)addr % OS_PAGE_SIZE == 0);
	if (batch->n == ADVISE_BATCH_RANGES)
		advise_batch_flush(batch);
	batch->range[batch->n++] = (struct advise_range){.addr = addr, .len = len, .owner = owner, .bits = bits};
	batch->bytes += len;
}

static bool is_sorted(const struct advise_range *range, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (range[i].addr < range[i - 1].addr)
			return false;
	return true;
}

/* Let the range at ROOT sink until no child of it has a higher address. */
static void heap_sink(struct advise_range *range, size_t root, size_t n)
{
	struct advise_range sinking = range[root];
	size_t child;

	while ((child = 2 * root + 1) < n) {
		if (child + 1 < n && range[child].addr < range[child + 1].addr)
			child++;
		if (range[child].addr <= sinking.addr)
			break;
		range[root] = range[child];
		root = child;
	}
	range[root] = sinking;
}

/* Heap sort: in place, no worst case. Sweeps mostly queue in address order already. */
static void sort_by_address(struct advise_range *range, size_t n)
{
	if (is_sorted(range, n))
		return;
	for (size_t i = n / 2; i-- > 0;)
		heap_sink(range, i, n);
	for (size_t end = n; end-- > 1;) {
		struct advise_range last = range[end];

		range[end] = range[0];
		range[0] = last;
		heap_sink(range, 0, end);
	}
}

struct cursor {
	struct advise_batch *batch;
	size_t at;       /* range */
	size_t offset;   /* bytes of it answered */
	bool refused;    /* some of them with no */
	size_t accepted; /* bytes of ranges taken whole */
	bool asked_locked;
};

static void cursor_tell(struct cursor *cursor)
{
	const struct advise_range *range = &cursor->batch->range[cursor->at];

	if (!cursor->refused)
		cursor->accepted += range->len;
	count(cursor->refused ? &failed_bytes : &returned_bytes, range->len);
	cursor->batch->done(range, !cursor->refused);
	cursor->at++;
	cursor->offset = 0;
	cursor->refused = false;
}

/* The kernel answered the next LEN bytes with OK. */
static void cursor_move(struct cursor *cursor, size_t len, bool ok)
{
	while (len > 0) {
		size_t step = min_size(len, cursor->batch->range[cursor->at].len - cursor->offset);

		cursor->refused |= !ok;
		cursor->offset += step;
		len -= step;
		if (cursor->offset == cursor->batch->range[cursor->at].len)
			cursor_tell(cursor);
	}
}

/* Fill VEC with the runs that follow the cursor: at most MAX of them and ADVISE_CALL_BYTES in all. Returns how many. */
static size_t gather(const struct cursor *cursor, struct iovec *vec, size_t max)
{
	const struct advise_batch *batch = cursor->batch;
	size_t left = ADVISE_CALL_BYTES, offset = cursor->offset, n = 0;

	for (size_t i = cursor->at; i < batch->n && left > 0; i++, offset = 0) {
		char *addr = batch->range[i].addr + offset;
		size_t len = min_size(batch->range[i].len - offset, left);

		if (n > 0 && (char *)vec[n - 1].iov_base + vec[n - 1].iov_len == addr)
			vec[n - 1].iov_len += len;
		else if (n < max)
			vec[n++] = (struct iovec){.iov_base = addr, .iov_len = len};
		else
			break;
		left -= len;
	}
	return n;
}

static int advice_now(void)
{
	return atomic_load_explicit(&advice, memory_order_relaxed);
}

/* A refusal may mean that the memory is locked as it is touched: then it may go, and be locked again when it is next touched. Asked once a
 * flush. Memory locked for good stays: the program wants no faults on it. */
static bool found_locked_on_fault(struct cursor *cursor)
{
	if (cursor->asked_locked || advice_now() == MADV_DONTNEED_LOCKED)
		return false;
	cursor->asked_locked = true;
	if (!kernel.locks_on_fault())
		return false;
	atomic_store_explicit(&advice, MADV_DONTNEED_LOCKED, memory_order_relaxed);
	return true;
}

static bool madvise_one(struct cursor *cursor, char *addr, size_t len)
{
	int ret;

	count(&calls, 1);
	ret = kernel.madvise(addr, len, advice_now());
	if (ret == -EINVAL && found_locked_on_fault(cursor)) {
		count(&calls, 1);
		ret = kernel.madvise(addr, len, advice_now());
	}
	return ret == 0;
}

/* A run was refused as a whole: one bad range must not take its neighbours along. */
static void move_range_by_range(struct cursor *cursor, size_t len)
{
	while (len > 0) {
		const struct advise_range *range = &cursor->batch->range[cursor->at];
		size_t step = min_size(len, range->len - cursor->offset);

		cursor_move(cursor, step, madvise_one(cursor, range->addr + cursor->offset, step));
		len -= step;
	}
}

/* Returns whether the kernel took RUN whole. */
static bool step_loop(struct cursor *cursor, const struct iovec *run)
{
	const struct advise_range *range = &cursor->batch->range[cursor->at];
	bool ok = madvise_one(cursor, run->iov_base, run->iov_len);

	if (ok || run->iov_len <= range->len - cursor->offset)
		cursor_move(cursor, run->iov_len, ok);
	else
		move_range_by_range(cursor, run->iov_len);
	return ok;
}

static void step_vector(struct cursor *cursor)
{
	struct iovec *vec = cursor->batch->vec;
	size_t n = gather(cursor, vec, ADVISE_BATCH_RANGES);
	int tried = advice_now();
	ssize_t ret = kernel.process_madvise(vec, n, tried);

	count(&calls, 1);
	if (ret > 0)
		cursor_move(cursor, (size_t)ret, true);
	else if (step_loop(cursor, &vec[0]) && advice_now() == tried)
		close_vector((int)ret);
}

static void step(struct cursor *cursor)
{
	struct iovec *vec = cursor->batch->vec;

	if (advise_way() == ADVISE_VECTOR) {
		step_vector(cursor);
		return;
	}
	gather(cursor, vec, 1);
	step_loop(cursor, &vec[0]);
}

size_t advise_batch_flush(struct advise_batch *batch)
{
	struct cursor cursor = {.batch = batch};

	if (batch->n == 0)
		return 0;
	find_way();
	sort_by_address(batch->range, batch->n);
	while (cursor.at < batch->n)
		step(&cursor);
	batch->n = 0;
	batch->bytes = 0;
	return cursor.accepted;
}
