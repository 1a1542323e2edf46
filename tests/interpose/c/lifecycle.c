/* SPDX-License-Identifier: MIT */
/*
 * Allocation at the edges of a program's life: before constructors, in constructors of the program and of libraries, in thread-local
 * and thread-specific destructors, at exit, from libraries that come and go. Each stage leaves blocks that a later one checks.
 * Prints the order of the stages, which must not depend on the allocator.
 *
 *   lifecycle PLUGIN.so
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "blocks.h"

#define THREADS 16
#define ROUNDS 40
#define KEYS 4

static struct block *from_preinit, *from_first, *from_late, *for_exit;
static void *aligned_early;
static pthread_key_t keys[KEYS];
static _Atomic(struct block *) left_by_threads;
static atomic_uint destroyed, tls_destroyed, iterations;

extern void *__dso_handle;
extern int __cxa_thread_atexit_impl(void (*function)(void *), void *object, void *dso);

static void stage(const char *name)
{
	printf("%s\n", name);
	fflush(stdout);
}

/* Runs before every constructor, those of libraries included. */
static void preinit(void)
{
	from_preinit = block_new(700, 1);
	free(calloc(1000, 100));
	blocks_churn(100, 1);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(void) = preinit;

__attribute__((constructor(101))) static void construct_first(void)
{
	unsigned char *zeroes = calloc(3000, 7);

	block_check(from_preinit);
	from_first = block_new(150000, 2);
	MUST(!posix_memalign(&aligned_early, 4096, 10000));
	MUST((uintptr_t)aligned_early % 4096 == 0);
	for (size_t i = 0; i < 21000; i++)
		MUST(zeroes[i] == 0);
	free(zeroes);
	blocks_churn(200, 2);
}

__attribute__((constructor)) static void construct_late(void)
{
	from_first = realloc(from_first, 300000);
	MUST(from_first);
	block_check(from_first);
	from_late = block_new(40, 3);
}

__attribute__((destructor(101))) static void destruct_last(void)
{
	block_drop(for_exit);
	blocks_churn(100, 4);
	stage("last destructor");
}

__attribute__((destructor)) static void destruct_early(void)
{
	block_check(for_exit);
	blocks_churn(100, 5);
	stage("destructor");
}

static void at_exit(void)
{
	struct block *b = block_new(9000, 6);

	block_drop(from_late);
	block_drop(b);
	for_exit = block_new(5000, 7);
	stage("atexit");
}

static void at_exit_first(void)
{
	blocks_churn(100, 8);
	stage("atexit, registered last");
}

/*
 * A value's destructor drops it, allocates, and sets the next key and sometimes its own again, as long as the C library still looks
 * at keys: four iterations.
 */
static void destroy_value(void *value)
{
	struct block *b = value;
	unsigned long round = b->seed;

	block_drop(b);
	blocks_churn(20, round);
	atomic_fetch_add(&iterations, 1);
	if (round % 8 < 3)
		MUST(!pthread_setspecific(keys[round % KEYS], block_new(100 + round, round + 1)));
	else
		block_drop(atomic_exchange(&left_by_threads, block_new(2000, round)));
	atomic_fetch_add(&destroyed, 1);
}

/* What a thread_local object of C++ has: runs before the values' destructors. */
static void destroy_tls(void *object)
{
	block_drop(object);
	blocks_churn(30, 9);
	MUST(!pthread_setspecific(keys[0], block_new(64, 8)));
	atomic_fetch_add(&tls_destroyed, 1);
}

static void *thread_work(void *arg)
{
	unsigned long n = (unsigned long)arg;

	for (unsigned i = 1; i < KEYS; i++)
		MUST(!pthread_setspecific(keys[i], block_new(50 * i, 8 * n)));
	MUST(!__cxa_thread_atexit_impl(destroy_tls, block_new(77, n), &__dso_handle));
	blocks_churn(40, n);
	if (n % 2)
		pthread_exit(block_new(300, n));
	return block_new(300, n);
}

/* A thread whose only allocations are in its destructors. */
static void *thread_silent(void *arg)
{
	MUST(!pthread_setspecific(keys[0], arg));
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < KEYS; i++)
		MUST(!pthread_key_create(&keys[i], destroy_value));
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned long i = 0; i < THREADS; i++) {
			bool silent = i % 4 == 0;
			void *arg = silent ? block_new(99, 8) : (void *)i;

			MUST(!pthread_create(&threads[i], NULL, silent ? thread_silent : thread_work, arg));
		}
		for (unsigned i = 0; i < THREADS; i++) {
			void *result;

			MUST(!pthread_join(threads[i], &result));
			block_drop(result);
		}
	}
	block_drop(left_by_threads);
	printf("threads: thread-local destructors %u, values' destructors %u\n", tls_destroyed, destroyed);
}

static void *use_plugin(void *arg)
{
	struct block *(*make)(size_t) = (struct block * (*)(size_t)) arg;

	return make(2500);
}

/* One life of the library: its blocks outlive it, ours go into it, threads that never saw it touch its thread-local memory. */
static void plugin_once(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct block *(*make)(size_t), *made[THREADS];
	void (*drop)(struct block *);
	pthread_t threads[THREADS];

	if (!library)
		DIE("%s", dlerror());
	make = (struct block * (*)(size_t)) dlsym(library, "plugin_make");
	drop = (void (*)(struct block *))dlsym(library, "plugin_drop");
	MUST(make && drop);
	for (unsigned i = 0; i < 4; i++)
		MUST(!pthread_create(&threads[i], NULL, use_plugin, (void *)make));
	for (unsigned i = 0; i < 4; i++)
		MUST(!pthread_join(threads[i], (void **)&made[i]));
	drop(block_new(800, 10));
	drop(make(60000));
	MUST(!dlsym(library, "plugin_no_such_symbol") && dlerror());
	MUST(!dlclose(library));
	for (unsigned i = 0; i < 4; i++)
		block_drop(made[i]);
}

/* errno is part of the contract at every stage. */
static void check_errno(void)
{
	volatile size_t huge = SIZE_MAX / 2 + 1;

	errno = 17;
	free(malloc(10));
	free(malloc(200000));
	free(malloc(5000000));
	MUST(errno == 17);
	MUST(!malloc(huge) && errno == ENOMEM);
	errno = 0;
	MUST(!calloc(huge, 2) && errno == ENOMEM);
}

int main(int argc, char **argv)
{
	MUST(argc == 2);
	stage("main");
	/* A library's own vain look-ups are not the program's business. */
	MUST(!dlerror());
	atexit(at_exit);
	atexit(at_exit_first);
	block_drop(from_preinit);
	block_check(from_first);
	free(from_first);
	free(aligned_early);
	block_check(from_late);
	check_errno();
	run_threads();
	for (unsigned i = 0; i < 30; i++)
		plugin_once(argv[1]);
	stage("end of main");
	return 0;
}
