/* SPDX-License-Identifier: MIT */
/*
 * Suite file: which ranges the hints hand to the kernel, through the fake kernel's records, and which they refuse without asking it.
 */
#include <lull/file.h>

#include "api/file.h"
#include "base/base.h"
#include "kernel/caps.h"
#include "support/fake_kernel.h"
#include "support/unit.h"

#include <errno.h>
#include <lull/malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 16
#define BYTES (PAGES * OS_PAGE_SIZE)

/* An unnamed file of BYTES; each OS page has its own letter. */
static int make_file(void)
{
	char name[] = "/tmp/lull-file-XXXXXX";
	static char page[OS_PAGE_SIZE];
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	unlink(name);
	for (unsigned i = 0; i < PAGES; i++) {
		memset(page, 'a' + (int)i, sizeof(page));
		ck_assert_int_eq(write(fd, page, sizeof(page)), sizeof(page));
	}
	return fd;
}

static char *map(size_t len, int prot, int flags)
{
	int fd = make_file();
	char *addr = mmap(NULL, len, prot, flags, fd, 0);

	ck_assert_ptr_ne(addr, MAP_FAILED);
	close(fd);
	return addr;
}

static void begin(void)
{
	caps_has(CAPS_PROC); /* asked once, beside what is looked at here */
	fake_kernel_install();
	errno = 17;
}

/* The hint was accepted, and handed over as this one range. */
static void ck_handed(int answer, const char *addr, size_t len, int advice)
{
	const struct fake_record *record = fake_record(0);

	ck_assert_int_eq(answer, 0);
	ck_assert_uint_eq(fake_records(), 1);
	ck_assert_int_eq(record->call, FAKE_MADVISE);
	ck_assert_ptr_eq(record->addr, addr);
	ck_assert_uint_eq(record->len, len);
	ck_assert_int_eq(record->arg, advice);
	ck_assert_int_eq(errno, 17);
	fake_forget();
}

/* It was not, and the kernel heard nothing of it. */
static void ck_kept(int answer, int code)
{
	ck_assert_int_eq(answer, code);
	ck_assert_uint_eq(fake_records(), 0);
	ck_assert_int_eq(errno, 17);
}

/* --- willneed ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(test_what_is_needed_is_rounded_outwards)
{
	char *file = map(BYTES, PROT_READ, MAP_PRIVATE);

	begin();
	ck_handed(lull_file_willneed(file, BYTES), file, BYTES, MADV_WILLNEED);
	ck_handed(lull_file_willneed(file + 1, 1), file, OS_PAGE_SIZE, MADV_WILLNEED);
	ck_handed(lull_file_willneed(file + OS_PAGE_SIZE - 1, 2), file, 2 * OS_PAGE_SIZE, MADV_WILLNEED);
	ck_handed(lull_file_willneed(file + OS_PAGE_SIZE, OS_PAGE_SIZE), file + OS_PAGE_SIZE, OS_PAGE_SIZE, MADV_WILLNEED);
	ck_kept(lull_file_willneed(file, 0), 0);
	ck_kept(lull_file_willneed(NULL, 0), 0);
	ck_kept(lull_file_willneed(file, SIZE_MAX), EINVAL);
	ck_kept(lull_file_willneed((void *)(UINTPTR_MAX - 1), 1), EINVAL);
}
END_TEST

START_TEST(test_the_kernels_refusal_is_the_answer)
{
	char *file = map(BYTES, PROT_READ, MAP_PRIVATE);

	begin();
	fake_refuse(FAKE_MADVISE, 1, EIO);
	ck_assert_int_eq(lull_file_willneed(file, BYTES), EIO);
	fake_refuse(FAKE_MADVISE, 1, EPERM);
	ck_assert_int_eq(lull_file_done_with(file, BYTES), EPERM);
	ck_assert_int_eq(munmap(file, BYTES), 0);
	ck_assert_int_eq(lull_file_willneed(file, BYTES), ENOMEM);
	ck_assert_int_eq(errno, 17);
}
END_TEST

/* --- done_with ----------------------------------------------------------------------------------------------------------------------- */

