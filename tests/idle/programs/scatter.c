/* SPDX-License-Identifier: MIT */
/*
 * Free memory between live blocks. Threads allocate many blocks, keep a few at random, free the rest in random order and block, with
 * no further call into the allocator. How many of the OS pages that no kept block touches are back within a second?
 *
 *   scatter SET WAY     a thread of its own does the work and blocks; the main thread looks on
 *   scatter SET main    the main thread does both: it blocks in poll for a second, then looks
 *
 *   SET   small     150 000 x 512 B, 100 000 x 1 KiB, 50 000 x 2 KiB, shuffled; 1 in 20 kept
 *         mixed     96 MiB in blocks of 1 to 64 KiB; 1 in 20 kept
 *         tiny      2 000 000 x 64 B; 1 in 1000 kept
 *         threads   the same as mixed, on eight threads
 *   WAY   poll, nanosleep, cond, read
 *
 * Afterwards the kept blocks are whole, the freed places are used again, and everything is checked once more.
 * Prints one line. Exit 0 when at least LIMIT_PERCENT are back within a second.
 */
#include "os_pages.h"

#include <poll.h>

#define LIMIT_PERCENT 90.0
#define MAX_THREADS 8
#define MAX_BLOCKS 2000000

enum way { POLL, NANOSLEEP, COND, READ, MAIN, WAYS };

static const char *const way_names[WAYS] = {"poll", "nanosleep", "cond", "read", "main"};

struct set {
	const char *name;
	unsigned threads;
	unsigned count; /* blocks of each thread */
	unsigned keep_one_in;
	size_t (*size)(struct stress_rng *rng);
};

struct worker {
	struct stress_rng rng;
	struct stress_block *blocks;
	uint32_t *order;
	pthread_t thread;
};

