/* SPDX-License-Identifier: MIT */
/*
 * Two 16-bit words an entry; see reuse.h.
 */
#include "page/reuse.h"

static _Atomic uint16_t reused_ms[REUSE_KEYS];
static _Atomic uint16_t touched[REUSE_KEYS];
static _Atomic uint64_t ghost_hits, ghost_bytes;

void reuse_note(uint32_t key, uint32_t ago_ms, size_t bytes)
{
	if (key == 0 || ago_ms > REUSE_MAX_MS)
		return;
	atomic_store_explicit(&reused_ms[key], (uint16_t)max_size(ago_ms, 1), memory_order_relaxed);
	atomic_fetch_add_explicit(&ghost_hits, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&ghost_bytes, bytes, memory_order_relaxed);
}

unsigned reuse_ms(uint32_t key)
{
	return atomic_load_explicit(&reused_ms[key], memory_order_relaxed);
}

void reuse_forget(uint32_t key)
{
	if (reuse_ms(key) != 0)
		atomic_store_explicit(&reused_ms[key], 0, memory_order_relaxed);
}

void reuse_touch(uint32_t key, uint16_t epoch)
{
	atomic_store_explicit(&touched[key], epoch, memory_order_relaxed);
}

uint16_t reuse_touched(uint32_t key)
{
	return atomic_load_explicit(&touched[key], memory_order_relaxed);
}

struct reuse_counts reuse_counts(void)
{
	return (struct reuse_counts){
		.ghost_hits = atomic_load_explicit(&ghost_hits, memory_order_relaxed),
		.ghost_bytes = atomic_load_explicit(&ghost_bytes, memory_order_relaxed),
	};
}
