/* SPDX-License-Identifier: MIT */
/*
 * Giving memory back: a batch of ranges that the caller already holds (nobody can be handed them meanwhile), sorted, coalesced and
 * passed to the kernel: as a vector to process_madvise while this kernel allows it on ourselves (6.13), else madvise range by range.
 *
 * A batch belongs to one thread. Each range's fate is told to the caller's function: only a range the kernel accepted is away.
 */
#ifndef LULL_KERNEL_ADVISE_H
#define LULL_KERNEL_ADVISE_H

#include "base/base.h"

#include <sys/uio.h>

/* The vector call takes at most UIO_MAXIOV (1024) entries; half keeps a batch with its scratch space within 32 KiB of static memory. */
#define ADVISE_BATCH_RANGES 512

/* One call never covers more than this, so that mmap_lock is never held long (measured 175-420 us for 4 MiB of resident memory). */
#define ADVISE_CALL_BYTES (8 * MIB)

struct advise_range {
	char *addr;    /* OS-page aligned */
	size_t len;    /* bytes, > 0, a multiple of the OS page size */
	void *owner;   /* the caller's word: what the range belongs to */
	uint64_t bits; /* the caller's word: which parts of it */
};

struct advise_batch {
	/* Told once for each range after the kernel answered. ok: the kernel took it; else it is to be taken as
	 * resident (the kernel may have dropped some of it before it refused). Must not touch the batch. */
	void (*done)(const struct advise_range *range, bool ok);
	size_t n;
	size_t bytes;
	struct advise_range range[ADVISE_BATCH_RANGES];
	struct iovec vec[ADVISE_BATCH_RANGES]; /* scratch of the flush */
};

/* Which call returns memory now. A refused vector call (ENOSYS, EPERM, EINVAL, EBADF, any errno) closes that way for good: the batch at
 * hand is finished range by range. */
enum advise_way { ADVISE_LOOP = 0, ADVISE_VECTOR = 1 };
enum advise_way advise_way(void);
/* Force a way: at start (LULL_RETURN=madvise|vector) or in tests. */
void advise_set_way(enum advise_way way);

void advise_batch_init(struct advise_batch *batch, void (*done)(const struct advise_range *range, bool ok));
/* Queue a range; flushes first when the batch is full. Enters the kernel only then. */
void advise_batch_add(struct advise_batch *batch, char *addr, size_t len, void *owner, uint64_t bits);
/* Hand over what is queued and tell each range's fate. Returns the bytes the kernel accepted. The batch is empty afterwards. */
size_t advise_batch_flush(struct advise_batch *batch);

/* Process-wide counters, relaxed: calls made, bytes accepted, bytes refused. */
struct advise_counts {
	uint64_t calls, returned_bytes, failed_bytes;
};
struct advise_counts advise_counts(void);

#endif
