/* SPDX-License-Identifier: MIT */
/*
 * The answer comes through memory shared with the child. The child dies with its parent, and by itself when it hangs; only a parent that is
 * killed outright leaves its empty cgroup. One thread; no two measurements at a time.
 */
#include "common/contained.h"

#include <lull/malloc.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A run takes seconds at most; the longest, touching 1 GiB three times where a fault costs 45 us, some 40. */
#define RUN_LIMIT_S 120

struct memory_group contained_group;

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
#define SIGNALS (sizeof(signals) / sizeof(signals[0]))

static struct sigaction before[SIGNALS];
static volatile sig_atomic_t came;

static void note_signal(int number)
{
	came = number;
}

void contained_begin(void)
{
	struct sigaction action = {.sa_handler = note_signal}; /* no SA_RESTART: waitpid is to return */

	lull_free(lull_malloc(1));
	came = 0;
	for (size_t i = 0; i < SIGNALS; i++) {
		sigaction(signals[i], &action, &before[i]);
		/* what was ignored, by nohup say, stays ignored */
		if (before[i].sa_handler == SIG_IGN)
			sigaction(signals[i], &before[i], NULL);
	}
	memory_group_open(&contained_group);
}

static void restore_signals(void)
{
	for (size_t i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &before[i], NULL);
}

void contained_end(const char *command)
{
	if (!memory_group_close(&contained_group))
		say(command, "cannot remove the cgroup '%s': %s", contained_group.path, strerror(errno));
	restore_signals();
	if (came != 0)
		raise(came);
}

static void become_run(pid_t parent)
{
	restore_signals();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(TOOL_CANNOT);
	alarm(RUN_LIMIT_S);
	memory_group_enter(&contained_group); /* worked before; if not now, the figures show it */
}

/* Returns waitpid's status; killed when a signal came. */
static int wait_for(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		if (came != 0)
			kill(child, SIGKILL);
	return status;
}

static enum tool_exit judge(const char *command, int status)
{
	if (came != 0)
		return TOOL_CANNOT;
	if (WIFEXITED(status))
		return (enum tool_exit)WEXITSTATUS(status);
	say(command, "a run was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	return TOOL_CANNOT;
}

enum tool_exit contained_run(
	const char *command, enum tool_exit (*run)(const void *plan, void *ret), const void *plan, void *ret, size_t len)
{
	void *shared = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), child;
	enum tool_exit status;

	child = shared == MAP_FAILED || came != 0 ? -1 : fork();
	if (child == 0) {
		become_run(parent);
		_exit((int)run(plan, shared));
	}
	if (child < 0) {
		if (came == 0)
			say(command, "cannot start a run: %s", strerror(errno));
		if (shared != MAP_FAILED)
			munmap(shared, len);
		return TOOL_CANNOT;
	}
	status = judge(command, wait_for(child));
	memcpy(ret, shared, len);
	munmap(shared, len);
	return status;
}
