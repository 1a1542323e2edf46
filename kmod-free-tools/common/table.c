/* SPDX-License-Identifier: MIT */
/*
 * Text and JSON from a list of fields. Numbers are printed as signed: no size or count reaches 2^63, and a gauge that was read
 * between two halves of an update is then a small negative number rather than an absurd one.
 */
#include "common/table.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define VALUE_BYTES 32

static uint64_t number_in(const struct field *field, const void *record)
{
	uint64_t number;

	memcpy(&number, (const char *)record + field->offset, sizeof(number));
	return number;
}

static const char *text_in(const struct field *field, const void *record)
{
	const char *text;

	memcpy(&text, (const char *)record + field->offset, sizeof(text));
	return text;
}

void table_humanise(char *ret, size_t len, uint64_t bytes)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)(int64_t)bytes / 1024;
	size_t unit = 0;

	if (value < 1 && value > -1) {
		snprintf(ret, len, "%" PRId64 " B", (int64_t)bytes);
		return;
	}
	/* 1023.95 would round up to "1024.0" */
	for (; (value >= 1023.95 || value <= -1023.95) && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		value /= 1024;
	snprintf(ret, len, "%.1f %s", value, units[unit]);
}

static void format_number(char *ret, size_t len, const struct field *field, uint64_t number, bool exact_bytes)
{
	if (number == TABLE_UNKNOWN)
		snprintf(ret, len, "-");
	else if (field->kind == FIELD_BYTES && !exact_bytes)
		table_humanise(ret, len, number);
	else if (field->kind == FIELD_US)
		snprintf(ret, len, "%.1f ms", (double)(int64_t)number / 1000);
	else if (field->kind == FIELD_NS)
		snprintf(ret, len, "%.*f", number < 100000 ? 2 : 0, (double)(int64_t)number / 1000);
	else
		snprintf(ret, len, "%" PRId64, (int64_t)number);
}

/* Without the unit at the end: the value shows it. */
static void format_label(char *ret, size_t len, const char *key)
{
	static const char *const units[] = {"_bytes", "_us", "_ns"};
	size_t label = strlen(key);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (label > strlen(units[i]) && strcmp(key + label - strlen(units[i]), units[i]) == 0)
			label -= strlen(units[i]);
	snprintf(ret, len, "%.*s", (int)label, key);
	for (; *ret != '\0'; ret++)
		if (*ret == '_')
			*ret = ' ';
}

/* number: VALUE_BYTES of room, used for what is no text. */
static const char *format_value(char *number, const struct field *field, const void *record, bool exact_bytes)
{
	const char *text;

	if (field->kind == FIELD_TEXT) {
		text = text_in(field, record);
		return text == NULL ? "-" : text;
	}
	format_number(number, VALUE_BYTES, field, number_in(field, record), exact_bytes);
	return number;
}

void table_print(FILE *out, const struct field *fields, size_t n, const void *record, bool exact_bytes)
{
	for (size_t i = 0; i < n; i++) {
		char label[VALUE_BYTES], number[VALUE_BYTES];

		if (fields[i].is_only_in_json)
			continue;
		format_label(label, sizeof(label), fields[i].key);
		fprintf(out, "%-16s %15s  %s\n", label, format_value(number, &fields[i], record, exact_bytes), fields[i].help);
	}
}

void table_print_columns(
	FILE *out, const struct field *fields, size_t n, const void *const *records, size_t n_records, bool exact_bytes)
{
	for (size_t i = 0; i < n; i++) {
		char label[VALUE_BYTES], number[VALUE_BYTES];

		if (fields[i].is_only_in_json)
			continue;
		format_label(label, sizeof(label), fields[i].key);
		fprintf(out, "%-20s", label);
		for (size_t column = 0; column < n_records; column++)
			fprintf(out, " %13s", format_value(number, &fields[i], records[column], exact_bytes));
		fputc('\n', out);
	}
}

/* In rows the units of time are left to a line above. */
static const char *format_cell(char *number, const struct field *field, const void *record, bool exact_bytes)
{
	const char *text = format_value(number, field, record, exact_bytes);

	if (field->kind == FIELD_US)
		number[strcspn(number, " ")] = '\0';
	return text;
}

/* The label's width or the widest value's. */
static int width_of(const struct field *field, const char *records, size_t n_records, size_t size, bool exact_bytes)
{
	char text[VALUE_BYTES];
	size_t width;

	format_label(text, sizeof(text), field->key);
	width = strlen(text);
	for (size_t i = 0; i < n_records; i++) {
		size_t len = strlen(format_cell(text, field, records + i * size, exact_bytes));

		width = len > width ? len : width;
	}
	return (int)width;
}

static size_t last_shown(const struct field *fields, size_t n)
{
	while (n > 1 && fields[n - 1].is_only_in_json)
		n--;
	return n - 1;
}

/* The first field names the line and stands left, as texts do, numbers right. width 0: nothing follows. */
static void print_cell(FILE *out, const struct field *field, bool first, int width, const char *text)
{
	bool left = field->kind == FIELD_TEXT || first;

	fprintf(out, left ? "%s%-*s" : "%s%*s", first ? "" : "  ", width, text);
}

void table_print_rows(
	FILE *out, const struct field *fields, size_t n, const void *records, size_t n_records, size_t size, bool exact_bytes)
{
	size_t last = last_shown(fields, n);

	for (size_t line = 0; line <= n_records; line++) {
		for (size_t i = 0; i <= last; i++) {
			int width = i == last && fields[i].kind == FIELD_TEXT ? 0 : width_of(&fields[i], records, n_records, size, exact_bytes);
			char buffer[VALUE_BYTES];
			const char *text = buffer;

			if (fields[i].is_only_in_json)
				continue;
			if (line == 0)
				format_label(buffer, sizeof(buffer), fields[i].key);
			else
				text = format_cell(buffer, &fields[i], (const char *)records + (line - 1) * size, exact_bytes);
			print_cell(out, &fields[i], i == 0, width, text);
		}
		fputc('\n', out);
	}
}

static json_t *json_value(const struct field *field, const void *record)
{
	uint64_t number;

	if (field->kind == FIELD_TEXT) {
		const char *text = text_in(field, record);

		return text == NULL ? json_null() : json_string(text);
	}
	number = number_in(field, record);
	return number == TABLE_UNKNOWN ? json_null() : json_integer((json_int_t)number);
}

bool table_print_json(FILE *out, const char *schema, const struct field *fields, size_t n, const void *record)
{
	json_t *object = json_object();
	bool ok = json_object_set_new(object, "schema", json_string(schema)) == 0;

	for (size_t i = 0; ok && i < n; i++)
		ok = json_object_set_new(object, fields[i].key, json_value(&fields[i], record)) == 0;
	ok = ok && json_dumpf(object, out, JSON_COMPACT) == 0 && fputc('\n', out) != EOF;
	json_decref(object);
	return ok;
}
