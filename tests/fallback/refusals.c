/* SPDX-License-Identifier: MIT */
/*
 * Each kernel call refused in turn: a program that allocates, resizes, frees and gives back in every way is run again and again, and
 * each time another call fails: the n-th of its kind once, or every one from the n-th on, for n over the whole run. What was allocated
 * stays byte for byte, calloc gives zeros, a refused realloc leaves the block, and after a single refusal memory is to be had again.
 *
 * Each run is a process of its own. Errors are those the kernel gives for such calls. STRESS_SCALE thins out n. time limit: 240 s
 */
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/kernel.h"
#include "support/fact.h"
#include "support/stress_util.h"

#include <sys/wait.h>

/* Calls are of one kind when one refusal among them has one meaning. */
enum kind { MAP, UNMAP, PROTECT, RETURN, POPULATE, ADVISE, RESIDENT, VECTOR, RING_OPEN, RING_SUBMIT, RING_ANSWER, SLEEP, KINDS };

static const struct {
	const char *name;
	int errs[3];
} kinds[KINDS] = {
	[MAP] = {"mmap", {ENOMEM, EPERM, EAGAIN}},
	[UNMAP] = {"munmap", {ENOMEM, EINVAL, EPERM}},
	[PROTECT] = {"mprotect", {ENOMEM, EACCES, EPERM}},
	[RETURN] = {"madvise(MADV_DONTNEED)", {EINVAL, ENOMEM, EPERM}},
	[POPULATE] = {"madvise(MADV_POPULATE_WRITE)", {ENOMEM, EINVAL, EFAULT}},
	[ADVISE] = {"madvise, others", {EINVAL, ENOSYS, EPERM}},
	[RESIDENT] = {"mincore", {ENOMEM, EPERM, ENOSYS}},
	[VECTOR] = {"process_madvise", {EPERM, EINVAL, ENOSYS}},
	[RING_OPEN] = {"io_uring_setup", {ENOMEM, EPERM, ENOSYS}},
	[RING_SUBMIT] = {"io_uring_enter", {EAGAIN, EBUSY, EPERM}},
	[RING_ANSWER] = {"answers of io_uring", {ECANCELED, EINVAL, ENOMEM}},
	[SLEEP] = {"futex_wait", {EINTR, EAGAIN, ETIMEDOUT}},
};

/* Threads beside the first, and the way that is forced on returns (-1: none). */
struct form {
	const char *name;
	unsigned threads;
	int way;
	unsigned naps_ms; /* given to the background thread, which alone has a ring */
};

static const struct form forms[] = {
	{"one thread", 0, -1, 0},
	{"one thread, madvise", 0, ADVISE_LOOP, 0},
	{"three threads", 2, -1, 0},
	{"one thread, io_uring", 0, ADVISE_URING, 150},
};

#define FORMS array_len(forms)

/* ---- the table in front of the kernel ---- */

static struct kernel real;
static struct {
	enum kind kind;
	unsigned from, to; /* the calls that fail, counted from 1; from 0: none */
	int err;
} order;
static atomic_uint calls[KINDS];
static atomic_uint refused;

static int enter(enum kind kind)
{
	unsigned nth = atomic_fetch_add(&calls[kind], 1) + 1;

	if (kind != order.kind || order.from == 0 || nth < order.from || nth > order.to)
		return 0;
	atomic_fetch_add(&refused, 1);
	return -order.err;
}

static intptr_t refusing_mmap(void *addr, size_t len, int prot, int flags)
{
	int err = enter(MAP);

	return err ? err : real.mmap(addr, len, prot, flags);
}

static int refusing_munmap(void *addr, size_t len)
{
	int err = enter(UNMAP);

	return err ? err : real.munmap(addr, len);
}

static int refusing_mprotect(void *addr, size_t len, int prot)
{
	int err = enter(PROTECT);

	return err ? err : real.mprotect(addr, len, prot);
}

static enum kind kind_of(int advice)
{
	switch (advice) {
	case MADV_DONTNEED:
		return RETURN;
	case 23: /* MADV_POPULATE_WRITE */
		return POPULATE;
	default:
		return ADVISE;
	}
}

static int refusing_madvise(void *addr, size_t len, int advice)
{
	int err = enter(kind_of(advice));

	return err ? err : real.madvise(addr, len, advice);
}

static int refusing_mincore(void *addr, size_t len, unsigned char *vec)
{
	int err = enter(RESIDENT);

	return err ? err : real.mincore(addr, len, vec);
}

static ssize_t refusing_process_madvise(const struct iovec *vec, size_t n, int advice)
{
	int err = enter(VECTOR);

	return err ? err : real.process_madvise(vec, n, advice);
}

