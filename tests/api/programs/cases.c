/* SPDX-License-Identifier: MIT */
/*
 * The corners of the standard calls, one line each: what came back, how it is aligned, what errno says. The program decides nothing:
 * it is run on the C library and under the preload, and the two outputs are compared (../run). A line reads "NAME<tab>WHAT".
 *
 * Lines never contain addresses or sizes that allocators are free to choose. errno is set to EXDEV before each call, which no
 * allocation call returns, so "kept" means that the call left it alone.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define TOO_LARGE ((size_t)PTRDIFF_MAX + 1)

/* The compiler may not see the sizes: it would warn, and fold calls whose result it knows. */
static size_t opaque(size_t size)
{
	volatile size_t same = size;
	return same;
}

static const char *errno_name(void)
{
	return errno == EXDEV ? "kept" : errno == ENOMEM ? "ENOMEM" : errno == EINVAL ? "EINVAL" : strerror(errno);
}

static void line(const char *name, const char *what)
{
	printf("%s\t%s\n", name, what);
}

/* "block" or "null", aligned to ALIGN or not, errno; frees the block. */
static void show(const char *name, void *p, size_t align)
{
	char what[128];
	snprintf(what, sizeof(what), "%s, %saligned to %zu, errno %s", p ? "block" : "null", (uintptr_t)p % align ? "not " : "", align,
		errno_name());
	line(name, what);
	free(p);
}

static void show_yes(const char *name, bool yes)
{
	line(name, yes ? "yes" : "no");
}

#define fresh() (errno = EXDEV)

/* ---- zero sizes ---- */

static void zero_sizes(void)
{
	fresh();
	show("malloc 0", malloc(opaque(0)), 16);
	fresh();
	show("calloc 0 0", calloc(opaque(0), opaque(0)), 16);
	fresh();
	show("calloc 0 8", calloc(opaque(0), opaque(8)), 16);
	fresh();
	show("calloc 8 0", calloc(opaque(8), opaque(0)), 16);
	fresh();
	show("realloc NULL 0", realloc(NULL, opaque(0)), 16);
	fresh();
	show("reallocarray NULL 0 0", reallocarray(NULL, opaque(0), opaque(0)), 16);
	void *p = malloc(100);
	fresh();
	show("realloc block 0", realloc(p, opaque(0)), 16);
	p = malloc(100);
	fresh();
	show("reallocarray block 0 8", reallocarray(p, opaque(0), opaque(8)), 16);
	p = malloc(1000000);
	fresh();
	show("realloc large block 0", realloc(p, opaque(0)), 16);
	p = malloc(opaque(0));
	void *q = malloc(opaque(0));
	show_yes("malloc 0 blocks differ", p != q);
	free(p);
	free(q);
	fresh();
	show_yes("usable size of NULL is 0", malloc_usable_size(NULL) == 0);
	fresh();
	free(NULL);
	line("free NULL errno", errno_name());
}

/* ---- too large ---- */

static void kept_after_refusal(const char *name, void *(*resize)(void *))
{
	char *p = malloc(100);
	memset(p, 7, 100);
	fresh();
	void *q = resize(p);
	bool same = !q;
	for (int i = 0; i < 100; i++)
		same = same && p[i] == 7;
	char what[128];
	snprintf(what, sizeof(what), "%s, block %s, errno %s", q ? "block" : "null", same ? "kept" : "lost", errno_name());
	line(name, what);
	free(q ? q : p);
}

static void *realloc_too_large(void *p)
{
	return realloc(p, opaque(TOO_LARGE));
}

static void *realloc_size_max(void *p)
{
	return realloc(p, opaque(SIZE_MAX));
}

static void *reallocarray_overflow(void *p)
{
	return reallocarray(p, opaque(SIZE_MAX / 2), opaque(3));
}

static void *reallocarray_wraps_to_small(void *p)
{
	return reallocarray(p, opaque((size_t)1 << 32), opaque((size_t)1 << 32));
}

static void *reallocarray_too_large(void *p)
{
	return reallocarray(p, opaque(TOO_LARGE / 16), opaque(16));
}

