/* SPDX-License-Identifier: MIT */
/*
 * Pairs of malloc and free of small blocks, for counting instructions (see run beside this file). Three patterns:
 *
 *   ring   64 blocks of random 16..512 bytes: free the oldest, take a new one
 *   lifo   take 16 blocks, free them in reverse order
 *   one    one block of 64 bytes, taken and freed
 *
 * Built twice: with -DPAIRS_NOOP the two calls do nothing, so that the difference of the two programs is what malloc and free do.
 * Blocks are not touched. Single-threaded; sizes come from a seeded table made before the loop.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A power of two, so that picking the next size is one mask. Large enough that a ring sees no short cycle. */
#define SIZES 4096
#define RING 64
#define LIFO 16
#define SIZE_MIN 16
#define SIZE_MAX_BYTES 512
#define ONE_BYTES 64

static size_t sizes[SIZES];

#ifdef PAIRS_NOOP
/* Calls of one instruction, the return, in the place of malloc and free: the compiler knows as little about them and so builds the very
 * same loop. What the two programs differ by is a call's PLT entry and its body less that return; run beside this file adds the call
 * and the return again. */
__asm__(".text\n.type pairs_return, %function\npairs_return: ret\n.size pairs_return, . - pairs_return\n");
void *pairs_take(size_t size) __asm__("pairs_return");
void pairs_give(void *block) __asm__("pairs_return");
#define take pairs_take
#define give pairs_give
#else
#define take malloc
#define give free
#endif

/* xorshift64 (Marsaglia, 2003): the same sizes on every machine and with every libc. */
static void fill_sizes(void)
{
	uint64_t x = 0x9e3779b97f4a7c15;

	for (size_t i = 0; i < SIZES; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		sizes[i] = SIZE_MIN + (size_t)(x >> 11) % (SIZE_MAX_BYTES - SIZE_MIN + 1);
	}
}

static __attribute__((noinline)) void run_ring(size_t pairs)
{
	static void *ring[RING];

	for (size_t i = 0; i < RING; i++)
		ring[i] = take(sizes[i]);
	for (size_t i = 0; i < pairs; i++) {
		give(ring[i % RING]);
		ring[i % RING] = take(sizes[i % SIZES]);
	}
	for (size_t i = 0; i < RING; i++)
		give(ring[i]);
}

static __attribute__((noinline)) void run_lifo(size_t pairs)
{
	static void *stack[LIFO];
	size_t next = 0;

	for (size_t done = 0; done < pairs; done += LIFO) {
		for (size_t i = 0; i < LIFO; i++)
			stack[i] = take(sizes[next++ % SIZES]);
		for (size_t i = LIFO; i > 0; i--)
			give(stack[i - 1]);
	}
}

static __attribute__((noinline)) void run_one(size_t pairs)
{
	for (size_t i = 0; i < pairs; i++)
		give(take(ONE_BYTES));
}

static const struct pattern {
	const char *name;
	void (*run)(size_t pairs);
} patterns[] = {
	{ "ring", run_ring },
	{ "lifo", run_lifo },
	{ "one", run_one },
};

int main(int argc, char **argv)
{
	size_t pairs = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;

	for (size_t i = 0; pairs > 0 && i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		if (strcmp(argv[1], patterns[i].name) != 0)
			continue;
		fill_sizes();
		patterns[i].run(pairs);
		return 0;
	}
	fputs("pairs: usage: pairs ring|lifo|one PAIRS, PAIRS a number above 0\n", stderr);
	return 2;
}
