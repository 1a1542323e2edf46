/* SPDX-License-Identifier: MIT */
/*
 * Suite fmt: numbers against printf's, and what happens at the end of the buffer.
 */
#include "base/fmt.h"
#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint64_t values[] = {0, 1, 9, 10, 15, 16, 99, 100, 4095, 4096, UINT32_MAX, INT64_MAX, UINT64_MAX - 1, UINT64_MAX};

static void check_text(const struct fmt *fmt, const char *expected)
{
	ck_assert_uint_eq(fmt->len, strlen(expected));
	ck_assert_mem_eq(fmt->buf, expected, fmt->len);
}

START_TEST(test_decimal_is_what_printf_prints)
{
	char buf[64], expected[64];
	struct fmt fmt = fmt_into(buf, sizeof(buf));

	fmt_u64(&fmt, values[_i]);
	snprintf(expected, sizeof(expected), "%" PRIu64, values[_i]);
	check_text(&fmt, expected);
	ck_assert(!fmt.cut);
}
END_TEST

START_TEST(test_hexadecimal_is_what_printf_prints)
{
	char buf[64], expected[64];
	struct fmt fmt = fmt_into(buf, sizeof(buf));

	fmt_hex(&fmt, values[_i]);
	snprintf(expected, sizeof(expected), "0x%" PRIx64, values[_i]);
	check_text(&fmt, expected);
}
END_TEST

START_TEST(test_pieces_follow_each_other)
{
	char buf[64];
	struct fmt fmt = fmt_into(buf, sizeof(buf));

	fmt_text(&fmt, "a=");
	fmt_u64(&fmt, 12);
	fmt_char(&fmt, ';');
	fmt_text(&fmt, "");
	fmt_text(&fmt, NULL);
	fmt_hex(&fmt, 255);
	check_text(&fmt, "a=12;0xff");
}
END_TEST

START_TEST(test_what_does_not_fit_is_cut_and_nothing_behind_is_written)
{
	char buf[8] = "........";
	struct fmt fmt = fmt_into(buf, 4);

	fmt_text(&fmt, "1234");
	ck_assert(!fmt.cut);
	fmt_u64(&fmt, 56);
	ck_assert(fmt.cut);
	check_text(&fmt, "1234");
	ck_assert_mem_eq(buf, "1234....", 8);
}
END_TEST

START_TEST(test_an_empty_buffer_takes_nothing)
{
	struct fmt fmt = fmt_into(NULL, 0);

	fmt_text(&fmt, "x");
	ck_assert(fmt.cut);
	ck_assert_uint_eq(fmt.len, 0);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("fmt");
	TCase *numbers = tcase_create("numbers"), *buffer = tcase_create("buffer");

	tcase_add_loop_test(numbers, test_decimal_is_what_printf_prints, 0, array_len(values));
	tcase_add_loop_test(numbers, test_hexadecimal_is_what_printf_prints, 0, array_len(values));
	tcase_add_test(buffer, test_pieces_follow_each_other);
	tcase_add_test(buffer, test_what_does_not_fit_is_cut_and_nothing_behind_is_written);
	tcase_add_test(buffer, test_an_empty_buffer_takes_nothing);
	suite_add_tcase(suite, numbers);
	suite_add_tcase(suite, buffer);
	return unit_run(suite);
}
