/* SPDX-License-Identifier: MIT */
/*
 * Suite ring: whose it is, when it is opened and closed, and what a refusal means. The ring is the fake kernel's, the clock is moved by
 * hand; what the fake forbids aborts.
 */
#include "kernel/ring.h"

#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/flight.h"
#include "kernel/kernel.h"
#include "support/fake_kernel.h"
#include "support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#define ADDR ((char *)0x100000000)
#define SECOND UINT64_C(1000000000)

static void begin(void)
{
	caps_has(CAPS_URING_MADVISE);
	fake_kernel_install();
	fake_kernel_dry();
	fake_clock_set(1000 * SECOND);
	ring_own();
}

static size_t submit(size_t n)
{
	struct ring_request request[RING_ENTRIES];

	for (size_t i = 0; i < n; i++)
		request[i] = (struct ring_request){.addr = ADDR + i * MIB, .len = MIB, .first = (uint32_t)i, .n = 1};
	return ring_submit(request, n, MADV_DONTNEED);
}

START_TEST(test_it_is_opened_when_it_is_needed_and_once)
{
	begin();
	ck_assert(ring_is_mine());
	ck_assert(!fake_ring_is_open());
	ck_assert_uint_eq(ring_rest(), UINT64_MAX);
	ck_assert(ring_ready());
	ck_assert(ring_ready());
	ck_assert_uint_eq(fake_calls(FAKE_RING_OPEN), 1);
	ring_disown();
	ck_assert(!fake_ring_is_open());
	ck_assert(!ring_ready());
	ck_assert_uint_eq(fake_calls(FAKE_RING_OPEN), 1);
}
END_TEST

START_TEST(test_it_is_closed_when_it_was_not_used_for_a_while)
{
	begin();
	ck_assert(ring_ready());
	ck_assert_uint_eq(ring_rest(), RING_REST_NS);
	fake_clock_add(RING_REST_NS - 1);
	ck_assert_uint_eq(ring_rest(), 1);
	struct ring_request request;
	submit(1);
	ck_assert_int_eq(ring_answer(&request, 1), 0);
	ck_assert_uint_eq(ring_rest(), RING_REST_NS); /* used */
	fake_clock_add(RING_REST_NS);
	ck_assert_uint_eq(ring_rest(), UINT64_MAX);
	ck_assert(!fake_ring_is_open());
	ck_assert_uint_eq(fake_calls(FAKE_RING_CLOSE), 1);
	ck_assert(ring_ready());
	ck_assert_uint_eq(fake_calls(FAKE_RING_OPEN), 2);
	ck_assert(ring_is_possible());
}
END_TEST

static void *use_as_other(void *unused)
{
	ck_assert(!ring_is_mine());
	ck_assert(!ring_ready());
	fake_clock_add(2 * RING_REST_NS);
	ck_assert_uint_eq(ring_rest(), UINT64_MAX);
	return unused;
}

START_TEST(test_no_other_thread_uses_or_closes_it)
{
	pthread_t thread;

	begin();
	ck_assert(ring_ready());
	ck_assert_int_eq(pthread_create(&thread, NULL, use_as_other, NULL), 0);
	pthread_join(thread, NULL);
	ck_assert(fake_ring_is_open());
	ck_assert_uint_eq(ring_rest(), UINT64_MAX);
	ck_assert(!fake_ring_is_open());
}
END_TEST

START_TEST(test_each_answer_is_of_its_request)
{
	bool seen[RING_ENTRIES] = {false};

	begin();
	fake_ring_reverse(_i & 1);
	ck_assert(ring_ready());
	ck_assert_uint_eq(submit(40), 40);
	for (size_t left = 40; left > 20; left--) {
		struct ring_request request;
		ck_assert_int_eq(ring_answer(&request, 1), 0);
		ck_assert_ptr_eq(request.addr, ADDR + request.first * MIB);
		ck_assert(!seen[request.first]);
		seen[request.first] = true;
	}
	ck_assert_uint_eq(ring_in_flight(), 20);
	ck_assert_uint_eq(submit(RING_ENTRIES - 20), RING_ENTRIES - 20); /* the places of those answered are free */
	ck_assert_uint_eq(ring_in_flight(), RING_ENTRIES);
	for (size_t left = RING_ENTRIES; left > 0; left--) {
		struct ring_request request;
		ck_assert_int_eq(ring_answer(&request, left), 0);
	}
	ck_assert_uint_eq(ring_in_flight(), 0);
}
END_TEST

