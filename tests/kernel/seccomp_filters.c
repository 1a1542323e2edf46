/* SPDX-License-Identifier: MIT */
/*
 * Under system call filters that refuse, trap or kill, memory still goes back and the process lives: the probe's child takes the
 * blow. Each filter in a process of its own, which returns memory by a batch and looks at it, at its children and for core files. Then the
 * same for all unusual calls at once, in a process that goes on to use the allocator.
 */
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/sys.h"
#include "support/fact.h"

#include <lull/idle.h>
#include <lull/malloc.h>
#include <lull/stats.h>

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN (64 * KIB)
#define RANGES 8

#ifndef SECCOMP_RET_KILL_PROCESS
#define SECCOMP_RET_KILL_PROCESS 0x80000000u
#endif

static const struct {
	const char *name;
	long call;
	unsigned action;
	enum cap_state expected;
} filters[] = {
	{"process_madvise refused (EPERM)", SYS_process_madvise, SECCOMP_RET_ERRNO | EPERM, CAP_STATE_NOT_PERMITTED},
	{"process_madvise refused (ENOSYS)", SYS_process_madvise, SECCOMP_RET_ERRNO | ENOSYS, CAP_STATE_ABSENT},
	{"process_madvise kills the process", SYS_process_madvise, SECCOMP_RET_KILL_PROCESS, CAP_STATE_NOT_PERMITTED},
	{"process_madvise kills the thread", SYS_process_madvise, SECCOMP_RET_KILL, CAP_STATE_NOT_PERMITTED},
	{"process_madvise traps", SYS_process_madvise, SECCOMP_RET_TRAP, CAP_STATE_NOT_PERMITTED},
	{"prlimit64 kills the process", SYS_prlimit64, SECCOMP_RET_KILL_PROCESS, CAP_STATE_NOT_PERMITTED},
	{"clone refused (EPERM)", SYS_clone, SECCOMP_RET_ERRNO | EPERM, CAP_STATE_NOT_PERMITTED},
	{"clone refused (EAGAIN)", SYS_clone, SECCOMP_RET_ERRNO | EAGAIN, CAP_STATE_UNKNOWN},
};

static struct advise_batch batch;
static int accepted;
static volatile sig_atomic_t heard;

static void tell(const struct advise_range *range, bool ok)
{
	(void)range;
	accepted += ok;
}

static void hear(int sig)
{
	(void)sig;
	heard++;
}

static void return_memory(void)
{
	char *addr = fact_memory(RANGES * LEN);

	advise_batch_init(&batch, tell);
	for (size_t i = 0; i < RANGES; i += 2)
		advise_batch_add(&batch, addr + i * LEN, LEN, NULL, 0);
	fact(advise_batch_flush(&batch) == RANGES / 2 * LEN && accepted == RANGES / 2, "all is returned");
	for (size_t i = 0; i < RANGES; i++)
		fact(fact_all(addr + i * LEN, LEN, (char)(i % 2)), "and gone, the rest is not");
}

/* In a child: 0, or 1 after naming what failed, or 77. */
static void run_filter(size_t i)
{
	/* Where the probe may not lower the limit for itself, there is nothing to see. */
	rlim_t core = filters[i].call == SYS_prlimit64 ? 0 : RLIM_INFINITY;

	setrlimit(RLIMIT_CORE, &(struct rlimit){.rlim_cur = core, .rlim_max = RLIM_INFINITY});
	signal(SIGCHLD, hear);
	signal(SIGSYS, hear);
	if (!fact_filter(filters[i].call, FACT_ANY, filters[i].action))
		exit(77);
	return_memory();
	fact(heard == 0, "no signal reaches the program");
	fact(waitpid(-1, NULL, __WALL | WNOHANG) == -1 && errno == ECHILD, "no child is left");
	fact(advise_way() == ADVISE_LOOP, "by the loop");
	fact(caps_state(CAPS_PROCESS_MADVISE) == filters[i].expected, caps_state_name(caps_state(CAPS_PROCESS_MADVISE)));
	exit(0);
}

/* --- all of them at once ---------------------------------------------------------------------------------------------------------- */

/* What lull makes beyond the calls of any program with threads; libc's start is past by the time the filter is there. */
static const long unusual[] = {
	SYS_process_madvise, SYS_mincore,      SYS_sysinfo,    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
	SYS_userfaultfd,     SYS_memfd_create, SYS_membarrier, SYS_pidfd_open,     SYS_mremap,         SYS_prctl,
	SYS_openat,          SYS_ioctl,        SYS_eventfd2,   SYS_clone3,
};

