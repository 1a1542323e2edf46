/* SPDX-License-Identifier: MIT */
/*
 * What was found, one word per capability, and what stands on what. Asking is probe.c.
 */
#include "kernel/caps.h"

#include "kernel/kernel.h"
#include "kernel/probe.h"

#include <lull/stats.h>

#include <stdatomic.h>
#include <string.h>

/* All relaxed: each word is a fact by itself, found anew by whoever does not see it yet. */
static _Atomic int states[CAPS_COUNT];
static _Atomic int reasons[CAPS_COUNT];
static _Atomic uint32_t asked[CAPS_COUNT];
/* seq_cst both: who makes unusual calls counts itself, then looks whether it may; who forbids them says so, then looks who is there. */
static _Atomic bool minimal;
static _Atomic uint32_t under_way;

static const char *const names[CAPS_COUNT] = {
	[CAPS_DONTNEED] = "dontneed",
	[CAPS_PROCESS_MADVISE] = "process_madvise",
	[CAPS_PROCESS_MADVISE_COLD] = "process_madvise_cold",
	[CAPS_DONTNEED_LOCKED] = "dontneed_locked",
	[CAPS_FREE] = "free",
	[CAPS_COLD] = "cold",
	[CAPS_URING] = "uring",
	[CAPS_URING_MADVISE] = "uring_madvise",
	[CAPS_URING_POLL] = "uring_poll",
	[CAPS_URING_FUTEX] = "uring_futex",
	[CAPS_POPULATE] = "populate",
	[CAPS_HUGE_PAGES] = "huge_pages",
	[CAPS_MREMAP] = "mremap",
	[CAPS_GUARD_PAGES] = "guard_pages",
	[CAPS_VMA_NAME] = "vma_name",
	[CAPS_MINCORE] = "mincore",
	[CAPS_PAGEMAP_SCAN] = "pagemap_scan",
	[CAPS_UFFD] = "uffd",
	[CAPS_UFFD_DEV] = "uffd_dev",
	[CAPS_UFFD_WP_ASYNC] = "uffd_wp_async",
	[CAPS_UFFD_MOVE] = "uffd_move",
	[CAPS_UFFD_RWP] = "uffd_rwp",
	[CAPS_SYSINFO] = "sysinfo",
	[CAPS_PSI] = "psi",
	[CAPS_MEMBARRIER] = "membarrier",
	[CAPS_MEMFD] = "memfd",
	[CAPS_THREAD] = "thread",
	[CAPS_THREAD_NAME] = "thread_name",
	[CAPS_PROC] = "proc",
};

static const char *const state_names[] = {
	[CAP_STATE_UNKNOWN] = "not asked",
	[CAP_STATE_LIVE] = "live",
	[CAP_STATE_ABSENT] = "absent",
	[CAP_STATE_NOT_PERMITTED] = "not permitted",
	[CAP_STATE_BROKEN] = "broken",
	[CAP_STATE_OFF] = "off",
};

/* Either door leads to userfaultfd; CAPS_UFFD stands for both here. */
static const struct {
	enum cap cap, base;
} bases[] = {
	{CAPS_URING_MADVISE, CAPS_URING},
	{CAPS_URING_POLL, CAPS_URING},
	{CAPS_URING_FUTEX, CAPS_URING},
	{CAPS_HUGE_PAGES, CAPS_MINCORE}, /* is how they are seen */
	{CAPS_UFFD_WP_ASYNC, CAPS_UFFD},
	{CAPS_UFFD_WP_ASYNC, CAPS_PAGEMAP_SCAN},
	{CAPS_UFFD_RWP, CAPS_UFFD},
	{CAPS_UFFD_RWP, CAPS_PAGEMAP_SCAN},
	{CAPS_UFFD_MOVE, CAPS_UFFD},
	{CAPS_THREAD_NAME, CAPS_THREAD},
};

static enum cap_state own_state(enum cap cap)
{
	return (enum cap_state)atomic_load_explicit(&states[cap], memory_order_relaxed);
}

/* The door that is open, or the one to ask next, or the first. */
static enum cap uffd_door(void)
{
	enum cap_state call = own_state(CAPS_UFFD), device = own_state(CAPS_UFFD_DEV);

	if (call == CAP_STATE_LIVE || call == CAP_STATE_UNKNOWN)
		return CAPS_UFFD;
	return device == CAP_STATE_LIVE || device == CAP_STATE_UNKNOWN || call == CAP_STATE_OFF ? CAPS_UFFD_DEV : CAPS_UFFD;
}

static enum cap base_of(size_t i)
{
	return bases[i].base == CAPS_UFFD ? uffd_door() : bases[i].base;
}

bool caps_stands_on(enum cap cap, enum cap base)
{
	for (size_t i = 0; i < array_len(bases); i++)
		if (bases[i].cap == cap && bases[i].base == base)
			return true;
	return false;
}

bool caps_lacks(enum cap cap, enum cap *ret)
{
	for (size_t i = 0; i < array_len(bases); i++) {
		enum cap base = base_of(i);

		if (bases[i].cap == cap && own_state(base) != CAP_STATE_LIVE && own_state(base) != CAP_STATE_UNKNOWN) {
			*ret = base;
			return true;
		}
	}
	return false;
}

