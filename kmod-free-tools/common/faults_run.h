/* SPDX-License-Identifier: MIT */
/*
 * One way of having memory again that was returned to the kernel, or, for huge pages, that is fresh: what a contained run of
 * `lull measure faults` does.
 */
#ifndef LULL_TOOLS_FAULTS_RUN_H
#define LULL_TOOLS_FAULTS_RUN_H

#include "common/say.h"

#include <stddef.h>
#include <stdint.h>

enum faults_way {
	FAULTS_TOUCH,         /* written: a fault for each OS page */
	FAULTS_POPULATE,      /* one MADV_POPULATE_WRITE, then written */
	FAULTS_HUGE_TOUCH,    /* MADV_HUGEPAGE, then written */
	FAULTS_HUGE_POPULATE, /* MADV_HUGEPAGE, MADV_POPULATE_WRITE, then written */
	FAULTS_LULL_ONE,      /* lull: one block of all of it, then written */
	FAULTS_LULL_LARGE,    /* lull: blocks of 256 KiB */
	FAULTS_LULL_MEDIUM,   /* lull: blocks of 16 KiB */
	FAULTS_WAYS,
};

struct faults_plan {
	enum faults_way way;
	size_t bytes; /* a multiple of 2 MiB */
};

struct faults_answer {
	uint64_t take_ns;  /* until there was an address: the calls of malloc or of the kernel */
	uint64_t write_ns; /* one byte in each OS page */
	uint64_t total_ns;
	uint64_t minor_faults; /* as the kernel counts them: one for each page that a call brings in, too */
	uint64_t write_faults; /* of them those taken while writing */
	uint64_t calls;    /* kernel calls that bring memory in, huge pages asked for included */
	uint64_t absent;   /* not 0: this way is not there, for the reason below; else all numbers are filled in */
	char reason[120];
};

const char *faults_way_name(enum faults_way way);

/* plan: struct faults_plan; ret: struct faults_answer. */
enum tool_exit faults_run(const void *plan, void *ret);

#endif
