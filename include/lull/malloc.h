/* SPDX-License-Identifier: MIT */
/*
 * lull: the allocation calls under their own names.
 *
 * liblull.so and liblull.a also export the standard names (malloc, free, operator new, ...) with the same behaviour; these
 * prefixed names exist for programs that want lull beside another allocator, and for tests. A block from one name may be
 * given to the other. All calls may be made from any thread; none of them is async-signal-safe, as the standard ones.
 */
#ifndef LULL_MALLOC_H
#define LULL_MALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * size      bytes, 0 .. PTRDIFF_MAX; 0 gives a unique block
 * Returns a block aligned to 16 bytes that the caller owns until lull_free, or NULL with errno ENOMEM (too large, or the
 * kernel refused memory after one forced collect). Contents undefined. May enter the kernel when memory must be made usable.
 */
void *lull_malloc(size_t size);

/* As lull_malloc for count * size bytes, all zero; ENOMEM too when the product overflows. Known-zero memory is not cleared again. */
void *lull_calloc(size_t count, size_t size);

/*
 * p         NULL, or a block from any call of this page; it is the callee's afterwards
 * Leaves errno alone. A block freed twice, a pointer that is no block, or a damaged block ends the process with one line where it is
 * found out. Always: a second free of a block over 8 KiB whose place nothing has taken meanwhile. A small block's second free is found
 * at once if no other was freed into its page since, else when its page is next swept; a damaged one when it would be handed out.
 */
void lull_free(void *p);

/*
 * p         NULL (then as lull_malloc) or a block; on success the caller owns the returned block instead
 * size      bytes; 0 with a block frees it and returns NULL (as glibc)
 * Returns the block, contents kept up to the smaller size, or NULL with ENOMEM and P untouched.
 */
void *lull_realloc(void *p, size_t size);

/* As lull_realloc for count * size bytes; ENOMEM when the product overflows. */
void *lull_reallocarray(void *p, size_t count, size_t size);

/*
 * align     bytes; lull_posix_memalign: power of two and multiple of sizeof(void *), else EINVAL is returned;
 *           lull_aligned_alloc, lull_memalign: rounded up to a power of two as glibc does
 * The block is given back with lull_free. lull_posix_memalign returns 0 or an errno value and leaves errno alone.
 */
int lull_posix_memalign(void **ret, size_t align, size_t size);
void *lull_aligned_alloc(size_t align, size_t size);
void *lull_memalign(size_t align, size_t size);

/* OS-page aligned; lull_pvalloc rounds the size up to OS pages. */
void *lull_valloc(size_t size);
void *lull_pvalloc(size_t size);

/* Bytes that may be used behind P, at least what was asked for; 0 for NULL. */
size_t lull_malloc_usable_size(const void *p);

/* C23: as lull_free; SIZE and ALIGN must be those of the allocation. They are not needed to find the block. */
void lull_free_sized(void *p, size_t size);
void lull_free_aligned_sized(void *p, size_t align, size_t size);

#ifdef __cplusplus
}
#endif
#endif
