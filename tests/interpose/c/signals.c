/* SPDX-License-Identifier: MIT */
/*
 * Signal handlers that interrupt blocking calls, allocate and drop blocks in there, and sometimes leave by siglongjmp. For each
 * call, with and without SA_RESTART: what it returned, errno, and whether the signal mask is as it was. Prints all that: the same
 * must come out without the library. Then calls that change the mask while they wait, and a timer that interrupts everything.
 */
#include <setjmp.h>
#include <sys/time.h>

#include "calls.h"

#define KEPT 20
/* Any number no call sets. */
#define ERRNO_BEFORE 1234

struct target {
	struct place place;
	struct block *kept[KEPT];
	long result;
	int error;
	bool mask_kept;
};

static atomic_int handled;
static atomic_bool mask_in_handler_is_right;

static bool masks_equal(const sigset_t *a, const sigset_t *b)
{
	for (int s = 1; s < SIGRTMAX; s++)
		if (sigismember(a, s) != sigismember(b, s))
			return false;
	return true;
}

/*
 * Interrupts a blocking call or code that does not allocate, so it may allocate itself. In it SIGUSR1 is blocked, SIGHUP because
 * sa_mask says so, and SIGUSR2 as in the thread.
 */
static void handle(int signal_number)
{
	int saved = errno;
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	if (sigismember(&mask, signal_number) != 1 || sigismember(&mask, SIGHUP) != 1 || sigismember(&mask, SIGUSR2) != 1)
		atomic_store(&mask_in_handler_is_right, false);
	blocks_churn(30, 2);
	free(malloc(400000));
	errno = saved;
	atomic_fetch_add(&handled, 1);
}

static void set_handler(int signal_number, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	sigaddset(&action.sa_mask, SIGHUP);
	MUST(!sigaction(signal_number, &action, NULL));
}

static void *target_run(void *arg)
{
	struct target *t = arg;
	sigset_t before, after, set = waited_signal();

	pthread_sigmask(SIG_BLOCK, &set, NULL);
	t->place.hole = place_use_memory(t->kept, KEPT);
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	atomic_store(&t->place.tid, (int)gettid());
	errno = ERRNO_BEFORE;
	t->result = t->place.call->block(&t->place);
	t->error = errno;
	atomic_store(&t->place.done, true);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	t->mask_kept = masks_equal(&before, &after);
	for (unsigned i = 0; i < KEPT; i++)
		block_drop(t->kept[i]);
	return NULL;
}

/*
 * Signals until the handler has run inside the call: a signal that comes a moment before the call only delays it. Then, if the
 * call goes on, it is woken.
 */
static void interrupt(struct target *t, pthread_t thread)
{
	place_wait_asleep(&t->place);
	place_sweep(&t->place);
	MUST(!pthread_kill(thread, SIGUSR1));
	while (!atomic_load(&handled))
		usleep(200);
	for (unsigned i = 0; i < 50 && !atomic_load(&t->place.done); i++)
		usleep(1000);
	if (t->place.call->wake && !atomic_load(&t->place.done))
		t->place.call->wake(&t->place);
	while (!t->place.call->wake && !atomic_load(&t->place.done)) {
		pthread_kill(thread, SIGUSR1);
		usleep(20000);
	}
}

static void finish_place(struct target *t)
{
	const struct call *call = t->place.call;

	/* A child may still be there. */
	if (finishes_always(call) || (call->wake == end_child && t->result))
		call->finish(&t->place);
	place_close(&t->place);
}

static void interrupt_once(const struct call *call, int flags)
{
	struct target *t = calloc(1, sizeof(*t));
	pthread_t thread;

	MUST(t);
	place_open(&t->place, call);
	set_handler(SIGUSR1, handle, flags);
	atomic_store(&handled, 0);
	atomic_store(&mask_in_handler_is_right, true);
	MUST(!pthread_create(&thread, NULL, target_run, t));
	interrupt(t, thread);
	MUST(!pthread_join(thread, NULL));
	printf("%s%s: %ld, errno %d, mask kept %d, mask in handler right %d\n", call->name, flags ? ", restarting" : "", t->result, t->error,
		t->mask_kept, atomic_load(&mask_in_handler_is_right));
	finish_place(t);
	free(t);
}

