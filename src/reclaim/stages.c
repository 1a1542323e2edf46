/* SPDX-License-Identifier: MIT */
/*
 * See stages.h.
 */
#include "reclaim/stages.h"

#define NS_PER_S UINT64_C(1000000000)

void stages_note(struct stages *stages, uint64_t bytes, uint64_t now_ns)
{
	uint64_t quiet_s = (now_ns - stages->since_ns) / NS_PER_S;

	stages->freed_bytes += bytes;
	if (stages->since_ns != 0 && stages->freed_bytes <= max_size(STAGES_SLACK_BYTES, quiet_s * STAGES_SLACK_BYTES_S))
		return;
	stages->since_ns = now_ns;
	stages->freed_bytes = 0;
	stages->next = 0;
}

uint64_t stages_wait_ns(const struct stages *stages, uint64_t now_ns)
{
	if (stages->next >= stages->n)
		return UINT64_MAX;
	uint64_t at = stages->since_ns + stages->after_s[stages->next] * NS_PER_S;
	return at > now_ns ? at - now_ns : 0;
}

bool stages_reached(struct stages *stages, uint64_t now_ns)
{
	if (stages_wait_ns(stages, now_ns) != 0)
		return false;
	stages->next++;
	return true;
}
