/* SPDX-License-Identifier: MIT */
/*
 * A process with a statistics page made by hand, for the tests of `lull stat`: word I of the page (counted from 0) holds I * 1000003, a
 * prime, so that every field has its own known value; `way`, `policy`, `track_mode` and
 * `track_state` hold 1. The first argument says what is wrong with the page:
 *
 *   good      nothing
 *   unsealed  its size may change, so a reader could be made to fault
 *   unfilled  no magic number yet
 *   version   of a layout to come
 *   foreign   another process's: its pid is not ours
 *   short     of an older writer that had no fields from `heaps` on
 *   long      of a newer writer with fields after the last
 *   second    good, but behind a foreign one
 *
 * Prints "ready" and ends with its standard input.
 */
#include <lull/stats.h>

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 8192
#define PRIME 1000003

static struct lull_stats *make_page(int *ret_fd)
{
	int fd = memfd_create(LULL_STATS_MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct lull_stats *page;
	uint64_t *word;

	if (fd < 0 || ftruncate(fd, PAGE_BYTES) != 0)
		return NULL;
	page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return NULL;
	word = (uint64_t *)(void *)page;
	for (size_t i = 0; i < PAGE_BYTES / sizeof(*word) / 2; i++)
		word[i] = i * PRIME;
	page->magic = LULL_STATS_MAGIC;
	page->version = LULL_STATS_VERSION;
	page->size_bytes = sizeof(*page);
	page->pid = (uint64_t)getpid();
	page->way = 1;
	page->policy = 1;
	page->track_mode = 1;
	page->track_state = 1;
	*ret_fd = fd;
	return page;
}

static void damage(struct lull_stats *page, const char *how)
{
	if (strcmp(how, "unfilled") == 0)
		page->magic = 0;
	else if (strcmp(how, "version") == 0)
		page->version = LULL_STATS_VERSION + 1;
	else if (strcmp(how, "foreign") == 0)
		page->pid = 1;
	else if (strcmp(how, "short") == 0)
		page->size_bytes = offsetof(struct lull_stats, heaps);
	else if (strcmp(how, "long") == 0)
		page->size_bytes = sizeof(*page) + 64;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "good";
	struct lull_stats *page;
	char byte;
	int fd;

	if (strcmp(how, "second") == 0) {
		page = make_page(&fd);
		if (page == NULL)
			return 1;
		damage(page, "foreign");
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	}
	page = make_page(&fd);
	if (page == NULL)
		return 1;
	damage(page, how);
	if (strcmp(how, "unsealed") != 0)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
