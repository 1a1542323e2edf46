/* SPDX-License-Identifier: MIT */
/*
 * Messages on standard error. A line is put together in a buffer and cut when an argument is absurdly long.
 */
#include "common/say.h"

#include <stdarg.h>
#include <stdio.h>

/* Room for a path of PATH_MAX bytes is not needed to recognise it; a terminal shows about this much at once. */
#define LINE_BYTES 1024

void say_clean(char *text)
{
	for (; *text != '\0'; text++)
		if (*text < 0x20 || *text > 0x7e)
			*text = '?';
}

static void say_line(const char *command, const char *format, va_list args, const char *hint)
{
	char line[LINE_BYTES];
	const char *space = command == NULL ? "" : " ";

	vsnprintf(line, sizeof(line), format, args);
	say_clean(line);
	command = command == NULL ? "" : command;
	if (hint == NULL)
		fprintf(stderr, "lull%s%s: %s\n", space, command, line);
	else
		fprintf(stderr, "lull%s%s: %s; try 'lull%s%s %s'\n", space, command, line, space, command, hint);
}

void say(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_line(command, format, args, NULL);
	va_end(args);
}

void say_try_help(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_line(command, format, args, "--help");
	va_end(args);
}
