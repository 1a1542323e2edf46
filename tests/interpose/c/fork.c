/* SPDX-License-Identifier: MIT */
/*
 * fork, vfork and posix_spawn in a program whose threads allocate.
 *
 *   fork storm N    8 threads allocate and hand blocks to each other; main forks N times, a second thread N/10 times meanwhile.
 *                   Each child allocates blocks of mixed sizes, drops those of all the parent's threads, forks again, starts a
 *                   thread and exits; one that takes 10 s of its own is ended by its alarm, and that is a failure.
 *   fork vfork N    the same threads; children of vfork, posix_spawn, system and popen
 *   fork first      fork before the program's first malloc
 *   fork child      what vfork and posix_spawn start
 *
 * Blocks change hands through `shared` only, by atomic exchange, so a child finds each of them whole.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blocks.h"

#define THREADS 8
#define SHARED 128
#define WATCHDOG_SECONDS 10

extern char **environ;

static _Atomic(struct block *) shared[SHARED];
static atomic_bool stop;
static atomic_ulong exchanges;
static int exits;

static void count_exit(void)
{
	free(malloc(100));
	exits++;
}

static void *trade(void *arg)
{
	unsigned long seed = (unsigned long)arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct block *b = block_new(random_size(&seed), seed);

		block_drop(atomic_exchange(&shared[random_next(&seed) % SHARED], b));
		if (random_next(&seed) % 4 == 0)
			block_drop(atomic_exchange(&shared[random_next(&seed) % SHARED], NULL));
		atomic_fetch_add_explicit(&exchanges, 1, memory_order_relaxed);
		/* Leaves the processors to the forks: this is a test of states, not of speed. */
		if (random_next(&seed) % 8 == 0)
			usleep(4000);
	}
	return NULL;
}

static void *child_thread(void *arg)
{
	struct block *b = arg;

	blocks_churn(20, b->seed);
	block_drop(b);
	return block_new(333, 3);
}

static void child_threads(void)
{
	pthread_t thread;
	void *result;

	MUST(!pthread_create(&thread, NULL, child_thread, block_new(5000, 5)));
	MUST(!pthread_join(thread, &result));
	block_drop(result);
}

static void child_work(unsigned long seed)
{
	alarm(WATCHDOG_SECONDS);
	blocks_churn(40, seed);
	for (unsigned i = 0; i < SHARED; i++)
		block_drop(atomic_exchange(&shared[i], NULL));
	blocks_churn(10, seed + 1);
}

/* PID must exit with 0; WHAT says whose child it is. */
static void reap(pid_t pid, const char *what)
{
	int status;

	MUST(pid > 0);
	while (waitpid(pid, &status, 0) != pid)
		MUST(errno == EINTR);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		DIE("%s hangs", what);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		DIE("%s ends with wait status %#x", what, status);
}

static void child(unsigned long seed)
{
	pid_t pid;

	child_work(seed);
	pid = fork();
	if (pid == 0) {
		alarm(WATCHDOG_SECONDS);
		blocks_churn(20, seed + 2);
		_exit(0);
	}
	reap(pid, "a child's child");
	child_threads();
	if (seed % 2)
		_exit(0);
	exit(0);
}

static void fork_times(unsigned times, unsigned long seed)
{
	for (unsigned i = 0; i < times; i++) {
		struct block *own = block_new(random_size(&seed), i);
		pid_t pid = fork();

		if (pid == 0) {
			block_drop(own);
			child(i);
		}
		reap(pid, "a child");
		block_drop(own);
	}
}

static void *second_forker(void *arg)
{
	fork_times((unsigned)(unsigned long)arg, 77);
	return NULL;
}

static void with_threads(void (*work)(unsigned), unsigned times)
{
	pthread_t threads[THREADS];
	unsigned long before;

	for (unsigned long i = 0; i < THREADS; i++)
		MUST(!pthread_create(&threads[i], NULL, trade, (void *)(i + 1)));
	while (atomic_load(&exchanges) < 2000)
		usleep(1000);
	work(times);
	/* The parent's threads go on as before. */
	before = atomic_load(&exchanges);
	while (atomic_load(&exchanges) < before + 2000)
		usleep(1000);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < THREADS; i++)
		MUST(!pthread_join(threads[i], NULL));
	for (unsigned i = 0; i < SHARED; i++)
		block_drop(shared[i]);
}

static void storm(unsigned times)
{
	pthread_t second;

	MUST(!pthread_create(&second, NULL, second_forker, (void *)(unsigned long)(times / 10)));
	fork_times(times, 7);
	MUST(!pthread_join(second, NULL));
}

static void spawn_once(void)
{
	char *arguments[] = {(char *)"fork", (char *)"child", NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	pid_t pid;

	sigemptyset(&none);
	MUST(!posix_spawn_file_actions_init(&actions));
	MUST(!posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0));
	MUST(!posix_spawnattr_init(&attributes));
	MUST(!posix_spawnattr_setsigmask(&attributes, &none));
	MUST(!posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK));
	MUST(!posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, arguments, environ));
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	reap(pid, "a spawned program");
}

/* Every second child starts a program. Its own function: what is live across vfork stays small. */
static pid_t vfork_once(bool starts_program)
{
	pid_t pid = vfork();

	if (pid == 0) {
		if (starts_program)
			execl("/proc/self/exe", "fork", "child", (char *)NULL);
		_exit(starts_program);
	}
	return pid;
}

static void pipe_once(void)
{
	char line[16] = "";
	FILE *pipe = popen("echo piped", "r");

	MUST(pipe && fgets(line, sizeof(line), pipe));
	MUST(!pclose(pipe) && !strcmp(line, "piped\n"));
	MUST(!system("exit 0"));
}

static void spawns(unsigned times)
{
	unsigned long seed = 9;

	for (unsigned i = 0; i < times; i++) {
		struct block *own = block_new(random_size(&seed), i);

		reap(vfork_once(i % 2), "a child of vfork");
		block_drop(own);
		blocks_churn(20, seed);
		spawn_once();
		if (i % 20 == 0)
			pipe_once();
	}
}

static void fork_first(void)
{
	for (unsigned i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid == 0)
			child(i);
		reap(pid, "a child forked before the first malloc");
	}
	child_work(1);
	child_threads();
}

int main(int argc, char **argv)
{
	unsigned times = argc > 2 ? (unsigned)atoi(argv[2]) : 1;

	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "first")) {
		fork_first();
		return 0;
	}
	atexit(count_exit);
	if (!strcmp(argv[1], "child")) {
		blocks_churn(50, (unsigned long)getpid());
		return 0;
	}
	if (!strcmp(argv[1], "storm"))
		with_threads(storm, times);
	else
		with_threads(spawns, times);
	blocks_churn(1000, 1);
	MUST(exits == 0);
	printf("%s %u\n", argv[1], times);
	return 0;
}
