/* SPDX-License-Identifier: MIT */
/*
 * Suite reuse: how soon memory came back is known for each key, the latest time counts, too late is not worth knowing, and what was
 * held in vain is forgotten. Every entry stands for itself.
 */
#include "page/reuse.h"

#include "page/sizeclass.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"

#define KEY 17

START_TEST(test_nothing_is_known_before_anything_came_back)
{
	for (uint32_t key = 0; key < REUSE_KEYS; key++)
		unit_holds(reuse_ms(key) == 0);
	ck_assert_uint_eq(reuse_counts().ghost_hits, 0);
	ck_assert_uint_eq(reuse_counts().ghost_bytes, 0);
}
END_TEST

START_TEST(test_the_latest_time_counts)
{
	reuse_note(KEY, 300, 4096);
	ck_assert_uint_eq(reuse_ms(KEY), 300);
	reuse_note(KEY, 20, 8192);
	ck_assert_uint_eq(reuse_ms(KEY), 20);
	reuse_note(KEY, 999, 4096);
	ck_assert_uint_eq(reuse_ms(KEY), 999);
	ck_assert_uint_eq(reuse_counts().ghost_hits, 3);
	ck_assert_uint_eq(reuse_counts().ghost_bytes, 16384);
	ck_assert_uint_eq(reuse_ms(KEY + 1), 0);
}
END_TEST

/* Later than the break-even time is no mistake to learn from, and does not undo what was learned. */
START_TEST(test_what_comes_back_too_late_is_no_ghost)
{
	reuse_note(KEY, REUSE_MAX_MS + 1, 4096);
	ck_assert_uint_eq(reuse_ms(KEY), 0);
	reuse_note(KEY, REUSE_MAX_MS, 4096);
	ck_assert_uint_eq(reuse_ms(KEY), REUSE_MAX_MS);
	reuse_note(KEY, UINT32_MAX, 4096);
	ck_assert_uint_eq(reuse_ms(KEY), REUSE_MAX_MS);
	ck_assert_uint_eq(reuse_counts().ghost_hits, 1);
}
END_TEST

/* 0 would say that nothing is known. */
START_TEST(test_at_once_is_one_millisecond)
{
	reuse_note(KEY, 0, 1);
	ck_assert_uint_eq(reuse_ms(KEY), 1);
}
END_TEST

START_TEST(test_memory_without_a_key_teaches_nothing)
{
	reuse_note(0, 10, 4096);
	ck_assert_uint_eq(reuse_ms(0), 0);
	ck_assert_uint_eq(reuse_counts().ghost_hits, 0);
}
END_TEST

START_TEST(test_what_was_held_in_vain_is_forgotten_and_can_be_learned_again)
{
	reuse_note(KEY, 100, 4096);
	reuse_note(KEY + 1, 100, 4096);
	reuse_forget(KEY);
	ck_assert_uint_eq(reuse_ms(KEY), 0);
	ck_assert_uint_eq(reuse_ms(KEY + 1), 100);
	reuse_forget(KEY);
	reuse_note(KEY, 50, 4096);
	ck_assert_uint_eq(reuse_ms(KEY), 50);
	ck_assert_uint_eq(reuse_counts().ghost_hits, 3);
}
END_TEST

START_TEST(test_the_last_touch_of_each_key_is_remembered)
{
	ck_assert_uint_eq(reuse_touched(KEY), 0);
	reuse_touch(KEY, 7);
	reuse_touch(KEY + 1, 9);
	reuse_touch(KEY, UINT16_MAX);
	ck_assert_uint_eq(reuse_touched(KEY), UINT16_MAX);
	ck_assert_uint_eq(reuse_touched(KEY + 1), 9);
	/* what is known of how soon it comes back is another matter */
	reuse_note(KEY, 100, 4096);
	reuse_forget(KEY);
	ck_assert_uint_eq(reuse_touched(KEY), UINT16_MAX);
	reuse_touch(KEY, 3);
	ck_assert_uint_eq(reuse_ms(KEY), 0);
}
END_TEST

/* Every class of the first hundred heaps, singletons included: a key of its own, and never 0. */
START_TEST(test_classes_of_a_hundred_heaps_have_keys_of_their_own)
{
	static bool seen[REUSE_KEYS];

	ck_assert_uint_lt(BIG_CLASSES, 64);
	for (uint32_t number = 1; number <= 100; number++) {
		for (unsigned c = 0; c <= BIG_CLASSES; c++) {
			uint32_t key = reuse_key(number, c);
			unit_holds(key > 0 && key < REUSE_KEYS && !seen[key]);
			seen[key] = true;
		}
	}
	for (uint32_t number = 0; number < 100000; number += 7)
		unit_holds(reuse_key(UINT32_MAX - number, number % 64) - 1 < REUSE_KEYS - 1);
}
END_TEST

#define EACH 20000

static void *note_and_forget(void *arg)
{
	uint32_t key = *(uint32_t *)arg;

	for (uint32_t i = 1; i <= EACH; i++) {
		reuse_note(key, key * 10, 1);
		unsigned ms = reuse_ms(key);
		unit_holds(ms == key * 10);
		reuse_note(4, 5, 1); /* all of them */
		if (i % 64 == 0)
			reuse_forget(4);
		ms = reuse_ms(4);
		unit_holds(ms == 0 || ms == 5);
	}
	return NULL;
}

START_TEST(test_three_threads_do_not_disturb_each_others_entries)
{
	static uint32_t keys[] = {1, 2, 3};
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		threads[i] = thread_start(note_and_forget, &keys[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(reuse_counts().ghost_hits, 6 * EACH);
	ck_assert_uint_eq(reuse_counts().ghost_bytes, 6 * EACH);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("reuse");
	TCase *tcase = tcase_create("reuse");

	tcase_add_test(tcase, test_nothing_is_known_before_anything_came_back);
	tcase_add_test(tcase, test_the_latest_time_counts);
	tcase_add_test(tcase, test_what_comes_back_too_late_is_no_ghost);
	tcase_add_test(tcase, test_at_once_is_one_millisecond);
	tcase_add_test(tcase, test_memory_without_a_key_teaches_nothing);
	tcase_add_test(tcase, test_what_was_held_in_vain_is_forgotten_and_can_be_learned_again);
	tcase_add_test(tcase, test_the_last_touch_of_each_key_is_remembered);
	tcase_add_test(tcase, test_classes_of_a_hundred_heaps_have_keys_of_their_own);
	tcase_add_test(tcase, test_three_threads_do_not_disturb_each_others_entries);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
