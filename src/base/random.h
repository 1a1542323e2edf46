/* SPDX-License-Identifier: MIT */
/*
 * A small generator for each heap, to make addresses and list order hard to guess and to spread work; not for secrets. The state is a
 * counter stepped by an odd constant, the output that counter put through a mixing function (the splitmix64 construction, Steele, Lea
 * and Flood 2014), so every seed is good and the period is 2^64. Owner thread only.
 */
#ifndef LULL_BASE_RANDOM_H
#define LULL_BASE_RANDOM_H

#include "base/base.h"

#include <string.h>
#include <sys/auxv.h>

struct random {
	uint64_t state;
};

/* One-to-one on 64-bit words, each output bit depending on all input bits (multipliers: Stafford's variant 13). */
static inline uint64_t random_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* salt: anything that differs between generators of one process, e.g. the heap's address or number */
static inline void random_init(struct random *random, uint64_t salt)
{
	const char *bytes = (const char *)getauxval(AT_RANDOM); /* 16 bytes from the kernel, NULL under some emulators */
	uint64_t seed[2] = {0, 0};

	if (bytes)
		memcpy(seed, bytes, sizeof(seed));
	/* libc takes its stack and pointer guards from the same bytes: only a one-way mixture of all of them goes in */
	random->state = random_mix(seed[0] ^ random_mix(seed[1] ^ random_mix(salt)));
}

static inline uint64_t random_next(struct random *random)
{
	random->state += UINT64_C(0x9e3779b97f4a7c15); /* 2^64 divided by the golden ratio, made odd */
	return random_mix(random->state);
}

/* 0 .. bound-1, bound > 0. By multiplication: the bias is below bound / 2^32, far below what any use here can notice. */
static inline uint32_t random_below(struct random *random, uint32_t bound)
{
	return (uint32_t)(((random_next(random) >> 32) * bound) >> 32);
}

#endif
