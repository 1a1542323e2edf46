/* SPDX-License-Identifier: MIT */
/*
 * The program that `lull measure pageout` measures: this command again, executed from a copy of itself with an image behind it and lull
 * preloaded. It serves some requests, pauses, serves one more, writes what it counted to standard output and ends.
 */
#ifndef LULL_TOOLS_PAGEOUT_PROGRAM_H
#define LULL_TOOLS_PAGEOUT_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The operand of `lull measure` that makes it this program. */
#define PAGEOUT_PROGRAM "pageout-program"

/* As in the seed's measurement: enough for everything a request needs to be in memory. */
#define PAGEOUT_REQUESTS 20

/* Passed through a pipe between two processes of the same binary. All numbers first, so that they can be walked as words. */
struct pageout_run {
	uint64_t steady_ns;           /* median of the second half of the requests before the pause */
	uint64_t steady_major_faults; /* of the last request before the pause */
	uint64_t steady_minor_faults;
	uint64_t next_ns;             /* the request after the pause */
	uint64_t next_major_faults;
	uint64_t next_minor_faults;
	uint64_t image_before_bytes;  /* of the image in the process's page table, right before the pause */
	uint64_t image_after_bytes;   /* the same at its end */
	uint64_t rss_before_bytes;    /* VmRSS and RssAnon, likewise */
	uint64_t rss_after_bytes;
	uint64_t anon_before_bytes;
	uint64_t anon_after_bytes;
	int32_t status;  /* enum tool_exit; not TOOL_OK: the numbers are not filled in */
	char error[200]; /* then why */
};

#define PAGEOUT_RUN_NUMBERS (offsetof(struct pageout_run, status) / sizeof(uint64_t))

/* operands, 4 numbers: 1 for MADV_PAGEOUT on the image in the middle of the pause, else 0; the pause in milliseconds; where in
 * /proc/self/exe the image begins, and its length, both in bytes. Returns the exit status. */
int pageout_program_run(int n, char **operands);

#endif