static int refusing_ring_open(unsigned entries, unsigned workers_max)
{
	int err = enter(RING_OPEN);

	return err ? err : real.ring_open(entries, workers_max);
}

static ssize_t refusing_ring_submit(const struct kernel_request *request, size_t n, int advice)
{
	int err = enter(RING_SUBMIT);

	return err ? err : real.ring_submit(request, n, advice);
}

/* The work was done; lull must take it for not done all the same. */
static struct kernel_answer refusing_ring_wait(unsigned expected)
{
	struct kernel_answer answer = real.ring_wait(expected);
	int err = enter(RING_ANSWER);

	if (err)
		answer.result = err;
	return answer;
}

static int refusing_futex_wait(const void *word, uint32_t expected, uint64_t timeout_ns)
{
	int err = enter(SLEEP);

	return err ? err : real.futex_wait(word, expected, timeout_ns);
}

static void take_table(void)
{
	real = kernel;
	kernel.mmap = refusing_mmap;
	kernel.munmap = refusing_munmap;
	kernel.mprotect = refusing_mprotect;
	kernel.madvise = refusing_madvise;
	kernel.mincore = refusing_mincore;
	kernel.process_madvise = refusing_process_madvise;
	kernel.ring_open = refusing_ring_open;
	kernel.ring_submit = refusing_ring_submit;
	kernel.ring_wait = refusing_ring_wait;
	kernel.futex_wait = refusing_futex_wait;
}

/* ---- the program ---- */

#define BLOCKS 64
#define ROUNDS 3

static struct stress_block *_Atomic box;

/* May give nothing while calls are refused; after a single refusal the next try must succeed. */
static void *insist(void *(*get)(void *arg), void *arg)
{
	void *p = get(arg);

	if (p == NULL)
		p = get(arg);
	if (p == NULL && order.from == order.to)
		stress_fail("no memory after a single refusal");
	return p;
}

struct wish {
	struct stress_block *block;
	size_t size;
	unsigned way;
};

static void *zeroed(size_t size)
{
	unsigned char *p = stress_calloc(1, size);

	if (p)
		stress_check_zero(p, size);
	return p;
}

static void *fulfil(void *arg)
{
	const struct wish *wish = arg;

	switch (wish->way) {
	case 1:
		return stress_aligned_alloc(4096, wish->size);
	case 2:
		return stress_realloc(wish->block->p, wish->size);
	case 3:
		return stress_malloc(wish->size);
	default:
		return zeroed(wish->size);
	}
}

/* Half of the blocks are of few sizes, mostly of those whose memory calloc takes for zero once it went: a place that was freed and not
 * given back is asked for again. */
static size_t pick_size(struct stress_rng *rng)
{
	static const size_t often[] = {3000, 12000, 20000, 50000, 100000, 150000, 300000};

	return stress_below(rng, 2) ? stress_size(rng) : often[stress_below(rng, array_len(often))];
}

static void make(struct stress_block *block, struct stress_rng *rng)
{
	struct wish wish = {.block = block, .size = pick_size(rng), .way = (unsigned)stress_below(rng, 6)};
	void *p = insist(fulfil, &wish);

	block->p = NULL;
	if (p)
		stress_block_adopt(block, p, wish.size, wish.way == 1 ? 4096 : 16, rng);
}

/* A block that was not resized is as it was. */
static void resize(struct stress_block *block, struct stress_rng *rng)
{
	struct wish wish = {.block = block, .size = pick_size(rng), .way = 2};
	uintptr_t base = (uintptr_t)block->p;
	void *p;

	stress_check(block, "before realloc");
	p = insist(fulfil, &wish);
	if (p == NULL) {
		stress_check(block, "after a refused realloc");
		return;
	}
	stress_check_moved(p, min_size(wish.size, block->size), base, block->tag, "after realloc");
	stress_block_adopt(block, p, wish.size, 16, rng);
}

/* Only the background thread has a ring, and uses it for heaps that are parked. */
static void give_back(struct stress_rng *rng, unsigned naps_ms)
{
	if (naps_ms) {
		lull_thread_idle_start();
		stress_pause_ms(naps_ms);
		lull_thread_idle_end();
		return;
	}
	stress_thread_idle();
	stress_collect(stress_below(rng, 2));
}