START_TEST(test_what_is_done_with_is_rounded_inwards)
{
	char *file = map(BYTES, PROT_READ, MAP_PRIVATE), *second = file + OS_PAGE_SIZE;

	begin();
	ck_handed(lull_file_done_with(file, BYTES), file, BYTES, MADV_DONTNEED);
	ck_handed(lull_file_done_with(file + 1, 2 * OS_PAGE_SIZE), second, OS_PAGE_SIZE, MADV_DONTNEED);
	ck_handed(lull_file_done_with(second, OS_PAGE_SIZE), second, OS_PAGE_SIZE, MADV_DONTNEED);
	ck_kept(lull_file_done_with(file + 1, 2 * OS_PAGE_SIZE - 2), 0);
	ck_kept(lull_file_done_with(file, OS_PAGE_SIZE - 1), 0);
	ck_kept(lull_file_done_with(file, 0), 0);
	ck_kept(lull_file_done_with(file, SIZE_MAX), EINVAL);
	ck_kept(lull_file_done_with((void *)(UINTPTR_MAX - 1), 1), EINVAL);
}
END_TEST

/* A mapping of its own behind it, so that it is not joined with another. */
START_TEST(test_the_last_os_page_of_a_mapping_goes_with_a_part_of_it)
{
	char *file = map(BYTES, PROT_READ, MAP_PRIVATE), *last = file + BYTES - OS_PAGE_SIZE;

	ck_assert_int_eq(mprotect(last, OS_PAGE_SIZE, PROT_NONE), 0);
	begin();
	ck_handed(lull_file_done_with(file, BYTES - OS_PAGE_SIZE - 100), file, BYTES - OS_PAGE_SIZE, MADV_DONTNEED);
	ck_handed(lull_file_done_with(last - OS_PAGE_SIZE, 1), last - OS_PAGE_SIZE, OS_PAGE_SIZE, MADV_DONTNEED);
	ck_kept(lull_file_done_with(last - OS_PAGE_SIZE + 1, 1), 0);
}
END_TEST

