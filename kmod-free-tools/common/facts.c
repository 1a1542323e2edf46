/* SPDX-License-Identifier: MIT */
/*
 * One small reader per fact. What cannot be read is unknown, never an error: the next file may well be there.
 */
#include "common/facts.h"

#include "common/procfs.h"
#include "common/say.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* mountinfo of a node with many containers has some hundred KiB; what we look for stands early. */
#define FILE_BYTES (256 * 1024)

static void set_text(char *ret, const char *text)
{
	snprintf(ret, FACT_TEXT, "%.*s", (int)strcspn(text, "\n"), text);
	say_clean(ret);
}

/* The whole file below the folder DIR (AT_FDCWD: none), to be freed; NULL when it cannot be read. */
static char *read_all(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = fd < 0 ? NULL : malloc(FILE_BYTES);
	size_t len = 0;
	ssize_t n = 0;

	while (text != NULL && len + 1 < FILE_BYTES && (n = read(fd, text + len, FILE_BYTES - 1 - len)) > 0)
		len += (size_t)n;
	if (fd >= 0)
		close(fd);
	if (text != NULL && n < 0) {
		free(text);
		return NULL;
	}
	if (text != NULL)
		text[len] = '\0';
	return text;
}

static int64_t number_of(const char *text, int base)
{
	char *end;
	unsigned long long n = strtoull(text, &end, base);

	return end == text || n > INT64_MAX ? FACT_UNKNOWN : (int64_t)n;
}

static int64_t read_knob(const char *root, const char *name)
{
	char text[FACT_TEXT];

	return procfs_read_line(root, name, text, sizeof(text)) == 0 ? number_of(text, 10) : FACT_UNKNOWN;
}

static int64_t status_number(int process, const char *key, int base)
{
	char text[FACT_TEXT];

	return procfs_status(process, key, text, sizeof(text)) == 0 ? number_of(text, base) : FACT_UNKNOWN;
}

/* "Max processes   96364   96364   processes": the soft one. */
static int64_t limit_of(const char *limits, const char *name)
{
	const char *line = limits == NULL ? NULL : strstr(limits, name);

	if (line == NULL)
		return FACT_UNKNOWN;
	line += strlen(name);
	line += strspn(line, " ");
	return strncmp(line, "unlimited", 9) == 0 ? FACT_UNLIMITED : number_of(line, 10);
}

static void read_limits(int process, struct facts *ret)
{
	char *limits = read_all(process, "limits");

	ret->limit_as = limit_of(limits, "Max address space");
	ret->limit_nproc = limit_of(limits, "Max processes");
	ret->limit_nofile = limit_of(limits, "Max open files");
	ret->limit_memlock = limit_of(limits, "Max locked memory");
	free(limits);
}

/* "always [madvise] never" */
static void read_thp(const char *root, struct facts *ret)
{
	char path[PATH_MAX], *text, *from;

	set_text(ret->thp, "?");
	snprintf(path, sizeof(path), "%s/sys/kernel/mm/transparent_hugepage/enabled", root);
	text = read_all(AT_FDCWD, path);
	from = text == NULL ? NULL : strchr(text, '[');
	if (from != NULL) {
		from[strcspn(from, "]")] = '\0';
		set_text(ret->thp, from + 1);
	}
	free(text);
}

/* The line of mountinfo(5) whose file system is KIND and which has OPTION among those of the file system; NULL: none. */
static const char *find_mount(const char *mounts, const char *kind, const char *option)
{
	const char *line = mounts;
	size_t len = strlen(kind);

	for (; line != NULL && *line != '\0'; line = strchr(line, '\n') == NULL ? NULL : strchr(line, '\n') + 1) {
		size_t end = strcspn(line, "\n");
		const char *dash = memmem(line, end, " - ", 3);

		if (dash == NULL || strncmp(dash + 3, kind, len) != 0 || dash[3 + len] != ' ')
			continue;
		if (option == NULL || memmem(dash, (size_t)(line + end - dash), option, strlen(option)) != NULL)
			return line;
	}
	return NULL;
}

/* Field 6 of the line. */
static bool is_read_only(const char *line)
{
	for (int field = 1; field < 6; field++)
		line += strcspn(line, " ") + 1;
	return strncmp(line, "ro", 2) == 0;
}

