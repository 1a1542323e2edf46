/* SPDX-License-Identifier: MIT */
/*
 * confine HOW... -- COMMAND ARGS...: run COMMAND under a filter or a limit.
 *
 *   eperm, enosys, kill  every unusual system call of lull's is refused with that error, or ends the process (sysinfo is refused with
 *                        EPERM there: the C library's qsort makes it)
 *   nproc                as a user without rights who may have no more processes or threads
 *   nofile               with 16 open files at most
 *
 * The filter knows calls by number and, where only some uses of a call are unusual, by one argument. Exit 77 when this machine
 * does not allow it, 2 on a wrong argument; then as COMMAND.
 */
#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534
#define ANY (-1)
#define PR_SET_VMA_NUMBER 0x53564d41
/* The same on x86-64 and arm64; the C library's headers may be older. */
#define SYS_PROCESS_MADVISE 440

#ifndef SECCOMP_RET_KILL_PROCESS
#define SECCOMP_RET_KILL_PROCESS 0x80000000u
#endif

static const struct {
	long call;
	int argument;   /* its number, or ANY */
	uint32_t value; /* of the argument's low half */
	uint32_t mask;  /* these bits of it count */
} unusual[] = {
	{SYS_io_uring_setup, ANY, 0, 0},
	{SYS_io_uring_enter, ANY, 0, 0},
	{SYS_io_uring_register, ANY, 0, 0},
	{SYS_userfaultfd, ANY, 0, 0},
	{SYS_PROCESS_MADVISE, ANY, 0, 0},
	{SYS_mincore, ANY, 0, 0},
	{SYS_sysinfo, ANY, 0, 0},
	{SYS_memfd_create, ANY, 0, 0},
	{SYS_membarrier, ANY, 0, 0},
	{SYS_pidfd_open, ANY, 0, 0},
	{SYS_mremap, ANY, 0, 0},
	{SYS_prctl, 0, PR_SET_VMA_NUMBER, ~0u},
	{SYS_ioctl, 1, 'f' << 8 | 16, 0xffff}, /* PAGEMAP_SCAN: of any size of its argument */
	{SYS_ioctl, 1, 0xaa << 8, 0xff00},     /* UFFDIO_...: one letter is all theirs */
	/* what is not in the C library's way: MADV_COLD, POPULATE_WRITE, DONTNEED_LOCKED, GUARD_INSTALL */
	{SYS_madvise, 2, 20, ~0u},
	{SYS_madvise, 2, 23, ~0u},
	{SYS_madvise, 2, 24, ~0u},
	{SYS_madvise, 2, 102, ~0u},
};

#define UNUSUAL (sizeof(unusual) / sizeof(unusual[0]))

static void cannot(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(77);
}

static uint32_t action_for(long call, uint32_t action)
{
	return call == SYS_sysinfo && action == SECCOMP_RET_KILL_PROCESS ? SECCOMP_RET_ERRNO | EPERM : action;
}

/* Six steps for each entry: number, argument, mask, compare, answer; the number is loaded again since the argument took its place. */
static void install_filter(uint32_t action)
{
	static struct sock_filter program[6 * UNUSUAL + 1];
	unsigned short n = 0;

	for (size_t i = 0; i < UNUSUAL; i++) {
		size_t argument = unusual[i].argument == ANY ? 0 : (size_t)unusual[i].argument;

		program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
		program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)unusual[i].call, 0, 4);
		program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * argument);
		program[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, unusual[i].mask);
		program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, unusual[i].value, 0, 1);
		program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action_for(unusual[i].call, action));
	}
	program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog filter = {.len = n, .filter = program};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0)
		cannot("no system call filter");
}

static void set_limit(int what, rlim_t most)
{
	struct rlimit limit = {.rlim_cur = most, .rlim_max = most};

	if (setrlimit(what, &limit) != 0)
		cannot("no limit can be set");
}

/* The limit counts a user's processes and binds those without rights only: root becomes nobody. */
static void use_up_processes(void)
{
	set_limit(RLIMIT_NPROC, 0);
	if (getuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
		cannot("no other user can be taken");
}

static void confine(const char *how)
{
	if (strcmp(how, "eperm") == 0)
		install_filter(SECCOMP_RET_ERRNO | EPERM);
	else if (strcmp(how, "enosys") == 0)
		install_filter(SECCOMP_RET_ERRNO | ENOSYS);
	else if (strcmp(how, "kill") == 0)
		install_filter(SECCOMP_RET_KILL_PROCESS);
	else if (strcmp(how, "nproc") == 0)
		use_up_processes();
	else if (strcmp(how, "nofile") == 0)
		set_limit(RLIMIT_NOFILE, 16);
	else {
		fprintf(stderr, "confine: '%s' is not one of: eperm enosys kill nproc nofile\n", how);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	int i = 1;

	for (; i < argc && strcmp(argv[i], "--") != 0; i++)
		confine(argv[i]);
	if (i + 1 >= argc) {
		fprintf(stderr, "usage: confine HOW... -- COMMAND ARGS...\n");
		return 2;
	}
	execvp(argv[i + 1], &argv[i + 1]);
	perror(argv[i + 1]);
	return 2;
}
