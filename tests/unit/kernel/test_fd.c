/* SPDX-License-Identifier: MIT */
/*
 * Suite fd: a descriptor of ours is out of the program's way, and a number that the program took back is neither used nor closed.
 */
#include "kernel/fd.h"

#include "support/unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

static int open_something(void)
{
	int fd = open("/dev/null", O_RDONLY);

	ck_assert_int_ge(fd, 0);
	return fd;
}

START_TEST(test_a_descriptor_moves_up_and_is_closed_by_exec)
{
	int low = open_something(), fd = fd_move_up(low);

	ck_assert_int_ge(fd, 100);
	ck_assert_int_eq(fcntl(low, F_GETFD), -1);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
}
END_TEST

START_TEST(test_a_descriptor_stays_where_nothing_higher_is_to_be_had)
{
	int low = open_something();

	ck_assert_int_eq(prlimit(0, RLIMIT_NOFILE, &(struct rlimit){16, 16}, NULL), 0);
	ck_assert_int_eq(fd_move_up(low), low);
}
END_TEST

START_TEST(test_ours_is_known_and_closed)
{
	struct fd_mark mark = fd_remember(open_something());
	int fd = mark.fd;

	ck_assert(fd_is_ours(&mark));
	fd_close(&mark);
	ck_assert_int_eq(mark.fd, -1);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
	ck_assert(!fd_is_ours(&mark));
}
END_TEST

START_TEST(test_a_number_the_program_uses_again_is_left_alone)
{
	struct fd_mark mark = fd_remember(open_something());
	int ends[2], fd = mark.fd;

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(dup2(ends[0], fd), fd);
	ck_assert(!fd_is_ours(&mark));
	fd_close(&mark);
	ck_assert_int_ne(fcntl(fd, F_GETFD), -1);
}
END_TEST

START_TEST(test_what_was_closed_is_not_ours)
{
	struct fd_mark mark = fd_remember(open_something());

	close(mark.fd);
	ck_assert(!fd_is_ours(&mark));
	fd_close(&mark);
	ck_assert_int_eq(fd_remember(-1).fd, -1);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("fd");
	TCase *c = tcase_create("fd");

	tcase_add_test(c, test_a_descriptor_moves_up_and_is_closed_by_exec);
	tcase_add_test(c, test_a_descriptor_stays_where_nothing_higher_is_to_be_had);
	tcase_add_test(c, test_ours_is_known_and_closed);
	tcase_add_test(c, test_a_number_the_program_uses_again_is_left_alone);
	tcase_add_test(c, test_what_was_closed_is_not_ours);
	suite_add_tcase(suite, c);
	return unit_run(suite);
}
