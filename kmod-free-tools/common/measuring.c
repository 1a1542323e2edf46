/* SPDX-License-Identifier: MIT */
/*
 * Processor time is summed thread by thread: the process's own clock counts what runs on another processor only as of its last tick, some
 * milliseconds ago, a thread's clock counts it exactly.
 */
#include "common/measuring.h"

#include "common/procfs.h"
#include "common/say.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void measuring_kernel(char ret[MEASURING_KERNEL_BYTES])
{
	if (procfs_read_line("", "sys/kernel/osrelease", ret, MEASURING_KERNEL_BYTES) != 0)
		strcpy(ret, "?");
	say_clean(ret);
}

bool measuring_number(const char *command, const char *option, const char *text, unsigned min, unsigned max, unsigned *ret)
{
	unsigned long number;
	char *end;

	if (text == NULL)
		return true;
	errno = 0;
	number = strtoul(text, &end, 10);
	/* strtoul would take blanks and signs */
	if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number < min || number > max) {
		say_try_help(command, "%s '%s' is not a number from %u to %u", option, text, min, max);
		return false;
	}
	*ret = (unsigned)number;
	return true;
}

bool measuring_no_operands(const char *command, int n, char **operands)
{
	if (n == 0)
		return true;
	say_try_help(command, "takes options only, '%s' is too much", operands[0]);
	return false;
}

static uint64_t read_clock(clockid_t clock)
{
	struct timespec time = {0};

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t measuring_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

/* The kernel's encoding (linux/posix-timers.h): the thread's id inverted, above three bits that say "of one thread, by the scheduler". */
static clockid_t thread_clock(int tid)
{
	return (clockid_t)((~(unsigned)tid << 3) | 6);
}

uint64_t measuring_own_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t measuring_others_cpu_ns(int not_tid)
{
	DIR *threads = opendir("/proc/self/task");
	struct dirent *entry;
	uint64_t sum = 0;

	while (threads != NULL && (entry = readdir(threads)) != NULL) {
		int tid = atoi(entry->d_name);

		if (tid > 0 && tid != not_tid && tid != gettid())
			sum += read_clock(thread_clock(tid));
	}
	if (threads != NULL)
		closedir(threads);
	return sum;
}

/* A line "KEY:  NUMBER kB" of the sums over all mappings. */
static uint64_t rollup_bytes(const char *key)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "re");
	char line[128];
	uint64_t bytes = 0;

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, key, strlen(key)) == 0)
			bytes = strtoull(line + strlen(key), NULL, 10) * 1024;
	if (file != NULL)
		fclose(file);
	return bytes;
}

uint64_t measuring_rss_bytes(void)
{
	return rollup_bytes("Rss:");
}

uint64_t measuring_huge_bytes(void)
{
	return rollup_bytes("AnonHugePages:");
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

struct spread measuring_spread(const void *bytes, size_t stride, size_t n)
{
	uint64_t sorted[MEASURING_RUNS_MAX];

	for (size_t i = 0; i < n; i++)
		memcpy(&sorted[i], (const char *)bytes + i * stride, sizeof(sorted[i]));
	qsort(sorted, n, sizeof(sorted[0]), compare_numbers);
	return (struct spread){.median = sorted[n / 2], .min = sorted[0], .max = sorted[n - 1]};
}

void measuring_progress(const char *what, unsigned done, unsigned total)
{
	static uint64_t start_ns;

	if (!isatty(STDERR_FILENO))
		return;
	if (done == 0)
		start_ns = measuring_now_ns();
	if (done == total)
		fprintf(stderr, "\r%-72s\r", "");
	else if (done == 0)
		fprintf(stderr, "\r%3u of %u: %-48.48s", done + 1, total, what);
	else
		fprintf(stderr, "\r%3u of %u: %-36.36s %4ju s left", done + 1, total, what,
			(uintmax_t)((measuring_now_ns() - start_ns) / done * (total - done) / 1000000000));
}