/* Live without any of them: advice of madvise, and a thread where clone3 is said not to exist. */
static bool may_be_live(enum cap cap, unsigned action)
{
	switch (cap) {
	case CAPS_DONTNEED:
	case CAPS_DONTNEED_LOCKED:
	case CAPS_FREE:
	case CAPS_COLD:
	case CAPS_POPULATE:
	case CAPS_GUARD_PAGES:
		return true;
	case CAPS_THREAD:
		return action == (SECCOMP_RET_ERRNO | ENOSYS);
	default:
		return false;
	}
}

static const struct {
	const char *name;
	unsigned action;
	enum cap_state expected;
	int reason;
} all_filters[] = {
	{"all unusual calls refused (EPERM)", SECCOMP_RET_ERRNO | EPERM, CAP_STATE_NOT_PERMITTED, -EPERM},
	{"all unusual calls refused (ENOSYS)", SECCOMP_RET_ERRNO | ENOSYS, CAP_STATE_ABSENT, -ENOSYS},
	{"all unusual calls kill the process", SECCOMP_RET_KILL_PROCESS, CAP_STATE_NOT_PERMITTED, CAPS_KILLED},
};

static void check_caps(size_t i)
{
	for (unsigned n = 0; n < CAPS_COUNT; n++) {
		enum cap cap = (enum cap)n;

		if (may_be_live(cap, all_filters[i].action)) {
			fact(caps_has(cap) || cap == CAPS_GUARD_PAGES, caps_name(cap));
			continue;
		}
		/* naming stands on the thread, which there is where clone3 is said not to exist */
		fact(!caps_has(cap), caps_name(cap));
		fact(caps_state(cap) == all_filters[i].expected, caps_name(cap));
		fact(caps_reason(cap) == all_filters[i].reason, caps_name(cap));
	}
}

#define BLOCKS 2000
#define BLOCK_BYTES 20000

static void use_allocator(void)
{
	static char *blocks[BLOCKS];
	struct lull_stats stats;

	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = lull_calloc(1, BLOCK_BYTES);
		fact(blocks[i] != NULL && fact_all(blocks[i], BLOCK_BYTES, 0), "zeroed memory");
		memset(blocks[i], 1, BLOCK_BYTES);
	}
	for (size_t i = 0; i < BLOCKS; i++)
		lull_free(blocks[i]);
	lull_collect(true);
	lull_stats_read(&stats, sizeof(stats));
	fact(stats.returned_bytes >= BLOCKS * BLOCK_BYTES / 2, "memory goes back");
	fact(stats.return_failed_bytes == 0, "all that was tried");
}

static void run_all(size_t i)
{
	signal(SIGCHLD, hear);
	signal(SIGSYS, hear);
	/* the last to be filtered is what filters are installed by */
	for (size_t n = 0; n < array_len(unusual); n++)
		if (unusual[n] != SYS_prctl && !fact_filter(unusual[n], FACT_ANY, all_filters[i].action))
			exit(77);
	if (!fact_filter(SYS_prctl, FACT_ANY, all_filters[i].action))
		exit(77);
	use_allocator();
	check_caps(i);
	use_allocator();
	fact(heard == 0, "no signal reaches the program");
	fact(waitpid(-1, NULL, __WALL | WNOHANG) == -1 && errno == ECHILD, "no child is left");
	exit(0);
}

/* In an empty folder, where a core file would be seen if this machine writes them to the working folder. */
static int run_apart(void (*run)(size_t i), size_t i, const char *name)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run(i);
	fact(waitpid(pid, &status, 0) == pid, "the child is waited for");
	if (WIFSIGNALED(status)) {
		printf("killed by signal %d under: %s\n", WTERMSIG(status), name);
		return 1;
	}
	if (WEXITSTATUS(status) != 0)
		printf("under: %s\n", name);
	return WEXITSTATUS(status);
}

/* Asked in a child: the answer is kept for the life of a process, and the filters' processes must not know it. */
static bool works_without_filter(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(!caps_has(CAPS_PROCESS_MADVISE));
	return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(void)
{
	char folder[] = "/tmp/lull-seccomp-XXXXXX";
	bool has_vector = works_without_filter();
	int worst = 0;

	fact(mkdtemp(folder) && chdir(folder) == 0, "a folder");
	for (size_t i = 0; i < array_len(filters) && worst == 0 && has_vector; i++)
		worst = run_apart(run_filter, i, filters[i].name);
	for (size_t i = 0; i < array_len(all_filters) && worst == 0; i++)
		worst = run_apart(run_all, i, all_filters[i].name);
	if (rmdir(folder) != 0 && worst == 0) {
		printf("a core file was left in %s\n", folder);
		return 1;
	}
	if (worst == 77)
		fact_skip("seccomp filters");
	if (worst == 0 && !has_vector)
		fact_skip("process_madvise(MADV_DONTNEED) on itself; all else passed");
	return worst;
}
