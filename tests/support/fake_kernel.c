/* SPDX-License-Identifier: MIT */
/*
 * The table in front of the real one. Orders are plain words (set while no other thread is in the table), counts and the record
 * cursor are atomic, the clock too.
 */
#include "support/fake_kernel.h"

#include "kernel/abi.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct order {
	unsigned nth; /* calls until the refusal, 0: none due */
	int once_err;
	int always_err;
};

struct range {
	char *addr;
	size_t len;
};

static struct kernel real;

/* Locked memory of the fake is locked for good. */
static int fake_locks_on_fault(void)
{
	return 0;
}
static bool installed, dry;
static struct order orders[FAKE_CALLS];
static struct range locked[FAKE_LOCKED];
static size_t locked_n, short_vector;

static atomic_uint calls[FAKE_CALLS];
static struct fake_record records[FAKE_RECORDS];
static atomic_size_t records_n;
static _Atomic uint64_t clock_ns, cpu_ns;

static void record(enum fake_call call, const void *addr, size_t len, int arg)
{
	size_t i = atomic_fetch_add(&records_n, 1);

	if (i < FAKE_RECORDS)
		records[i] = (struct fake_record){.call = call, .addr = (char *)addr, .len = len, .arg = arg};
}

/* Counts the call. 0: let it pass, else the refusal. */
static int enter(enum fake_call call)
{
	struct order *order = &orders[call];

	atomic_fetch_add(&calls[call], 1);
	if (order->always_err)
		return -order->always_err;
	if (order->nth > 0 && --order->nth == 0)
		return -order->once_err;
	return 0;
}

/* Bytes from ADDR on before a locked range begins; LEN when there is none. */
static size_t unlocked_bytes(const char *addr, size_t len)
{
	size_t before = len;

	for (size_t i = 0; i < locked_n; i++) {
		const struct range *range = &locked[i];

		if (addr < range->addr + range->len && range->addr < addr + before)
			before = range->addr > addr ? (size_t)(range->addr - addr) : 0;
	}
	return before;
}

static intptr_t fake_mmap(void *addr, size_t len, int prot, int flags)
{
	int err = enter(FAKE_MMAP);

	record(FAKE_MMAP, addr, len, flags);
	if (err)
		return err;
	return dry && addr ? (intptr_t)addr : real.mmap(addr, len, prot, flags);
}

static int fake_munmap(void *addr, size_t len)
{
	int err = enter(FAKE_MUNMAP);

	record(FAKE_MUNMAP, addr, len, 0);
	if (err)
		return err;
	return dry ? 0 : real.munmap(addr, len);
}

static intptr_t fake_mremap(void *from, size_t len, void *to)
{
	int err = enter(FAKE_MREMAP);

	record(FAKE_MREMAP, to, len, 0);
	return err ? err : real.mremap(from, len, to);
}

static int fake_mprotect(void *addr, size_t len, int prot)
{
	int err = enter(FAKE_MPROTECT);

	record(FAKE_MPROTECT, addr, len, prot);
	if (err)
		return err;
	return dry ? 0 : real.mprotect(addr, len, prot);
}

static int advise_range(void *addr, size_t len, int advice)
{
	size_t before = advice == MADV_DONTNEED ? unlocked_bytes(addr, len) : len;
	int err = dry || before == 0 ? 0 : real.madvise(addr, before, advice);

	return err == 0 && before < len ? -EINVAL : err;
}

static int fake_madvise(void *addr, size_t len, int advice)
{
	int err = enter(FAKE_MADVISE);

	record(FAKE_MADVISE, addr, len, advice);
	return err ? err : advise_range(addr, len, advice);
}

/* Entry by entry, which has the same effect as the vector call also where the real kernel does not have it. */
static ssize_t fake_process_madvise(const struct iovec *vec, size_t n, int advice)
{
	int err = enter(FAKE_PROCESS_MADVISE);
	size_t done = 0;

	for (size_t i = 0; i < n; i++)
		record(FAKE_PROCESS_MADVISE, vec[i].iov_base, vec[i].iov_len, advice);
	for (size_t i = 0; i < n && !err; i++) {
		size_t len = vec[i].iov_len;

		if (short_vector && done + len > short_vector) {
			if (done > 0)
				break;
			len = short_vector;
		}
		err = advise_range(vec[i].iov_base, len, advice);
		if (!err)
			done += len;
	}
	return done > 0 ? (ssize_t)done : err;
}

