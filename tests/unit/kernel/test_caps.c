/* SPDX-License-Identifier: MIT */
/*
 * Suite caps: each answer of a probe, that it is asked once, and that the program does not notice: no signal, no child, same mask.
 * What the probed call answers is set in the table, which the probe's child shares with us. Each test is its own process, so nothing
 * has been asked before.
 */
#include "kernel/caps.h"

#include "kernel/kernel.h"
#include "support/fake_kernel.h"
#include "support/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void ck_state(enum cap_state expected)
{
	ck_assert_str_eq(caps_state_name(caps_state(CAPS_PROCESS_MADVISE)), caps_state_name(expected));
}

START_TEST(test_a_call_that_works_is_live_and_asked_once)
{
	fake_kernel_install();
	ck_state(CAP_STATE_UNKNOWN);
	for (int i = 0; i < 3; i++)
		ck_assert(caps_has(CAPS_PROCESS_MADVISE));
	ck_state(CAP_STATE_LIVE);
	ck_assert_uint_eq(fake_calls(FAKE_PROCESS_MADVISE), 1);
	ck_assert_uint_eq(fake_bytes(FAKE_MMAP), fake_bytes(FAKE_MUNMAP));
}
END_TEST

/* Whatever each of them is for, it works on the kernels lull is built for, and can be forbidden. */
START_TEST(test_every_capability_has_a_probe_that_sees_it)
{
	enum cap cap = (enum cap)_i;

	ck_assert_int_eq(caps_state(cap), CAP_STATE_UNKNOWN);
	ck_assert(caps_has(cap) == (caps_state(cap) == CAP_STATE_LIVE));
	if (cap != CAPS_PROCESS_MADVISE) /* 6.13 and later */
		ck_assert(caps_has(cap));
	caps_force_off(cap);
	ck_assert(!caps_has(cap));
	ck_assert_int_eq(caps_state(cap), CAP_STATE_OFF);
}
END_TEST

static int no_mincore(void *addr, size_t len, unsigned char *vec)
{
	(void)addr;
	(void)len;
	(void)vec;
	return -ENOSYS;
}

/* Says yes, and that a byte just written is not there. */
static int blind_mincore(void *addr, size_t len, unsigned char *vec)
{
	(void)addr;
	memset(vec, 0, len / OS_PAGE_SIZE);
	return 0;
}

START_TEST(test_a_probe_believes_what_it_sees)
{
	kernel.mincore = _i == 0 ? no_mincore : blind_mincore;
	ck_assert(!caps_has(CAPS_MINCORE));
	ck_assert_int_eq(caps_state(CAPS_MINCORE), _i == 0 ? CAP_STATE_ABSENT : CAP_STATE_BROKEN);
}
END_TEST

static const struct {
	int err;
	enum cap_state state;
} refusals[] = {
	{ENOSYS, CAP_STATE_ABSENT},
	{EINVAL, CAP_STATE_ABSENT},
	{EBADF, CAP_STATE_ABSENT},
	{EPERM, CAP_STATE_NOT_PERMITTED},
	{EACCES, CAP_STATE_NOT_PERMITTED},
	{EIO, CAP_STATE_BROKEN},
};

START_TEST(test_a_refused_call_tells_its_story_and_is_not_asked_again)
{
	fake_kernel_install();
	fake_refuse(FAKE_PROCESS_MADVISE, 1, refusals[_i].err);
	for (int i = 0; i < 3; i++)
		ck_assert(!caps_has(CAPS_PROCESS_MADVISE));
	ck_state(refusals[_i].state);
	ck_assert_uint_eq(fake_calls(FAKE_PROCESS_MADVISE), 1);
}
END_TEST

static ssize_t lie(const struct iovec *vec, size_t n, int advice)
{
	(void)n;
	(void)advice;
	return (ssize_t)vec[0].iov_len;
}

START_TEST(test_a_yes_without_effect_is_broken)
{
	kernel.process_madvise = lie;
	ck_assert(!caps_has(CAPS_PROCESS_MADVISE));
	ck_state(CAP_STATE_BROKEN);
}
END_TEST

static ssize_t die(const struct iovec *vec, size_t n, int advice)
{
	(void)vec;
	(void)n;
	(void)advice;
	syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
	return 0;
}

/* Under ThreadSanitizer the probe is made without a child, see caps.c. */
#ifdef __SANITIZE_THREAD__
#define PROBES_IN_CHILD 0
#else
#define PROBES_IN_CHILD 1
#endif

