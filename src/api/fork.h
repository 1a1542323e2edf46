/* SPDX-License-Identifier: MIT */
/*
 * fork in a process with threads: every lock of lull is taken before and free again after it, on both sides.
 */
#ifndef LULL_API_FORK_H
#define LULL_API_FORK_H

#include "base/base.h"

/* Once, before anybody else registers: handlers that prepare run in reverse order, so ours runs last, when those of others, which may
 * allocate, are through; and first again afterwards. */
void fork_register(void) hidden;

/* Every lock of ours, as around a fork. Not in the middle of a call of ours. */
void fork_lock_all(void) hidden;
void fork_unlock_all(void) hidden;

#endif
