/* SPDX-License-Identifier: MIT */
/*
 * What is tried to find out whether a capability is there: the real thing, in small, judged by its effect wherever it has one that can be
 * seen. A trial may be killed at any call, so what it maps it maps over memory it was given, or says where, and what it opens is its
 * process's own.
 *
 * Called by the probe's child (probe.c), which shares the memory of a process whose threads run on.
 */
#ifndef LULL_KERNEL_TRIAL_H
#define LULL_KERNEL_TRIAL_H

#include "kernel/caps.h"

#define TRIAL_MAPPED 2

struct trial {
	enum cap cap;
	char *page;           /* trial_bytes(cap) of memory to try on: its first byte is 1, the rest was never touched */
	bool by_device;       /* userfaultfd is had by /dev/userfaultfd, not by its call */
	bool sees_resident;   /* mincore is live */
	void *volatile mapped[TRIAL_MAPPED]; /* OS pages the trial mapped where the kernel chose; NULL: not (any more) */
	volatile long answer; /* what the call that decides returned: -errno, or 0 and more */
	volatile bool effect; /* it did what it should */
	volatile bool ended;  /* it was not killed, whatever the answer so far */
};

/* Memory a trial of CAP needs: whole OS pages. */
size_t trial_bytes(enum cap cap) hidden;

void trial_run(struct trial *trial) hidden;

#endif
