/* SPDX-License-Identifier: MIT */
/*
 * A clean file mapping while a program is quiet. It maps a file of 16 MiB read-only and private, reads all of it, frees some memory,
 * and blocks in poll for 4 s, which is past both idle stages when LULL_IDLE_STAGES=1,2. How much of the mapping is gone then, and how
 * many faults does reading it again cost?
 *
 * The file is written to SEEDS_DIR, else TMPDIR, else /var/tmp, and synced first: its pages are clean, the kernel may take them at any
 * time, and nobody else should.
 */
#include "scenario.h"

#include <poll.h>

#define FILE_BYTES (16 * STRESS_MIB)
#define QUIET_MS 4000

static int make_file(void)
{
	static char chunk[STRESS_MIB];
	char path[4096];
	const char *dir = getenv("SEEDS_DIR");
	dir = dir ? dir : getenv("TMPDIR");
	snprintf(path, sizeof(path), "%s/lull-file-pages-XXXXXX", dir ? dir : "/var/tmp");
	int fd = mkstemp(path);
	if (fd < 0)
		stress_fail("cannot make a file like '%s': %s", path, strerror(errno));
	unlink(path);
	for (size_t sum = 0; sum < FILE_BYTES; sum += sizeof(chunk)) {
		memset(chunk, (int)(sum / sizeof(chunk)) + 1, sizeof(chunk));
		if (write(fd, chunk, sizeof(chunk)) != (ssize_t)sizeof(chunk))
			stress_fail("cannot write to '%s': %s", path, strerror(errno));
	}
	if (fsync(fd))
		stress_fail("fsync of '%s': %s", path, strerror(errno));
	return fd;
}

static unsigned read_all(const char *area)
{
	unsigned sum = 0;
	for (size_t at = 0; at < FILE_BYTES; at += STRESS_OS_PAGE)
		sum += (unsigned char)((volatile const char *)area)[at];
	return sum;
}

/* What of the mapping is in this process's page table: bit 63 of each entry of pagemap. */
static size_t mapped_kib(const char *area)
{
	static uint64_t entries[FILE_BYTES / STRESS_OS_PAGE];
	size_t pages = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	off_t at = (off_t)((uintptr_t)area / STRESS_OS_PAGE * sizeof(entries[0]));
	if (fd < 0 || pread(fd, entries, sizeof(entries), at) != (ssize_t)sizeof(entries))
		stress_fail("cannot read /proc/self/pagemap: %s", strerror(errno));
	close(fd);
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		pages += entries[i] >> 63;
	return pages * STRESS_OS_PAGE / STRESS_KIB;
}

/* So that the idle stages have something of their own to do. */
static void free_some(void)
{
	static struct pile pile;
	struct stress_rng rng = stress_rng_make(1);
	pile_fill(&pile, &rng, BURST_LOW, BURST_HIGH, BURST_BYTES);
	pile_free(&pile);
}

int main(void)
{
	struct rusage before, after;
	scenario_begin("file_pages");
	int fd = make_file();
	const char *area = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
	if (area == MAP_FAILED)
		stress_fail("mmap: %s", strerror(errno));
	unsigned sum = read_all(area);
	free_some();
	size_t before_kib = mapped_kib(area);
	poll(NULL, 0, QUIET_MS);
	size_t after_kib = mapped_kib(area);
	getrusage(RUSAGE_THREAD, &before);
	if (read_all(area) != sum)
		stress_fail("the file reads differently now");
	getrusage(RUSAGE_THREAD, &after);
	printf("file_pages before_kib=%zu after_kib=%zu lost_kib=%zu major_faults=%ld minor_faults=%ld\n", before_kib, after_kib,
		before_kib > after_kib ? before_kib - after_kib : 0, after.ru_majflt - before.ru_majflt, after.ru_minflt - before.ru_minflt);
	return 0;
}