static void play(unsigned stream, unsigned naps_ms)
{
	static _Thread_local struct stress_block blocks[BLOCKS];
	struct stress_rng rng = stress_rng_make(stream);
	struct stress_block *passed = malloc(sizeof(*passed));

	*passed = (struct stress_block){0};
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < BLOCKS; i++)
			if (!blocks[i].p)
				make(&blocks[i], &rng);
			else if (stress_below(&rng, 4) == 0)
				resize(&blocks[i], &rng);
		/* one block a round changes threads, and is freed by whoever gets it */
		if (passed->p)
			stress_block_free(passed);
		*passed = blocks[round];
		blocks[round].p = NULL;
		passed = stress_box_swap(&box, passed);
		if (!passed)
			passed = calloc(1, sizeof(*passed));
		for (unsigned i = 0; i < BLOCKS; i++)
			if (blocks[i].p && stress_below(&rng, 8))
				stress_block_free(&blocks[i]);
		give_back(&rng, naps_ms);
		for (unsigned i = 0; i < BLOCKS; i++)
			if (blocks[i].p)
				stress_check(&blocks[i], "after memory was given back");
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		if (blocks[i].p)
			stress_block_free(&blocks[i]);
	if (passed->p)
		stress_block_free(passed);
	free(passed);
	stress_collect(true);
}

static void *other_thread(void *arg)
{
	play((unsigned)(uintptr_t)arg, 0);
	return NULL;
}

static void run(const struct form *form)
{
	pthread_t threads[4];

	take_table();
	if (form->way >= 0)
		advise_set_way((enum advise_way)form->way);
	for (unsigned i = 0; i < form->threads; i++)
		threads[i] = stress_thread(other_thread, (void *)(uintptr_t)(i + 1));
	play(0, form->naps_ms);
	for (unsigned i = 0; i < form->threads; i++)
		pthread_join(threads[i], NULL);
}

/* ---- runs ---- */

/* In a child: what it counted comes back through the pipe. */
static void run_in_child(const struct form *form, unsigned counted[KINDS + 1])
{
	int ends[2], status;
	pid_t pid;

	fact(pipe(ends) == 0, "a pipe");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		signal(SIGALRM, SIG_DFL);
		alarm(60);
		run(form);
		for (int kind = 0; kind < KINDS; kind++)
			counted[kind] = atomic_load(&calls[kind]);
		counted[KINDS] = atomic_load(&refused);
		_exit(write(ends[1], counted, (KINDS + 1) * sizeof(counted[0])) > 0 ? 0 : 1);
	}
	close(ends[1]);
	fact(waitpid(pid, &status, 0) == pid, "the child is waited for");
	if (status != 0) {
		printf("%s: status 0x%x when %s %u to %u fails with %s\n", form->name, (unsigned)status,
			order.from ? kinds[order.kind].name : "nothing", order.from, order.to, strerror(order.err));
		exit(1);
	}
	fact(read(ends[0], counted, (KINDS + 1) * sizeof(counted[0])) == (ssize_t)((KINDS + 1) * sizeof(counted[0])), "the counts");
	close(ends[0]);
}

/* Threads race, so that a run may make fewer calls than the one before. */
static unsigned refuse_each(const struct form *form, enum kind kind, unsigned n)
{
	unsigned points = min_size(n, stress_count(form->naps_ms ? 6 : 32)), runs = 0;
	unsigned counted[KINDS + 1];

	for (unsigned i = 0; i < points; i++) {
		unsigned nth = 1 + (unsigned)((uint64_t)i * n / points);

		for (int for_good = 0; for_good < 2; for_good++) {
			order.kind = kind;
			order.from = nth;
			order.to = for_good ? ~0u : nth;
			order.err = kinds[kind].errs[i % array_len(kinds[kind].errs)];
			run_in_child(form, counted);
			runs += counted[KINDS] > 0;
		}
	}
	return runs;
}

static void refuse_all(const struct form *form)
{
	unsigned counted[KINDS + 1];

	order.from = order.to = 0;
	run_in_child(form, counted);
	if (form->way == ADVISE_URING && caps_has(CAPS_URING_MADVISE))
		fact(counted[RING_ANSWER] > 0, "the ring is used where it is forced");
	for (int kind = 0; kind < KINDS; kind++) {
		bool of_ring = kind == RING_OPEN || kind == RING_SUBMIT || kind == RING_ANSWER;
		unsigned runs;

		/* the slow form is there for the ring */
		if (counted[kind] == 0 || of_ring != (form->naps_ms > 0))
			continue;
		runs = refuse_each(form, (enum kind)kind, counted[kind]);
		printf("%s: %s, %u calls, refused in %u runs\n", form->name, kinds[kind].name, counted[kind], runs);
		fact(runs > 0, "a call was refused");
	}
}

int main(int argc, char **argv)
{
	stress_begin(argc, argv, "refusals");
	for (size_t i = 0; i < FORMS; i++)
		refuse_all(&forms[i]);
	return 0;
}
