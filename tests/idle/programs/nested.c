/* SPDX-License-Identifier: MIT */
/*
 * The explicit park, lull_thread_idle_start to lull_thread_idle_end, against everything that can come in between or be left out: a park
 * inside it, calls that park by themselves, handlers that allocate, fork, the end of the thread, an end too many. Blocks that were kept
 * are whole after each step.
 *
 *   nested explicit   with the scavenger
 *   nested stopped    after lull_scavenger_stop
 *   nested off        in an environment with LULL_SCAVENGER=0
 *
 * And what the calls that park by themselves do without a scavenger, on their way in: handlers that come there may fork, and may leave for
 * good.
 *
 *   nested inline     in an environment with LULL_SCAVENGER=0
 */
#define STRESS_STANDARD_NAMES 1
#include "../../support/stress_util.h"

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define BLOCKS 1600
#define KEEP_ONE_IN 16
#define PAGES 64
#define TRIES 2000 /* of 5 ms: far longer than the scavenger takes for anything */
#define PAIRS 2000
#define SIGNALS 100
#define WATCHDOG_SECONDS 60

#define MUST(x) ((x) ? (void)0 : stress_fail("line %d: not so: %s", __LINE__, #x))

struct blocks {
	struct stress_block some[BLOCKS], pages[PAGES];
	struct stress_rng rng;
	char *hole; /* an OS page that nothing is in */
};

static bool (*idle_start)(void);
static void (*idle_end)(void);
static void (*scavenger_stop)(void);
static struct blocks mine, other;
static pthread_key_t late_key;
static _Atomic bool stop;

/* ---- memory ---- */

static void make_holes(struct blocks *b)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (!b->some[i].p)
			stress_block_new(&b->some[i], stress_between(&b->rng, 16, 1500), &b->rng);
	for (unsigned i = 0; i < PAGES; i++)
		if (!b->pages[i].p)
			stress_block_adopt(&b->pages[i], stress_malloc(STRESS_OS_PAGE), STRESS_OS_PAGE, 16, &b->rng);
	for (unsigned i = 0; i < BLOCKS; i++)
		if (i % KEEP_ONE_IN)
			stress_block_free(&b->some[i]);
	b->hole = (char *)b->pages[PAGES / 2].p;
	for (unsigned i = 1; i < PAGES - 1; i++)
		stress_block_free(&b->pages[i]);
}

static void check(const struct blocks *b)
{
	for (unsigned i = 0; i < BLOCKS; i += KEEP_ONE_IN)
		if (b->some[i].p)
			stress_check(&b->some[i], "after a park");
	stress_check(&b->pages[0], "after a park");
	stress_check(&b->pages[PAGES - 1], "after a park");
}

static void drop_all(struct blocks *b)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (b->some[i].p)
			stress_block_free(&b->some[i]);
	for (unsigned i = 0; i < PAGES; i++)
		if (b->pages[i].p)
			stress_block_free(&b->pages[i]);
}

static void churn(uint64_t stream)
{
	struct stress_rng rng = stress_rng_make(stream);
	struct stress_block some[16] = {0};
	for (unsigned i = 0; i < 64; i++) {
		struct stress_block *block = &some[i % 16];
		if (block->p)
			stress_block_free(block);
		stress_block_new(block, stress_between(&rng, 1, i % 8 ? 3000 : 60000), &rng);
	}
	for (unsigned i = 0; i < 16; i++)
		stress_block_free(&some[i]);
}

static bool is_away(char *os_page)
{
	unsigned char seen = 1;
	return (uintptr_t)os_page % STRESS_OS_PAGE == 0 && mincore(os_page, STRESS_OS_PAGE, &seen) == 0 && !(seen & 1);
}

/* The scavenger starts when there is something to do for it. */
static void start_a_park(struct blocks *b)
{
	for (unsigned i = 0; make_holes(b), !idle_start(); i++) {
		MUST(i < TRIES);
		poll(NULL, 0, 5);
	}
}

