/* SPDX-License-Identifier: MIT */
/*
 * The probes. A probe runs in a child made by clone(CLONE_VM | CLONE_VFORK): it shares our memory and our thread stands still until it
 * is gone, so it costs no copy and answers through a word of ours. It runs with every signal blocked (no handler of the program
 * runs in it; a filter that traps kills it instead), makes raw calls only, and has exit signal 0, so that neither a SIGCHLD handler
 * nor a wait() of the program ever sees it.
 */
#include "kernel/caps.h"

#include "kernel/kernel.h"
#include "kernel/sys.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>

/* One mapping for a probe: an OS page to try on, and behind it the child's stack. The child needs a few hundred bytes, no signal handler
 * runs there; the rest is room for sanitizers, and untouched costs nothing. */
#define PROBE_BYTES (16 * OS_PAGE_SIZE)

/* What the answer reads while the child has not given one: it was killed. */
#define NO_ANSWER 1

static _Atomic int states[CAPS_COUNT];

static const char *const names[CAPS_COUNT] = {
	[CAPS_PROCESS_MADVISE] = "process_madvise",
	[CAPS_MINCORE] = "mincore",
	[CAPS_SYSINFO] = "sysinfo",
};

static const char *const state_names[] = {
	[CAP_STATE_UNKNOWN] = "not asked",
	[CAP_STATE_LIVE] = "live",
	[CAP_STATE_ABSENT] = "absent",
	[CAP_STATE_NOT_PERMITTED] = "not permitted",
	[CAP_STATE_BROKEN] = "broken",
	[CAP_STATE_OFF] = "off",
};

enum cap_state caps_state(enum cap cap)
{
	return (enum cap_state)atomic_load_explicit(&states[cap], memory_order_relaxed);
}

void caps_force_off(enum cap cap)
{
	atomic_store_explicit(&states[cap], CAP_STATE_OFF, memory_order_relaxed);
}

/* OFF may come from another thread at any moment and stays. */
static void caps_set(enum cap cap, enum cap_state state)
{
	int seen = atomic_load_explicit(&states[cap], memory_order_relaxed);

	while (seen != CAP_STATE_OFF)
		if (atomic_compare_exchange_weak_explicit(&states[cap], &seen, state, memory_order_relaxed, memory_order_relaxed))
			return;
}

static enum cap_state state_of_refusal(int err)
{
	switch (err) {
	case -ENOSYS:
	case -EINVAL:
	case -EBADF: /* pidfd of oneself: no such name, and no descriptor either */
	case -EOPNOTSUPP:
		return CAP_STATE_ABSENT;
	case -EPERM:
	case -EACCES:
	case NO_ANSWER:
		return CAP_STATE_NOT_PERMITTED;
	default:
		return CAP_STATE_BROKEN;
	}
}

void caps_refused(enum cap cap, int err)
{
	caps_set(cap, state_of_refusal(err));
}

const char *caps_name(enum cap cap)
{
	return names[cap];
}

const char *caps_state_name(enum cap_state state)
{
	return state_names[state];
}

bool caps_find(const char *name, size_t len, enum cap *ret)
{
	for (int cap = 0; cap < CAPS_COUNT; cap++) {
		if (strlen(names[cap]) == len && memcmp(names[cap], name, len) == 0) {
			*ret = (enum cap)cap;
			return true;
		}
	}
	return false;
}

struct probe {
	char *page;              /* PROBE_BYTES, of which the first OS page is tried on; its first byte is 1 */
	enum cap cap;
	volatile ssize_t answer; /* the child's: what the call returned */
	volatile bool effect;    /* it did what it should */
};

static void probe_try(struct probe *probe)
{
	struct iovec vec = {.iov_base = probe->page, .iov_len = OS_PAGE_SIZE};
	struct sysinfo info = {0};
	unsigned char resident = 0;

	switch (probe->cap) {
	case CAPS_PROCESS_MADVISE:
		probe->answer = kernel.process_madvise(&vec, 1, MADV_DONTNEED);
		probe->effect = probe->answer == (ssize_t)OS_PAGE_SIZE && *(volatile char *)probe->page == 0;
		break;
	case CAPS_MINCORE:
		probe->answer = kernel.mincore(probe->page, OS_PAGE_SIZE, &resident);
		probe->effect = resident & 1;
		break;
	case CAPS_SYSINFO:
		probe->answer = sys_sysinfo(&info);
		probe->effect = info.totalram > 0;
		break;
	case CAPS_COUNT:
		break;
	}
}

