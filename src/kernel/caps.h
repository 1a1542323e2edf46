/* SPDX-License-Identifier: MIT */
/*
 * What this kernel offers us beyond the calls every allocator makes. Each capability is asked for once, when first needed, by doing
 * the real thing in small in a child that shares our memory: a system call filter may kill instead of refuse, and then only the
 * child is gone. The answer is kept for the life of the process and its forks (both run under the same kernel and filter).
 *
 * Any thread. Two threads asking at the same time both probe and come to the same answer.
 */
#ifndef LULL_KERNEL_CAPS_H
#define LULL_KERNEL_CAPS_H

#include "base/base.h"

enum cap {
	CAPS_PROCESS_MADVISE, /* process_madvise(MADV_DONTNEED) on ourselves */
	CAPS_MINCORE,         /* which OS pages are resident */
	CAPS_SYSINFO,         /* how much memory there is */
	CAPS_COUNT
};

enum cap_state {
	CAP_STATE_UNKNOWN,       /* not asked yet */
	CAP_STATE_LIVE,          /* works, its effect was seen */
	CAP_STATE_ABSENT,        /* this kernel does not have it */
	CAP_STATE_NOT_PERMITTED, /* it does, but not for us: rights, or a filter that refuses or kills */
	CAP_STATE_BROKEN,        /* failed in a way it should not, or said yes and did nothing */
	CAP_STATE_OFF            /* not to be asked: LULL_CAPS, or a filter the program installed */
};

/* Probes on the first call, enters the kernel only then. */
bool caps_has(enum cap cap) hidden;

/* What is known so far; does not probe. */
enum cap_state caps_state(enum cap cap) hidden;

/* Never probe or use CAP again. Wins over whatever was found. */
void caps_force_off(enum cap cap) hidden;

/* The call behind CAP was refused in use with -ERR: remember, unless forced off. */
void caps_refused(enum cap cap, int err) hidden;

/* Names for options and people: "process_madvise"; "live", "absent", "not permitted", "broken", "off", "not asked". */
const char *caps_name(enum cap cap) hidden;
const char *caps_state_name(enum cap_state state) hidden;

/* name: LEN bytes, not terminated. True and *ret set when it names a capability. */
bool caps_find(const char *name, size_t len, enum cap *ret) hidden;

#endif