/* Waits that let SIGUSR2 in, which is pending when they begin: they end at once. */

static long masked_ppoll(const sigset_t *mask)
{
	return ppoll(NULL, 0, &long_time, mask);
}

static long masked_pselect(const sigset_t *mask)
{
	return pselect(0, NULL, NULL, NULL, &long_time, mask);
}

static int no_events;

static long masked_epoll_pwait(const sigset_t *mask)
{
	struct epoll_event e;

	return epoll_pwait(no_events, &e, 1, -1, mask);
}

static long masked_epoll_pwait2(const sigset_t *mask)
{
	struct epoll_event e;

	return epoll_pwait2(no_events, &e, 1, &long_time, mask);
}

static long masked_sigsuspend(const sigset_t *mask)
{
	return sigsuspend(mask);
}

static void masked_once(const char *name, long (*wait)(const sigset_t *mask))
{
	sigset_t blocked = waited_signal(), none, after;
	struct block *kept[KEPT];
	long result;
	int error;

	sigemptyset(&none);
	set_handler(SIGUSR2, handle, SA_RESTART);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	place_use_memory(kept, KEPT);
	atomic_store(&handled, 0);
	raise(SIGUSR2);
	MUST(atomic_load(&handled) == 0);
	errno = ERRNO_BEFORE;
	result = wait(&none);
	error = errno;
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	printf("%s: %ld, errno %d, handled %d, mask kept %d\n", name, result, error, atomic_load(&handled), masks_equal(&blocked, &after));
	for (unsigned i = 0; i < KEPT; i++)
		block_drop(kept[i]);
	pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
}

/*
 * A wait whose mask lets SIGUSR2 in and holds SIGUSR1 back, where the thread's own mask does the opposite. Once it sleeps, and was swept,
 * both are sent, SIGUSR1 first: only SIGUSR2 ends the wait and is handled under the wait's mask, then SIGUSR1 under the thread's.
 */
struct masked {
	struct place place;
	long (*wait)(const sigset_t *mask);
	long result;
	int error;
	bool mask_kept;
};

static sigset_t masks_handled[2];
static atomic_int order[2], order_n;

static sigset_t mask_of(int a, int b, int c)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, a);
	sigaddset(&set, b);
	sigaddset(&set, c);
	return set;
}

static void note_order(int signal_number)
{
	int saved = errno, n = atomic_fetch_add(&order_n, 1);

	if (n < 2) {
		pthread_sigmask(SIG_SETMASK, NULL, &masks_handled[n]);
		atomic_store(&order[n], signal_number);
	}
	blocks_churn(30, (unsigned long)n);
	errno = saved;
}

static void *masked_run(void *arg)
{
	struct masked *m = arg;
	sigset_t own = mask_of(SIGUSR2, SIGUSR2, SIGUSR2), waits = mask_of(SIGUSR1, SIGWINCH, SIGWINCH), after;
	struct block *kept[KEPT];

	pthread_sigmask(SIG_SETMASK, &own, NULL);
	m->place.hole = place_use_memory(kept, KEPT);
	atomic_store(&m->place.tid, (int)gettid());
	errno = ERRNO_BEFORE;
	m->result = m->wait(&waits);
	m->error = errno;
	atomic_store(&m->place.done, true);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	m->mask_kept = masks_equal(&own, &after);
	for (unsigned i = 0; i < KEPT; i++)
		block_drop(kept[i]);
	return NULL;
}

static void masked_later(const char *name, long (*wait)(const sigset_t *mask))
{
	sigset_t first = mask_of(SIGUSR1, SIGWINCH, SIGUSR2), second = mask_of(SIGUSR2, SIGUSR1, SIGHUP);
	struct masked m = {.wait = wait};
	pthread_t thread;
	bool went_on;

	sigaddset(&first, SIGHUP); /* by sa_mask */
	set_handler(SIGUSR1, note_order, SA_RESTART);
	set_handler(SIGUSR2, note_order, SA_RESTART);
	atomic_store(&order_n, 0);
	MUST(!pthread_create(&thread, NULL, masked_run, &m));
	place_wait_asleep(&m.place);
	place_sweep(&m.place);
	MUST(!pthread_kill(thread, SIGUSR1));
	usleep(20000);
	went_on = !atomic_load(&m.place.done) && atomic_load(&order_n) == 0;
	MUST(!pthread_kill(thread, SIGUSR2));
	MUST(!pthread_join(thread, NULL));
	printf("%s, signalled later: %ld, errno %d, went on %d, mask kept %d\n", name, m.result, m.error, went_on, m.mask_kept);
	printf("%s, handled %d: %d under the wait's mask %d, %d under the thread's %d\n", name, atomic_load(&order_n), order[0],
		masks_equal(&masks_handled[0], &first), order[1], masks_equal(&masks_handled[1], &second));
}

