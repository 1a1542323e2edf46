/* SPDX-License-Identifier: MIT */
/*
 * Ranges to runs: sorted by address, touching ones merged, larger runs first. Pure, in place, no worst case; any thread.
 */
#ifndef LULL_KERNEL_RUNS_H
#define LULL_KERNEL_RUNS_H

#include "kernel/advise.h"

/* Sort RANGE, and fill RUN, which has room for N, with the runs of touching ranges, largest first, of equal ones the lowest address. Memory
 * that may be huge and other memory make no run together. Returns how many runs. */
size_t runs_make(struct advise_run *run, struct advise_range *range, size_t n) hidden;

#endif
