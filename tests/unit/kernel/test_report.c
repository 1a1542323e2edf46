/* SPDX-License-Identifier: MIT */
/*
 * Suite report: the exact lines, one write each, and the signal. Each line is caught in a pipe from a child.
 */
#include "kernel/report.h"

#include "base/base.h"
#include "support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[4096];
static size_t said_len;

/* Runs SPEAK in a child with standard error in a pipe. Returns the wait status; the text is in said. */
static int hear(void (*speak)(void))
{
	int ends[2], status;
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		struct rlimit no_core = {0, 0};

		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		speak();
		_exit(0);
	}
	close(ends[1]);
	said_len = 0;
	for (ssize_t n; (n = read(ends[0], said + said_len, sizeof(said) - 1 - said_len)) > 0;)
		said_len += (size_t)n;
	said[said_len] = '\0';
	close(ends[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static void ck_aborted(int status)
{
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(WTERMSIG(status), SIGABRT);
}

static void say_double_free(void)
{
	report_misuse("double free", (void *)0x7f00deadbeef);
}

static void say_null(void)
{
	report_misuse("not a block", NULL);
}

static void say_bug(void)
{
	report_bug("a < b", "src/x.c", 12);
}

static void say_warning(void)
{
	const char *parts[] = {"LULL_RETURN=", "ring", " is not one of: auto, madvise, vector"};

	report_warning(parts, array_len(parts));
	report_warning(parts, 1);
}

static void say_too_much(void)
{
	static char text[3000];
	const char *parts[] = {text, text};

	memset(text, 'x', sizeof(text) - 1);
	report_warning(parts, array_len(parts));
}

static void say_to_nobody(void)
{
	close(STDERR_FILENO);
	say_warning();
	say_double_free();
}

START_TEST(test_misuse_is_one_line_and_abort)
{
	ck_aborted(hear(say_double_free));
	ck_assert_str_eq(said, "lull: double free (address 0x7f00deadbeef)\n");
	ck_aborted(hear(say_null));
	ck_assert_str_eq(said, "lull: not a block (address 0x0)\n");
}
END_TEST

START_TEST(test_bug_names_the_check_and_its_place)
{
	ck_aborted(hear(say_bug));
	ck_assert_str_eq(said, "lull: a mistake in lull itself: a < b does not hold at src/x.c:12\n");
}
END_TEST

START_TEST(test_warning_joins_its_parts_and_goes_on)
{
	ck_assert_int_eq(hear(say_warning), 0);
	ck_assert_str_eq(said, "lull: LULL_RETURN=ring is not one of: auto, madvise, vector\nlull: LULL_RETURN=\n");
}
END_TEST

START_TEST(test_a_long_line_is_cut_and_still_ends)
{
	ck_assert_int_eq(hear(say_too_much), 0);
	ck_assert_uint_eq(said_len, 512);
	ck_assert_ptr_eq(strchr(said, '\n'), said + said_len - 1);
}
END_TEST

START_TEST(test_closed_standard_error_is_no_further_harm)
{
	ck_aborted(hear(say_to_nobody));
	ck_assert_uint_eq(said_len, 0);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("report");
	TCase *lines = tcase_create("lines");

	tcase_add_test(lines, test_misuse_is_one_line_and_abort);
	tcase_add_test(lines, test_bug_names_the_check_and_its_place);
	tcase_add_test(lines, test_warning_joins_its_parts_and_goes_on);
	tcase_add_test(lines, test_a_long_line_is_cut_and_still_ends);
	tcase_add_test(lines, test_closed_standard_error_is_no_further_harm);
	suite_add_tcase(suite, lines);
	return unit_run(suite);
}
