/* SPDX-License-Identifier: MIT */
/*
 * The trials on a ring of io_uring (see trial.h). Each makes a ring of its own the way lull would use one: registered, so that its
 * descriptor is closed at once and the program never meets it.
 */
#ifndef LULL_KERNEL_TRIAL_RING_H
#define LULL_KERNEL_TRIAL_RING_H

#include "kernel/trial.h"

void trial_ring(struct trial *trial) hidden;         /* it takes a request and answers */
void trial_ring_madvise(struct trial *trial) hidden; /* IORING_OP_MADVISE */
void trial_ring_poll(struct trial *trial) hidden;    /* IORING_OP_POLL_ADD */
void trial_ring_futex(struct trial *trial) hidden;   /* IORING_OP_FUTEX_WAIT */

#endif
