/* SPDX-License-Identifier: MIT */
/*
 * Suite caps: each answer of a probe, that it is asked once, and that the program does not notice: no signal, no child, same mask.
 * What the probed call answers is set in the table, which the probe's child shares with us. Each test is its own process, so nothing
 * has been asked before.
 */
#include "kernel/caps.h"

#include "kernel/kernel.h"
#include "support/fact.h"
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

/* There on every kernel lull is built for, unless somebody forbids it. */
static bool is_everywhere(enum cap cap)
{
	static const enum cap caps[] = {
		CAPS_DONTNEED, CAPS_DONTNEED_LOCKED, CAPS_FREE,       CAPS_COLD, CAPS_PROCESS_MADVISE_COLD, CAPS_POPULATE,
		CAPS_MREMAP,   CAPS_MINCORE,         CAPS_MEMBARRIER, CAPS_SYSINFO, CAPS_MEMFD, CAPS_THREAD, CAPS_THREAD_NAME,
	};

	for (size_t i = 0; i < array_len(caps); i++)
		if (caps[i] == cap)
			return true;
	return false;
}

START_TEST(test_every_capability_has_a_probe_that_sees_it)
{
	enum cap cap = (enum cap)_i;

	ck_assert_int_eq(caps_state(cap), CAP_STATE_UNKNOWN);
	ck_assert(caps_has(cap) == (caps_state(cap) == CAP_STATE_LIVE));
	if (is_everywhere(cap))
		ck_assert(caps_has(cap));
	ck_assert_int_ne(caps_state(cap), CAP_STATE_UNKNOWN);
	ck_assert_int_ne(caps_state(cap), CAP_STATE_BROKEN);
	ck_assert((caps_state(cap) == CAP_STATE_LIVE) == (caps_reason(cap) == 0));
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

/* --- by system call filters: what the kernel itself answers is replaced ------------------------------------------------------------ */

/* The call whose answer decides, and what else may stand for it. */
static const struct {
	enum cap cap;
	long call;
} filtered[] = {
	{CAPS_PROCESS_MADVISE, SYS_process_madvise},
	{CAPS_PROCESS_MADVISE_COLD, SYS_process_madvise},
	{CAPS_URING, SYS_io_uring_setup},
	{CAPS_URING, SYS_io_uring_register},
	{CAPS_URING, SYS_io_uring_enter},
	{CAPS_URING_MADVISE, SYS_io_uring_setup},
	{CAPS_URING_POLL, SYS_io_uring_setup},
	{CAPS_URING_FUTEX, SYS_io_uring_setup},
	{CAPS_MREMAP, SYS_mremap},
	{CAPS_MINCORE, SYS_mincore},
	{CAPS_HUGE_PAGES, SYS_mincore},
	{CAPS_PAGEMAP_SCAN, SYS_openat},
	{CAPS_PAGEMAP_SCAN, SYS_ioctl},
	{CAPS_UFFD, SYS_userfaultfd},
	{CAPS_UFFD_DEV, SYS_openat},
	{CAPS_UFFD_WP_ASYNC, SYS_ioctl},
	{CAPS_UFFD_MOVE, SYS_ioctl},
	{CAPS_UFFD_RWP, SYS_ioctl},
	{CAPS_SYSINFO, SYS_sysinfo},
	{CAPS_PSI, SYS_openat},
	{CAPS_MEMBARRIER, SYS_membarrier},
	{CAPS_MEMFD, SYS_memfd_create},
	{CAPS_THREAD, SYS_clone3},
	{CAPS_PROC, SYS_openat},
	{CAPS_PROC, SYS_read},
};

static const unsigned actions[] = {
	SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ERRNO | ENOSYS, SECCOMP_RET_KILL_PROCESS,
	SECCOMP_RET_ERRNO | 0, /* a yes, and nothing is done */
};

static enum cap_state expected_by(enum cap cap, unsigned action)
{
	switch (action) {
	case SECCOMP_RET_ERRNO | ENOSYS:
		return cap == CAPS_THREAD ? CAP_STATE_LIVE : CAP_STATE_ABSENT; /* then there is clone */
	default:
		return CAP_STATE_NOT_PERMITTED;
	}
}

/* What is asked in the test's own process would end it; a kernel that lacks it says so first. */
START_TEST(test_a_filter_is_seen_for_what_it_is)
{
	size_t i = (size_t)_i % array_len(filtered), action = (size_t)_i / array_len(filtered);
	enum cap cap = filtered[i].cap;

	if (!fact_filter(filtered[i].call, FACT_ANY, actions[action]))
		return;
	caps_has(cap);
	if (actions[action] == (SECCOMP_RET_ERRNO | 0)) {
		/* nothing to be seen of it but the answer */
		if (cap != CAPS_MEMBARRIER && cap != CAPS_THREAD)
			ck_assert_msg(caps_state(cap) != CAP_STATE_LIVE, "%s is live", caps_name(cap));
		return;
	}
	/* an ioctl on what is not there to be asked */
	if (cap == CAPS_UFFD_RWP && caps_state(cap) == CAP_STATE_ABSENT)
		return;
	ck_assert_msg(caps_state(cap) == expected_by(cap, actions[action]), "%s is %s by action %zu", caps_name(cap),
		      caps_state_name(caps_state(cap)), action);
	if (actions[action] == SECCOMP_RET_KILL_PROCESS)
		ck_assert_int_eq(caps_reason(cap), CAPS_KILLED);
}
END_TEST

START_TEST(test_what_stands_on_something_goes_with_it)
{
	caps_force_off(CAPS_URING);
	ck_assert(!caps_has(CAPS_URING_MADVISE));
	ck_assert_int_eq(caps_state(CAPS_URING_MADVISE), CAP_STATE_OFF);
	caps_force_off(CAPS_UFFD);
	if (caps_has(CAPS_UFFD_DEV)) /* the other door */
		ck_assert_int_eq(caps_state(CAPS_UFFD_WP_ASYNC), CAP_STATE_UNKNOWN);
	caps_force_off(CAPS_UFFD_DEV);
	ck_assert(!caps_has(CAPS_UFFD_WP_ASYNC));
	ck_assert_int_eq(caps_state(CAPS_UFFD_MOVE), CAP_STATE_OFF);
	ck_assert(caps_has(CAPS_THREAD_NAME));
	caps_refused(CAPS_THREAD, -EPERM);
	ck_assert(!caps_has(CAPS_THREAD_NAME));
	ck_assert_int_eq(caps_state(CAPS_THREAD_NAME), CAP_STATE_NOT_PERMITTED);
	ck_assert_int_eq(caps_reason(CAPS_THREAD_NAME), -EPERM);
	ck_assert(caps_stands_on(CAPS_UFFD_MOVE, CAPS_UFFD) && !caps_stands_on(CAPS_UFFD, CAPS_UFFD_MOVE));
}
END_TEST

static unsigned under_minimal;

static int count_madvise(void *addr, size_t len, int advice)
{
	under_minimal++;
	ck_assert_int_eq(advice, MADV_DONTNEED);
	memset(addr, 0, len);
	return 0;
}

START_TEST(test_before_a_filter_of_the_programs_nothing_is_asked_any_more)
{
	uint64_t low, high;

	ck_assert(caps_begin());
	caps_end();
	caps_minimal();
	ck_assert(caps_is_minimal());
	ck_assert(!caps_begin());
	/* whatever is called beside memory is fatal from here on: only its own words and the framework's */
	kernel.madvise = count_madvise;
	for (int cap = 0; cap < CAPS_COUNT; cap++)
		ck_assert(caps_has((enum cap)cap) == (cap == CAPS_DONTNEED));
	ck_assert_uint_eq(under_minimal, 1);
	caps_pack(&low, &high);
	ck_assert_uint_eq(high >> 60, 1);
	ck_assert_uint_eq(low & 7, CAP_STATE_LIVE);
	ck_assert_uint_eq(low >> 3 & 7, CAP_STATE_OFF);
}
END_TEST

/* What has no effect that could be seen is believed; what has one is not. */
static int lying_madvise(void *addr, size_t len, int advice)
{
	(void)addr;
	(void)len;
	(void)advice;
	return 0;
}

START_TEST(test_advice_without_effect_is_broken)
{
	static const enum cap seen[] = {CAPS_DONTNEED, CAPS_DONTNEED_LOCKED, CAPS_POPULATE, CAPS_GUARD_PAGES};

	kernel.madvise = lying_madvise;
	ck_assert(!caps_has(seen[_i]));
	ck_assert_int_eq(caps_state(seen[_i]), CAP_STATE_BROKEN);
	ck_assert_int_eq(caps_reason(seen[_i]), 0);
	ck_assert(caps_has(CAPS_COLD));
}
END_TEST

START_TEST(test_what_cannot_be_tried_is_asked_less_and_less)
{
	fake_kernel_install();
	fake_refuse_all(FAKE_MMAP, ENOMEM);
	for (int i = 0; i < 1000; i++)
		ck_assert(!caps_has(CAPS_PROCESS_MADVISE));
	ck_state(CAP_STATE_UNKNOWN);
	ck_assert_int_eq(caps_reason(CAPS_PROCESS_MADVISE), -ENOMEM);
	ck_assert_uint_eq(fake_calls(FAKE_MMAP), 10); /* 1, 2, 4 .. 512 */
	fake_refuse_all(FAKE_MMAP, 0);
	for (int i = 0; i < 24; i++)
		caps_has(CAPS_PROCESS_MADVISE);
	ck_state(CAP_STATE_LIVE);
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
	if (PROBES_IN_CHILD)
		tcase_add_loop_test(probe, test_a_filter_is_seen_for_what_it_is, 0, (int)(array_len(filtered) * array_len(actions)));
	tcase_add_loop_test(probe, test_advice_without_effect_is_broken, 0, 4);
	tcase_add_test(probe, test_what_cannot_be_tried_is_asked_less_and_less);
	tcase_add_test(states, test_what_stands_on_something_goes_with_it);
	tcase_add_test(states, test_before_a_filter_of_the_programs_nothing_is_asked_any_more);
	tcase_add_test(states, test_names_lead_to_capabilities);
	suite_add_tcase(suite, probe);
	suite_add_tcase(suite, states);
	return unit_run(suite);
}
