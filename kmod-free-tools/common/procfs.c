/* SPDX-License-Identifier: MIT */
/*
 * The few readers of /proc that the subcommands share.
 */
#include "common/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A status file has about 1.5 KiB; its longest line (Cpus_allowed of a large machine) stays below this. */
#define LINE_BYTES 4096

bool procfs_parse_pid(const char *text, int *ret)
{
	unsigned long pid;
	char *end;

	/* strtoul would take blanks and signs */
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	pid = strtoul(text, &end, 10);
	if (errno != 0 || *end != '\0' || pid < 1 || pid > PROCFS_PID_MAX)
		return false;
	*ret = (int)pid;
	return true;
}

int procfs_open(const char *root, int pid)
{
	char path[PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s/proc/%d", root, pid);
	int fd;

	if (len >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* A stream over NAME in the folder DIR, or NULL with errno set. */
static FILE *open_stream(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	FILE *stream;

	if (fd < 0)
		return NULL;
	stream = fdopen(fd, "r");
	if (stream == NULL)
		close(fd);
	return stream;
}

/* What follows "KEY:" and blanks in LINE, without its newline; NULL when it is another line. */
static char *value_of(char *line, const char *key)
{
	size_t len = strlen(key);
	char *value;

	if (strncmp(line, key, len) != 0 || line[len] != ':')
		return NULL;
	value = line + len + 1;
	value += strspn(value, " \t");
	value[strcspn(value, "\n")] = '\0';
	return value;
}

int procfs_status(int process, const char *key, char *ret, size_t len)
{
	char line[LINE_BYTES];
	FILE *status = open_stream(process, "status");
	int err = -ENODATA;

	if (status == NULL)
		return -errno;
	while (err == -ENODATA && fgets(line, sizeof(line), status) != NULL) {
		const char *value = value_of(line, key);

		if (value != NULL) {
			snprintf(ret, len, "%s", value);
			err = 0;
		}
	}
	/* a process that ends meanwhile turns reads into ESRCH */
	if (ferror(status))
		err = -ESRCH;
	fclose(status);
	return err;
}

uint64_t procfs_status_bytes(int process, const char *key)
{
	char text[64];
	uint64_t number;
	char *end;

	if (procfs_status(process, key, text, sizeof(text)) != 0)
		return UINT64_MAX;
	number = strtoull(text, &end, 10);
	if (end == text)
		return UINT64_MAX;
	return strcmp(end, " kB") == 0 ? number * 1024 : number;
}

bool procfs_has_mapped(int process, const char *name)
{
	char line[LINE_BYTES];
	FILE *maps = open_stream(process, "maps");
	bool found = false;

	if (maps == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), maps) != NULL) {
		const char *slash = strrchr(line, '/');

		found = slash != NULL && strncmp(slash + 1, name, strlen(name)) == 0;
	}
	fclose(maps);
	return found;
}

int procfs_read_line(const char *root, const char *name, char *ret, size_t len)
{
	char path[PATH_MAX], line[LINE_BYTES];
	FILE *file;
	bool is_read;

	if (snprintf(path, sizeof(path), "%s/proc/%s", root, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	file = open_stream(AT_FDCWD, path);
	if (file == NULL)
		return -errno;
	is_read = fgets(line, sizeof(line), file) != NULL;
	fclose(file);
	if (!is_read)
		return -ENODATA;
	line[strcspn(line, "\n")] = '\0';
	snprintf(ret, len, "%s", line);
	return 0;
}

int procfs_each_fd(int process, bool (*visit)(int fds, const char *name, const char *target, void *arg), void *arg)
{
	int fd = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent *entry;
	bool stop = false;
	DIR *dir;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (dir == NULL) {
		close(fd);
		return -ENOMEM;
	}
	while (!stop && (entry = readdir(dir)) != NULL) {
		char target[PATH_MAX];
		ssize_t len = readlinkat(fd, entry->d_name, target, sizeof(target) - 1);

		if (len < 0)
			continue; /* "." and "..", or closed meanwhile */
		target[len] = '\0';
		stop = visit(fd, entry->d_name, target, arg);
	}
	closedir(dir);
	return stop;
}
