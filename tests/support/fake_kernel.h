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

enum fake_call { FAKE_MMAP, FAKE_MUNMAP, FAKE_MPROTECT, FAKE_MADVISE, FAKE_PROCESS_MADVISE, FAKE_FUTEX_WAIT, FAKE_FUTEX_WAKE, FAKE_CALLS };

/* One range of one call; a process_madvise leaves one record for each entry of its vector. */
struct fake_record {
	enum fake_call call;
	char *addr;
	size_t len;
	int arg; /* mmap: flags; mprotect: protection; madvise and process_madvise: advice */
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

void fake_clock_set(uint64_t ns);
void fake_clock_add(uint64_t ns);

#endif
