/* SPDX-License-Identifier: MIT */
/*
 * A process ends with its last thread (pthread_exit(3)), however much the allocator's own thread had to do:
 *
 *   main   the main thread leaves by pthread_exit, another one returns last
 *   child  the same in the child of a fork made by a thread other than the main one
 *
 * Ends by libc's exit(0) in the last thread, which the message of an atexit function shows.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void at_exit(void)
{
	static const char text[] = "exit\n";
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		abort();
}

/* More than a scavenger is started for. */
static void free_much(void)
{
	enum { N = 64, BYTES = 200000 };
	char *volatile block[N];
	for (int i = 0; i < N; i++) {
		block[i] = malloc(BYTES);
		memset(block[i], 1, BYTES);
	}
	for (int i = 0; i < N; i++)
		free(block[i]);
}

/* Until the process has a thread more than the program's own. False: it never came. */
static int wait_for_scavenger(int own)
{
	for (int i = 0; i < 5000; i++) {
		FILE *status = fopen("/proc/self/status", "r");
		char line[256];
		int threads = 0;
		while (status != NULL && fgets(line, sizeof(line), status) != NULL)
			if (sscanf(line, "Threads: %d", &threads) == 1)
				break;
		if (status != NULL)
			fclose(status);
		if (threads > own)
			return 1;
		free_much();
		usleep(1000);
	}
	return 0;
}

static void *last(void *fork_first)
{
	if (fork_first != NULL) {
		pid_t child = fork();
		if (child == 0) {
			if (!wait_for_scavenger(1))
				_exit(3);
			return NULL;
		}
		int status;
		if (waitpid(child, &status, 0) != child || status != 0)
			_exit(4);
	}
	free_much();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	atexit(at_exit);
	if (!wait_for_scavenger(1))
		return 3;
	if (pthread_create(&thread, NULL, last, argc > 1 && strcmp(argv[1], "child") == 0 ? argv : NULL) != 0)
		return 2;
	pthread_detach(thread);
	pthread_exit(NULL);
}
