/* SPDX-License-Identifier: MIT */
/*
 * A signal at every single instruction of a blocking call: the processor's trap flag is set around poll, so that a handler runs after each
 * instruction of what lull does before and after it. poll is async-signal-safe, so the handler may call anything.
 *
 * steps alloc: it allocates and frees; steps wait: it waits in poll itself, every 16th time; steps both. x86-64 only.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 25 pages of 64 KiB: worth a park. */
#define BLOCKS 4000
#define BLOCK_BYTES 400
#define ROUNDS 4
/* No end within this: a handler never came back. */
#define LIMIT_S 100

static int allocates, waits;
static volatile unsigned long steps;
static struct pollfd nothing = {.fd = -1};

static void step(int signal)
{
	(void)signal;
	steps++;
	if (allocates) {
		void *small = malloc(64), *large = malloc(100000);

		memset(small, 1, 64);
		memset(large, 2, 100000);
		free(small);
		free(large);
	}
	if (waits && steps % 16 == 0)
		poll(&nothing, 1, 12);
}

/* Frees most of what it allocates: pages with free blocks, which a thread that waits can do without. */
static void free_much(void)
{
	static char *blocks[BLOCKS];

	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BLOCK_BYTES);
		memset(blocks[i], 3, BLOCK_BYTES);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		if (i % 10 != 0)
			free(blocks[i]);
}

#if defined(__x86_64__)

/* -mno-red-zone: these use the stack behind the compiler's back. */
static void step_poll(int timeout_ms)
{
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	poll(&nothing, 1, timeout_ms);
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = step};

	if (argc != 2 || sigaction(SIGTRAP, &action, NULL) != 0)
		return 2;
	allocates = strcmp(argv[1], "wait") != 0;
	waits = strcmp(argv[1], "alloc") != 0;
	alarm(LIMIT_S);
	/* once without: the scavenger is there afterwards, and every function looked up */
	free_much();
	poll(&nothing, 1, 100);
	for (int i = 0; i < ROUNDS; i++) {
		free_much();
		step_poll(i % 2 ? 1 : 15);
	}
	printf("%lu steps\n", steps);
	return 0;
}

#else

int main(void)
{
	puts("a trap flag: x86-64");
	return 77;
}

#endif
