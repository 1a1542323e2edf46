/* SPDX-License-Identifier: MIT */
/*
 * Regions: large reservations of address space, handed out in slices of 64 KiB.
 *
 * A slice is free or taken; a free slice is clean (reads as zero, costs nothing) or dirty (resident, waiting to be returned). Each slice
 * has a record of RECORD_SIZE bytes in a reservation of its own, so that what a program writes past a block never reaches it; the page
 * layer defines what is in a record. Memory and records are made usable in growing steps, so that a region is one growing read-write
 * mapping followed by one reserved one, whatever vm.max_map_count says.
 *
 * Any thread may call; each region has one lock, never held while memory is being returned.
 */
#ifndef LULL_REGION_REGION_H
#define LULL_REGION_REGION_H

#include "base/base.h"
#include "kernel/lock.h"

#include <stdatomic.h>

/* Two cache lines: what malloc and free touch, and what other threads touch. */
#define RECORD_SIZE 128
/* 64 slices, 4 MiB: one word of a bitmap, and one large page. */
#define CHUNK_SLICES 64

/* Reservation sizes (design: 64 GiB, halved on refusal down to 64 MiB; under a tight RLIMIT_AS smaller still rather than fail). */
#define REGION_BYTES_MAX (64 * GIB)
#define REGION_BYTES_MIN (4 * MIB)
/* 64 GiB each: 256 of them cover 16 TiB; under RLIMIT_AS they are smaller and the limit is the limit. */
#define REGIONS_MAX 256

/* What a free slice was used for last. A fact for those above; written by whoever holds the slice. */
struct slice_past {
	uint32_t key; /* the caller's word; 0: nothing worth knowing */
	uint32_t ms;  /* when it was freed; low bits of CLOCK_MONOTONIC in milliseconds */
};

struct region {
	char *base;              /* constant after region_add; SLICE_SIZE * CHUNK_SLICES aligned */
	char *records;           /* constant; record i describes slice i. Aligned as the slices: to CHUNK_SLICES records */
	struct slice_past *past; /* constant; as far usable as the records */
	size_t slices;           /* constant */
	_Atomic size_t limit;    /* slices whose memory and records are usable; only grows. release: pairs with region_of's acquire */
	struct lock lock;        /* guards what follows */
	size_t step;             /* slices to make usable next time at least */
	size_t first;            /* no free slice in a chunk below this one */
	size_t dirty_slices;
	uint64_t *free;          /* bit per slice: nobody holds it */
	uint64_t *dirty;         /* bit per slice, meaningful while free: resident */
	uint64_t *young;         /* bit per slice, of the dirty ones: freed since the last purge pass */
	uint64_t *uncommitted;   /* bit per chunk below limit: access given up (overcommit mode 2) */
	_Atomic uint64_t *huge;  /* bit per 2 MiB: some of it may be in a huge page. Set and cleared under the lock; relaxed: who reads it holds
	                          * the memory, and came by it through the lock */
	uint64_t *recorded;      /* bit per chunk: slices were taken since its records were last given back */
	_Atomic uint64_t *freed; /* bit per slice (head of a medium or large page): blocks were freed since the last look. Any thread. */
};

/* What free() needs of the first region, together on one cache line. base and records are constant once limit is above 0. */
struct region_primary {
	uintptr_t base;
	_Atomic size_t limit; /* slices; 0 until the region is there. Relaxed: a pointer handed over carries its own ordering */
	char *records;
};
extern struct region_primary region_primary hidden;

struct region_counts {
	uint64_t reserved_bytes, committed_bytes, taken_bytes, dirty_bytes, huge_bytes;
};

/*
 * Take N slices.
 *
 * n          slices, >= 1
 * align      slices, a power of two: the address is a multiple of align * SLICE_SIZE
 * ret_clean  true: every byte reads as zero and is not resident
 *
 * Returns the first byte, or NULL when the kernel refuses more address space or memory. The slices are the caller's until region_free.
 * May enter the kernel to make memory usable.
 */
char *region_alloc(size_t n, size_t align, bool *ret_clean) hidden;

/* Take the N slices right behind addr if all are free. True: they are the caller's. clean as above. */
bool region_extend(char *addr, size_t n, bool *ret_clean) hidden;

/* Take those of the N slices right behind ADDR, from the first on, that are free, clean and usable without asking the kernel. Returns how
 * many; they are the caller's. */
size_t region_take_clean(char *addr, size_t n) hidden;

/* The 2 MiB at ADDR and on, LEN bytes of them, which the caller holds, may be in huge pages from now on. */
void region_mark_huge(const char *addr, size_t len) hidden;
/* Any of these bytes may be in a huge page: returning part of one is not like returning OS pages. */
bool region_may_be_huge(const char *addr, size_t len) hidden;
/* The caller holds these bytes, and the kernel took them. */
void region_note_returned(const char *addr, size_t len) hidden;

/* Give N slices back. clean: none of their OS pages is resident. */
void region_free(char *addr, size_t n, bool clean) hidden;
/* The same, and remember what they were used for. */
void region_free_past(char *addr, size_t n, bool clean, struct slice_past past) hidden;
/* What the slice at ADDR, which the caller holds, was used for last. */
struct slice_past region_past(const char *addr) hidden;

/* The record of the slice that ADDR points into, or NULL when it is not lull's memory. Valid for any value. */
void *region_record(const void *addr) hidden;
/* The region a record or a slice belongs to; addr must be lull's. */
struct region *region_of(const void *addr) hidden;

/* Tell the next look that blocks of the page headed by this slice were freed. Returns true when that was not known yet. */
bool region_mark_freed(const void *addr) hidden;

/* Give regions that have none yet their name in /proc/PID/maps, where the kernel can. One thread. */
void region_name_all(void) hidden;

/* Regions in order of creation; n regions exist, none ever goes. */
size_t region_n(void) hidden;
struct region *region_at(size_t i) hidden;

/*
 * Find one run of dirty free slices that have the same past; nobody holds it.
 *
 * from       slice to start at
 * force      young ones too
 * ret_n      length of the run
 * ret_past   its past
 * Returns the first slice of the run, or SIZE_MAX when there is none at or after FROM.
 */
size_t region_purge_find(struct region *region, size_t from, bool force, size_t *ret_n, struct slice_past *ret_past) hidden;

/*
 * Purge: hold one run of dirty free slices, so that nobody is handed it while it is being returned.
 *
 * from       slice to start at
 * force      young ones too
 * max        slices at most
 * ret_n      length of the run
 * Returns the first slice of the run, or SIZE_MAX when there is none at or after FROM.
 */
size_t region_purge_take(struct region *region, size_t from, bool force, size_t max, size_t *ret_n) hidden;
/* The run is free again; ok: and clean. */
void region_purge_give(struct region *region, size_t slice, size_t n, bool ok) hidden;
/* What is dirty now will be old at the next pass. Returns the slices still dirty. */
size_t region_purge_age(struct region *region) hidden;
size_t region_dirty(struct region *region) hidden;
/* Give back the records of wholly free, clean chunks: they read as zero from then on, which is what a free slice's record means. */
void region_trim(struct region *region) hidden;
/* Give up access and commit charge of wholly free, clean chunks (overcommit mode 2 only). */
void region_uncommit(struct region *region) hidden;

struct region_counts region_counts(void) hidden;

/* fork: in the child every lock is free again, the parent holds them all in between. */
void region_fork_prepare(void) hidden;
void region_fork_done(bool child) hidden;

#endif
