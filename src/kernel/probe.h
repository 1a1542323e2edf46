/* SPDX-License-Identifier: MIT */
/*
 * One trial (trial.h) made in a child, and what became of it. No state; any thread, and several at once.
 */
#ifndef LULL_KERNEL_PROBE_H
#define LULL_KERNEL_PROBE_H

#include "kernel/caps.h"

struct probe_result {
	enum cap_state state; /* UNKNOWN: could not be tried just now */
	int reason;           /* as caps_reason */
};

/* by_device: userfaultfd by /dev/userfaultfd. sees_resident: mincore may be used. errno stays. */
struct probe_result probe(enum cap cap, bool by_device, bool sees_resident) hidden;

/* What an answer of the kernel (-errno, or CAPS_KILLED) says about a capability. */
enum cap_state probe_state_of(int answer) hidden;

#endif
