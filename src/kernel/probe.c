/* SPDX-License-Identifier: MIT */
/*
 * A probe runs in a child made by clone(CLONE_VM | CLONE_VFORK): it shares our memory and our thread stands still until it is gone, so it
 * costs no copy and answers through a word of ours; files and rights are its own. It runs with every signal blocked (no handler of the
 * program runs in it; a filter that traps kills it instead), makes raw calls only, and has exit signal 0, so that neither a SIGCHLD
 * handler nor a wait() of the program ever sees it.
 */
#include "kernel/probe.h"

#include "kernel/kernel.h"
#include "kernel/sys.h"
#include "kernel/trial.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>

/* The child's stack, behind the memory it tries on. It needs a few hundred bytes, no signal handler runs there; the rest is room for
 * sanitizers, and untouched costs nothing. */
#define STACK_BYTES (16 * OS_PAGE_SIZE)

#ifdef __SANITIZE_THREAD__
#define HAS_CHILD false
#else
#define HAS_CHILD true
#endif

enum cap_state probe_state_of(int answer)
{
	switch (answer) {
	case -ENOSYS:
	case -EINVAL:
	case -EBADF: /* pidfd of oneself: no such name, and no descriptor either */
	case -EOPNOTSUPP:
	case -ENOTTY: /* an ioctl this file does not know */
	case -ENOENT: /* no such file: a feature left out, or /proc and /dev as a container has them */
	case -ENXIO:
	case -ENODEV:
		return CAP_STATE_ABSENT;
	case -EPERM:
	case -EACCES:
	case CAPS_KILLED:
		return CAP_STATE_NOT_PERMITTED;
	default:
		return CAP_STATE_BROKEN;
	}
}

/* No room just now for a process, a ring's worker (-ECANCELED), memory, a file or its bytes: may be otherwise later. */
static bool is_for_now(long answer)
{
	static const int errs[] = {-EAGAIN, -ENOMEM, -ECANCELED, -EMFILE, -ENFILE, -EFBIG};

	for (size_t i = 0; i < array_len(errs); i++)
		if (answer == errs[i])
			return true;
	return false;
}

static struct probe_result result(enum cap_state state, long reason)
{
	return (struct probe_result){.state = state, .reason = (int)reason};
}

#ifdef __SANITIZE_THREAD__
/* ThreadSanitizer takes any child for one of fork, with memory of its own, and loses track of this process: no child there. */
static int clone_and_wait(struct trial *trial)
{
	trial_run(trial);
	return 0;
}
#else
/* A filter's kill dumps core, of all our memory. A limit of 1 stops that for core files and, as its special case (core(5)), for
 * core handlers behind a pipe. The limit is the child's own. */
static void forbid_core(void)
{
	struct rlimit limit = {.rlim_cur = 1, .rlim_max = 1};

	sys_setrlimit(RLIMIT_CORE, &limit);
}

static int child_main(void *arg)
{
	forbid_core();
	trial_run((struct trial *)arg);
	return 0;
}

/* 0 when the child came and went; else why there was none. */
static int clone_and_wait(struct trial *trial)
{
	char *stack = trial->page + trial_bytes(trial->cap) + STACK_BYTES;
	int saved = errno;
	int pid = clone(child_main, stack, CLONE_VM | CLONE_VFORK, trial);
	int err = pid < 0 ? -errno : 0;

	errno = saved;
	if (pid > 0)
		while (sys_wait4(pid, NULL, __WALL) == -EINTR)
			;
	return err;
}
#endif

static int run_in_child(struct trial *trial)
{
	uint64_t all = ~UINT64_C(0), old;
	int err;

	if (sys_sigprocmask(SIG_SETMASK, &all, &old) != 0)
		return -EPERM;
	err = clone_and_wait(trial);
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

/* Before 5.16 a process that dies with a core dump takes along every other that shares its memory, so the child would be no
 * protection there. Little is lost: no such kernel has what is faster than the plain calls. */
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

/* What is taken for granted where nothing can be asked. */
static bool is_plain(enum cap cap)
{
	return cap == CAPS_MEMFD || cap == CAPS_THREAD || cap == CAPS_THREAD_NAME || cap == CAPS_PROC;
}

static struct probe_result judge(const struct trial *trial)
{
	if (!trial->ended)
		return result(probe_state_of(CAPS_KILLED), CAPS_KILLED);
	if (trial->effect)
		return result(CAP_STATE_LIVE, 0);
	if (is_for_now(trial->answer))
		return result(CAP_STATE_UNKNOWN, trial->answer);
	if (trial->answer < 0)
		return result(probe_state_of((int)trial->answer), trial->answer);
	return result(CAP_STATE_BROKEN, 0);
}

static struct probe_result run(struct trial *trial)
{
	int err = 0;

	trial->page[0] = 1;
	if (trial->cap == CAPS_DONTNEED) /* a call lull makes in any case */
		trial_run(trial);
	else
		err = run_in_child(trial);
	if (is_for_now(err))
		return result(CAP_STATE_UNKNOWN, err);
	return err != 0 ? result(CAP_STATE_NOT_PERMITTED, err) : judge(trial);
}

struct probe_result probe(enum cap cap, bool by_device, bool sees_resident)
{
	struct trial trial = {.cap = cap, .by_device = by_device, .sees_resident = sees_resident};
	size_t bytes = trial_bytes(cap) + STACK_BYTES;
	struct probe_result ret;
	intptr_t page;

	if (cap != CAPS_DONTNEED && !kernel_can_be_probed())
		return is_plain(cap) ? result(CAP_STATE_LIVE, 0) : result(CAP_STATE_ABSENT, -ENOSYS);
	if (cap == CAPS_THREAD && !HAS_CHILD) /* one unknown to the sanitizer would upset it */
		return result(CAP_STATE_LIVE, 0);
	page = kernel.mmap(NULL, bytes, PROT_READ | PROT_WRITE, 0);
	if (page < 0)
		return result(CAP_STATE_UNKNOWN, page);
	trial.page = (char *)page;
	ret = run(&trial);
	for (size_t i = 0; i < TRIAL_MAPPED; i++)
		if (trial.mapped[i] != NULL)
			sys_munmap(trial.mapped[i], OS_PAGE_SIZE);
	kernel.munmap(trial.page, bytes);
	return ret;
}
