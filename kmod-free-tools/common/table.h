/* SPDX-License-Identifier: MIT */
/*
 * A record printed for people or as JSON from one list of fields, so that the two cannot differ. A field says where in the caller's
 * record its value lies. The label people see is made from the key: "away_bytes" is "away".
 */
#ifndef LULL_TOOLS_TABLE_H
#define LULL_TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A number that is not known: "-" for people, null in JSON. */
#define TABLE_UNKNOWN UINT64_MAX

enum field_kind {
	FIELD_BYTES, /* uint64_t; humanised unless asked not to; the key ends in _bytes */
	FIELD_COUNT, /* uint64_t */
	FIELD_US,    /* uint64_t, microseconds; shown as milliseconds; the key ends in _us */
	FIELD_NS,    /* uint64_t, nanoseconds; shown as plain microseconds; the key ends in _ns */
	FIELD_TEXT,  /* const char *, printable ASCII; NULL: not known */
};

struct field {
	const char *key; /* snake_case */
	enum field_kind kind;
	size_t offset;       /* of the value in the record */
	bool is_only_in_json; /* people see it in the first line, or do not need it */
	const char *help;    /* at most 44 columns, so that a line stays below 80 */
};

/* One line per field: label, value, help. exact_bytes: plain numbers of bytes. */
void table_print(FILE *out, const struct field *fields, size_t n, const void *record, bool exact_bytes);

/* The same with a column for each of the records instead of the help: records side by side, n_records of them. */
void table_print_columns(
	FILE *out, const struct field *fields, size_t n, const void *const *records, size_t n_records, bool exact_bytes);

/* And with a line for each of n_records records of SIZE bytes one after another, under a line of labels; as wide as they need.
 * Times without their units: milliseconds and microseconds. */
void table_print_rows(
	FILE *out, const struct field *fields, size_t n, const void *records, size_t n_records, size_t size, bool exact_bytes);

/* One object on one line, the key "schema" first. False when memory or OUT failed. */
bool table_print_json(FILE *out, const char *schema, const struct field *fields, size_t n, const void *record);

/* "17 B", "1.5 KiB", "12.0 GiB": at most 10 columns. A gauge read amid an update may be below zero; it is shown so. */
void table_humanise(char *ret, size_t len, uint64_t bytes);

#endif
