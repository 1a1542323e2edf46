/* SPDX-License-Identifier: MIT */
/*
 * Handing over: a thread that sweeps its own small pages only finds the holes; the scavenger returns them. So the thread waits for no
 * system call, and for no sweep under way. What is handed over is in flight: nobody is given it before the kernel has answered.
 */
#ifndef LULL_RECLAIM_HANDOFF_H
#define LULL_RECLAIM_HANDOFF_H

#include "heap/heap.h"

/* The changed small pages of a heap that the caller holds as its running thread. False: there was no room for all of them. */
bool handoff_changed(struct heap *heap) hidden;
/* Those of them that are quiet, see sweep_quiet; as far as there is room. True: something was handed over. */
bool handoff_quiet(struct heap *heap, unsigned max_pages) hidden;
/* Return what was handed over. With the reclaim lock held. Returns bytes the kernel accepted. */
size_t handoff_flush(void) hidden;

void handoff_fork_prepare(void) hidden;
void handoff_fork_done(bool child) hidden;

#endif
