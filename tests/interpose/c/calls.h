/* SPDX-License-Identifier: MIT */
/*
 * A table of calls that block: how to get a thread to block in each, how another thread ends the wait, whether the call is a
 * cancellation point. The programs beside this file cancel and interrupt them.
 *
 * Each thread that blocks has a `struct place` of its own. The pointers and descriptors in it are set by its creator; `tid`, `done`
 * and `hole` are for both sides.
 *
 * Under lull the heap of a thread that blocks is swept from outside, and a hole in it must be gone afterwards.
 */
#ifndef CALLS_H
#define CALLS_H

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "blocks.h"

struct call;

struct place {
	const struct call *call;
	atomic_int tid;   /* 0 until the thread is about to block */
	atomic_bool done; /* the call has returned */
	char *hole;       /* an OS page of the thread's heap that nothing is in */
	int pipe[2];      /* empty: reading blocks */
	int epoll;        /* watches the pipe */
	int pair[2];      /* socket pair; [0] takes no more when the call is one that sends */
	int listener;
	struct sockaddr_un address;
	int file, holder; /* the same file opened twice; holder has the lock */
	int clients[16];  /* connected until the listener takes no more; their number */
	int clients_n;
	mqd_t queue;
	int messages;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool signalled;
	mtx_t mtx;
	cnd_t cnd;
	pthread_barrier_t barrier;
	sem_t sem;
	uint32_t word;
	pid_t child;
	pthread_t other;
	thrd_t other_thrd;
	int gate[2]; /* what the other thread waits for */
};

struct call {
	const char *name;
	long (*block)(struct place *p);
	void (*wake)(struct place *p);
	bool cancels; /* a cancellation point */
	void (*prepare)(struct place *p);
	void (*finish)(struct place *p);
};

/* Far away: no wait here ends by its own time. */
static const struct timespec long_time = {.tv_sec = 1000};

static struct timespec far_from_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += long_time.tv_sec;
	return t;
}

/* Waiting that ends with a byte in the pipe. */

static fd_set pipe_set(struct place *p)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(p->pipe[0], &set);
	return set;
}

static void wake_pipe(struct place *p)
{
	MUST(write(p->pipe[1], "x", 1) == 1);
}

static long block_read(struct place *p)
{
	char c;

	return read(p->pipe[0], &c, 1);
}

static long block_readv(struct place *p)
{
	char c;
	struct iovec v = {&c, 1};

	return readv(p->pipe[0], &v, 1);
}

static long block_poll(struct place *p)
{
	struct pollfd f = {.fd = p->pipe[0], .events = POLLIN};

	return poll(&f, 1, -1);
}

static long block_poll_timed(struct place *p)
{
	struct pollfd f = {.fd = p->pipe[0], .events = POLLIN};

	return poll(&f, 1, 1000000);
}

static long block_ppoll(struct place *p)
{
	struct pollfd f = {.fd = p->pipe[0], .events = POLLIN};

	return ppoll(&f, 1, &long_time, NULL);
}

static long block_select(struct place *p)
{
	fd_set set = pipe_set(p);

	return select(p->pipe[0] + 1, &set, NULL, NULL, NULL);
}

static long block_pselect(struct place *p)
{
	fd_set set = pipe_set(p);

	return pselect(p->pipe[0] + 1, &set, NULL, NULL, &long_time, NULL);
}

static long block_epoll_wait(struct place *p)
{
	struct epoll_event e;

	return epoll_wait(p->epoll, &e, 1, -1);
}

static long block_epoll_pwait(struct place *p)
{
	struct epoll_event e;

	return epoll_pwait(p->epoll, &e, 1, 1000000, NULL);
}

static long block_epoll_pwait2(struct place *p)
{
	struct epoll_event e;

	return epoll_pwait2(p->epoll, &e, 1, &long_time, NULL);
}

/* Sockets. */

static void wake_receiver(struct place *p)
{
	MUST(send(p->pair[1], "x", 1, 0) == 1);
}

static long block_recv(struct place *p)
{
	char c;

	return recv(p->pair[0], &c, 1, 0);
}

static long block_recvfrom(struct place *p)
{
	char c;

	return recvfrom(p->pair[0], &c, 1, 0, NULL, NULL);
}

