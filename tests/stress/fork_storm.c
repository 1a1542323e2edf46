/* SPDX-License-Identifier: MIT */
/*
 * 1000 forks while 8 threads allocate. Each child allocates 1000 blocks of mixed sizes, checks and frees the parent's blocks (its
 * own thread's and those of threads that do not exist in the child), starts a thread, and forks again. Every tenth round starts a
 * program with posix_spawn, and one fork comes before the first allocation. A child that hangs is ended by its own alarm and
 * reported.
 *
 * Blocks that a child looks at are in the store, whose lock the forking thread holds: what the other threads do at the moment of
 * the fork is not copied at one instant, only what no thread may change is.
 *
 * time limit: 900 s (three processes and a program start for each fork, on a machine where a page fault may cost 50 us)
 */
#include "../support/stress_util.h"

#include <spawn.h>
#include <sys/wait.h>

#ifdef STRESS_TSAN
#define FORKS 400 /* ThreadSanitizer's shadow is copied each time */
#else
#define FORKS 1000
#endif
#define THREADS 8
#define STORE 64 /* blocks that threads swap under the lock */
#define TABLE 32 /* blocks private to each thread */
#define CHILD_BLOCKS 1000
#define STEPS_PER_FORK 200 /* of each thread: enough to be busy while the fork is made, and not all the time its children run */

static struct stress_block pool[STORE + THREADS * TABLE];
static struct stress_block *store[STORE];
static pthread_mutex_t store_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stress_block own[STORE]; /* the forking thread's own blocks */
static pthread_mutex_t pace_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pace_changed = PTHREAD_COND_INITIALIZER;
static unsigned rounds; /* forks begun: each gives every thread more steps */
static bool stop;
extern char **environ;

struct worker {
	struct stress_rng rng;
	struct stress_block *table[TABLE];
	pthread_t thread;
};

static struct worker workers[THREADS];

/* As stress_size without the largest: what parent and child write after each fork is copied page by page. */
static size_t fork_size(struct stress_rng *rng)
{
	uint64_t dice = stress_below(rng, 1000);
	if (dice < 940)
		return stress_between(rng, 1, 512);
	if (dice < 995)
		return stress_between(rng, 513, 12 * STRESS_KIB);
	return stress_between(rng, 12 * STRESS_KIB, 128 * STRESS_KIB);
}

static void swap_with_store(struct stress_rng *rng, struct stress_block **at)
{
	struct stress_block **slot = &store[stress_below(rng, STORE)];
	pthread_mutex_lock(&store_lock);
	struct stress_block *got = *slot;
	*slot = *at;
	pthread_mutex_unlock(&store_lock);
	*at = got;
}

static void step(struct worker *w)
{
	struct stress_block **at = &w->table[stress_below(&w->rng, TABLE)];
	if (stress_below(&w->rng, 4) == 0)
		swap_with_store(&w->rng, at);
	else if ((*at)->p)
		stress_block_free(*at);
	else
		stress_block_new(*at, fork_size(&w->rng), &w->rng);
}

/* Waits until the thread may do more than DONE steps; false: stop. */
static bool may_go_on(unsigned done)
{
	pthread_mutex_lock(&pace_lock);
	while (!stop && done >= rounds * STEPS_PER_FORK)
		pthread_cond_wait(&pace_changed, &pace_lock);
	bool go_on = !stop;
	pthread_mutex_unlock(&pace_lock);
	return go_on;
}

static void next_round(bool last)
{
	pthread_mutex_lock(&pace_lock);
	rounds++;
	stop = last;
	pthread_cond_broadcast(&pace_changed);
	pthread_mutex_unlock(&pace_lock);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	for (unsigned done = 0; may_go_on(done);) {
		for (unsigned i = 0; i < STEPS_PER_FORK; i++)
			step(w);
		done += STEPS_PER_FORK;
		if (done % (20 * STEPS_PER_FORK) == 0)
			stress_thread_idle();
	}
	return NULL;
}

static void child_alarm(void)
{
	signal(SIGALRM, SIG_DFL);
	alarm(120);
}

static void allocate_and_free(struct stress_rng *rng, unsigned count)
{
	struct stress_block blocks[32] = {0};
	for (unsigned i = 0; i < count; i++) {
		struct stress_block *block = &blocks[i % 32];
		if (block->p)
			stress_block_free(block);
		stress_block_new(block, fork_size(rng), rng);
	}
	for (unsigned i = 0; i < 32; i++)
		if (blocks[i].p)
			stress_block_free(&blocks[i]);
}

static void *child_thread(void *arg)
{
	struct stress_rng *rng = arg;
	for (unsigned i = 0; i < STORE; i++)
		if (own[i].p)
			stress_block_free(&own[i]);
	allocate_and_free(rng, 50);
	return NULL;
}

