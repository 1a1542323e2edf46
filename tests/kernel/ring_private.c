/* SPDX-License-Identifier: MIT */
/*
 * A ring registered with its thread works without a descriptor: none is seen in /proc/self/fd, closing all there are does not hurt it, a
 * child of a fork does not even have its memory, and once it is closed nothing of it is left: a thread has no more than 16 such numbers, so
 * a hundred times opened and closed says that they are given back.
 */
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "support/fact.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN (256 * KIB)
#define ENTRIES 8

static bool has_descriptor(void)
{
	DIR *dir = opendir("/proc/self/fd");
	char path[64], target[64];
	bool found = false;

	fact(dir != NULL, "/proc/self/fd");
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%.20s", entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		found |= strstr(target, "io_uring") != NULL;
	}
	closedir(dir);
	return found;
}

static unsigned mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	fact(maps != NULL, "/proc/self/maps");
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, "io_uring") != NULL;
	fclose(maps);
	return n;
}

static void return_by_ring(void)
{
	char *addr = fact_memory(2 * LEN);
	const struct kernel_request request[] = {{.addr = addr, .len = LEN, .tag = 7}, {.addr = addr + LEN + 1, .len = LEN, .tag = 9}};
	uint64_t tags = 0;

	fact(kernel.ring_submit(request, 2, MADV_DONTNEED) == 2, "both requests are taken");
	for (int i = 0; i < 2; i++) {
		struct kernel_answer answer = kernel.ring_wait(1);

		tags += answer.tag;
		fact((answer.result == 0) == (answer.tag == 7), "the address that is none is refused, the other is not");
	}
	fact(tags == 16, "each is answered once");
	fact(fact_all(addr, LEN, 0) && fact_all(addr + LEN, LEN, 1), "what was asked for is gone, and nothing else");
	munmap(addr, 2 * LEN);
}

static void check_child(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(mappings() != 0 || has_descriptor());
	fact(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
	     "a child has neither memory nor descriptor of it");
}

/* Once a filter is announced its memory goes, by a plain call, and the rest of it with the thread. */
static void close_under_filter(void)
{
	fact(kernel.ring_open(ENTRIES, 2) == 0, "opens once more");
	caps_minimal();
	if (!fact_filter(SYS_io_uring_register, FACT_ANY, SECCOMP_RET_KILL_PROCESS))
		fact_skip("system call filters");
	kernel.ring_close();
	fact(mappings() == 0, "closed under a filter that kills");
}

int main(void)
{
	if (!caps_has(CAPS_URING_MADVISE))
		fact_skip("io_uring with MADVISE and registered rings (uring_madvise)");
	fact(kernel.ring_open(ENTRIES, 2) == 0, "opens");
	fact(!has_descriptor(), "no descriptor is left open");
	fact(mappings() > 0, "its memory is there");
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	return_by_ring();
	check_child();
	return_by_ring();
	kernel.ring_close();
	fact(mappings() == 0, "closed, its memory is gone");
	for (int i = 0; i < 100; i++) {
		fact(kernel.ring_open(ENTRIES, 2) == 0, "opens again");
		if (i % 10 == 0)
			return_by_ring();
		kernel.ring_close();
	}
	fact(mappings() == 0 && !has_descriptor(), "nothing is left");
	close_under_filter();
	return 0;
}