START_TEST(test_what_was_not_taken_is_not_in_flight)
{
	begin();
	ck_assert(ring_ready());
	fake_ring_short(3);
	ck_assert_uint_eq(submit(10), 3);
	ck_assert_uint_eq(ring_in_flight(), 3);
	fake_refuse(FAKE_RING_SUBMIT, 1, EAGAIN);
	ck_assert_uint_eq(submit(5), 0);
	ck_assert_uint_eq(ring_in_flight(), 3);
	ck_assert(!ring_ready()); /* for now */
	ck_assert(ring_is_possible());
	for (int i = 0; i < 3; i++) {
		struct ring_request request;
		ck_assert_int_eq(ring_answer(&request, 1), 0);
	}
	fake_clock_add(RING_REST_NS);
	ck_assert(ring_ready());
}
END_TEST

static const int passing[] = {EMFILE, ENFILE, ENOMEM, EAGAIN};

START_TEST(test_what_is_lacking_now_is_asked_for_again_later)
{
	begin();
	fake_refuse_all(FAKE_RING_OPEN, passing[_i]);
	ck_assert(!ring_ready());
	ck_assert(!ring_ready());
	ck_assert_uint_eq(fake_calls(FAKE_RING_OPEN), 1);
	fake_refuse_all(FAKE_RING_OPEN, 0);
	fake_clock_add(RING_REST_NS);
	ck_assert(ring_ready());
}
END_TEST

static const int lasting[] = {EPERM, ENOSYS, EINVAL, EACCES};

START_TEST(test_what_is_refused_is_not_asked_for_again)
{
	begin();
	fake_refuse_all(FAKE_RING_OPEN, lasting[_i]);
	ck_assert(!ring_ready());
	fake_refuse_all(FAKE_RING_OPEN, 0);
	fake_clock_add(100 * RING_REST_NS);
	ck_assert(!ring_ready());
	ck_assert_uint_eq(fake_calls(FAKE_RING_OPEN), 1);
	ck_assert(!ring_is_possible());
}
END_TEST

START_TEST(test_switched_off_it_is_not_opened)
{
	begin();
	caps_force_off(_i ? CAPS_URING : CAPS_URING_MADVISE);
	ck_assert(!ring_ready());
	ck_assert(!ring_is_possible());
	ck_assert_uint_eq(fake_calls(FAKE_RING_OPEN), 0);
}
END_TEST

/* As in the child of a fork: nothing of it is there, not even to be closed. */
START_TEST(test_forgotten_it_is_touched_no_more)
{
	begin();
	ck_assert(ring_ready());
	flight_forget();
	ck_assert(!ring_is_mine());
	ck_assert_uint_eq(advise_finish(), 0);
	ring_disown();
	ck_assert_uint_eq(fake_calls(FAKE_RING_CLOSE), 0);
	fake_kernel_install();
	ring_own();
	ck_assert(ring_ready());
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("ring");
	TCase *life = tcase_create("opening and closing"), *work = tcase_create("requests"), *refused = tcase_create("refusals");

	tcase_add_test(life, test_it_is_opened_when_it_is_needed_and_once);
	tcase_add_test(life, test_it_is_closed_when_it_was_not_used_for_a_while);
	tcase_add_test(life, test_no_other_thread_uses_or_closes_it);
	tcase_add_test(life, test_forgotten_it_is_touched_no_more);
	tcase_add_loop_test(work, test_each_answer_is_of_its_request, 0, 2);
	tcase_add_test(work, test_what_was_not_taken_is_not_in_flight);
	tcase_add_loop_test(refused, test_what_is_lacking_now_is_asked_for_again_later, 0, array_len(passing));
	tcase_add_loop_test(refused, test_what_is_refused_is_not_asked_for_again, 0, array_len(lasting));
	tcase_add_loop_test(refused, test_switched_off_it_is_not_opened, 0, 2);
	suite_add_tcase(suite, life);
	suite_add_tcase(suite, work);
	suite_add_tcase(suite, refused);
	if (!caps_has(CAPS_URING_MADVISE)) {
		puts("io_uring with MADVISE and registered rings (uring_madvise)");
		return 77;
	}
	return unit_run(suite);
}