START_TEST(test_a_written_mapping_is_refused_though_it_is_read_only_now)
{
	char *file = map(BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	begin();
	ck_kept(lull_file_done_with(file, BYTES), EACCES);
	file[5 * OS_PAGE_SIZE] = '!';
	ck_assert_int_eq(mprotect(file, BYTES, PROT_READ), 0);
	ck_kept(lull_file_done_with(file, BYTES), EBUSY);
	ck_kept(lull_file_done_with(file + 5 * OS_PAGE_SIZE, OS_PAGE_SIZE), EBUSY);
	ck_assert_int_eq(file[5 * OS_PAGE_SIZE], '!');
	/* The rest is the file's own. */
	ck_handed(lull_file_done_with(file, 5 * OS_PAGE_SIZE), file, 5 * OS_PAGE_SIZE, MADV_DONTNEED);
	ck_handed(lull_file_done_with(file + 6 * OS_PAGE_SIZE, OS_PAGE_SIZE), file + 6 * OS_PAGE_SIZE, OS_PAGE_SIZE, MADV_DONTNEED);
}
END_TEST

START_TEST(test_what_is_not_a_private_file_is_refused)
{
	char *shared = map(BYTES, PROT_READ, MAP_SHARED), *writable = map(BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *anonymous = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *small = lull_malloc(100), *large = lull_malloc(3 * MIB);
	char local[3 * OS_PAGE_SIZE];

	memset(local, 1, sizeof(local));
	memset(large, 1, 3 * MIB);
	begin();
	ck_kept(lull_file_done_with(shared, BYTES), EOPNOTSUPP);
	ck_kept(lull_file_done_with(writable, BYTES), EACCES);
	ck_kept(lull_file_done_with(anonymous, BYTES), EBADF);
	ck_kept(lull_file_done_with(small, 100), EBADF);
	ck_kept(lull_file_done_with(large, 3 * MIB), EBADF);
	ck_kept(lull_file_done_with(local, sizeof(local)), EBADF);
	ck_kept(lull_file_done_with(NULL, 1), ENOMEM);
	fake_kernel_remove();
	lull_free(small);
	lull_free(large);
}
END_TEST

START_TEST(test_a_range_that_is_right_only_in_part_is_refused_whole)
{
	char *file = map(BYTES, PROT_READ, MAP_PRIVATE), *middle = file + BYTES / 2;
	int fd = make_file();

	ck_assert_ptr_ne(mmap(middle, OS_PAGE_SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0), MAP_FAILED);
	begin();
	ck_kept(lull_file_done_with(file, BYTES), EOPNOTSUPP);
	ck_handed(lull_file_done_with(file, BYTES / 2), file, BYTES / 2, MADV_DONTNEED);
	ck_assert_int_eq(munmap(middle, OS_PAGE_SIZE), 0);
	ck_kept(lull_file_done_with(file, BYTES), ENOMEM);
	ck_kept(lull_file_done_with(middle, OS_PAGE_SIZE), ENOMEM);
	ck_assert_ptr_ne(mmap(middle, OS_PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0), MAP_FAILED);
	ck_kept(lull_file_done_with(file, BYTES), EBADF);
	close(fd);
}
END_TEST

/* Two mappings side by side are one range. */
START_TEST(test_neighbours_go_together)
{
	char *file = map(BYTES, PROT_READ, MAP_PRIVATE);
	int fd = make_file();

	ck_assert_ptr_ne(mmap(file + BYTES / 2, BYTES / 2, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0), MAP_FAILED);
	begin();
	ck_handed(lull_file_done_with(file, BYTES), file, BYTES, MADV_DONTNEED);
	close(fd);
}
END_TEST

START_TEST(test_what_was_done_with_can_be_read_again)
{
	char *file = map(BYTES, PROT_READ, MAP_PRIVATE);

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < PAGES; i++)
			ck_assert_int_eq(file[i * OS_PAGE_SIZE + 7], 'a' + (int)i);
		ck_assert_int_eq(lull_file_done_with(file, BYTES), 0);
		ck_assert_int_eq(lull_file_willneed(file, BYTES), 0);
	}
}
END_TEST

START_TEST(test_switched_off_they_do_nothing_and_say_so_to_nobody)
{
	char *file = map(BYTES, PROT_READ, MAP_PRIVATE);

	begin();
	file_set_hints(false);
	ck_kept(lull_file_willneed(file, BYTES), 0);
	ck_kept(lull_file_done_with(file, BYTES), 0);
	ck_kept(lull_file_done_with(NULL, 1), 0);
	file_set_hints(true);
	ck_handed(lull_file_done_with(file, BYTES), file, BYTES, MADV_DONTNEED);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("file");
	TCase *willneed = tcase_create("willneed");
	TCase *done_with = tcase_create("done_with");

	tcase_add_test(willneed, test_what_is_needed_is_rounded_outwards);
	tcase_add_test(willneed, test_the_kernels_refusal_is_the_answer);
	suite_add_tcase(suite, willneed);
	tcase_add_test(done_with, test_what_is_done_with_is_rounded_inwards);
	tcase_add_test(done_with, test_the_last_os_page_of_a_mapping_goes_with_a_part_of_it);
	tcase_add_test(done_with, test_a_written_mapping_is_refused_though_it_is_read_only_now);
	tcase_add_test(done_with, test_what_is_not_a_private_file_is_refused);
	tcase_add_test(done_with, test_a_range_that_is_right_only_in_part_is_refused_whole);
	tcase_add_test(done_with, test_neighbours_go_together);
	tcase_add_test(done_with, test_what_was_done_with_can_be_read_again);
	tcase_add_test(done_with, test_switched_off_they_do_nothing_and_say_so_to_nobody);
	suite_add_tcase(suite, done_with);
	return unit_run(suite);
}