/* Ends it and shows that all is well. */
static void end_the_park(struct blocks *b, uint64_t stream)
{
	idle_end();
	check(b);
	churn(stream);
}

/* ---- with the scavenger ---- */

static void *never_allocated(void *unused)
{
	MUST(!idle_start());
	idle_end();
	return unused;
}

static void parks_inside_a_park(void)
{
	start_a_park(&mine);
	MUST(!idle_start());
	MUST(!idle_start());
	for (unsigned i = 0; !is_away(mine.hole); i++) {
		MUST(i < TRIES);
		usleep(5000);
	}
	end_the_park(&mine, 1);
	idle_end();
	idle_end();
	end_the_park(&mine, 2);
}

/* They find nothing to do, and leave the outer park as it is. */
static void calls_inside_a_park(void)
{
	int ends[2];
	char byte;
	struct pollfd fd;
	MUST(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
	fd = (struct pollfd){.fd = ends[0], .events = POLLIN};
	start_a_park(&mine);
	MUST(poll(&fd, 1, -1) == 1 && !idle_start());
	MUST(read(ends[0], &byte, 1) == 1 && !idle_start());
	MUST(poll(&fd, 1, 1) == 0 && !idle_start());
	MUST(usleep(1000) == 0 && !idle_start());
	stress_thread_idle();
	MUST(!idle_start());
	end_the_park(&mine, 3);
	close(ends[0]);
	close(ends[1]);
}

static void allocate_and_wait(int signal_number)
{
	(void)signal_number;
	churn(4);
	make_holes(&mine);
	poll(NULL, 0, 2);
	churn(5);
}

static void free_one(int signal_number)
{
	(void)signal_number;
	stress_block_free(&mine.some[0]);
}

static void raise_with(void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

/* A malloc ends the park by itself, a free does not. */
static void handlers_inside_a_park(void)
{
	start_a_park(&mine);
	raise_with(free_one);
	MUST(!idle_start());
	raise_with(allocate_and_wait);
	MUST(idle_start());
	end_the_park(&mine, 6);
}

static void child(void)
{
	alarm(WATCHDOG_SECONDS);
	idle_end();
	check(&mine);
	churn(7);
	start_a_park(&mine);
	end_the_park(&mine, 8);
	drop_all(&mine);
	_exit(0);
}

static void fork_inside_a_park(void)
{
	int status;
	start_a_park(&mine);
	pid_t pid = fork();
	if (pid == 0)
		child();
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	end_the_park(&mine, 9);
}

static void free_late(void *arg)
{
	check(arg);
	drop_all(arg);
	churn(10);
}

/* Never ended; what is left to do is done by a TLS destructor. */
static void *end_inside_a_park(void *arg)
{
	pthread_setspecific(late_key, arg);
	start_a_park(arg);
	return NULL;
}

static void *collect_all_the_time(void *unused)
{
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		stress_collect(true);
		sched_yield();
	}
	return unused;
}

static void many_pairs_while_others_collect(void)
{
	pthread_t collector = stress_thread(collect_all_the_time, NULL);
	unsigned parks = 0;
	for (unsigned i = 0; i < PAIRS; i++) {
		if (i % 100 == 0)
			make_holes(&mine);
		parks += idle_start();
		idle_end();
		stress_free(stress_malloc(i % 1000));
	}
	MUST(parks > 0);
	atomic_store(&stop, true);
	pthread_join(collector, NULL);
	check(&mine);
}

static void explicit(void)
{
	pthread_join(stress_thread(never_allocated, NULL), NULL);
	idle_end();
	parks_inside_a_park();
	calls_inside_a_park();
	handlers_inside_a_park();
	fork_inside_a_park();
	pthread_join(stress_thread(end_inside_a_park, &other), NULL);
	many_pairs_while_others_collect();
}

/* ---- without ---- */

static unsigned lull_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned n = 0;
	MUST(tasks);
	for (struct dirent *entry; (entry = readdir(tasks));) {
		char path[300], name[32] = "";
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		FILE *f = fopen(path, "r");
		if (f && fgets(name, sizeof(name), f))
			n += strcmp(name, "lull\n") == 0;
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return n;
}

static void no_park_is_to_be_had(void)
{
	for (unsigned i = 0; i < 20; i++) {
		make_holes(&mine);
		MUST(!idle_start());
		idle_end();
		poll(NULL, 0, 5);
		MUST(!idle_start());
	}
	MUST(lull_threads() == 0);
	stress_collect(true);
	MUST(is_away(mine.hole));
	check(&mine);
	churn(11);
}

/* The child of a fork starts afresh. */
static void stopped(void)
{
	int status;
	start_a_park(&mine);
	end_the_park(&mine, 12);
	for (unsigned i = 0; lull_threads() != 1; i++) { /* it names itself when it runs */
		MUST(i < TRIES);
		usleep(5000);
	}
	scavenger_stop();
	no_park_is_to_be_had();
	scavenger_stop();
	no_park_is_to_be_had();
	pid_t pid = fork();
	if (pid == 0)
		child();
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	no_park_is_to_be_had();
}

/* ---- handlers on the way into a call ---- */

static sigjmp_buf way_out;
static volatile sig_atomic_t forks; /* in this round, still to be made */

static void fork_or_jump(int signal_number)
{
	int saved = errno, status;
	(void)signal_number;
	if (!forks)
		siglongjmp(way_out, 1);
	forks = 0;
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	errno = saved;
}

/* The first signal comes when the call has begun, and may be still busy giving memory back. */
static void signal_soon(timer_t timer, long us)
{
	struct itimerspec when = {.it_value.tv_nsec = us * 1000, .it_interval.tv_nsec = us ? 5000000 : 0};
	MUST(timer_settime(timer, 0, &when, NULL) == 0);
}

/* Such a pass is made once in 50 ms at most. A raw system call is no call that parks. */
static void wait_for_the_next_pass(void)
{
	syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 55 * 1000 * 1000}, NULL);
}