#ifdef __SANITIZE_THREAD__
/* ThreadSanitizer takes any child for one of fork, with memory of its own, and loses track of this process: no child there. */
static int probe_clone(struct probe *probe)
{
	probe_try(probe);
	return 0;
}
#else
/* A filter's kill dumps core, of all our memory. A limit of 1 stops that for core files and, as its special case (core(5)), for
 * core handlers behind a pipe. The limit is the child's own. */
static void probe_without_core(void)
{
	struct rlimit limit = {.rlim_cur = 1, .rlim_max = 1};

	sys_setrlimit(RLIMIT_CORE, &limit);
}

static int probe_child(void *arg)
{
	probe_without_core();
	probe_try(arg);
	return 0;
}

/* 0 when the child came and went; else why there was none. */
static int probe_clone(struct probe *probe)
{
	int saved = errno;
	int pid = clone(probe_child, probe->page + PROBE_BYTES, CLONE_VM | CLONE_VFORK, probe);
	int err = pid < 0 ? -errno : 0;

	errno = saved;
	if (pid > 0)
		while (sys_wait4(pid, NULL, __WALL) == -EINTR)
			;
	return err;
}
#endif

static int probe_in_child(struct probe *probe)
{
	uint64_t all = ~UINT64_C(0), old;
	int err;

	probe->answer = NO_ANSWER;
	if (sys_sigprocmask(SIG_SETMASK, &all, &old) != 0)
		return -EPERM;
	err = probe_clone(probe);
	sys_sigprocmask(SIG_SETMASK, &old, NULL);
	return err;
}

static unsigned number_at(const char **text)
{
	unsigned n = 0;

	while (**text >= '0' && **text <= '9' && n < 10000)
		n = n * 10 + (unsigned)(*(*text)++ - '0');
	return n;
}

/* Before 5.16 a process that dies with a core dump takes along every other that shares its memory, so the probe would be no
 * protection there. Nothing is lost: no such kernel has what we probe for. */
static bool kernel_can_be_probed(void)
{
	struct utsname name;
	const char *text = name.release;
	unsigned major, minor;

	if (sys_uname(&name) != 0)
		return false;
	major = number_at(&text);
	if (*text == '.')
		text++;
	minor = number_at(&text);
	return major > 5 || (major == 5 && minor >= 16);
}

static enum cap_state probe_page(struct probe *probe)
{
	int err;

	probe->page[0] = 1;
	err = probe_in_child(probe);
	if (err == -EAGAIN || err == -ENOMEM)
		return CAP_STATE_UNKNOWN; /* no room for one more process just now */
	if (err != 0)
		return CAP_STATE_NOT_PERMITTED;
	if (probe->effect)
		return CAP_STATE_LIVE;
	return probe->answer == NO_ANSWER || probe->answer < 0 ? state_of_refusal((int)probe->answer) : CAP_STATE_BROKEN;
}

/* Under mlockall(MCL_FUTURE) the page is locked and the answer reads as absent. So is all other memory then: nothing is lost. */
static enum cap_state probe_cap(enum cap cap)
{
	struct probe probe = {.cap = cap};
	enum cap_state state;
	intptr_t page;

	if (!kernel_can_be_probed())
		return CAP_STATE_ABSENT;
	page = kernel.mmap(NULL, PROBE_BYTES, PROT_READ | PROT_WRITE, 0);
	if (page < 0)
		return CAP_STATE_UNKNOWN;
	probe.page = (char *)page;
	state = probe_page(&probe);
	kernel.munmap(probe.page, PROBE_BYTES);
	return state;
}

bool caps_has(enum cap cap)
{
	enum cap_state state = caps_state(cap);

	if (state == CAP_STATE_UNKNOWN) {
		caps_set(cap, probe_cap(cap));
		state = caps_state(cap);
	}
	return state == CAP_STATE_LIVE;
}
