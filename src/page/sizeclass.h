/* SPDX-License-Identifier: MIT */
/*
 * Size classes: 16-byte steps to 256, then eight steps per doubling (four of them below 512), so that above 1 KiB a block loses less
 * than one eighth to its class. The step at index C is the same formula in both directions; nothing is stored.
 */
#ifndef LULL_PAGE_SIZECLASS_H
#define LULL_PAGE_SIZECLASS_H

#include "base/base.h"

#define SMALL_MAX (8 * KIB)
#define MEDIUM_MAX (64 * KIB)
#define LARGE_MAX (512 * KIB)

/* 16 of 16 bytes to 256; 8 of 32 to 512; then 8 a doubling: 512 .. 8 KiB is 4 doublings, 8 .. 64 KiB and 64 .. 512 KiB 3 each. */
#define SMALL_CLASSES 56u
#define MEDIUM_CLASSES 24u
#define LARGE_CLASSES 24u
#define BIG_CLASSES (MEDIUM_CLASSES + LARGE_CLASSES)
#define SIZE_CLASSES (SMALL_CLASSES + BIG_CLASSES)

/* size: 0 .. LARGE_MAX bytes. Returns 0 .. SIZE_CLASSES - 1. */
static inline unsigned sizeclass_of(size_t size)
{
	if (size <= 256)
		return size == 0 ? 0 : (unsigned)((size - 1) >> 4);
	if (size <= 512)
		return 16 + (unsigned)((size - 257) >> 5);
	unsigned e = bit_highest(size - 1);
	return 24 + (e - 9) * 8 + (unsigned)(((size - 1) >> (e - 3)) & 7);
}

/* c: 0 .. SIZE_CLASSES - 1. Returns the block size in bytes, a multiple of 16. */
static inline size_t sizeclass_bytes(unsigned c)
{
	if (c < 16)
		return (size_t)(c + 1) << 4;
	if (c < 24)
		return 256 + ((size_t)(c - 15) << 5);
	unsigned e = 9 + (c - 24) / 8;
	return (size_t)(9 + (c - 24) % 8) << (e - 3);
}

#endif
