/* SPDX-License-Identifier: MIT */
/*
 * A program with a known working set: of LIVE MiB of memory it writes SET MiB over and over, RATE MiB a second, for SECONDS. The set is one
 * run of OS pages, or every n-th one, or every n-th run of 64 KiB. Prints one JSON object: what it knows and what lull's statistics say.
 *
 *     writer LIVE SET contiguous|pages|slices RATE SECONDS
 */
#include <lull/stats.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define OS_PAGE 4096
#define BLOCK (256 * (size_t)1024)
/* Written between two looks at the clock. */
#define STEP_PAGES 256

extern void lull_stats_read(struct lull_stats *ret, uint32_t size) __attribute__((weak));

static char **blocks;
static size_t live_pages, set_pages;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_s(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* The i-th OS page of the set. */
static size_t contiguous_page(size_t i)
{
	return live_pages / 8 + i;
}

static size_t spread_page(size_t i)
{
	return i * (live_pages / set_pages);
}

static size_t spread_slice(size_t i)
{
	return i / 16 * 16 * (live_pages / set_pages) + i % 16;
}

static char *page_at(size_t page)
{
	return blocks[page * OS_PAGE / BLOCK] + page * OS_PAGE % BLOCK;
}

static bool make_live(void)
{
	size_t n = live_pages * OS_PAGE / BLOCK;

	blocks = calloc(n, sizeof(*blocks));
	for (size_t i = 0; i < n; i++) {
		blocks[i] = malloc(BLOCK);
		if (blocks[i] == NULL)
			return false;
		memset(blocks[i], 1, BLOCK);
	}
	/* something to give back, so that lull's thread is there */
	char *volatile once = malloc(4 * MIB);
	memset(once, 1, 4 * MIB);
	free(once);
	return true;
}

static void write_set(size_t (*page_of)(size_t), double rate, double seconds)
{
	double begin = now_s();
	size_t written = 0;

	for (double now = begin; now - begin < seconds; now = now_s()) {
		if ((double)written * OS_PAGE / (double)MIB > rate * (now - begin)) {
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
			continue;
		}
		for (size_t i = 0; i < STEP_PAGES; i++, written++)
			memset(page_at(page_of(written % set_pages)), (int)written, OS_PAGE);
	}
}

int main(int argc, char **argv)
{
	struct lull_stats stats = {0};
	struct rusage usage;

	if (argc != 6)
		return 2;
	live_pages = (size_t)atoi(argv[1]) * MIB / OS_PAGE;
	set_pages = (size_t)atoi(argv[2]) * MIB / OS_PAGE;
	size_t (*page_of)(size_t) = contiguous_page;
	if (strcmp(argv[3], "pages") == 0)
		page_of = spread_page;
	else if (strcmp(argv[3], "slices") == 0)
		page_of = spread_slice;
	if (!make_live())
		return 2;
	double begin = now_s(), cpu = cpu_s();
	getrusage(RUSAGE_SELF, &usage);
	long faults = usage.ru_minflt;
	write_set(page_of, atof(argv[4]), atof(argv[5]));
	double spent = cpu_s() - cpu, passed = now_s() - begin;
	getrusage(RUSAGE_SELF, &usage);
	if (lull_stats_read != NULL)
		lull_stats_read(&stats, sizeof(stats));
	printf("{\"live_bytes\":%zu,\"set_bytes\":%zu,\"pattern\":\"%s\",\"seconds\":%.3f,\"cpu_seconds\":%.4f,\"faults\":%ld,"
	       "\"track_us\":%llu,\"track_faults\":%llu,\"state\":%llu,\"ws_epoch_bytes\":%llu,\"ws_10s_bytes\":%llu,\"ws_60s_bytes\":%llu,"
	       "\"resident_bytes\":%llu}\n",
	       live_pages * OS_PAGE, set_pages * OS_PAGE, argv[3], passed, spent, usage.ru_minflt - faults, (unsigned long long)stats.track_us,
	       (unsigned long long)stats.track_faults, (unsigned long long)stats.track_state, (unsigned long long)stats.ws_epoch_bytes,
	       (unsigned long long)stats.ws_10s_bytes, (unsigned long long)stats.ws_60s_bytes, (unsigned long long)stats.resident_bytes);
	return 0;
}
