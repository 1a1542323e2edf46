/* SPDX-License-Identifier: MIT */
/*
 * A thread leaves its wait, in every way there is, while its heap is being swept. One thread gives back all that is free, again and again;
 * another (the main one) frees blocks of the waiting thread, so that there is always something to sweep, and ends the wait in the middle
 * of it. Each round is one thread with holes in its heap; the main thread goes on when a hole is gone, which shows that the thread is
 * parked and was swept. A way is done when enough rounds saw a sweep between the start and the end of the leaving.
 *
 *   swept WAY [SEED]    WAY: one of the table at the end
 *
 * What the threads keep is whole in the end, byte for byte, and so is what the children of a fork find.
 */
#define STRESS_STANDARD_NAMES 1
#include "../../support/stress_util.h"

#include "../../../include/lull/stats.h"

#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BLOCKS 1600
#define KEEP_ONE_IN 16
#define GIVEN 160          /* of the kept ones and between them: freed by the main thread */
#define HOLES 32           /* blocks of one OS page */
#define OVERLAPS 25        /* rounds in which a sweep was at work while the wait was left */
#define ROUNDS_MAX 2000    /* in which that many must be found */
#define HOLE_TRIES 5000    /* of 1 ms each, for a hole to go */
#define SPINS 4000         /* before a signal is sent again */
#define WATCHDOG_SECONDS 60

struct sleeper {
	struct stress_block own[BLOCKS], given[GIVEN], holes[HOLES];
	struct stress_rng rng;
	char *hole;
	int pipe[2];
	_Atomic bool waits, ended; /* holes are made; the wait was left */
	pthread_t thread;
};

struct way {
	const char *name;
	void *(*run)(void *sleeper);
	void (*end)(struct sleeper *s); /* the wait */
};

static const struct way *way;
static struct sleeper sleeper;
static pthread_key_t late_key;
static _Atomic bool stop;
static _Atomic unsigned handled;
static __thread sigjmp_buf way_out;
static void (*stats_read)(struct lull_stats *ret, uint32_t size);

static struct lull_stats stats(void)
{
	struct lull_stats now;
	stats_read(&now, sizeof(now));
	return now;
}

/* ---- the thread that waits ---- */

static void churn(uint64_t stream)
{
	struct stress_rng rng = stress_rng_make(stream);
	struct stress_block some[16] = {0};
	for (unsigned i = 0; i < 48; i++) {
		struct stress_block *block = &some[i % 16];
		if (block->p)
			stress_block_free(block);
		stress_block_new(block, stress_between(&rng, 1, i % 8 ? 3000 : 60000), &rng);
	}
	for (unsigned i = 0; i < 16; i++)
		stress_block_free(&some[i]);
}

static void page_new(struct stress_block *block, struct stress_rng *rng)
{
	stress_block_adopt(block, stress_malloc(STRESS_OS_PAGE), STRESS_OS_PAGE, 16, rng);
}

static void make_holes(struct sleeper *s)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		stress_block_new(&s->own[i], stress_between(&s->rng, 16, 1500), &s->rng);
		if (i % (BLOCKS / GIVEN) == 0)
			stress_block_new(&s->given[i / (BLOCKS / GIVEN)], stress_between(&s->rng, 16, 1500), &s->rng);
	}
	for (unsigned i = 0; i < HOLES; i++)
		page_new(&s->holes[i], &s->rng);
	for (unsigned i = 0; i < BLOCKS; i++)
		if (i % KEEP_ONE_IN)
			stress_block_free(&s->own[i]);
	s->hole = (char *)s->holes[HOLES / 2].p;
	for (unsigned i = 1; i < HOLES - 1; i++)
		stress_block_free(&s->holes[i]);
}

static void drop_all(struct sleeper *s)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (s->own[i].p)
			stress_block_free(&s->own[i]);
	for (unsigned i = 0; i < HOLES; i++)
		if (s->holes[i].p)
			stress_block_free(&s->holes[i]);
}

/* The longest wait; returns what read does. */
static ssize_t wait_for_byte(struct sleeper *s)
{
	char byte;
	atomic_store(&s->waits, true);
	return read(s->pipe[0], &byte, 1);
}

