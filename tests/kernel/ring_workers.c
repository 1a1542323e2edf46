/* SPDX-License-Identifier: MIT */
/*
 * The kernel's threads that work for a ring: no more than were allowed; they end when they have been idle for some seconds, the last one
 * too, ring open or not; and where there can be none (RLIMIT_NPROC is used up) each request comes back with -ECANCELED, nothing done.
 */
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/ring.h"
#include "support/fact.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUESTS 32
#define LEN MIB

static unsigned workers(void)
{
	DIR *dir = opendir("/proc/self/task");
	char path[64], name[32];
	unsigned n = 0;

	fact(dir != NULL, "/proc/self/task");
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		FILE *comm;

		snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", entry->d_name);
		comm = fopen(path, "r");
		if (comm == NULL)
			continue;
		n += fgets(name, sizeof(name), comm) != NULL && strncmp(name, "iou-wrk", 7) == 0;
		fclose(comm);
	}
	closedir(dir);
	return n;
}

static void submit(char *addr)
{
	struct kernel_request request[REQUESTS];

	for (size_t i = 0; i < REQUESTS; i++)
		request[i] = (struct kernel_request){.addr = addr + i * LEN, .len = LEN, .tag = i};
	fact(kernel.ring_submit(request, REQUESTS, MADV_DONTNEED) == REQUESTS, "all are taken");
}

static void check_limit_and_end(void)
{
	char *addr = fact_memory(REQUESTS * LEN);

	fact(kernel.ring_open(REQUESTS, 1) == 0, "opens");
	submit(addr);
	for (int i = 0; i < REQUESTS; i++) {
		fact(kernel.ring_wait(1).result == 0, "done");
		fact(workers() <= 1, "one worker at most");
	}
	for (int i = 0; workers() > 0; i++) {
		fact(i < 600, "the last worker ends");
		usleep(100000);
	}
	submit(addr);
	for (int i = 0; i < REQUESTS; i++)
		fact(kernel.ring_wait(REQUESTS - (unsigned)i).result == 0, "there is one again when there is work");
	kernel.ring_close();
	munmap(addr, REQUESTS * LEN);
}

static size_t accepted;

static void tell(const struct advise_range *range, bool ok)
{
	accepted += ok ? range->len : 0;
}

static int without_threads(void)
{
	static struct advise_batch batch;
	const struct rlimit none = {.rlim_cur = 1, .rlim_max = 1};
	char *addr = fact_memory(REQUESTS * LEN);

	fact(kernel.ring_open(REQUESTS, 2) == 0, "opens");
	fact(setrlimit(RLIMIT_NPROC, &none) == 0 && setresuid(65534, 65534, 65534) == 0, "another user, without threads");
	submit(addr);
	for (int i = 0; i < REQUESTS; i++)
		fact(kernel.ring_wait(1).result == -ECANCELED, "cancelled");
	fact(fact_all(addr, REQUESTS * LEN, 1), "nothing was done");
	kernel.ring_close();
	ring_own();
	advise_set_way(ADVISE_URING);
	advise_batch_init(&batch, tell);
	for (size_t i = 0; i < REQUESTS; i += 2)
		advise_batch_add(&batch, addr + i * LEN, LEN, NULL, 0);
	fact(advise_batch_finish(&batch) == REQUESTS / 2 * LEN && accepted == REQUESTS / 2 * LEN, "a batch is returned all the same");
	for (size_t i = 0; i < REQUESTS; i++)
		fact(fact_all(addr + i * LEN, LEN, i % 2), "and nothing else");
	return 0;
}

int main(void)
{
	int status;
	pid_t pid;

	if (!caps_has(CAPS_URING_MADVISE))
		fact_skip("io_uring with MADVISE and registered rings (uring_madvise)");
	check_limit_and_end();
	if (geteuid() != 0)
		return 0;
	pid = fork();
	if (pid == 0)
		_exit(without_threads());
	fact(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "without threads");
	return 0;
}
