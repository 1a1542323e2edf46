/* SPDX-License-Identifier: MIT */
/*
 * What a pause costs the next request of a program, by what is done to its memory meanwhile: makes the program's image, runs the program
 * (pageout_program.h) in each of three ways, the ways in turn, and takes medians.
 */
#ifndef LULL_TOOLS_PAGEOUT_H
#define LULL_TOOLS_PAGEOUT_H

#include "common/pageout_program.h"
#include "common/say.h"

enum pageout_arm {
	PAGEOUT_ARM_PAGED_OUT,   /* MADV_PAGEOUT on the image, amid the pause */
	PAGEOUT_ARM_IDLE_STAGES, /* lull's two idle stages run in the pause */
	PAGEOUT_ARM_NEITHER,
	PAGEOUT_ARMS,
};

/* The idle stages of that arm, in seconds. */
#define PAGEOUT_IDLE_STAGES "1,2"
/* Past the second stage with as much time again for what it does; before 30 s, where lull's own first stage is unless told otherwise. */
#define PAGEOUT_PAUSE_MIN_S 4
#define PAGEOUT_PAUSE_MAX_S 25
/* More than this brings the median no further. */
#define PAGEOUT_RUNS_MAX 100

struct pageout_plan {
	const char *dir; /* where the copy with the image is made */
	const char *preload;
	unsigned count;  /* runs of each arm, 1 .. PAGEOUT_RUNS_MAX */
	unsigned pause_s;
	uint64_t image_bytes; /* a multiple of 1 MiB */
};

struct pageout_result {
	struct pageout_run median; /* each number by itself */
	uint64_t next_min_ns, next_max_ns;
};

/*
 * ret     PAGEOUT_ARMS results
 * progress  called before each run with its number (from 0), and once more at the end
 *
 * Returns TOOL_OK, or another status when it has said why.
 */
enum tool_exit pageout_measure(const struct pageout_plan *plan, void (*progress)(unsigned run), struct pageout_result *ret);

#endif
