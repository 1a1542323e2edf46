/* SPDX-License-Identifier: MIT */
/*
 * Suite inside: the answer to "is this thread in the middle of an allocation?" given on every kind of stack, and to handlers of signals
 * that hit at random instructions of malloc and free, where the interrupted program counter tells what the right answer is: no is never
 * said wrongly, yes only where an old signal frame shows through.
 */
#include "api/inside.h"

#include "support/unit.h"

#include <lull/malloc.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

/* Both questions at once, about the calling thread. */
static noinline bool inside_allocator(void)
{
	return inside_slow_path() || inside_fast_path((uintptr_t)__builtin_frame_address(0), (uintptr_t)pthread_self());
}

/* Hits in the fast paths wanted, and loops made at most for them: about one signal in three hits one in the loop below. */
#define HITS 200
#define LOOPS_MAX 20000000

extern const char __start_lull_fast[], __stop_lull_fast[];

static bool answer;

static void ask(void)
{
	answer = inside_allocator();
}

START_TEST(test_ordinary_code_is_not_inside)
{
	ck_assert(!inside_allocator());
	lull_free(lull_malloc(100));
	lull_free(lull_malloc(10000));
	ck_assert(!inside_allocator());
}
END_TEST

START_TEST(test_slow_paths_are_inside_until_all_are_left)
{
	inside_enter();
	inside_enter();
	ck_assert(inside_allocator());
	inside_leave();
	ck_assert(inside_allocator());
	inside_leave();
	ck_assert(!inside_allocator());
}
END_TEST

/* As a signal leaves it on the stack: the program counter, and behind it what tells it from a pointer. */
static noinline bool ask_below_pc(uintptr_t pc)
{
	volatile uintptr_t saved[] = {pc, 0, 0x33};
	bool ret = inside_allocator();

	return ret && saved[0] == pc;
}

static noinline bool ask_below_pointer(uintptr_t pointer)
{
	volatile uintptr_t saved[] = {pointer, 1, 1};
	bool ret = inside_allocator();

	return ret && saved[0] == pointer;
}

START_TEST(test_only_saved_counters_in_fast_paths_count)
{
	uintptr_t start = (uintptr_t)__start_lull_fast, stop = (uintptr_t)__stop_lull_fast;

	ck_assert_uint_lt(start, stop);
	ck_assert(start <= (uintptr_t)lull_malloc && (uintptr_t)lull_malloc < stop);
	ck_assert(start <= (uintptr_t)lull_free && (uintptr_t)lull_free < stop);
	ck_assert(ask_below_pc(start));
	ck_assert(ask_below_pc(stop - 1));
	ck_assert(!ask_below_pc(start - 1));
	ck_assert(!ask_below_pc(stop));
	ck_assert(!ask_below_pointer((uintptr_t)lull_malloc));
}
END_TEST

/* FRAMES of 1 KiB, then the question with WORD above all of them. */
static noinline bool ask_deep(unsigned frames, uintptr_t word)
{
	volatile char frame[1024];

	frame[0] = (char)frames;
	if (frames == 0)
		return ask_below_pc(word);
	bool ret = ask_deep(frames - 1, word);
	return ret && frame[0] == (char)frames;
}

START_TEST(test_depth_is_no_matter_up_to_a_point)
{
	ck_assert(!ask_deep(100, 0));
	ck_assert(ask_deep(100, (uintptr_t)lull_free + 1));
	/* deeper than is looked through: cannot be told, so yes */
	ck_assert(ask_deep(400, 0));
}
END_TEST

static void *ask_in_thread(void *unused)
{
	(void)unused;
	bool plain = ask_deep(2, 0), deep = ask_deep(30, 0), hit = ask_deep(30, (uintptr_t)lull_free + 1), again = ask_deep(30, 0);
	answer = !plain && !deep && hit && !again;
	return NULL;
}

