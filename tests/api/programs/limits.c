/* SPDX-License-Identifier: MIT */
/*
 * Allocation where the kernel says no, or locks memory. One scenario a run (../limits.sh names them):
 *
 *   address-space         RLIMIT_AS is set: 100 MiB, free, fork, then up to the limit and back
 *   commit                vm.overcommit_memory is 2: the charge comes back after a release
 *   locked-first [onfault]  mlockall before the first block: one byte costs a small step, not the reservation
 *   locked-later [onfault]  the same after 100 MiB; and calloc is zero after a release that the lock refused or allowed
 *
 * Exit 0 as it should be, 1 not, 77 this machine cannot show it (the last line says why).
 */
#define STRESS_STANDARD_NAMES 1
#include "../../support/stress_util.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* All that the locked scenarios ever have live at once is 100 MiB, and what cannot be given back is used again. */
#define LOCKED_MOST_KIB (256 * 1024)

/* One byte may cost its page of blocks, metadata, and what a heap takes in advance; a filled reservation is GiB. */
#define SMALL_STEP_KIB 4096

/* MADV_DONTNEED_LOCKED (5.18), newer than some headers */
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

static size_t start_kib; /* resident at the start of main */

/* A chain of blocks: each begins with the address of the one before, so that the test needs no memory of its own. */
struct link {
	struct link *before;
	size_t size;
};

__attribute__((noreturn)) static void skip(const char *why)
{
	dprintf(STDOUT_FILENO, "%s\n", why);
	exit(77);
}

static struct link *chain_add(struct link *last, size_t size)
{
	struct link *link = malloc(size);
	if (!link)
		return NULL;
	*link = (struct link){.before = last, .size = size};
	return link;
}

static void chain_free(struct link *last)
{
	while (last) {
		struct link *before = last->before;
		free(last);
		last = before;
	}
}

/* TOTAL bytes in blocks of mixed sizes, all written. */
static struct link *chain_mixed(size_t total, struct stress_rng *rng)
{
	struct link *last = NULL;
	for (size_t sum = 0; sum < total;) {
		size_t size = sizeof(struct link) + stress_size(rng);
		struct link *link = chain_add(last, size);
		if (!link)
			stress_fail("out of memory after %zu of %zu KiB", sum / 1024, total / 1024);
		memset(link + 1, 0x5a, size - sizeof(*link));
		sum += size;
		last = link;
	}
	return last;
}

/* Blocks of SIZE until malloc refuses: it must say ENOMEM. Returns the bytes that fitted. */
static size_t until_refused(size_t size, struct link **last)
{
	size_t sum = 0;
	for (;;) {
		errno = 0;
		struct link *link = chain_add(*last, size);
		if (!link)
			break;
		*last = link;
		sum += size;
	}
	if (errno != ENOMEM)
		stress_fail("malloc of %zu bytes refused with errno %d, not ENOMEM", size, errno);
	return sum;
}

static void child_works(size_t bytes)
{
	pid_t pid = fork();
	if (pid < 0)
		stress_fail("fork: %s", strerror(errno));
	if (pid == 0) {
		struct stress_rng rng = stress_rng_make(9);
		alarm(60);
		chain_free(chain_mixed(bytes, &rng));
		_exit(0);
	}
	int status;
	if (waitpid(pid, &status, 0) != pid || status)
		stress_fail("the child ended with status 0x%x", status);
}

static void address_space(void)
{
	struct rlimit limit;
	struct stress_rng rng = stress_rng_make(1);
	getrlimit(RLIMIT_AS, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		skip("no RLIMIT_AS is set");
	for (int round = 0; round < 3; round++) {
		chain_free(chain_mixed(100 * STRESS_MIB, &rng));
		malloc_trim(0);
	}
	child_works(20 * STRESS_MIB);
	struct link *large = NULL, *mixed = NULL, *small = NULL;
	size_t fitted = until_refused(STRESS_MIB, &large);
	if (fitted < limit.rlim_cur / 2)
		stress_fail("only %zu of %zu MiB of address space could be used", fitted / STRESS_MIB, (size_t)limit.rlim_cur / STRESS_MIB);
	size_t rest = until_refused(100 * STRESS_KIB, &mixed);
	rest += until_refused(20 * STRESS_KIB, &mixed);
	rest += until_refused(1000, &small);
	void *p = malloc(100);
	void *q = realloc(p, 2 * STRESS_MIB);
	bool refused = !q && errno == ENOMEM;
	free(q ? q : p);
	chain_free(large);
	chain_free(mixed);
	chain_free(small);
	chain_free(chain_mixed(50 * STRESS_MIB, &rng));
	child_works(20 * STRESS_MIB);
	dprintf(STDOUT_FILENO, "address-space: limit_mib=%zu large_mib=%zu rest_kib=%zu realloc_at_limit=%s\n",
		(size_t)limit.rlim_cur / STRESS_MIB, fitted / STRESS_MIB, rest / 1024, refused ? "refused" : "fitted");
}

/* One number from a file of /proc; KEY is what stands before it ("" for the first). */
static size_t proc_number(const char *path, const char *key)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		stress_fail("read %s: %s", path, strerror(errno));
	close(fd);
	text[n] = 0;
	const char *at = strstr(text, key);
	return at ? strtoul(at + strlen(key), NULL, 10) : 0;
}

static size_t committed_kib(void)
{
	return proc_number("/proc/meminfo", "Committed_AS:");
}