static void wait_for(pid_t pid, const char *who)
{
	int status;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			stress_fail("waitpid: %s", strerror(errno));
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
#ifdef STRESS_ASAN
		/* libasan of gcc 12 does not hold the locks of its own allocator over a fork; starting a thread in the child, as the
		 * scavenger is, needs it. Seen: 1 run in 24, both threads of the child in its GetFromAllocator. */
		puts("a libasan whose own allocator can be used after a fork");
		exit(77);
#endif
		stress_fail("%s hung", who);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		stress_fail("%s ended with status 0x%x", who, status);
}

static void grandchild(struct stress_rng *rng)
{
	child_alarm();
	for (unsigned i = STORE / 2; i < STORE; i++)
		if (store[i]->p)
			stress_block_free(store[i]);
	allocate_and_free(rng, 50);
	_exit(0);
}

static void child(struct stress_rng *rng)
{
	child_alarm();
	allocate_and_free(rng, CHILD_BLOCKS / 2);
	for (unsigned i = 0; i < STORE / 2; i++)
		if (store[i]->p)
			stress_block_free(store[i]);
#ifdef STRESS_SANITIZER
	child_thread(rng);
#else
	pthread_t thread = stress_thread(child_thread, rng);
	pthread_join(thread, NULL);
#endif
	pid_t pid = fork();
	if (pid < 0)
		stress_fail("fork in the child: %s", strerror(errno));
	if (pid == 0)
		grandchild(rng);
	wait_for(pid, "the child's child");
	allocate_and_free(rng, CHILD_BLOCKS / 2);
	stress_thread_idle();
	stress_collect(true);
	_exit(0);
}

static pid_t fork_child(struct stress_rng *rng)
{
	next_round(false);
	stress_pause_ms((unsigned)stress_below(rng, 3)); /* the threads have just woken, are in the middle, or nearly done */
	pthread_mutex_lock(&store_lock);
	pid_t pid = fork();
	pthread_mutex_unlock(&store_lock);
	if (pid < 0)
		stress_fail("fork: %s", strerror(errno));
	if (pid == 0)
		child(rng);
	return pid;
}

static void spawn_program(void)
{
	char *const args[] = {"true", NULL};
	pid_t pid;
	int error = posix_spawnp(&pid, "true", NULL, NULL, args, environ);
	if (error)
		stress_fail("posix_spawn: %s", strerror(error));
	wait_for(pid, "the spawned program");
}

static void fork_before_first_allocation(void)
{
	pid_t pid = fork();
	if (pid < 0)
		stress_fail("fork: %s", strerror(errno));
	if (pid == 0) {
		struct stress_rng rng = stress_rng_make(1);
		child_alarm();
		allocate_and_free(&rng, CHILD_BLOCKS);
		_exit(0);
	}
	wait_for(pid, "the child forked before the first allocation");
}

static void start_workers(void)
{
	struct stress_block *next = pool;
	for (unsigned i = 0; i < STORE; i++)
		store[i] = next++;
	for (unsigned t = 0; t < THREADS; t++) {
		workers[t].rng = stress_rng_make(100 + t);
		for (unsigned i = 0; i < TABLE; i++)
			workers[t].table[i] = next++;
		workers[t].thread = stress_thread(work, &workers[t]);
	}
}

/* ThreadSanitizer loses count of threads that start in the child of a threaded program: none does there, the scavenger included. */
static void no_threads_in_children(char **argv)
{
#ifdef STRESS_TSAN
	if (getenv("LULL_SCAVENGER"))
		return;
	setenv("LULL_SCAVENGER", "0", 1);
	execv("/proc/self/exe", argv);
	stress_fail("exec of itself: %s", strerror(errno));
#else
	(void)argv;
#endif
}

int main(int argc, char **argv)
{
	no_threads_in_children(argv);
	stress_begin(argc, argv, "fork_storm");
	fork_before_first_allocation();
	start_workers();
	struct stress_rng rng = stress_rng_make(2);
	unsigned forks = stress_count(FORKS);
	for (unsigned i = 0; i < forks; i++) {
		for (unsigned k = 0; k < 4; k++) {
			struct stress_block *block = &own[stress_below(&rng, STORE)];
			if (block->p)
				stress_block_free(block);
			stress_block_new(block, fork_size(&rng), &rng);
		}
		if (i % 10 == 0)
			spawn_program();
		wait_for(fork_child(&rng), "a child");
	}
	next_round(true);
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(workers[t].thread, NULL);
	for (size_t i = 0; i < sizeof(pool) / sizeof(pool[0]); i++)
		if (pool[i].p)
			stress_block_free(&pool[i]);
	for (unsigned i = 0; i < STORE; i++)
		if (own[i].p)
			stress_block_free(&own[i]);
	dprintf(STDOUT_FILENO, "fork_storm: %u forks, parent's blocks whole\n", forks);
	return 0;
}
