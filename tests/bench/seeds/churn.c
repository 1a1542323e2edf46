/* SPDX-License-Identifier: MIT */
/*
 * Free memory between live blocks. A thread takes and writes 150 000 x 512 B, 100 000 x 1 KiB and 50 000 x 2 KiB in mixed order, keeps
 * 1 in 20, frees the rest in random order, and goes quiet. How many of the OS pages that no kept block touches are back with the
 * kernel 250 ms, 1 s and 10 s later?
 *
 *   churn quiet  the thread waits in pthread_cond_wait, with no further call into the allocator
 *   churn calls  it calls lull_thread_idle every 100 ms
 */
#include "../../idle/programs/os_pages.h"
#include "scenario.h"

#define BLOCKS 300000
#define KEEP_ONE_IN 20
#define CALL_MS 100

static void *blocks[BLOCKS];
static bool kept[BLOCKS];
static uint32_t order[BLOCKS];
static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stop_changed = PTHREAD_COND_INITIALIZER;
static bool stop;
static void (*idle_call)(void);

/* Half are 512 B, a third 1 KiB, the rest 2 KiB. */
static size_t size_of(uint32_t number)
{
	return number < 150000 ? 512 : number < 250000 ? 1024 : 2048;
}

static void shuffle(struct stress_rng *rng)
{
	for (uint32_t i = 0; i < BLOCKS; i++)
		order[i] = i;
	for (uint32_t i = BLOCKS - 1; i > 0; i--) {
		uint32_t k = (uint32_t)stress_below(rng, i + 1), at = order[i];
		order[i] = order[k];
		order[k] = at;
	}
}

static void take_all(struct stress_rng *rng)
{
	shuffle(rng);
	for (uint32_t i = 0; i < BLOCKS; i++) {
		uint32_t number = order[i];
		blocks[number] = malloc(size_of(number));
		if (!blocks[number])
			stress_fail("out of memory");
		memset(blocks[number], 0x5a, size_of(number));
		kept[number] = stress_below(rng, KEEP_ONE_IN) == 0;
		os_pages_note(blocks[number], size_of(number), kept[number]);
	}
}

static void free_most(struct stress_rng *rng)
{
	shuffle(rng);
	for (uint32_t i = 0; i < BLOCKS; i++)
		if (!kept[order[i]])
			free(blocks[order[i]]);
}

/* Until the main thread has seen enough; with the call, woken by nothing but time. */
static void go_quiet(void)
{
	pthread_mutex_lock(&lock);
	while (!stop && !idle_call)
		pthread_cond_wait(&stop_changed, &lock);
	while (!stop) {
		pthread_mutex_unlock(&lock);
		idle_call();
		stress_pause_ms(CALL_MS);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
}

static void *work(void *arg)
{
	struct stress_rng rng = stress_rng_make(1);
	(void)arg;
	take_all(&rng);
	pthread_barrier_wait(&barrier); /* all blocks are noted */
	pthread_barrier_wait(&barrier); /* the main thread has found the pages */
	free_most(&rng);
	pthread_barrier_wait(&barrier); /* time runs from here */
	go_quiet();
	return NULL;
}

int main(int argc, char **argv)
{
	scenario_begin("churn");
	if (argc != 2 || (strcmp(argv[1], "quiet") && strcmp(argv[1], "calls")))
		stress_fail("one argument: quiet or calls");
	if (strcmp(argv[1], "calls") == 0)
		*(void **)&idle_call = scenario_need_call("lull_thread_idle");
	pthread_barrier_init(&barrier, NULL, 2);
	os_pages_start();
	pthread_t thread = stress_thread(work, NULL);
	pthread_barrier_wait(&barrier);
	size_t whole = os_pages_find();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	uint64_t quiet_since = now_ns();
	unsigned looks_ms[] = {250, 1000, scenario_rounds(10000, 2000)};
	size_t back[3];
	for (unsigned look = 0; look < 3; look++) {
		sleep_until(quiet_since + looks_ms[look] * NS_PER_MS);
		back[look] = os_pages_back() * 1000 / whole;
	}
	printf("churn whole_free_pages=%zu back_250ms_permille=%zu back_1000ms_permille=%zu back_in_the_end_permille=%zu\n", whole, back[0],
		back[1], back[2]);
	pthread_mutex_lock(&lock);
	stop = true;
	pthread_cond_signal(&stop_changed);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	return 0;
}
