/* SPDX-License-Identifier: MIT */
/*
 * A worker that takes 10 MiB again after each wait. Each round it takes 40 x 256 KiB, writes them, frees them, and waits 250 ms: long
 * enough for two releases. How many minor faults does taking and writing cost it in a round? The first two rounds do not count.
 *
 *   retake WAIT   how it waits: cond, lull_cond or address (waits.h)
 */
#include "waits.h"

#define BUFFERS 40
#define WAIT_MS 250

int main(int argc, char **argv)
{
	static struct pile pile;
	static struct samples faults;
	unsigned rounds = scenario_rounds(16, 6);
	scenario_begin("retake");
	waits_begin(argc == 2 ? argv[1] : "");
	for (unsigned round = 0; round < rounds; round++) {
		uint64_t before = thread_faults();
		pile_fill_count(&pile, BUFFER_BYTES, BUFFERS);
		uint64_t taken = thread_faults() - before;
		pile_free(&pile);
		if (round >= 2)
			samples_add(&faults, taken);
		waits_wait(WAIT_MS * NS_PER_MS);
	}
	printf("retake rounds=%u faults_median=%ju faults_max=%ju\n", faults.count, (uintmax_t)samples_median(&faults),
		(uintmax_t)samples_max(&faults));
	return 0;
}
