/* SPDX-License-Identifier: MIT */
/*
 * The follow-up rule as the waits of lull use it: <lull/idle.h> has its public half. A release either leaves the thread parked or was
 * made on the spot, and only then does the thread follow up by itself.
 */
#ifndef LULL_API_IDLE_RELEASE_H
#define LULL_API_IDLE_RELEASE_H

#include "base/base.h"

#include <lull/idle.h>

#define IDLE_RELEASE_NEVER UINT64_MAX

/* What is asked of the reclaim layer, in a table that tests replace, as they do that of the kernel. */
struct idle_release_calls {
	bool (*release)(void); /* true: handed over, the thread is parked */
	void (*end)(void);     /* leave that park */
	bool (*pending_own)(void);
};
extern struct idle_release_calls idle_release_calls hidden;

/* A wait begins. Its quiet time counts from now: a release that is still to come is due 100 ms later, however long ago the last was. */
void idle_release_wait_begins(struct lull_idle_release *release, uint64_t now_ns) hidden;

/* lull_idle_release_run; true: the thread is parked, and idle_release_end is to be called when the wait is over. */
bool idle_release_run(struct lull_idle_release *release) hidden;
void idle_release_end(void) hidden;

#endif
