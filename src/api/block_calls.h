/* SPDX-License-Identifier: MIT */
/*
 * The calls that may block, one line each: CALL(type, name, can this call wait, parameters, arguments). block.c includes this table more
 * than once, with CALL defined as what it needs of it, so there is no include guard. A new line here also needs its name in exports.map.
 *
 * A call that is told not to wait is passed through. libc itself reads the timeouts of select, pselect and ppoll, so reading them here
 * changes nothing for a bad pointer; all other pointers are the kernel's to judge.
 */

/* --- many descriptors -------------------------------------------------------------------------------------------------------------- */
CALL(int, epoll_wait, timeout != 0, (int fd, struct epoll_event *events, int max, int timeout), (fd, events, max, timeout))
CALL(int, epoll_pwait, timeout != 0, (int fd, struct epoll_event *events, int max, int timeout, const sigset_t *mask),
	(fd, events, max, timeout, mask))
CALL(int, epoll_pwait2, true, (int fd, struct epoll_event *events, int max, const struct timespec *timeout, const sigset_t *mask),
	(fd, events, max, timeout, mask))
CALL(int, poll, timeout != 0, (struct pollfd *fds, nfds_t n, int timeout), (fds, n, timeout))
CALL(int, __poll_chk, timeout != 0, (struct pollfd *fds, nfds_t n, int timeout, size_t len), (fds, n, timeout, len))
CALL(int, ppoll, waits_timespec(timeout), (struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask),
	(fds, n, timeout, mask))
CALL(int, __ppoll_chk, waits_timespec(timeout),
	(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t len), (fds, n, timeout, mask, len))
CALL(int, select, waits_timeval(timeout), (int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout),
	(n, in, out, except, timeout))
CALL(int, pselect, waits_timespec(timeout),
	(int n, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout, const sigset_t *mask),
	(n, in, out, except, timeout, mask))

/* --- one descriptor ---------------------------------------------------------------------------------------------------------------- */
CALL(ssize_t, read, true, (int fd, void *buf, size_t n), (fd, buf, n))
CALL(ssize_t, __read_chk, true, (int fd, void *buf, size_t n, size_t len), (fd, buf, n, len))
CALL(ssize_t, readv, true, (int fd, const struct iovec *vec, int n), (fd, vec, n))
CALL(ssize_t, recv, !(flags & MSG_DONTWAIT), (int fd, void *buf, size_t n, int flags), (fd, buf, n, flags))
CALL(ssize_t, __recv_chk, !(flags & MSG_DONTWAIT), (int fd, void *buf, size_t n, size_t len, int flags), (fd, buf, n, len, flags))
CALL(ssize_t, recvfrom, !(flags & MSG_DONTWAIT), (int fd, void *buf, size_t n, int flags, __SOCKADDR_ARG from, socklen_t *from_len),
	(fd, buf, n, flags, from, from_len))
CALL(ssize_t, __recvfrom_chk, !(flags & MSG_DONTWAIT),
	(int fd, void *buf, size_t n, size_t len, int flags, __SOCKADDR_ARG from, socklen_t *from_len),
	(fd, buf, n, len, flags, from, from_len))
