/* SPDX-License-Identifier: MIT */
/*
 * A program that frees much in large runs, and is quiet. It looks at itself as an outsider would.
 *
 *   ring           exit 0 when io_uring returned most of it, and was closed without a trace when all was quiet
 *   ring none      exit 0 when all of it went although io_uring is forbidden: it was never opened
 *
 * Freed blocks are singletons of 24 MiB, so a run is large enough for the ring whatever the policy.
 */
#define STRESS_STANDARD_NAMES 1
#include "../../support/stress_util.h"

#include <lull/stats.h>

#include <dirent.h>
#include <dlfcn.h>

#define BLOCKS 8
#define BYTES (24 * STRESS_MIB)
#define LEFT_KIB 4096

static void (*stats_read)(struct lull_stats *ret, uint32_t size);

static struct lull_stats stats(void)
{
	struct lull_stats now;

	stats_read(&now, sizeof(now));
	return now;
}

/* Links in DIR that lead to an io_uring. */
static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	char path[300], target[64];
	unsigned n = 0;

	for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		ssize_t len = readlink(path, target, sizeof(target) - 1);

		target[len > 0 ? len : 0] = '\0';
		n += strstr(target, "io_uring") != NULL;
	}
	if (dir != NULL)
		closedir(dir);
	return n;
}

static unsigned mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
		n += strstr(line, "io_uring") != NULL;
	if (maps != NULL)
		fclose(maps);
	return n;
}

static unsigned workers(void)
{
	DIR *dir = opendir("/proc/self/task");
	char path[300], name[32];
	unsigned n = 0;

	for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		FILE *comm = fopen(path, "r");

		if (comm == NULL)
			continue;
		n += fgets(name, sizeof(name), comm) != NULL && strncmp(name, "iou-wrk", 7) == 0;
		fclose(comm);
	}
	if (dir != NULL)
		closedir(dir);
	return n;
}

static void burst(void)
{
	char *block[BLOCKS];

	for (int i = 0; i < BLOCKS; i++)
		memset(block[i] = malloc(BYTES), 1, BYTES);
	for (int i = 0; i < BLOCKS; i++)
		free(block[i]);
}

static void await_returned(size_t baseline)
{
	while (stress_rss_anon_kib() > baseline + LEFT_KIB)
		stress_pause_ms(10);
}

int main(int argc, char **argv)
{
	bool none = argc > 1 && strcmp(argv[1], "none") == 0;

	stress_name = "ring";
	alarm(stress_limit_s());
	*(void **)&stats_read = dlsym(RTLD_DEFAULT, "lull_stats_read");
	if (stats_read == NULL)
		stress_fail("no lull_stats_read: not under lull");
	for (int round = 0; round < 2; round++) {
		size_t baseline = stress_rss_anon_kib();
		uint64_t before = stats().ring_bytes;

		burst();
		await_returned(baseline);
		uint64_t ring_bytes = stats().ring_bytes - before;
		if (none ? ring_bytes != 0 || mappings() != 0 : ring_bytes < BLOCKS / 2 * BYTES)
			stress_fail("%zu KiB returned by io_uring", (size_t)ring_bytes / 1024);
		if (descriptors() != 0) /* there was one only while the ring was set up */
			stress_fail("a descriptor of io_uring is open");
		while (mappings() + workers() > 0)
			stress_pause_ms(100);
	}
	struct lull_stats now = stats();
	printf("ring: %zu MiB returned, by io_uring %zu in %zu hand-overs, way %d\n", (size_t)(now.returned_bytes / STRESS_MIB),
	       (size_t)(now.ring_bytes / STRESS_MIB), (size_t)now.ring_batches, (int)now.way);
	return 0;
}
