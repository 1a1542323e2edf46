/* SPDX-License-Identifier: MIT */
/*
 * Suite own_memory: whatever is given back, and by whom, every range that the kernel is advised on lies in a region. Blocks of all kinds
 * come and go on several threads beside memory of the program's own (a clean file, anonymous memory, a stack), under every kind of
 * sweep; the fake kernel's records are then looked at one by one.
 */
#include "reclaim/reclaim.h"

#include "heap/heap.h"
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "reclaim/internal.h"
#include "region/region.h"
#include "support/fake_kernel.h"
#include "support/unit.h"
#include "unit/heap/heaps.h"
#include "unit/region/memory.h"

#include <errno.h>

#define BLOCKS 1500
#define THREADS 3
#define ROUNDS 12
#define OTHERS_BYTES (2 * MIB)

static atomic_int step;

static void begin(enum advise_way way)
{
	memory_without_huge_pages();
	/* tried on memory of their own */
	caps_has(CAPS_DONTNEED);
	caps_has(CAPS_POPULATE);
	caps_has(CAPS_HUGE_PAGES);
	fake_kernel_install();
	fake_clock_set(UINT64_C(1000) * RECLAIM_TICK_NS);
	advise_set_way(way);
}

static bool lies_in(const struct fake_record *record, const char *base, size_t len)
{
	return record->addr >= base && record->addr + record->len <= base + len;
}

/* In its memory, or in what is kept about it. */
static bool in_one_region(const struct fake_record *record)
{
	for (size_t i = 0; i < region_n(); i++) {
		const struct region *region = region_at(i);

		if (lies_in(record, region->base, region->slices * SLICE_SIZE) || lies_in(record, region->records, region->slices * RECORD_SIZE))
			return true;
	}
	return false;
}

/* Looks at what was recorded since the last look. Returns how many ranges were advised on. */
static size_t ck_all_own(void)
{
	size_t n = 0;

	ck_assert_uint_lt(fake_records(), FAKE_RECORDS);
	for (size_t i = 0; i < fake_records(); i++) {
		const struct fake_record *record = fake_record(i);

		if (record->call != FAKE_MADVISE && record->call != FAKE_PROCESS_MADVISE)
			continue;
		ck_assert_uint_gt(record->len, 0);
		ck_assert_msg(in_one_region(record), "%p, %zu bytes, advice %d", (void *)record->addr, record->len, record->arg);
		n++;
	}
	fake_forget();
	return n;
}

/* Every kind of page: 1 byte to 1 MiB. */
static size_t any_size(struct random *random)
{
	unsigned log = (unsigned)random_below(random, 21);

	return ((size_t)1 << log) + random_below(random, 1u << log);
}

struct work {
	char *block[BLOCKS];
	struct random random;
	int go; /* the step at which the thread ends */
};

static void use_memory(struct work *work, unsigned keep_one_in)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		size_t size = any_size(&work->random) / (i % 8 ? 64 : 1) + 1;

		if (work->block[i] == NULL)
			*(work->block[i] = alloc(size)) = 1;
	}
	for (unsigned i = 0; i < BLOCKS; i++) {
		if (random_below(&work->random, keep_one_in) == 0)
			continue;
		heap_free_slow(work->block[i]);
		work->block[i] = NULL;
	}
}

/* Leaves holes, is parked while others sweep, and ends with blocks still in use. */
static void *park_with_holes(void *arg)
{
	struct work *work = arg;

	use_memory(work, 10);
	heap_park();
	atomic_fetch_add(&step, 1);
	step_await(&step, work->go);
	heap_unpark();
	heap_thread_end();
	return NULL;
}

static struct work works[THREADS + 1];

static void each_way_of_sweeping(unsigned round)
{
	struct reclaim_left left = {0};

	fake_clock_add(RECLAIM_TICK_NS);
	switch (round % 4) {
	case 0:
		reclaim_pass(&left);
		break;
	case 1:
		reclaim_thread();
		break;
	case 2:
		reclaim_collect(false);
		break;
	default:
		reclaim_collect(true);
	}
}

static char *memory_of_the_program(int file)
{
	char *addr = mmap(NULL, OTHERS_BYTES, PROT_READ, MAP_PRIVATE | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
	volatile char sum = 0;

	ck_assert_ptr_ne(addr, MAP_FAILED);
	for (size_t i = 0; i < OTHERS_BYTES; i += OS_PAGE_SIZE)
		sum += addr[i];
	return addr;
}

static int clean_file(void)
{
	char name[] = "/tmp/lull-own-XXXXXX";
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	unlink(name);
	ck_assert_int_eq(ftruncate(fd, (off_t)OTHERS_BYTES), 0);
	return fd;
}

static void ck_only_own_memory_is_advised_on(enum advise_way way, enum fake_call call)
{
	pthread_t threads[THREADS];
	size_t advised = 0;
	int file = clean_file();

	begin(way);
	memory_of_the_program(file);
	for (unsigned i = 0; i < THREADS; i++) {
		works[i].go = 2 * THREADS;
		works[i].random.state = i; /* the same sizes each time */
		threads[i] = thread_start(park_with_holes, &works[i]);
	}
	step_await(&step, THREADS);
	memory_of_the_program(file);
	char *program = memory_of_the_program(-1);
	works[THREADS].random.state = THREADS;
	for (unsigned round = 0; round < ROUNDS; round++) {
		use_memory(&works[THREADS], 2 + round);
		for (unsigned i = 0; i < THREADS; i++) { /* frees into the heaps of parked threads */
			heap_free_slow(works[i].block[round]);
			works[i].block[round] = NULL;
		}
		if (round == 2)
			fake_refuse(call, 1, EINVAL);
		each_way_of_sweeping(round);
		advised += ck_all_own();
	}
	step_reach(&step, 2 * THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	reclaim_collect(true);
	advised += ck_all_own();
	ck_assert_uint_gt(advised, 500);
	ck_assert_uint_eq(memory_resident(program, OTHERS_BYTES), OTHERS_BYTES / OS_PAGE_SIZE);
	close(file);
}

START_TEST(test_only_own_memory_is_advised_on_range_by_range)
{
	ck_only_own_memory_is_advised_on(ADVISE_LOOP, FAKE_MADVISE);
}
END_TEST

START_TEST(test_only_own_memory_is_advised_on_by_vectors)
{
	ck_only_own_memory_is_advised_on(ADVISE_VECTOR, FAKE_PROCESS_MADVISE);
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("own_memory");
	TCase *ranges = tcase_create("ranges");

	tcase_add_test(ranges, test_only_own_memory_is_advised_on_range_by_range);
	tcase_add_test(ranges, test_only_own_memory_is_advised_on_by_vectors);
	suite_add_tcase(suite, ranges);
	return unit_run(suite);
}
