/* SPDX-License-Identifier: MIT */
/*
 * A thread that blocks is swept by others while signals and cancellation come in. For each call that blocks, a thread with holes in
 * its heap enters it, and the main thread, while it collects and frees blocks of that thread,
 *
 *   signals it: the handler allocates, fills, checks and frees; the call ends with EINTR where it must, and goes on where it must;
 *   cancels it: the clean-up handler does the same.
 *
 * In the end what the thread kept is whole and its heap works. Signal handlers may not call malloc in general; these interrupt calls
 * that hold no lock of the allocator, as handlers of real programs do. Exit 0 all calls as they should be, 1 not (named).
 */
#define STRESS_STANDARD_NAMES 1
#include "../../support/stress_util.h"

#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define SIGNALS 5
#define BLOCKS 3000
#define OTHERS 64

static struct stress_block blocks[BLOCKS];    /* of the thread that blocks; 1 in 20 stays */
static struct stress_block to_others[OTHERS]; /* of that thread, for the main thread to free while it blocks */
static _Atomic unsigned ended;                /* calls that ended */
static _Atomic unsigned handled;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sem_t entering, never_posted;
static pthread_t sleeper;
static pid_t child;
static int pipe_ends[2], sockets[2], listening, epoll;
static bool stop;

/* ---- the calls; each returns true when it ended as a signal must end it ---- */

#define interrupted(call) ((call) == -1 && errno == EINTR)

static const struct timespec minute = {.tv_sec = 60};

static bool in_nanosleep(void)
{
	return interrupted(nanosleep(&minute, NULL));
}

static bool in_clock_nanosleep(void)
{
	return clock_nanosleep(CLOCK_MONOTONIC, 0, &minute, NULL) == EINTR;
}

static bool in_sleep(void)
{
	return sleep(60) > 0;
}

static bool in_usleep(void)
{
	return interrupted(usleep(60000000));
}

static bool in_pause(void)
{
	return interrupted(pause());
}

static bool in_poll(void)
{
	struct pollfd fd = {.fd = pipe_ends[0], .events = POLLIN};
	return interrupted(poll(&fd, 1, -1));
}

static bool in_ppoll(void)
{
	struct pollfd fd = {.fd = pipe_ends[0], .events = POLLIN};
	return interrupted(ppoll(&fd, 1, &minute, NULL));
}

static bool in_select(void)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(pipe_ends[0], &set);
	return interrupted(select(pipe_ends[0] + 1, &set, NULL, NULL, NULL));
}

static bool in_pselect(void)
{
	return interrupted(pselect(0, NULL, NULL, NULL, &minute, NULL));
}

static bool in_epoll_wait(void)
{
	struct epoll_event event;
	return interrupted(epoll_wait(epoll, &event, 1, -1));
}

static bool in_epoll_pwait(void)
{
	struct epoll_event event;
	return interrupted(epoll_pwait(epoll, &event, 1, 60000, NULL));
}

static bool in_read(void)
{
	char byte;
	return interrupted(read(pipe_ends[0], &byte, 1));
}

static bool in_recv(void)
{
	char byte;
	return interrupted(recv(sockets[0], &byte, 1, 0));
}

static bool in_accept(void)
{
	return interrupted(accept(listening, NULL, NULL));
}

static bool in_sem_wait(void)
{
	return interrupted(sem_wait(&never_posted));
}

static bool in_sem_timedwait(void)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	return interrupted(sem_timedwait(&never_posted, &until));
}

static bool in_waitpid(void)
{
	return interrupted(waitpid(child, NULL, 0));
}

static bool in_sigsuspend(void)
{
	sigset_t none;
	sigemptyset(&none);
	return interrupted(sigsuspend(&none));
}

/* No signal ends these: they go on until the main thread says so. */
static void unlock(void *arg)
{
	(void)arg;
	pthread_mutex_unlock(&lock);
}

static bool in_cond_wait(void)
{
	volatile int error = 0;
	pthread_mutex_lock(&lock);
	pthread_cleanup_push(unlock, NULL);
	while (!stop && !error)
		error = pthread_cond_wait(&changed, &lock);
	pthread_cleanup_pop(1);
	return !error;
}

static bool in_cond_timedwait(void)
{
	struct timespec until;
	volatile int error = 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	pthread_mutex_lock(&lock);
	pthread_cleanup_push(unlock, NULL);
	while (!stop && !error)
		error = pthread_cond_timedwait(&changed, &lock, &until);
	pthread_cleanup_pop(1);
	return !error;
}

static bool in_join(void)
{
	return pthread_join(sleeper, NULL) == 0;
}

static const struct call {
	const char *name;
	bool (*block)(void);
	bool goes_on; /* a signal does not end it */
} calls[] = {
	{"nanosleep", in_nanosleep, false},
	{"clock_nanosleep", in_clock_nanosleep, false},
	{"sleep", in_sleep, false},
	{"usleep", in_usleep, false},
	{"pause", in_pause, false},
	{"poll", in_poll, false},
	{"ppoll", in_ppoll, false},
	{"select", in_select, false},
	{"pselect", in_pselect, false},
	{"epoll_wait", in_epoll_wait, false},
	{"epoll_pwait", in_epoll_pwait, false},
	{"read", in_read, false},
	{"recv", in_recv, false},
	{"accept", in_accept, false},
	{"sem_wait", in_sem_wait, false},
	{"sem_timedwait", in_sem_timedwait, false},
	{"waitpid", in_waitpid, false},
	{"sigsuspend", in_sigsuspend, false},
	{"pthread_cond_wait", in_cond_wait, true},
	{"pthread_cond_timedwait", in_cond_timedwait, true},
	{"pthread_join", in_join, true},
};

