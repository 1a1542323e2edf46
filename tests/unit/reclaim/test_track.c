/* SPDX-License-Identifier: MIT */
/*
 * Suite track (reclaim): a known set of writes is found, a process that does nothing is left alone, and a kernel that refuses is no harm.
 * Clocks are the fake's, moved by hand; memory and what is written of it are real.
 */
#include "reclaim/track.h"

#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/track.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/region/memory.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>

#define SECOND UINT64_C(1000000000)
#define LIVE (20 * MIB)
#define SET (5 * MIB)

static char *live;

static void begin(void)
{
	bool clean;

	memory_without_huge_pages();
	fake_kernel_install();
	fake_clock_set(SECOND);
	live = region_alloc(LIVE / SLICE_SIZE, 1, &clean);
	ck_assert_ptr_nonnull(live);
	memset(live, 1, LIVE);
}

/* A second in which the process had BUSY of a processor. */
static void second(uint64_t busy_ns)
{
	fake_clock_add(SECOND);
	fake_cpu_add(busy_ns);
	track_tick();
}

static void write_run(size_t from, size_t len)
{
	for (size_t at = from; at < from + len; at += OS_PAGE_SIZE)
		live[at]++;
}

static bool is_about(uint64_t bytes, uint64_t truth)
{
	return bytes > truth - truth / 10 && bytes < truth + truth / 10;
}

/* Awake, watching, first windows open. */
static void start(enum track_mode mode)
{
	track_set_mode(mode);
	track_tick();
	second(SECOND / 2);
	second(SECOND / 2);
	ck_assert_int_eq(track_counts().state, TRACK_WATCHES);
}

static void check_run(enum track_mode mode)
{
	start(mode);
	for (unsigned s = 0; s < 66; s++) {
		write_run(10 * MIB, SET);
		second(SECOND / 2);
	}
	struct track_counts counts = track_counts();
	ck_assert(is_about(counts.epoch_bytes, SET));
	ck_assert(is_about(counts.ten_bytes, SET));
	ck_assert(is_about(counts.minute_bytes, SET));
	ck_assert_uint_gt(counts.faults, 0);
}

START_TEST(test_a_run_is_found_in_full)
{
	check_run(TRACK_FULL);
}
END_TEST

START_TEST(test_a_run_is_found_by_a_sample)
{
	check_run(TRACK_AUTO);
}
END_TEST

START_TEST(test_every_fourth_page_is_found)
{
	start(TRACK_AUTO);
	for (unsigned s = 0; s < 25; s++) {
		for (size_t at = 0; at < LIVE; at += 4 * OS_PAGE_SIZE)
			live[at]++;
		second(SECOND / 2);
	}
	ck_assert(is_about(track_counts().epoch_bytes, LIVE / 4));
	ck_assert(is_about(track_counts().ten_bytes, LIVE / 4));
}
END_TEST

START_TEST(test_a_page_counts_once_in_ten_seconds_however_often_it_is_written)
{
	start(TRACK_FULL);
	for (unsigned s = 0; s < 24; s++) {
		write_run(0, 2 * MIB);
		write_run(4 * MIB + s % 8 * 2 * MIB, 2 * MIB);
		second(SECOND / 2);
	}
	ck_assert(is_about(track_counts().epoch_bytes, 4 * MIB));
	ck_assert(is_about(track_counts().ten_bytes, 18 * MIB));
}
END_TEST

START_TEST(test_memory_that_came_since_counts_as_written)
{
	bool clean;

	start(TRACK_FULL);
	for (unsigned s = 0; s < 11; s++) {
		char *more = region_alloc(MIB / SLICE_SIZE, 1, &clean);
		memset(more, 1, MIB);
		second(SECOND / 2);
	}
	/* the window opened one second before the first of them and closed with the ninth */
	ck_assert_uint_eq(track_counts().ten_bytes, 9 * MIB);
}
END_TEST

START_TEST(test_resident_bytes_are_counted)
{
	start(TRACK_AUTO);
	kernel.madvise(live, LIVE / 2, MADV_DONTNEED);
	for (unsigned s = 0; s < 11; s++)
		second(SECOND / 2);
	ck_assert_uint_eq(track_counts().resident_bytes, LIVE / 2);
}
END_TEST

