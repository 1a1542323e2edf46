/* SPDX-License-Identifier: MIT */
/*
 * Suite malloc: realloc of large blocks. Whether the kernel moves them, refuses or leaves a gap, every byte is where the program expects
 * it, and mappings do not add up.
 */
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/move.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/region/memory.h"

#include <lull/malloc.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>

/* A vector whose words tell their place. */
static void check(const uint64_t *words, size_t bytes, uint64_t tag)
{
	for (size_t i = 0; i < bytes / sizeof(*words); i += 61)
		unit_holds(words[i] == i * tag);
}

static uint64_t *resize(uint64_t *words, size_t from, size_t to, uint64_t tag)
{
	words = lull_realloc(words, to);
	unit_holds(words != NULL);
	check(words, min_size(from, to), tag);
	for (size_t i = min_size(from, to) / sizeof(*words); i < to / sizeof(*words); i++)
		words[i] = i * tag;
	return words;
}

/* Growing and shrinking with a block behind it, so that it cannot stay. */
static void play(uint64_t tag)
{
	static const size_t sizes[] = {MIB, 3 * MIB, 5 * MIB + 4096, 700 * KIB, 8 * MIB, 2 * MIB, 9 * MIB + 123 * KIB, 100 * KIB, 4 * MIB};
	uint64_t *words = NULL;
	void *behind[array_len(sizes)];
	size_t bytes = 0;

	for (size_t i = 0; i < array_len(sizes); i++) {
		words = resize(words, bytes, sizes[i], tag);
		bytes = sizes[i];
		behind[i] = lull_malloc(600 * KIB);
		unit_holds(behind[i] != NULL);
		memset(behind[i], 1, 600 * KIB);
	}
	for (size_t i = 0; i < array_len(sizes); i++) {
		unit_holds(memory_is_filled(behind[i], 600 * KIB, 1));
		lull_free(behind[i]);
	}
	lull_free(words);
	/* the places are clean now, or say that they are not */
	char *zero = lull_calloc(1, 9 * MIB);
	unit_holds(zero != NULL && memory_is_zero(zero, 9 * MIB));
	lull_free(zero);
}

static void begin(void)
{
	memory_without_huge_pages();
	fake_kernel_install();
}

static unsigned mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned n = 0;
	int c;

	while ((c = getc(maps)) != EOF)
		n += c == '\n';
	fclose(maps);
	return n;
}

START_TEST(test_large_blocks_are_moved)
{
	play(3);
	ck_assert_uint_ge(move_bytes(), MIB);
}
END_TEST

START_TEST(test_mappings_do_not_add_up)
{
	play(3);
	unsigned before = mappings();
	for (unsigned i = 0; i < 30; i++)
		play(5);
	ck_assert_uint_le(mappings(), before + 4);
}
END_TEST

START_TEST(test_without_moving_it_is_copied)
{
	caps_force_off(CAPS_MREMAP);
	play(3);
	ck_assert_uint_eq(fake_calls(FAKE_MREMAP), 0);
	ck_assert_uint_eq(move_bytes(), 0);
}
END_TEST

static intptr_t (*passed_on)(void *from, size_t len, void *to);
static unsigned gap_in;

/* Takes the destination away and then refuses, as the kernel may. */
static intptr_t leave_a_gap(void *from, size_t len, void *to)
{
	if (gap_in > 0 && --gap_in == 0) {
		kernel.munmap(to, len);
		return -ENOMEM;
	}
	return passed_on(from, len, to);
}

START_TEST(test_a_gap_is_filled_and_copied_to)
{
	passed_on = kernel.mremap;
	kernel.mremap = leave_a_gap;
	for (unsigned nth = 1; nth < 6; nth++) {
		gap_in = nth;
		play(nth + 2);
	}
}
END_TEST

START_TEST(test_a_refusal_that_may_have_left_one_is_survived)
{
	for (unsigned nth = 1; nth < 6; nth++) {
		fake_refuse(FAKE_MREMAP, nth, ENOMEM);
		play(nth + 2);
	}
}
END_TEST

/* Restoring and filling gaps use it; making memory usable does not. */
START_TEST(test_each_refused_mmap_is_survived)
{
	play(3); /* regions are there */
	for (unsigned nth = 1; nth < 12; nth++) {
		fake_refuse(FAKE_MMAP, nth, ENOMEM);
		play(nth + 2);
	}
}
END_TEST

START_TEST(test_each_refused_advice_is_survived)
{
	for (unsigned nth = 1; nth < 12; nth++) {
		fake_refuse(FAKE_MADVISE, nth, EAGAIN);
		play(nth + 2);
	}
}
END_TEST

START_TEST(test_locked_memory_is_moved_or_copied)
{
	if (UNIT_SANITIZER || mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
		return; /* their shadow cannot be locked; or it is not allowed */
	play(3);
	ck_assert_int_eq(mlockall(MCL_CURRENT | MCL_FUTURE), 0);
	play(5);
	munlockall();
	play(7);
}
END_TEST

/* Pages shared with a child are moved in one of the two without the other seeing it. */
START_TEST(test_parent_and_child_each_have_theirs)
{
	uint64_t *words = resize(NULL, 0, 4 * MIB, 3);
	uint64_t *moved = resize(resize(NULL, 0, 2 * MIB, 5), 2 * MIB, 3 * MIB, 5);
	void *behind = lull_malloc(600 * KIB);
	int status;

	pid_t child = fork();
	if (child == 0) {
		lull_free(resize(words, 4 * MIB, 12 * MIB, 3));
		lull_free(resize(moved, 3 * MIB, 9 * MIB, 5));
		play(7);
		_exit(0);
	}
	words = resize(words, 4 * MIB, 10 * MIB, 3);
	moved = resize(moved, 3 * MIB, 700 * KIB, 5);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	check(words, 10 * MIB, 3);
	check(moved, 700 * KIB, 5);
	lull_free(words);
	lull_free(moved);
	lull_free(behind);
}
END_TEST

static void *play_rounds(void *tag)
{
	for (unsigned i = 0; i < 4; i++)
		play((uint64_t)(uintptr_t)tag);
	return NULL;
}

START_TEST(test_threads_move_side_by_side)
{
	pthread_t thread[4];

	fake_kernel_remove(); /* a real clock, so that memory goes back meanwhile */
	for (size_t i = 0; i < array_len(thread); i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, play_rounds, (void *)(uintptr_t)(2 * i + 3)), 0);
	for (size_t i = 0; i < array_len(thread); i++)
		pthread_join(thread[i], NULL);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("malloc");
	TCase *c = tcase_create("realloc");

	if (!caps_has(CAPS_MREMAP)) {
		printf("mremap with MREMAP_DONTUNMAP\n");
		return 77;
	}
	tcase_add_checked_fixture(c, begin, NULL);
	tcase_add_test(c, test_large_blocks_are_moved);
	tcase_add_test(c, test_mappings_do_not_add_up);
	tcase_add_test(c, test_without_moving_it_is_copied);
	tcase_add_test(c, test_a_gap_is_filled_and_copied_to);
	tcase_add_test(c, test_a_refusal_that_may_have_left_one_is_survived);
	tcase_add_test(c, test_each_refused_mmap_is_survived);
	tcase_add_test(c, test_each_refused_advice_is_survived);
	tcase_add_test(c, test_locked_memory_is_moved_or_copied);
	tcase_add_test(c, test_parent_and_child_each_have_theirs);
	tcase_add_test(c, test_threads_move_side_by_side);
	suite_add_tcase(suite, c);
	return unit_run(suite);
}
