/* SPDX-License-Identifier: MIT */
/*
 * Vectors that grow to 64 MiB by a half, by a constant and by doubling, shrink again, and many small ones that grow side by side in
 * four threads so that few can grow where they are. The contents stay: every element is its index and the vector's tag.
 */
#include "../support/stress_util.h"

#define VECTORS 64
#define THREADS 4
#define BIG_BYTES (64 * STRESS_MIB)

struct vector {
	uint64_t *items;
	size_t count;
	uint64_t tag;
};

static uint64_t item(const struct vector *v, size_t at)
{
	return (at + v->tag) * STRESS_GOLDEN;
}

/* Looks at every `stride`-th element and at the last one. */
static void vector_check(const struct vector *v, size_t stride)
{
	for (size_t at = 0; at < v->count; at += stride)
		if (v->items[at] != item(v, at))
			stress_fail("vector %p of %zu items: item %zu wrong", (void *)v->items, v->count, at);
	if (v->count && v->items[v->count - 1] != item(v, v->count - 1))
		stress_fail("vector %p of %zu items: last item wrong", (void *)v->items, v->count);
}

static void vector_resize(struct vector *v, size_t count)
{
	uint64_t *items = stress_realloc(v->items, count * sizeof(*items));
	if (!items)
		stress_fail("out of memory for realloc to %zu bytes", count * sizeof(*items));
	size_t old = v->count;
	v->items = items;
	v->count = count;
	for (size_t at = old; at < count; at++)
		items[at] = item(v, at);
}

static void vector_done(struct vector *v)
{
	stress_free(v->items);
	*v = (struct vector){0};
}

/* 509 is prime: over the steps of one vector the looks fall on different OS pages and offsets. */
static void grow_big(size_t limit_bytes, size_t mul, size_t div, size_t plus)
{
	struct vector v = {.tag = stress_seed + mul};
	size_t limit = limit_bytes / sizeof(*v.items);
	while (v.count < limit) {
		size_t next = v.count * mul / div + plus;
		vector_resize(&v, next < limit ? next : limit);
		vector_check(&v, 509);
	}
	vector_check(&v, 1);
	while (v.count > 16) {
		vector_resize(&v, v.count * 2 / 5);
		vector_check(&v, 509);
	}
	vector_done(&v);
}

static void *grow_many(void *arg)
{
	struct stress_rng rng = stress_rng_make((uintptr_t)arg);
	struct vector vectors[VECTORS] = {0};
	unsigned steps = stress_count(20000);
	for (unsigned i = 0; i < steps; i++) {
		struct vector *v = &vectors[stress_below(&rng, VECTORS)];
		vector_check(v, 1);
		if (v->count > 8192 || stress_below(&rng, 40) == 0)
			vector_done(v);
		else if (v->count && stress_below(&rng, 8) == 0)
			vector_resize(v, 1 + v->count / 2);
		else
			vector_resize(v, v->count + v->count / (1 + stress_below(&rng, 4)) + 1 + stress_below(&rng, 16));
		if (!v->count)
			v->tag = stress_random(&rng);
		if (i % 1000 == 999)
			stress_thread_idle();
	}
	for (unsigned i = 0; i < VECTORS; i++) {
		vector_check(&vectors[i], 1);
		vector_done(&vectors[i]);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	stress_begin(argc, argv, "realloc_grow");
	grow_big(BIG_BYTES, 3, 2, 1);
	grow_big(BIG_BYTES, 2, 1, 1);
	grow_big(BIG_BYTES / 4, 1, 1, 10007);
	for (uintptr_t i = 0; i < THREADS; i++)
		threads[i] = stress_thread(grow_many, (void *)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	dprintf(STDOUT_FILENO, "realloc_grow: contents kept\n");
	return 0;
}
