/* SPDX-License-Identifier: MIT */
/*
 * A process ends, with status 0 and after its atexit functions, when the last of the program's own threads does: a thread that
 * a library started must not keep it. An alarm ends one that stays.
 *
 *   last main   main leaves by pthread_exit, a second thread ends later by returning
 *   last fork   a thread forks; in the child it is the only thread, and ends by returning
 *   last both   the same, and the child has started and joined threads of its own
 *
 * And what the C library does to all threads must reach a library's thread too:
 *
 *   last ids    root becomes nobody: no thread stays behind
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blocks.h"

#define WATCHDOG_SECONDS 30

static bool in_child, starts_threads;
static int result = 1;

static void at_exit(void)
{
	blocks_churn(20, 1);
	printf("atexit%s\n", in_child ? " in the child" : "");
	fflush(stdout);
}

/* Much freed, then a wait: what makes an allocator's own thread start. */
static void be_idle(void)
{
	struct block *large[16];

	for (unsigned i = 0; i < 16; i++)
		large[i] = block_new(400000, i);
	for (unsigned i = 0; i < 16; i++)
		block_drop(large[i]);
	blocks_churn(300, 2);
	usleep(300000);
}

static void *late(void *arg)
{
	be_idle();
	return arg;
}

static void child_threads(void)
{
	pthread_t threads[3];

	for (unsigned i = 0; i < 3; i++)
		MUST(!pthread_create(&threads[i], NULL, late, NULL));
	for (unsigned i = 0; i < 3; i++)
		MUST(!pthread_join(threads[i], NULL));
}

static void *forker(void *arg)
{
	int status;
	pid_t pid;

	be_idle();
	pid = fork();
	if (pid == 0) {
		in_child = true;
		alarm(WATCHDOG_SECONDS);
		be_idle();
		if (starts_threads)
			child_threads();
		return arg;
	}
	MUST(waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		DIE("the child ends with wait status %#x", status);
	result = 0;
	return NULL;
}

/* The line of the real, effective, saved and file system user in one thread's status. Threads of io_uring's run no code of the process, and
 * work with the rights of who asks; they are gone soon after. */
static void check_ids(const char *tid)
{
	char path[300], line[256], name[32] = "";
	unsigned ids[4] = {0};
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	f = fopen(path, "r");
	MUST(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Name: %31s", name) != 1 && sscanf(line, "Uid: %u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) == 4)
			break;
	fclose(f);
	for (unsigned i = 0; strncmp(name, "iou-wrk-", 8) && i < 4; i++)
		if (ids[i] != geteuid())
			DIE("thread %s has user id %u", tid, ids[i]);
}

static void become_nobody(void)
{
	uid_t uid = geteuid() ? geteuid() : 65534;
	struct dirent *entry;
	DIR *tasks;

	MUST(!setresuid(uid, uid, uid));
	tasks = opendir("/proc/self/task");
	MUST(tasks);
	while ((entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			check_ids(entry->d_name);
	closedir(tasks);
	be_idle();
}

int main(int argc, char **argv)
{
	pthread_t thread;

	MUST(argc == 2);
	atexit(at_exit);
	alarm(3 * WATCHDOG_SECONDS);
	starts_threads = !strcmp(argv[1], "both");
	be_idle();
	if (!strcmp(argv[1], "ids")) {
		become_nobody();
		return 0;
	}
	if (!strcmp(argv[1], "main")) {
		MUST(!pthread_create(&thread, NULL, late, NULL));
		pthread_exit(NULL);
	}
	MUST(!pthread_create(&thread, NULL, forker, NULL));
	MUST(!pthread_join(thread, NULL));
	return result;
}
