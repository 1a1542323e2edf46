/* SPDX-License-Identifier: MIT */
/*
 * A request reads pieces of the image that lie scattered over all of it, as the code and data of a large program do, and does an
 * application's share of malloc and free. The places and the sizes are the same in every run; the blocks of each request replace a part
 * of those of earlier ones, so that memory is in use and free in between when the pause begins.
 */
#include "common/pageout_program.h"

#include "base/random.h"
#include "common/procfs.h"
#include "common/say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* 256 pieces of 16 KiB: that many, since the seed's page-out cost 210 to 220 major faults, about one for each piece. */
#define PIECES 256
#define PIECE_BYTES (16 * KIB)
/* Odd, so that multiplying by it visits each of the 256 once, never two neighbours in turn: no pattern that read-ahead would follow. */
#define PIECE_STEP 167

/* 8192 blocks to 4 KiB, half of them in use at any time: about 8 MiB of live memory and as much free in between. */
#define SLOTS 8192
#define SLOT_BYTES_MAX (4 * KIB)
#define BUFFERS 16
#define BUFFER_BYTES (256 * KIB) /* held back for a moment when freed, as an allocator for servers does */

#define PAGEMAP_PRESENT (UINT64_C(1) << 63) /* Documentation/admin-guide/mm/pagemap.rst */

struct program {
	const unsigned char *image;
	size_t image_bytes;
	bool pages_out;
	unsigned pause_ms;
	void *slots[SLOTS];
	struct random random;
	volatile uint64_t sum; /* so that no read is left out */
};

struct cost {
	uint64_t ns, major_faults, minor_faults;
};

static struct program program;
static struct pageout_run answer;

__attribute__((format(printf, 2, 3))) static bool refuse(enum tool_exit status, const char *format, ...)
{
	va_list args;

	answer.status = status;
	va_start(args, format);
	vsnprintf(answer.error, sizeof(answer.error), format, args);
	va_end(args);
	return false;
}

/* ---- a request ---- */

static void read_image(void)
{
	size_t apart = program.image_bytes / PIECES;

	for (size_t i = 0; i < PIECES; i++) {
		const unsigned char *piece = program.image + i * PIECE_STEP % PIECES * apart;

		for (size_t at = 0; at < PIECE_BYTES; at += 64)
			program.sum += piece[at];
	}
}

static bool fill(void **slot, size_t bytes)
{
	*slot = malloc(bytes);
	if (*slot == NULL)
		return refuse(TOOL_CANNOT, "out of memory");
	memset(*slot, 0x5a, bytes);
	return true;
}

static bool use_blocks(void)
{
	for (size_t i = 0; i < SLOTS; i++) {
		void **slot = &program.slots[random_below(&program.random, SLOTS)];

		free(*slot);
		*slot = NULL;
		if (i % 2 == 0 && !fill(slot, 16 + random_below(&program.random, SLOT_BYTES_MAX - 16)))
			return false;
	}
	return true;
}

