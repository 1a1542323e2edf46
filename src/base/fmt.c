/* SPDX-License-Identifier: MIT */
/*
 * The few formats lull's own lines need: text, decimal, hexadecimal. No libc call, no state, any thread.
 */
#include "base/fmt.h"

/* The longest number: 2^64 - 1 in decimal. */
#define MAX_DIGITS 20

void fmt_char(struct fmt *fmt, char c)
{
	if (fmt->len == fmt->size) {
		fmt->cut = true;
		return;
	}
	fmt->buf[fmt->len++] = c;
}

void fmt_text(struct fmt *fmt, const char *text)
{
	if (!text)
		return;
	while (*text)
		fmt_char(fmt, *text++);
}

static void fmt_number(struct fmt *fmt, uint64_t value, unsigned base)
{
	char digits[MAX_DIGITS];
	unsigned n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	while (n)
		fmt_char(fmt, digits[--n]);
}

void fmt_u64(struct fmt *fmt, uint64_t value)
{
	fmt_number(fmt, value, 10);
}

void fmt_hex(struct fmt *fmt, uint64_t value)
{
	fmt_text(fmt, "0x");
	fmt_number(fmt, value, 16);
}
