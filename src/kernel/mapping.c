/* SPDX-License-Identifier: MIT */
/*
 * A reader of one character at a time: of a line, the fields up to the inode are looked at as they come by, the name behind them is passed
 * over, whatever is in it (spaces, "(deleted)"; a newline is written as \012 there).
 */
#include "kernel/mapping.h"

#include "kernel/caps.h"
#include "kernel/sys.h"

#include <errno.h>
#include <fcntl.h>

/* Some ten lines: small, since the caller may be on a signal stack. */
#define TEXT_BYTES 1024
/* Entries for 512 KiB of mapping, one for each OS page. */
#define ENTRIES 128

/* "start-end perms offset device inode   name" */
enum field { FIELD_START, FIELD_END, FIELD_PERMS, FIELD_OFFSET, FIELD_DEVICE, FIELD_INODE, FIELD_NAME };

/* What ends each field; the inode may also end the line. */
static const char field_ends[] = {'-', ' ', ' ', ' ', ' ', ' ', '\n'};

static void begin_field(struct mapping_scan *scan, unsigned field)
{
	scan->field = field;
	scan->column = 0;
	scan->number = 0;
}

void mapping_scan_begin(struct mapping_scan *scan, uintptr_t addr, size_t len, int (*judge)(const struct mapping *mapping))
{
	*scan = (struct mapping_scan){.next = addr, .end = addr + len, .judge = judge};
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_digit(struct mapping_scan *scan, char c, unsigned base)
{
	int digit = digit_of(c);

	if (digit < 0 || (unsigned)digit >= base || scan->number > (UINT64_MAX - (unsigned)digit) / base)
		return false;
	scan->number = scan->number * base + (unsigned)digit;
	return true;
}

/* "rwxp": a letter or '-' in each place, 's' or 'p' in the last. */
static bool take_permission(struct mapping_scan *scan, char c)
{
	static const char letters[] = "rwxs";

	if (scan->column >= sizeof(letters) - 1 || (c != letters[scan->column] && c != (scan->column == 3 ? 'p' : '-')))
		return false;
	if (scan->column == 1)
		scan->mapping.can_write = c == 'w';
	if (scan->column == 3)
		scan->mapping.is_shared = c == 's';
	return true;
}

/* One character inside a field. False: it cannot stand there. */
static bool take(struct mapping_scan *scan, char c)
{
	bool fits;

	switch (scan->field) {
	case FIELD_START:
	case FIELD_END:
		fits = take_digit(scan, c, 16);
		break;
	case FIELD_PERMS:
		fits = take_permission(scan, c);
		break;
	case FIELD_INODE:
		fits = take_digit(scan, c, 10);
		break;
	default:
		fits = c != '\n' || scan->field == FIELD_NAME;
	}
	scan->column++;
	return fits;
}

/* False: the field is not whole. */
static bool end_field(struct mapping_scan *scan)
{
	if (scan->field == FIELD_START)
		scan->mapping.start = scan->number;
	if (scan->field == FIELD_END)
		scan->mapping.end = scan->number;
	if (scan->field == FIELD_INODE)
		scan->mapping.is_file = scan->number != 0;
	return scan->field == FIELD_PERMS ? scan->column == 4 : scan->column > 0 || scan->field == FIELD_NAME;
}

/* The line is complete. As mapping_scan_feed. */
static int weigh(struct mapping_scan *scan)
{
	const struct mapping *mapping = &scan->mapping;
	int err;

	if (mapping->end <= mapping->start)
		return -ENOSYS;
	if (mapping->end <= scan->next)
		return 0;
	if (mapping->start > scan->next)
		return -ENOMEM;
	err = scan->judge(mapping);
	if (err != 0)
		return err;
	scan->next = mapping->end;
	return scan->next >= scan->end;
}

static bool ends_line(const struct mapping_scan *scan, char c)
{
	return c == '\n' && scan->field >= FIELD_INODE;
}

static int feed(struct mapping_scan *scan, char c)
{
	if (!ends_line(scan, c) && c != field_ends[scan->field])
		return take(scan, c) ? 0 : -ENOSYS;
	if (!end_field(scan))
		return -ENOSYS;
	begin_field(scan, ends_line(scan, c) ? FIELD_START : scan->field + 1);
	return c == '\n' ? weigh(scan) : 0;
}

int mapping_scan_feed(struct mapping_scan *scan, const char *text, size_t n)
{
	int answer = 0;

	for (size_t i = 0; i < n && answer == 0; i++)
		answer = feed(scan, text[i]);
	return answer;
}

/* --- this process ----------------------------------------------------------------------------------------------------------------- */

static int open_proc(const char *path)
{
	if (!caps_has(CAPS_PROC))
		return -EPERM;
	return (int)sys_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

static int scan_all(struct mapping_scan *scan, int fd)
{
	char text[TEXT_BYTES];
	int answer = 0;

	while (answer == 0) {
		long n = sys_call(SYS_read, fd, (long)text, sizeof(text), 0, 0, 0);

		if (n <= 0)
			return n == 0 ? -ENOMEM : -ENOSYS;
		answer = mapping_scan_feed(scan, text, (size_t)n);
	}
	return answer < 0 ? answer : 0;
}

int mapping_check(uintptr_t addr, size_t len, int (*judge)(const struct mapping *mapping), uintptr_t *ret_end)
{
	struct mapping_scan scan;
	int answer, fd = open_proc("/proc/self/maps");

	if (fd < 0)
		return -ENOSYS;
	mapping_scan_begin(&scan, addr, len, judge);
	answer = scan_all(&scan, fd);
	sys_close(fd);
	*ret_end = scan.next;
	return answer;
}

static int any_copy(int fd, size_t first, size_t pages)
{
	uint64_t entries[ENTRIES];

	while (pages > 0) {
		size_t want = min_size(pages, ENTRIES) * sizeof(*entries);
		long got = sys_call(SYS_pread64, fd, (long)entries, (long)want, (long)(first * sizeof(*entries)), 0, 0);

		if (got < (long)sizeof(*entries))
			return -ENOSYS;
		for (size_t i = 0; i < (size_t)got / sizeof(*entries); i++)
			if (mapping_is_copy(entries[i]))
				return 1;
		first += (size_t)got / sizeof(*entries);
		pages -= (size_t)got / sizeof(*entries);
	}
	return 0;
}

int mapping_has_copies(uintptr_t addr, size_t len)
{
	int answer, fd = open_proc("/proc/self/pagemap");

	if (fd < 0)
		return -ENOSYS;
	answer = any_copy(fd, addr / OS_PAGE_SIZE, len / OS_PAGE_SIZE);
	sys_close(fd);
	return answer;
}
