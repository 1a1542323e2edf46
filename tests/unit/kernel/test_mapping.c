/* SPDX-License-Identifier: MIT */
/*
 * Suite mapping: recorded texts of /proc/PID/maps, read in pieces of every length; what is no such text; and the real files of the test's
 * own process.
 */
#include "kernel/mapping.h"

#include "support/unit.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the judge was asked, and what it answers from the nth question on. */
static struct mapping asked[16];
static unsigned asked_n, refuse_from;

static int judge(const struct mapping *mapping)
{
	ck_assert_uint_lt(asked_n, array_len(asked));
	asked[asked_n++] = *mapping;
	return refuse_from != 0 && asked_n >= refuse_from ? -EXDEV : 0;
}

/* The text in pieces of PIECE bytes. Returns the answer; *ret_end as mapping_check. */
static int scan(const char *text, uintptr_t from, uintptr_t to, size_t piece, uintptr_t *ret_end)
{
	struct mapping_scan scan;
	int answer = 0;

	asked_n = 0;
	mapping_scan_begin(&scan, from, to - from, judge);
	for (size_t len = strlen(text), n; len > 0 && answer == 0; text += n, len -= n) {
		n = min_size(piece, len);
		answer = mapping_scan_feed(&scan, text, n);
	}
	*ret_end = scan.next;
	return answer;
}

/* A program, with what can stand in a name. */
static const char recorded[] =
	"00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus-daemon\n"
	"00651000-00652000 r--p 00051000 08:02 173521      /usr/bin/dbus-daemon\n"
	"00652000-00655000 rw-p 00052000 08:02 173521      /usr/bin/dbus-daemon\n"
	"00e03000-00e24000 rw-p 00000000 00:00 0           [heap]\n"
	"35b1800000-35b1820000 r--p 00000000 08:02 135522  /var/tmp/two\\040words and more (deleted)\n"
	"35b1820000-35b1821000 r--s 0001f000 08:02 135522  /var/tmp/new\\012line\n"
	"35b1821000-35b1822000 rw-p 00000000 00:00 0 \n"
	"35b1822000-35b1826000 r--p 00000000 fd:1f 18446744073709551615 /anon_hugepage 7f00-8000 rw-p 0 0:0 0\n"
	"7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0   [stack]\n"
	"7ffe00030000-7ffe00031000 r-xp 00000000 00:00 0   [vdso]\n"
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

#define EACH_PIECE(piece) for (size_t piece = 1; piece < 200; piece += piece < 8 ? 1 : 13)

START_TEST(test_a_range_in_one_mapping_is_judged_by_it)
{
	uintptr_t end;

	EACH_PIECE(piece) {
		ck_assert_int_eq(scan(recorded, 0x35b1801000, 0x35b1802000, piece, &end), 1);
		ck_assert_uint_eq(end, 0x35b1820000);
		ck_assert_uint_eq(asked_n, 1);
		ck_assert_uint_eq(asked[0].start, 0x35b1800000);
		ck_assert_uint_eq(asked[0].end, 0x35b1820000);
		ck_assert(asked[0].is_file && !asked[0].can_write && !asked[0].is_shared);
	}
}
END_TEST

START_TEST(test_each_mapping_of_a_range_is_judged)
{
	uintptr_t end;

	EACH_PIECE(piece) {
		ck_assert_int_eq(scan(recorded, 0x35b181ffff, 0x35b1822001, piece, &end), 1);
		ck_assert_uint_eq(end, 0x35b1826000);
		ck_assert_uint_eq(asked_n, 4);
		ck_assert(asked[0].is_file && !asked[0].is_shared && !asked[0].can_write);
		ck_assert(asked[1].is_file && asked[1].is_shared && !asked[1].can_write);
		ck_assert(!asked[2].is_file && !asked[2].is_shared && asked[2].can_write);
		ck_assert(asked[3].is_file && !asked[3].is_shared && !asked[3].can_write);
	}
}
END_TEST

START_TEST(test_the_first_refusal_is_the_answer)
{
	uintptr_t end;

	for (refuse_from = 1; refuse_from <= 3; refuse_from++) {
		ck_assert_int_eq(scan(recorded, 0x35b1800000, 0x35b1822000, sizeof(recorded), &end), -EXDEV);
		ck_assert_uint_eq(asked_n, refuse_from);
	}
	refuse_from = 0;
}
END_TEST

