/* SPDX-License-Identifier: MIT */
/*
 * The library is looked for beside the command, as built, and in the library folders beside the command's, as installed.
 */
#include "common/library.h"

#include "common/say.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "liblull.so"

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu" /* Debian's name for where libraries of this architecture go */
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#else
#error "add Debian's name of this architecture"
#endif

/* Room is left behind the folder for the longest name looked for in it. */
static bool own_folder(char *ret, size_t len)
{
	ssize_t n = readlink("/proc/self/exe", ret, len);
	char *slash;

	if (n < 0 || (size_t)n >= len)
		return false;
	ret[n] = '\0';
	slash = strrchr(ret, '/');
	if (slash == NULL)
		return false;
	*slash = '\0';
	return true;
}

bool library_find(const char *command, char *ret)
{
	static const char *const places[] = {"/" LIBRARY, "/../lib/" LIBRARY, "/../lib/" MULTIARCH "/" LIBRARY, "/../lib64/" LIBRARY};
	char folder[PATH_MAX], path[PATH_MAX + 32];

	if (!own_folder(folder, sizeof(folder))) {
		say(command, "cannot find out where this command is installed: %s", strerror(errno));
		return false;
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", folder, places[i]);
		if (access(path, R_OK) == 0 && realpath(path, ret) != NULL)
			return true;
	}
	say(command, "cannot find " LIBRARY " in '%s', nor in lib, lib/" MULTIARCH " or lib64 beside it", folder);
	return false;
}

bool library_preload(const char *command, const char *path)
{
	const char *before = getenv("LD_PRELOAD");
	char *both;
	bool ok;

	if (path[strcspn(path, " :")] != '\0') {
		say(command, "cannot preload '%s': LD_PRELOAD cannot name a path with a blank or a colon", path);
		return false;
	}
	if (before == NULL || *before == '\0')
		return setenv("LD_PRELOAD", path, 1) == 0;
	if (asprintf(&both, "%s:%s", path, before) < 0)
		return false;
	ok = setenv("LD_PRELOAD", both, 1) == 0;
	free(both);
	return ok;
}
