/* SPDX-License-Identifier: MIT */
/*
 * Threads cancelled inside blocking calls; their clean-up handlers drop blocks and allocate. Three ways for each call: while it
 * blocks; pending when it is made, though it could return at once; and disabled, in which case the call must go on until it is
 * woken.
 * Prints what each way did to each call: the same as without the library.
 */
#include "calls.h"

enum way { BLOCKED, PENDING, DISABLED };

#define KEPT 20

struct victim {
	struct place place;
	enum way way;
	atomic_bool cancelled; /* pending: the request has been made */
	struct block *kept[KEPT];
	bool cleaned, returned;
	long result;
};

static void clean_up(void *arg)
{
	struct victim *v = arg;

	if (!v->returned && v->place.call->finish)
		v->place.call->finish(&v->place);
	for (unsigned i = 0; i < KEPT; i++)
		block_drop(v->kept[i]);
	blocks_churn(50, 1);
	v->kept[0] = block_new(400, 1);
	v->cleaned = true;
}

static void *victim_run(void *arg)
{
	struct victim *v = arg;
	int old;
	sigset_t set = waited_signal();

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	v->place.hole = place_use_memory(v->kept, KEPT);
	pthread_cleanup_push(clean_up, v);
	atomic_store(&v->place.tid, (int)gettid());
	if (v->way == PENDING)
		while (!atomic_load(&v->cancelled))
			sched_yield();
	if (v->way != DISABLED)
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	v->result = v->place.call->block(&v->place);
	v->returned = true;
	atomic_store(&v->place.done, true);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	pthread_testcancel();
	pthread_cleanup_pop(1);
	return NULL;
}

/* What waits in the C library may see that it need not wait before it sees that it is cancelled. */
static bool waits_in_kernel(const struct call *call)
{
	return call->wake == wake_pipe || call->wake == wake_receiver || call->wake == wake_sender || call->wake == wake_acceptor ||
		call->wake == wake_connector || call->wake == wake_msgrcv || call->wake == wake_msgsnd || call->wake == wake_mq_receive ||
		call->wake == wake_mq_send;
}

static bool can_be(const struct call *call, enum way way)
{
	switch (way) {
	case BLOCKED:
		return call->cancels;
	case PENDING:
		return waits_in_kernel(call);
	default:
		return call->wake != NULL;
	}
}

static void finish_place(struct victim *v)
{
	if (v->returned && finishes_always(v->place.call))
		v->place.call->finish(&v->place);
	place_close(&v->place);
}

static void cancel_once(const struct call *call, enum way way)
{
	static const char *const names[] = {"while it blocks", "pending", "disabled"};
	struct victim *v = calloc(1, sizeof(*v));
	pthread_t thread;
	void *result;

	MUST(v);
	place_open(&v->place, call);
	v->way = way;
	MUST(!pthread_create(&thread, NULL, victim_run, v));
	if (way == PENDING)
		call->wake(&v->place);
	else
		place_wait_asleep(&v->place);
	if (way == BLOCKED)
		place_sweep(&v->place);
	/* Its owner sleeps, another drops one of its blocks. */
	if (way == BLOCKED) {
		block_drop(v->kept[KEPT - 1]);
		v->kept[KEPT - 1] = NULL;
	}
	MUST(!pthread_cancel(thread));
	atomic_store(&v->cancelled, true);
	if (way == DISABLED) {
		place_wait_asleep(&v->place);
		call->wake(&v->place);
	}
	MUST(!pthread_join(thread, &result));
	printf("%s, %s: cancelled %d, cleaned %d, returned %d with %ld\n", call->name, names[way], result == PTHREAD_CANCELED, v->cleaned,
		v->returned, v->result);
	block_drop(v->kept[0]);
	finish_place(v);
	free(v);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned r = 0; r < rounds; r++)
		for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			for (enum way way = BLOCKED; way <= DISABLED; way++)
				if (can_be(&calls[i], way))
					cancel_once(&calls[i], way);
	places_must_be_swept();
	return 0;
}