static volatile sig_atomic_t children_heard;

static void hear_child(int sig)
{
	(void)sig;
	children_heard++;
}

START_TEST(test_a_killed_probe_closes_the_way_and_goes_unnoticed)
{
	sigset_t before, after;

	signal(SIGCHLD, hear_child);
	sigemptyset(&before);
	sigaddset(&before, SIGUSR2);
	sigprocmask(SIG_SETMASK, &before, NULL);
	kernel.process_madvise = die;
	errno = 1234;
	ck_assert(!caps_has(CAPS_PROCESS_MADVISE));
	ck_assert_int_eq(errno, 1234);
	ck_state(CAP_STATE_NOT_PERMITTED);
	ck_assert_int_eq(children_heard, 0);
	ck_assert_int_eq(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	ck_assert_int_eq(errno, ECHILD);
	sigprocmask(SIG_SETMASK, NULL, &after);
	ck_assert_int_eq(sigismember(&after, SIGUSR2), 1);
	ck_assert_int_eq(sigismember(&after, SIGUSR1), 0);
	ck_assert_int_eq(sigismember(&after, SIGSYS), 0);
}
END_TEST

START_TEST(test_without_room_for_a_probe_it_is_asked_again)
{
	fake_kernel_install();
	fake_refuse(FAKE_MMAP, 1, ENOMEM);
	ck_assert(!caps_has(CAPS_PROCESS_MADVISE));
	ck_state(CAP_STATE_UNKNOWN);
	ck_assert(caps_has(CAPS_PROCESS_MADVISE));
}
END_TEST

START_TEST(test_forced_off_is_not_probed_and_stays)
{
	fake_kernel_install();
	caps_force_off(CAPS_PROCESS_MADVISE);
	ck_assert(!caps_has(CAPS_PROCESS_MADVISE));
	caps_refused(CAPS_PROCESS_MADVISE, -ENOSYS);
	ck_state(CAP_STATE_OFF);
	ck_assert_uint_eq(fake_calls(FAKE_PROCESS_MADVISE), 0);
}
END_TEST

START_TEST(test_a_live_call_can_be_forced_off_and_refused_in_use)
{
	fake_kernel_install();
	ck_assert(caps_has(CAPS_PROCESS_MADVISE));
	caps_refused(CAPS_PROCESS_MADVISE, -EPERM);
	ck_state(CAP_STATE_NOT_PERMITTED);
	caps_force_off(CAPS_PROCESS_MADVISE);
	ck_state(CAP_STATE_OFF);
}
END_TEST

START_TEST(test_names_lead_to_capabilities)
{
	enum cap cap = CAPS_COUNT;

	for (int i = 0; i < CAPS_COUNT; i++) {
		const char *name = caps_name((enum cap)i);

		ck_assert(caps_find(name, strlen(name), &cap));
		ck_assert_int_eq(cap, i);
		ck_assert(!caps_find(name, strlen(name) - 1, &cap));
	}
	cap = CAPS_COUNT;
	ck_assert(!caps_find("", 0, &cap));
	ck_assert(!caps_find("process_madvise2", 16, &cap));
	ck_assert_int_eq(cap, CAPS_COUNT);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("caps");
	TCase *probe = tcase_create("probe"), *states = tcase_create("states");

	tcase_add_loop_test(probe, test_every_capability_has_a_probe_that_sees_it, 0, CAPS_COUNT);
	tcase_add_loop_test(probe, test_a_probe_believes_what_it_sees, 0, 2);
	tcase_add_test(probe, test_a_call_that_works_is_live_and_asked_once);
	tcase_add_loop_test(probe, test_a_refused_call_tells_its_story_and_is_not_asked_again, 0, array_len(refusals));
	tcase_add_test(probe, test_a_yes_without_effect_is_broken);
	if (PROBES_IN_CHILD)
		tcase_add_test(probe, test_a_killed_probe_closes_the_way_and_goes_unnoticed);
	tcase_add_test(probe, test_without_room_for_a_probe_it_is_asked_again);
	tcase_add_test(states, test_forced_off_is_not_probed_and_stays);
	tcase_add_test(states, test_a_live_call_can_be_forced_off_and_refused_in_use);
	tcase_add_test(states, test_names_lead_to_capabilities);
	suite_add_tcase(suite, probe);
	suite_add_tcase(suite, states);
	return unit_run(suite);
}
