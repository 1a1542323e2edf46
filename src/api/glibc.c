/* SPDX-License-Identifier: MIT */
/*
 * What glibc offers besides: trimming, tuning and numbers. Programs and libraries call these without knowing which allocator answers
 * (GLib's and systemd's memory pressure handlers call malloc_trim), so each means here what its callers mean by it. What glibc calls
 * the arena is the memory in our pages plus the free slices not yet returned; nothing of it is ever reported as a mapping of its own.
 *
 * Any thread.
 */
#include "api/usage.h"
#include "base/fmt.h"
#include "page/page.h"

#include <lull/idle.h>

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>

#if LULL_OVERRIDE

/* A report of malloc_info or malloc_stats: 20 digits a number and a dozen lines stay far below. */
#define REPORT_BYTES 1024

/* --- trimming, tuning ------------------------------------------------------------------------------------------------------------ */

/* Bytes that are free and may be resident. */
static uint64_t held_bytes(void)
{
	struct usage usage = usage_read();
	uint64_t free_bytes = usage.total_bytes - usage.used_bytes;
	uint64_t away = atomic_load_explicit(&page_away_bytes, memory_order_relaxed);

	return free_bytes > away ? free_bytes - away : 0;
}

/* 1 when memory went back to the kernel. pad: bytes the caller wants kept; when no more than that is held, all of it is, else it all
 * goes: there is no top of a heap here to leave a pad at. */
exported int malloc_trim(size_t pad)
{
	if (pad > 0 && held_bytes() <= pad)
		return 0;
	return lull_collect(true) > 0;
}

/* Nothing to tune: glibc's parameters are about parts that are not here. 1 is success. */
exported int mallopt(int param, int value)
{
	(void)param;
	(void)value;
	return 1;
}

/* --- numbers --------------------------------------------------------------------------------------------------------------------- */

/* uordblks + fordblks = arena + hblkhd, as in glibc */
exported struct mallinfo2 mallinfo2(void)
{
	struct usage usage = usage_read();

	return (struct mallinfo2){
		.arena = usage.total_bytes,
		.ordblks = usage.free_blocks,
		.uordblks = usage.used_bytes,
		.fordblks = usage.total_bytes - usage.used_bytes,
		.keepcost = usage.dirty_bytes,
	};
}

/* As in glibc, numbers past INT_MAX wrap: that is why mallinfo2 exists. */
exported struct mallinfo mallinfo(void)
{
	struct mallinfo2 info = mallinfo2();

	return (struct mallinfo){
		.arena = (int)info.arena,
		.ordblks = (int)info.ordblks,
		.uordblks = (int)info.uordblks,
		.fordblks = (int)info.fordblks,
		.keepcost = (int)info.keepcost,
	};
}

static void add_number(struct fmt *text, const char *before, uint64_t number, const char *after)
{
	fmt_text(text, before);
	fmt_u64(text, number);
	fmt_text(text, after);
}

/* The elements of glibc's format (version 1) that have a meaning here, in its order: readers look for them by name. options: 0. */
exported int malloc_info(int options, FILE *out)
{
	char buf[REPORT_BYTES];
	struct fmt text = fmt_into(buf, sizeof(buf));
	struct mallinfo2 info = mallinfo2();

	if (options != 0)
		return EINVAL;
	fmt_text(&text, "<malloc version=\"1\">\n");
	add_number(&text, "<total type=\"fast\" count=\"0\" size=\"0\"/>\n<total type=\"rest\" count=\"", info.ordblks, "\"");
	add_number(&text, " size=\"", info.fordblks, "\"/>\n<total type=\"mmap\" count=\"0\" size=\"0\"/>\n");
	add_number(&text, "<system type=\"current\" size=\"", info.arena, "\"/>\n");
	add_number(&text, "<aspace type=\"total\" size=\"", info.arena, "\"/>\n");
	fmt_text(&text, "</malloc>\n");
	return fwrite(text.buf, 1, text.len, out) == text.len ? 0 : errno;
}

exported void malloc_stats(void)
{
	char buf[REPORT_BYTES];
	struct fmt text = fmt_into(buf, sizeof(buf));
	struct mallinfo2 info = mallinfo2();

	fmt_text(&text, "Total:\n");
	add_number(&text, "system bytes     = ", info.arena, "\n");
	add_number(&text, "in use bytes     = ", info.uordblks, "\n");
	add_number(&text, "not yet returned = ", info.keepcost, "\n");
	fwrite(text.buf, 1, text.len, stderr);
}

#endif
