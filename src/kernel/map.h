/* SPDX-License-Identifier: MIT */
/*
 * Address space: reserve without access, make usable in steps, give whole ranges up. Reservations cost no memory and, being without
 * write access, no commit charge in any overcommit mode.
 */
#ifndef LULL_KERNEL_MAP_H
#define LULL_KERNEL_MAP_H

#include "base/base.h"

/* len, align: multiples of the OS page size, align a power of two. Returns the start, aligned, no access; or NULL when refused. */
char *map_reserve(size_t len, size_t align);
/* Make a part of a reservation readable and writable. True on success; false leaves it as it was. */
bool map_commit(char *addr, size_t len);
/* Drop contents, access and commit charge of a part of a reservation (mapped afresh without access: the only way that gives the
 * charge back under vm.overcommit_memory=2). */
bool map_decommit(char *addr, size_t len);
/* Ask for no huge pages here; refused where the kernel has none, which is as good. */
void map_no_huge_pages(char *addr, size_t len);
/* Some emulators say yes to MADV_DONTNEED and do nothing: what they "dropped" would be taken for zero. False: none can be
 * given back. */
bool map_can_drop(void);
/* Give the memory back; it reads as zero from then on. False: the kernel refused, and it is as it was. */
bool map_drop(char *addr, size_t len);
/* Zero memory that may hold old bytes, without bringing in what is not there. addr, len: of usable memory, any alignment. huge: it may be
 * in huge pages, which are dropped whole or not at all. */
void map_clear(char *addr, size_t len, bool huge);
void map_release(char *addr, size_t len);

/* What /proc/PID/maps calls the range, reserved or committed. Only where CAPS_VMA_NAME is live. */
void map_name(char *addr, size_t len) hidden;

#endif