/* From here on the thread allocates, which a handler that allocates must not interrupt. */
static void wait_is_over(struct sleeper *s)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	atomic_store(&s->ended, true);
}

/* A TLS destructor: the thread's other blocks go, some are made and go, after the park has ended or, if nothing ended it, in it. */
static void free_late(void *arg)
{
	drop_all(arg);
	churn(3);
}

static void *run_plain(void *arg)
{
	struct sleeper *s = arg;
	make_holes(s);
	if (wait_for_byte(s) != 1)
		stress_fail("%s: read ended with errno %d", way->name, errno);
	wait_is_over(s);
	churn(1);
	drop_all(s);
	return NULL;
}

/* Ends the moment the wait does, and frees in destructors only. */
static void *run_exit(void *arg)
{
	struct sleeper *s = arg;
	make_holes(s);
	pthread_setspecific(late_key, s);
	wait_for_byte(s);
	wait_is_over(s);
	return NULL;
}

static void clean_up(void *arg)
{
	struct sleeper *s = arg;
	wait_is_over(s);
	churn(2);
	drop_all(s);
}

static void *run_cancel(void *arg)
{
	struct sleeper *s = arg;
	make_holes(s);
	pthread_cleanup_push(clean_up, s);
	wait_for_byte(s);
	pthread_cleanup_pop(0);
	stress_fail("cancel: read ended with errno %d", errno);
}

static void *run_interrupted(void *arg)
{
	struct sleeper *s = arg;
	make_holes(s);
	errno = 1234;
	ssize_t result = wait_for_byte(s);
	int error = errno;
	wait_is_over(s);
	if (result != -1 || error != EINTR)
		stress_fail("%s: read ended with %zd, errno %d, instead of EINTR", way->name, result, error);
	churn(1);
	drop_all(s);
	return NULL;
}

/* The park has not ended when the jump lands. */
static void *run_jump(void *arg)
{
	struct sleeper *s = arg;
	make_holes(s);
	if (sigsetjmp(way_out, 1) == 0) {
		wait_for_byte(s);
		stress_fail("jump: read ended with errno %d", errno);
	}
	wait_is_over(s);
	churn(1);
	drop_all(s);
	return NULL;
}

/* The thread ends in its park. */
static void *run_jump_and_exit(void *arg)
{
	struct sleeper *s = arg;
	make_holes(s);
	pthread_setspecific(late_key, s);
	if (sigsetjmp(way_out, 1) == 0) {
		wait_for_byte(s);
		stress_fail("jump-exit: read ended with errno %d", errno);
	}
	wait_is_over(s);
	return NULL;
}

/* ---- handlers ---- */

static void allocate_in_handler(int signal_number)
{
	int saved = errno;
	(void)signal_number;
	churn(10 + atomic_fetch_add(&handled, 1));
	errno = saved;
}

/* Frees without allocating: the park goes on. */
static void free_in_handler(int signal_number)
{
	int saved = errno;
	(void)signal_number;
	for (unsigned i = 0; i < BLOCKS; i += 2 * KEEP_ONE_IN)
		if (sleeper.own[i].p)
			stress_block_free(&sleeper.own[i]);
	errno = saved;
}

static void jump_in_handler(int signal_number)
{
	(void)signal_number;
	siglongjmp(way_out, 1);
}

static void allocate_and_jump_in_handler(int signal_number)
{
	(void)signal_number;
	churn(11);
	siglongjmp(way_out, 1);
}

/* Leaves the park, works, and waits itself: a park inside a call that was parked. */
static void wait_in_handler(int signal_number)
{
	int saved = errno;
	(void)signal_number;
	for (unsigned i = 0; i < 3; i++) {
		churn(12 + i);
		if (poll(NULL, 0, 1) != 0)
			stress_fail("nested: poll ended with errno %d", errno);
	}
	errno = saved;
}

static void child_of_fork(void);

static void reap(pid_t pid)
{
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		stress_fail("%s: fork or waitpid: %s", way->name, strerror(errno));
	if (status)
		stress_fail("%s: the child ended with wait status %#x", way->name, (unsigned)status);
}

