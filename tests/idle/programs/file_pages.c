/* SPDX-License-Identifier: MIT */
/*
 * A program with a clean file in memory that goes quiet as a whole: two threads use memory and wait, for longer than both idle stages.
 * Then every mapping that is not lull's is as resident as it was before: the file, this program's and the libraries' code, and some
 * anonymous memory. Prints the range of each ("mapping START END"), for whoever traces the process.
 *
 *   file_pages FILE MILLISECONDS    FILE has at least 8 MiB
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <lull/stats.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((size_t)8 << 20)
#define OS_PAGE ((size_t)4096)
#define BLOCKS 20000
#define MAPPINGS 64

struct seen {
	unsigned long start, end;
	long rss_kib;
};

static struct seen before[MAPPINGS], after[MAPPINGS];
static int wait_ms;

static void fail(const char *what)
{
	fprintf(stderr, "file_pages: %s\n", what);
	exit(1);
}

/* Holes in small pages, free large blocks, free slices; a block in 50 stays. */
static void *use_and_wait(void *unused)
{
	static const size_t sizes[] = {100, 700, 4096, 30000, 200000};
	static __thread char *blocks[BLOCKS];

	for (unsigned i = 0; i < BLOCKS; i++) {
		size_t size = sizes[i % 100 ? i % 3 : i % 5];

		blocks[i] = malloc(size);
		if (blocks[i] == NULL)
			fail("no memory");
		memset(blocks[i], 1, size);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		if (i % 50)
			free(blocks[i]);
	poll(NULL, 0, wait_ms);
	return unused;
}

static const char *map_touched(int fd, int flags)
{
	const char *addr = mmap(NULL, BYTES, PROT_READ, flags, fd, 0);
	volatile char sum = 0;

	if (addr == MAP_FAILED)
		fail("cannot map the file");
	for (size_t i = 0; i < BYTES; i += OS_PAGE)
		sum += addr[i];
	return addr;
}

/* Mappings of files that are only read, and the one at OTHER. Neither this program's data nor lull's memory. */
static unsigned look(struct seen *seen, const char *other)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[4400], perms[5];
	unsigned n = 0;
	bool here = false;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		unsigned long start, end, inode;

		if (sscanf(line, "%lx-%lx %4s %*x %*s %lu", &start, &end, perms, &inode) == 4) {
			here = n < MAPPINGS && ((inode != 0 && strncmp(perms, "r-", 2) == 0) || start == (unsigned long)other);
			if (here)
				seen[n++] = (struct seen){.start = start, .end = end};
		} else if (here) {
			sscanf(line, "Rss: %ld kB", &seen[n - 1].rss_kib);
		}
	}
	if (f == NULL || n < 4)
		fail("/proc/self/smaps does not tell");
	fclose(f);
	return n;
}

static const struct seen *find(const struct seen *seen, unsigned n, unsigned long start)
{
	for (unsigned i = 0; i < n; i++)
		if (seen[i].start == start)
			return &seen[i];
	return NULL;
}

static void compare(unsigned before_n, unsigned after_n)
{
	for (unsigned i = 0; i < before_n; i++) {
		const struct seen *now = find(after, after_n, before[i].start);

		printf("mapping %lx %lx\n", before[i].start, before[i].end);
		if (now == NULL || now->end != before[i].end || now->rss_kib < before[i].rss_kib) {
			printf("%lx: %ld KiB resident before, %ld after\n", before[i].start, before[i].rss_kib, now ? now->rss_kib : -1);
			fail("a mapping of the program lost memory");
		}
	}
}

/* Both have run when lull's own count says so; the bound is for one that hangs. */
static void await_stages(void)
{
	void (*stats_read)(struct lull_stats *ret, uint32_t size);
	struct lull_stats stats = {0};

	*(void **)&stats_read = dlsym(RTLD_DEFAULT, "lull_stats_read");
	for (int i = 0; stats_read != NULL && i < 600 && stats.idle_stages < 2; i++) {
		usleep(100 * 1000);
		stats_read(&stats, sizeof(stats));
	}
	if (stats.idle_stages < 2)
		fail("the idle stages did not run");
}

int main(int argc, char **argv)
{
	int fd = argc == 3 ? open(argv[1], O_RDONLY) : -1;
	const char *file, *anonymous;
	unsigned before_n;
	pthread_t thread;

	if (fd < 0)
		fail("usage: file_pages FILE MILLISECONDS");
	wait_ms = atoi(argv[2]);
	file = map_touched(fd, MAP_PRIVATE);
	anonymous = map_touched(-1, MAP_PRIVATE | MAP_ANONYMOUS);
	before_n = look(before, anonymous);
	if (pthread_create(&thread, NULL, use_and_wait, NULL) != 0)
		fail("no thread");
	use_and_wait(NULL);
	pthread_join(thread, NULL);
	await_stages();
	compare(before_n, look(after, anonymous));
	if (find(after, MAPPINGS, (unsigned long)file)->rss_kib != (long)BYTES / 1024)
		fail("the file is not whole");
	printf("file_pages: %u mappings whole\n", before_n);
	return 0;
}
