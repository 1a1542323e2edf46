/* SPDX-License-Identifier: MIT */
/*
 * A program that locks itself in: from some point on any system call kills it but those five that lull says it can live with, and what the
 * program itself needs to speak, to look at its own size, and to end. Then it allocates, frees, also across threads made before, and idles
 * until its memory is gone.
 *
 * Operands: when ("early": before anything was freed; "late": after memory went back), how ("prctl": this thread; "seccomp": all threads;
 * "refused": a filter the kernel does not take, and none).
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3
#define LARGE ((size_t)200 << 10)
#define LARGES 300
#define SMALL ((size_t)400)
#define SMALLS 40000
#define MIB ((size_t)1 << 20)

static int statm = -1;
static sem_t go[THREADS], done, never;
static char *blocks[SMALLS];

static void fail(const char *what)
{
	(void)!write(STDERR_FILENO, what, strlen(what));
	(void)!write(STDERR_FILENO, "\n", 1);
	_exit(1);
}

/* Resident bytes, by a descriptor opened in time. */
static size_t resident(void)
{
	char text[128] = "";
	char *at = text;

	if (pread(statm, text, sizeof(text) - 1, 0) <= 0)
		fail("no size");
	strtoul(at, &at, 10);
	return strtoul(at, NULL, 10) * 4096;
}

/* A wait that is a futex call and nothing else. */
static void idle_ms(long ms)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += ms * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (sem_timedwait(&never, &until) != 0 && errno == EINTR)
		;
}

static void idle_until_below(size_t bytes, const char *what)
{
	for (int i = 0; i < 400; i++) {
		if (resident() < bytes)
			return;
		idle_ms(50);
	}
	fail(what);
}

static void use(size_t bytes, int n)
{
	for (int i = 0; i < n; i++) {
		blocks[i] = calloc(1, bytes);
		if (blocks[i] == NULL)
			fail("no memory");
		for (size_t at = 0; at < bytes; at += 64)
			if (blocks[i][at] != 0)
				fail("calloc gave out old bytes");
		memset(blocks[i], i + 1, bytes);
	}
}

static void drop(size_t bytes, int from, int step, int n)
{
	for (int i = from; i < n; i += step) {
		for (size_t at = 0; at < bytes; at += 512)
			if (blocks[i][at] != (char)(i + 1))
				fail("a block was changed");
		free(blocks[i]);
	}
}

/* A thread frees every third block of each kind when told to, and allocates for itself. */
static void *work(void *arg)
{
	int self = (int)(size_t)arg;

	sem_post(&done);

	for (;;) {
		sem_wait(&go[self]);
		drop(SMALL, self, THREADS, SMALLS);
		for (int i = 0; i < 1000; i++)
			free(memset(malloc(SMALL * 10), 1, SMALL * 10));
		sem_post(&done);
	}
	return NULL;
}

/* Small blocks that other threads freed may take longer than large ones, and some memory is kept on purpose: what must go is half. */
#define STAYS (24 * MIB)

static void work_round(void)
{
	size_t before = resident();

	use(LARGE, LARGES);
	if (resident() + STAYS < before + LARGE * LARGES)
		fail("not even used");
	drop(LARGE, 0, 1, LARGES);
	use(SMALL, SMALLS);
	for (int i = 0; i < THREADS; i++)
		sem_post(&go[i]);
	for (int i = 0; i < THREADS; i++)
		sem_wait(&done);
}

static int install(const char *how)
{
	static const int allowed[] = {
		SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_futex, SYS_pread64, SYS_write, SYS_exit_group, SYS_rt_sigreturn,
	};
	enum { N = sizeof(allowed) / sizeof(allowed[0]) };
	struct sock_filter program[N + 3];
	struct sock_fprog filter = {.len = N + 3, .filter = program};

	program[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < N; i++)
		program[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], (unsigned char)(N - i), 0);
	program[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	program[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (strcmp(how, "refused") == 0) {
		program[N + 2].code = 0xffff;
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == -1 ? 0 : -1;
	}
	if (strcmp(how, "prctl") == 0)
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		fail("which?");
	pthread_t thread;
	statm = open("/proc/self/statm", O_RDONLY);
	sem_init(&done, 0, 0);
	sem_init(&never, 0, 0);
	for (int i = 0; i < THREADS; i++) {
		sem_init(&go[i], 0, 0);
		if (pthread_create(&thread, NULL, work, (void *)(size_t)i) != 0)
			fail("no thread");
	}
	for (int i = 0; i < THREADS; i++) /* libc starts a thread with calls of its own */
		sem_wait(&done);
	size_t before = resident();
	if (strcmp(argv[1], "late") == 0) {
		work_round();
		idle_until_below(before + STAYS, "memory stays before the filter is there");
	}
	/* as libraries ask what there is: with nothing to install. It must not count. */
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || install(argv[2]) != 0)
		_exit(77);
	for (int round = 0; round < 2; round++) {
		work_round();
		idle_until_below(before + STAYS, "memory stays under the filter");
	}
	(void)!write(STDOUT_FILENO, "lives\n", 6);
	_exit(0);
}
