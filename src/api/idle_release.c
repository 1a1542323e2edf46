/* SPDX-License-Identifier: MIT */
/*
 * When a quiet thread releases, and how often: first 100 ms after its last work, then 100 ms after each release returned while its own
 * pages hold something back, four times in all. Following up for the pages of other threads would take the memory of threads that run.
 * Arithmetic on the caller's numbers, apart from the release itself. The thread that owns the object.
 */
#include "api/idle_release.h"

#include "api/init.h"
#include "api/inside.h"
#include "kernel/kernel.h"
#include "reclaim/reclaim.h"

struct idle_release_calls idle_release_calls = {
	.release = reclaim_wait_release,
	.end = reclaim_wait_end,
	.pending_own = reclaim_pending_own,
};

exported void lull_idle_release_reset(struct lull_idle_release *release, uint64_t now_ns)
{
	*release = (struct lull_idle_release){.due_ns = now_ns + LULL_IDLE_INTERVAL_NS, .left = LULL_IDLE_RELEASES};
}

static bool is_over(const struct lull_idle_release *release)
{
	return release->left == 0 || release->due_ns == IDLE_RELEASE_NEVER;
}

exported uint64_t lull_idle_release_wait_ns(const struct lull_idle_release *release, uint64_t now_ns)
{
	if (is_over(release))
		return IDLE_RELEASE_NEVER;
	return release->due_ns > now_ns ? release->due_ns - now_ns : 0;
}

void idle_release_wait_begins(struct lull_idle_release *release, uint64_t now_ns)
{
	if (!is_over(release))
		release->due_ns = now_ns + LULL_IDLE_INTERVAL_NS;
}

/* True: handed over. The start of a scavenger allocates, which would end a park, so it is for those that are not in one. */
static bool release_memory(void)
{
	init_maybe();
	inside_enter();
	bool handed_over = idle_release_calls.release();
	inside_leave();
	if (!handed_over)
		scavenger_maybe_start();
	return handed_over;
}

bool idle_release_run(struct lull_idle_release *release)
{
	if (is_over(release))
		return false;
	release->made++;
	bool handed_over = release_memory();
	release->left = handed_over ? 0 : release->left - 1;
	bool again = release->left > 0 && idle_release_calls.pending_own();
	/* from the end of this release: a long one would else be followed at once, before the clock of the pages has moved */
	release->due_ns = again ? kernel.now_ns() + LULL_IDLE_INTERVAL_NS : IDLE_RELEASE_NEVER;
	return handed_over;
}

void idle_release_end(void)
{
	idle_release_calls.end();
}

exported void lull_idle_release_run(struct lull_idle_release *release)
{
	idle_release_run(release);
}