static bool use_buffers(void)
{
	void *buffers[BUFFERS] = {NULL};
	bool ok = true;

	for (size_t i = 0; ok && i < BUFFERS; i++)
		ok = fill(&buffers[i], BUFFER_BYTES);
	for (size_t i = 0; i < BUFFERS; i++)
		free(buffers[i]);
	return ok;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool serve(struct cost *ret)
{
	struct rusage before, after;
	uint64_t start;

	getrusage(RUSAGE_SELF, &before);
	start = now_ns();
	read_image();
	if (!use_blocks() || !use_buffers())
		return false;
	ret->ns = now_ns() - start;
	getrusage(RUSAGE_SELF, &after);
	ret->major_faults = (uint64_t)(after.ru_majflt - before.ru_majflt);
	ret->minor_faults = (uint64_t)(after.ru_minflt - before.ru_minflt);
	return true;
}

static int compare_costs(const void *a, const void *b)
{
	const struct cost *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

static bool serve_until_steady(void)
{
	struct cost costs[PAGEOUT_REQUESTS], last;

	for (size_t i = 0; i < PAGEOUT_REQUESTS; i++)
		if (!serve(&costs[i]))
			return false;
	last = costs[PAGEOUT_REQUESTS - 1];
	qsort(costs + PAGEOUT_REQUESTS / 2, PAGEOUT_REQUESTS / 2, sizeof(costs[0]), compare_costs);
	answer.steady_ns = costs[PAGEOUT_REQUESTS * 3 / 4].ns;
	answer.steady_major_faults = last.major_faults;
	answer.steady_minor_faults = last.minor_faults;
	return true;
}

static bool serve_next(void)
{
	struct cost cost;

	if (!serve(&cost))
		return false;
	answer.next_ns = cost.ns;
	answer.next_major_faults = cost.major_faults;
	answer.next_minor_faults = cost.minor_faults;
	return true;
}

/* ---- what is in memory ---- */

/* What of the image this process's page table holds. */
static bool look_at_image(uint64_t *ret)
{
	uint64_t entries[512], pages = 0;
	uint64_t at = (uintptr_t)program.image / OS_PAGE_SIZE, end = at + program.image_bytes / OS_PAGE_SIZE;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return refuse(TOOL_CANNOT, "cannot read /proc/self/pagemap: %s", strerror(errno));
	for (size_t n; at < end; at += n) {
		n = min_size(end - at, array_len(entries));
		if (pread(fd, entries, n * sizeof(entries[0]), (off_t)(at * sizeof(entries[0]))) != (ssize_t)(n * sizeof(entries[0])))
			break;
		for (size_t i = 0; i < n; i++)
			pages += (entries[i] & PAGEMAP_PRESENT) != 0;
	}
	close(fd);
	*ret = pages * OS_PAGE_SIZE;
	return at == end || refuse(TOOL_CANNOT, "cannot read all of /proc/self/pagemap");
}

static bool look(uint64_t *ret_image, uint64_t *ret_rss, uint64_t *ret_anon)
{
	int process = procfs_open("", getpid());

	if (process < 0)
		return refuse(TOOL_CANNOT, "cannot read /proc/self: %s", strerror(-process));
	*ret_rss = procfs_status_bytes(process, "VmRSS");
	*ret_anon = procfs_status_bytes(process, "RssAnon");
	close(process);
	return look_at_image(ret_image);
}

/* ---- the session ---- */

static bool map_image(uint64_t offset)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *image;

	if (fd < 0)
		return refuse(TOOL_CANNOT, "cannot open /proc/self/exe: %s", strerror(errno));
	image = mmap(NULL, program.image_bytes, PROT_READ, MAP_PRIVATE, fd, (off_t)offset);
	close(fd);
	if (image == MAP_FAILED)
		return refuse(TOOL_CANNOT, "cannot map the image: %s", strerror(errno));
	program.image = image;
	return true;
}

static bool page_out(void)
{
	if (madvise((void *)(uintptr_t)program.image, program.image_bytes, MADV_PAGEOUT) == 0)
		return true;
	return refuse(errno == EINVAL ? TOOL_KERNEL : TOOL_CANNOT, "MADV_PAGEOUT on the image: %s", strerror(errno));
}

/* In two waits for each kind of run, so that they differ in the page-out only. */
static bool pause_between(void)
{
	int half_ms = (int)program.pause_ms / 2;

	if (!look(&answer.image_before_bytes, &answer.rss_before_bytes, &answer.anon_before_bytes))
		return false;
	poll(NULL, 0, half_ms);
	if (program.pages_out && !page_out())
		return false;
	poll(NULL, 0, (int)program.pause_ms - half_ms);
	return look(&answer.image_after_bytes, &answer.rss_after_bytes, &answer.anon_after_bytes);
}

int pageout_program_run(int n, char **operands)
{
	if (n != 4) {
		say("measure", "'" PAGEOUT_PROGRAM "' is started by 'lull measure pageout' only");
		return TOOL_CANNOT;
	}
	program.pages_out = strtoul(operands[0], NULL, 10) != 0;
	program.pause_ms = (unsigned)strtoul(operands[1], NULL, 10);
	program.image_bytes = strtoull(operands[3], NULL, 10);
	program.random.state = 1;
	if (map_image(strtoull(operands[2], NULL, 10)) && serve_until_steady() && pause_between() && serve_next())
		answer.status = TOOL_OK;
	return write(STDOUT_FILENO, &answer, sizeof(answer)) == sizeof(answer) ? answer.status : TOOL_CANNOT;
}
