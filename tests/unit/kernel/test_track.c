/* SPDX-License-Identifier: MIT */
/*
 * Suite track (kernel): what was written is told from what was not, memory that is not there is not touched, and descriptors that are gone
 * are no harm. On the real kernel behind the fake's counters.
 */
#include "kernel/track.h"

#include "kernel/caps.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/region/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>

#define LEN (4 * MIB)
#define PAGES (LEN / OS_PAGE_SIZE)

static char *memory;

static void begin(void)
{
	memory_without_huge_pages();
	fake_kernel_install();
	memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
}

static struct track_seen look(void)
{
	struct track_seen seen = {0};

	ck_assert_int_eq(track_look(memory, LEN, &seen), 0);
	return seen;
}

/* Descriptors that lead to what tracking needs. */
static unsigned descriptors(int lowest)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		char path[300], target[64] = "";
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		if (readlink(path, target, sizeof(target) - 1) > 0 && (strstr(target, "userfaultfd") || strstr(target, "/pagemap")))
			n += atoi(entry->d_name) >= lowest;
	}
	closedir(dir);
	return n;
}

START_TEST(test_only_what_was_written_since_is_reported)
{
	memset(memory, 1, LEN);
	ck_assert(track_open() && track_watch(memory, LEN));
	ck_assert_int_eq(track_arm(memory, LEN), (long)PAGES);
	ck_assert_uint_eq(look().written, 0);
	for (size_t i = 0; i < PAGES; i += 8)
		memory[i * OS_PAGE_SIZE] = 2;
	ck_assert_uint_eq(look().written, PAGES / 8);
	ck_assert_uint_eq(look().written, PAGES / 8); /* looking changes nothing */
	ck_assert_uint_eq(look().present, PAGES);
	ck_assert_int_eq(track_arm(memory, LEN), (long)(PAGES / 8)); /* the rest is armed still */
	ck_assert_uint_eq(look().written, 0);
}
END_TEST

START_TEST(test_what_is_not_there_is_not_touched_and_counts_once_it_is_written)
{
	ck_assert(track_open() && track_watch(memory, LEN));
	ck_assert_int_eq(track_arm(memory, LEN), 0);
	ck_assert_uint_eq(memory_resident(memory, LEN), 0);
	ck_assert_uint_eq(look().present, 0);
	memory[MIB] = 1;
	ck_assert_uint_eq(look().written, 1);
}
END_TEST

START_TEST(test_what_is_not_watched_is_refused)
{
	memset(memory, 1, LEN);
	ck_assert(track_open());
	ck_assert_int_lt(track_arm(memory, LEN), 0);
	ck_assert_uint_eq(look().present, PAGES); /* and can be counted all the same */
}
END_TEST

START_TEST(test_descriptors_are_high_and_gone_after_close)
{
	ck_assert(track_open() && track_open());
	ck_assert_uint_eq(descriptors(100), 2);
	ck_assert_uint_eq(descriptors(0), 2);
	ck_assert(track_is_open());
	track_close();
	ck_assert_uint_eq(descriptors(0), 0);
	ck_assert(!track_is_open());
	track_close();
}
END_TEST

START_TEST(test_writes_go_on_when_it_is_closed_while_armed)
{
	memset(memory, 1, LEN);
	ck_assert(track_open() && track_watch(memory, LEN) && track_arm(memory, LEN) > 0);
	track_close();
	memset(memory, 2, LEN);
	ck_assert(memory_is_filled(memory, LEN, 2));
}
END_TEST

START_TEST(test_a_program_that_closes_all_descriptors_ends_it)
{
	struct track_seen seen = {0};

	ck_assert(track_open() && track_watch(memory, LEN));
	for (int fd = 3; fd < 2000; fd++)
		close(fd);
	ck_assert(!track_is_open());
	ck_assert_int_eq(track_arm(memory, LEN), -EBADF);
	ck_assert_int_eq(track_look(memory, LEN, &seen), -EBADF);
	ck_assert(!track_watch(memory, LEN));
	ck_assert(track_open() && track_watch(memory, LEN));
}
END_TEST

START_TEST(test_a_child_closes_its_copies_and_the_parent_goes_on)
{
	int status;

	memset(memory, 1, LEN);
	ck_assert(track_open() && track_watch(memory, LEN) && track_arm(memory, LEN) > 0);
	pid_t child = fork();
	if (child == 0) {
		track_close();
		_exit(descriptors(0) != 0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert(track_is_open());
	memory[0] = 2;
	ck_assert_uint_eq(look().written, 1);
}
END_TEST

START_TEST(test_a_refused_open_is_remembered_and_leaves_nothing)
{
	fake_refuse(FAKE_PAGEMAP_OPEN, 1, EACCES);
	ck_assert(!track_open());
	ck_assert_uint_eq(descriptors(0), 0);
	ck_assert(!track_open());
	ck_assert_uint_eq(fake_calls(FAKE_PAGEMAP_OPEN), 1);
}
END_TEST

START_TEST(test_no_number_free_passes)
{
	fake_refuse(FAKE_UFFD_OPEN, 1, EMFILE);
	ck_assert(!track_open());
	ck_assert(track_open());
}
END_TEST

START_TEST(test_a_price_is_found)
{
	uint64_t fault = 1, arm = 1;

	ck_assert(track_open() && track_price(&fault, &arm));
	ck_assert_uint_eq(fault, 0); /* the fake's clocks stand still */
	ck_assert_uint_eq(arm, 0);
	fake_refuse(FAKE_PAGEMAP_SCAN, 1, ENOMEM);
	ck_assert(!track_price(&fault, &arm));
	fake_refuse(FAKE_MMAP, 1, ENOMEM);
	ck_assert(!track_price(&fault, &arm));
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("track");
	TCase *c = tcase_create("track");

	if (!caps_has(CAPS_UFFD_WP_ASYNC)) {
		printf("userfaultfd with UFFD_FEATURE_WP_ASYNC, and PAGEMAP_SCAN\n");
		return 77;
	}
	tcase_add_checked_fixture(c, begin, NULL);
	tcase_add_test(c, test_only_what_was_written_since_is_reported);
	tcase_add_test(c, test_what_is_not_there_is_not_touched_and_counts_once_it_is_written);
	tcase_add_test(c, test_what_is_not_watched_is_refused);
	tcase_add_test(c, test_descriptors_are_high_and_gone_after_close);
	tcase_add_test(c, test_writes_go_on_when_it_is_closed_while_armed);
	tcase_add_test(c, test_a_program_that_closes_all_descriptors_ends_it);
	tcase_add_test(c, test_a_child_closes_its_copies_and_the_parent_goes_on);
	tcase_add_test(c, test_a_refused_open_is_remembered_and_leaves_nothing);
	tcase_add_test(c, test_no_number_free_passes);
	tcase_add_test(c, test_a_price_is_found);
	suite_add_tcase(suite, c);
	return unit_run(suite);
}
