/* SPDX-License-Identifier: MIT */
/*
 * Write tracking without a handler: PAGEMAP_SCAN arms what is present in one step, each first write afterwards is one fault and nothing
 * more, the kernel's own writes are seen, MADV_DONTNEED takes the mark along, and closing the userfaultfd ends all of it.
 */
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/track.h"
#include "support/fact.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define LEN (4 * MIB)
#define PAGES (LEN / OS_PAGE_SIZE)

static char *memory;

static struct track_seen look(void)
{
	struct track_seen seen = {0};

	fact(track_look(memory, LEN, &seen) == 0, "a look");
	return seen;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

int main(void)
{
	int ends[2];

	if (!caps_has(CAPS_UFFD_WP_ASYNC))
		fact_skip("userfaultfd with UFFD_FEATURE_WP_ASYNC, and PAGEMAP_SCAN");
	/* in huge pages, which fact_memory may bring, nothing is armed */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	memory = fact_memory(LEN);
	memset(memory, 1, LEN);
	fact(track_open() && track_watch(memory, LEN), "watched");
	fact(look().written == PAGES, "what was never armed passes for written");
	fact(track_arm(memory, LEN) == (long)PAGES && look().written == 0, "armed");

	long before = faults();
	for (unsigned round = 0; round < 100; round++)
		for (size_t i = 0; i < PAGES; i += 4)
			memory[i * OS_PAGE_SIZE]++;
	long caused = faults() - before;
	fact(caused >= (long)(PAGES / 4) && caused < (long)(PAGES / 4 + 16), "one fault for each page, however often it is written");
	fact(look().written == PAGES / 4, "and seen");

	fact(pipe(ends) == 0 && write(ends[1], "x", 1) == 1 && read(ends[0], memory + OS_PAGE_SIZE, 1) == 1, "a read(2) into armed memory");
	fact(look().written == PAGES / 4 + 1, "is seen as well");

	fact(kernel.madvise(memory + 2 * MIB, MIB, MADV_DONTNEED) == 0, "part of it is given back");
	fact(look().present == 3 * MIB / OS_PAGE_SIZE, "gone");
	fact(memory[2 * MIB] == 0 && track_arm(memory + 2 * MIB, MIB) <= 1, "what is not there is not armed");
	memset(memory + 2 * MIB, 1, MIB);
	fact(look().written >= MIB / OS_PAGE_SIZE, "what came back counts as written");

	track_close();
	memset(memory, 2, LEN);
	fact(fact_all(memory, LEN, 2), "closed, it is memory as any");
	return 0;
}
