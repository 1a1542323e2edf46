/* SPDX-License-Identifier: MIT */
/*
 * Bring memory in that is about to be written: one call for a range instead of a fault for each OS page. Measured here: a fault costs 13 to
 * 20 us, the call 3 to 5 us and 6 to 8 us for each OS page it clears.
 *
 * It is never more than an offer: whatever the kernel says, the memory can be used, and what was not brought in comes by faults. Where the
 * call itself is refused it is not made again; where there was no memory, not for a while.
 *
 * Any thread that holds the range, under no lock.
 */
#ifndef LULL_KERNEL_POPULATE_H
#define LULL_KERNEL_POPULATE_H

#include "base/base.h"

/* One call covers no more than this: it keeps others from changing what is mapped while it clears memory, 1 to 2 ms for this much. */
#define POPULATE_CALL_BYTES (8 * MIB)

#define HUGE_BYTES (2 * MIB)

/* addr, len: usable memory, multiples of the OS page size. True: all of it is resident now. */
bool populate_range(char *addr, size_t len) hidden;

/* The same in huge pages, as far as there are any. addr, len: multiples of HUGE_BYTES. The kernel is asked for them during the call only:
 * those it gave stay, it makes no others of what is there, and the mapping is one with its neighbours again afterwards. Measured here for 2
 * MiB: 90 us, where 512 OS pages take 280. */
bool populate_huge(char *addr, size_t len) hidden;

/* Of what was brought in, BYTES were found unwritten. */
void populate_note_waste(size_t bytes) hidden;

/* Of the process, ever; relaxed. */
struct populate_counts {
	uint64_t calls, bytes, wasted_bytes, refused;
};
struct populate_counts populate_counts(void) hidden;

#endif