START_TEST(test_a_gap_anywhere_is_no_memory)
{
	static const struct {
		uintptr_t from, to;
		int answer;
	} ranges[] = {
		{0, 1, -ENOMEM},
		{0x3fffff, 0x400001, -ENOMEM},
		{0x452000, 0x452001, -ENOMEM},
		{0x451fff, 0x452001, -ENOMEM},
		{0x400000, 0x652000, -ENOMEM},
		{0x651000, 0x655000, 1},
		{0x651000, 0x655001, -ENOMEM},
		{0x35b1826000, 0x35b1826001, -ENOMEM},
		{0xffffffffff600000, 0xffffffffff601000, 1},
		/* the text ends */
		{0xffffffffff600000, 0xffffffffff601001, 0},
		{0xffffffffff700000, 0xffffffffff700001, 0},
	};
	uintptr_t end;

	for (unsigned i = 0; i < array_len(ranges); i++)
		EACH_PIECE(piece)
			ck_assert_int_eq(scan(recorded, ranges[i].from, ranges[i].to, piece, &end), ranges[i].answer);
}
END_TEST

/* A name as long as the kernel makes them, and longer than any buffer here. */
START_TEST(test_lines_may_be_of_any_length)
{
	static char text[3 * 16384];
	uintptr_t end;

	strcpy(text, "1000-2000 r--p 00000000 08:02 1 /");
	memset(text + strlen(text), '-', 16384);
	strcat(text, "\n2000-3000 r--p 00001000 08:02 1 /");
	memset(text + strlen(text), ' ', 16384);
	strcat(text, "\n");
	EACH_PIECE(piece) {
		ck_assert_int_eq(scan(text, 0x1800, 0x2800, piece, &end), 1);
		ck_assert_uint_eq(end, 0x3000);
	}
}
END_TEST

START_TEST(test_what_is_no_maps_file_is_not_believed)
{
	static const char *const texts[] = {
		"\n",
		" 1000-2000 r--p 00000000 08:02 1 /a\n",
		"-2000 r--p 00000000 08:02 1 /a\n",
		"1000- r--p 00000000 08:02 1 /a\n",
		"1000 2000 r--p 00000000 08:02 1 /a\n",
		"2000-1000 r--p 00000000 08:02 1 /a\n",
		"1000-1000 r--p 00000000 08:02 1 /a\n",
		"1000-2g00 r--p 00000000 08:02 1 /a\n",
		"1000-20000000000000000 r--p 00000000 08:02 1 /a\n",
		"1000-2000 r-- 00000000 08:02 1 /a\n",
		"1000-2000 r--p- 00000000 08:02 1 /a\n",
		"1000-2000 -r-p 00000000 08:02 1 /a\n",
		"1000-2000 r--x 00000000 08:02 1 /a\n",
		"1000-2000 r--p 00000000\n",
		"1000-2000 r--p 00000000 08:02\n",
		"1000-2000 r--p 00000000 08:02 \n",
		"1000-2000 r--p 00000000 08:02 1a /a\n",
		"1000-2000 r--p 00000000 08:02 18446744073709551616 /a\n",
		"Size: 4 kB\n",
	};
	uintptr_t end;

	for (unsigned i = 0; i < array_len(texts); i++)
		EACH_PIECE(piece) {
			ck_assert_msg(scan(texts[i], 0x1000, 0x2000, piece, &end) == -ENOSYS, "%s", texts[i]);
			ck_assert_uint_eq(asked_n, 0);
		}
}
END_TEST

START_TEST(test_a_line_without_its_end_says_nothing)
{
	static const char line[] = "1000-2000 r--p 00000000 08:02 1 /a\n";
	char text[sizeof(line)];
	uintptr_t end;

	for (size_t n = 0; n < sizeof(line) - 1; n++) {
		memcpy(text, line, n);
		text[n] = '\0';
		ck_assert_int_eq(scan(text, 0x1000, 0x2000, 5, &end), 0);
	}
	ck_assert_int_eq(scan(line, 0x1000, 0x2000, 5, &end), 1);
}
END_TEST

START_TEST(test_an_entry_is_a_copy_when_it_is_there_and_not_the_files)
{
	static const uint64_t present = UINT64_C(1) << 63, swapped = UINT64_C(1) << 62, of_file = UINT64_C(1) << 61;
	static const uint64_t others = (UINT64_C(1) << 61) - 1; /* frame number, soft-dirty, exclusive, write-protected */

	ck_assert(!mapping_is_copy(0));
	ck_assert(!mapping_is_copy(others));
	ck_assert(!mapping_is_copy(of_file | others));
	ck_assert(!mapping_is_copy(present | of_file));
	ck_assert(mapping_is_copy(present));
	ck_assert(mapping_is_copy(present | others));
	ck_assert(mapping_is_copy(swapped));
	ck_assert(!mapping_is_copy(swapped | of_file)); /* being moved */
}
END_TEST

/* --- the real files ------------------------------------------------------------------------------------------------------------------ */

