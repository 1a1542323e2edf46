/* SPDX-License-Identifier: MIT */
/*
 * lull: waits that give memory back while they last, by the follow-up rule of lull/idle.h: 100 ms without a wake-up, then a release, and
 * more of them while the thread's own memory is held back. A thread that is woken sooner has nothing to do with the allocator.
 *
 * With a background thread a release is handed over and delays neither a wake-up nor a timeout. Without one (LULL_SCAVENGER=0, stopped)
 * it is made by the waiting thread, which can then not be woken before it is done.
 *
 * Nothing here allocates. Waits are no cancellation points and are not ended by signals; none of these calls is async-signal-safe.
 */
#ifndef LULL_WAIT_H
#define LULL_WAIT_H

#include <lull/idle.h>

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LULL_WAIT_FOREVER UINT64_MAX /* as a timeout */
#define LULL_WAKE_ALL SIZE_MAX       /* as a count */

enum lull_wait_result {
	LULL_WAIT_OK,         /* woken by a notify or a wake */
	LULL_WAIT_NOT_EQUAL,  /* did not wait: the value is another */
	LULL_WAIT_TIMED_OUT,
	LULL_WAIT_TERMINATED, /* lull_wait_terminate */
};

/* Those who wait, oldest first. Lull's own. */
struct lull_wait_list {
	uint32_t lock;
	struct lull_waiter *first, *last;
};

/* --- a condition for worker threads ------------------------------------------------------------------------------------------------ */

/*
 * As a pthread_cond_t: waited for with a mutex held that guards what is waited for. Of no use in the child of a fork before
 * lull_cond_init. lull_cond_destroy: nobody waits any more; it ends the process with a line when somebody does.
 */
struct lull_cond {
	struct lull_wait_list waiters;
};
#define LULL_COND_INIT {{0, NULL, NULL}}

void lull_cond_init(struct lull_cond *cond);
void lull_cond_destroy(struct lull_cond *cond);

/*
 * Wait until notified, with MUTEX given up meanwhile.
 *
 * mutex       held by the caller, once, and again on return; not a robust one
 * release     the calling thread's. The caller resets it before it does work, and only then: a thread that is notified and finds no work
 *             waits its full timeout again, but has no new releases. One that was never reset, or NULL, is a wait without any.
 * timeout_ns  nanoseconds, or LULL_WAIT_FOREVER; a release is made only while it has not passed: with 100 ms or less, none
 *
 * Returns LULL_WAIT_OK or LULL_WAIT_TIMED_OUT. No spurious returns, but look again all the same: another thread may have been faster.
 */
enum lull_wait_result lull_cond_timedwait(
	struct lull_cond *cond, pthread_mutex_t *mutex, struct lull_idle_release *release, uint64_t timeout_ns);

/*
 * End the wait of the thread that has waited longest, and of all. With the mutex held or not. notify_one passes over a thread that is in
 * a release, unless there is no other: that one returns as soon as the release is done.
 * notify_one returns true when it woke a thread that was asleep; false: nobody waits, or only a thread in a release.
 */
bool lull_cond_notify_one(struct lull_cond *cond);
void lull_cond_notify_all(struct lull_cond *cond);

/* --- waiting for a value to change ------------------------------------------------------------------------------------------------- */

/* Ends all the waits it was given to, now and later: one for each worker that can be told to stop. */
struct lull_wait_token {
	uint32_t terminated; /* 0 or 1; lull's own */
};
#define LULL_WAIT_TOKEN_INIT {0}

/*
 * Wait until woken, if the value at ADDR is EXPECTED: compared and queued in one step, as lull_wake_address sees it.
 *
 * addr        aligned to the value's size; others change it by atomic stores, and wake afterwards. The address is what counts, not the
 *             size: one lull_wake_address wakes both kinds
 * timeout_ns  nanoseconds, or LULL_WAIT_FOREVER. Longer than 100 ms: a release is made, longer than 200 ms: may be followed up
 * token       NULL: the wait cannot be terminated
 *
 * Returns any of enum lull_wait_result: TERMINATED when the token is, NOT_EQUAL when it did not wait, OK for each thread that a
 * lull_wake_address counted, whatever has passed meanwhile.
 */
enum lull_wait_result lull_wait_on_address32(
	const volatile void *addr, uint32_t expected, uint64_t timeout_ns, struct lull_wait_token *token);
enum lull_wait_result lull_wait_on_address64(
	const volatile void *addr, uint64_t expected, uint64_t timeout_ns, struct lull_wait_token *token);

/* Wake COUNT of the threads that wait on ADDR, those first that have waited longest. Returns how many: less when there were less. */
size_t lull_wake_address(const volatile void *addr, size_t count);

/* End the waits that were given TOKEN. For good: LULL_WAIT_TOKEN_INIT makes it a new one, when nobody waits with it. */
void lull_wait_terminate(struct lull_wait_token *token);

#ifdef __cplusplus
}
#endif
#endif
