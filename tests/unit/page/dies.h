/* SPDX-License-Identifier: MIT */
/*
 * Mistakes that must end the process: FN is run in a child, which has to die by SIGABRT, and by nothing else, after exactly one line
 * on standard error: "lull: LINE (address 0x...)".
 */
#ifndef TESTS_UNIT_PAGE_DIES_H
#define TESTS_UNIT_PAGE_DIES_H

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void dies_child(void (*fn)(void *arg), void *arg, const int ends[2])
{
	struct rlimit no_core = {0, 0};

	setrlimit(RLIMIT_CORE, &no_core);
	signal(SIGABRT, SIG_DFL);
	dup2(ends[1], STDERR_FILENO);
	close(ends[0]);
	close(ends[1]);
	fn(arg);
	_exit(0);
}

/* Prefix and number of lines are all that is checked: the address is the caller's to know. */
static inline void ck_dies(void (*fn)(void *arg), void *arg, const char *line)
{
	char said[1024], start[128];
	size_t len = 0;
	int ends[2], status;

	ck_assert_int_eq(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0)
		dies_child(fn, arg, ends);
	close(ends[1]);
	for (ssize_t n; (n = read(ends[0], said + len, sizeof(said) - 1 - len)) > 0;)
		len += (size_t)n;
	said[len] = '\0';
	close(ends[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %x, said: %s", (unsigned)status, said);
	snprintf(start, sizeof(start), "lull: %s (address 0x", line);
	ck_assert_msg(strncmp(said, start, strlen(start)) == 0, "wanted \"%s\", said: %s", line, said);
	ck_assert_ptr_eq(strchr(said, '\n'), said + len - 1);
}

#endif
