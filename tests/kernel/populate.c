/* SPDX-License-Identifier: MIT */
/*
 * MADV_POPULATE_WRITE brings a range in without touching what is there, and refuses what cannot be written. MADV_HUGEPAGE around it gives
 * huge pages that stay when MADV_NOHUGEPAGE follows, and the mapping is one with its neighbours again: so the number of mappings does not
 * grow with the number of ranges. What is brought in counts as minor faults of the process.
 */
#include "kernel/kernel.h"
#include "support/fact.h"

#include <errno.h>
#include <sys/resource.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define LEN (8 * MIB)
#define HUGE (2 * MIB)

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	int n = 0, c;

	fact(file != NULL, "/proc/self/maps");
	while ((c = getc(file)) != EOF)
		n += c == '\n';
	fclose(file);
	return n;
}

/* Bytes in huge pages of the whole process. */
static size_t huge_bytes(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	size_t kib, sum = 0;

	if (file == NULL)
		fact_skip("/proc/self/smaps_rollup");
	while (fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "AnonHugePages: %zu", &kib) == 1)
			sum = kib;
	fclose(file);
	return sum * KIB;
}

static void check_populate(char *addr)
{
	long before;

	memset(addr + MIB, 1, OS_PAGE_SIZE);
	before = faults();
	fact(kernel.madvise(addr, 2 * MIB, MADV_POPULATE_WRITE) == 0, "accepted");
	fact(faults() - before >= (long)(2 * MIB / OS_PAGE_SIZE) - 1, "it counts as minor faults");
	fact(fact_resident(addr, LEN) == 2 * MIB / OS_PAGE_SIZE, "the range is resident, and nothing else is");
	fact(fact_all(addr + MIB, OS_PAGE_SIZE, 1), "what was written stays");
	fact(fact_all(addr, MIB, 0), "the rest reads as zero");
	fact(kernel.madvise(addr + 1, OS_PAGE_SIZE, MADV_POPULATE_WRITE) == -EINVAL, "the start must be OS-page aligned");
	fact(mprotect(addr + 4 * MIB, MIB, PROT_NONE) == 0, "memory without access");
	fact(kernel.madvise(addr + 3 * MIB, 2 * MIB, MADV_POPULATE_WRITE) < 0, "what cannot be written is refused");
	fact(mprotect(addr + 4 * MIB, MIB, PROT_READ | PROT_WRITE) == 0, "and writable again");
}

static void check_huge(char *addr)
{
	size_t before = huge_bytes();
	int maps;

	fact(kernel.madvise(addr, LEN, MADV_DONTNEED) == 0, "empty again");
	memset(addr, 1, OS_PAGE_SIZE);
	maps = mappings();
	for (size_t at = HUGE; at + 2 * HUGE <= LEN; at += HUGE) {
		fact(kernel.madvise(addr + at, HUGE, MADV_HUGEPAGE) == 0, "huge pages are asked for");
		fact(kernel.madvise(addr + at, HUGE, MADV_POPULATE_WRITE) == 0, "and brought in");
		fact(kernel.madvise(addr + at, HUGE, MADV_NOHUGEPAGE) == 0, "and no longer asked for");
		fact(mappings() <= maps, "the mapping is one again");
	}
	if (huge_bytes() == before)
		fact_skip("huge pages for this process");
	fact(kernel.madvise(addr + HUGE, HUGE, MADV_DONTNEED) == 0, "one goes back");
	fact(fact_resident(addr, LEN) <= (LEN - 2 * HUGE) / OS_PAGE_SIZE, "whole");
}

int main(void)
{
	char *memory = mmap(NULL, LEN + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), *addr;

	fact(memory != MAP_FAILED, "memory for the test");
	addr = (char *)align_up((uintptr_t)memory, HUGE);
	if (madvise(memory, LEN + HUGE, MADV_NOHUGEPAGE) != 0)
		fact_skip("transparent huge pages in this kernel");
	if (kernel.madvise(addr, OS_PAGE_SIZE, MADV_POPULATE_WRITE) == -EINVAL)
		fact_skip("MADV_POPULATE_WRITE (Linux 5.14)");
	kernel.madvise(addr, OS_PAGE_SIZE, MADV_DONTNEED);
	check_populate(addr);
	check_huge(addr);
	return 0;
}
