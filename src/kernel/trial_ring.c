/* SPDX-License-Identifier: MIT */
/*
 * One request at a time, by the kernel's own interface. The ring goes with the process that made it: the kernel cancels what is open and
 * waits for its workers before that process's end is told.
 *
 * For so few entries both parts of a ring are far smaller than an OS page. They lie where the kernel chooses: since 6.6 it takes no wish.
 */
#include "kernel/trial_ring.h"

#include "kernel/sys.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define ENTRIES 4

struct ring {
	int index; /* among the registered rings of this thread */
	char *page;
	struct io_uring_sqe *sqe;
	struct io_uring_params params;
};

static long call_register(int fd, unsigned what, void *arg)
{
	return sys_call(SYS_io_uring_register, fd, what, (long)arg, 1, 0, 0);
}

/* NULL and trial->answer set when refused */
static void *map_part(struct trial *trial, unsigned i, int fd, uint64_t offset)
{
	long ret = sys_call(SYS_mmap, 0, (long)OS_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (long)offset);

	if (ret < 0 && ret >= -4095) {
		trial->answer = ret;
		return NULL;
	}
	trial->mapped[i] = (void *)ret;
	return (void *)ret;
}

static bool fits(const struct io_uring_params *params)
{
	size_t sq_end = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
	size_t cq_end = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);

	return (params->features & IORING_FEAT_SINGLE_MMAP) != 0 && sq_end <= OS_PAGE_SIZE && cq_end <= OS_PAGE_SIZE;
}

static bool map_ring(struct trial *trial, struct ring *ring, int fd)
{
	trial->answer = -EIO;
	if (!fits(&ring->params))
		return false;
	ring->page = (char *)map_part(trial, 0, fd, IORING_OFF_SQ_RING);
	ring->sqe = (struct io_uring_sqe *)map_part(trial, 1, fd, IORING_OFF_SQES);
	return ring->page != NULL && ring->sqe != NULL;
}

static long register_ring(struct ring *ring, int fd)
{
	struct io_uring_rsrc_update place = {.offset = UINT32_MAX, .data = (uint64_t)fd}; /* any place */
	long ret = call_register(fd, IORING_REGISTER_RING_FDS, &place);

	ring->index = (int)place.offset;
	if (ret == 0) /* not one was, and no word why */
		return -EIO;
	return ret < 0 ? ret : 0;
}

static bool ring_open(struct trial *trial, struct ring *ring)
{
	int fd;

	*ring = (struct ring){0};
	fd = (int)sys_call(SYS_io_uring_setup, ENTRIES, (long)&ring->params, 0, 0, 0, 0);
	trial->answer = fd;
	if (fd < 0)
		return false;
	if (map_ring(trial, ring, fd))
		trial->answer = register_ring(ring, fd);
	sys_close(fd);
	return trial->answer == 0;
}

static _Atomic uint32_t *ring_word(const struct ring *ring, uint32_t offset)
{
	return (_Atomic uint32_t *)(ring->page + offset);
}

static long ring_enter(const struct ring *ring, unsigned submit, unsigned wait)
{
	const unsigned flags = IORING_ENTER_REGISTERED_RING | (wait > 0 ? IORING_ENTER_GETEVENTS : 0);
	long ret;

	do
		ret = sys_call(SYS_io_uring_enter, ring->index, submit, wait, flags, 0, 0);
	while (ret == -EINTR);
	return ret;
}

/* 0 when the request at ring->sqe was taken. wait: until it is answered. */
static long ring_submit(const struct ring *ring, bool wait)
{
	long ret;

	*(uint32_t *)(ring->page + ring->params.sq_off.array) = 0;
	/* release: the kernel reads the entry after it sees the tail */
	atomic_store_explicit(ring_word(ring, ring->params.sq_off.tail), 1, memory_order_release);
	ret = ring_enter(ring, 1, wait);
	if (ret < 0)
		return ret;
	return ret == 1 ? 0 : -EIO;
}

/* What the first request came to, or -EIO while there is nothing. */
static long ring_result(const struct ring *ring)
{
	const struct io_uring_cqe *cqe = (const struct io_uring_cqe *)(ring->page + ring->params.cq_off.cqes);

	/* acquire: pairs with the kernel's release after it wrote the entry */
	if (atomic_load_explicit(ring_word(ring, ring->params.cq_off.tail), memory_order_acquire) != 1)
		return -EIO;
	return cqe->res;
}

static long ring_do(const struct ring *ring, const struct io_uring_sqe *sqe)
{
	long err;

	*ring->sqe = *sqe;
	err = ring_submit(ring, true);
	return err != 0 ? err : ring_result(ring);
}

void trial_ring(struct trial *trial)
{
	const struct io_uring_sqe sqe = {.opcode = IORING_OP_NOP, .fd = -1};
	struct ring ring;

	if (!ring_open(trial, &ring))
		return;
	trial->answer = ring_do(&ring, &sqe);
	trial->effect = trial->answer == 0;
}

void trial_ring_madvise(struct trial *trial)
{
	const struct io_uring_sqe sqe = {
		.opcode = IORING_OP_MADVISE,
		.fd = -1,
		.addr = (uintptr_t)trial->page,
		.len = OS_PAGE_SIZE,
		.fadvise_advice = MADV_DONTNEED,
	};
	struct ring ring;

	if (!ring_open(trial, &ring))
		return;
	trial->answer = ring_do(&ring, &sqe);
	trial->effect = trial->answer == 0 && *(volatile char *)trial->page == 0;
}

void trial_ring_poll(struct trial *trial)
{
	struct io_uring_sqe sqe = {.opcode = IORING_OP_POLL_ADD, .poll32_events = POLLIN};
	struct ring ring;

	if (!ring_open(trial, &ring))
		return;
	sqe.fd = (int)sys_call(SYS_eventfd2, 1, EFD_CLOEXEC, 0, 0, 0, 0); /* can be read at once */
	trial->answer = sqe.fd;
	if (sqe.fd < 0)
		return;
	trial->answer = ring_do(&ring, &sqe);
	trial->effect = trial->answer >= 0 && (trial->answer & POLLIN) != 0;
	sys_close(sqe.fd);
}

/* The wait is in place when its submission returns, so the wake finds it; only then is there an answer to wait for. */
void trial_ring_futex(struct trial *trial)
{
	uint32_t *word = (uint32_t *)(trial->page + OS_PAGE_SIZE);
	const struct io_uring_sqe sqe = {
		.opcode = ABI_IORING_OP_FUTEX_WAIT,
		.fd = ABI_FUTEX2_PRIVATE_U32,
		.addr = (uintptr_t)word,
		.addr3 = FUTEX_BITSET_MATCH_ANY,
	};
	struct ring ring;

	if (!ring_open(trial, &ring))
		return;
	*ring.sqe = sqe;
	trial->answer = ring_submit(&ring, false);
	if (trial->answer != 0)
		return;
	trial->effect = sys_futex(word, FUTEX_WAKE_PRIVATE, 1, NULL) == 1;
	if (trial->effect)
		trial->answer = ring_enter(&ring, 0, 1);
	if (trial->answer >= 0)
		trial->answer = ring_result(&ring);
	trial->effect = trial->effect && trial->answer == 0;
}
