/* SPDX-License-Identifier: MIT */
/*
 * taken maps: singletons that come in huge pages, freed and resized in the worst order; prints how many mappings the process has.
 *
 * taken BLOCK_KIB [WRITTEN_KIB]: memory that went away is taken back. 64 MiB of blocks are written as far as said (all by default), freed,
 * and are gone some time later; then as many are taken and written in the same way. Four rounds, the first on fresh memory, a line each:
 *
 * round N faults F resident_kib R us T: OS pages that were not there when they were written, how much RSS grew, and how long it took
 *
 * Faults are counted by asking, before a block is written, what of it is resident: the kernel's own count (ru_minflt) has what a
 * populating call brings in, too.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define TOTAL ((size_t)64 << 20)
#define OS_PAGE 4096

/* Generous: a busy machine gets there later. */
#define WAIT_MS 20000

static char *block[TOTAL / (8 << 10)];

static long resident_kib(void)
{
	long size, resident;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file == NULL || fscanf(file, "%ld %ld", &size, &resident) != 2)
		exit(2);
	fclose(file);
	return resident * (OS_PAGE / 1024);
}

/* OS pages of the first LEN bytes at ADDR that a write will miss. */
static long missing(const char *addr, size_t len)
{
	static unsigned char there[TOTAL / OS_PAGE + 1];
	uintptr_t from = (uintptr_t)addr & -(uintptr_t)OS_PAGE;
	size_t n = ((uintptr_t)addr + len - from + OS_PAGE - 1) / OS_PAGE;
	long count = 0;

	if (mincore((void *)from, n * OS_PAGE, there) != 0)
		exit(2);
	for (size_t i = 0; i < n; i++)
		count += !(there[i] & 1);
	return count;
}

static long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Returns the faults. */
static long take(size_t n, size_t bytes, size_t written)
{
	long faults = 0;

	for (size_t i = 0; i < n; i++) {
		block[i] = malloc(bytes);
		if (block[i] == NULL)
			exit(2);
		faults += missing(block[i], written);
		for (size_t at = 0; at < written; at += OS_PAGE)
			memset(block[i] + at, 1, 64);
	}
	return faults;
}

static void give(size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(block[i]);
}

/* Until hardly more is resident than before. */
static void wait_until_gone(long before_kib)
{
	struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};

	for (int ms = 0; resident_kib() > before_kib + 1024; ms += 10) {
		if (ms >= WAIT_MS) {
			printf("still %ld KiB after %d ms\n", resident_kib() - before_kib, WAIT_MS);
			exit(1);
		}
		nanosleep(&pause, NULL);
	}
}

/* --- mappings --------------------------------------------------------------------------------------------------------------------- */

static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	int n = 0, c;

	if (file == NULL)
		exit(2);
	while ((c = getc(file)) != EOF)
		n += c == '\n';
	fclose(file);
	return n;
}

#define SINGLE ((size_t)5 << 20)
#define SINGLES 48

/* Every second one goes, every third one shrinks, and others come where they were. */
static int count_mappings(void)
{
	int before = mappings(), most = 0, now;

	for (int round = 0; round < 6; round++) {
		long before_kib = resident_kib();

		for (int i = 0; i < SINGLES; i++)
			memset(block[i] = malloc(SINGLE), 1, SINGLE);
		for (int i = 1; i < SINGLES; i += 2)
			free(block[i]);
		for (int i = 0; i < SINGLES; i += 6)
			block[i] = realloc(block[i], SINGLE / 2 + (size_t)i * 4096);
		wait_until_gone(before_kib + SINGLES / 2 * (long)(SINGLE >> 10));
		for (int i = 1; i < SINGLES; i += 2)
			memset(block[i] = malloc(SINGLE), 1, SINGLE);
		now = mappings();
		most = now > most ? now : most;
		give(SINGLES);
		wait_until_gone(before_kib);
	}
	printf("mappings before %d most %d\n", before, most);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "maps") == 0)
		return count_mappings();
	size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) * 1024 : 0;
	size_t written = argc > 2 ? strtoul(argv[2], NULL, 10) * 1024 : bytes;

	if (bytes < 8 << 10 || bytes > TOTAL || written > bytes)
		return 2;
	size_t n = TOTAL / bytes;
	for (int round = 0; round < 4; round++) {
		long before_kib = resident_kib(), start = now_us();
		long faults = take(n, bytes, written), us = now_us() - start;

		printf("round %d faults %ld resident_kib %ld us %ld\n", round, faults, resident_kib() - before_kib, us);
		fflush(stdout);
		give(n);
		wait_until_gone(before_kib);
	}
	return 0;
}
