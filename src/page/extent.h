/* SPDX-License-Identifier: MIT */
/*
 * How far blocks are written: for each heap and size class (the keys of page/reuse.h), how much of a block, counted from its start, was
 * found written when it was free again. That much of the next one is brought in at once when it is handed out and not resident (heap/); of
 * a class of which nothing is known, nothing.
 *
 * Counted in parts of a block, so that singletons of all sizes share what they teach: buffers of a kind are filled to the same share more
 * often than to the same length. A part of the largest large block is an OS page.
 *
 * When less was found than is known, that is what is known from then on. When more was, it must be found again more often the more was
 * brought in for nothing before. What was brought in and not written is told by its zeros: a program that writes nothing but zeros there
 * pays faults instead, every other time.
 *
 * The table is hashed as that of reuse.h is. Any thread; relaxed: of two that learn at once one is lost.
 */
#ifndef LULL_PAGE_EXTENT_H
#define LULL_PAGE_EXTENT_H

#include "base/base.h"

#define EXTENT_PARTS 128

/* Less than this is not worth a call: for four OS pages it costs half of what their faults do (29 to 31 us against 55 to 68), and where a
 * fault costs half a microsecond a call costs a third of one. */
#define EXTENT_MIN_BYTES (4 * OS_PAGE_SIZE)

/* And more than this is not brought in for one block: 10 ms of clearing inside malloc. What is larger is likely to be filled by several
 * threads, whose touches also place it near themselves. */
#define EXTENT_MAX_BYTES (64 * MIB)

/* Bytes at the start of a block of BLOCK_BYTES to bring in, at most all of it; 0: none. */
size_t extent_bytes(uint32_t key, size_t block_bytes) hidden;
/* Nothing was learned yet. */
bool extent_is_unknown(uint32_t key) hidden;
/* Every block looked at lately was written whole. */
bool extent_is_whole(uint32_t key) hidden;
/* PARTS of a block were found written. wasted: some of what was brought in was not. */
void extent_learn(uint32_t key, unsigned parts, bool wasted) hidden;

/* Find out how far the LEN bytes at ADDR are written, and learn it. The caller holds them; none of it is in use.
 * populated: of these bytes, how many from the start on were brought in, so that being resident does not say that they were written. */
void extent_look_block(uint32_t key, const char *addr, size_t len, size_t populated) hidden;
/* The same for a singleton, of any size, which was not resident when it was handed out. */
void extent_look_single(uint32_t key, const char *addr, size_t len, size_t populated) hidden;
/* May a thread that is about to free BYTES look? It may have to ask first whether the kernel can tell at all, by a child process, some 0.3
 * ms: only for as much as is worth starting a scavenger for. */
bool extent_may_look(size_t bytes) hidden;

#endif
