/* SPDX-License-Identifier: MIT */
/*
 * Ranges that the ring works on: kept here, apart from their batch, until the kernel has answered for all of each. What it refused or could
 * not do is put to madvise before its fate is told. The owner of the ring only; empty for everyone else.
 */
#ifndef LULL_KERNEL_FLIGHT_H
#define LULL_KERNEL_FLIGHT_H

#include "kernel/advise.h"

/* Hand the first N runs of the batch to the ring; ring_ready() was true. Waits only for room. Returns the bytes the kernel accepted in
 * answers told meanwhile. */
size_t flight_add(struct advise_batch *batch, size_t n) hidden;

/* Wait for all answers. Returns the bytes accepted in them. */
size_t flight_finish(void) hidden;

/* In the child of a fork, which takes the lock this is under: nothing is in flight then. */
void flight_forget(void) hidden;

#endif
