/* SPDX-License-Identifier: MIT */
/*
 * `lull run`: becomes the given program with liblull.so preloaded. A program that the preload cannot reach runs all the same, after a note.
 */
#include "commands.h"
#include "common/library.h"
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

/* Program headers are at most this many in any linker's output; more is not looked at. */
#define PHDRS_MAX 64

#if defined(__x86_64__)
#define ELF_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define ELF_MACHINE EM_AARCH64
#else
#error "add the ELF machine number of this architecture"
#endif

static bool is_quiet;

static const struct option_row options[] = {
	{.letter = 'q', .name = "quiet", .help = "no note about a program that cannot be preloaded", .set.flag = &is_quiet},
};

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
	if (!library_find("run", library) || !library_preload("run", library))
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
