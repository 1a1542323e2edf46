/* SPDX-License-Identifier: MIT */
/*
 * Kernel numbers newer than the headers of the oldest build machine (Debian 12, kernel headers 6.1). They are part of the kernel's
 * stable interface; whether the running kernel knows them is asked at run time (caps.h), never decided here.
 */
#ifndef LULL_KERNEL_ABI_H
#define LULL_KERNEL_ABI_H

#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

/* The same numbers on every architecture since the tables were unified (arch/.../syscall.tbl). */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

/* linux/io_uring.h, 6.3: the ring to register with is named by its number among the thread's registered ones. */
#define ABI_REGISTER_USE_REGISTERED_RING (1u << 31)

/* linux/pidfd.h, 6.14: the calling thread, in place of a descriptor. The value for the whole process was changed between 6.14 (-20000)
 * and 6.16 (-10001); this one never was, and both lead to the same memory. */
#ifndef PIDFD_SELF_THREAD
#define PIDFD_SELF_THREAD (-10000)
#endif

/* --- advice: linux/mman.h; GUARD since 6.13 ----------------------------------------------------------------------------------------- */

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

/* --- io_uring: linux/io_uring.h ------------------------------------------------------------------------------------------------------- */

#define ABI_IORING_OP_FUTEX_WAIT 51 /* 6.7 */
/* linux/futex.h, 6.7: what the ring's futex takes for a private 32-bit word. */
#define ABI_FUTEX2_PRIVATE_U32 (0x02 | 128)

/* --- userfaultfd: linux/userfaultfd.h ------------------------------------------------------------------------------------------------- */

#define ABI_UFFD_FEATURE_WP_ASYNC (UINT64_C(1) << 15) /* 6.7 */
#define ABI_UFFD_FEATURE_MOVE (UINT64_C(1) << 16)     /* 6.8 */
/* As accepted for a kernel after 6.18, none of which was at hand: used only where the probe saw their effect. */
#define ABI_UFFD_FEATURE_RWP (UINT64_C(1) << 17)
#define ABI_UFFD_FEATURE_RWP_ASYNC (UINT64_C(1) << 18)
#define ABI_UFFDIO_REGISTER_MODE_RWP (UINT64_C(1) << 3)

struct abi_uffdio_move {
	uint64_t dst, src, len, mode;
	int64_t move; /* bytes moved, or -errno */
};
#define ABI_UFFDIO_MOVE _IOWR(UFFDIO, 0x05, struct abi_uffdio_move)

struct abi_uffdio_rwprotect {
	uint64_t start, len;
	uint64_t mode; /* 1: protect, 0: undo */
};
#define ABI_UFFDIO_RWPROTECT _IOWR(UFFDIO, 0x09, struct abi_uffdio_rwprotect)

/* --- /proc/PID/pagemap: linux/fs.h, 6.7 ----------------------------------------------------------------------------------------------- */

struct abi_page_region {
	uint64_t start, end; /* addresses */
	uint64_t categories;
};

struct abi_pm_scan_arg {
	uint64_t size; /* of this struct */
	uint64_t flags;
	uint64_t start, end;
	uint64_t walk_end; /* out: where it stopped */
	uint64_t vec, vec_len; /* array of abi_page_region and its length */
	uint64_t max_pages;    /* 0: no limit */
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define ABI_PAGEMAP_SCAN _IOWR('f', 16, struct abi_pm_scan_arg)

#define ABI_PM_SCAN_WP_MATCHING (UINT64_C(1) << 0)
#define ABI_PM_SCAN_CHECK_WPASYNC (UINT64_C(1) << 1)

#define ABI_PAGE_IS_WRITTEN (UINT64_C(1) << 1)
#define ABI_PAGE_IS_PRESENT (UINT64_C(1) << 3)
#define ABI_PAGE_IS_PFNZERO (UINT64_C(1) << 5) /* the one page of zeros that all read */
#define ABI_PAGE_IS_HUGE (UINT64_C(1) << 6)
#define ABI_PAGE_IS_ACCESSED (UINT64_C(1) << 9) /* with RWP */

#endif
