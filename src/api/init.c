/* SPDX-License-Identifier: MIT */
/*
 * The parts of start-up in the order of their needs. Threads and fork come first and need nothing but libc's static data; options need
 * an environment, which libc has before any constructor but not before the very first allocations of the loader; looking up the real
 * blocking calls needs the loader and waits for the constructor.
 *
 * Any thread; the first malloc of a process comes before its second thread.
 */
#include "api/init.h"

#include "api/block.h"
#include "api/fork.h"
#include "api/inside.h"
#include "api/options.h"
#include "api/stats.h"
#include "heap/heap.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/report.h"
#include "kernel/sys.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

_Atomic bool init_done;
int init_pid;

static pthread_key_t end_key;

/* Pages of 16 or 64 KiB would void every sum we do. */
static void check_os_page(void)
{
	if (getauxval(AT_PAGESZ) == OS_PAGE_SIZE)
		return;
	report_warning((const char *const[]){"this kernel's pages are not 4 KiB; lull is for 4 KiB pages only"}, 1);
	abort();
}

/* Destructors of other keys may still allocate and free: they get all rounds that libc promises, we take the last one. ThreadSanitizer
 * takes its own leave of the thread in that one. */
#ifdef __SANITIZE_THREAD__
#define END_ROUND (PTHREAD_DESTRUCTOR_ITERATIONS - 1)
#else
#define END_ROUND PTHREAD_DESTRUCTOR_ITERATIONS
#endif

static void thread_end(void *round)
{
	uintptr_t n = (uintptr_t)round;

	if (n < END_ROUND && pthread_setspecific(end_key, (void *)(n + 1)) == 0)
		return;
	inside_enter();
	reclaim_thread_end();
	heap_thread_end();
	inside_leave();
	if (heap_counts().threads == 0) {
		reclaim_scavenger_leave();
		return;
	}
	scavenger_maybe_start();
}

/* The thread has its heap by now, so libc may allocate for this (it does from the 33rd key on). */
static void thread_attached(void)
{
	pthread_setspecific(end_key, (void *)1);
}

bool init_is_own_process(void)
{
	return sys_getpid() == init_pid;
}

void init_forked(void)
{
	if (!caps_is_minimal())
		init_pid = sys_getpid();
}

static void init_threads(void)
{
	static atomic_flag begun = ATOMIC_FLAG_INIT;

	if (atomic_flag_test_and_set(&begun))
		return;
	check_os_page();
	fork_register();
	heap_is_torn = inside_fast_path;
	reclaim_may_start = init_is_own_process;
	if (pthread_key_create(&end_key, thread_end) == 0)
		heap_on_attach = thread_attached;
}

void init_now(void)
{
	init_threads();
	options_apply_once();
	/* of the calls one may do without this is the first */
	if (init_pid == 0 && environ != NULL && !caps_is_minimal())
		init_pid = sys_getpid();
	atomic_store_explicit(&init_done, environ != NULL, memory_order_relaxed);
}

#if LULL_OVERRIDE
/* A sanitizer's runtime takes the place of strdup, getline and others as well, and gives out blocks of its own there, though malloc and
 * free are ours when we come first (verify_asan_link_order=0). Its blocks go back to it. */
/* Weak, not looked up: a look-up that fails leaves a message behind that the next one frees, in whatever free comes before ours. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

static void (*foreign_free)(void *p);
static size_t (*foreign_usable)(void *p);

static bool on_foreign(void *p, size_t *ret_usable)
{
	if (ret_usable != NULL)
		*ret_usable = foreign_usable(p);
	else
		foreign_free(p);
	return true;
}

static void find_sanitizer(void)
{
	if (__asan_init == NULL && __tsan_init == NULL) {
		kernel_use_libc_clock();
		return;
	}
	foreign_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	foreign_usable = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
	if (foreign_free != NULL && foreign_usable != NULL)
		heap_on_foreign = on_foreign;
}
#else
static void find_sanitizer(void)
{
	kernel_use_libc_clock();
}
#endif

/* 101: the first number programs may use. */
static __attribute__((constructor(101))) void init_at_load(void)
{
	init_now();
	find_sanitizer();
	block_find_all();
	reclaim_on_tick = stats_tick;
}