static void too_large(void)
{
	static const struct {
		const char *name;
		size_t size;
	} sizes[] = {
		{"PTRDIFF_MAX+1", TOO_LARGE},
		{"PTRDIFF_MAX", PTRDIFF_MAX},
		{"SIZE_MAX", SIZE_MAX},
		{"SIZE_MAX-4095", SIZE_MAX - 4095},
		{"2^62", (size_t)1 << 62},
	};
	char name[64];
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t size = opaque(sizes[i].size);
		snprintf(name, sizeof(name), "malloc %s", sizes[i].name);
		fresh();
		show(name, malloc(size), 16);
		snprintf(name, sizeof(name), "calloc 1 %s", sizes[i].name);
		fresh();
		show(name, calloc(opaque(1), size), 16);
		snprintf(name, sizeof(name), "realloc NULL %s", sizes[i].name);
		fresh();
		show(name, realloc(NULL, size), 16);
		snprintf(name, sizeof(name), "aligned_alloc 64 %s", sizes[i].name);
		fresh();
		show(name, aligned_alloc(64, size), 64);
		snprintf(name, sizeof(name), "memalign 4096 %s", sizes[i].name);
		fresh();
		show(name, memalign(4096, size), 4096);
		snprintf(name, sizeof(name), "valloc %s", sizes[i].name);
		fresh();
		show(name, valloc(size), 4096);
		snprintf(name, sizeof(name), "pvalloc %s", sizes[i].name);
		fresh();
		show(name, pvalloc(size), 4096);
	}
	fresh();
	show("calloc overflow", calloc(opaque(SIZE_MAX / 2), opaque(3)), 16);
	fresh();
	show("calloc wraps to 0", calloc(opaque((size_t)1 << 32), opaque((size_t)1 << 32)), 16);
	fresh();
	show("calloc wraps to small", calloc(opaque(((size_t)1 << 32) + 1), opaque((size_t)1 << 32)), 16);
	fresh();
	show("reallocarray NULL overflow", reallocarray(NULL, opaque(SIZE_MAX / 2), opaque(3)), 16);
	kept_after_refusal("realloc block PTRDIFF_MAX+1", realloc_too_large);
	kept_after_refusal("realloc block SIZE_MAX", realloc_size_max);
	kept_after_refusal("reallocarray block overflow", reallocarray_overflow);
	kept_after_refusal("reallocarray block wraps to 0", reallocarray_wraps_to_small);
	kept_after_refusal("reallocarray block PTRDIFF_MAX+1", reallocarray_too_large);
}

/* ---- alignments ---- */

static void show_posix(const char *name, size_t align, size_t size)
{
	char marker, what[160];
	void *p = &marker;
	fresh();
	int code = posix_memalign(&p, opaque(align), opaque(size));
	bool aligned = !code && (uintptr_t)p % align == 0;
	snprintf(what, sizeof(what), "returns %s, %s, errno %s",
		code == 0            ? "0"
			: code == EINVAL ? "EINVAL"
			: code == ENOMEM ? "ENOMEM"
							 : "?",
		code && p == &marker ? "pointer kept"
			: !p             ? "null"
			: aligned        ? "aligned"
							 : "not aligned",
		errno_name());
	line(name, what);
	if (!code)
		free(p);
}

static void posix_alignments(void)
{
	static const size_t aligns[] = {
		0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 24, 32, 48, 64, 96, 4096, 12288, 65536, MIB, 4 * MIB, 64 * MIB, TOO_LARGE, SIZE_MAX};
	static const size_t sizes[] = {0, 1, 100, 5000, 100000, 1000000};
	char name[96];
	for (size_t a = 0; a < sizeof(aligns) / sizeof(aligns[0]); a++) {
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			snprintf(name, sizeof(name), "posix_memalign %zu %zu", aligns[a], sizes[s]);
			show_posix(name, aligns[a], sizes[s]);
		}
	}
	show_posix("posix_memalign 64 PTRDIFF_MAX+1", 64, TOO_LARGE);
	show_posix("posix_memalign 64 SIZE_MAX", 64, SIZE_MAX);
	show_posix("posix_memalign 64 SIZE_MAX-63", 64, SIZE_MAX - 63);
	show_posix("posix_memalign 4096 PTRDIFF_MAX", 4096, PTRDIFF_MAX);
}