/* --- the ring --------------------------------------------------------------------------------------------------------------------- */

#define RING_MAX 256

static struct {
	bool open, reverse;
	pthread_t owner;
	size_t entries, n, most;
	unsigned nth, answers;
	int err, advice[RING_MAX];
	struct kernel_request request[RING_MAX];
} ring;

static void ring_must(bool holds)
{
	if (!holds)
		abort();
}

static int fake_ring_open(unsigned entries, unsigned workers_max)
{
	int err = enter(FAKE_RING_OPEN);

	ring_must(!ring.open && entries <= RING_MAX && workers_max > 0);
	ring.open = err == 0;
	ring.owner = pthread_self();
	ring.entries = entries;
	return err;
}

static ssize_t fake_ring_submit(const struct kernel_request *request, size_t n, int advice)
{
	int err = enter(FAKE_RING_SUBMIT);

	ring_must(ring.open && pthread_equal(ring.owner, pthread_self()) && ring.n + n <= ring.entries);
	if (err)
		return err;
	if (ring.most && n > ring.most)
		n = ring.most;
	for (size_t i = 0; i < n; i++) {
		record(FAKE_RING_SUBMIT, request[i].addr, request[i].len, advice);
		ring.advice[ring.n] = advice;
		ring.request[ring.n++] = request[i];
	}
	return (ssize_t)n;
}

static struct kernel_answer fake_ring_wait(unsigned expected)
{
	size_t i = ring.reverse ? ring.n - 1 : 0;
	struct kernel_request request;
	int advice;

	enter(FAKE_RING_WAIT);
	ring_must(ring.open && pthread_equal(ring.owner, pthread_self()) && expected > 0 && expected <= ring.n);
	request = ring.request[i];
	advice = ring.advice[i];
	for (ring.n--; i < ring.n; i++) {
		ring.request[i] = ring.request[i + 1];
		ring.advice[i] = ring.advice[i + 1];
	}
	if (ring.nth && ++ring.answers % ring.nth == 0)
		return (struct kernel_answer){.tag = request.tag, .result = -ring.err};
	return (struct kernel_answer){.tag = request.tag, .result = advise_range(request.addr, request.len, advice)};
}

static void fake_ring_close(void)
{
	enter(FAKE_RING_CLOSE);
	ring_must(ring.open && ring.n == 0 && pthread_equal(ring.owner, pthread_self()));
	ring.open = false;
}

static int fake_futex_wait(const void *word, uint32_t expected, uint64_t timeout_ns)
{
	int err = enter(FAKE_FUTEX_WAIT);

	return err ? err : real.futex_wait(word, expected, timeout_ns);
}

static int fake_futex_wake(const void *word, int n)
{
	int err = enter(FAKE_FUTEX_WAKE);

	return err ? err : real.futex_wake(word, n);
}

static int fake_uffd_open(void)
{
	int err = enter(FAKE_UFFD_OPEN);

	return err ? err : real.uffd_open();
}

static int fake_uffd_watch(int fd, void *addr, size_t len)
{
	int err = enter(FAKE_UFFD_WATCH);

	record(FAKE_UFFD_WATCH, addr, len, 0);
	return err ? err : real.uffd_watch(fd, addr, len);
}

static int fake_pagemap_open(void)
{
	int err = enter(FAKE_PAGEMAP_OPEN);

	return err ? err : real.pagemap_open();
}

static long fake_pagemap_scan(int fd, struct abi_pm_scan_arg *arg)
{
	int err = enter(FAKE_PAGEMAP_SCAN);

	record(FAKE_PAGEMAP_SCAN, (void *)(uintptr_t)arg->start, (size_t)(arg->end - arg->start), (int)arg->flags);
	return err ? err : real.pagemap_scan(fd, arg);
}

