/* SPDX-License-Identifier: MIT */
/*
 * Ways to get a large block's contents to another place, by size: copying to fresh memory, to fresh memory that was populated in one call,
 * to memory that is resident; mremap(MREMAP_DONTUNMAP); UFFDIO_MOVE with a userfaultfd opened and closed for it. The best of five, in
 * microseconds, giving the source back included where it is left behind; and the faults. Destinations start at another slice than a
 * multiple of 2 MiB, as lull's do. Prints a table; a way this kernel refuses has "-".
 */
#include "kernel/abi.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define MOST (256 * MIB)
#define ROUNDS 5

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static bool copy(char *to, char *from, size_t len)
{
	memcpy(to, from, len);
	return madvise(from, len, MADV_DONTNEED) == 0;
}

static bool populate(char *to, char *from, size_t len)
{
	return madvise(to, len, MADV_POPULATE_WRITE) == 0 && copy(to, from, len);
}

static bool remap(char *to, char *from, size_t len)
{
	return mremap(from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to;
}

static bool uffd_move_by(int fd, char *to, char *from, size_t len)
{
	struct uffdio_api api = {.api = UFFD_API, .features = ABI_UFFD_FEATURE_MOVE};
	struct uffdio_register reg = {.range = {.start = (uintptr_t)to, .len = len}, .mode = UFFDIO_REGISTER_MODE_WP};
	struct abi_uffdio_move move = {.dst = (uintptr_t)to, .src = (uintptr_t)from, .len = len};

	return ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &reg) == 0 && ioctl(fd, ABI_UFFDIO_MOVE, &move) == 0;
}

static bool uffd_move(char *to, char *from, size_t len)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	bool done;

	if (fd < 0)
		return false;
	done = uffd_move_by(fd, to, from, len);
	close(fd);
	return done;
}

static const struct way {
	const char *name;
	bool (*go)(char *to, char *from, size_t len);
	bool resident; /* at the destination, before */
} ways[] = {
	{"copy", copy, false},
	{"populate", populate, false},
	{"resident", copy, true},
	{"mremap", remap, false},
	{"uffd-move", uffd_move, false},
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* Fresh, and one mapping with its surroundings again. */
static void renew(char *addr, size_t len)
{
	mmap(addr, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	madvise(addr, len, MADV_NOHUGEPAGE);
}

/* Microseconds, below 0: refused. */
static double once(const struct way *way, char *to, char *from, size_t len, int mark)
{
	renew(to, len);
	renew(from, len);
	memset(from, mark, len);
	if (way->resident)
		memset(to, 0, len);
	double begin = now_us();
	if (!way->go(to, from, len))
		return -1;
	double took = now_us() - begin;
	if (to[0] != mark || to[len - 1] != mark)
		abort();
	return took;
}

static void measure(const struct way *way, char *to, char *from, size_t len)
{
	double best = -1;
	long count = 0;

	for (int round = 1; round <= ROUNDS; round++) {
		long before = faults();
		double took = once(way, to, from, len, round);
		if (took < 0) {
			printf(" %11s %7s", "-", "-");
			return;
		}
		/* those of filling the two are not the way's */
		count = faults() - before - (long)(len / 4096) * (way->resident ? 2 : 1);
		if (best < 0 || took < best)
			best = took;
	}
	printf(" %11.1f %7ld", best, count);
	fflush(stdout);
}

int main(void)
{
	char *memory = mmap(NULL, 2 * MOST + 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *from, *to;

	if (memory == MAP_FAILED)
		return 2;
	madvise(memory, 2 * MOST + 8 * MIB, MADV_NOHUGEPAGE);
	from = (char *)(((uintptr_t)memory + 4 * MIB - 1) & ~(4 * MIB - 1));
	to = from + MOST + 64 * KIB;
	printf("%8s", "KiB");
	for (size_t way = 0; way < WAYS; way++)
		printf(" %11s %7s", ways[way].name, "faults");
	printf("\n");
	for (size_t len = 512 * KIB; len <= MOST; len *= 2) {
		printf("%8zu", len / KIB);
		for (size_t way = 0; way < WAYS; way++)
			measure(&ways[way], to, from, len);
		printf("\n");
	}
	return 0;
}
