/* SPDX-License-Identifier: MIT */
/*
 * How the command ends and how it says why: one line on standard error naming the command, the mistake and, for a wrong command
 * line, where help is. Whatever bytes an argument or a process name holds, the line stays one line and the terminal stays as it was.
 */
#ifndef LULL_TOOLS_SAY_H
#define LULL_TOOLS_SAY_H

#include <stddef.h>

/* Every subcommand, every exit (documented in lull.1). */
enum tool_exit {
	TOOL_OK = 0,     /* done, or the answer is yes */
	TOOL_NO = 1,     /* the answer is no */
	TOOL_CANNOT = 2, /* could not run: arguments, permission, no such process */
	TOOL_KERNEL = 3, /* this kernel cannot do it */
};

/* Prints "lull COMMAND: " and the message; command NULL: "lull: ". */
void say(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As say, with "; try 'lull COMMAND --help'" behind the message. */
void say_try_help(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Replaces in place every byte of TEXT that is not printable ASCII by '?': such text is safe on a terminal and in JSON. */
void say_clean(char *text);

#endif
