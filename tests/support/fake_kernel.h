/* SPDX-License-Identifier: MIT */
/*
 * Stands in for the kernel table. Every call is counted and its ranges recorded; then, in this order: a call that was told to be
 * refused is; a range that was named as locked refuses MADV_DONTNEED as mlocked memory does; and the rest goes to the real kernel, so
 * the layers above run on real memory (or, after fake_kernel_dry, is answered with success, so that addresses may be invented). The
 * clock stands still unless moved.
 *
 * Counting is safe from any thread; everything else is for the test's main thread while no other is in the table.
 */
#ifndef TESTS_SUPPORT_FAKE_KERNEL_H
#define TESTS_SUPPORT_FAKE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_call {
	FAKE_MMAP,
	FAKE_MUNMAP,
	FAKE_MREMAP,
	FAKE_MPROTECT,
	FAKE_MADVISE,
	FAKE_PROCESS_MADVISE,
	FAKE_FUTEX_WAIT,
	FAKE_FUTEX_WAKE,
	FAKE_RING_OPEN,
	FAKE_RING_SUBMIT,
	FAKE_RING_WAIT,
	FAKE_RING_CLOSE,
	FAKE_UFFD_OPEN,
	FAKE_UFFD_WATCH,
	FAKE_PAGEMAP_OPEN,
	FAKE_PAGEMAP_SCAN,
	FAKE_CALLS
};

/* One range of one call; a process_madvise leaves one record for each entry of its vector, a submit one for each request it takes. */
struct fake_record {
	enum fake_call call;
	char *addr;
	size_t len;
	int arg; /* mmap: flags; mprotect: protection; madvise and process_madvise: advice; pagemap_scan: flags */
};

#define FAKE_RECORDS 4096 /* later ones are counted, not kept */
#define FAKE_LOCKED 16

/* Take the table over, nothing counted, nothing refused, clock at 0; also resets a fake that is in place. */
void fake_kernel_install(void);
/* Put the real table back. */
void fake_kernel_remove(void);

/* Answer memory calls on given addresses without asking the real kernel. Not for tests that touch such memory. */
void fake_kernel_dry(void);

/* The nth next call of this kind (1: the very next) fails with -ERR, once. One order for each kind. */
void fake_refuse(enum fake_call call, unsigned nth, int err);
/* All calls of this kind fail with -ERR, or with err 0 no longer. */
void fake_refuse_all(enum fake_call call, int err);
/* MADV_DONTNEED on anything that touches the range: -EINVAL, with what lies before it done. */
void fake_lock_range(void *addr, size_t len);
/* process_madvise takes at most this many bytes of a call, rounded down to whole entries unless the first is larger; 0: no limit. */
void fake_short_vector(size_t bytes);

/* The ring of the fake carries a request out when its answer is fetched; FAKE_RING_OPEN and FAKE_RING_SUBMIT can be refused. A wait for
 * nothing, or any use of it that the table forbids, aborts. */
/* A submit takes at most N requests; 0: no limit. */
void fake_ring_short(size_t n);
/* Each NTH answer is -ERR and its request was not carried out: 1 all of them, 0 none. */
void fake_ring_fail(unsigned nth, int err);
/* Answers come last first. */
void fake_ring_reverse(bool on);
bool fake_ring_is_open(void);

unsigned fake_calls(enum fake_call call);
/* What was recorded since the install, oldest first. */
size_t fake_records(void);
const struct fake_record *fake_record(size_t i);
/* The n-th record (0 is the first) of one kind, or NULL. */
const struct fake_record *fake_record_of(enum fake_call call, size_t n);
/* Sum of the recorded lengths of one kind. */
size_t fake_bytes(enum fake_call call);
/* Forget counts and records, keep orders. */
void fake_forget(void);

/* The processor time of the process and of every thread alike; stands still unless moved. */
void fake_cpu_add(uint64_t ns);
void fake_clock_set(uint64_t ns);
void fake_clock_add(uint64_t ns);

#endif