START_TEST(test_a_process_that_does_nothing_is_not_woken)
{
	track_tick();
	second(SECOND / 1000);
	ck_assert_uint_eq(track_wait_ns(kernel.now_ns()), KERNEL_NO_TIMEOUT);
	ck_assert_uint_eq(fake_calls(FAKE_UFFD_OPEN), 0);
}
END_TEST

START_TEST(test_after_a_quiet_minute_the_descriptors_are_closed_and_nobody_is_woken)
{
	start(TRACK_AUTO);
	second(SECOND / 1000);
	ck_assert_uint_eq(track_wait_ns(kernel.now_ns()), 59 * SECOND);
	fake_clock_add(58 * SECOND);
	track_tick();
	ck_assert(track_is_open());
	second(SECOND / 1000);
	ck_assert(!track_is_open());
	ck_assert_uint_eq(track_wait_ns(kernel.now_ns()), KERNEL_NO_TIMEOUT);
	ck_assert_uint_eq(track_counts().ten_bytes, 0);
	ck_assert_int_eq(track_counts().state, TRACK_RESTS);
	/* and it begins anew */
	fake_clock_add(100 * SECOND);
	track_tick();
	second(SECOND / 2);
	ck_assert(track_is_open());
}
END_TEST

START_TEST(test_a_busy_process_is_looked_at_once_a_second_at_most)
{
	start(TRACK_AUTO);
	ck_assert_uint_eq(track_wait_ns(kernel.now_ns()), SECOND);
	unsigned scans = fake_calls(FAKE_PAGEMAP_SCAN);
	for (unsigned i = 0; i < 9; i++) {
		fake_clock_add(SECOND / 10);
		fake_cpu_add(SECOND / 10);
		track_tick();
	}
	ck_assert_uint_eq(fake_calls(FAKE_PAGEMAP_SCAN), scans);
}
END_TEST

START_TEST(test_little_memory_is_not_watched)
{
	region_free(live, LIVE / SLICE_SIZE, false);
	track_tick();
	for (unsigned s = 0; s < 5; s++)
		second(SECOND / 2);
	ck_assert_uint_eq(fake_calls(FAKE_UFFD_OPEN), 0);
	ck_assert_int_eq(track_counts().state, TRACK_RESTS);
	ck_assert_uint_eq(track_wait_ns(kernel.now_ns()), KERNEL_NO_TIMEOUT);
}
END_TEST

START_TEST(test_off_is_off)
{
	track_set_mode(TRACK_OFF);
	track_tick();
	second(SECOND);
	second(SECOND);
	ck_assert_uint_eq(fake_calls(FAKE_UFFD_OPEN), 0);
	ck_assert_uint_eq(track_wait_ns(kernel.now_ns()), KERNEL_NO_TIMEOUT);
}
END_TEST

START_TEST(test_a_refusal_is_taken_for_good_and_wakes_nobody)
{
	fake_refuse_all(FAKE_UFFD_OPEN, EPERM);
	track_tick();
	second(SECOND / 2);
	second(SECOND / 2);
	second(SECOND / 2);
	ck_assert_uint_eq(fake_calls(FAKE_UFFD_OPEN), 1);
	ck_assert_int_eq(track_counts().state, TRACK_REFUSED);
	ck_assert_uint_eq(track_wait_ns(kernel.now_ns()), KERNEL_NO_TIMEOUT);
	ck_assert_uint_gt(track_counts().resident_bytes, 0);
}
END_TEST

START_TEST(test_forced_off_asks_nothing)
{
	caps_force_off(CAPS_UFFD);
	caps_force_off(CAPS_UFFD_DEV);
	track_tick();
	second(SECOND / 2);
	second(SECOND / 2);
	ck_assert_uint_eq(fake_calls(FAKE_UFFD_OPEN) + fake_calls(FAKE_PAGEMAP_OPEN) + fake_calls(FAKE_PAGEMAP_SCAN), 0);
	ck_assert_int_eq(track_counts().state, TRACK_REFUSED);
}
END_TEST

