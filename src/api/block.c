/* SPDX-License-Identifier: MIT */
/*
 * The calls that may block. Each does what libc's function of that name does, by calling it; around it the thread is parked when it has
 * freed enough since its heap was last swept. The usual cost is a few loads and branches, and the real function is entered by a jump.
 *
 * Results, errno, EINTR and signal masks are the real function's: parking touches none of them. A thread that leaves the call another way
 * (cancellation, an exception or longjmp out of a signal handler) stays parked until it next needs its heap, which ends the park by itself;
 * so does malloc in a signal handler. A handler that interrupted malloc does not park, nor does the child of a vfork, which uses its
 * parent's heap.
 *
 * Any thread, also before this library's constructor ran.
 */

/* The headers' fortified forms would define the very functions that are defined here. */
#undef _FORTIFY_SOURCE

#include "api/block.h"

#include "api/filter.h"
#include "api/init.h"
#include "api/inside.h"
#include "heap/heap.h"
#include "kernel/report.h"
#include "reclaim/reclaim.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static _Atomic bool auto_idle = true; /* relaxed: a switch */

void block_set_auto_idle(bool on)
{
	atomic_store_explicit(&auto_idle, on, memory_order_relaxed);
}

#if LULL_OVERRIDE

/* --- the real functions ---------------------------------------------------------------------------------------------------------- */

enum call {
#define CALL(type, call, waits, params, args) CALL_##call,
#include "api/block_calls.h"
#undef CALL
	CALL_syscall,
	CALL_unshare,
	CALL_setns,
	CALL_prctl,
	CALLS
};

/* Until it is found, the real function is one that finds it first. */
#define CALL(type, call, waits, params, args) static type first_##call params;
#include "api/block_calls.h"
#undef CALL
static long first_syscall(long nr, long a, long b, long c, long d, long e, long f);
static int first_unshare(int flags);
static int first_setns(int fd, int kind);
static int first_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);

static struct {
	const char *name;
	void *_Atomic real; /* relaxed: every look-up finds the same */
} calls[CALLS] = {
#define CALL(type, call, waits, params, args) [CALL_##call] = {.name = #call, .real = first_##call},
#include "api/block_calls.h"
#undef CALL
	[CALL_syscall] = {.name = "syscall", .real = first_syscall},
	[CALL_unshare] = {.name = "unshare", .real = first_unshare},
	[CALL_setns] = {.name = "setns", .real = first_setns},
	[CALL_prctl] = {.name = "prctl", .real = first_prctl},
};

/* glibc has two of these for x86-64, and before 2.36 dlsym finds the older, with another layout of the condition (its bug 14932). */
#if defined(__x86_64__)
#define COND_VERSION "GLIBC_2.3.2"
#else
#define COND_VERSION "GLIBC_2.17"
#endif

static void *find_versioned(const char *name)
{
	if (strcmp(name, "pthread_cond_wait") == 0 || strcmp(name, "pthread_cond_timedwait") == 0)
		return dlvsym(RTLD_NEXT, name, COND_VERSION);
	return NULL;
}

/* A function newer than this libc, which no program that runs on it can count on. */
static long not_there(void)
{
	errno = ENOSYS;
	return -1;
}

/* In a program that is linked fully static there is nothing behind us to be found. */
static bool is_fully_static(void)
{
	return dlsym(RTLD_NEXT, "read") == NULL;
}

/* Going on would be an endless row of failures. */
static void *find_failed(const char *name)
{
	if (!is_fully_static())
		return (void *)not_there;
	report_warning((const char *const[]){name, ": libc's own is not to be found: a fully static program needs liblull-prefixed.a"}, 2);
	abort();
}

static noinline void *find(enum call call)
{
	void *real = find_versioned(calls[call].name);

	if (real == NULL)
		real = dlsym(RTLD_NEXT, calls[call].name);
	if (real == NULL)
		real = find_failed(calls[call].name);
	atomic_store_explicit(&calls[call].real, real, memory_order_relaxed);
	return real;
}

static inline void *real_of(enum call call)
{
	return atomic_load_explicit(&calls[call].real, memory_order_relaxed);
}

void block_find_all(void)
{
	if (is_fully_static())
		return; /* some programs call none of them */
	for (unsigned call = 0; call < CALLS; call++)
		find((enum call)call);
}

/* --- the interposed functions ---------------------------------------------------------------------------------------------------- */

static inline bool wants_park(void)
{
	bool any = heap_changed_n() >= RECLAIM_PARK_PAGES || heap_pages_n() >= RECLAIM_PARK_OWNED ||
		   atomic_load_explicit(&bell_unanswered, memory_order_relaxed);
	return unlikely(any) && atomic_load_explicit(&auto_idle, memory_order_relaxed);
}