/* The power of two that ALIGN is rounded up to, at least 16. */
static size_t rounded(size_t align)
{
	size_t power = 16;
	while (power < align)
		power *= 2;
	return power;
}

static void other_alignments(void)
{
	static const size_t aligns[] = {0, 1, 2, 3, 4, 8, 15, 17, 24, 48, 64, 100, 1000, 4096, 5000, 65536, 100000, MIB, 16 * MIB, 1024 * MIB};
	char name[96];
	for (size_t a = 0; a < sizeof(aligns) / sizeof(aligns[0]); a++) {
		size_t align = opaque(aligns[a]);
		for (size_t size = 0; size <= 100000; size = size ? size * 100 : 1) {
			snprintf(name, sizeof(name), "memalign %zu %zu", align, size);
			fresh();
			show(name, memalign(align, opaque(size)), rounded(align));
			snprintf(name, sizeof(name), "aligned_alloc %zu %zu", align, size);
			fresh();
			show(name, aligned_alloc(align, opaque(size)), rounded(align));
		}
	}
	fresh();
	show("memalign 2^63 1", memalign(opaque(TOO_LARGE), opaque(1)), 16);
	fresh();
	show("memalign 2^63+1 1", memalign(opaque(TOO_LARGE + 1), opaque(1)), 16);
	fresh();
	show("memalign SIZE_MAX 1", memalign(opaque(SIZE_MAX), opaque(1)), 16);
	fresh();
	show("aligned_alloc 2^63 1", aligned_alloc(opaque(TOO_LARGE), opaque(1)), 16);
}

static void os_page_alignments(void)
{
	fresh();
	show("valloc 0", valloc(opaque(0)), 4096);
	fresh();
	show("valloc 1", valloc(opaque(1)), 4096);
	fresh();
	show("valloc 1000000", valloc(opaque(1000000)), 4096);
	fresh();
	show("pvalloc 0", pvalloc(opaque(0)), 4096);
	fresh();
	show("pvalloc 1", pvalloc(opaque(1)), 4096);
	fresh();
	show("pvalloc 4097", pvalloc(opaque(4097)), 4096);
	void *p = pvalloc(opaque(1)), *q = pvalloc(opaque(4097));
	show_yes("pvalloc 1 gives a whole OS page", malloc_usable_size(p) >= 4096);
	show_yes("pvalloc 4097 gives two OS pages", malloc_usable_size(q) >= 8192);
	memset(p, 1, 4096);
	memset(q, 1, 8192);
	free(p);
	free(q);
}

/* ---- every size ---- */

static void all_sizes(void)
{
	bool aligned = true, enough = true, thrifty = true, kept = true;
	for (size_t size = 1; size <= 100000; size++) {
		unsigned char *p = malloc(size);
		size_t usable = malloc_usable_size(p);
		aligned = aligned && (uintptr_t)p % 16 == 0;
		enough = enough && usable >= size;
		thrifty = thrifty && (size <= 1024 || usable - size <= size / 8 + 16);
		p[0] = 1;
		p[size - 1] = 2;
		errno = 77;
		free(p);
		kept = kept && errno == 77;
	}
	show_yes("malloc 1..100000 aligned to 16", aligned);
	show_yes("malloc 1..100000 usable size at least as asked", enough);
	show_yes("malloc 1025..100000 wastes at most an eighth", thrifty);
	show_yes("free keeps errno for 1..100000", kept);
	kept = thrifty = true;
	for (size_t size = 100000; size < 64 * MIB; size += size / 7) {
		unsigned char *p = malloc(size);
		thrifty = thrifty && malloc_usable_size(p) - size <= size / 8 + 4096;
		memset(p, 1, size > MIB ? MIB : size);
		errno = 77;
		free(p);
		kept = kept && errno == 77;
	}
	show_yes("malloc to 64 MiB wastes at most an eighth", thrifty);
	show_yes("free keeps errno to 64 MiB", kept);
}

static void calloc_is_zero(void)
{
	bool zero = true;
	for (size_t size = 1; size < 4 * MIB; size += size / 3 + 1) {
		for (int round = 0; round < 3; round++) {
			unsigned char *p = calloc(1, size);
			for (size_t at = 0; at < size; at++)
				zero = zero && p[at] == 0;
			memset(p, 0xaa, malloc_usable_size(p));
			free(p);
		}
	}
	show_yes("calloc of used memory is zero", zero);
}

