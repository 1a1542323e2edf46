/* SPDX-License-Identifier: MIT */
/*
 * A reservation larger than the machine's memory costs nothing and part of it can be used; RLIMIT_AS counts it in full, and then it
 * is refused and a smaller one is not.
 */
#include "kernel/map.h"
#include "support/fact.h"

#include <sys/resource.h>

#define HUGE_LEN (1024 * GIB)

static void set_limit(rlim_t bytes)
{
	struct rlimit limit;

	fact(getrlimit(RLIMIT_AS, &limit) == 0, "RLIMIT_AS can be read");
	limit.rlim_cur = bytes;
	fact(setrlimit(RLIMIT_AS, &limit) == 0, "and set");
}

int main(void)
{
	struct rlimit limit;
	char *addr;

	getrlimit(RLIMIT_AS, &limit);
	if (limit.rlim_cur != RLIM_INFINITY)
		fact_skip("unlimited RLIMIT_AS");
	addr = map_reserve(HUGE_LEN, GIB);
	fact(addr, "1 TiB can be reserved");
	fact(map_commit(addr + 512 * GIB, MIB), "and a part of it used");
	memset(addr + 512 * GIB, 1, MIB);
	map_release(addr, HUGE_LEN);
	set_limit(4 * GIB);
	fact(!map_reserve(8 * GIB, MIB), "a limited address space refuses what does not fit");
	addr = map_reserve(GIB, MIB);
	fact(addr, "and takes what does");
	map_release(addr, GIB);
	return 0;
}
