/* SPDX-License-Identifier: MIT */
/*
 * Descriptors lull keeps in a program that counts on the low numbers being its own and may close any number at any time: moved up out of
 * its way, and asked who they are before each use, so that lull never reads, changes or closes a file of the program's.
 *
 * No state; any thread, also a fork child.
 */
#ifndef LULL_KERNEL_FD_H
#define LULL_KERNEL_FD_H

#include "base/base.h"

/* What a number referred to when it was ours. */
struct fd_mark {
	int fd;            /* -1: none */
	uint64_t dev, ino;
};

#define FD_NONE ((struct fd_mark){.fd = -1})

/* Returns the descriptor's new number, closed by exec; the old one when no higher number is to be had. */
int fd_move_up(int fd) hidden;
/* FD_NONE when the kernel does not say who it is: then it is never used or closed again, better than a stranger's. */
struct fd_mark fd_remember(int fd) hidden;
bool fd_is_ours(const struct fd_mark *mark) hidden;
/* Closes it when it is still ours; none afterwards. */
void fd_close(struct fd_mark *mark) hidden;

#endif
