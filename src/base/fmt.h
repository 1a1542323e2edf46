/* SPDX-License-Identifier: MIT */
/*
 * Text into a buffer the caller owns, without libc: for lines written when nothing may be allocated any more. What does not fit is cut
 * off and remembered; the text is never terminated by a zero. A struct fmt belongs to one thread.
 */
#ifndef LULL_BASE_FMT_H
#define LULL_BASE_FMT_H

#include "base/base.h"

struct fmt {
	char *buf;
	size_t size; /* bytes in buf */
	size_t len;  /* bytes written, <= size */
	bool cut;    /* something did not fit */
};

static inline struct fmt fmt_into(char *buf, size_t size)
{
	return (struct fmt){.buf = buf, .size = size};
}

void fmt_char(struct fmt *fmt, char c) hidden;
/* text: zero-terminated; NULL writes nothing */
void fmt_text(struct fmt *fmt, const char *text) hidden;
void fmt_u64(struct fmt *fmt, uint64_t value) hidden;
/* lower case, with "0x", no leading zeros */
void fmt_hex(struct fmt *fmt, uint64_t value) hidden;

#endif
