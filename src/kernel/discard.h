/* SPDX-License-Identifier: MIT */
/*
 * Returning runs at once, on the calling thread: by the vector call while it is open, else by madvise. The one thread in the engine.
 */
#ifndef LULL_KERNEL_DISCARD_H
#define LULL_KERNEL_DISCARD_H

#include "kernel/advise.h"

/* Is the vector call open, as far as that is known? It is after a refusal only once it is forced again. */
bool discard_by_vector(void) hidden;
/* Ask whether it is, if nobody did yet. May probe. */
void discard_find(void) hidden;
/* From now on the vector call is taken whatever caps found, unless it is forced off there. */
void discard_force_vector(void) hidden;

/* Return runs FROM to N of the batch and tell their ranges. Returns the bytes the kernel accepted. */
size_t discard_runs(struct advise_batch *batch, size_t from, size_t n, bool vector) hidden;

/* Give up what the batch's huge runs cover of huge pages in part. */
void discard_split(struct advise_batch *batch, size_t runs) hidden;

#endif
