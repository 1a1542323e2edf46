/* SPDX-License-Identifier: MIT */
/*
 * A command line described once: the same table of options is parsed and printed as help, so that the two cannot differ. -h and
 * --help belong to every command and stand in no table.
 */
#ifndef LULL_TOOLS_OPTIONS_H
#define LULL_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* The most options one command may have; checked while parsing. */
#define OPTIONS_MAX 16

struct option_row {
	char letter;       /* 0: no short form */
	const char *name;  /* long form, without the dashes; NULL: no long form */
	const char *value; /* what its argument is called in the help; NULL: it takes none */
	const char *help;  /* at most 50 columns */
	union {
		bool *flag;        /* set to true when given; for options without a value */
		const char **text; /* set to the argument (not copied); the last one given wins */
	} set;
};

struct command {
	const char *name;    /* "stat"; of a command's command with both, "measure return"; NULL: `lull` itself */
	const char *summary; /* a line in the list of commands */
	const char *usage;   /* what follows the name: "[OPTION...] PID" */
	const char *about;   /* one or more lines, below 80 columns, each ended by a newline */
	const struct option_row *options;
	size_t n_options;
	const struct command *const *subcommands; /* ended by NULL; or NULL */
	const char *examples;                     /* lines, indented, below 80 columns */
	bool stops_at_operand;                    /* what follows the first operand is not ours to read */
	/* operands: those left after the options, n of them, then NULL. Returns the exit status. */
	int (*run)(int n, char **operands);
};

/*
 * Parses ARGV (argv[0] is the command's name) by the command's table, then calls its run. Prints help and returns 0 for -h; says what
 * is wrong and returns TOOL_CANNOT for a mistake. May reorder ARGV.
 */
int options_run(const struct command *command, int argc, char **argv);

/* The subcommand of COMMAND whose word WORD is, or NULL. */
const struct command *options_find_command(const struct command *command, const char *word);

#endif