static void commit(void)
{
	if (proc_number("/proc/sys/vm/overcommit_memory", "") != 2)
		skip("vm.overcommit_memory is not 2 here");
	struct stress_rng rng = stress_rng_make(1);
	size_t before = committed_kib();
	struct link *chain = chain_mixed(100 * STRESS_MIB, &rng);
	size_t peak = committed_kib();
	child_works(STRESS_MIB);
	chain_free(chain);
	malloc_trim(0);
	size_t after = committed_kib();
	dprintf(STDOUT_FILENO, "commit: before_kib=%zu peak_kib=%zu after_kib=%zu\n", before, peak, after);
	if (after > before + 16 * 1024)
		stress_fail("%zu KiB stay charged after everything was freed", after - before);
}

static void lock_all(int flags)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE | flags) == 0)
		return;
	if (errno == EPERM || errno == ENOMEM)
		skip("mlockall: needs CAP_IPC_LOCK, or a larger RLIMIT_MEMLOCK");
	if (errno == EINVAL)
		skip("mlockall: this kernel has no MCL_ONFAULT");
	stress_fail("mlockall: %s", strerror(errno));
}

static void one_byte_costs_a_small_step(void)
{
	size_t before = stress_rss_anon_kib();
	char *volatile p = malloc(1);
	*p = 1;
	size_t after = stress_rss_anon_kib();
	dprintf(STDOUT_FILENO, "locked: one_byte_kib=%zd\n", (ssize_t)(after - before));
	if (after > before + SMALL_STEP_KIB)
		stress_fail("one byte made %zu KiB resident", after - before);
	free(p);
}

/* Fills COUNT blocks with 0xAA, frees most of them, releases, and takes them again with calloc. */
static void zero_after_release(size_t size, unsigned count)
{
	static unsigned char *blocks[20000];
	for (unsigned i = 0; i < count; i++) {
		blocks[i] = malloc(size);
		memset(blocks[i], 0xaa, size);
	}
	for (unsigned i = 0; i < count; i++)
		if (i % 10)
			free(blocks[i]);
	malloc_trim(0);
	for (unsigned i = 0; i < count; i++) {
		if (i % 10) {
			blocks[i] = calloc(1, size);
			stress_check_zero(blocks[i], size);
			continue;
		}
		for (size_t at = 0; at < size; at++)
			if (blocks[i][at] != 0xaa)
				stress_fail("kept block of %zu bytes wrong at %zu after a release under a lock", size, at);
	}
	for (unsigned i = 0; i < count; i++)
		free(blocks[i]);
	if (stress_rss_anon_kib() > start_kib + LOCKED_MOST_KIB)
		stress_fail("%zu KiB resident: more than was ever asked for", stress_rss_anon_kib());
}

static bool has_dontneed_locked(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool has = p != MAP_FAILED && madvise(p, 4096, MADV_DONTNEED_LOCKED) == 0;
	munmap(p, 4096);
	return has;
}

static void zeros_under_lock(bool onfault)
{
	zero_after_release(64, 20000);
	zero_after_release(1000, 4000);
	zero_after_release(5000, 1000);
	zero_after_release(20000, 300);
	zero_after_release(200000, 40);
	zero_after_release(3 * STRESS_MIB, 4);
	struct stress_rng rng = stress_rng_make(3);
	chain_free(chain_mixed(32 * STRESS_MIB, &rng));
	size_t peak = stress_rss_anon_kib();
	int code = malloc_trim(0);
	size_t after = stress_rss_anon_kib();
	dprintf(STDOUT_FILENO, "locked: start_kib=%zu freed_kib=%zu trimmed_kib=%zu trim_returns=%d\n", start_kib, peak, after, code);
	if (peak > start_kib + LOCKED_MOST_KIB)
		stress_fail("%zu KiB resident: more than was ever asked for", peak);
	if (onfault && has_dontneed_locked() && after > start_kib + 8 * 1024)
		stress_fail("under MCL_ONFAULT %zu KiB stay after everything was freed and trimmed", after - start_kib);
}

static void locked_first(bool onfault)
{
	lock_all(onfault ? MCL_ONFAULT : 0);
	one_byte_costs_a_small_step();
	zeros_under_lock(onfault);
}

static void locked_later(bool onfault)
{
	struct stress_rng rng = stress_rng_make(2);
	struct link *chain = chain_mixed(100 * STRESS_MIB, &rng);
	lock_all(onfault ? MCL_ONFAULT : 0);
	one_byte_costs_a_small_step();
	chain_free(chain);
	one_byte_costs_a_small_step();
	zeros_under_lock(onfault);
}

int main(int argc, char **argv)
{
	const char *scenario = argc > 1 ? argv[1] : "";
	bool onfault = argc > 2 && strcmp(argv[2], "onfault") == 0;
	stress_name = "limits";
	alarm(stress_limit_s());
	start_kib = stress_rss_anon_kib();
	if (strcmp(scenario, "address-space") == 0)
		address_space();
	else if (strcmp(scenario, "commit") == 0)
		commit();
	else if (strcmp(scenario, "locked-first") == 0)
		locked_first(onfault);
	else if (strcmp(scenario, "locked-later") == 0)
		locked_later(onfault);
	else
		stress_fail("'%s' is not one of: address-space commit locked-first locked-later", scenario);
	return 0;
}
