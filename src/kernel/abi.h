/* SPDX-License-Identifier: MIT */
/*
 * Kernel numbers newer than the headers of the oldest build machine (Debian 12, kernel headers 6.1). They are part of the kernel's
 * stable interface; whether the running kernel knows them is asked at run time (caps.h), never decided here.
 */
#ifndef LULL_KERNEL_ABI_H
#define LULL_KERNEL_ABI_H

#include <sys/syscall.h>

/* The same numbers on every architecture since the tables were unified (arch/.../syscall.tbl). */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

/* linux/pidfd.h, 6.14: the calling thread, in place of a descriptor. The value for the whole process was changed between 6.14 (-20000)
 * and 6.16 (-10001); this one never was, and both lead to the same memory. */
#ifndef PIDFD_SELF_THREAD
#define PIDFD_SELF_THREAD (-10000)
#endif

#endif