static struct worker workers[MAX_THREADS];
static const struct set *set;
static enum way way;
static pthread_barrier_t barrier;
static int wake_pipe[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken_changed = PTHREAD_COND_INITIALIZER;
static bool woken;

static size_t small_size(struct stress_rng *rng)
{
	uint64_t dice = stress_below(rng, 6);
	return dice < 3 ? 512 : dice < 5 ? 1024 : 2048;
}

static size_t mixed_size(struct stress_rng *rng)
{
	return stress_between(rng, STRESS_KIB, 64 * STRESS_KIB);
}

static size_t tiny_size(struct stress_rng *rng)
{
	(void)rng;
	return 64;
}

/* mixed: 3000 blocks of 32.5 KiB on average are 96 MiB */
static const struct set sets[] = {
	{"small", 1, 300000, 20, small_size},
	{"mixed", 1, 3000, 20, mixed_size},
	{"tiny", 1, 2000000, 1000, tiny_size},
	{"threads", 8, 375, 20, mixed_size},
};

/* The tag of a kept block is odd. */
static bool is_kept(const struct stress_block *block)
{
	return block->tag & 1;
}

static void fill_block(struct worker *w, struct stress_block *block)
{
	block->p = malloc(block->size);
	if (!block->p)
		stress_fail("out of memory");
	block->tag = stress_random(&w->rng) * 2 + (stress_below(&w->rng, set->keep_one_in) == 0);
	stress_fill(block);
}

static void shuffle(struct worker *w)
{
	for (uint32_t i = 0; i < set->count; i++)
		w->order[i] = i;
	for (uint32_t i = set->count - 1; i > 0; i--) {
		uint32_t k = (uint32_t)stress_below(&w->rng, i + 1), at = w->order[i];
		w->order[i] = w->order[k];
		w->order[k] = at;
	}
}

static void allocate_all(struct worker *w)
{
	shuffle(w);
	for (unsigned i = 0; i < set->count; i++) {
		struct stress_block *block = &w->blocks[i];
		block->size = set->size(&w->rng);
		fill_block(w, block);
		os_pages_note(block->p, block->size, is_kept(block));
	}
}

static void free_most(struct worker *w)
{
	for (unsigned i = 0; i < set->count; i++) {
		struct stress_block *block = &w->blocks[w->order[i]];
		if (is_kept(block))
			continue;
		free(block->p);
		block->p = NULL;
	}
}

static void check_kept(const struct worker *w, const char *when)
{
	for (unsigned i = 0; i < set->count; i++)
		if (w->blocks[i].p)
			stress_check(&w->blocks[i], when);
}

static void use_again(struct worker *w)
{
	check_kept(w, "after the thread was idle");
	for (unsigned i = 0; i < set->count; i++)
		if (!w->blocks[i].p)
			fill_block(w, &w->blocks[i]);
	check_kept(w, "after the freed places were used again");
	for (unsigned i = 0; i < set->count; i++)
		free(w->blocks[w->order[i]].p);
}

/* Blocks until it is woken, in the one call that the run is about. */
static void block_until_woken(void)
{
	struct pollfd readable = {.fd = wake_pipe[0], .events = POLLIN};
	struct timespec long_time = {.tv_sec = 60};
	char byte;
	switch (way) {
	case POLL:
		poll(&readable, 1, -1);
		break;
	case NANOSLEEP:
		nanosleep(&long_time, NULL);
		break;
	case READ:
		if (read(wake_pipe[0], &byte, 1) < 0)
			stress_fail("read: %s", strerror(errno));
		break;
	default:
		pthread_mutex_lock(&lock);
		while (!woken)
			pthread_cond_wait(&woken_changed, &lock);
		pthread_mutex_unlock(&lock);
	}
}

static void do_nothing(int signal_number)
{
	(void)signal_number;
}

static void wake_all(void)
{
	static const char bytes[MAX_THREADS];
	pthread_mutex_lock(&lock);
	woken = true;
	pthread_cond_broadcast(&woken_changed);
	pthread_mutex_unlock(&lock);
	for (unsigned t = 0; way == NANOSLEEP && t < set->threads; t++)
		pthread_kill(workers[t].thread, SIGUSR1);
	if (write(wake_pipe[1], bytes, sizeof(bytes)) < 0)
		stress_fail("write: %s", strerror(errno));
}

static void worker_init(struct worker *w, unsigned index)
{
	w->rng = stress_rng_make(index);
	w->blocks = own_mapping(set->count * sizeof(*w->blocks));
	w->order = own_mapping(set->count * sizeof(*w->order));
}

static void *work(void *arg)
{
	struct worker *w = arg;
	allocate_all(w);
	pthread_barrier_wait(&barrier); /* all blocks are noted */
	pthread_barrier_wait(&barrier); /* the main thread has found the pages */
	free_most(w);
	pthread_barrier_wait(&barrier); /* time runs from here */
	block_until_woken();
	use_again(w);
	return NULL;
}

static double percent(size_t back, size_t whole)
{
	return 100.0 * (double)back / (double)whole;
}

static bool report(size_t whole, size_t back, unsigned ms_to_limit)
{
	char reached[32] = "never";
	if (ms_to_limit)
		snprintf(reached, sizeof(reached), "%u", ms_to_limit);
	printf("scatter-%s-%s whole_free_pages=%zu back=%zu percent=%.1f ms_to_90_percent=%s rss_kib=%zu\n", set->name, way_names[way], whole,
		back, percent(back, whole), reached, stress_rss_anon_kib());
	return percent(back, whole) >= LIMIT_PERCENT;
}

static bool run_threads(void)
{
	pthread_barrier_init(&barrier, NULL, set->threads + 1);
	for (unsigned t = 0; t < set->threads; t++)
		workers[t].thread = stress_thread(work, &workers[t]);
	pthread_barrier_wait(&barrier);
	size_t whole = os_pages_find(), back = 0;
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	unsigned ms_to_limit = 0;
	for (unsigned ms = 50; ms <= 1000; ms += 50) {
		stress_pause_ms(50);
		back = os_pages_back();
		if (!ms_to_limit && percent(back, whole) >= LIMIT_PERCENT)
			ms_to_limit = ms;
	}
	bool enough = report(whole, back, ms_to_limit);
	wake_all();
	for (unsigned t = 0; t < set->threads; t++)
		pthread_join(workers[t].thread, NULL);
	return enough;
}

static bool run_main(void)
{
	struct worker *w = &workers[0];
	allocate_all(w);
	size_t whole = os_pages_find();
	free_most(w);
	poll(NULL, 0, 1000);
	size_t back = os_pages_back();
	bool enough = report(whole, back, percent(back, whole) >= LIMIT_PERCENT ? 1000 : 0);
	use_again(w);
	return enough;
}

static void parse(int argc, char **argv)
{
	const char *set_name = argc > 1 ? argv[1] : "small", *way_name = argc > 2 ? argv[2] : "poll";
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		if (strcmp(set_name, sets[i].name) == 0)
			set = &sets[i];
	for (way = POLL; way < WAYS && strcmp(way_name, way_names[way]) != 0; way++)
		;
	if (!set || way == WAYS || (way == MAIN && set->threads > 1))
		stress_fail("'%s %s' is not SET WAY", set_name, way_name);
}

int main(int argc, char **argv)
{
	stress_name = "scatter";
	alarm(stress_limit_s());
	parse(argc, argv);
	signal(SIGUSR1, do_nothing); /* ends a nanosleep, which no flag restarts */
	if (pipe(wake_pipe))
		stress_fail("pipe: %s", strerror(errno));
	os_pages_start();
	for (unsigned t = 0; t < set->threads; t++)
		worker_init(&workers[t], t);
	return way == MAIN ? !run_main() : !run_threads();
}
