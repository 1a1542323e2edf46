/* SPDX-License-Identifier: MIT */
/*
 * Every replaceable operator new and delete of C++17 to C++23 under its mangled name (Itanium C++ ABI, section 5.1), in C, so that the
 * library needs no C++ runtime. new is malloc until there is no memory. What C++ asks for then (new-handlers, bad_alloc, and catching
 * what a handler throws) is left to the program's own C++ runtime: its operator new calls malloc, which is ours, is refused in turn,
 * and does the rest by the book. All deletes are free: sizes and alignments are known from the address.
 *
 * Any thread.
 */
#include "api/fast.h"
#include "api/inside.h"
#include "kernel/report.h"

#include <lull/malloc.h>

#include <dlfcn.h>
#include <stdlib.h>

#if LULL_OVERRIDE

/* --- no memory: the runtime's turn ---------------------------------------------------------------------------------------------- */

/* In the static link of a program without dlopen the first is missing; the others are there when such a program uses C++ in earnest. */
extern __typeof__(dlopen) dlopen __attribute__((weak));
extern void (*std_get_new_handler(void))(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern void std_throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak, noreturn));

/* A runtime that came with a plugin is in nobody's global scope: ask for it by the names the two common ones have. */
static void *runtime_find_loaded(const char *mangled)
{
	static const char *const runtimes[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};

	if (dlopen == NULL)
		return NULL;
	for (size_t i = 0; i < array_len(runtimes); i++) {
		void *runtime = dlopen(runtimes[i], RTLD_LAZY | RTLD_NOLOAD);
		void *found = runtime != NULL ? dlsym(runtime, mangled) : NULL;

		if (runtime != NULL)
			dlclose(runtime); /* loaded by others, who call us from it: it stays */
		if (found != NULL)
			return found;
	}
	return NULL;
}

static void *runtime_find(const char *mangled)
{
	void *found = dlsym(RTLD_NEXT, mangled);

	return found != NULL ? found : runtime_find_loaded(mangled);
}

/* The static link: as the runtime would, but for what a handler throws out of a nothrow new. */
static void *new_by_hand(size_t size, size_t align, bool nothrow)
{
	void (*handler)(void);

	while (std_get_new_handler != NULL && (handler = std_get_new_handler()) != NULL) {
		handler();
		void *p = lull_memalign(align, size);
		if (p != NULL)
			return p;
	}
	if (nothrow)
		return NULL;
	if (std_throw_bad_alloc != NULL)
		std_throw_bad_alloc();
	report_warning((const char *const[]){"operator new: out of memory, and no C++ runtime to throw std::bad_alloc"}, 1);
	abort();
}

/* The tag's value is never looked at (its type has none); its address must be one. */
static const char nothrow_tag;

static noinline void *new_refused(size_t size)
{
	void *(*next)(size_t) = (void *(*)(size_t))runtime_find("_Znwm");

	return next != NULL ? next(size) : new_by_hand(size, 1, false);
}

static noinline void *new_refused_nothrow(size_t size)
{
	void *(*next)(size_t, const void *) = (void *(*)(size_t, const void *))runtime_find("_ZnwmRKSt9nothrow_t");

	return next != NULL ? next(size, &nothrow_tag) : new_by_hand(size, 1, true);
}

/* The runtime rounds the size up to a multiple of the alignment, and libstdc++ 12 lets that wrap: to no bytes, which there are. What is
 * refused for this size is refused for any larger one. */
static size_t size_for_runtime(size_t size)
{
	return min_size(size, PTRDIFF_MAX);
}

static noinline void *new_refused_aligned(size_t size, size_t align)
{
	void *(*next)(size_t, size_t) = (void *(*)(size_t, size_t))runtime_find("_ZnwmSt11align_val_t");

	return next != NULL ? next(size_for_runtime(size), align) : new_by_hand(size, align, false);
}

static noinline void *new_refused_aligned_nothrow(size_t size, size_t align)
{
	void *(*next)(size_t, size_t, const void *) =
		(void *(*)(size_t, size_t, const void *))runtime_find("_ZnwmSt11align_val_tRKSt9nothrow_t");

	return next != NULL ? next(size_for_runtime(size), align, &nothrow_tag) : new_by_hand(size, align, true);
}

/* --- new ------------------------------------------------------------------------------------------------------------------------ */

static noinline void *new_slow(size_t size)
{
	void *p = malloc_slow(size);

	return likely(p != NULL) ? p : new_refused(size);
}

static noinline void *new_slow_nothrow(size_t size)
{
	void *p = malloc_slow(size);

	return likely(p != NULL) ? p : new_refused_nothrow(size);
}

/* No header declares these names to C. */
void *_Znwm(size_t size);
void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag);
void *_ZnwmSt11align_val_t(size_t size, size_t align);
void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const void *tag);

inside_fast exported void *_Znwm(size_t size)
{
	void *p = fast_try(size);

	return likely(p != NULL) ? p : new_slow(size);
}

inside_fast exported void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
	void *p = fast_try(size);

	(void)tag;
	return likely(p != NULL) ? p : new_slow_nothrow(size);
}

exported void *_ZnwmSt11align_val_t(size_t size, size_t align)
{
	void *p = lull_memalign(align, size);

	return likely(p != NULL) ? p : new_refused_aligned(size, align);
}

exported void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const void *tag)
{
	void *p = lull_memalign(align, size);

	(void)tag;
	return likely(p != NULL) ? p : new_refused_aligned_nothrow(size, align);
}

#define SAME_AS(name) exported __attribute__((alias(#name)))

SAME_AS(_Znwm) void *_Znam(size_t size);
SAME_AS(_ZnwmRKSt9nothrow_t) void *_ZnamRKSt9nothrow_t(size_t size, const void *tag);
SAME_AS(_ZnwmSt11align_val_t) void *_ZnamSt11align_val_t(size_t size, size_t align);
SAME_AS(_ZnwmSt11align_val_tRKSt9nothrow_t) void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t align, const void *tag);

/* --- delete: the arguments behind the first are never read, so one function of one argument serves all --------------------------- */

void _ZdlPv(void *p);

inside_fast exported void _ZdlPv(void *p)
{
	fast_free(p);
}

SAME_AS(_ZdlPv) void _ZdaPv(void *p);
SAME_AS(_ZdlPv) void _ZdlPvm(void *p);
SAME_AS(_ZdlPv) void _ZdaPvm(void *p);
SAME_AS(_ZdlPv) void _ZdlPvRKSt9nothrow_t(void *p);
SAME_AS(_ZdlPv) void _ZdaPvRKSt9nothrow_t(void *p);
SAME_AS(_ZdlPv) void _ZdlPvSt11align_val_t(void *p);
SAME_AS(_ZdlPv) void _ZdaPvSt11align_val_t(void *p);
SAME_AS(_ZdlPv) void _ZdlPvmSt11align_val_t(void *p);
SAME_AS(_ZdlPv) void _ZdaPvmSt11align_val_t(void *p);
SAME_AS(_ZdlPv) void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *p);
SAME_AS(_ZdlPv) void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *p);

#endif
