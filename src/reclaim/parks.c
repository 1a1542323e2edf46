/* SPDX-License-Identifier: MIT */
/*
 * See parks.h. The time of the last sweep is taken at its end, so that the follow-up finds the epoch old enough to move.
 */
#include "reclaim/parks.h"

/* The seed's numbers. */
#define SWEEPS_MAX 6
#define FOLLOW_EPOCHS 2
#define AGAIN_NS (UINT64_C(30) * 1000 * 1000 * 1000)
#define RELOOK_PART 16
#define RELOOK_MIN_NS (UINT64_C(1000) * 1000)

enum { SEEN = 0, SCHEDULED, RELOOKED };

static void set_due(struct heap *heap, uint64_t due_ns, uint64_t *ret_due_ns)
{
	heap->look.due_ns = due_ns;
	if (due_ns < *ret_due_ns)
		*ret_due_ns = due_ns;
}

static void schedule(const struct policy *policy, struct heap *heap, uint64_t now_ns, uint64_t *ret_due_ns)
{
	struct heap_look *look = &heap->look;
	uint64_t window_ns = look->swept_ns + policy->step_ns;
	atomic_store(&heap->scheduled, 1);
	if (look->state == SCHEDULED && now_ns >= window_ns) {
		look->state = RELOOKED;
		uint64_t part = policy->step_ns / RELOOK_PART;
		set_due(heap, now_ns + (part > RELOOK_MIN_NS ? part : RELOOK_MIN_NS), ret_due_ns);
	} else {
		look->state = SCHEDULED;
		set_due(heap, now_ns < window_ns ? window_ns : now_ns + policy->step_ns, ret_due_ns);
	}
}

/* A park that was not seen before. True: sweep it at once. */
static bool meet(const struct policy *policy, struct heap *heap, uint64_t now_ns, uint64_t *ret_due_ns)
{
	struct heap_look *look = &heap->look;
	look->sweeps = 0;
	bool in_window = look->swept_ns != 0 && now_ns - look->swept_ns < policy->step_ns;
	if (!in_window && look->state == SEEN)
		return true;
	schedule(policy, heap, now_ns, ret_due_ns);
	return false;
}

/* What it keeps of the floor is old, and somebody is looking anyway. */
static bool share_is_old(const struct policy *policy, const struct heap *heap)
{
	return heap->floor_bytes > 0 && heap_epoch(heap) - heap->floor_epoch >= policy->keep_steps;
}

bool parks_is_due(const struct policy *policy, struct heap *heap, uint64_t now_ns, uint64_t *ret_due_ns)
{
	struct heap_look *look = &heap->look;
	uint32_t seq = atomic_load_explicit(&heap->park_seq, memory_order_relaxed);
	bool due = now_ns >= look->due_ns;
	if (due)
		atomic_store(&heap->scheduled, 0); /* seq_cst, see struct heap */
	if (atomic_load(&heap->state) != HEAP_PARKED) {
		if (due && look->park_seq != seq) { /* its parks are too short to be met: they need not wake for a while */
			look->park_seq = seq;
			look->state = SCHEDULED;
			atomic_store(&heap->scheduled, 1);
			set_due(heap, now_ns + policy->step_ns, ret_due_ns);
			return false;
		}
		if (due)
			look->state = SEEN;
		else if (look->state != SEEN) /* its parks wake nobody until then */
			set_due(heap, look->due_ns, ret_due_ns);
		return false;
	}
	if (look->park_seq != seq) {
		look->park_seq = seq;
		if (due || look->state == SEEN)
			return meet(policy, heap, now_ns, ret_due_ns);
	}
	if (due || share_is_old(policy, heap))
		return true;
	set_due(heap, look->due_ns, ret_due_ns);
	return false;
}

void parks_swept(const struct policy *policy, struct heap *heap, uint64_t now_ns, uint64_t *ret_due_ns)
{
	struct heap_look *look = &heap->look;
	if (look->sweeps++ == 0)
		look->first_epoch = heap->floor_epoch;
	look->swept_ns = now_ns;
	look->state = SEEN;
	bool held = atomic_load_explicit(&heap->held, memory_order_relaxed) != 0;
	bool follow = held && heap->floor_epoch - look->first_epoch < FOLLOW_EPOCHS && look->sweeps < SWEEPS_MAX;
	set_due(heap, now_ns + (follow ? policy->step_ns : AGAIN_NS), ret_due_ns);
}