static uint64_t fake_cpu_ns(bool own)
{
	(void)own;
	return atomic_load(&cpu_ns);
}

static uint64_t fake_now_ns(void)
{
	return atomic_load(&clock_ns);
}

void fake_forget(void)
{
	for (int call = 0; call < FAKE_CALLS; call++)
		atomic_store(&calls[call], 0);
	atomic_store(&records_n, 0);
}

static void forget_orders(void)
{
	for (int call = 0; call < FAKE_CALLS; call++)
		orders[call] = (struct order){0};
	dry = false;
	locked_n = 0;
	short_vector = 0;
	memset(&ring, 0, sizeof(ring));
	fake_clock_set(0);
	atomic_store(&cpu_ns, 0);
}

void fake_kernel_install(void)
{
	fake_forget();
	forget_orders();
	if (installed)
		return;
	real = kernel;
	installed = true;
	kernel = (struct kernel){
		.mmap = fake_mmap,
		.munmap = fake_munmap,
		.mremap = fake_mremap,
		.mprotect = fake_mprotect,
		.madvise = fake_madvise,
		.mincore = real.mincore,
		.locks_on_fault = fake_locks_on_fault,
		.process_madvise = fake_process_madvise,
		.futex_wait = fake_futex_wait,
		.futex_wake = fake_futex_wake,
		.ring_open = fake_ring_open,
		.ring_submit = fake_ring_submit,
		.ring_wait = fake_ring_wait,
		.ring_close = fake_ring_close,
		.now_ns = fake_now_ns,
		.cpu_ns = fake_cpu_ns,
		.uffd_open = fake_uffd_open,
		.uffd_watch = fake_uffd_watch,
		.pagemap_open = fake_pagemap_open,
		.pagemap_scan = fake_pagemap_scan,
	};
}

void fake_kernel_remove(void)
{
	if (installed)
		kernel = real;
	installed = false;
}

void fake_kernel_dry(void)
{
	dry = true;
}

void fake_refuse(enum fake_call call, unsigned nth, int err)
{
	orders[call].nth = nth;
	orders[call].once_err = err;
}

void fake_refuse_all(enum fake_call call, int err)
{
	orders[call].always_err = err;
}

void fake_lock_range(void *addr, size_t len)
{
	if (locked_n < FAKE_LOCKED)
		locked[locked_n++] = (struct range){.addr = addr, .len = len};
}

void fake_short_vector(size_t bytes)
{
	short_vector = bytes;
}

void fake_ring_short(size_t n)
{
	ring.most = n;
}

void fake_ring_fail(unsigned nth, int err)
{
	ring.nth = nth;
	ring.err = err;
}

void fake_ring_reverse(bool on)
{
	ring.reverse = on;
}

bool fake_ring_is_open(void)
{
	return ring.open;
}

unsigned fake_calls(enum fake_call call)
{
	return atomic_load(&calls[call]);
}

size_t fake_records(void)
{
	size_t n = atomic_load(&records_n);

	return n < FAKE_RECORDS ? n : FAKE_RECORDS;
}

const struct fake_record *fake_record(size_t i)
{
	return i < fake_records() ? &records[i] : NULL;
}

const struct fake_record *fake_record_of(enum fake_call call, size_t n)
{
	for (size_t i = 0; i < fake_records(); i++)
		if (records[i].call == call && n-- == 0)
			return &records[i];
	return NULL;
}

size_t fake_bytes(enum fake_call call)
{
	size_t bytes = 0;

	for (size_t i = 0; i < fake_records(); i++)
		if (records[i].call == call)
			bytes += records[i].len;
	return bytes;
}

void fake_clock_set(uint64_t ns)
{
	atomic_store(&clock_ns, ns);
}

void fake_clock_add(uint64_t ns)
{
	atomic_fetch_add(&clock_ns, ns);
}

void fake_cpu_add(uint64_t ns)
{
	atomic_fetch_add(&cpu_ns, ns);
}