/* Whatever is refused, once and for good: only the numbers suffer. */
START_TEST(test_any_call_may_be_refused)
{
	static const enum fake_call call[] = {FAKE_UFFD_WATCH, FAKE_PAGEMAP_SCAN, FAKE_MMAP};

	start(TRACK_AUTO);
	for (unsigned nth = 1; nth < 40; nth++) {
		for (size_t i = 0; i < array_len(call); i++)
			fake_refuse(call[i], nth, ENOMEM);
		write_run(0, SET);
		second(SECOND / 2);
	}
	fake_refuse_all(FAKE_PAGEMAP_SCAN, EPERM);
	for (unsigned s = 0; s < 12; s++)
		second(SECOND / 2);
	fake_refuse_all(FAKE_PAGEMAP_SCAN, 0);
	for (size_t i = 0; i < array_len(call); i++)
		fake_refuse(call[i], 0, 0);
	for (unsigned s = 0; s < 25; s++) {
		write_run(10 * MIB, SET);
		second(SECOND / 2);
	}
	ck_assert(is_about(track_counts().epoch_bytes, SET));
	for (size_t at = SET; at < 10 * MIB; at++)
		unit_holds(live[at] == 1);
}
END_TEST

START_TEST(test_a_program_that_closes_everything_is_watched_anew)
{
	start(TRACK_AUTO);
	for (int fd = 3; fd < 2000; fd++)
		close(fd);
	for (unsigned s = 0; s < 25; s++) {
		write_run(10 * MIB, SET);
		second(SECOND / 2);
	}
	ck_assert_int_eq(track_counts().state, TRACK_WATCHES);
	ck_assert(is_about(track_counts().epoch_bytes, SET));
}
END_TEST

START_TEST(test_a_child_starts_with_nothing)
{
	int status;

	start(TRACK_AUTO);
	write_run(0, SET);
	second(SECOND / 2);
	track_fork_prepare();
	pid_t child = fork();
	track_fork_done(child == 0);
	if (child == 0) {
		struct track_counts counts = track_counts();
		_exit(track_is_open() || counts.state != TRACK_RESTS || counts.faults != 0 || counts.epoch_bytes != 0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert(track_is_open());
}
END_TEST

START_TEST(test_the_end_closes_what_is_open)
{
	start(TRACK_AUTO);
	track_stop();
	ck_assert(!track_is_open());
	ck_assert_uint_eq(track_wait_ns(kernel.now_ns()), KERNEL_NO_TIMEOUT);
	memset(live, 3, LIVE);
}
END_TEST

/* Lines of /proc/self/maps. */
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

START_TEST(test_watching_adds_no_mappings_to_what_there_are)
{
	bool clean;
	unsigned before = mappings();

	start(TRACK_AUTO);
	for (unsigned s = 0; s < 20; s++) {
		memset(region_alloc(MIB / SLICE_SIZE, 1, &clean), 1, MIB);
		second(SECOND / 2);
	}
	ck_assert_uint_le(mappings(), before + 2);
	track_stop();
	ck_assert_uint_le(mappings(), before + 1);
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
	tcase_add_test(c, test_a_run_is_found_in_full);
	tcase_add_test(c, test_a_run_is_found_by_a_sample);
	tcase_add_test(c, test_every_fourth_page_is_found);
	tcase_add_test(c, test_a_page_counts_once_in_ten_seconds_however_often_it_is_written);
	tcase_add_test(c, test_memory_that_came_since_counts_as_written);
	tcase_add_test(c, test_resident_bytes_are_counted);
	tcase_add_test(c, test_a_process_that_does_nothing_is_not_woken);
	tcase_add_test(c, test_after_a_quiet_minute_the_descriptors_are_closed_and_nobody_is_woken);
	tcase_add_test(c, test_a_busy_process_is_looked_at_once_a_second_at_most);
	tcase_add_test(c, test_little_memory_is_not_watched);
	tcase_add_test(c, test_off_is_off);
	tcase_add_test(c, test_a_refusal_is_taken_for_good_and_wakes_nobody);
	tcase_add_test(c, test_forced_off_asks_nothing);
	tcase_add_test(c, test_any_call_may_be_refused);
	tcase_add_test(c, test_a_program_that_closes_everything_is_watched_anew);
	tcase_add_test(c, test_a_child_starts_with_nothing);
	tcase_add_test(c, test_the_end_closes_what_is_open);
	tcase_add_test(c, test_watching_adds_no_mappings_to_what_there_are);
	suite_add_tcase(suite, c);
	return unit_run(suite);
}
