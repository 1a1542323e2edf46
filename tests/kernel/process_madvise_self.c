/* SPDX-License-Identifier: MIT */
/*
 * process_madvise on ourselves takes MADV_DONTNEED (6.13), a vector of UIO_MAXIOV entries and no more, and answers short, with what
 * lies before done, when an entry in the middle is refused. By the name for oneself and by a descriptor.
 */
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/sys.h"
#include "support/fact.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENTRIES 1024 /* UIO_MAXIOV */
#define LEN ((size_t)2 * ENTRIES * OS_PAGE_SIZE)

static struct iovec vec[ENTRIES + 1];

/* Every second OS page. */
static char *scatter(void)
{
	char *addr = fact_memory(LEN);

	for (size_t i = 0; i < ENTRIES; i++)
		vec[i] = (struct iovec){.iov_base = addr + 2 * i * OS_PAGE_SIZE, .iov_len = OS_PAGE_SIZE};
	vec[ENTRIES] = vec[0];
	return addr;
}

static void ck_scattered(const char *addr)
{
	for (size_t i = 0; i < 2 * ENTRIES; i++)
		fact(addr[i * OS_PAGE_SIZE] == (char)(i % 2), "every second OS page is gone, the others are not");
}

static void check_vector(void)
{
	char *addr = scatter();

	fact(kernel.process_madvise(vec, ENTRIES, MADV_DONTNEED) == (ssize_t)(LEN / 2), "1024 entries are accepted at once");
	ck_scattered(addr);
	fact(kernel.process_madvise(vec, ENTRIES + 1, MADV_DONTNEED) == -EINVAL, "1025 are not");
	munmap(addr, LEN);
}

static void check_short_answer(void)
{
	char *addr = scatter();

	if (mlock(vec[10].iov_base, OS_PAGE_SIZE) != 0)
		return;
	fact(kernel.process_madvise(vec, ENTRIES, MADV_DONTNEED) == (ssize_t)(10 * OS_PAGE_SIZE), "stops before a locked entry");
	fact(kernel.process_madvise(vec + 10, ENTRIES - 10, MADV_DONTNEED) == -EINVAL, "and is refused when it comes first");
	munmap(addr, LEN);
}

static void check_descriptor(void)
{
	int fd = sys_pidfd_open(sys_getpid());

	fact(fd >= 0, "a descriptor of ourselves");
	fact(fcntl(fd, F_GETFD) & FD_CLOEXEC, "is not passed on");
	sys_close(fd);
}

/* A kernel that allows the call but has no name for oneself (6.13), played by a filter; in a child, since a filter stays. */
static void check_without_name(void)
{
	char *addr = scatter();
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int lowest = dup(STDOUT_FILENO);

		close(lowest);
		if (!fact_filter(SYS_process_madvise, (unsigned)PIDFD_SELF_THREAD, SECCOMP_RET_ERRNO | EBADF))
			exit(0);
		for (int i = 0; i < 3; i++)
			fact(kernel.process_madvise(vec, ENTRIES, MADV_DONTNEED) == (ssize_t)(LEN / 2), "works by a descriptor");
		ck_scattered(addr);
		fact(dup(STDOUT_FILENO) == lowest, "which is closed again");
		exit(0);
	}
	fact(waitpid(pid, &status, 0) == pid && status == 0, "in the child");
	munmap(addr, LEN);
}

int main(void)
{
	if (!caps_has(CAPS_PROCESS_MADVISE)) {
		printf("process_madvise(MADV_DONTNEED) on itself: %s\n", caps_state_name(caps_state(CAPS_PROCESS_MADVISE)));
		return 77;
	}
	check_vector();
	check_short_answer();
	check_descriptor();
	check_without_name();
	return 0;
}