#define PAGES 300 /* more than are asked for at once */

static char *map_file(int prot, int flags)
{
	char name[] = "/tmp/lull-mapping-XXXXXX";
	int fd = mkstemp(name);
	char *addr;

	ck_assert_int_ge(fd, 0);
	unlink(name);
	ck_assert_int_eq(ftruncate(fd, (off_t)(PAGES * OS_PAGE_SIZE)), 0);
	addr = mmap(NULL, PAGES * OS_PAGE_SIZE, prot, flags, fd, 0);
	ck_assert_ptr_ne(addr, MAP_FAILED);
	close(fd);
	return addr;
}

static uintptr_t end_of(const char *file)
{
	return (uintptr_t)file + PAGES * OS_PAGE_SIZE;
}

START_TEST(test_this_process_is_read)
{
	char *file = map_file(PROT_READ, MAP_PRIVATE), *shared = map_file(PROT_READ | PROT_WRITE, MAP_SHARED), local;
	uintptr_t end;

	asked_n = 0;
	ck_assert_int_eq(mapping_check((uintptr_t)file + 10, 10, judge, &end), 0);
	ck_assert_uint_eq(asked_n, 1);
	ck_assert(asked[0].is_file && !asked[0].is_shared && !asked[0].can_write);
	ck_assert_uint_ge(end, end_of(file));
	asked_n = 0;
	ck_assert_int_eq(mapping_check((uintptr_t)shared, PAGES * OS_PAGE_SIZE, judge, &end), 0);
	ck_assert(asked[0].is_file && asked[0].is_shared && asked[0].can_write);
	asked_n = 0;
	ck_assert_int_eq(mapping_check((uintptr_t)&local, 1, judge, &end), 0);
	ck_assert(!asked[0].is_file && !asked[0].is_shared && asked[0].can_write);
	munmap(file, PAGES * OS_PAGE_SIZE);
	ck_assert_int_eq(mapping_check((uintptr_t)file, 1, judge, &end), -ENOMEM);
	ck_assert_int_eq(mapping_check(0, 1, judge, &end), -ENOMEM);
	ck_assert_int_eq(mapping_check(UINTPTR_MAX - OS_PAGE_SIZE, 1, judge, &end), -ENOMEM);
}
END_TEST

START_TEST(test_one_written_os_page_is_found_among_many)
{
	static const unsigned places[] = {0, 1, 127, 128, 129, PAGES - 1};
	volatile unsigned sum = 0;

	for (unsigned i = 0; i < array_len(places); i++) {
		char *file = map_file(PROT_READ | PROT_WRITE, MAP_PRIVATE);
		uintptr_t at = (uintptr_t)file, written = at + places[i] * OS_PAGE_SIZE;

		ck_assert_int_eq(mapping_has_copies(at, PAGES * OS_PAGE_SIZE), 0);
		for (unsigned page = 0; page < PAGES; page++)
			sum += (unsigned)file[page * OS_PAGE_SIZE];
		ck_assert_int_eq(mapping_has_copies(at, PAGES * OS_PAGE_SIZE), 0);
		*(char *)written = 1;
		ck_assert_int_eq(mprotect(file, PAGES * OS_PAGE_SIZE, PROT_READ), 0);
		ck_assert_int_eq(mapping_has_copies(at, PAGES * OS_PAGE_SIZE), 1);
		ck_assert_int_eq(mapping_has_copies(written, OS_PAGE_SIZE), 1);
		ck_assert_int_eq(mapping_has_copies(at, written - at), 0);
		ck_assert_int_eq(mapping_has_copies(written + OS_PAGE_SIZE, end_of(file) - written - OS_PAGE_SIZE), 0);
	}
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("mapping");
	TCase *text = tcase_create("text");
	TCase *process = tcase_create("process");

	tcase_add_test(text, test_a_range_in_one_mapping_is_judged_by_it);
	tcase_add_test(text, test_each_mapping_of_a_range_is_judged);
	tcase_add_test(text, test_the_first_refusal_is_the_answer);
	tcase_add_test(text, test_a_gap_anywhere_is_no_memory);
	tcase_add_test(text, test_lines_may_be_of_any_length);
	tcase_add_test(text, test_what_is_no_maps_file_is_not_believed);
	tcase_add_test(text, test_a_line_without_its_end_says_nothing);
	tcase_add_test(text, test_an_entry_is_a_copy_when_it_is_there_and_not_the_files);
	suite_add_tcase(suite, text);
	tcase_add_test(process, test_this_process_is_read);
	tcase_add_test(process, test_one_written_os_page_is_found_among_many);
	suite_add_tcase(suite, process);
	return unit_run(suite);
}
