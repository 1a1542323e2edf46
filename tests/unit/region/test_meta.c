/* SPDX-License-Identifier: MIT */
/*
 * Suite meta: zeroed, aligned, apart from each other; few calls for small ones; a refusal costs that request only.
 */
#include "region/meta.h"

#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/region/memory.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

static void *get(size_t len)
{
	char *p = meta_alloc(len);

	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq((uintptr_t)p % 128, 0);
	ck_assert(memory_is_zero(p, len));
	return p;
}

/* Around the size from which a request gets a mapping of its own (64 KiB), and past a shared reservation (4 MiB). */
START_TEST(test_memory_is_zero_aligned_and_apart)
{
	static const size_t lens[] = {1, 8, 127, 128, 129, 8192, 65408, 65409, 65536, 65537, MIB, 5 * MIB + 1};
	char *p[3 * array_len(lens)];

	for (size_t i = 0; i < array_len(p); i++) {
		p[i] = get(lens[i % array_len(lens)]);
		memset(p[i], (int)i + 1, lens[i % array_len(lens)]);
	}
	for (size_t i = 0; i < array_len(p); i++)
		unit_holds(memory_is_filled(p[i], lens[i % array_len(lens)], (char)(i + 1)));
}
END_TEST

START_TEST(test_small_requests_share_a_reservation_that_grows)
{
	fake_kernel_install();
	for (int i = 0; i < 500; i++)
		get(8000);
	ck_assert_uint_le(fake_calls(FAKE_MMAP), 1);
	ck_assert_uint_le(fake_calls(FAKE_MPROTECT), 4 * MIB / (64 * KIB));
	for (int i = 0; i < 100; i++) /* beyond 4 MiB: a second one */
		get(8000);
	ck_assert_uint_le(fake_calls(FAKE_MMAP), 2);
}
END_TEST

START_TEST(test_a_large_request_touches_nothing)
{
	memory_without_huge_pages();
	char *p = meta_alloc(4 * MIB);

	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq(memory_resident(p, 4 * MIB), 0);
}
END_TEST

START_TEST(test_a_refusal_is_null_and_the_next_request_is_served)
{
	fake_kernel_install();
	for (unsigned nth = 1; nth <= 6; nth++) {
		fake_refuse(_i % 2 ? FAKE_MMAP : FAKE_MPROTECT, nth, ENOMEM);
		for (int i = 0; i < 100; i++) {
			char *p = meta_alloc(_i < 2 ? 60 * KIB : 100 * KIB);
			if (p != NULL)
				memset(p, 1, 64);
		}
		memset(get(64), 1, 64);
	}
}
END_TEST

START_TEST(test_what_a_failed_large_request_reserved_is_given_back)
{
	fake_kernel_install();
	fake_refuse_all(FAKE_MPROTECT, ENOMEM);
	ck_assert_ptr_null(meta_alloc(MIB));
	ck_assert_uint_ge(fake_calls(FAKE_MUNMAP), 1);
	const struct fake_record *map = fake_record_of(FAKE_MMAP, 0);
	ck_assert_uint_eq(fake_bytes(FAKE_MMAP), map->len);
	ck_assert_uint_eq(fake_bytes(FAKE_MUNMAP), map->len);
	fake_refuse_all(FAKE_MPROTECT, 0);
	get(MIB);
}
END_TEST

static void *fill_many(void *arg)
{
	static char *mine[4][400];
	char **p = mine[(uintptr_t)arg - 1];

	for (int i = 0; i < 400; i++)
		memset(p[i] = get(1000), (int)(uintptr_t)arg, 1000);
	for (int i = 0; i < 400; i++)
		unit_holds(memory_is_filled(p[i], 1000, (char)(uintptr_t)arg));
	return NULL;
}

START_TEST(test_four_threads_get_memory_of_their_own)
{
	pthread_t thread[4];

	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, fill_many, (void *)(i + 1)), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}
END_TEST

START_TEST(test_parent_and_child_go_on_after_a_fork)
{
	int status;

	get(64);
	meta_fork_prepare();
	pid_t pid = fork();
	meta_fork_done(pid == 0);
	if (pid == 0)
		_exit(meta_alloc(64) == NULL);
	get(64);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("meta");
	TCase *tcase = tcase_create("meta");

	tcase_add_test(tcase, test_memory_is_zero_aligned_and_apart);
	tcase_add_test(tcase, test_small_requests_share_a_reservation_that_grows);
	tcase_add_test(tcase, test_a_large_request_touches_nothing);
	tcase_add_loop_test(tcase, test_a_refusal_is_null_and_the_next_request_is_served, 0, 4);
	tcase_add_test(tcase, test_what_a_failed_large_request_reserved_is_given_back);
	tcase_add_test(tcase, test_four_threads_get_memory_of_their_own);
	tcase_add_test(tcase, test_parent_and_child_go_on_after_a_fork);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