/* A lock that a handler took away with it would be missed by the collect, or by the next fork. */
static void handlers_at_inline_passes(void)
{
	struct sigaction action = {.sa_handler = fork_or_jump};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	timer_t timer;
	int ends[2];
	char byte;
	MUST(pipe(ends) == 0 && sigaction(SIGUSR1, &action, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	for (unsigned i = 0; i < SIGNALS; i++) {
		make_holes(&mine);
		wait_for_the_next_pass();
		forks = i % 2;
		if (sigsetjmp(way_out, 1) == 0) {
			signal_soon(timer, (long)stress_between(&mine.rng, 20, 600));
			MUST(read(ends[0], &byte, 1) == -1 && errno == EINTR);
		}
		signal_soon(timer, 0);
		stress_collect(i % 4 < 2);
		check(&mine);
	}
}

static void find(void *ret, const char *name)
{
	*(void **)ret = dlsym(RTLD_DEFAULT, name);
	if (*(void **)ret)
		return;
	printf("no %s in this library\n", name);
	exit(77);
}

static void find_calls(void)
{
	find(&idle_start, "lull_thread_idle_start");
	find(&idle_end, "lull_thread_idle_end");
	find(&scavenger_stop, "lull_scavenger_stop");
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";
	stress_begin(argc - 1, argv + 1, "nested");
	pthread_key_create(&late_key, free_late);
	mine.rng = stress_rng_make(1);
	other.rng = stress_rng_make(2);
	if (strcmp(part, "inline") != 0)
		find_calls();
	if (strcmp(part, "inline") == 0)
		handlers_at_inline_passes();
	else if (strcmp(part, "explicit") == 0)
		explicit();
	else if (strcmp(part, "stopped") == 0)
		stopped();
	else
		no_park_is_to_be_had();
	check(&mine);
	drop_all(&mine);
	printf("nested %s: all blocks whole\n", part);
	return 0;
}
