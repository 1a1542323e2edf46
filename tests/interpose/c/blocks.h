/* SPDX-License-Identifier: MIT */
/*
 * Blocks that know their own size and content, for the programs beside this file: a block that was moved, handed out twice,
 * zeroed or cut is noticed when it is dropped.
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIE(...)                                                                                                                           \
	do {                                                                                                                                   \
		fprintf(stderr, "line %d: ", __LINE__);                                                                                            \
		fprintf(stderr, __VA_ARGS__);                                                                                                      \
		fputc('\n', stderr);                                                                                                               \
		abort();                                                                                                                           \
	} while (0)

/* glibc's own handling of a failed condition may allocate: say it and abort. */
#define MUST(condition)                                                                                                                    \
	do {                                                                                                                                   \
		if (!(condition))                                                                                                                  \
			DIE("not so: %s", #condition);                                                                                                 \
	} while (0)

struct block {
	size_t size;        /* bytes, this head included */
	unsigned long seed; /* what the content is made from */
};

static inline unsigned random_next(unsigned long *state)
{
	*state = *state * 6364136223846793005ul + 1442695040888963407ul;
	return (unsigned)(*state >> 33);
}

/* Mostly small sizes, some of 1 to 30 KiB, few of 100 to 700 KiB: each kind of page has its share. */
static inline size_t random_size(unsigned long *state)
{
	unsigned r = random_next(state);

	if (r % 256 == 0)
		return 100000 + random_next(state) % 600000;
	if (r % 16 == 0)
		return 1024 + random_next(state) % 30000;
	return sizeof(struct block) + 1 + random_next(state) % 600;
}

/* Large blocks are written at each 4 KiB only: a test of many processes would otherwise spend its time in page faults. */
static inline size_t block_step(size_t size)
{
	return size > 32768 ? 4096 * 8 : size > 1024 ? 509 : 1;
}

static inline struct block *block_new(size_t size, unsigned long seed)
{
	struct block *b = malloc(size);
	unsigned char *bytes = (unsigned char *)b;

	MUST(b);
	b->size = size;
	b->seed = seed;
	for (size_t i = sizeof(*b); i < size; i += block_step(size))
		bytes[i] = (unsigned char)(seed + i);
	return b;
}

static inline void block_check(const struct block *b)
{
	const unsigned char *bytes = (const unsigned char *)b;

	for (size_t i = sizeof(*b); i < b->size; i += block_step(b->size))
		if (bytes[i] != (unsigned char)(b->seed + i))
			DIE("byte %zu of a block of %zu bytes is damaged", i, b->size);
}

static inline void block_drop(struct block *b)
{
	if (!b)
		return;
	block_check(b);
	free(b);
}

/* Allocates and drops COUNT blocks of mixed sizes in mixed order. */
static inline void blocks_churn(unsigned count, unsigned long seed)
{
	struct block *kept[64] = {0};

	for (unsigned i = 0; i < count; i++) {
		struct block **slot = &kept[random_next(&seed) % 64];

		block_drop(*slot);
		*slot = block_new(random_size(&seed), seed);
	}
	for (unsigned i = 0; i < 64; i++)
		block_drop(kept[i]);
}

#endif