static void fork_in_handler(int signal_number)
{
	int saved = errno;
	(void)signal_number;
	pid_t pid = fork();
	if (pid == 0)
		child_of_fork();
	reap(pid);
	errno = saved;
}

/* The child has its parent's heap, which is parked, and blocks with it. */
static void vfork_once(void)
{
	pid_t pid = vfork();
	if (pid == 0) {
		poll(NULL, 0, 2);
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	reap(pid);
}

static void vfork_in_handler(int signal_number)
{
	int saved = errno;
	(void)signal_number;
	vfork_once();
	errno = saved;
}

static void handle_with(void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};
	sigaction(SIGUSR1, &action, NULL);
}

/* ---- a child has all blocks and one thread ---- */

static void *thread_of_child(void *arg)
{
	churn(20);
	return arg;
}

/* Blocks of the thread that is not there are checked and freed like any other; its heap is taken over by the next thread. */
static void child_of_fork(void)
{
	alarm(WATCHDOG_SECONDS);
	churn(21);
	drop_all(&sleeper);
	for (unsigned i = 0; i < GIVEN; i++)
		if (sleeper.given[i].p)
			stress_block_free(&sleeper.given[i]);
	pthread_join(stress_thread(thread_of_child, NULL), NULL);
	stress_collect(true);
	churn(22);
	_exit(0);
}

/* ---- the main thread ends the wait ---- */

static void send_byte(struct sleeper *s)
{
	if (write(s->pipe[1], "x", 1) != 1)
		stress_fail("write: %s", strerror(errno));
}

static void send_signal(struct sleeper *s)
{
	pthread_kill(s->thread, SIGUSR1);
}

static void send_cancel(struct sleeper *s)
{
	pthread_cancel(s->thread);
}

static void fork_and_send_byte(struct sleeper *s)
{
	pid_t pid = fork();
	if (pid == 0)
		child_of_fork();
	reap(pid);
	send_byte(s);
}

static void vfork_and_send_byte(struct sleeper *s)
{
	vfork_once();
	send_byte(s);
}

/* A child of vfork that blocks and is killed leaves its parent, the main thread, parked: only its next slow path ends that. */
static void *kill_soon(void *arg)
{
	pid_t pid;
	while ((pid = atomic_load((_Atomic pid_t *)arg)) == 0)
		usleep(100);
	usleep(2000);
	kill(pid, SIGKILL);
	return NULL;
}

static _Atomic pid_t victim;

static pid_t vfork_and_block(void)
{
	pid_t pid = vfork();
	if (pid == 0) {
		atomic_store(&victim, getpid());
		for (;;)
			poll(NULL, 0, 1000);
	}
	return pid;
}

static void vfork_killed_and_send_byte(struct sleeper *s)
{
	int status;
	atomic_store(&victim, 0);
	pthread_t killer = stress_thread(kill_soon, &victim);
	pid_t pid = vfork_and_block();
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		stress_fail("vfork-killed: the child ended with wait status %#x", (unsigned)status);
	pthread_join(killer, NULL);
	churn(30);
	send_byte(s);
}

static void *collect_all_the_time(void *unused)
{
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		stress_collect(true);
		sched_yield();
	}
	return unused;
}

static bool is_away(char *os_page)
{
	unsigned char seen = 1;
	return (uintptr_t)os_page % STRESS_OS_PAGE == 0 && mincore(os_page, STRESS_OS_PAGE, &seen) == 0 && !(seen & 1);
}

static void wait_until_swept(struct sleeper *s)
{
	for (unsigned i = 0; !atomic_load(&s->waits) || !is_away(s->hole); i++) {
		if (i == HOLE_TRIES)
			stress_fail("%s: a hole of a thread that waits is still there", way->name);
		usleep(1000);
	}
}

/* A signal that comes when the thread is parked but not yet in the call does not end it, as ever: it is sent again. */
static void wait_until_left(struct sleeper *s)
{
	for (unsigned i = 1; !atomic_load(&s->ended); i++) {
		sched_yield();
		if (i % SPINS == 0 && way->end == send_signal) {
			usleep(10000);
			send_signal(s);
		}
	}
}

