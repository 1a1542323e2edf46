/* SPDX-License-Identifier: MIT */
/*
 * One io_uring, set up by liburing. Its descriptor lives only while it is set up, some 100 us: the ring is registered with the thread,
 * which from then on names it by a small number of its own, and the descriptor is closed. For that reason liburing's calls that use the
 * descriptor, its io_uring_queue_exit among them, are not for us after that: the number may be the program's by then.
 *
 * The parts of liburing used here make raw system calls and neither allocate nor touch errno. The thread that opened it, alone.
 */
#include "kernel/uring.h"

#include "kernel/caps.h"
#include "kernel/sys.h"

#include <errno.h>
#include <liburing.h>

static struct io_uring uring;

/* --- opening -------------------------------------------------------------------------------------------------------------------- */

/* Processors this thread may run on; more than are counted here are more than anybody asks for. */
static unsigned processors(void)
{
	uint64_t mask[16];
	int bytes = sys_sched_getaffinity(mask, sizeof(mask));
	unsigned n = 0;

	if (bytes <= 0)
		return bytes == -EINVAL ? (unsigned)(sizeof(mask) * 8) : 1; /* -EINVAL: the kernel's mask is larger */
	for (size_t i = 0; i < (size_t)bytes / sizeof(mask[0]); i++)
		n += (unsigned)__builtin_popcountll(mask[i]);
	return n;
}

static int limit_workers(unsigned workers_max)
{
	unsigned n = (unsigned)min_size(processors(), workers_max);
	unsigned limits[2] = {n, n}; /* of work that ends by itself, which ours is, and of other work */

	return io_uring_register_iowq_max_workers(&uring, limits);
}

/* An idle worker ends after five seconds, all but the last one, which waits for the end of our thread. Unless it runs where it should not:
 * so, nowhere. (A worker that is asked to run nowhere runs anywhere.) Where this is not obeyed, one idle thread of the kernel's stays. */
static void let_last_worker_end(void)
{
	static const cpu_set_t nowhere;

	io_uring_register_iowq_aff(&uring, sizeof(nowhere), &nowhere);
}

static int make_private(unsigned workers_max)
{
	int err = io_uring_ring_dontfork(&uring);

	if (err == 0)
		err = limit_workers(workers_max);
	if (err != 0)
		return err;
	let_last_worker_end();
	err = io_uring_register_ring_fd(&uring);
	return err == 1 ? 0 : err == 0 ? -EINVAL : err;
}

int uring_open(unsigned entries, unsigned workers_max)
{
	int err = io_uring_queue_init(entries, &uring, 0);

	if (err != 0)
		return err;
	err = make_private(workers_max);
	if (err != 0) {
		io_uring_queue_exit(&uring);
		return err;
	}
	sys_close(uring.ring_fd);
	uring.ring_fd = -1;
	return 0;
}

/* --- requests ------------------------------------------------------------------------------------------------------------------- */

/* What the kernel did not take it is not to find there next time. It reads the queue only while we submit. Returns how many. */
static size_t take_back(void)
{
	unsigned head = io_uring_smp_load_acquire(uring.sq.khead);
	unsigned left = *uring.sq.ktail - head;

	io_uring_smp_store_release(uring.sq.ktail, head);
	uring.sq.sqe_head = uring.sq.sqe_tail = head;
	return left;
}

ssize_t uring_submit(const struct kernel_request *request, size_t n, int advice)
{
	size_t queued = 0, left;
	int ret;

	for (; queued < n; queued++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&uring);

		if (sqe == NULL)
			break;
		io_uring_prep_madvise(sqe, request[queued].addr, (off_t)request[queued].len, advice);
		io_uring_sqe_set_data64(sqe, request[queued].tag);
	}
	do
		ret = io_uring_submit(&uring);
	while (ret == -EINTR);
	left = take_back();
	return left == queued && ret < 0 ? ret : (ssize_t)(queued - left);
}

/* --- answers -------------------------------------------------------------------------------------------------------------------- */

static bool next_answer(struct kernel_answer *ret)
{
	struct io_uring_cqe *cqe;
	unsigned head;

	io_uring_for_each_cqe(&uring, head, cqe) {
		*ret = (struct kernel_answer){.tag = io_uring_cqe_get_data64(cqe), .result = cqe->res};
		io_uring_cqe_seen(&uring, cqe);
		return true;
	}
	return false;
}

/* Answers appear in memory of ours whether we ask or not: where a filter came to forbid asking, look now and then. */
#define LOOK_AGAIN_NS 1000000

struct kernel_answer uring_wait(unsigned expected)
{
	static const uint32_t never;
	struct kernel_answer answer;

	while (!next_answer(&answer)) {
		int ret = sys_io_uring_enter(uring.enter_ring_fd, 0, expected, IORING_ENTER_GETEVENTS | IORING_ENTER_REGISTERED_RING);

		if (ret < 0 && ret != -EINTR)
			kernel.futex_wait(&never, 0, LOOK_AGAIN_NS);
	}
	return answer;
}

/* --- closing -------------------------------------------------------------------------------------------------------------------- */

/* Before 6.3 that takes the descriptor of a ring, of any. Where there is none to be had the ring goes with the thread. */
static void forget_by_other_ring(struct io_uring_rsrc_update *which)
{
	struct io_uring_params params = {0};
	int fd = io_uring_setup(1, &params);

	if (fd < 0)
		return;
	sys_io_uring_register(fd, IORING_UNREGISTER_RING_FDS, which, 1);
	sys_close(fd);
}

static void forget_number(void)
{
	struct io_uring_rsrc_update which = {.offset = (unsigned)uring.enter_ring_fd};
	unsigned what = IORING_UNREGISTER_RING_FDS | ABI_REGISTER_USE_REGISTERED_RING;

	if (sys_io_uring_register(uring.enter_ring_fd, what, &which, 1) != 1)
		forget_by_other_ring(&which);
}

void uring_close(void)
{
	/* a filter may forbid the call: then the ring goes with the thread */
	if (!caps_is_minimal())
		forget_number();
	sys_munmap(uring.sq.sqes, uring.sq.ring_entries * sizeof(struct io_uring_sqe));
	sys_munmap(uring.sq.ring_ptr, uring.sq.ring_sz);
	if (uring.cq.ring_ptr != uring.sq.ring_ptr)
		sys_munmap(uring.cq.ring_ptr, uring.cq.ring_sz);
}
