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

static const struct command *const subcommands[] = {&run_command, &stat_command, &measure_command, NULL};

static bool show_version;

static const struct option_row options[] = {
	{.name = "version", .letter = 'V', .help = "print the version", .set.flag = &show_version},
};

static int lull_run(int n, char **operands)
{
	if (show_version) {
		puts("lull " LULL_VERSION);
		return TOOL_OK;
	}
	if (n == 0) {
		say_try_help(NULL, "no command given");
		return TOOL_CANNOT;
	}
	for (const struct command *const *sub = subcommands; *sub != NULL; sub++)
		if (strcmp((*sub)->name, operands[0]) == 0)
			return options_run(*sub, n, operands);
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

int main(int argc, char **argv)
{
	int status = options_run(&lull_command, argc, argv);

	/* what was printed may still fail to reach the disk */
	if (fflush(stdout) != 0 || ferror(stdout)) {
		say(NULL, "cannot write to standard output: %s", strerror(errno));
		return TOOL_CANNOT;
	}
	return status;
}
