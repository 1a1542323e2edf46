/* SPDX-License-Identifier: MIT */
/*
 * lull_cond: one list of waiters. A notifier prefers a thread that sleeps to one that is in a release, which could not run at once; but
 * when there is no other it tells that one, so that the notify is not lost. Any thread.
 */
#include "api/idle_release.h"
#include "api/waiter.h"
#include "kernel/kernel.h"
#include "kernel/report.h"

exported void lull_cond_init(struct lull_cond *cond)
{
	*cond = (struct lull_cond)LULL_COND_INIT;
}

/* The lock also waits for a notifier that has told the last waiter and is on its way out. */
exported void lull_cond_destroy(struct lull_cond *cond)
{
	waiter_lock(&cond->waiters);
	bool waited_on = cond->waiters.first != NULL;
	waiter_unlock(&cond->waiters);
	if (waited_on)
		report_misuse("lull_cond_destroy: a thread still waits on the condition", cond);
}

exported enum lull_wait_result lull_cond_timedwait(
	struct lull_cond *cond, pthread_mutex_t *mutex, struct lull_idle_release *release, uint64_t timeout_ns)
{
	struct lull_waiter self = WAITER_INIT;
	struct lull_idle_release none = {0};
	uint64_t now = kernel.now_ns();
	if (release == NULL)
		release = &none;
	idle_release_wait_begins(release, now);
	waiter_lock(&cond->waiters);
	waiter_add(&cond->waiters, &self);
	waiter_unlock(&cond->waiters);
	pthread_mutex_unlock(mutex);
	enum lull_wait_result result = waiter_wait(&cond->waiters, &self, release, waiter_deadline(now, timeout_ns));
	pthread_mutex_lock(mutex);
	return result;
}

/* Lock held. */
static struct lull_waiter *pick(struct lull_wait_list *list)
{
	for (struct lull_waiter *waiter = list->first; waiter != NULL; waiter = waiter->next)
		if (!waiter->releasing)
			return waiter;
	return list->first;
}

exported bool lull_cond_notify_one(struct lull_cond *cond)
{
	waiter_lock(&cond->waiters);
	struct lull_waiter *waiter = pick(&cond->waiters);
	bool slept = waiter != NULL && !waiter->releasing;
	if (waiter != NULL)
		waiter_tell(&cond->waiters, waiter, LULL_WAIT_OK);
	waiter_unlock(&cond->waiters);
	return slept;
}

exported void lull_cond_notify_all(struct lull_cond *cond)
{
	waiter_lock(&cond->waiters);
	while (cond->waiters.first != NULL)
		waiter_tell(&cond->waiters, cond->waiters.first, LULL_WAIT_OK);
	waiter_unlock(&cond->waiters);
}
