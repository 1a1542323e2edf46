/* SPDX-License-Identifier: MIT */
/*
 * A name given to part of a reservation, usable and not, is in /proc/self/maps, and memory made usable next to it later joins it: still
 * two mappings. Only on kernels built with CONFIG_ANON_VMA_NAME (5.17 and later).
 */
#include "kernel/caps.h"
#include "kernel/map.h"
#include "support/fact.h"

#define LEN (64 * MIB)

static unsigned named(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	while (fgets(line, sizeof(line), maps) != NULL)
		n += strstr(line, "[anon:lull]") != NULL;
	fclose(maps);
	return n;
}

int main(void)
{
	char *addr = map_reserve(LEN, 4 * MIB);

	if (!caps_has(CAPS_VMA_NAME))
		fact_skip("names for anonymous memory (CONFIG_ANON_VMA_NAME)");
	fact(addr != NULL && map_commit(addr, 4 * MIB), "a reservation, part of it usable");
	map_name(addr, LEN);
	fact(named() == 2, "both parts have the name");
	fact(map_commit(addr + 4 * MIB, 4 * MIB), "more of it usable");
	fact(named() == 2, "and they stay two");
	return 0;
}
