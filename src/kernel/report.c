/* SPDX-License-Identifier: MIT */
/*
 * Builds each line in a buffer on the stack and writes it at once, so that lines of several threads do not mix (a write of up to
 * PIPE_BUF bytes is one piece in a pipe). Any thread, any state of the heap.
 */
#include "kernel/report.h"

#include "base/base.h"
#include "base/fmt.h"
#include "kernel/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Room for a message and a path of usual length; below PIPE_BUF (4096), and small enough for a signal stack. */
#define LINE_BYTES 512

static void line_begin(struct fmt *line, char *buf)
{
	*line = fmt_into(buf, LINE_BYTES - 1);
	fmt_text(line, "lull: ");
}

/* The byte kept free by line_begin is the newline's, also when the text was cut. A refused write is lost: there is nobody to tell. */
static void line_write(struct fmt *line)
{
	long ret;

	line->buf[line->len++] = '\n';
	do
		ret = sys_write(STDERR_FILENO, line->buf, line->len);
	while (ret == -EINTR);
}

void report_misuse(const char *what, const void *address)
{
	char buf[LINE_BYTES];
	struct fmt line;

	line_begin(&line, buf);
	fmt_text(&line, what);
	fmt_text(&line, " (address ");
	fmt_hex(&line, (uintptr_t)address);
	fmt_char(&line, ')');
	line_write(&line);
	abort();
}

void report_bug(const char *expr, const char *file, int lineno)
{
	char buf[LINE_BYTES];
	struct fmt line;

	line_begin(&line, buf);
	fmt_text(&line, "a mistake in lull itself: ");
	fmt_text(&line, expr);
	fmt_text(&line, " does not hold at ");
	fmt_text(&line, file);
	fmt_char(&line, ':');
	fmt_u64(&line, (uint64_t)lineno);
	line_write(&line);
	abort();
}

void report_warning(const char *const *parts, size_t n)
{
	char buf[LINE_BYTES];
	struct fmt line;

	line_begin(&line, buf);
	for (size_t i = 0; i < n; i++)
		fmt_text(&line, parts[i]);
	/* parts may be what a user typed: one line it stays, and nothing a terminal would obey */
	for (size_t i = 0; i < line.len; i++)
		if ((unsigned char)buf[i] < ' ' || buf[i] == 0x7f)
			buf[i] = '?';
	line_write(&line);
}