static void read_cgroup(int process, struct facts *ret)
{
	char *mounts = read_all(process, "mountinfo");
	const char *v2 = mounts == NULL ? NULL : find_mount(mounts, "cgroup2", NULL);
	const char *v1 = mounts == NULL ? NULL : find_mount(mounts, "cgroup", "memory");
	const char *line = v1 != NULL ? v1 : v2;

	ret->cgroup_is_read_only = line != NULL && is_read_only(line);
	if (mounts == NULL)
		set_text(ret->cgroup, "?");
	else if (line == NULL)
		set_text(ret->cgroup, "not mounted");
	else
		snprintf(ret->cgroup, FACT_TEXT, "%s, %s", v1 == NULL ? "v2" : v2 == NULL ? "v1" : "v1 for memory, v2 beside it",
			 ret->cgroup_is_read_only ? "read-only" : "read-write");
	free(mounts);
}

static void read_psi(const char *root, struct facts *ret)
{
	char path[PATH_MAX], *text;

	snprintf(path, sizeof(path), "%s/proc/pressure/memory", root);
	text = read_all(AT_FDCWD, path);
	if (text != NULL)
		set_text(ret->psi, access(path, W_OK) == 0 ? "read-write" : "read-only");
	else
		set_text(ret->psi, errno == ENOENT ? "none" : "refused");
	free(text);
}

/* The first line of /proc/swaps is a heading; sizes are in KiB, third in each line. */
static int64_t read_swap(const char *root)
{
	char path[PATH_MAX], *text, *line;
	int64_t bytes = 0;

	snprintf(path, sizeof(path), "%s/proc/swaps", root);
	text = read_all(AT_FDCWD, path);
	if (text == NULL)
		return FACT_UNKNOWN;
	for (line = strchr(text, '\n'); line != NULL && line[1] != '\0'; line = strchr(line + 1, '\n')) {
		long long kib = 0;

		if (sscanf(line + 1, "%*s %*s %lld", &kib) == 1)
			bytes += kib * 1024;
	}
	free(text);
	return bytes;
}

static bool is_there(int dir, const char *name)
{
	return faccessat(dir, name, F_OK, 0) == 0;
}

static void read_container(int process, struct facts *ret)
{
	static const struct {
		const char *word, *name;
	} words[] = {
		{"kubepods", "Kubernetes"}, {"docker", "Docker"}, {"libpod", "Podman"}, {"containerd", "containerd"}, {"lxc", "LXC"},
	};
	char *cgroup = read_all(process, "cgroup");

	set_text(ret->container, "none");
	if (is_there(process, "root/run/.containerenv"))
		set_text(ret->container, "Podman");
	else if (is_there(process, "root/.dockerenv"))
		set_text(ret->container, "Docker");
	for (size_t i = 0; cgroup != NULL && i < sizeof(words) / sizeof(words[0]); i++) {
		if (strstr(cgroup, words[i].word) != NULL) {
			set_text(ret->container, words[i].name);
			break;
		}
	}
	free(cgroup);
}

static void read_lsm(int process, struct facts *ret)
{
	char *text = read_all(process, "attr/current");

	set_text(ret->lsm, text == NULL || *text == '\0' ? "none" : text);
	free(text);
}

bool facts_has_cap(const struct facts *facts, int cap)
{
	return facts->cap_eff != FACT_UNKNOWN && (facts->cap_eff >> cap & 1) != 0;
}

void facts_read(const char *root, int process, struct facts *ret)
{
	char kernel[FACT_TEXT] = "?";

	procfs_read_line(root, "sys/kernel/osrelease", kernel, sizeof(kernel));
	set_text(ret->kernel, kernel);
	ret->seccomp = status_number(process, "Seccomp", 10);
	ret->seccomp_filters = status_number(process, "Seccomp_filters", 10);
	ret->no_new_privs = status_number(process, "NoNewPrivs", 10);
	ret->cap_eff = status_number(process, "CapEff", 16);
	ret->io_uring_disabled = read_knob(root, "sys/kernel/io_uring_disabled");
	ret->unprivileged_userfaultfd = read_knob(root, "sys/vm/unprivileged_userfaultfd");
	ret->overcommit_memory = read_knob(root, "sys/vm/overcommit_memory");
	ret->max_map_count = read_knob(root, "sys/vm/max_map_count");
	ret->swap_bytes = read_swap(root);
	read_limits(process, ret);
	read_thp(root, ret);
	read_cgroup(process, ret);
	read_psi(root, ret);
	read_container(process, ret);
	read_lsm(process, ret);
}
