/* SPDX-License-Identifier: MIT */
/*
 * From a command's table to getopt_long's tables and to the help text.
 */
#include "common/options.h"

#include "common/say.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

/* What getopt_long returns for row N of the table: past every byte, so that it is never mistaken for a letter. */
#define ROW(n) (256 + (int)(n))

/* Not an option's letter: getopt_long's answers to mistakes. */
#define UNKNOWN '?'
#define VALUE_MISSING ':'

struct getopt_tables {
	char letters[2 * OPTIONS_MAX + 4];
	struct option names[OPTIONS_MAX + 2];
};

static const struct option_row help_row = {.letter = 'h', .name = "help", .help = "this text"};

static const struct option_row *row_at(const struct command *command, size_t i)
{
	return i < command->n_options ? &command->options[i] : &help_row;
}

static void build_tables(const struct command *command, struct getopt_tables *ret)
{
	char *letter = ret->letters;
	size_t n_names = 0;

	memset(ret, 0, sizeof(*ret));
	/* '+': stop at the first operand; ':': tell a missing value from an unknown option. */
	if (command->stops_at_operand)
		*letter++ = '+';
	*letter++ = ':';
	for (size_t i = 0; i <= command->n_options; i++) {
		const struct option_row *row = row_at(command, i);

		if (row->letter != 0) {
			*letter++ = row->letter;
			if (row->value != NULL)
				*letter++ = ':';
		}
		if (row->name != NULL)
			ret->names[n_names++] = (struct option){row->name, row->value != NULL, NULL, ROW(i)};
	}
}

/* The row that getopt_long's answer VALUE belongs to, or NULL. */
static const struct option_row *find_row(const struct command *command, int value)
{
	for (size_t i = 0; i <= command->n_options; i++) {
		const struct option_row *row = row_at(command, i);

		if (value == ROW(i) || (row->letter != 0 && value == row->letter))
			return row;
	}
	return NULL;
}

static int say_wrong_option(const struct command *command, int answer, char *const *argv)
{
	const struct option_row *row = find_row(command, optopt);

	/* The one place that knows how the option was written is the argument itself; for a cluster of letters it is optopt. */
	if (row == NULL && optopt != 0)
		say_try_help(command->name, "unknown option '-%c'", optopt);
	else if (row == NULL)
		say_try_help(command->name, "unknown option '%s'", argv[optind - 1]);
	else if (answer == VALUE_MISSING)
		say_try_help(command->name, "option '--%s' needs a value: %s", row->name, row->value);
	else
		say_try_help(command->name, "option '--%s' takes no value", row->name);
	return TOOL_CANNOT;
}

static void print_row(const struct option_row *row)
{
	char left[64];
	int n = 0;

	if (row->letter != 0)
		n += snprintf(left, sizeof(left), "-%c%s", row->letter, row->name != NULL ? ", " : "");
	else
		n += snprintf(left, sizeof(left), "    ");
	if (row->name != NULL)
		n += snprintf(left + n, sizeof(left) - (size_t)n, "--%s", row->name);
	if (row->value != NULL)
		snprintf(left + n, sizeof(left) - (size_t)n, " %s", row->value);
	printf("  %-18s %s\n", left, row->help);
}

/* What is typed for a subcommand: the last word of its name. */
static const char *command_word(const struct command *command)
{
	const char *blank = strrchr(command->name, ' ');

	return blank == NULL ? command->name : blank + 1;
}

const struct command *options_find_command(const struct command *command, const char *word)
{
	for (const struct command *const *sub = command->subcommands; *sub != NULL; sub++)
		if (strcmp(command_word(*sub), word) == 0)
			return *sub;
	return NULL;
}

/* Each command has its page: "lull-measure-return". */
static void print_page(const char *name)
{
	fputs("\nSee also: man lull", stdout);
	if (*name != '\0')
		putchar('-');
	for (; *name != '\0'; name++)
		putchar(*name == ' ' ? '-' : *name);
	putchar('\n');
}

static void print_help(const struct command *command)
{
	const char *space = command->name == NULL ? "" : " ";
	const char *name = command->name == NULL ? "" : command->name;

	printf("usage: lull%s%s %s\n\n%s", space, name, command->usage, command->about);
	if (command->subcommands != NULL) {
		puts("\ncommands:");
		for (const struct command *const *sub = command->subcommands; *sub != NULL; sub++)
			printf("  %-18s %s\n", command_word(*sub), (*sub)->summary);
	}
	puts("\noptions:");
	for (size_t i = 0; i <= command->n_options; i++)
		print_row(row_at(command, i));
	printf("\nexamples:\n%s", command->examples);
	print_page(name);
}

int options_run(const struct command *command, int argc, char **argv)
{
	struct getopt_tables tables;
	int answer;

	assert(command->n_options < OPTIONS_MAX);
	build_tables(command, &tables);
	opterr = 0; /* the messages are ours */
	optind = 0; /* GNU: start afresh, a command before may have parsed its own */
	while ((answer = getopt_long(argc, argv, tables.letters, tables.names, NULL)) != -1) {
		const struct option_row *row = find_row(command, answer);

		if (answer == UNKNOWN || answer == VALUE_MISSING || row == NULL)
			return say_wrong_option(command, answer, argv);
		if (row == &help_row) {
			print_help(command);
			return TOOL_OK;
		}
		if (row->value != NULL)
			*row->set.text = optarg;
		else
			*row->set.flag = true;
	}
	return command->run(argc - optind, argv + optind);
}
