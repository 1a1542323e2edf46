/* SPDX-License-Identifier: MIT */
/*
 * A library that comes before the allocator in LD_PRELOAD, as profilers do: it counts calls and finds the next malloc with dlsym,
 * which may itself allocate. At exit it checks that as many blocks were freed as its count allows.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_ulong allocated, freed;
static _Atomic(void *(*)(size_t)) next_malloc;
static _Atomic(void (*)(void *)) next_free;

/* The order in which POSIX wants it: an object pointer read as a function's. */
#define NEXT(variable, name) (*(void **)&variable = dlsym(RTLD_NEXT, name))

void *malloc(size_t size)
{
	void *(*next)(size_t) = next_malloc;

	if (!next) {
		NEXT(next, "malloc");
		if (!next)
			_exit(90);
		next_malloc = next;
	}
	atomic_fetch_add_explicit(&allocated, 1, memory_order_relaxed);
	return next(size);
}

void free(void *block)
{
	void (*next)(void *) = next_free;

	if (!next) {
		NEXT(next, "free");
		if (!next)
			_exit(91);
		next_free = next;
	}
	if (block)
		atomic_fetch_add_explicit(&freed, 1, memory_order_relaxed);
	next(block);
}

__attribute__((constructor)) static void construct(void)
{
	free(malloc(100));
}

__attribute__((destructor)) static void destruct(void)
{
	if (atomic_load(&allocated) == 0 || atomic_load(&freed) == 0)
		_exit(92);
}