CALL(ssize_t, recvmsg, !(flags & MSG_DONTWAIT), (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
CALL(int, recvmmsg, !(flags & MSG_DONTWAIT), (int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout),
	(fd, msgs, n, flags, timeout))
CALL(ssize_t, send, !(flags & MSG_DONTWAIT), (int fd, const void *buf, size_t n, int flags), (fd, buf, n, flags))
CALL(ssize_t, sendto, !(flags & MSG_DONTWAIT), (int fd, const void *buf, size_t n, int flags, __CONST_SOCKADDR_ARG to, socklen_t to_len),
	(fd, buf, n, flags, to, to_len))
CALL(ssize_t, sendmsg, !(flags & MSG_DONTWAIT), (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
CALL(int, sendmmsg, !(flags & MSG_DONTWAIT), (int fd, struct mmsghdr *msgs, unsigned n, int flags), (fd, msgs, n, flags))
CALL(int, accept, true, (int fd, __SOCKADDR_ARG addr, socklen_t *len), (fd, addr, len))
CALL(int, accept4, true, (int fd, __SOCKADDR_ARG addr, socklen_t *len, int flags), (fd, addr, len, flags))
CALL(int, connect, true, (int fd, __CONST_SOCKADDR_ARG addr, socklen_t len), (fd, addr, len))
CALL(int, flock, !(operation & LOCK_NB), (int fd, int operation), (fd, operation))

/* --- threads ----------------------------------------------------------------------------------------------------------------------- */
CALL(int, pthread_cond_wait, true, (pthread_cond_t *cond, pthread_mutex_t *mutex), (cond, mutex))
CALL(int, pthread_cond_timedwait, true, (pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until), (cond, mutex, until))
CALL(int, pthread_cond_clockwait, true, (pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until),
	(cond, mutex, clock, until))
CALL(int, pthread_join, true, (pthread_t thread, void **ret), (thread, ret))
CALL(int, pthread_timedjoin_np, true, (pthread_t thread, void **ret, const struct timespec *until), (thread, ret, until))
CALL(int, pthread_clockjoin_np, true, (pthread_t thread, void **ret, clockid_t clock, const struct timespec *until),
	(thread, ret, clock, until))
CALL(int, pthread_barrier_wait, true, (pthread_barrier_t *barrier), (barrier))
CALL(int, sem_wait, true, (sem_t *sem), (sem))
CALL(int, sem_timedwait, true, (sem_t *sem, const struct timespec *until), (sem, until))
CALL(int, sem_clockwait, true, (sem_t *sem, clockid_t clock, const struct timespec *until), (sem, clock, until))
CALL(int, cnd_wait, true, (cnd_t *cond, mtx_t *mutex), (cond, mutex))
CALL(int, cnd_timedwait, true, (cnd_t *cond, mtx_t *mutex, const struct timespec *until), (cond, mutex, until))
CALL(int, thrd_join, true, (thrd_t thread, int *ret), (thread, ret))

/* --- time and signals -------------------------------------------------------------------------------------------------------------- */
CALL(int, nanosleep, true, (const struct timespec *time, struct timespec *left), (time, left))
CALL(int, clock_nanosleep, true, (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
	(clock, flags, time, left))
CALL(int, thrd_sleep, true, (const struct timespec *time, struct timespec *left), (time, left))
CALL(unsigned, sleep, seconds != 0, (unsigned seconds), (seconds))
CALL(int, usleep, us != 0, (useconds_t us), (us))
CALL(int, pause, true, (void), ())
CALL(int, sigsuspend, true, (const sigset_t *mask), (mask))
CALL(int, sigwait, true, (const sigset_t *set, int *ret), (set, ret))
CALL(int, sigwaitinfo, true, (const sigset_t *set, siginfo_t *info), (set, info))
CALL(int, sigtimedwait, true, (const sigset_t *set, siginfo_t *info, const struct timespec *timeout), (set, info, timeout))

/* --- children, queues -------------------------------------------------------------------------------------------------------------- */
CALL(pid_t, wait, true, (int *status), (status))
CALL(pid_t, waitpid, !(options & WNOHANG), (pid_t pid, int *status, int options), (pid, status, options))
CALL(pid_t, wait3, !(options & WNOHANG), (int *status, int options, struct rusage *usage), (status, options, usage))
CALL(pid_t, wait4, !(options & WNOHANG), (pid_t pid, int *status, int options, struct rusage *usage), (pid, status, options, usage))
CALL(int, waitid, !(options & WNOHANG), (idtype_t type, id_t id, siginfo_t *info, int options), (type, id, info, options))
CALL(int, mq_send, true, (mqd_t queue, const char *msg, size_t len, unsigned priority), (queue, msg, len, priority))
CALL(int, mq_timedsend, true, (mqd_t queue, const char *msg, size_t len, unsigned priority, const struct timespec *until),
	(queue, msg, len, priority, until))
CALL(ssize_t, mq_receive, true, (mqd_t queue, char *msg, size_t len, unsigned *priority), (queue, msg, len, priority))
CALL(ssize_t, mq_timedreceive, true, (mqd_t queue, char *msg, size_t len, unsigned *priority, const struct timespec *until),
	(queue, msg, len, priority, until))
CALL(int, msgsnd, !(flags & IPC_NOWAIT), (int queue, const void *msg, size_t len, int flags), (queue, msg, len, flags))
CALL(ssize_t, msgrcv, !(flags & IPC_NOWAIT), (int queue, void *msg, size_t len, long type, int flags), (queue, msg, len, type, flags))