static long block_recvmsg(struct place *p)
{
	char c;
	struct iovec v = {&c, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

	return recvmsg(p->pair[0], &m, 0);
}

static long block_recvmmsg(struct place *p)
{
	char c;
	struct iovec v = {&c, 1};
	struct mmsghdr m = {.msg_hdr = {.msg_iov = &v, .msg_iovlen = 1}};

	return recvmmsg(p->pair[0], &m, 1, 0, NULL);
}

static void fill_pair(struct place *p)
{
	char bytes[4096] = {0};

	while (send(p->pair[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	while (send(p->pair[0], bytes, 1, MSG_DONTWAIT) > 0)
		;
	MUST(errno == EAGAIN);
	errno = 0;
}

static void wake_sender(struct place *p)
{
	char bytes[4096];

	while (recv(p->pair[1], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static long block_send(struct place *p)
{
	return send(p->pair[0], "x", 1, 0);
}

static long block_sendto(struct place *p)
{
	return sendto(p->pair[0], "x", 1, 0, NULL, 0);
}

static long block_sendmsg(struct place *p)
{
	char c = 'x';
	struct iovec v = {&c, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

	return sendmsg(p->pair[0], &m, 0);
}

static long block_sendmmsg(struct place *p)
{
	char c = 'x';
	struct iovec v = {&c, 1};
	struct mmsghdr m = {.msg_hdr = {.msg_iov = &v, .msg_iovlen = 1}};

	return sendmmsg(p->pair[0], &m, 1, 0);
}

static long block_write(struct place *p)
{
	return write(p->pair[0], "x", 1);
}

static void wake_acceptor(struct place *p)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	MUST(fd >= 0 && !connect(fd, (struct sockaddr *)&p->address, sizeof(p->address)));
	close(fd);
}

static long accepted(int fd)
{
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static long block_accept(struct place *p)
{
	return accepted(accept(p->listener, NULL, NULL));
}

static long block_accept4(struct place *p)
{
	return accepted(accept4(p->listener, NULL, NULL, SOCK_CLOEXEC));
}

/* As many as may wait to be accepted: the next one waits to be let in. */
static void fill_listener(struct place *p)
{
	for (;;) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

		MUST(fd >= 0 && p->clients_n < 16);
		p->clients[p->clients_n++] = fd;
		if (connect(fd, (struct sockaddr *)&p->address, sizeof(p->address)))
			break;
	}
	MUST(errno == EAGAIN);
	p->file = socket(AF_UNIX, SOCK_STREAM, 0);
	MUST(p->file >= 0);
	errno = 0;
}

static long block_connect(struct place *p)
{
	return connect(p->file, (struct sockaddr *)&p->address, sizeof(p->address));
}

static void wake_connector(struct place *p)
{
	int fd = accept(p->listener, NULL, NULL);

	MUST(fd >= 0);
	close(fd);
}

static void close_clients(struct place *p)
{
	for (int i = 0; i < p->clients_n; i++)
		close(p->clients[i]);
	close(p->file);
}

/* Threads. */

static long wait_cond(struct place *p, int (*wait)(struct place *))
{
	int result = 0;

	pthread_mutex_lock(&p->mutex);
	while (!p->signalled && result == 0)
		result = wait(p);
	pthread_mutex_unlock(&p->mutex);
	return result;
}

static int cond_wait(struct place *p)
{
	return pthread_cond_wait(&p->cond, &p->mutex);
}

static int cond_timedwait(struct place *p)
{
	struct timespec t = far_from_now(CLOCK_REALTIME);

	return pthread_cond_timedwait(&p->cond, &p->mutex, &t);
}

static int cond_clockwait(struct place *p)
{
	struct timespec t = far_from_now(CLOCK_MONOTONIC);

	return pthread_cond_clockwait(&p->cond, &p->mutex, CLOCK_MONOTONIC, &t);
}

static long block_cond_wait(struct place *p)
{
	return wait_cond(p, cond_wait);
}

static long block_cond_timedwait(struct place *p)
{
	return wait_cond(p, cond_timedwait);
}

static long block_cond_clockwait(struct place *p)
{
	return wait_cond(p, cond_clockwait);
}

static void wake_cond(struct place *p)
{
	pthread_mutex_lock(&p->mutex);
	p->signalled = true;
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->mutex);
}

/* A cancelled wait ends with the mutex held. */
static void finish_cond(struct place *p)
{
	pthread_mutex_unlock(&p->mutex);
}

static long wait_cnd(struct place *p, const struct timespec *until)
{
	int result = thrd_success;

	mtx_lock(&p->mtx);
	while (!p->signalled && result == thrd_success)
		result = until ? cnd_timedwait(&p->cnd, &p->mtx, until) : cnd_wait(&p->cnd, &p->mtx);
	mtx_unlock(&p->mtx);
	return result;
}

static long block_cnd_wait(struct place *p)
{
	return wait_cnd(p, NULL);
}

static long block_cnd_timedwait(struct place *p)
{
	struct timespec t = far_from_now(CLOCK_REALTIME);

	return wait_cnd(p, &t);
}

static void wake_cnd(struct place *p)
{
	mtx_lock(&p->mtx);
	p->signalled = true;
	cnd_signal(&p->cnd);
	mtx_unlock(&p->mtx);
}

static void finish_cnd(struct place *p)
{
	mtx_unlock(&p->mtx);
}

/* One of the two is told that it is the one: which is a matter of chance. */
static long block_barrier_wait(struct place *p)
{
	int result = pthread_barrier_wait(&p->barrier);

	return result == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : result;
}

static void wake_barrier(struct place *p)
{
	block_barrier_wait(p);
}

static void *wait_at_gate(void *arg)
{
	struct place *p = arg;
	char c;

	MUST(read(p->gate[0], &c, 1) == 1);
	return NULL;
}

static void start_other(struct place *p)
{
	MUST(!pipe(p->gate));
	MUST(!pthread_create(&p->other, NULL, wait_at_gate, p));
}

static void open_gate(struct place *p)
{
	MUST(write(p->gate[1], "x", 1) == 1);
}

static long block_join(struct place *p)
{
	return pthread_join(p->other, NULL);
}

static long block_timedjoin(struct place *p)
{
	struct timespec t = far_from_now(CLOCK_REALTIME);

	return pthread_timedjoin_np(p->other, NULL, &t);
}

static long block_clockjoin(struct place *p)
{
	struct timespec t = far_from_now(CLOCK_MONOTONIC);

	return pthread_clockjoin_np(p->other, NULL, CLOCK_MONOTONIC, &t);
}

static int wait_at_gate_too(void *arg)
{
	return wait_at_gate(arg) ? 1 : 0;
}

static void start_other_thrd(struct place *p)
{
	MUST(!pipe(p->gate));
	MUST(thrd_create(&p->other_thrd, wait_at_gate_too, p) == thrd_success);
}

static long block_thrd_join(struct place *p)
{
	return thrd_join(p->other_thrd, NULL);
}

static void finish_thrd_join(struct place *p)
{
	open_gate(p);
	MUST(thrd_join(p->other_thrd, NULL) == thrd_success);
}

/* The join was cancelled: do it now. */
static void finish_join(struct place *p)
{
	open_gate(p);
	MUST(!pthread_join(p->other, NULL));
}

static long block_sem_wait(struct place *p)
{
	return sem_wait(&p->sem);
}

static long block_sem_timedwait(struct place *p)
{
	struct timespec t = far_from_now(CLOCK_REALTIME);

	return sem_timedwait(&p->sem, &t);
}

static long block_sem_clockwait(struct place *p)
{
	struct timespec t = far_from_now(CLOCK_MONOTONIC);

	return sem_clockwait(&p->sem, CLOCK_MONOTONIC, &t);
}

static void wake_sem(struct place *p)
{
	sem_post(&p->sem);
}

static long block_futex(struct place *p)
{
	return syscall(SYS_futex, &p->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void wake_futex(struct place *p)
{
	__atomic_store_n(&p->word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &p->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Time: only a signal ends these. What is left is large or it is not, the rest depends on the moment. */

static long block_nanosleep(struct place *p)
{
	struct timespec left = {0};
	int result = nanosleep(&long_time, &left);

	(void)p;
	MUST(result == 0 || left.tv_sec > 100);
	return result;
}

static long block_clock_nanosleep(struct place *p)
{
	struct timespec t = far_from_now(CLOCK_MONOTONIC);

	(void)p;
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static long block_sleep(struct place *p)
{
	(void)p;
	return sleep(1000) > 100;
}

static long block_usleep(struct place *p)
{
	(void)p;
	return usleep(999999999);
}

static long block_thrd_sleep(struct place *p)
{
	(void)p;
	return thrd_sleep(&long_time, NULL);
}

static long block_pause(struct place *p)
{
	(void)p;
	return pause();
}

/* Signals: SIGUSR2 is blocked in the waiting thread. */

static sigset_t waited_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return set;
}

static void wake_sigwait(struct place *p)
{
	MUST(!syscall(SYS_tgkill, getpid(), atomic_load(&p->tid), SIGUSR2));
}

static long block_sigwait(struct place *p)
{
	sigset_t set = waited_signal();
	int signal_number = 0, result = sigwait(&set, &signal_number);

	(void)p;
	return result ? -result : signal_number;
}

static long block_sigwaitinfo(struct place *p)
{
	sigset_t set = waited_signal();

	(void)p;
	return sigwaitinfo(&set, NULL);
}

static long block_sigtimedwait(struct place *p)
{
	sigset_t set = waited_signal();

	(void)p;
	return sigtimedwait(&set, NULL, &long_time);
}

static long block_sigsuspend(struct place *p)
{
	sigset_t set = waited_signal();

	(void)p;
	return sigsuspend(&set);
}

/* Processes. */

static void start_child(struct place *p)
{
	p->child = fork();
	if (p->child == 0) {
		/* pause may return for a signal meant for the parent's group. */
		for (;;)
			pause();
	}
	MUST(p->child > 0);
}

static void end_child(struct place *p)
{
	MUST(!kill(p->child, SIGKILL));
}

static void finish_child(struct place *p)
{
	end_child(p);
	MUST(waitpid(p->child, NULL, 0) == p->child);
}

static long reaped(struct place *p, pid_t pid)
{
	return pid == p->child ? 0 : pid;
}

static long block_waitpid(struct place *p)
{
	return reaped(p, waitpid(p->child, NULL, 0));
}

static long block_wait4(struct place *p)
{
	return reaped(p, wait4(p->child, NULL, 0, NULL));
}

static long block_wait(struct place *p)
{
	return reaped(p, wait(NULL));
}

static long block_wait3(struct place *p)
{
	return reaped(p, wait3(NULL, 0, NULL));
}

static long block_waitid(struct place *p)
{
	siginfo_t info;

	return waitid(P_PID, (id_t)p->child, &info, WEXITED);
}

/* Files and queues. */

static void lock_file(struct place *p)
{
	char name[] = "lock.XXXXXX";

	p->file = mkstemp(name);
	MUST(p->file >= 0);
	p->holder = open(name, O_RDWR);
	MUST(p->holder >= 0 && !unlink(name) && !flock(p->holder, LOCK_EX));
}

static long block_flock(struct place *p)
{
	return flock(p->file, LOCK_EX);
}

static void unlock_file(struct place *p)
{
	MUST(!flock(p->holder, LOCK_UN));
}

static void close_file(struct place *p)
{
	close(p->file);
	close(p->holder);
}

static void open_messages(struct place *p)
{
	p->messages = msgget(IPC_PRIVATE, 0600);
}

static long block_msgrcv(struct place *p)
{
	struct {
		long type;
		char text[8];
	} m;

	return msgrcv(p->messages, &m, sizeof(m.text), 0, 0);
}

static void wake_msgrcv(struct place *p)
{
	struct {
		long type;
		char text[8];
	} m = {1, "x"};

	if (p->messages >= 0)
		MUST(!msgsnd(p->messages, &m, 1, 0));
}

/* Two of these fill a queue of the usual 16 KiB. */
struct long_message {
	long type;
	char text[8192];
};

static void open_full_messages(struct place *p)
{
	struct long_message m = {.type = 1};

	open_messages(p);
	while (p->messages >= 0 && !msgsnd(p->messages, &m, sizeof(m.text), IPC_NOWAIT))
		;
	errno = 0;
}

static long block_msgsnd(struct place *p)
{
	struct long_message m = {.type = 1};

	return msgsnd(p->messages, &m, sizeof(m.text), 0);
}

static void wake_msgsnd(struct place *p)
{
	struct long_message m;

	if (p->messages >= 0)
		MUST(msgrcv(p->messages, &m, sizeof(m.text), 0, 0) == sizeof(m.text));
}

static void close_messages(struct place *p)
{
	if (p->messages >= 0)
		MUST(!msgctl(p->messages, IPC_RMID, NULL));
}

static void open_queue(struct place *p)
{
	struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
	char name[64];

	snprintf(name, sizeof(name), "/lull-test-%d", getpid());
	p->queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
	if (p->queue != (mqd_t)-1)
		MUST(!mq_unlink(name));
}

static long block_mq_receive(struct place *p)
{
	char text[8];

	return mq_receive(p->queue, text, sizeof(text), NULL);
}

static long block_mq_timedreceive(struct place *p)
{
	struct timespec t = far_from_now(CLOCK_REALTIME);
	char text[8];

	return mq_timedreceive(p->queue, text, sizeof(text), NULL, &t);
}

static void wake_mq_receive(struct place *p)
{
	if (p->queue != (mqd_t)-1)
		MUST(!mq_send(p->queue, "x", 1, 0));
}

static void open_full_queue(struct place *p)
{
	open_queue(p);
	wake_mq_receive(p);
}

static long block_mq_send(struct place *p)
{
	return mq_send(p->queue, "y", 1, 0);
}

static long block_mq_timedsend(struct place *p)
{
	struct timespec t = far_from_now(CLOCK_REALTIME);

	return mq_timedsend(p->queue, "y", 1, 0, &t);
}

static void wake_mq_send(struct place *p)
{
	char text[8];

	if (p->queue != (mqd_t)-1)
		MUST(mq_receive(p->queue, text, sizeof(text), NULL) == 1);
}

static void close_queue(struct place *p)
{
	if (p->queue != (mqd_t)-1)
		MUST(!mq_close(p->queue));
}

static const struct call calls[] = {
	{"read", block_read, wake_pipe, true, NULL, NULL},
	{"readv", block_readv, wake_pipe, true, NULL, NULL},
	{"poll", block_poll, wake_pipe, true, NULL, NULL},
	{"poll with a timeout", block_poll_timed, wake_pipe, true, NULL, NULL},
	{"ppoll", block_ppoll, wake_pipe, true, NULL, NULL},
	{"select", block_select, wake_pipe, true, NULL, NULL},
	{"pselect", block_pselect, wake_pipe, true, NULL, NULL},
	{"epoll_wait", block_epoll_wait, wake_pipe, true, NULL, NULL},
	{"epoll_pwait", block_epoll_pwait, wake_pipe, true, NULL, NULL},
	{"epoll_pwait2", block_epoll_pwait2, wake_pipe, true, NULL, NULL},
	{"recv", block_recv, wake_receiver, true, NULL, NULL},
	{"recvfrom", block_recvfrom, wake_receiver, true, NULL, NULL},
	{"recvmsg", block_recvmsg, wake_receiver, true, NULL, NULL},
	{"recvmmsg", block_recvmmsg, wake_receiver, true, NULL, NULL},
	{"send", block_send, wake_sender, true, fill_pair, NULL},
	{"sendto", block_sendto, wake_sender, true, fill_pair, NULL},
	{"sendmsg", block_sendmsg, wake_sender, true, fill_pair, NULL},
	{"sendmmsg", block_sendmmsg, wake_sender, true, fill_pair, NULL},
	{"write", block_write, wake_sender, true, fill_pair, NULL},
	{"accept", block_accept, wake_acceptor, true, NULL, NULL},
	{"accept4", block_accept4, wake_acceptor, true, NULL, NULL},
	{"connect", block_connect, wake_connector, true, fill_listener, close_clients},
	{"pthread_cond_wait", block_cond_wait, wake_cond, true, NULL, finish_cond},
	{"pthread_cond_timedwait", block_cond_timedwait, wake_cond, true, NULL, finish_cond},
	{"pthread_cond_clockwait", block_cond_clockwait, wake_cond, true, NULL, finish_cond},
	{"cnd_wait", block_cnd_wait, wake_cnd, true, NULL, finish_cnd},
	{"cnd_timedwait", block_cnd_timedwait, wake_cnd, true, NULL, finish_cnd},
	{"pthread_barrier_wait", block_barrier_wait, wake_barrier, false, NULL, NULL},
	{"pthread_join", block_join, open_gate, true, start_other, finish_join},
	{"pthread_timedjoin_np", block_timedjoin, open_gate, true, start_other, finish_join},
	{"pthread_clockjoin_np", block_clockjoin, open_gate, true, start_other, finish_join},
	{"thrd_join", block_thrd_join, open_gate, true, start_other_thrd, finish_thrd_join},
	{"sem_wait", block_sem_wait, wake_sem, true, NULL, NULL},
	{"sem_timedwait", block_sem_timedwait, wake_sem, true, NULL, NULL},
	{"sem_clockwait", block_sem_clockwait, wake_sem, true, NULL, NULL},
	{"futex", block_futex, wake_futex, false, NULL, NULL},
	{"nanosleep", block_nanosleep, NULL, true, NULL, NULL},
	{"clock_nanosleep", block_clock_nanosleep, NULL, true, NULL, NULL},
	{"sleep", block_sleep, NULL, true, NULL, NULL},
	{"usleep", block_usleep, NULL, true, NULL, NULL},
	{"thrd_sleep", block_thrd_sleep, NULL, true, NULL, NULL},
	{"pause", block_pause, NULL, true, NULL, NULL},
	{"sigwait", block_sigwait, wake_sigwait, true, NULL, NULL},
	{"sigwaitinfo", block_sigwaitinfo, wake_sigwait, true, NULL, NULL},
	{"sigtimedwait", block_sigtimedwait, wake_sigwait, true, NULL, NULL},
	{"sigsuspend", block_sigsuspend, NULL, true, NULL, NULL},
	{"wait", block_wait, end_child, true, start_child, finish_child},
	{"wait3", block_wait3, end_child, true, start_child, finish_child},
	{"waitpid", block_waitpid, end_child, true, start_child, finish_child},
	{"wait4", block_wait4, end_child, true, start_child, finish_child},
	{"waitid", block_waitid, end_child, true, start_child, finish_child},
	{"flock", block_flock, unlock_file, false, lock_file, close_file},
	{"msgrcv", block_msgrcv, wake_msgrcv, true, open_messages, close_messages},
	{"msgsnd", block_msgsnd, wake_msgsnd, true, open_full_messages, close_messages},
	{"mq_receive", block_mq_receive, wake_mq_receive, true, open_queue, close_queue},
	{"mq_timedreceive", block_mq_timedreceive, wake_mq_receive, true, open_queue, close_queue},
	{"mq_send", block_mq_send, wake_mq_send, true, open_full_queue, close_queue},
	{"mq_timedsend", block_mq_timedsend, wake_mq_send, true, open_full_queue, close_queue},
};

/* `finish` undoes what `prepare` did, whatever became of the call; otherwise it undoes what a call left behind that was cancelled. */
static inline bool finishes_always(const struct call *call)
{
	return call->finish == close_file || call->finish == close_messages || call->finish == close_queue || call->finish == close_clients;
}

static void place_listen(struct place *p)
{
	p->listener = socket(AF_UNIX, SOCK_STREAM, 0);
	p->address.sun_family = AF_UNIX;
	snprintf(p->address.sun_path, sizeof(p->address.sun_path), "socket");
	unlink("socket");
	MUST(p->listener >= 0 && !bind(p->listener, (struct sockaddr *)&p->address, sizeof(p->address)));
	MUST(!listen(p->listener, 5));
}

static void place_open(struct place *p, const struct call *call)
{
	struct epoll_event e = {.events = EPOLLIN};

	memset(p, 0, sizeof(*p));
	p->call = call;
	MUST(!pipe(p->pipe) && !socketpair(AF_UNIX, SOCK_STREAM, 0, p->pair));
	p->epoll = epoll_create1(0);
	MUST(p->epoll >= 0 && !epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->pipe[0], &e));
	place_listen(p);
	MUST(!pthread_mutex_init(&p->mutex, NULL) && !pthread_cond_init(&p->cond, NULL) && !sem_init(&p->sem, 0, 0));
	MUST(!pthread_barrier_init(&p->barrier, NULL, 2));
	MUST(mtx_init(&p->mtx, mtx_plain) == thrd_success && cnd_init(&p->cnd) == thrd_success);
	if (call->prepare)
		call->prepare(p);
}

static void place_close(struct place *p)
{
	int fds[] = {p->pipe[0], p->pipe[1], p->epoll, p->pair[0], p->pair[1], p->listener};

	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		close(fds[i]);
	if (p->gate[1]) {
		close(p->gate[0]);
		close(p->gate[1]);
	}
	sem_destroy(&p->sem);
	pthread_cond_destroy(&p->cond);
	pthread_mutex_destroy(&p->mutex);
	pthread_barrier_destroy(&p->barrier);
	cnd_destroy(&p->cnd);
	mtx_destroy(&p->mtx);
}

/* The kernel says the thread sleeps; it said that it is about to. */
static bool place_sleeps(struct place *p)
{
	char path[64], text[256];
	int fd, tid = atomic_load(&p->tid);
	ssize_t size;
	char *state;

	if (!tid)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return false;
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (size <= 0)
		return false;
	text[size] = 0;
	state = strrchr(text, ')');
	return state && state[2] == 'S';
}

static void place_wait_asleep(struct place *p)
{
	while (!place_sleeps(p) && !atomic_load(&p->done))
		usleep(200);
}

/* Something worth giving back: a few MiB of each kind, every block freed but some. Returns an OS page that under lull only freed blocks
 * were in: one block fills it, and the kept one before it keeps its neighbours in use. */
static char *place_use_memory(struct block **kept, unsigned count)
{
	enum { LARGE = 8, SMALL = 1000, PAGES = 64, OS_PAGE = 4096 };
	struct block *large[LARGE], *small[SMALL], *pages[PAGES];
	char *hole;

	for (unsigned i = 0; i < LARGE; i++)
		large[i] = block_new(300000, i);
	for (unsigned i = 0; i < SMALL; i++)
		small[i] = block_new(500, i);
	for (unsigned i = 0; i < PAGES / 2; i++)
		pages[i] = block_new(OS_PAGE, i);
	for (unsigned i = 0; i < count; i++)
		kept[i] = block_new(i % 4 == 1 ? 20000 : i % 4 == 3 ? OS_PAGE : 200, i);
	for (unsigned i = PAGES / 2; i < PAGES; i++)
		pages[i] = block_new(OS_PAGE, i);
	hole = (char *)pages[PAGES / 2];
	for (unsigned i = 0; i < LARGE; i++)
		block_drop(large[i]);
	for (unsigned i = 0; i < SMALL; i++)
		block_drop(small[i]);
	for (unsigned i = 0; i < PAGES; i++)
		block_drop(pages[i]);
	return hole;
}

/* How often a thread's heap was swept while it blocked, and how often it was not. */
static unsigned places_swept, places_not_swept;

static bool hole_is_away(char *hole)
{
	unsigned char seen = 1;

	return (uintptr_t)hole % 4096 == 0 && mincore(hole, 4096, &seen) == 0 && !(seen & 1);
}

/* Everything free in the process goes, also what is in the heaps of threads that block. Nothing happens without lull. */
static void place_sweep(struct place *p)
{
	size_t (*collect)(bool);

	*(void **)&collect = dlsym(RTLD_DEFAULT, "lull_collect");
	if (!collect || atomic_load(&p->done))
		return;
	collect(true);
	if (hole_is_away(p->hole))
		places_swept++;
	else
		places_not_swept++;
}

/* `write` is not watched, a call may return before it is looked at, and what an earlier frame left on a stack may look like an interrupted
 * malloc: few are not swept, most are. */
static void places_must_be_swept(void)
{
	if (places_swept + places_not_swept > 0 && places_swept < 9 * places_not_swept)
		DIE("%u heaps were swept while their threads blocked, %u were not", places_swept, places_not_swept);
}

#endif