enum cap_state caps_state(enum cap cap)
{
	enum cap base;

	if (own_state(cap) != CAP_STATE_OFF && caps_lacks(cap, &base))
		return own_state(base);
	return own_state(cap);
}

int caps_reason(enum cap cap)
{
	enum cap base;

	if (own_state(cap) != CAP_STATE_OFF && caps_lacks(cap, &base))
		cap = base;
	return own_state(cap) == CAP_STATE_OFF ? 0 : atomic_load_explicit(&reasons[cap], memory_order_relaxed);
}

void caps_force_off(enum cap cap)
{
	atomic_store_explicit(&states[cap], CAP_STATE_OFF, memory_order_relaxed);
}

/* OFF may come from another thread at any moment and stays. */
static void set(enum cap cap, struct probe_result found)
{
	int seen = atomic_load_explicit(&states[cap], memory_order_relaxed);

	atomic_store_explicit(&reasons[cap], found.reason, memory_order_relaxed);
	while (seen != CAP_STATE_OFF)
		if (atomic_compare_exchange_weak_explicit(&states[cap], &seen, (int)found.state, memory_order_relaxed, memory_order_relaxed))
			return;
}

void caps_refused(enum cap cap, int err)
{
	set(cap, (struct probe_result){.state = probe_state_of(err), .reason = err});
}

bool caps_is_minimal(void)
{
	return atomic_load_explicit(&minimal, memory_order_relaxed);
}

bool caps_begin(void)
{
	atomic_fetch_add(&under_way, 1);
	if (!atomic_load(&minimal))
		return true;
	caps_end();
	return false;
}

void caps_end(void)
{
	atomic_fetch_sub(&under_way, 1);
}

/* A probe takes about a millisecond, a pass some more. The count may have come with a fork, from a thread that is not here: the wait has
 * an end. */
static void await_calls(void)
{
	uint32_t n;

	for (unsigned ms = 0; ms < 1000 && (n = atomic_load(&under_way)) > 0; ms++)
		kernel.futex_wait(&under_way, n, 1000000);
}

void caps_minimal(void)
{
	atomic_store(&minimal, true);
	for (int cap = 0; cap < CAPS_COUNT; cap++)
		if (cap != CAPS_DONTNEED)
			caps_force_off((enum cap)cap);
	await_calls();
}

_Static_assert(CAPS_COUNT <= 2 * LULL_STATS_CAPS_WORD, "the statistics page needs one more word");

void caps_pack(uint64_t *ret_low, uint64_t *ret_high)
{
	uint64_t words[2] = {0, caps_is_minimal() ? LULL_STATS_CAPS_MINIMAL : 0};

	for (unsigned cap = 0; cap < CAPS_COUNT; cap++)
		words[cap / LULL_STATS_CAPS_WORD] |= (uint64_t)caps_state((enum cap)cap) << (3 * (cap % LULL_STATS_CAPS_WORD));
	*ret_low = words[0];
	*ret_high = words[1];
}

const char *caps_name(enum cap cap)
{
	return names[cap];
}

const char *caps_state_name(enum cap_state state)
{
	return state_names[state];
}

bool caps_find(const char *name, size_t len, enum cap *ret)
{
	for (int cap = 0; cap < CAPS_COUNT; cap++) {
		if (strlen(names[cap]) == len && memcmp(names[cap], name, len) == 0) {
			*ret = (enum cap)cap;
			return true;
		}
	}
	return false;
}

/* What could not be tried is tried again after twice as many questions each time: where there is no room for a process, that lasts. */
static bool is_time_to_ask(enum cap cap)
{
	return is_pow2(atomic_fetch_add_explicit(&asked[cap], 1, memory_order_relaxed) + 1);
}

static bool is_by_device(enum cap cap)
{
	return cap == CAPS_UFFD_DEV || (cap != CAPS_UFFD && own_state(CAPS_UFFD) != CAP_STATE_LIVE);
}

static void ask(enum cap cap)
{
	if (own_state(cap) != CAP_STATE_UNKNOWN || !is_time_to_ask(cap))
		return;
	if (cap != CAPS_DONTNEED && !caps_begin())
		return;
	set(cap, probe(cap, is_by_device(cap), own_state(CAPS_MINCORE) == CAP_STATE_LIVE));
	if (cap != CAPS_DONTNEED)
		caps_end();
}

/* The first door that opens is enough. */
static void ask_base(size_t i)
{
	ask(base_of(i));
	ask(base_of(i));
}

/* Whether all that CAP stands on is there. */
static bool has_bases(enum cap cap)
{
	for (size_t i = 0; i < array_len(bases); i++) {
		if (bases[i].cap != cap)
			continue;
		ask_base(i);
		if (own_state(base_of(i)) != CAP_STATE_LIVE)
			return false;
	}
	return true;
}

bool caps_has(enum cap cap)
{
	if (own_state(cap) == CAP_STATE_UNKNOWN) {
		if (cap == CAPS_POPULATE) /* helps to see it */
			ask(CAPS_MINCORE);
		if (has_bases(cap))
			ask(cap);
	}
	return caps_state(cap) == CAP_STATE_LIVE;
}
