/* SPDX-License-Identifier: MIT */
/*
 * Creating the statistics page and leaving it to the parent after fork. Raw system calls only: no allocation, errno untouched, usable in
 * a fork child of a threaded program. Every call may be refused (filters, limits, old kernels) and then there is simply no page.
 */
#include "kernel/stats_page.h"

#include "kernel/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* linux/memfd.h, 6.3. Without it kernels with vm.memfd_noexec=2 refuse, and others complain in their log. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Programs expect the numbers after 2 to be theirs and close what they find there. 1000 is below the usual soft limit of 1024; where the
 * limit is lower, 100 is still above what a small program opens. */
static const int fd_floors[] = {1000, 100};

/* Size fixed, so that a reader's mapping never faults; and nobody can add a seal that stops the owner from writing. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static struct {
	struct lull_stats *page; /* NULL before it is first opened; after fork private memory until it is opened again */
	bool is_shared;          /* the page is this process's memfd */
	int fd;                  /* the memfd's number, or -1; the program may have closed it and put its own file there */
	dev_t dev;               /* what the number referred to when it was ours */
	ino_t ino;
} state = {.fd = -1};

static int call_memfd_create(const char *name, unsigned flags)
{
	return (int)sys_call(SYS_memfd_create, (long)name, flags, 0, 0, 0, 0);
}

static int call_ftruncate(int fd, size_t len)
{
	return (int)sys_call(SYS_ftruncate, fd, (long)len, 0, 0, 0, 0);
}

static int call_fcntl(int fd, int cmd, long arg)
{
	return (int)sys_call(SYS_fcntl, fd, cmd, arg, 0, 0, 0);
}

static int call_fstat(int fd, struct stat *ret)
{
	return (int)sys_call(SYS_fstat, fd, (long)ret, 0, 0, 0, 0);
}

static int call_getrlimit(int what, struct rlimit *ret)
{
	return (int)sys_call(SYS_prlimit64, 0, what, 0, (long)ret, 0, 0);
}

static intptr_t call_mmap(void *addr, int flags, int fd)
{
	return sys_call(SYS_mmap, (long)addr, (long)STATS_PAGE_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
}

static int memfd_create_quiet(void)
{
	int fd = call_memfd_create(LULL_STATS_MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd == -EINVAL)
		fd = call_memfd_create(LULL_STATS_MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

/* Growing any file past RLIMIT_FSIZE, a memfd too, does not merely fail: it kills with SIGXFSZ. */
static bool may_grow(void)
{
	struct rlimit limit;

	return call_getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= STATS_PAGE_BYTES;
}

/* Returns the descriptor's new number; the old one when no higher number is to be had. */
static int move_up(int fd)
{
	for (size_t i = 0; i < array_len(fd_floors); i++) {
		int high = call_fcntl(fd, F_DUPFD_CLOEXEC, fd_floors[i]);

		if (high >= 0) {
			sys_close(fd);
			return high;
		}
	}
	return fd;
}

/* Returns a descriptor of the right size, unsealed, or -errno. */
static int create(void)
{
	int fd, err;

	if (!may_grow())
		return -EFBIG;
	fd = memfd_create_quiet();
	if (fd < 0)
		return fd;
	err = call_ftruncate(fd, STATS_PAGE_BYTES);
	if (err == 0)
		err = call_fcntl(fd, F_ADD_SEALS, SEALS);
	if (err < 0) {
		sys_close(fd);
		return err;
	}
	return move_up(fd);
}

static void remember_fd(int fd)
{
	struct stat st;

	state.fd = -1;
	if (call_fstat(fd, &st) != 0)
		return; /* then it is never closed by us: better than closing a stranger's */
	state.fd = fd;
	state.dev = st.st_dev;
	state.ino = st.st_ino;
}

static void close_inherited_fd(void)
{
	struct stat st;

	if (state.fd >= 0 && call_fstat(state.fd, &st) == 0 && st.st_dev == state.dev && st.st_ino == state.ino)
		sys_close(state.fd);
	state.fd = -1;
}

/* The head is complete before the magic number says so: a reader may look at any moment. */
static void fill_head(struct lull_stats *page)
{
	page->version = LULL_STATS_VERSION;
	page->size_bytes = sizeof(*page);
	page->pid = (uint64_t)sys_getpid();
	/* release: pairs with the acquire load of magic in the reader, another process */
	__atomic_store_n(&page->magic, LULL_STATS_MAGIC, __ATOMIC_RELEASE);
}

struct lull_stats *stats_page_open(void)
{
	intptr_t addr;
	int fd;

	if (state.is_shared)
		return state.page;
	fd = create();
	if (fd < 0)
		return NULL;
	addr = call_mmap(state.page, MAP_SHARED | (state.page != NULL ? MAP_FIXED : 0), fd);
	if (addr < 0) {
		sys_close(fd);
		return NULL;
	}
	state.page = (struct lull_stats *)addr;
	remember_fd(fd);
	state.is_shared = true;
	fill_head(state.page);
	return state.page;
}

/* Most fork children execute another program or end soon: they pay for three calls here, and for a page of their own only when they come
 * to have something to show. A mapping put over one of the same length needs no more address space or mappings than there were,
 * so the kernel has no reason to refuse it. */
void stats_page_renew(void)
{
	if (!state.is_shared)
		return;
	close_inherited_fd();
	call_mmap(state.page, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
	state.is_shared = false;
}
