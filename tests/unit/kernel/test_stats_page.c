/* SPDX-License-Identifier: MIT */
/*
 * The statistics page on the real kernel: what others find, what limits do to it, and what a fork child gets. Each test runs in
 * its own process (Check forks), so each opens its own page.
 */
#include "kernel/stats_page.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINK_TARGET "/memfd:" LULL_STATS_MEMFD_NAME " (deleted)"
/* Above every descriptor these tests open. */
#define FDS 1100

/* The lowest number from FIRST on that is a statistics memfd, or -1. */
static int find_fd_from(int first)
{
	for (int fd = first; fd < FDS; fd++) {
		char path[64], target[64];
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, target, sizeof(target) - 1);
		if (len < 0)
			continue;
		target[len] = '\0';
		if (strcmp(target, LINK_TARGET) == 0)
			return fd;
	}
	return -1;
}

static int find_fd(void)
{
	return find_fd_from(0);
}

/* Returns the limit before. No assertion in here: the framework notes each one in a file, which RLIMIT_FSIZE forbids. */
static rlim_t limit_to(int what, rlim_t soft)
{
	struct rlimit limit;
	rlim_t before;

	if (getrlimit(what, &limit) != 0)
		abort();
	before = limit.rlim_cur;
	limit.rlim_cur = soft;
	if (setrlimit(what, &limit) != 0)
		abort();
	return before;
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < FDS; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* "rw-p" or "rw-s": how the mapping at PAGE is listed. */
static const char *private_or_shared(const void *page)
{
	static char perms[8];
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned long start, end;

	if (maps == NULL)
		abort();
	perms[0] = '\0';
	while (fgets(line, sizeof(line), maps) != NULL)
		if (sscanf(line, "%lx-%lx %7s", &start, &end, perms) == 3 && start <= (uintptr_t)page && (uintptr_t)page < end)
			break;
	fclose(maps);
	return perms;
}

/* Ends a fork child: its failed assertions cannot reach the framework through fork, so they are told by the exit status. */
#define CHILD_CHECK(x)                                                                                                          \
	do {                                                                                                                    \
		if (!(x)) {                                                                                                     \
			fprintf(stderr, "child, line %d: %s\n", __LINE__, #x);                                                  \
			_exit(1);                                                                                               \
		}                                                                                                               \
	} while (0)

static void expect_child_is_happy(pid_t child)
{
	int status;

	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed: status %#x", (unsigned)status);
}

START_TEST(test_page_is_headed_and_otherwise_zero)
{
	const struct lull_stats *page = stats_page_open();
	const char *rest;

	ck_assert_ptr_nonnull(page);
	ck_assert_uint_eq(page->magic, LULL_STATS_MAGIC);
	ck_assert_uint_eq(page->version, LULL_STATS_VERSION);
	ck_assert_uint_eq(page->size_bytes, sizeof(*page));
	ck_assert_uint_eq(page->pid, (uint64_t)getpid());
	rest = (const char *)&page->reserved_bytes;
	for (size_t i = 0; rest + i < (const char *)page + STATS_PAGE_BYTES; i++)
		ck_assert_msg(rest[i] == 0, "byte %zu after the head is not zero", i);
}
END_TEST

START_TEST(test_second_open_gives_the_same_page)
{
	struct lull_stats *page = stats_page_open();
	int before = open_fds();

	ck_assert_ptr_eq(stats_page_open(), page);
	ck_assert_int_eq(open_fds(), before);
}
END_TEST

START_TEST(test_descriptor_is_high_and_closed_on_exec)
{
	int fd;

	limit_to(RLIMIT_NOFILE, 1024);
	ck_assert_ptr_nonnull(stats_page_open());
	fd = find_fd();
	ck_assert_int_ge(fd, 1000);
	ck_assert_int_eq(find_fd_from(fd + 1), -1);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
}
END_TEST

START_TEST(test_descriptor_is_lower_under_a_low_limit)
{
	limit_to(RLIMIT_NOFILE, 256);
	ck_assert_ptr_nonnull(stats_page_open());
	ck_assert_int_ge(find_fd(), 100);
}
END_TEST

START_TEST(test_descriptor_stays_where_it_is_under_a_tiny_limit)
{
	limit_to(RLIMIT_NOFILE, 64);
	ck_assert_ptr_nonnull(stats_page_open());
	ck_assert_int_ge(find_fd(), 3);
}
END_TEST

START_TEST(test_reader_sees_stores_through_a_read_only_mapping)
{
	struct lull_stats *page = stats_page_open();
	const struct lull_stats *seen;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", find_fd());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	seen = mmap(NULL, STATS_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(seen, MAP_FAILED);
	__atomic_store_n(&page->returned_bytes, 12345, __ATOMIC_RELAXED);
	ck_assert_uint_eq(__atomic_load_n(&seen->returned_bytes, __ATOMIC_RELAXED), 12345);
}
END_TEST

START_TEST(test_size_and_seals_are_fixed)
{
	int fd, seals;

	ck_assert_ptr_nonnull(stats_page_open());
	fd = find_fd();
	seals = fcntl(fd, F_GET_SEALS);
	ck_assert_int_eq(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	ck_assert_int_eq(ftruncate(fd, 0), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(ftruncate(fd, 2 * STATS_PAGE_BYTES), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
	ck_assert_int_eq(errno, EPERM);
}
END_TEST

START_TEST(test_control_word_can_be_written_from_outside)
{
	const char *page = (const char *)stats_page_open();
	uint64_t word = 7, seen;

	ck_assert_int_eq(pwrite(find_fd(), &word, sizeof(word), (off_t)OS_PAGE_SIZE), sizeof(word));
	memcpy(&seen, page + OS_PAGE_SIZE, sizeof(seen));
	ck_assert_uint_eq(seen, 7);
}
END_TEST

START_TEST(test_page_outlives_its_descriptor)
{
	struct lull_stats *page = stats_page_open();

	close(find_fd());
	page->sweeps = 3;
	ck_assert_uint_eq(page->sweeps, 3);
	ck_assert_int_eq(find_fd(), -1);
	ck_assert_ptr_eq(stats_page_open(), page);
}
END_TEST

START_TEST(test_refused_descriptor_means_no_page)
{
	int before = open_fds();
	rlim_t usual = limit_to(RLIMIT_NOFILE, 0);

	ck_assert_ptr_null(stats_page_open());
	limit_to(RLIMIT_NOFILE, usual);
	ck_assert_int_eq(open_fds(), before);
	ck_assert_ptr_nonnull(stats_page_open());
}
END_TEST

/* Growing a file past this limit kills; the page must not try. */
START_TEST(test_file_size_limit_means_no_page_and_no_signal)
{
	int before = open_fds();

	rlim_t usual = limit_to(RLIMIT_FSIZE, STATS_PAGE_BYTES - 1);
	const struct lull_stats *below = stats_page_open();
	const struct lull_stats *at;

	limit_to(RLIMIT_FSIZE, STATS_PAGE_BYTES);
	at = stats_page_open();
	limit_to(RLIMIT_FSIZE, usual);
	ck_assert_ptr_null(below);
	ck_assert_ptr_nonnull(at);
	ck_assert_int_eq(open_fds(), before + 1);
}
END_TEST

START_TEST(test_address_space_limit_means_no_page)
{
	int before = open_fds();
	rlim_t usual = limit_to(RLIMIT_AS, 1);
	const struct lull_stats *page = stats_page_open();

	limit_to(RLIMIT_AS, usual);
	ck_assert_ptr_null(page);
	ck_assert_int_eq(open_fds(), before);
}
END_TEST

START_TEST(test_renew_without_a_page_does_nothing)
{
	int before = open_fds();

	stats_page_renew();
	ck_assert_int_eq(open_fds(), before);
	ck_assert_int_eq(find_fd(), -1);
}
END_TEST

START_TEST(test_child_writes_to_private_memory_until_it_opens)
{
	struct lull_stats *page = stats_page_open();
	pid_t child;

	page->parks = 21;
	child = fork();
	if (child == 0) {
		stats_page_renew();
		CHILD_CHECK(find_fd() == -1);
		CHILD_CHECK(strcmp(private_or_shared(page), "rw-p") == 0);
		CHILD_CHECK(page->magic == 0 && page->parks == 0);
		page->parks = 22;
		_exit(0);
	}
	expect_child_is_happy(child);
	ck_assert_uint_eq(page->parks, 21);
	ck_assert_str_eq(private_or_shared(page), "rw-s");
	ck_assert_int_ge(find_fd(), 0);
}
END_TEST

START_TEST(test_child_opens_its_own_page_at_the_same_address)
{
	struct lull_stats *page = stats_page_open();
	volatile uint64_t *control = (uint64_t *)((char *)page + OS_PAGE_SIZE);
	struct stat parents;
	pid_t child;

	page->returned_bytes = 11;
	*control = 5;
	ck_assert_int_eq(fstat(find_fd(), &parents), 0);
	child = fork();
	if (child == 0) {
		struct stat own;

		stats_page_renew();
		CHILD_CHECK(stats_page_open() == page);
		CHILD_CHECK(stats_page_open() == page);
		CHILD_CHECK(find_fd() >= 100 && fstat(find_fd(), &own) == 0 && own.st_ino != parents.st_ino);
		CHILD_CHECK(find_fd_from(find_fd() + 1) == -1);
		CHILD_CHECK(page->magic == LULL_STATS_MAGIC && page->size_bytes == sizeof(*page));
		CHILD_CHECK(page->pid == (uint64_t)getpid());
		CHILD_CHECK(page->returned_bytes == 0 && *control == 0);
		page->returned_bytes = 99;
		*control = 8;
		_exit(0);
	}
	expect_child_is_happy(child);
	ck_assert_uint_eq(page->returned_bytes, 11);
	ck_assert_uint_eq(page->pid, (uint64_t)getpid());
	ck_assert_uint_eq(*control, 5);
}
END_TEST

START_TEST(test_child_of_a_child_gets_its_own_page_too)
{
	struct lull_stats *page = stats_page_open();
	pid_t child = fork();

	if (child == 0) {
		pid_t grandchild;
		int status;

		stats_page_renew();
		CHILD_CHECK(stats_page_open() == page);
		page->sweeps = 1;
		grandchild = fork();
		if (grandchild == 0) {
			stats_page_renew();
			CHILD_CHECK(stats_page_open() == page);
			CHILD_CHECK(page->sweeps == 0 && page->pid == (uint64_t)getpid());
			page->sweeps = 2;
			_exit(0);
		}
		CHILD_CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
		CHILD_CHECK(page->sweeps == 1 && page->pid == (uint64_t)getpid());
		_exit(0);
	}
	expect_child_is_happy(child);
	ck_assert_uint_eq(page->sweeps, 0);
}
END_TEST

/* Forks of a child that never opened its page again. */
START_TEST(test_renewing_twice_is_harmless)
{
	struct lull_stats *page = stats_page_open();
	pid_t child = fork();

	if (child == 0) {
		stats_page_renew();
		page->sweeps = 4;
		stats_page_renew();
		CHILD_CHECK(page->sweeps == 4 && stats_page_open() == page);
		_exit(0);
	}
	expect_child_is_happy(child);
}
END_TEST

START_TEST(test_child_that_is_refused_keeps_private_memory)
{
	struct lull_stats *page = stats_page_open();
	pid_t child = fork();

	if (child == 0) {
		rlim_t usual;
		const struct lull_stats *opened;

		stats_page_renew();
		usual = limit_to(RLIMIT_FSIZE, 0);
		opened = stats_page_open();
		limit_to(RLIMIT_FSIZE, usual);
		CHILD_CHECK(opened == NULL && find_fd() == -1);
		page->parks = 22;
		CHILD_CHECK(strcmp(private_or_shared(page), "rw-p") == 0 && page->parks == 22);
		CHILD_CHECK(stats_page_open() == page && page->pid == (uint64_t)getpid());
		_exit(0);
	}
	expect_child_is_happy(child);
}
END_TEST

/* A program may close all descriptors and open its own file under our number: that one is not ours to close. */
START_TEST(test_renewal_spares_a_strangers_file)
{
	int fd, stranger;
	pid_t child;

	ck_assert_ptr_nonnull(stats_page_open());
	fd = find_fd();
	stranger = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(dup2(stranger, fd), fd);
	child = fork();
	if (child == 0) {
		struct stat seen, null;

		stats_page_renew();
		CHILD_CHECK(find_fd() == -1 && stats_page_open() != NULL);
		CHILD_CHECK(fstat(fd, &seen) == 0 && fstat(stranger, &null) == 0 && seen.st_ino == null.st_ino);
		CHILD_CHECK(find_fd() >= 0);
		_exit(0);
	}
	expect_child_is_happy(child);
}
END_TEST

START_TEST(test_errno_is_left_alone)
{
	rlim_t usual;
	int seen;

	errno = 123;
	stats_page_open();
	stats_page_renew();
	usual = limit_to(RLIMIT_FSIZE, 0);
	stats_page_open();
	seen = errno;
	limit_to(RLIMIT_FSIZE, usual);
	ck_assert_int_eq(seen, 123);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("stats_page");
	TCase *open_case = tcase_create("open");
	TCase *renew_case = tcase_create("renew");
	SRunner *runner;
	int failed;

	tcase_add_test(open_case, test_page_is_headed_and_otherwise_zero);
	tcase_add_test(open_case, test_second_open_gives_the_same_page);
	tcase_add_test(open_case, test_descriptor_is_high_and_closed_on_exec);
	tcase_add_test(open_case, test_descriptor_is_lower_under_a_low_limit);
	tcase_add_test(open_case, test_descriptor_stays_where_it_is_under_a_tiny_limit);
	tcase_add_test(open_case, test_reader_sees_stores_through_a_read_only_mapping);
	tcase_add_test(open_case, test_size_and_seals_are_fixed);
	tcase_add_test(open_case, test_control_word_can_be_written_from_outside);
	tcase_add_test(open_case, test_page_outlives_its_descriptor);
	tcase_add_test(open_case, test_refused_descriptor_means_no_page);
	tcase_add_test(open_case, test_file_size_limit_means_no_page_and_no_signal);
	tcase_add_test(open_case, test_address_space_limit_means_no_page);
	tcase_add_test(renew_case, test_renew_without_a_page_does_nothing);
	tcase_add_test(renew_case, test_child_writes_to_private_memory_until_it_opens);
	tcase_add_test(renew_case, test_child_opens_its_own_page_at_the_same_address);
	tcase_add_test(renew_case, test_child_of_a_child_gets_its_own_page_too);
	tcase_add_test(renew_case, test_renewing_twice_is_harmless);
	tcase_add_test(renew_case, test_child_that_is_refused_keeps_private_memory);
	tcase_add_test(renew_case, test_renewal_spares_a_strangers_file);
	tcase_add_test(renew_case, test_errno_is_left_alone);
	suite_add_tcase(suite, open_case);
	suite_add_tcase(suite, renew_case);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
