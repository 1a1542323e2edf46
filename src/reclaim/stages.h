/* SPDX-License-Identifier: MIT */
/*
 * Idle stages: when a process as a whole has been quiet for so long (30 s, and 75 s), the scavenger collects deeper. Quiet means that less
 * was freed since than a program chatters while it waits for its user. Pure: fed with bytes and a clock by the scavenger, which alone
 * has one.
 */
#ifndef LULL_RECLAIM_STAGES_H
#define LULL_RECLAIM_STAGES_H

#include "base/base.h"

#define STAGES_MAX 4

struct stages {
	unsigned n;                    /* stages there are */
	uint32_t after_s[STAGES_MAX];  /* ascending, seconds of quiet */
	unsigned next;                 /* the one that comes next; n: all were */
	uint64_t since_ns;             /* quiet since */
	uint64_t freed_bytes;          /* in that time */
};

/* What may be freed in a quiet time: 2 MiB, or 256 KiB a second. Terminal programs chatter 70 to 200 KiB a second while nobody types. */
#define STAGES_SLACK_BYTES (2 * MIB)
#define STAGES_SLACK_BYTES_S (256 * KIB)

/* BYTES were freed up to now. */
void stages_note(struct stages *stages, uint64_t bytes, uint64_t now_ns) hidden;
/* Nanoseconds until the next stage; UINT64_MAX: none is left in this quiet time. */
uint64_t stages_wait_ns(const struct stages *stages, uint64_t now_ns) hidden;
/* True once for each stage, when its time has come. */
bool stages_reached(struct stages *stages, uint64_t now_ns) hidden;

#endif
