/* SPDX-License-Identifier: MIT */
/*
 * The numbers of both policies and the rules between them; see policy.h.
 */
#include "reclaim/policy.h"

/* The seed's: the interval between sweeps, the floor and its age, as shipped (4 MiB, 25.6 s of continuous sweeping). */
#define SEED_STEP_NS (UINT64_C(100) * 1000 * 1000)
#define SEED_FLOOR_BYTES (4 * MIB)
#define SEED_KEEP_STEPS 256

/* What ghost hits can make of the floor is a sixteenth of the memory: what is held was in use a second ago. */
#define FLOOR_MAX_SHARE 16

void policy_init(struct policy *policy, bool seed)
{
	*policy = (struct policy)POLICY_DEFAULT;
	if (!seed)
		return;
	policy->seed = true;
	policy->step_ns = SEED_STEP_NS;
	policy->keep_steps = SEED_KEEP_STEPS;
	policy->floor_bytes = policy->floor_min = policy->floor_max = SEED_FLOOR_BYTES;
}

void policy_know_memory(struct policy *policy, size_t memory_bytes)
{
	if (!policy->seed)
		policy->floor_max = max_size(policy->floor_min, memory_bytes / FLOOR_MAX_SHARE);
}

bool policy_may_step(const struct policy *policy, uint64_t since_ns, uint64_t now_ns)
{
	if (policy->step_ns == 0)
		return false;
	return now_ns < since_ns || now_ns - since_ns >= policy->step_ns;
}

unsigned policy_keep_steps(const struct policy *policy, unsigned reuse_ms)
{
	if (policy->seed)
		return policy->keep_steps;
	if (reuse_ms == 0 || policy->step_ns == 0)
		return 0;
	/* half as long again, and the steps by which a clock read in steps can be wrong */
	uint64_t ns = (reuse_ms + reuse_ms / 2) * UINT64_C(1000000);
	return (unsigned)min_size(ns / policy->step_ns + policy->young_steps, policy->keep_steps);
}

enum policy_verdict policy_judge(const struct policy *policy, unsigned age, unsigned keep_steps)
{
	if (policy->step_ns == 0)
		return POLICY_RETURN;
	if (age < policy->young_steps)
		return POLICY_HOLD;
	if (age < keep_steps)
		return POLICY_KEEP;
	return keep_steps > 0 ? POLICY_EXPIRED : POLICY_RETURN;
}

bool policy_floor_take(struct policy *policy, size_t bytes)
{
	if (bytes > policy->floor_bytes || policy->shared_bytes > policy->floor_bytes - bytes)
		return false;
	policy->shared_bytes += bytes;
	return true;
}

void policy_floor_give(struct policy *policy, size_t bytes)
{
	lull_assert(bytes <= policy->shared_bytes);
	policy->shared_bytes -= bytes;
}

bool policy_floor_fits(struct policy *policy, unsigned age, size_t bytes)
{
	size_t *sum = &policy->by_age[min_size(age, POLICY_AGES - 1)];

	*sum += bytes;
	return age < policy->edge_age || (age == policy->edge_age && *sum <= policy->edge_bytes);
}

bool policy_floor_has_room(const struct policy *policy, unsigned age, size_t bytes)
{
	return age < policy->edge_age || (age == policy->edge_age && bytes <= policy->edge_bytes);
}

static void adapt_floor(struct policy *policy, size_t ghost_bytes, size_t vain_bytes)
{
	policy->floor_bytes += min_size(ghost_bytes, policy->floor_max - policy->floor_bytes);
	policy->floor_bytes -= min_size(vain_bytes, policy->floor_bytes - policy->floor_min);
}

void policy_end_pass(struct policy *policy, size_t ghost_bytes, size_t vain_bytes)
{
	size_t sum = 0;
	unsigned age = 0;

	adapt_floor(policy, ghost_bytes, vain_bytes);
	while (age < POLICY_AGES && policy->by_age[age] <= policy->floor_bytes - sum)
		sum += policy->by_age[age++];
	/* by the next pass all of it is a step older */
	policy->edge_age = age + 1;
	policy->edge_bytes = policy->floor_bytes - sum;
	policy->kept_bytes = age == POLICY_AGES ? sum : policy->floor_bytes;
	__builtin_memset(policy->by_age, 0, sizeof(policy->by_age));
}
