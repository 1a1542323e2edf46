/* SPDX-License-Identifier: MIT */
/*
 * Creating the statistics page and leaving it to the parent after fork. Raw system calls only: no allocation, errno untouched, usable in
 * a fork child of a threaded program. Every call may be refused (filters, limits, old kernels) and then there is simply no page.
 */
#include "kernel/stats_page.h"

#include "kernel/caps.h"
#include "kernel/fd.h"
#include "kernel/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* linux/memfd.h, 6.3. Without it kernels with vm.memfd_noexec=2 refuse, and others complain in their log. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Size fixed, so that a reader's mapping never faults; and nobody can add a seal that stops the owner from writing. */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static struct {
	struct lull_stats *page; /* NULL before it is first opened; after fork private memory until it is opened again */
	bool is_shared;          /* the page is this process's memfd */
	struct fd_mark memfd;    /* the program may have closed it and put its own file there */
} state = {.memfd = {.fd = -1}};

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
	return fd_move_up(fd);
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
	if (!caps_has(CAPS_MEMFD))
		return NULL;
	fd = create();
	if (fd < 0)
		return NULL;
	addr = call_mmap(state.page, MAP_SHARED | (state.page != NULL ? MAP_FIXED : 0), fd);
	if (addr < 0) {
		sys_close(fd);
		return NULL;
	}
	state.page = (struct lull_stats *)addr;
	state.memfd = fd_remember(fd);
	state.is_shared = true;
	fill_head(state.page);
	return state.page;
}

int stats_page_try(void *at)
{
	intptr_t addr;
	int fd = create();

	if (fd < 0)
		return fd;
	addr = call_mmap(at, MAP_SHARED | MAP_FIXED, fd);
	if (addr >= 0)
		*(volatile char *)at = 1;
	sys_close(fd);
	return addr < 0 ? (int)addr : 0;
}

/* Most fork children execute another program or end soon: they pay for three calls here, and for a page of their own only when they come
 * to have something to show. A mapping put over one of the same length needs no more address space or mappings than there were,
 * so the kernel has no reason to refuse it. */
void stats_page_renew(void)
{
	if (!state.is_shared)
		return;
	fd_close(&state.memfd);
	call_mmap(state.page, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
	state.is_shared = false;
}
