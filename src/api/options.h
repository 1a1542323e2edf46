/* SPDX-License-Identifier: MIT */
/*
 * The LULL_* environment variables. One table describes them: parsing, complaints and the list in a complaint come from it. A variable
 * we do not know, or a value that is not accepted, gives one line on standard error and the program goes on with the default.
 */
#ifndef LULL_API_OPTIONS_H
#define LULL_API_OPTIONS_H

#include "base/base.h"

/* As many as the scavenger takes (reclaim/stages.h). */
#define OPTIONS_STAGES 4

enum options_way { OPTIONS_WAY_AUTO = 0, OPTIONS_WAY_URING, OPTIONS_WAY_VECTOR, OPTIONS_WAY_MADVISE };

struct options {
	bool auto_idle;       /* park threads around blocking calls. Default true */
	bool scavenger;       /* have a background thread. Default true */
	bool stats;           /* publish the statistics page. Default true */
	bool seed;            /* the seed system's policy instead of the default one. Default false */
	uint32_t stage_s[OPTIONS_STAGES]; /* idle stages: seconds of quiet, ascending. Default 30 and 75 */
	unsigned stages;      /* how many; 0: none */
	bool file_hints;      /* obey the calls of <lull/file.h>. Default true */
	enum options_way way; /* how memory is returned. Default: what the kernel offers */
	unsigned track;       /* enum track_mode: watch for writes (reclaim/track.h). Default auto */
	uint64_t caps_off;    /* bit per enum cap: never to be used. Default none */
	bool minimal;         /* no call but mmap, munmap, mprotect, madvise, futex (caps_minimal). Default false */
};

/*
 * Read the options out of an environment.
 *
 * ret   filled completely, defaults where the environment says nothing or nothing that is accepted
 * env   NAME=VALUE strings, NULL at the end; or NULL
 *
 * Returns the number of complaints written to standard error. Allocates nothing; any thread.
 */
unsigned options_parse(struct options *ret, char *const *env) hidden;

/* What this process was started with: parsed and put into force by the first call; later calls and calls before libc has an environment
 * do nothing. A program that runs with more rights than its caller (AT_SECURE) gets the defaults. */
void options_apply_once(void) hidden;

#endif
