/* SPDX-License-Identifier: MIT */
/*
 * Taking 64 MiB of returned memory back. How long does it take to write every OS page of it once?
 *
 *   touch     a mapping of 64 MiB that was given back with MADV_DONTNEED: one page fault for each OS page
 *   populate  the same after one MADV_POPULATE_WRITE, which is counted too: what the kernel needs at the least. populate_call_us is
 *             the call alone: where a hypervisor keeps page tables of its own, the first touch is slow even without a page fault
 *   malloc    a block of 64 MiB that was freed, left alone until it had gone back (a second at most), and allocated again
 *
 * The three take turns; medians. retaken_kib says how much of the block was away when it was taken again.
 */
#include "scenario.h"

#define AREA_BYTES (64 * STRESS_MIB)
#define AWAY_MS 1000
#define STEP_MS 20

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14, asm-generic/mman-common.h */
#endif

static void write_all(char *area)
{
	for (size_t at = 0; at < AREA_BYTES; at += STRESS_OS_PAGE)
		((volatile char *)area)[at] = 1;
}

static uint64_t time_touch(char *area)
{
	uint64_t before = now_ns();
	write_all(area);
	uint64_t taken = now_ns() - before;
	madvise(area, AREA_BYTES, MADV_DONTNEED);
	return taken;
}

/* 0: this kernel has no MADV_POPULATE_WRITE. */
static uint64_t time_populate(char *area, uint64_t *ret_call_ns)
{
	uint64_t before = now_ns();
	int error = madvise(area, AREA_BYTES, MADV_POPULATE_WRITE);
	*ret_call_ns = now_ns() - before;
	write_all(area);
	uint64_t taken = now_ns() - before;
	madvise(area, AREA_BYTES, MADV_DONTNEED);
	return error ? 0 : taken;
}

/* *ret_away_kib: how much was gone when the block was taken again. */
static uint64_t time_malloc(uint64_t *ret_away_kib)
{
	char *area = malloc(AREA_BYTES);
	if (!area)
		stress_fail("out of memory");
	write_all(area);
	size_t resident = stress_rss_anon_kib(), left = resident;
	free(area);
	for (unsigned ms = 0; ms < AWAY_MS && resident - left < AREA_BYTES / STRESS_KIB * 9 / 10; ms += STEP_MS) {
		stress_pause_ms(STEP_MS);
		left = stress_rss_anon_kib();
		left = left < resident ? left : resident;
	}
	*ret_away_kib = resident - left;
	uint64_t before = now_ns();
	area = malloc(AREA_BYTES);
	if (!area)
		stress_fail("out of memory");
	write_all(area);
	uint64_t taken = now_ns() - before;
	free(area);
	return taken;
}

int main(void)
{
	static struct samples touch, call, populate, block, away;
	unsigned rounds = scenario_rounds(7, 3);
	scenario_begin("take_back");
	char *area = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		stress_fail("mmap: %s", strerror(errno));
	for (unsigned round = 0; round < rounds; round++) {
		uint64_t away_kib, call_ns;
		samples_add(&touch, time_touch(area) / 1000);
		samples_add(&populate, time_populate(area, &call_ns) / 1000);
		samples_add(&call, call_ns / 1000);
		samples_add(&block, time_malloc(&away_kib) / 1000);
		samples_add(&away, away_kib);
	}
	uint64_t least = samples_median(&populate);
	printf("take_back rounds=%u touch_us=%ju populate_call_us=%ju populate_us=%ju malloc_us=%ju retaken_kib=%ju", rounds,
		(uintmax_t)samples_median(&touch), (uintmax_t)samples_median(&call), (uintmax_t)least, (uintmax_t)samples_median(&block),
		(uintmax_t)samples_median(&away));
	if (least)
		printf(" malloc_to_populate_percent=%ju", (uintmax_t)(samples_median(&block) * 100 / least));
	puts("");
	return 0;
}
