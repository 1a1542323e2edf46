/* SPDX-License-Identifier: MIT */
/*
 * A reservation without access is charged to nobody; making it writable charges it unless it was mapped with MAP_NORESERVE (which
 * vm.overcommit_memory=2 ignores); neither MADV_DONTNEED nor taking the access away gives the charge back; mapping it afresh does.
 * The charge is the flag "ac" of the mapping in /proc/self/smaps, so the machine's overcommit mode need not be changed to see it.
 */
#include "kernel/kernel.h"
#include "kernel/map.h"
#include "support/fact.h"

#include <errno.h>
#include <unistd.h>

#define LEN (4 * MIB)

static bool is_charged(const char *addr)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	char line[512];
	bool inside = false, charged = false, flags_seen = false;

	if (!smaps)
		fact_skip("/proc/self/smaps");
	while (fgets(line, sizeof(line), smaps)) {
		unsigned long from, to;

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= (uintptr_t)addr && (uintptr_t)addr < to;
		if (inside && strncmp(line, "VmFlags:", 8) == 0) {
			flags_seen = true;
			charged = strstr(line, " ac") != NULL;
		}
	}
	fclose(smaps);
	if (!flags_seen)
		fact_skip("VmFlags in /proc/self/smaps");
	return charged;
}

/* The kernel reads the byte for us: EFAULT instead of a signal. */
static bool is_readable(const char *addr)
{
	int ends[2];
	bool readable;

	fact(pipe(ends) == 0, "a pipe");
	readable = write(ends[1], addr, 1) == 1;
	close(ends[0]);
	close(ends[1]);
	return readable;
}

static void check_charge(void)
{
	char *addr = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	fact(addr != MAP_FAILED && !is_charged(addr), "no access, no charge");
	fact(map_commit(addr, LEN) && is_charged(addr), "write access charges");
	memset(addr, 1, LEN);
	fact(kernel.madvise(addr, LEN, MADV_DONTNEED) == 0 && is_charged(addr), "returning the memory keeps the charge");
	fact(kernel.mprotect(addr, LEN, PROT_NONE) == 0 && is_charged(addr), "taking the access away keeps it too");
	fact(map_decommit(addr, LEN) && !is_charged(addr), "mapping afresh drops it");
	map_release(addr, LEN);
}

static void check_decommit(void)
{
	char *addr = map_reserve(LEN, MIB);

	fact(addr && !is_readable(addr), "a reservation has no access");
	fact(map_commit(addr, LEN) && fact_all(addr, LEN, 0), "committed memory is zero");
	memset(addr, 1, LEN);
	fact(map_decommit(addr + MIB, MIB), "a part is decommitted");
	fact(!is_readable(addr + MIB) && !is_readable(addr + 2 * MIB - 1), "and has no access");
	fact(fact_all(addr, MIB, 1) && fact_all(addr + 2 * MIB, 2 * MIB, 1), "the rest keeps its contents");
	fact(map_commit(addr + MIB, MIB) && fact_all(addr + MIB, MIB, 0), "committed again it is zero");
	map_release(addr, LEN);
	fact(!is_readable(addr), "a released range is gone");
}

int main(void)
{
	check_charge();
	check_decommit();
	return 0;
}
