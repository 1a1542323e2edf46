/* SPDX-License-Identifier: MIT */
/*
 * MADV_DONTNEED on locked memory is refused with EINVAL and the contents stay; what lies before the locked part is done all the
 * same, what lies behind is not. So a refused range may be half dropped, and "refused" says nothing about its contents.
 */
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "kernel/ring.h"
#include "support/fact.h"

#include <errno.h>

#define LEN (64 * KIB)

static struct advise_batch batch;
static int accepted, refused;

static void tell(const struct advise_range *range, bool ok)
{
	(void)range;
	accepted += ok;
	refused += !ok;
}

/* Three ranges, the middle one locked, in each way there is: the others go, and no way closes. */
static void flush_around_locked(enum advise_way way)
{
	char *addr = fact_memory(3 * LEN);

	fact(mlock(addr + LEN, LEN) == 0, "locks again");
	accepted = refused = 0;
	advise_set_way(way);
	advise_batch_init(&batch, tell);
	for (size_t i = 0; i < 3; i++)
		advise_batch_add(&batch, addr + i * LEN, LEN, NULL, 0);
	fact(advise_batch_finish(&batch) == 2 * LEN, "a batch returns all but the locked range");
	fact(accepted == 2 && refused == 1, "and says so");
	fact(advise_way() == way, "and goes on the same way");
	fact(fact_all(addr, LEN, 0) && fact_all(addr + 2 * LEN, LEN, 0), "its neighbours are gone");
	fact(fact_all(addr + LEN, LEN, 1), "the locked range is not");
	munmap(addr, 3 * LEN);
}

int main(void)
{
	char *addr = fact_memory(3 * LEN);

	if (mlock(addr + LEN, LEN) != 0)
		fact_skip("mlock: RLIMIT_MEMLOCK is too small");
	fact(kernel.madvise(addr + LEN, LEN, MADV_DONTNEED) == -EINVAL, "refused");
	fact(fact_all(addr + LEN, LEN, 1), "contents stay");
	fact(kernel.madvise(addr, 3 * LEN, MADV_DONTNEED) == -EINVAL, "refused as a whole");
	fact(fact_all(addr, LEN, 0), "though the part before the lock was done");
	fact(fact_all(addr + LEN, 2 * LEN, 1), "and the rest was not");
	munmap(addr, 3 * LEN);
	flush_around_locked(ADVISE_LOOP);
	if (caps_has(CAPS_PROCESS_MADVISE))
		flush_around_locked(ADVISE_VECTOR);
	if (caps_has(CAPS_URING_MADVISE)) {
		ring_own();
		flush_around_locked(ADVISE_URING);
	}
	return 0;
}
