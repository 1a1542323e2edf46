/* SPDX-License-Identifier: MIT */
/*
 * The last words of a process damaged by its own mistake, and warnings at start: one fixed line on standard error, written with
 * one write(2) and no allocation.
 */
#ifndef LULL_KERNEL_REPORT_H
#define LULL_KERNEL_REPORT_H

#include <stddef.h>
#include <stdint.h>

/* Prints "lull: LINE (address 0x...)" and aborts. line: a string constant naming the mistake, e.g. "double free". Any thread. */
void report_misuse(const char *line, const void *address) __attribute__((noreturn, cold));

/* Prints "lull: " and the N parts, then a newline; goes on. parts: strings, not owned. */
void report_warning(const char *const *parts, size_t n) __attribute__((cold));

#endif