static noinline void park(void)
{
	if (!inside_slow_path())
		reclaim_idle_enter_slow();
}

static inline bool waits_timeval(const struct timeval *timeout)
{
	return timeout == NULL || timeout->tv_sec != 0 || timeout->tv_usec != 0;
}

static inline bool waits_timespec(const struct timespec *timeout)
{
	return timeout == NULL || timeout->tv_sec != 0 || timeout->tv_nsec != 0;
}

/* Three functions a line, so that the usual way through the exported one needs no frame. */
#define CALL(type, call, waits, params, args)          \
	static type first_##call params                    \
	{                                                  \
		type(*real) params = find(CALL_##call);        \
		return real args;                              \
	}                                                  \
	static noinline type parked_##call params          \
	{                                                  \
		type(*real) params = real_of(CALL_##call);     \
		park();                                        \
		type answer = real args;                       \
		reclaim_idle_leave_slow();                     \
		return answer;                                 \
	}                                                  \
	type call params;                                  \
	exported type call params                          \
	{                                                  \
		type(*real) params = real_of(CALL_##call);     \
		if (unlikely(wants_park() && (waits)))         \
			return parked_##call args;                 \
		return real args;                              \
	}
#include "api/block_calls.h"
#undef CALL

/* --- a process that must have one thread ------------------------------------------------------------------------------------------ */

/* unshare(2): the flags refused to a process with threads. */
#define UNSHARE_ALONE (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)
/* setns(2): the kinds refused to a process with threads, by flag; 0 is any kind. Those that share a file system view count too. */
#define SETNS_ALONE (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWTIME)

static void be_alone_for_unshare(int flags)
{
	if (flags & UNSHARE_ALONE)
		reclaim_scavenger_stop();
}

static void be_alone_for_setns(int kind)
{
	if (kind == 0 || kind & SETNS_ALONE)
		reclaim_scavenger_stop();
}

static int first_unshare(int flags)
{
	int (*real)(int) = find(CALL_unshare);

	return real(flags);
}

exported int unshare(int flags)
{
	int (*real)(int) = real_of(CALL_unshare);

	be_alone_for_unshare(flags);
	return real(flags);
}

static int first_setns(int fd, int kind)
{
	int (*real)(int, int) = find(CALL_setns);

	return real(fd, kind);
}

exported int setns(int fd, int kind)
{
	int (*real)(int, int) = real_of(CALL_setns);

	be_alone_for_setns(kind);
	return real(fd, kind);
}

/* --- a filter for system calls ------------------------------------------------------------------------------------------------------ */

static int first_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	int (*real)(int, ...) = (int (*)(int, ...))find(CALL_prctl);

	return real(option, a, b, c, d);
}

/* All four are read and passed on whether the caller gave them or not, as libc's own does. */
exported int prctl(int option, ...)
{
	int (*real)(int, ...) = (int (*)(int, ...))real_of(CALL_prctl);
	unsigned long arg[4];
	va_list args;

	va_start(args, option);
	for (unsigned i = 0; i < array_len(arg); i++)
		arg[i] = va_arg(args, unsigned long);
	va_end(args);
	filter_before_prctl(option, arg[0], arg[1]);
	return real(option, arg[0], arg[1], arg[2], arg[3]);
}

/* --- syscall() --------------------------------------------------------------------------------------------------------------------- */

/* Rust's and other runtimes' mutexes and parked threads wait this way. */
static bool is_futex_wait(long op)
{
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_WAIT_REQUEUE_PI:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		return true;
	default:
		return false;
	}
}

static long first_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	long (*real)(long, ...) = find(CALL_syscall);

	return real(nr, a, b, c, d, e, f);
}

/* Six arguments are the most that the kernel takes. All are read and passed on whether the caller gave them or not, as libc's own does. */
exported long syscall(long nr, ...)
{
	long (*real)(long, ...) = real_of(CALL_syscall);
	long arg[6], answer;
	va_list args;

	va_start(args, nr);
	for (unsigned i = 0; i < array_len(arg); i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	if (nr == SYS_unshare)
		be_alone_for_unshare((int)arg[0]);
	else if (nr == SYS_setns)
		be_alone_for_setns((int)arg[1]);
	else if (nr == SYS_prctl)
		filter_before_prctl((int)arg[0], (unsigned long)arg[1], (unsigned long)arg[2]);
	else if (nr == SYS_seccomp)
		filter_before_seccomp((unsigned long)arg[0], (unsigned long)arg[1], (unsigned long)arg[2]);
	bool waits = nr == SYS_futex && wants_park() && is_futex_wait(arg[1]);
	if (waits)
		park();
	answer = real(nr, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	if (waits)
		reclaim_idle_leave_slow();
	return answer;
}

#else

void block_find_all(void)
{
}

#endif