/* Returns whether a page was swept between the order to leave and the leaving. */
static bool leave_once(unsigned round)
{
	struct sleeper *s = &sleeper;
	s->rng = stress_rng_make(1000 + round);
	atomic_store(&s->waits, false);
	atomic_store(&s->ended, false);
	s->thread = stress_thread(way->run, s);
	wait_until_swept(s);
	for (unsigned i = 0; i < GIVEN; i++)
		stress_block_free(&s->given[i]);
	uint64_t before = stats().swept_pages;
	way->end(s);
	wait_until_left(s);
	bool overlaps = stats().swept_pages != before;
	pthread_join(s->thread, NULL);
	return overlaps;
}

static const struct way ways[] = {
	{"wake", run_plain, send_byte},
	{"exit", run_exit, send_byte},
	{"cancel", run_cancel, send_cancel},
	{"handler", run_interrupted, send_signal},
	{"handler-frees", run_interrupted, send_signal},
	{"jump", run_jump, send_signal},
	{"jump-allocates", run_jump, send_signal},
	{"jump-exit", run_jump_and_exit, send_signal},
	{"nested", run_interrupted, send_signal},
	{"fork", run_plain, fork_and_send_byte},
	{"fork-handler", run_interrupted, send_signal},
	{"vfork", run_plain, vfork_and_send_byte},
	{"vfork-killed", run_plain, vfork_killed_and_send_byte},
	{"vfork-handler", run_interrupted, send_signal},
};

static void (*handler_of(const char *name))(int)
{
	static const struct {
		const char *name;
		void (*handler)(int);
	} handlers[] = {
		{"handler", allocate_in_handler},
		{"handler-frees", free_in_handler},
		{"jump", jump_in_handler},
		{"jump-allocates", allocate_and_jump_in_handler},
		{"jump-exit", jump_in_handler},
		{"nested", wait_in_handler},
		{"fork-handler", fork_in_handler},
		{"vfork-handler", vfork_in_handler},
	};
	for (unsigned i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
		if (strcmp(handlers[i].name, name) == 0)
			return handlers[i].handler;
	return SIG_IGN;
}

static const struct way *find_way(const char *name)
{
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i].name, name) == 0)
			return &ways[i];
	stress_fail("'%s' is not a way to leave", name);
}

int main(int argc, char **argv)
{
	stress_begin(argc - 1, argv + 1, "swept");
	*(void **)&stats_read = dlsym(RTLD_DEFAULT, "lull_stats_read");
	if (!stats_read || argc < 2)
		stress_fail("no lull in this process, or no way given");
	way = find_way(argv[1]);
	handle_with(handler_of(way->name));
	pthread_key_create(&late_key, free_late);
	if (pipe(sleeper.pipe))
		stress_fail("pipe: %s", strerror(errno));
	struct lull_stats before = stats();
	pthread_t collector = stress_thread(collect_all_the_time, NULL);
	unsigned rounds = 0, overlaps = 0;
	while (overlaps < OVERLAPS && rounds < ROUNDS_MAX)
		overlaps += leave_once(rounds++);
	atomic_store(&stop, true);
	pthread_join(collector, NULL);
	struct lull_stats after = stats();
	if (overlaps < OVERLAPS)
		stress_fail("%s: in %u rounds only %u saw a sweep", way->name, rounds, overlaps);
	if (after.parks < before.parks + rounds || after.sweeps <= before.sweeps + rounds)
		stress_fail("%s: %u rounds, %llu parks, %llu sweeps", way->name, rounds, (unsigned long long)(after.parks - before.parks),
			(unsigned long long)(after.sweeps - before.sweeps));
	printf("swept %s: %u rounds, a sweep at work in %u, %llu parks, %llu sweeps, all blocks whole\n", way->name, rounds, overlaps,
		(unsigned long long)(after.parks - before.parks), (unsigned long long)(after.sweeps - before.sweeps));
	return 0;
}
