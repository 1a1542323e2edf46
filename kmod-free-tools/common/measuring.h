/* SPDX-License-Identifier: MIT */
/*
 * What all measurements need: numbers from the command line, a clock, the middle and the spread of a few runs, and a line that tells how
 * long it will still take.
 */
#ifndef LULL_TOOLS_MEASURING_H
#define LULL_TOOLS_MEASURING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for what uname calls the release (65 bytes, uname(2)). */
#define MEASURING_KERNEL_BYTES 128

/* The running kernel's release, printable. */
void measuring_kernel(char ret[MEASURING_KERNEL_BYTES]);

/* TEXT as a decimal number from MIN to MAX; NULL leaves *ret as it is. False: said why for COMMAND, naming OPTION. */
bool measuring_number(const char *command, const char *option, const char *text, unsigned min, unsigned max, unsigned *ret);

/* False, and said so for COMMAND, when there are operands. */
bool measuring_no_operands(const char *command, int n, char **operands);

/* CLOCK_MONOTONIC. */
uint64_t measuring_now_ns(void);

/* Processor time: of the calling thread; of all others of this process, those the kernel made for it too, but NOT_TID (0: of all). */
uint64_t measuring_own_cpu_ns(void);
uint64_t measuring_others_cpu_ns(int not_tid);

/* Of this process: resident memory, and what of it is in huge pages, in bytes; 0 when it cannot be read. */
uint64_t measuring_rss_bytes(void);
uint64_t measuring_huge_bytes(void);

struct spread {
	uint64_t median, min, max;
};

/* Of N numbers, each the first 64 bits at BYTES + i * STRIDE; n > 0, at most MEASURING_RUNS_MAX. Of an even number, the higher middle. */
struct spread measuring_spread(const void *bytes, size_t stride, size_t n);
/* More than this brings the median no further. */
#define MEASURING_RUNS_MAX 100

/* One line on standard error that is written over, only where a person looks (a terminal): what is done now, how long is left by what was
 * done so far. done == total: takes the line away. */
void measuring_progress(const char *what, unsigned done, unsigned total);

#endif