static void realloc_keeps_contents(void)
{
	bool kept = true;
	for (size_t from = 1; from < 2 * MIB; from = from * 3 + 1) {
		for (size_t to = 1; to < 2 * MIB; to = to * 3 + 1) {
			unsigned char *p = malloc(from);
			size_t both = from < to ? from : to;
			for (size_t at = 0; at < both; at++)
				p[at] = (unsigned char)(at * 7 + from);
			p = realloc(p, to);
			for (size_t at = 0; at < both; at++)
				kept = kept && p[at] == (unsigned char)(at * 7 + from);
			free(p);
		}
	}
	show_yes("realloc keeps contents", kept);
}

static void aligned_blocks_resize(void)
{
	bool kept = true, freed = true;
	for (size_t align = 16; align <= 4 * MIB; align *= 2) {
		unsigned char *p = aligned_alloc(align, 3000);
		memset(p, 0x42, 3000);
		p = realloc(p, 300000);
		for (int at = 0; at < 3000; at++)
			kept = kept && p[at] == 0x42;
		errno = 77;
		free(p);
		freed = freed && errno == 77;
	}
	show_yes("realloc of aligned blocks keeps contents", kept);
	show_yes("free of aligned blocks keeps errno", freed);
}

/* ---- glibc's extras ---- */

static size_t rss_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;
	if (!f || fscanf(f, "%*u %lu", &pages) != 1)
		exit(1);
	fclose(f);
	return pages * 4;
}

/* 32 MiB in blocks of SIZE, all but every KEEP-th freed again; the others stay. */
static void burst(size_t size, unsigned keep)
{
	static void *blocks[32768];
	unsigned count = (unsigned)(32 * MIB / size);
	for (unsigned i = 0; i < count; i++) {
		blocks[i] = malloc(size);
		memset(blocks[i], 1, size);
	}
	for (unsigned i = 0; i < count; i++)
		if (!keep || i % keep)
			free(blocks[i]);
}

static void trim(void)
{
	burst(1024, 200);
	size_t before = rss_kib();
	int code = malloc_trim(0);
	size_t after = rss_kib();
	show_yes("malloc_trim after a burst returns 1", code == 1);
	show_yes("malloc_trim after a burst gives 24 of 32 MiB back", before > after + 24 * 1024);
	show_yes("malloc_trim with nothing left returns 0", malloc_trim(0) == 0);
	burst(100000, 0);
	code = malloc_trim(0);
	show_yes("malloc_trim after freeing everything returns 0 or 1", code == 0 || code == 1);
	fresh();
	malloc_trim(16 * MIB);
	show_yes("malloc_trim with a pad returns", true);
	size_t (*collect)(int);
	*(void **)&collect = dlsym(RTLD_DEFAULT, "malloc_trim");
	show_yes("malloc_trim is found by dlsym", collect != NULL);
}

static bool adds_up(const struct mallinfo2 *info)
{
	return info->uordblks + info->fordblks == info->arena + info->hblkhd;
}

static void info2(void)
{
	free(malloc(10));
	struct mallinfo2 before = mallinfo2();
	show_yes("mallinfo2 adds up with small blocks", adds_up(&before));
	void *blocks[1000];
	for (int i = 0; i < 1000; i++)
		blocks[i] = malloc(1000);
	struct mallinfo2 with = mallinfo2();
	show_yes("mallinfo2 adds up with live blocks", adds_up(&with));
	show_yes("mallinfo2 in use grows with blocks", with.uordblks >= before.uordblks + 1000 * 900);
	for (int i = 0; i < 1000; i++)
		free(blocks[i]);
	struct mallinfo2 after = mallinfo2();
	show_yes("mallinfo2 in use falls with free", after.uordblks + 1000 * 900 <= with.uordblks);
	void *large = malloc(8 * MIB);
	memset(large, 1, 8 * MIB);
	struct mallinfo2 with_large = mallinfo2();
	show_yes("mallinfo2 counts a large block", with_large.uordblks + with_large.hblkhd >= after.uordblks + after.hblkhd + 8 * MIB);
	show_yes("mallinfo2 adds up with a large block", adds_up(&with_large));
	free(large);
	struct mallinfo (*old)(void); /* deprecated, and still called by old programs */
	*(void **)&old = dlsym(RTLD_DEFAULT, "mallinfo");
	show_yes("mallinfo is there", old && old().arena >= 0);
}

