/* SPDX-License-Identifier: MIT */
/*
 * lull: hints about the program's own file mappings. lull itself never advises the kernel on memory that it did not map: clean file
 * pages are the kernel's to drop, and dropping them early costs whoever reads them next. A program that knows better says so here, once,
 * for a range it is about to read or has read for the last time.
 *
 * Both return 0 or a code of <errno.h>, and leave errno alone. They allocate nothing and take no lock: any thread, signal handlers too.
 * LULL_FILE_HINTS=0 turns both into calls that do nothing and return 0.
 */
#ifndef LULL_FILE_H
#define LULL_FILE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The range will be read soon: have it read from its file in the background (MADV_WILLNEED).
 *
 * addr, len   any bytes; whole OS pages around them are meant
 *
 * EINVAL      the range ends beyond the address space
 * ENOMEM      a part of it is not mapped; the rest was asked for
 * EBADF, EIO, EAGAIN   the kernel's own answer, see madvise(2)
 */
int lull_file_willneed(const void *addr, size_t len);

/*
 * The range will not be read again: this process gives its pages up (MADV_DONTNEED). What is read there later all the same is read from
 * the file again. Only for private, read-only mappings of files from which nothing can be lost, which is looked up first, and for the
 * whole range or not at all. The mapping must not be changed meanwhile: no mmap, mprotect or write to it by another thread.
 *
 * addr, len   any bytes; the whole OS pages in them are meant, and the last one of a mapping though the range ends inside it
 *
 * EINVAL      the range ends beyond the address space, or a part of it is locked in memory (mlock)
 * ENOMEM      a part of it is not mapped
 * EBADF       a part of it is not a file: anonymous memory, lull's own, a stack, the vdso
 * EOPNOTSUPP  a part of it is a shared mapping
 * EACCES      a part of it can be written
 * EBUSY       a part of it was written, before it was made read-only or by the loader (relocations): that is nowhere else
 * ENOSYS      this cannot be found out here: no /proc, or not readable (prctl(2), PR_SET_DUMPABLE)
 */
int lull_file_done_with(const void *addr, size_t len);

#ifdef __cplusplus
}
#endif
#endif
