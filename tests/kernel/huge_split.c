/* SPDX-License-Identifier: MIT */
/*
 * Half of each huge page is returned. MADV_DONTNEED alone takes the half out of the process, but the kernel keeps the whole huge page for
 * the other half, and the cgroup is charged for all of it; when the half is split off first, the charge falls by what was returned. Whole
 * huge pages need no split. The charge is that of a cgroup made, and removed, by this test.
 */
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "support/fact.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE_PAGES 24
#define HUGE (2 * MIB)
#define LEN (HUGE_PAGES * HUGE)

static char group[256];
static const char *usage_file;

/* --- the cgroup ------------------------------------------------------------------------------------------------------------------- */

static bool write_text(const char *name, const char *text)
{
	char path[320];
	int fd;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	fd = open(path, O_WRONLY);
	ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return ok;
}

static bool make_group(const char *root, const char *usage)
{
	char path[320];

	snprintf(group, sizeof(group), "%s/lull-huge-split-%d", root, (int)getpid());
	if (mkdir(group, 0755) != 0)
		return false;
	snprintf(path, sizeof(path), "%s/%s", group, usage);
	usage_file = usage;
	if (access(path, R_OK) == 0 && write_text("cgroup.procs", "0"))
		return true;
	rmdir(group);
	return false;
}

/* The root a cgroup2 or v1 memory hierarchy is mounted at. */
static bool find_root(const char *type, const char *option, char (*ret)[256])
{
	FILE *mounts = fopen("/proc/self/mounts", "r");
	char line[1024], where[256], kind[64], options[512];
	bool found = false;

	while (mounts != NULL && !found && fgets(line, sizeof(line), mounts) != NULL)
		if (sscanf(line, "%*s %255s %63s %511s", where, kind, options) == 3)
			found = strcmp(kind, type) == 0 && (option == NULL || strstr(options, option) != NULL);
	if (mounts != NULL)
		fclose(mounts);
	if (found)
		strcpy(*ret, where);
	return found;
}

static bool enter_group(void)
{
	char root[256];

	if (find_root("cgroup", "memory", &root) && make_group(root, "memory.usage_in_bytes"))
		return true;
	return find_root("cgroup2", NULL, &root) && make_group(root, "memory.current");
}

static size_t usage(void)
{
	char path[320];
	unsigned long bytes = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", group, usage_file);
	file = fopen(path, "r");
	fact(file != NULL && fscanf(file, "%lu", &bytes) == 1, "the usage is read");
	fclose(file);
	return bytes;
}

/* --- the fact --------------------------------------------------------------------------------------------------------------------- */

static struct advise_batch batch;

static void tell(const struct advise_range *range, bool ok)
{
	(void)range;
	fact(ok, "the kernel takes it");
}

static bool all_huge(const char *addr)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	char line[512];
	unsigned long from, to, kib = 0;
	bool inside = false;

	fact(smaps != NULL, "/proc/self/smaps");
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= (uintptr_t)addr && (uintptr_t)addr < to;
		if (inside && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1)
			break;
	}
	fclose(smaps);
	return kib * KIB >= LEN;
}

static char *huge_memory(void)
{
	char *addr = mmap(NULL, LEN + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	fact(addr != MAP_FAILED, "memory for the test");
	addr = (char *)align_up((uintptr_t)addr, HUGE);
	if (madvise(addr, LEN, MADV_HUGEPAGE) != 0)
		fact_skip("transparent huge pages");
	memset(addr, 1, LEN);
	if (!all_huge(addr))
		fact_skip("enough free memory for 24 huge pages");
	return addr;
}

/* Usage is counted in batches of 64 OS pages for each processor, and a few more are page tables. */
#define ABOUT (2 * MIB)

/* Half of each huge page goes. */
static size_t fall_after_halves(bool huge)
{
	char *addr = huge_memory();
	size_t before = usage(), after;

	advise_batch_init(&batch, tell);
	for (size_t i = 0; i < HUGE_PAGES; i++) {
		if (huge)
			advise_batch_add_huge(&batch, addr + i * HUGE, HUGE / 2, NULL, 0);
		else
			advise_batch_add(&batch, addr + i * HUGE, HUGE / 2, NULL, 0);
	}
	fact(advise_batch_finish(&batch) == LEN / 2, "half is returned");
	after = usage();
	for (size_t i = 0; i < HUGE_PAGES; i++)
		fact(fact_all(addr + i * HUGE + HUGE / 2, HUGE / 2, 1) && fact_all(addr + i * HUGE, HUGE / 2, 0), "the half, and no more");
	munmap(addr, LEN);
	return before > after ? before - after : 0;
}

static void check_whole(void)
{
	char *addr = huge_memory();
	uint64_t split = advise_counts().split_bytes;
	size_t before = usage();

	advise_batch_init(&batch, tell);
	advise_batch_add_huge(&batch, addr, LEN - HUGE, NULL, 0);
	advise_batch_finish(&batch);
	fact(before - usage() >= LEN - HUGE - ABOUT, "whole huge pages go");
	fact(advise_counts().split_bytes == split, "without a split");
	munmap(addr, LEN);
}

static int in_group(void)
{
	if (!enter_group())
		fact_skip("a memory cgroup of its own");
	fact(fall_after_halves(false) < LEN / 2 / 2, "unsplit, the charge stays");
	for (int way = ADVISE_LOOP; way <= ADVISE_VECTOR; way++) {
		if (way == ADVISE_VECTOR && !caps_has(CAPS_PROCESS_MADVISE))
			continue;
		advise_set_way((enum advise_way)way);
		fact(fall_after_halves(true) >= LEN / 2 - ABOUT, "split, it falls by what was returned");
	}
	check_whole();
	return 0;
}

/* The child's group; it cannot be removed by whoever is in it. */
static void remove_group(pid_t child)
{
	char root[256], name[320];

	for (int i = 0; i < 2; i++) {
		if (!find_root(i ? "cgroup2" : "cgroup", i ? NULL : "memory", &root))
			continue;
		snprintf(name, sizeof(name), "%s/lull-huge-split-%d", root, (int)child);
		for (int tries = 0; tries < 50 && rmdir(name) != 0 && errno == EBUSY; tries++)
			usleep(20000);
	}
}

int main(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		exit(in_group());
	fact(pid > 0 && waitpid(pid, &status, 0) == pid, "the child ends");
	remove_group(pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
