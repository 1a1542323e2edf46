/* SPDX-License-Identifier: MIT */
/*
 * The bell: how layers that free memory get the scavenger's attention without knowing it. Freed bytes are counted; past a mark a
 * sleeping scavenger is woken, or, when there is none yet, bell_unanswered tells the api layer to start one.
 *
 * Any thread rings; one thread waits.
 */
#ifndef LULL_KERNEL_BELL_H
#define LULL_KERNEL_BELL_H

#include "base/base.h"

#include <stdatomic.h>

/* What may lie about while the scavenger sleeps, and before there is one: a thread is not worth starting for less than 1 MiB. */
#define BELL_WAKE_BYTES (64 * KIB)
#define BELL_START_BYTES MIB

/* A hint: true means start the one who answers. Relaxed; a stale value delays or repeats an attempt, nothing else. */
extern _Atomic bool bell_unanswered hidden;

/* bytes were freed that a pass could return. */
void bell_ring(size_t bytes) hidden;
/* Wake now, or ask for a start, whatever the count. */
void bell_ring_now(void) hidden;

/* The one who answers: sleep until the bell rings or timeout_ns passed. Returns the bytes rung for since the last time. */
uint64_t bell_wait(uint64_t timeout_ns) hidden;
/* Sleep for NS whatever is rung: what is freed meanwhile waits its turn, and costs those who free no system call. */
void bell_doze(uint64_t ns) hidden;
/* Somebody answers from now on, or nobody does. */
void bell_answered(bool yes) hidden;

#endif