START_TEST(test_threads_have_stacks_of_their_own)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 * KIB); /* less than is looked through: it must stop at its end */
	ck_assert_int_eq(pthread_create(&thread, &attr, ask_in_thread, NULL), 0);
	pthread_join(thread, NULL);
	ck_assert(answer);
}
END_TEST

static char *map_stack(size_t len)
{
	char *stack = mmap(NULL, len + 2 * OS_PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(stack, MAP_FAILED);
	ck_assert_int_eq(mprotect(stack + OS_PAGE_SIZE, len, PROT_READ | PROT_WRITE), 0);
	return stack + OS_PAGE_SIZE;
}

START_TEST(test_a_coroutine_stack_is_read_to_its_end_only)
{
	static ucontext_t back, context;
	size_t len = 64 * KIB;

	getcontext(&context);
	context.uc_stack.ss_sp = map_stack(len);
	context.uc_stack.ss_size = len;
	context.uc_link = &back;
	makecontext(&context, ask, 0);
	answer = true;
	ck_assert_int_eq(swapcontext(&back, &context), 0);
	ck_assert(!answer);
}
END_TEST

static volatile sig_atomic_t hits, misses, wrong_no, wrong_yes;

static uintptr_t interrupted_at(const ucontext_t *context)
{
#if defined(__x86_64__)
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)context->uc_mcontext.pc;
#endif
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
	uintptr_t pc = interrupted_at(context);
	bool fast = pc - (uintptr_t)__start_lull_fast < (uintptr_t)(__stop_lull_fast - __start_lull_fast);

	(void)signal;
	(void)info;
	if (fast || inside_slow_n > 0)
		wrong_no += !inside_allocator();
	else
		wrong_yes += inside_allocator();
	if (fast)
		hits++;
	else
		misses++;
}

static void interrupt_often(int flags)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | flags};
	struct itimerval often = {.it_interval.tv_usec = 50, .it_value.tv_usec = 50}, never = {0};

	hits = misses = wrong_no = wrong_yes = 0;
	ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (int i = 0; i < LOOPS_MAX && hits < HITS; i++) {
		void *volatile a = lull_malloc(64), *volatile b = lull_malloc(200);
		lull_free(a);
		lull_free(b);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	ck_assert_int_gt(hits, 0);
	ck_assert_int_eq(wrong_no, 0);
	ck_assert_int_le(wrong_yes, misses / 4);
}

START_TEST(test_a_handler_knows_what_it_interrupted)
{
	interrupt_often(0);
}
END_TEST

START_TEST(test_a_handler_on_a_signal_stack_knows_too)
{
	stack_t stack = {.ss_sp = map_stack(64 * KIB), .ss_size = 64 * KIB};

	ck_assert_int_eq(sigaltstack(&stack, NULL), 0);
	interrupt_often(SA_ONSTACK);
}
END_TEST

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

int main(void)
{
	if (SANITIZED) {
		puts("stacks and signals as the kernel makes them (a sanitizer has its own)");
		return 77;
	}
	Suite *suite = unit_suite("inside");
	TCase *stacks = tcase_create("stacks");
	TCase *signals = tcase_create("signals");

	tcase_add_test(stacks, test_ordinary_code_is_not_inside);
	tcase_add_test(stacks, test_slow_paths_are_inside_until_all_are_left);
	tcase_add_test(stacks, test_only_saved_counters_in_fast_paths_count);
	tcase_add_test(stacks, test_depth_is_no_matter_up_to_a_point);
	tcase_add_test(stacks, test_threads_have_stacks_of_their_own);
	tcase_add_test(stacks, test_a_coroutine_stack_is_read_to_its_end_only);
	suite_add_tcase(suite, stacks);
	tcase_add_test(signals, test_a_handler_knows_what_it_interrupted);
	tcase_add_test(signals, test_a_handler_on_a_signal_stack_knows_too);
	suite_add_tcase(suite, signals);
	return unit_run(suite);
}
