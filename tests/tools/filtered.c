/* SPDX-License-Identifier: MIT */
/*
 * filtered ANSWER CALL[,CALL...] COMMAND...: becomes COMMAND under a system call filter that answers those calls with ANSWER: a number is
 * an errno, "kill" ends the process. Exit 77 where filters are not to be had.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS_MAX 16

static const struct {
	const char *name;
	long nr;
} known[] = {
	{"process_madvise", 440},
	{"io_uring_setup", SYS_io_uring_setup},
	{"userfaultfd", SYS_userfaultfd},
	{"mincore", SYS_mincore},
	{"memfd_create", SYS_memfd_create},
};

static unsigned number_of(const char *name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].name, name) == 0)
			return (unsigned)known[i].nr;
	fprintf(stderr, "filtered: no call '%s' known\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	struct sock_filter program[CALLS_MAX + 3] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	struct sock_fprog filter = {.filter = program};
	unsigned calls[CALLS_MAX], n = 0;

	if (argc < 4)
		return 2;
	for (char *name = strtok(argv[2], ","); name != NULL && n < CALLS_MAX; name = strtok(NULL, ","))
		calls[n++] = number_of(name);
	for (unsigned i = 0; i < n; i++)
		program[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], (unsigned char)(n - i), 0);
	program[n + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program[n + 2] = (struct sock_filter)BPF_STMT(
		BPF_RET | BPF_K, strcmp(argv[1], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | (unsigned)atoi(argv[1]));
	filter.len = (unsigned short)(n + 3);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0)
		return 77;
	execvp(argv[3], argv + 3);
	return 127;
}
