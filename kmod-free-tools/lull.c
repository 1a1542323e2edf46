/* SPDX-License-Identifier: MIT */
/*
 * The `lull` command: reads its own options, finds the subcommand and hands the rest over. Exit statuses are those of enum tool_exit
 * in common/say.h, for every subcommand; `lull run` ends with the status of the program it became.
 */
#include "commands.h"
#include "common/say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command *const subcommands[] = {&run_command, &stat_command, &doctor_command, &measure_command, NULL};

static bool show_version;

static const struct option_row options[] = {
	{.name = "version", .letter = 'V', .help = "print the version", .set.flag = &show_version},
};

static const struct command lull_command;

static int lull_run(int n, char **operands)
{
	const struct command *sub;

	if (show_version) {
		puts("lull " LULL_VERSION);
		return TOOL_OK;
	}
	if (n == 0) {
		say_try_help(NULL, "no command given");
		return TOOL_CANNOT;
	}
	sub = options_find_command(&lull_command, operands[0]);
	if (sub != NULL)
		return options_run(sub, n, operands);
	say_try_help(NULL, "unknown command '%s'", operands[0]);
	return TOOL_CANNOT;
}

static const struct command lull_command = {
	.usage = "COMMAND [ARG...]",
	.about = "Runs programs under the lull allocator and looks into those that do.\n",
	.options = options,
	.n_options = sizeof(options) / sizeof(options[0]),
	.subcommands = subcommands,
	.examples = "  lull run -- redis-server --port 7777\n"
		    "  lull stat $(pidof redis-server)\n"
		    "  lull stat --help\n",
	.stops_at_operand = true,
	.run = lull_run,
};

/* The library linked in for `lull measure` would read LULL_* at load and complain of what it does not know, in every command and once
 * more in the program that `lull run` becomes. Without an environment it leaves that to its first call, which only measurements make. */
static char **environment;

static void hide_environment(void)
{
	environment = environ;
	environ = NULL;
}

/* Right before the library's constructor, which has the first number programs may use (101), and behind libc's, which sets environ. */
static void (*hide_first)(void) __attribute__((section(".init_array.00100"), used)) = hide_environment;

int main(int argc, char **argv)
{
	int status;

	environ = environment;
	status = options_run(&lull_command, argc, argv);
	/* what was printed may still fail to reach the disk */
	if (fflush(stdout) != 0 || ferror(stdout)) {
		say(NULL, "cannot write to standard output: %s", strerror(errno));
		return TOOL_CANNOT;
	}
	return status;
}
