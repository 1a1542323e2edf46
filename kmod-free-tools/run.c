/* SPDX-License-Identifier: MIT */
/*
 * `lull run`: becomes the given program with liblull.so preloaded. The library is the one that belongs to this command: beside it, as
 * built, or in ../lib, as installed. A program that the preload cannot reach runs all the same, after a note.
 */
#include "commands.h"
#include "common/say.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LIBRARY "liblull.so"

/* Program headers are at most this many in any linker's output; more is not looked at. */
#define PHDRS_MAX 64

#if defined(__x86_64__)
#define ELF_MACHINE EM_X86_64
#define MULTIARCH "x86_64-linux-gnu" /* Debian's name for where libraries of this architecture go */
#elif defined(__aarch64__)
#define ELF_MACHINE EM_AARCH64
#define MULTIARCH "aarch64-linux-gnu"
#else
#error "add the ELF machine number of this architecture"
#endif

static bool is_quiet;

static const struct option_row options[] = {
	{.letter = 'q', .name = "quiet", .help = "no note about a program that cannot be preloaded", .set.flag = &is_quiet},
};

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

/* ret: PATH_MAX bytes; resolved, so that it still names the library after the program changes its folder. */
static bool find_library(char *ret)
{
	static const char *const places[] = {"/" LIBRARY, "/../lib/" LIBRARY, "/../lib/" MULTIARCH "/" LIBRARY, "/../lib64/" LIBRARY};
	char folder[PATH_MAX], path[PATH_MAX + 32];

	if (!own_folder(folder, sizeof(folder))) {
		say("run", "cannot find out where this command is installed: %s", strerror(errno));
		return false;
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", folder, places[i]);
		if (access(path, R_OK) == 0 && realpath(path, ret) != NULL)
			return true;
	}
	say("run", "cannot find " LIBRARY " in '%s', nor in lib, lib/" MULTIARCH " or lib64 beside it", folder);
	return false;
}

/* Puts LIBRARY in front of what is preloaded already. */
static bool preload(const char *library)
{
	const char *before = getenv("LD_PRELOAD");
	char *both;
	bool ok;

	if (library[strcspn(library, " :")] != '\0') {
		say("run", "cannot preload '%s': LD_PRELOAD cannot name a path with a blank or a colon", library);
		return false;
	}
	if (before == NULL || *before == '\0')
		return setenv("LD_PRELOAD", library, 1) == 0;
	if (asprintf(&both, "%s:%s", library, before) < 0)
		return false;
	ok = setenv("LD_PRELOAD", both, 1) == 0;
	free(both);
	return ok;
}

/* The file execvp will take for NAME, opened for reading; -1 when there is none or it cannot be read. */
static int open_program(const char *name)
{
	const char *dir = getenv("PATH");
	char path[PATH_MAX];

	if (strchr(name, '/') != NULL)
		return open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	for (; dir != NULL; dir = strchr(dir, ':') == NULL ? NULL : strchr(dir, ':') + 1) {
		int len = (int)strcspn(dir, ":");

		if (snprintf(path, sizeof(path), "%.*s%s%s", len, dir, len > 0 ? "/" : "", name) < (int)sizeof(path) && access(path, X_OK) == 0)
			return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	return -1;
}

/* The loader drops preloads of a program that gains rights by being executed. */
static bool gains_rights(int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return false;
	if ((st.st_mode & S_ISUID) != 0 && st.st_uid != getuid())
		return true;
	if ((st.st_mode & S_ISGID) != 0 && st.st_gid != getgid())
		return true;
	return getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

static bool is_static(int fd, const Elf64_Ehdr *elf)
{
	Elf64_Phdr phdrs[PHDRS_MAX];
	size_t n = elf->e_phnum < PHDRS_MAX ? elf->e_phnum : PHDRS_MAX;
	ssize_t len = pread(fd, phdrs, n * sizeof(phdrs[0]), (off_t)elf->e_phoff);

	if (len != (ssize_t)(n * sizeof(phdrs[0])))
		return false;
	for (size_t i = 0; i < n; i++)
		if (phdrs[i].p_type == PT_INTERP)
			return false;
	return true;
}

/* Why the preload will not take hold in the program behind FD, or NULL. A script is taken for what its interpreter is: fine. */
static const char *unreachable(int fd)
{
	Elf64_Ehdr elf;

	if (gains_rights(fd))
		return "is set-user-ID, set-group-ID or has file capabilities";
	if (pread(fd, &elf, sizeof(elf), 0) != sizeof(elf) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0)
		return NULL;
	if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_machine != ELF_MACHINE)
		return "is for another kind of processor";
	return is_static(fd, &elf) ? "is statically linked" : NULL;
}

static void note_unreachable(const char *program)
{
	int fd = open_program(program);
	const char *why;

	if (fd < 0)
		return; /* execvp will say it, or the kernel may run what we may not read */
	why = unreachable(fd);
	close(fd);
	if (why != NULL)
		say("run", "note: '%s' %s: it runs without lull", program, why);
}

static int run_run(int n, char **operands)
{
	char library[PATH_MAX];

	if (n == 0) {
		say_try_help("run", "no program given");
		return TOOL_CANNOT;
	}
	if (!find_library(library) || !preload(library))
		return TOOL_CANNOT;
	if (!is_quiet)
		note_unreachable(operands[0]);
	execvp(operands[0], operands);
	say("run", "cannot run '%s': %s", operands[0], strerror(errno));
	return TOOL_CANNOT;
}

const struct command run_command = {
	.name = "run",
	.summary = "run a program under lull",
	.usage = "[OPTION...] [--] PROGRAM [ARG...]",
	.about = "Runs PROGRAM with liblull.so preloaded, in place of this process. Other\n"
		 "preloads (LD_PRELOAD) are kept, behind lull. Programs it starts inherit this.\n",
	.options = options,
	.n_options = sizeof(options) / sizeof(options[0]),
	.examples = "  lull run -- redis-server --port 7777\n"
		    "  lull run -q -- make -j4\n"
		    "  LULL_SCAVENGER=0 lull run -- python3 job.py\n",
	.stops_at_operand = true,
	.run = run_run,
};
