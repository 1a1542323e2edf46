/* SPDX-License-Identifier: MIT */
/*
 * From /proc/PID/fd to a copy of the page. More than one such file may be open: a fork child that could not close its parent's
 * keeps that too. The process's own page wins, then the first that explains best why there is none.
 */
#include "common/stats_map.h"

#include "common/procfs.h"
#include "common/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* How the kernel names the link of an unlinked memfd. In a recorded tree it leads to a file of that name, so the folder is not looked at;
 * a process that makes a like-named file by itself could as well make a like-named memfd. */
#define LINK_NAME "/memfd:" LULL_STATS_MEMFD_NAME " (deleted)"

#define HEAD_BYTES offsetof(struct lull_stats, pid)

struct search {
	uint64_t own_pid;
	bool is_live;
	enum stats_map_result result;
	int err;
	struct lull_stats *ret;
};

static bool is_stats_link(const char *target)
{
	size_t len = strlen(target), name_len = strlen(LINK_NAME);

	return len >= name_len && strcmp(target + len - name_len, LINK_NAME) == 0;
}

static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

/* Copies word by word, as the writer stores; BYTES is a multiple of 8. */
static void copy_words(struct lull_stats *ret, const struct lull_stats *page, size_t bytes)
{
	const uint64_t *from = (const uint64_t *)page;

	for (size_t i = 0; i < bytes / sizeof(*from); i++) {
		uint64_t word = __atomic_load_n(&from[i], __ATOMIC_RELAXED);

		memcpy((char *)ret + i * sizeof(word), &word, sizeof(word));
	}
}

static enum stats_map_result read_page(const struct lull_stats *page, uint64_t own_pid, struct lull_stats *ret)
{
	size_t bytes;

	/* acquire: pairs with the release store of magic after the head is filled */
	if (__atomic_load_n(&page->magic, __ATOMIC_ACQUIRE) != LULL_STATS_MAGIC)
		return STATS_MAP_DAMAGED;
	copy_words(ret, page, HEAD_BYTES + sizeof(ret->pid));
	if (ret->version != LULL_STATS_VERSION)
		return STATS_MAP_VERSION;
	if (ret->size_bytes < HEAD_BYTES + sizeof(ret->pid))
		return STATS_MAP_DAMAGED;
	if (own_pid != 0 && ret->pid != own_pid)
		return STATS_MAP_FOREIGN;
	bytes = ret->size_bytes < sizeof(*ret) ? ret->size_bytes & ~(size_t)7 : sizeof(*ret);
	memset(ret, 0xff, sizeof(*ret)); /* TABLE_UNKNOWN in every word */
	copy_words(ret, page, bytes);
	return STATS_MAP_OK;
}

/* fd: the page's file, open for reading. */
static enum stats_map_result map_and_read(int fd, const struct search *search, struct lull_stats *ret)
{
	enum stats_map_result result;
	struct stat st;
	void *page;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(*ret))
		return STATS_MAP_DAMAGED;
	if (search->is_live && !is_sealed(fd))
		return STATS_MAP_DAMAGED;
	page = mmap(NULL, sizeof(*ret), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return STATS_MAP_REFUSED;
	result = read_page(page, search->own_pid, ret);
	munmap(page, sizeof(*ret));
	return result;
}

static bool visit(int fds, const char *name, const char *target, void *arg)
{
	struct search *search = arg;
	enum stats_map_result result = STATS_MAP_REFUSED;
	struct lull_stats page;
	int fd;

	if (!is_stats_link(target))
		return false;
	/* NONBLOCK: a pipe of that name must not hold us up */
	fd = openat(fds, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0)
		result = map_and_read(fd, search, &page);
	if (result == STATS_MAP_REFUSED)
		search->err = errno;
	if (fd >= 0)
		close(fd);
	if (result != STATS_MAP_OK && search->result != STATS_MAP_NONE)
		return false; /* the first explanation stays */
	search->result = result;
	if (result == STATS_MAP_OK || result == STATS_MAP_FOREIGN || result == STATS_MAP_VERSION)
		*search->ret = page;
	return result == STATS_MAP_OK;
}

enum stats_map_result stats_map_read(int process, uint64_t own_pid, bool is_live, struct lull_stats *ret)
{
	struct search search = {.own_pid = own_pid, .is_live = is_live, .result = STATS_MAP_NONE, .ret = ret};
	int err = procfs_each_fd(process, visit, &search);

	if (err < 0) {
		errno = -err;
		return STATS_MAP_REFUSED;
	}
	errno = search.err;
	return search.result;
}
