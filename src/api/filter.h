/* SPDX-License-Identifier: MIT */
/*
 * A system call filter that the program is about to install (seccomp(2)). Nobody here can know what it will allow, and many kill: from
 * that moment on lull makes no call but mmap, munmap, mprotect, madvise and futex. There is no way back, also when the filter is refused.
 *
 * Any thread, before the call that installs it.
 */
#ifndef LULL_API_FILTER_H
#define LULL_API_FILTER_H

#include "base/base.h"

/* Asked with the arguments of prctl and of seccomp. Those that cannot install anything, as programs make them to see what there is, change
 * nothing. */
void filter_before_prctl(int option, unsigned long mode, unsigned long program) hidden;
void filter_before_seccomp(unsigned long operation, unsigned long flags, unsigned long program) hidden;

#endif