/* ---- the thread that blocks ---- */

static void allocate_in_between(uint64_t stream)
{
	struct stress_rng rng = stress_rng_make(stream);
	struct stress_block some[16] = {0};
	for (unsigned i = 0; i < 64; i++) {
		struct stress_block *block = &some[i % 16];
		if (block->p)
			stress_block_free(block);
		stress_block_new(block, stress_size(&rng) / 4 + 1, &rng);
	}
	for (unsigned i = 0; i < 16; i++)
		stress_block_free(&some[i]);
}

static void handle(int signal_number)
{
	int saved = errno;
	(void)signal_number;
	allocate_in_between(atomic_fetch_add(&handled, 1));
	errno = saved;
}

static void make_holes(struct stress_rng *rng)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		stress_block_new(&blocks[i], stress_between(rng, 1, i % 10 ? 2000 : 30000), rng);
	for (unsigned i = 0; i < OTHERS; i++)
		stress_block_new(&to_others[i], stress_between(rng, 1, 40000), rng);
	for (unsigned i = 0; i < BLOCKS; i++)
		if (i % 20)
			stress_block_free(&blocks[i]);
}

static void free_kept(void)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (blocks[i].p)
			stress_block_free(&blocks[i]);
}

static void *run_signalled(void *arg)
{
	const struct call *call = arg;
	struct stress_rng rng = stress_rng_make(1);
	make_holes(&rng);
	unsigned times = call->goes_on ? 1 : SIGNALS;
	for (unsigned i = 0; i < times; i++) {
		sem_post(&entering);
		if (!call->block())
			stress_fail("%s ended with errno %d (%s)", call->name, errno, strerror(errno));
		atomic_fetch_add(&ended, 1);
		allocate_in_between(100 + i);
	}
	free_kept();
	return NULL;
}

static void clean_up(void *arg)
{
	(void)arg;
	allocate_in_between(200);
	free_kept();
}

static void *run_cancelled(void *arg)
{
	const struct call *call = arg;
	struct stress_rng rng = stress_rng_make(2);
	make_holes(&rng);
	pthread_cleanup_push(clean_up, NULL);
	sem_post(&entering);
	call->block();
	pthread_cleanup_pop(0);
	stress_fail("%s returned (errno %d) instead of being cancelled", call->name, errno);
}

/* ---- the main thread ---- */

static void wait_entering(void)
{
	while (sem_wait(&entering))
		;
}

static void disturb(unsigned round)
{
	for (unsigned i = round % 8; i < OTHERS; i += 8)
		if (to_others[i].p)
			stress_block_free(&to_others[i]);
	stress_collect(round % 2);
}

static void *sleep_until_stop(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	while (!stop)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void set_stop(bool value)
{
	pthread_mutex_lock(&lock);
	stop = value;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* Signals until one more call has ended, or for calls that go on until the handler ran: one may come before the call is entered. */
static void signal_until(pthread_t thread, const _Atomic unsigned *counter, unsigned goal)
{
	for (unsigned round = 0; atomic_load(counter) < goal; round++) {
		disturb(round);
		pthread_kill(thread, SIGUSR1);
		stress_pause_ms(2);
	}
}

static void try_signals(const struct call *call)
{
	atomic_store(&ended, 0);
	atomic_store(&handled, 0);
	pthread_t thread = stress_thread(run_signalled, (void *)(uintptr_t)call);
	for (unsigned i = 0; i < (call->goes_on ? 1 : SIGNALS); i++) {
		wait_entering();
		stress_pause_ms(3);
		if (call->goes_on)
			signal_until(thread, &handled, SIGNALS);
		else
			signal_until(thread, &ended, i + 1);
	}
	set_stop(true);
	pthread_join(thread, NULL);
}

static void try_cancel(const struct call *call)
{
	void *result;
	pthread_t thread = stress_thread(run_cancelled, (void *)(uintptr_t)call);
	wait_entering();
	stress_pause_ms(3);
	for (unsigned round = 0; round < 8; round++)
		disturb(round);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	if (result != PTHREAD_CANCELED)
		stress_fail("%s: the cancelled thread returned %p", call->name, result);
}

static void try_call(const struct call *call, void (*try)(const struct call *))
{
	set_stop(false);
	sleeper = stress_thread(sleep_until_stop, NULL);
	try(call);
	set_stop(true);
	if (call->block != in_join || try == try_cancel)
		pthread_join(sleeper, NULL);
	for (unsigned i = 0; i < OTHERS; i++)
		if (to_others[i].p)
			stress_block_free(&to_others[i]);
}

static void set_up(void)
{
	struct sigaction action = {.sa_handler = handle}; /* no SA_RESTART: calls end */
	sigaction(SIGUSR1, &action, NULL);
	sem_init(&entering, 0, 0);
	sem_init(&never_posted, 0, 0);
	listening = socket(AF_UNIX, SOCK_STREAM, 0);
	epoll = epoll_create1(0);
	struct sockaddr unnamed = {.sa_family = AF_UNIX};
	if (pipe(pipe_ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || epoll < 0 ||
		bind(listening, &unnamed, sizeof(unnamed.sa_family)) || listen(listening, 1))
		stress_fail("set-up: %s", strerror(errno));
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGUSR1, SIG_IGN);
		for (;;)
			pause();
	}
}

int main(int argc, char **argv)
{
	stress_begin(argc, argv, "parked");
	set_up();
	unsigned count = sizeof(calls) / sizeof(calls[0]);
	for (unsigned i = 0; i < count; i++) {
		try_call(&calls[i], try_signals);
		try_call(&calls[i], try_cancel);
	}
	kill(child, SIGKILL);
	printf("parked: %u calls signalled and cancelled, heaps whole\n", count);
	return 0;
}
