/* SPDX-License-Identifier: MIT */
/*
 * Giving memory back: a batch of ranges that the caller already holds (nobody can be handed them meanwhile), sorted, coalesced and
 * passed to the kernel in one of three ways: to io_uring, whose workers do the work meanwhile; as a vector to process_madvise, while this
 * kernel allows it on ourselves (6.13); or to madvise, run by run.
 *
 * A batch belongs to one thread, and one thread at a time is in here: in lull the holder of the reclaim lock. Each range's fate is told
 * to the caller's function: only a range the kernel accepted is away. What the ring works on is in flight: its fate is told by a later
 * flush or by advise_batch_finish, on the same thread; only the thread that owns the ring (kernel/ring.h) ever has anything in flight.
 */
#ifndef LULL_KERNEL_ADVISE_H
#define LULL_KERNEL_ADVISE_H

#include "base/base.h"

#include <sys/uio.h>

/* The vector call takes at most UIO_MAXIOV (1024) entries; half keeps a batch with its scratch space within 48 KiB of static memory. */
#define ADVISE_BATCH_RANGES 512

/* One call never covers more than this, so that mmap_lock is never held long (measured 175-420 us for 4 MiB of resident memory). */
#define ADVISE_CALL_BYTES (8 * MIB)

struct advise_range {
	char *addr;    /* OS-page aligned */
	size_t len;    /* bytes, > 0, a multiple of the OS page size */
	void *owner;   /* the caller's word: what the range belongs to */
	uint64_t bits; /* the caller's word: which parts of it */
	bool huge;     /* huge pages may be mapped there */
};

/* Ranges of a batch that touch each other. */
struct advise_run {
	char *addr;
	size_t len;
	uint32_t first, n; /* its ranges, in the order of their addresses */
	bool huge;
};

struct advise_batch {
	/* Told once for each range after the kernel answered. ok: the kernel took it; else it is to be taken as
	 * resident (the kernel may have dropped some of it before it refused). Must not touch the batch. */
	void (*done)(const struct advise_range *range, bool ok);
	size_t n;
	size_t bytes;
	struct advise_range range[ADVISE_BATCH_RANGES];
	/* scratch of the flush */
	struct advise_run run[ADVISE_BATCH_RANGES];
	struct iovec vec[ADVISE_BATCH_RANGES];
};

/* The ways, the best one last. A way that is refused in use (ENOSYS, EPERM, EINVAL, EBADF, any errno) is closed: the batch at hand is
 * finished by the next one down, and so are later ones. */
enum advise_way { ADVISE_LOOP = 0, ADVISE_VECTOR = 1, ADVISE_URING = 2 };
/* The best way that is known to be open. Not every batch takes it: unless a way is forced each batch is given to the cheapest. */
enum advise_way advise_way(void);
/* Force a way for all batches: at start (LULL_RETURN) or in tests. The ring still needs its owner; for others it is the vector. */
void advise_set_way(enum advise_way way);

void advise_batch_init(struct advise_batch *batch, void (*done)(const struct advise_range *range, bool ok));
/* Queue a range; flushes first when the batch is full. Enters the kernel only then. */
void advise_batch_add(struct advise_batch *batch, char *addr, size_t len, void *owner, uint64_t bits);
/* The same for memory that may be in huge pages: of those that the range covers in part only, the part is split off first, since
 * otherwise the kernel keeps all of the huge page for the rest of it. */
void advise_batch_add_huge(struct advise_batch *batch, char *addr, size_t len, void *owner, uint64_t bits);
/* Hand over what is queued; what is answered at once is told at once. The batch is empty afterwards, and may be filled again while its
 * ranges are in flight. Returns the bytes the kernel accepted in answers told during this call, also of earlier batches. */
size_t advise_batch_flush(struct advise_batch *batch);
/* Flush, and wait until nothing is in flight any more, of this batch or any other. Returns bytes as advise_batch_flush. */
size_t advise_batch_finish(struct advise_batch *batch);
/* Wait until nothing is in flight. */
size_t advise_finish(void);

/* Process-wide counters, relaxed. */
struct advise_counts {
	uint64_t calls, returned_bytes, failed_bytes; /* calls made, bytes accepted, bytes refused */
	uint64_t ring_batches, ring_bytes;            /* hand-overs to the ring, bytes it returned */
	uint64_t vector_bytes;                        /* bytes that vector calls returned */
	uint64_t split_bytes;                         /* parts of huge pages that were split off */
};
struct advise_counts advise_counts(void);

#endif
