/* SPDX-License-Identifier: MIT */
/*
 * Calls of the program that may block, interposed so that a thread's heap can be swept while it waits.
 */
#ifndef LULL_API_BLOCK_H
#define LULL_API_BLOCK_H

#include "base/base.h"

/* LULL_AUTO_IDLE. Any thread; takes effect at its next call. */
void block_set_auto_idle(bool on) hidden;

/* Look up all the real functions at once, at start: a first look-up in the middle of a program would take the loader's lock, which
 * a constructor that waits for its own thread already holds. */
void block_find_all(void) hidden;

#endif
