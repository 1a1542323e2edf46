/* SPDX-License-Identifier: MIT */
/*
 * The loop of every wait, and its list. Sleeps go through the kernel table and not through libc's conditions: in the library with the
 * standard names those park the thread, which is to be the release's decision; and tests move the time.
 *
 * A wake is sent after the result is written, and the record may be gone by then. The kernel uses its address only; a sleeper of some
 * other kind at the same place sees one wake too many, which futex(2) tells all of them to expect.
 */
#include "api/waiter.h"

#include "api/idle_release.h"
#include "kernel/kernel.h"
#include "kernel/lock.h"

/* The public struct has a plain word in its place, for C++. */
_Static_assert(sizeof(struct lock) == sizeof(uint32_t) && _Alignof(struct lock) == _Alignof(uint32_t), "one word");

static struct lock *lock_of(struct lull_wait_list *list)
{
	return (struct lock *)&list->lock;
}

void waiter_lock(struct lull_wait_list *list)
{
	lock_take(lock_of(list));
}

void waiter_unlock(struct lull_wait_list *list)
{
	lock_release(lock_of(list));
}

/* --- the list, its lock held ------------------------------------------------------------------------------------------------------- */

void waiter_add(struct lull_wait_list *list, struct lull_waiter *waiter)
{
	waiter->next = NULL;
	if (list->last != NULL)
		list->last->next = waiter;
	else
		list->first = waiter;
	list->last = waiter;
}

/* By a search, though a link backwards would save it: the child of a fork in a signal handler goes on with a record that is on no list any
 * more, whose neighbours are memory of threads that are not there. Most leave from the front. */
static void take_off(struct lull_wait_list *list, struct lull_waiter *waiter)
{
	struct lull_waiter *before = NULL, *at = list->first;
	while (at != NULL && at != waiter) {
		before = at;
		at = at->next;
	}
	if (at == NULL)
		return;
	if (before != NULL)
		before->next = at->next;
	else
		list->first = at->next;
	if (list->last == at)
		list->last = before;
}

void waiter_tell(struct lull_wait_list *list, struct lull_waiter *waiter, enum lull_wait_result result)
{
	bool sleeps = !waiter->releasing;
	take_off(list, waiter);
	/* release: pairs with the acquire in is_listed; the record may be gone afterwards */
	atomic_store_explicit(&waiter->told, result, memory_order_release);
	if (sleeps)
		kernel.futex_wake(&waiter->told, 1);
}

/* --- the wait ---------------------------------------------------------------------------------------------------------------------- */

uint64_t waiter_deadline(uint64_t now_ns, uint64_t timeout_ns)
{
	return timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
}

static bool is_listed(struct lull_waiter *self)
{
	/* acquire: pairs with the release in waiter_tell */
	return atomic_load_explicit(&self->told, memory_order_acquire) == WAITER_LISTED;
}

/* Unless somebody was faster. */
static void time_out(struct lull_wait_list *list, struct lull_waiter *self)
{
	waiter_lock(list);
	self->releasing = true; /* awake: needs no call to be woken */
	if (is_listed(self))
		waiter_tell(list, self, LULL_WAIT_TIMED_OUT);
	waiter_unlock(list);
}

static bool mark_releasing(struct lull_wait_list *list, struct lull_waiter *self, bool releasing)
{
	waiter_lock(list);
	self->releasing = releasing;
	bool listed = is_listed(self);
	waiter_unlock(list);
	return listed;
}

/* True: it is in a park now, which the wait's end must end. */
static bool release_memory(struct lull_wait_list *list, struct lull_waiter *self, struct lull_idle_release *release)
{
	if (!mark_releasing(list, self, true))
		return false;
	bool parked = idle_release_run(release);
	mark_releasing(list, self, false);
	return parked;
}

/* Time until the earlier of two points, as the kernel wants it. */
static uint64_t sleep_ns(uint64_t now_ns, uint64_t until_ns)
{
	return until_ns == UINT64_MAX ? KERNEL_NO_TIMEOUT : until_ns - now_ns;
}

/* After each sleep and each release everything is asked again, in this order: told by somebody? too late? a release due? */
enum lull_wait_result waiter_wait(
	struct lull_wait_list *list, struct lull_waiter *self, struct lull_idle_release *release, uint64_t deadline_ns)
{
	bool parked = false;
	while (is_listed(self)) {
		uint64_t now = kernel.now_ns(), due = lull_idle_release_wait_ns(release, now);
		if (now >= deadline_ns)
			time_out(list, self);
		else if (due == 0)
			parked |= release_memory(list, self, release);
		else
			kernel.futex_wait(&self->told, WAITER_LISTED, min_size(due, sleep_ns(now, deadline_ns)));
	}
	if (parked)
		idle_release_end();
	return (enum lull_wait_result)atomic_load_explicit(&self->told, memory_order_relaxed);
}
