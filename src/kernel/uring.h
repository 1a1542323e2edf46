/* SPDX-License-Identifier: MIT */
/*
 * The entries ring_* of the call table (kernel/kernel.h) as the running kernel fulfils them.
 */
#ifndef LULL_KERNEL_URING_H
#define LULL_KERNEL_URING_H

#include "kernel/kernel.h"

#include "base/base.h"

int uring_open(unsigned entries, unsigned workers_max) hidden;
ssize_t uring_submit(const struct kernel_request *request, size_t n, int advice) hidden;
struct kernel_answer uring_wait(unsigned expected) hidden;
void uring_close(void) hidden;

#endif
