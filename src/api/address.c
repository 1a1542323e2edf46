/* SPDX-License-Identifier: MIT */
/*
 * Waiting for the value at an address to change: waiters in a fixed table of lists, picked by the address. The value is compared and the
 * waiter queued under one lock, and a waker takes that lock after it changed the value: either the waiter sees the new value or the
 * waker sees the waiter. Wakes go in the order of arrival. Any thread.
 */
#include "api/address.h"

#include "api/waiter.h"
#include "kernel/kernel.h"
#include "kernel/lock.h"

/* There are at most as many waiters as threads, and a list is long only where many wait on one address; the table is one OS page. */
#define BUCKET_BITS 6
#define BUCKETS (1u << BUCKET_BITS)

struct bucket {
	struct lull_wait_list list;
} __attribute__((aligned(64))); /* cache lines: neighbours have nothing to do with each other */

struct address_waiter {
	struct lull_waiter waiter; /* first: a list's members are of this kind */
	const volatile void *addr;
	const struct lull_wait_token *token; /* or NULL */
};

static struct bucket buckets[BUCKETS];
/* Whether a list was ever used: most processes never wait this way, and their children need not touch the table. Relaxed. */
static _Atomic bool used;

static struct lull_wait_list *list_of(const volatile void *addr)
{
	/* 2^64 divided by the golden ratio: spreads addresses that differ in a few bits over the upper bits (Knuth, vol. 3, 6.4) */
	uint64_t hash = (uintptr_t)addr * UINT64_C(0x9e3779b97f4a7c15);
	return &buckets[hash >> (64 - BUCKET_BITS)].list;
}

static const struct address_waiter *address_waiter(const struct lull_waiter *waiter)
{
	return (const struct address_waiter *)waiter;
}

/* --- waiting ----------------------------------------------------------------------------------------------------------------------- */

static uint64_t value_at(const volatile void *addr, size_t size)
{
	if (size == sizeof(uint32_t))
		return __atomic_load_n((const volatile uint32_t *)addr, __ATOMIC_SEQ_CST);
	return __atomic_load_n((const volatile uint64_t *)addr, __ATOMIC_SEQ_CST);
}

static bool is_terminated(const struct lull_wait_token *token)
{
	/* relaxed: the lists' locks order it against the look of lull_wait_terminate */
	return token != NULL && __atomic_load_n(&token->terminated, __ATOMIC_RELAXED) != 0;
}

/* LULL_WAIT_OK: queued. */
static enum lull_wait_result queue(struct lull_wait_list *list, struct address_waiter *self, size_t size, uint64_t expected)
{
	enum lull_wait_result result = LULL_WAIT_OK;
	waiter_lock(list);
	if (is_terminated(self->token))
		result = LULL_WAIT_TERMINATED;
	else if (value_at(self->addr, size) != expected)
		result = LULL_WAIT_NOT_EQUAL;
	else
		waiter_add(list, &self->waiter);
	waiter_unlock(list);
	return result;
}

static enum lull_wait_result wait_on(struct address_waiter *self, size_t size, uint64_t expected, uint64_t timeout_ns)
{
	struct lull_wait_list *list = list_of(self->addr);
	struct lull_idle_release release;
	uint64_t now = kernel.now_ns();
	atomic_store_explicit(&used, true, memory_order_relaxed);
	enum lull_wait_result result = queue(list, self, size, expected);
	if (result != LULL_WAIT_OK)
		return result;
	lull_idle_release_reset(&release, now);
	return waiter_wait(list, &self->waiter, &release, waiter_deadline(now, timeout_ns));
}

exported enum lull_wait_result lull_wait_on_address32(
	const volatile void *addr, uint32_t expected, uint64_t timeout_ns, struct lull_wait_token *token)
{
	struct address_waiter self = {.waiter = WAITER_INIT, .addr = addr, .token = token};
	return wait_on(&self, sizeof(expected), expected, timeout_ns);
}

exported enum lull_wait_result lull_wait_on_address64(
	const volatile void *addr, uint64_t expected, uint64_t timeout_ns, struct lull_wait_token *token)
{
	struct address_waiter self = {.waiter = WAITER_INIT, .addr = addr, .token = token};
	return wait_on(&self, sizeof(expected), expected, timeout_ns);
}

/* --- waking ------------------------------------------------------------------------------------------------------------------------ */

exported size_t lull_wake_address(const volatile void *addr, size_t count)
{
	struct lull_wait_list *list = list_of(addr);
	struct lull_waiter *next;
	size_t woken = 0;
	waiter_lock(list);
	for (struct lull_waiter *waiter = list->first; waiter != NULL && woken < count; waiter = next) {
		next = waiter->next;
		if (address_waiter(waiter)->addr != addr)
			continue;
		waiter_tell(list, waiter, LULL_WAIT_OK);
		woken++;
	}
	waiter_unlock(list);
	return woken;
}

static void terminate_in(struct lull_wait_list *list, const struct lull_wait_token *token)
{
	struct lull_waiter *next;
	waiter_lock(list);
	for (struct lull_waiter *waiter = list->first; waiter != NULL; waiter = next) {
		next = waiter->next;
		if (address_waiter(waiter)->token == token)
			waiter_tell(list, waiter, LULL_WAIT_TERMINATED);
	}
	waiter_unlock(list);
}

exported void lull_wait_terminate(struct lull_wait_token *token)
{
	__atomic_store_n(&token->terminated, 1, __ATOMIC_RELAXED);
	for (size_t i = 0; i < BUCKETS; i++)
		terminate_in(&buckets[i].list, token);
}

/* --- fork -------------------------------------------------------------------------------------------------------------------------- */

void address_fork_done(bool child)
{
	if (!child || !atomic_load_explicit(&used, memory_order_relaxed))
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		buckets[i].list = (struct lull_wait_list){0};
}
