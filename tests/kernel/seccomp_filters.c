/* SPDX-License-Identifier: MIT */
/*
 * Under system call filters that refuse, trap or kill, memory still goes back and the process lives: the probe's child takes the
 * blow. Each filter in a process of its own, which returns memory by a batch and looks at it, at its children and for core files.
 */
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/sys.h"
#include "support/fact.h"

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

/* In an empty folder, where a core file would be seen if this machine writes them to the working folder. */
static int run_apart(size_t i)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_filter(i);
	fact(waitpid(pid, &status, 0) == pid, "the child is waited for");
	if (WIFSIGNALED(status)) {
		printf("killed by signal %d under: %s\n", WTERMSIG(status), filters[i].name);
		return 1;
	}
	if (WEXITSTATUS(status) != 0)
		printf("under: %s\n", filters[i].name);
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
	int worst = 0;

	if (!works_without_filter())
		fact_skip("process_madvise(MADV_DONTNEED) on itself");
	fact(mkdtemp(folder) && chdir(folder) == 0, "a folder");
	for (size_t i = 0; i < array_len(filters) && worst == 0; i++)
		worst = run_apart(i);
	if (rmdir(folder) != 0 && worst == 0) {
		printf("a core file was left in %s\n", folder);
		return 1;
	}
	if (worst == 77)
		fact_skip("seccomp filters");
	return worst;
}
