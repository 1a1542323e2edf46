/* SPDX-License-Identifier: MIT */
/*
 * Waits on addresses (<lull/wait.h>): what the rest of the library needs to know about them.
 */
#ifndef LULL_API_ADDRESS_H
#define LULL_API_ADDRESS_H

#include "base/base.h"

/* fork: in the child nobody waits, and no lock is held. Nothing is taken before it, since no list outlives it. */
void address_fork_done(bool child) hidden;

#endif