static void options(void)
{
	static const struct {
		const char *name;
		int option, value;
	} table[] = {
		{"M_MMAP_THRESHOLD 65536", M_MMAP_THRESHOLD, 65536},
		{"M_TRIM_THRESHOLD 65536", M_TRIM_THRESHOLD, 65536},
		{"M_TOP_PAD 0", M_TOP_PAD, 0},
		{"M_MMAP_MAX 1000", M_MMAP_MAX, 1000},
		{"M_ARENA_MAX 2", M_ARENA_MAX, 2},
		{"M_ARENA_TEST 2", M_ARENA_TEST, 2},
		{"M_CHECK_ACTION 0", M_CHECK_ACTION, 0},
		{"M_PERTURB 0", M_PERTURB, 0},
		{"M_MXFAST 64", M_MXFAST, 64},
		{"unknown 12345", 12345, 1},
	};
	char name[64];
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		snprintf(name, sizeof(name), "mallopt %s returns 1", table[i].name);
		show_yes(name, mallopt(table[i].option, table[i].value) == 1);
	}
}

static void reports(void)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	fresh();
	int code = malloc_info(0, f);
	fclose(f);
	show_yes("malloc_info returns 0", code == 0);
	show_yes("malloc_info begins with <malloc", size > 7 && strncmp(text, "<malloc", 7) == 0);
	show_yes("malloc_info ends with </malloc>", size > 10 && strcmp(text + size - 10, "</malloc>\n") == 0);
	free(text);
	fresh();
	f = fopen("/dev/null", "w");
	code = malloc_info(1, f);
	fclose(f);
	line("malloc_info with options", code == EINVAL ? "EINVAL" : code == -1 ? "-1" : code == 0 ? "0" : "other");
	fflush(stderr);
	int saved = dup(2), ends[2];
	char first[4096];
	if (saved < 0 || pipe(ends))
		exit(1);
	dup2(ends[1], 2);
	malloc_stats();
	dup2(saved, 2);
	close(ends[1]);
	show_yes("malloc_stats writes to standard error", read(ends[0], first, sizeof(first)) > 0);
	close(ends[0]);
	close(saved);
}

static void c23(void)
{
	void (*sized)(void *, size_t);
	void (*aligned_sized)(void *, size_t, size_t);
	*(void **)&sized = dlsym(RTLD_DEFAULT, "free_sized");
	*(void **)&aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
	show_yes("free_sized is there", sized != NULL);
	show_yes("free_aligned_sized is there", aligned_sized != NULL);
	errno = 77;
	if (sized) {
		sized(malloc(100), 100);
		sized(calloc(10, 30000), 300000);
		sized(NULL, 10);
	}
	if (aligned_sized) {
		aligned_sized(aligned_alloc(256, 512), 256, 512);
		aligned_sized(NULL, 64, 64);
	}
	show_yes("free_sized and free_aligned_sized keep errno", errno == 77);
}

static void *errno_in_thread(void *arg)
{
	bool *ok = arg;
	errno = 0;
	void *p = malloc(opaque(TOO_LARGE));
	*ok = !p && errno == ENOMEM;
	return NULL;
}

static void errno_of_threads(void)
{
	bool ok = false;
	pthread_t thread;
	fresh();
	if (pthread_create(&thread, NULL, errno_in_thread, &ok))
		exit(1);
	errno = EXDEV;
	pthread_join(thread, NULL);
	show_yes("errno is set in the thread that failed", ok);
	line("errno of the other thread", errno_name());
}

int main(void)
{
	static char buffer[4096];
	setvbuf(stdout, buffer, _IOLBF, sizeof(buffer)); /* no block of its own, and all lines before a crash */
	zero_sizes();
	too_large();
	posix_alignments();
	other_alignments();
	os_page_alignments();
	all_sizes();
	calloc_is_zero();
	realloc_keeps_contents();
	aligned_blocks_resize();
	info2();
	trim();
	reports();
	c23();
	errno_of_threads();
	options();
	return 0;
}
