/* SPDX-License-Identifier: MIT */
/*
 * MADV_DONTNEED on private anonymous memory takes the memory away at once and it reads as zero afterwards; its neighbours stay. This
 * is what makes a returned block "away": calloc need not clear it. Some emulators say yes and do nothing.
 */
#include "kernel/kernel.h"
#include "support/fact.h"

#include <errno.h>

#define LEN (4 * MIB)

int main(void)
{
	char *addr = fact_memory(LEN);

	fact(fact_resident(addr, LEN) == LEN / OS_PAGE_SIZE, "written memory is resident");
	fact(kernel.madvise(addr + MIB, MIB, MADV_DONTNEED) == 0, "accepted");
	fact(fact_resident(addr + MIB, MIB) == 0, "the memory is gone when the call returns");
	fact(fact_resident(addr, LEN) == 3 * MIB / OS_PAGE_SIZE, "and nothing else is");
	fact(fact_all(addr + MIB, MIB, 0), "reads as zero");
	fact(fact_all(addr, MIB, 1) && fact_all(addr + 2 * MIB, 2 * MIB, 1), "the neighbours keep their contents");
	fact(kernel.madvise(addr + 1, OS_PAGE_SIZE, MADV_DONTNEED) == -EINVAL, "the start must be OS-page aligned");
	fact(kernel.madvise(addr + 2 * MIB, 1, MADV_DONTNEED) == 0, "a length is rounded up");
	fact(addr[2 * MIB + OS_PAGE_SIZE - 1] == 0, "to whole OS pages");
	return 0;
}