/* Leaves a wait by siglongjmp, with blocks dropped before and after. */

static sigjmp_buf way_out;

static void leave(int signal_number)
{
	(void)signal_number;
	blocks_churn(5, 3);
	siglongjmp(way_out, 1);
}

static void arm_timer(long first_us, long interval_us)
{
	struct itimerval t = {.it_value.tv_usec = first_us, .it_interval.tv_usec = interval_us};

	MUST(!setitimer(ITIMER_REAL, &t, NULL));
}

/* The timer goes on until the jump: a signal that comes before the wait jumps as well. */
static void leave_once(const struct call *call, unsigned long round)
{
	struct place p;
	struct block *kept[KEPT];

	place_open(&p, call);
	place_use_memory(kept, KEPT);
	if (sigsetjmp(way_out, 1) == 0) {
		arm_timer(2000, 2000);
		call->block(&p);
		DIE("%s returned", call->name);
	}
	arm_timer(0, 0);
	blocks_churn(50, round);
	for (unsigned i = 0; i < KEPT; i++)
		block_drop(kept[i]);
	place_close(&p);
}

static void leave_by_jump(void)
{
	set_handler(SIGALRM, leave, 0);
	for (unsigned long round = 0; round < 10; round++)
		for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			if (calls[i].wake == wake_pipe || calls[i].block == block_nanosleep || calls[i].block == block_pause)
				leave_once(&calls[i], round);
	printf("left by siglongjmp\n");
}

/* Two threads throw a byte back and forth while the timer interrupts both, each with blocks of its own. */

static atomic_uint ticks;

static void tick(int signal_number)
{
	(void)signal_number;
	atomic_fetch_add_explicit(&ticks, 1, memory_order_relaxed);
}

static void *play(void *arg)
{
	int *fds = arg;
	char c;

	for (unsigned i = 0; i < 1500; i++) {
		MUST(write(fds[1], "x", 1) == 1);
		blocks_churn(10, i);
		MUST(read(fds[0], &c, 1) == 1);
		free(malloc(70000));
	}
	return NULL;
}

static void under_a_timer(void)
{
	int there[2], back[2];
	pthread_t threads[2];

	MUST(!pipe(there) && !pipe(back));
	set_handler(SIGALRM, tick, SA_RESTART);
	arm_timer(700, 700);
	MUST(!pthread_create(&threads[0], NULL, play, (int[]){back[0], there[1]}));
	MUST(!pthread_create(&threads[1], NULL, play, (int[]){there[0], back[1]}));
	for (unsigned i = 0; i < 2; i++)
		MUST(!pthread_join(threads[i], NULL));
	while (!atomic_load(&ticks))
		pause();
	arm_timer(0, 0);
	printf("under a timer\n");
}

static const struct {
	const char *name;
	long (*wait)(const sigset_t *mask);
} masked_waits[] = {
	{"ppoll with a mask", masked_ppoll},
	{"pselect with a mask", masked_pselect},
	{"epoll_pwait with a mask", masked_epoll_pwait},
	{"epoll_pwait2 with a mask", masked_epoll_pwait2},
	{"sigsuspend with a mask", masked_sigsuspend},
};

int main(void)
{
	sigset_t set = waited_signal();

	no_events = epoll_create1(0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		interrupt_once(&calls[i], 0);
		interrupt_once(&calls[i], SA_RESTART);
	}
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	for (unsigned i = 0; i < sizeof(masked_waits) / sizeof(masked_waits[0]); i++) {
		masked_once(masked_waits[i].name, masked_waits[i].wait);
		masked_later(masked_waits[i].name, masked_waits[i].wait);
	}
	leave_by_jump();
	under_a_timer();
	places_must_be_swept();
	return 0;
}
