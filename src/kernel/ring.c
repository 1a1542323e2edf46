/* SPDX-License-Identifier: MIT */
/*
 * See ring.h. A request waits in a slot for its answer; the slot's number is what the kernel is given and gives back.
 */
#include "kernel/ring.h"

#include "kernel/caps.h"
#include "kernel/kernel.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

/* More threads of the kernel's than this find each other in the way: they free into the same zone, under the same locks. */
#define RING_WORKERS 4

static struct {
	_Atomic uintptr_t owner; /* a thread, by pthread_self; relaxed: only the owner itself finds itself here */
	bool open;
	bool was_open;
	uint64_t used_ns;   /* when something was handed over or answered last */
	uint64_t closed_ns; /* it could not do its work: not again before this */
	uint64_t slots;     /* a bit for each request in flight */
	struct ring_request slot[RING_ENTRIES];
} ring;

/* --- whose it is ---------------------------------------------------------------------------------------------------------------- */

bool ring_is_mine(void)
{
	return atomic_load_explicit(&ring.owner, memory_order_relaxed) == (uintptr_t)pthread_self();
}

static void close_ring(void)
{
	lull_assert(ring.slots == 0);
	if (ring.open)
		kernel.ring_close();
	ring.open = false;
}

void ring_own(void)
{
	atomic_store_explicit(&ring.owner, (uintptr_t)pthread_self(), memory_order_relaxed);
}

void ring_disown(void)
{
	close_ring();
	atomic_store_explicit(&ring.owner, 0, memory_order_relaxed);
}

void ring_forget(void)
{
	atomic_store_explicit(&ring.owner, 0, memory_order_relaxed);
	ring.open = false;
	ring.slots = 0;
	ring.closed_ns = 0;
}

/* --- opening and closing -------------------------------------------------------------------------------------------------------- */

static bool is_passing(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -EAGAIN || err == -EBUSY;
}

/* What the program or the machine lacks just now may be there later; all else the kernel will say again. */
static void note_refusal(int err)
{
	if (is_passing(err))
		ring.closed_ns = kernel.now_ns() + RING_REST_NS;
	else
		caps_refused(CAPS_URING_MADVISE, err);
}

static bool open_ring(void)
{
	int err;

	if (!caps_has(CAPS_URING) || !caps_has(CAPS_URING_MADVISE) || kernel.now_ns() < ring.closed_ns)
		return false;
	err = kernel.ring_open(RING_ENTRIES, RING_WORKERS);
	if (err != 0) {
		note_refusal(err);
		return false;
	}
	ring.open = ring.was_open = true;
	ring.used_ns = kernel.now_ns();
	return true;
}

/* Open it stays so: closing is ring_rest's business, but for a capability switched off meanwhile. */
static bool is_off(void)
{
	return caps_state(CAPS_URING) == CAP_STATE_OFF || caps_state(CAPS_URING_MADVISE) == CAP_STATE_OFF;
}

bool ring_ready(void)
{
	if (!ring_is_mine())
		return false;
	if (ring.open)
		return !is_off() && kernel.now_ns() >= ring.closed_ns;
	return open_ring();
}

bool ring_is_possible(void)
{
	return caps_state(CAPS_URING) == CAP_STATE_LIVE && caps_state(CAPS_URING_MADVISE) == CAP_STATE_LIVE;
}

uint64_t ring_rest(void)
{
	uint64_t now = kernel.now_ns();

	if (!ring.open || !ring_is_mine())
		return UINT64_MAX;
	if (now - ring.used_ns < RING_REST_NS)
		return ring.used_ns + RING_REST_NS - now;
	close_ring();
	return UINT64_MAX;
}

/* --- requests and answers ------------------------------------------------------------------------------------------------------- */

size_t ring_in_flight(void)
{
	return (size_t)__builtin_popcountll(ring.slots);
}

static unsigned take_slot(const struct ring_request *request)
{
	unsigned i = bit_lowest(~ring.slots);

	ring.slots |= UINT64_C(1) << i;
	ring.slot[i] = *request;
	return i;
}

static void give_slot(unsigned i)
{
	ring.slots &= ~(UINT64_C(1) << i);
}

size_t ring_submit(const struct ring_request *request, size_t n, int advice)
{
	struct kernel_request asked[RING_ENTRIES];
	ssize_t taken;

	lull_assert(n <= RING_ENTRIES - ring_in_flight());
	if (n == 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		asked[i] = (struct kernel_request){.addr = request[i].addr, .len = request[i].len, .tag = take_slot(&request[i])};
	taken = kernel.ring_submit(asked, n, advice);
	for (size_t i = taken > 0 ? (size_t)taken : 0; i < n; i++)
		give_slot((unsigned)asked[i].tag);
	if (taken < 0)
		note_refusal((int)taken);
	ring.used_ns = kernel.now_ns();
	return taken > 0 ? (size_t)taken : 0;
}

/* -ECANCELED: the kernel could start no thread for us, as under an RLIMIT_NPROC that is used up. */
static void note_answer(int result)
{
	if (result == -ECANCELED)
		ring.closed_ns = kernel.now_ns() + RING_REST_NS;
}

int ring_answer(struct ring_request *ret, size_t expected)
{
	struct kernel_answer answer = kernel.ring_wait((unsigned)expected);

	*ret = ring.slot[answer.tag];
	give_slot((unsigned)answer.tag);
	note_answer(answer.result);
	if (ring.slots == 0)
		ring.used_ns = kernel.now_ns();
	return answer.result;
}
