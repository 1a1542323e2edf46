/* SPDX-License-Identifier: MIT */
/*
 * A signal at every single instruction of a blocking call: the processor's trap flag is set around poll, so that a handler runs after each
 * instruction of what lull does before and after it. poll is async-signal-safe, so the handler may call anything.
 *
 * steps alloc: it allocates and frees; steps wait: it waits in poll itself, every 16th time; steps both; steps fork: it forks, and the
 * child uses memory; steps jump: it leaves for good by siglongjmp, each time one instruction later, and the thread goes on from there.
 * x86-64 only.
 */
#include <dlfcn.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* 25 pages of 64 KiB: worth a park. And 76, so many that what is free in them is not counted: that takes few instructions. */
#define BLOCKS 4000
#define BLOCKS_MANY 12000
#define BLOCK_BYTES 400
#define ROUNDS 4
/* No end within this: a handler never came back. */
#define LIMIT_S 100

static int allocates, waits, forks;
static unsigned blocks_n = BLOCKS;
static volatile unsigned long steps, jump_at;
static sigjmp_buf way_out;
static struct pollfd nothing = {.fd = -1};

static void allocate(void)
{
	void *small = malloc(64), *large = malloc(100000);

	memset(small, 1, 64);
	memset(large, 2, 100000);
	free(small);
	free(large);
}

static void fork_once(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(LIMIT_S);
		allocate();
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		abort();
}

static void step(int signal)
{
	(void)signal;
	if (++steps == jump_at)
		siglongjmp(way_out, 1);
	if (allocates)
		allocate();
	if (forks)
		fork_once();
	if (waits && steps % 16 == 0)
		poll(&nothing, 1, 12);
}

/* Frees most of what it allocates: pages with free blocks, which a thread that waits can do without. */
static void free_much(void)
{
	static char *blocks[BLOCKS_MANY];

	for (unsigned i = 0; i < blocks_n; i++) {
		if (i % 10 == 0)
			free(blocks[i]);
		blocks[i] = malloc(BLOCK_BYTES);
		memset(blocks[i], 3, BLOCK_BYTES);
	}
	for (unsigned i = 0; i < blocks_n; i++)
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

/* What the thread was in the middle of does not show afterwards: it forks, waits again, and everything can be given back. Returns false
 * when the call has fewer instructions than N. */
static bool jump_after(unsigned long n)
{
	size_t (*collect)(bool);

	*(void **)&collect = dlsym(RTLD_DEFAULT, "lull_collect");
	free_much();
	steps = 0;
	jump_at = n;
	if (sigsetjmp(way_out, 1) == 0) {
		step_poll(1);
		return false;
	}
	jump_at = 0;
	if (n % 8 == 0)
		fork_once();
	if (n % 4 != 0)
		allocate();
	if (collect != NULL)
		collect(true);
	poll(&nothing, 1, 1);
	return true;
}

/* A thread that does not park any more passes through few instructions. */
static int jump_everywhere(void)
{
	unsigned long n = 1, all = -1UL;

	/* the least of some: one that meets a sweep spins */
	for (unsigned i = 0; i < 5; i++) {
		free_much();
		steps = 0;
		step_poll(1);
		all = steps < all ? steps : all;
	}
	while (jump_after(n))
		n++;
	printf("%lu jumps out of %lu instructions\n", n - 1, all);
	return n - 1 < all / 2;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = step};

	if (argc != 2 || sigaction(SIGTRAP, &action, NULL) != 0)
		return 2;
	allocates = strcmp(argv[1], "alloc") == 0 || strcmp(argv[1], "both") == 0;
	waits = strcmp(argv[1], "wait") == 0 || strcmp(argv[1], "both") == 0;
	forks = strcmp(argv[1], "fork") == 0;
	if (forks || strcmp(argv[1], "jump") == 0)
		blocks_n = BLOCKS_MANY;
	alarm(LIMIT_S);
	/* once without: the scavenger is there afterwards, and every function looked up */
	free_much();
	poll(&nothing, 1, 100);
	if (strcmp(argv[1], "jump") == 0)
		return jump_everywhere();
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
