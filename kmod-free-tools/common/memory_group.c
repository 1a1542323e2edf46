/* SPDX-License-Identifier: MIT */
/*
 * /proc/self/cgroup names the group relative to its hierarchy, /proc/self/mountinfo says where that is mounted and which part of it
 * (proc(5), cgroups(7)). In version 2 a group with processes cannot have children that count memory, so the new one is made beside it.
 */
#include "common/memory_group.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CGROUP_FILE "/proc/self/cgroup"
#define MOUNTS_FILE "/proc/self/mountinfo"

/* A group whose last process has just been waited for may be busy for a moment. */
#define REMOVE_TRIES 100
#define REMOVE_WAIT_MS 10

/* Whether WORD is among the words of LIST, which commas separate. */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (; list != NULL; list = strchr(list, ',') == NULL ? NULL : strchr(list, ',') + 1)
		if (strncmp(list, word, len) == 0 && (list[len] == ',' || list[len] == '\0'))
			return true;
	return false;
}

/* "N:CONTROLLERS:PATH" -> PATH when the line is that of version 1's memory controller (true) or of version 2 (false). */
static char *path_in_line(char *line, bool v1)
{
	char *controllers = strchr(line, ':'), *path;

	line[strcspn(line, "\n")] = '\0';
	if (controllers == NULL || (path = strchr(++controllers, ':')) == NULL)
		return NULL;
	*path++ = '\0';
	return (v1 ? has_word(controllers, "memory") : strncmp(line, "0", 1) == 0 && *controllers == '\0') ? path : NULL;
}

static bool own_path(bool v1, char *ret, size_t len)
{
	FILE *file = fopen(CGROUP_FILE, "re");
	char *line = NULL, *path = NULL;
	size_t room = 0;

	while (file != NULL && path == NULL && getline(&line, &room, file) > 0)
		path = path_in_line(line, v1);
	if (path != NULL)
		snprintf(ret, len, "%s", path);
	free(line);
	if (file != NULL)
		fclose(file);
	return path != NULL;
}

/* Blanks, tabs, line ends and backslashes stand there as \ and three octal digits. In place. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text != '\0'; to++) {
		if (text[0] == '\\' && text[1] != '\0' && text[2] != '\0' && text[3] != '\0') {
			*to = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
			text += 4;
		} else {
			*to = *text++;
		}
	}
	*to = '\0';
}

/* ID PARENT DEVICE ROOT POINT OPTIONS [FIELDS] - TYPE SOURCE OPTIONS. ret_root, ret_point: into LINE. */
static bool is_mount(char *line, bool v1, char **ret_root, char **ret_point)
{
	char *words[5], *save = NULL, *type, *options, *behind = strstr(line, " - ");

	line[strcspn(line, "\n")] = '\0';
	if (behind == NULL)
		return false;
	*behind = '\0';
	for (size_t i = 0; i < 5; i++)
		if ((words[i] = strtok_r(i == 0 ? line : NULL, " ", &save)) == NULL)
			return false;
	type = strtok_r(behind + 3, " ", &save);
	strtok_r(NULL, " ", &save);
	options = strtok_r(NULL, " ", &save);
	if (type == NULL || strcmp(type, v1 ? "cgroup" : "cgroup2") != 0 || (v1 && !has_word(options, "memory")))
		return false;
	unescape(*ret_root = words[3]);
	unescape(*ret_point = words[4]);
	return true;
}

/* PATH as seen through a mount of ROOT: what is above ROOT cannot be seen. */
static bool join(const char *root, const char *point, const char *path, char *ret, size_t len)
{
	size_t above = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (strncmp(path, root, above) != 0 || (path[above] != '/' && path[above] != '\0') || strncmp(path, "/..", 3) == 0)
		return false;
	return snprintf(ret, len, "%s%s", point, strcmp(path + above, "/") == 0 ? "" : path + above) < (int)len;
}

static bool find_folder(bool v1, const char *path, char *ret, size_t len)
{
	FILE *file = fopen(MOUNTS_FILE, "re");
	char *line = NULL, *root, *point;
	bool found = false;
	size_t room = 0;

	while (file != NULL && !found && getline(&line, &room, file) > 0)
		found = is_mount(line, v1, &root, &point) && join(root, point, path, ret, len);
	free(line);
	if (file != NULL)
		fclose(file);
	return found;
}

static bool find_own(struct memory_group *group)
{
	char path[PATH_MAX];

	for (int version = 1; version <= 2; version++) {
		group->is_v1 = version == 1;
		if (own_path(group->is_v1, path, sizeof(path)) && find_folder(group->is_v1, path, group->path, sizeof(group->path)) &&
			memory_group_usage(group) != UINT64_MAX)
			return true;
	}
	group->path[0] = '\0';
	return false;
}

/* Below OWN, or, with BESIDE, below the group that OWN is in. */
static bool try_new(const struct memory_group *own, bool beside, struct memory_group *ret)
{
	const char *slash = strrchr(own->path, '/');
	int len = beside && slash != NULL ? (int)(slash - own->path) : (int)strlen(own->path);

	*ret = (struct memory_group){.is_v1 = own->is_v1, .is_new = true};
	if (snprintf(ret->path, sizeof(ret->path), "%.*s/lull-measure-%d", len, own->path, (int)getpid()) >= (int)sizeof(ret->path) ||
		mkdir(ret->path, S_IRWXU | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH) != 0)
		return false;
	if (memory_group_usage(ret) != UINT64_MAX)
		return true;
	rmdir(ret->path); /* a group that counts no memory, or a folder that is no group */
	return false;
}

/* Making a group and moving into it are different rights. Tried by a child, which does not come back. */
static bool can_enter(const struct memory_group *group)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(!memory_group_enter(group));
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool make_new(const struct memory_group *own, bool beside, struct memory_group *ret)
{
	if (!try_new(own, beside, ret))
		return false;
	if (can_enter(ret))
		return true;
	memory_group_close(ret);
	return false;
}

void memory_group_open(struct memory_group *ret)
{
	struct memory_group own = {0};

	if (find_own(&own) && (make_new(&own, !own.is_v1, ret) || make_new(&own, own.is_v1, ret)))
		return;
	*ret = own;
}

bool memory_group_enter(const struct memory_group *group)
{
	char path[PATH_MAX + 16];
	bool ok;
	int fd;

	if (!group->is_new)
		return true;
	snprintf(path, sizeof(path), "%s/cgroup.procs", group->path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = write(fd, "0", 1) == 1;
	close(fd);
	return ok;
}

uint64_t memory_group_usage(const struct memory_group *group)
{
	char path[PATH_MAX + 32], text[32];
	ssize_t n;
	int fd;

	if (group->path[0] == '\0')
		return UINT64_MAX;
	snprintf(path, sizeof(path), "%s/%s", group->path, group->is_v1 ? "memory.usage_in_bytes" : "memory.current");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return UINT64_MAX;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return UINT64_MAX;
	text[n] = '\0';
	return strtoull(text, NULL, 10);
}

bool memory_group_close(struct memory_group *group)
{
	if (!group->is_new)
		return true;
	for (int tries = 0; rmdir(group->path) != 0 && errno != ENOENT; tries++) {
		if (errno != EBUSY || tries == REMOVE_TRIES)
			return false;
		poll(NULL, 0, REMOVE_WAIT_MS);
	}
	group->is_new = false;
	return true;
}
