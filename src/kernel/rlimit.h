/* SPDX-License-Identifier: MIT */
/*
 * Limits of this process and settings of this machine that decide how address space is taken.
 */
#ifndef LULL_KERNEL_RLIMIT_H
#define LULL_KERNEL_RLIMIT_H

#include "base/base.h"

/* RLIMIT_AS in bytes; SIZE_MAX when there is none or it cannot be read. Enters the kernel. */
size_t rlimit_address_space(void);

/* The kernel refuses a mapping larger than all memory and swap (vm.overcommit_memory=0), but not a reservation made usable step by step:
 * whether it would refuse LEN bytes at once. Enters the kernel for 1 GiB and more only. */
bool rlimit_is_obvious_overcommit(size_t len);

/* Memory of this machine, bytes; 0 when the kernel does not say. Enters the kernel. */
size_t rlimit_memory(void);

/* vm.overcommit_memory: 0, 1 or 2; 0 when it cannot be read. Enters the kernel each time. */
int rlimit_overcommit(void);

#endif
