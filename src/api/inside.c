/* SPDX-License-Identifier: MIT */
/*
 * Looks through the stack above a parked thread's blocking call for the frame of a signal that interrupted a fast path. In it the kernel
 * saved the program counter beside a word that tells it from a mere pointer to one of these functions. What is left of an old frame may
 * look the same; that costs a sweep, no more. The stack may be any: the thread's own, a signal stack or a coroutine's, whose end nobody
 * knows; so a page of it is read only when it is known to be readable.
 */
#include "api/inside.h"

#include "kernel/kernel.h"

#include <errno.h>

/* Deeper stacks are not looked through: at 4 words a nanosecond this is some 10 us. The thread then is not parked. */
#define LOOK_BYTES (256 * KIB)

__thread unsigned inside_slow_n __attribute__((tls_model("initial-exec")));

/* The linker's. Weak: a test may be linked without any function of the section. */
extern const char __start_lull_fast[] hidden __attribute__((weak)), __stop_lull_fast[] hidden __attribute__((weak));

extern void *__libc_stack_end; /* ld.so's: where the first thread's stack begins */

/* Where the stack that SP points into ends: glibc puts a thread's descriptor at the end of its stack. 0: somewhere else. */
static uintptr_t stack_end(uintptr_t sp, uintptr_t self)
{
	uintptr_t ends[] = {self, (uintptr_t)__libc_stack_end};

	for (size_t i = 0; i < array_len(ends); i++)
		if (sp < ends[i] && ends[i] - sp <= LOOK_BYTES)
			return ends[i];
	return 0;
}

/* The kernel reads the word to compare it; should it be just this one, the wait is over at once. Of the calls that read for us this is one
 * that no filter forbids. */
static bool is_readable(uintptr_t addr)
{
	return kernel.futex_wait((const void *)addr, 0x6c756c6c, 0) != -EFAULT;
}

/* What the kernel saves behind the program counter (struct sigcontext), as it is for user code. */
#define SAVED_WORDS 3

static bool is_saved_pc(const volatile uintptr_t *word)
{
#if defined(__x86_64__)
	return (word[2] & 0xffff) == 0x33; /* the flags, then the code segment */
#elif defined(__aarch64__)
	return (word[1] & 0xf) == 0; /* the processor state: exception level 0 */
#else
	(void)word;
	return true;
#endif
}

/* Of other functions' frames, between whose variables AddressSanitizer puts words that nobody is to read. */
__attribute__((no_sanitize_address)) static noinline bool has_fast_pc(uintptr_t from, uintptr_t to)
{
	for (; from + SAVED_WORDS * sizeof(uintptr_t) <= to; from += sizeof(uintptr_t)) {
		const volatile uintptr_t *word = (const volatile uintptr_t *)from;

		if (*word - (uintptr_t)__start_lull_fast < (uintptr_t)(__stop_lull_fast - __start_lull_fast) && is_saved_pc(word))
			return true;
	}
	return false;
}

/* One OS page after another, to the end of the stack or the first page that cannot be read. *ret_end: where that was. */
static bool look_carefully(uintptr_t sp, uintptr_t to, uintptr_t *ret_end)
{
	uintptr_t from = sp, next;

	for (; from < to && is_readable(from); from = next) {
		next = min_size(align_down(from, OS_PAGE_SIZE) + OS_PAGE_SIZE, to);
		/* with what may begin at the end of the page before */
		if (has_fast_pc(max_size(sp, from - SAVED_WORDS * sizeof(uintptr_t)), next))
			return true;
	}
	*ret_end = from;
	return false;
}

bool inside_fast_path(uintptr_t sp, uintptr_t self)
{
	uintptr_t end = stack_end(sp, self), looked;

	if (look_carefully(sp, end != 0 ? end : sp + LOOK_BYTES, &looked))
		return true;
	return looked == sp + LOOK_BYTES;
}
