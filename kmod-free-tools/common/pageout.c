/* SPDX-License-Identifier: MIT */
/*
 * The image is the tail of a private copy of this command, made for one run, executed by it, and without a name as soon as it is open:
 * MADV_PAGEOUT skips pages that another process maps, only the owner of a file may page it out, and what an earlier run left of a file in
 * the page cache, in larger or smaller pieces, would change what the next one finds.
 */
#include "common/pageout.h"

#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND "measure pageout"
/* 21 requests take a second; a run that needs this much more than its pause hangs. */
#define RUN_LIMIT_MS (120 * 1000)

struct image {
	int fd;          /* to execute */
	uint64_t offset; /* of the image behind the command */
};

/* ---- the copy ---- */

static bool write_whole(int fd, const void *bytes, size_t len)
{
	for (ssize_t n; len > 0; len -= (size_t)n, bytes = (const char *)bytes + n) {
		n = write(fd, bytes, len);
		if (n < 0)
			return false;
	}
	return true;
}

/* Returns the length, or 0 with errno set. */
static uint64_t copy_command(int to)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	static char chunk[64 * KIB];
	uint64_t sum = 0;
	ssize_t n = -1;

	while (from >= 0 && (n = read(from, chunk, sizeof(chunk))) > 0 && write_whole(to, chunk, (size_t)n))
		sum += (uint64_t)n;
	if (from >= 0)
		close(from);
	return n == 0 ? sum : 0;
}

/* Bytes that no file system compresses or shares. */
static bool append_image(int fd, uint64_t bytes)
{
	static uint64_t chunk[MIB / sizeof(uint64_t)];
	struct random random = {.state = 1};

	for (uint64_t sum = 0; sum < bytes; sum += sizeof(chunk)) {
		for (size_t i = 0; i < array_len(chunk); i++)
			chunk[i] = random_next(&random);
		if (!write_whole(fd, chunk, sizeof(chunk)))
			return false;
	}
	return true;
}

/* Written back to the disk, too: dirty pages are not dropped. */
static bool fill_copy(int fd, uint64_t bytes, uint64_t *ret_offset)
{
	uint64_t offset = copy_command(fd);

	if (offset == 0)
		return false;
	offset = (offset + OS_PAGE_SIZE - 1) / OS_PAGE_SIZE * OS_PAGE_SIZE;
	*ret_offset = offset;
	return lseek(fd, (off_t)offset, SEEK_SET) >= 0 && append_image(fd, bytes) && fchmod(fd, S_IRWXU) == 0 && fsync(fd) == 0;
}

static enum tool_exit check_folder(const char *dir)
{
	struct statfs kind;
	struct statvfs flags;

	if (statfs(dir, &kind) != 0 || statvfs(dir, &flags) != 0) {
		say(COMMAND, "cannot use the folder '%s': %s", dir, strerror(errno));
		return TOOL_CANNOT;
	}
	if (kind.f_type == TMPFS_MAGIC || kind.f_type == RAMFS_MAGIC) {
		say(COMMAND, "'%s' is in memory (tmpfs): its files cannot be dropped and read again; name a folder on a disk: --dir DIR", dir);
		return TOOL_KERNEL;
	}
	if ((flags.f_flag & ST_NOEXEC) != 0) {
		say(COMMAND, "'%s' is mounted noexec, and the image is a program; name another folder: --dir DIR", dir);
		return TOOL_CANNOT;
	}
	return TOOL_OK;
}

/* A file that is open for writing cannot be executed, so it is opened a second time and its name taken away at once. */
static enum tool_exit make_image(const struct pageout_plan *plan, struct image *ret)
{
	char path[PATH_MAX];
	enum tool_exit status = check_folder(plan->dir);
	int fd;

	if (status != TOOL_OK)
		return status;
	if (snprintf(path, sizeof(path), "%s/lull-image-XXXXXX", plan->dir) >= (int)sizeof(path)) {
		say(COMMAND, "the folder's name is too long: '%s'", plan->dir);
		return TOOL_CANNOT;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		say(COMMAND, "cannot make a file in '%s': %s", plan->dir, strerror(errno));
		return TOOL_CANNOT;
	}
	ret->fd = fill_copy(fd, plan->image_bytes, &ret->offset) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (ret->fd < 0)
		say(COMMAND, "cannot write %ju MiB to '%s': %s", (uintmax_t)(plan->image_bytes / MIB), plan->dir, strerror(errno));
	unlink(path);
	close(fd);
	return ret->fd < 0 ? TOOL_CANNOT : TOOL_OK;
}

/* ---- one run ---- */

static bool unset_own_settings(void)
{
	for (char **setting = environ; *setting != NULL;) {
		char name[64];
		size_t len = strcspn(*setting, "=");

		if (strncmp(*setting, "LULL_", 5) != 0 || len >= sizeof(name)) {
			setting++;
			continue;
		}
		memcpy(name, *setting, len);
		name[len] = '\0';
		if (unsetenv(name) != 0) /* moves the rest up */
			return false;
	}
	return true;
}

/* In the child: becomes the program, or ends. Its parent says that it did. */
static void become_program(const struct pageout_plan *plan, const struct image *image, enum pageout_arm arm, int answer_to)
{
	char texts[4][24];
	char *const argv[] = {(char[]){"lull"}, (char[]){"measure"}, (char[]){PAGEOUT_PROGRAM}, texts[0], texts[1], texts[2], texts[3], NULL};
	int quiet = open("/dev/null", O_RDWR | O_CLOEXEC);

	snprintf(texts[0], sizeof(texts[0]), "%d", arm == PAGEOUT_ARM_PAGED_OUT);
	snprintf(texts[1], sizeof(texts[1]), "%u", plan->pause_s * 1000);
	snprintf(texts[2], sizeof(texts[2]), "%ju", (uintmax_t)image->offset);
	snprintf(texts[3], sizeof(texts[3]), "%ju", (uintmax_t)plan->image_bytes);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(quiet, STDIN_FILENO);
	dup2(quiet, STDERR_FILENO);
	dup2(answer_to, STDOUT_FILENO);
	if (unset_own_settings() && setenv("LD_PRELOAD", plan->preload, 1) == 0 &&
		(arm != PAGEOUT_ARM_IDLE_STAGES || setenv("LULL_IDLE_STAGES", PAGEOUT_IDLE_STAGES, 1) == 0))
		fexecve(image->fd, argv, environ);
	_exit(TOOL_CANNOT);
}

static bool receive(int from, unsigned limit_ms, struct pageout_run *ret)
{
	struct pollfd fd = {.fd = from, .events = POLLIN};

	return poll(&fd, 1, (int)limit_ms) == 1 && read(from, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret);
}

static enum tool_exit say_ended(int status)
{
	if (WIFSIGNALED(status))
		say(COMMAND, "the measured program gave no answer and was ended by signal %d", WTERMSIG(status));
	else
		say(COMMAND, "the measured program gave no answer and ended with status %d", WEXITSTATUS(status));
	return TOOL_CANNOT;
}

static enum tool_exit run_once(const struct pageout_plan *plan, const struct image *image, enum pageout_arm arm, struct pageout_run *ret)
{
	int ends[2], status = 0;
	bool answered;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) != 0 || (child = fork()) < 0) {
		say(COMMAND, "cannot start the measured program: %s", strerror(errno));
		return TOOL_CANNOT;
	}
	if (child == 0)
		become_program(plan, image, arm, ends[1]);
	close(ends[1]);
	answered = receive(ends[0], plan->pause_s * 1000 + RUN_LIMIT_MS, ret);
	close(ends[0]);
	if (!answered)
		kill(child, SIGKILL); /* no effect on one that has ended */
	waitpid(child, &status, 0);
	if (!answered)
		return say_ended(status);
	if (ret->status != TOOL_OK)
		say(COMMAND, "%.*s", (int)sizeof(ret->error) - 1, ret->error);
	return (enum tool_exit)ret->status;
}

/* ---- all runs ---- */

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

/* The numbers at OFFSET of N runs, ascending. */
static void sort_numbers(const struct pageout_run *runs, unsigned n, size_t offset, uint64_t *ret)
{
	for (unsigned i = 0; i < n; i++)
		memcpy(&ret[i], (const char *)&runs[i] + offset, sizeof(ret[i]));
	qsort(ret, n, sizeof(ret[0]), compare_numbers);
}

static void summarise(const struct pageout_run *runs, unsigned n, struct pageout_result *ret)
{
	uint64_t sorted[PAGEOUT_RUNS_MAX];

	for (size_t number = 0; number < PAGEOUT_RUN_NUMBERS; number++) {
		sort_numbers(runs, n, number * sizeof(uint64_t), sorted);
		memcpy((char *)&ret->median + number * sizeof(uint64_t), &sorted[n / 2], sizeof(uint64_t));
	}
	sort_numbers(runs, n, offsetof(struct pageout_run, next_ns), sorted);
	ret->next_min_ns = sorted[0];
	ret->next_max_ns = sorted[n - 1];
}

/* Half of the image at least: else something keeps it in memory, and the measurement would show that instead. */
static enum tool_exit check_effect(const struct pageout_run *paged_out)
{
	if (paged_out->image_after_bytes <= paged_out->image_before_bytes / 2)
		return TOOL_OK;
	say(COMMAND, "page-out has no effect here: %ju of %ju KiB of the image stay; another --dir may be on a file system that lets them go",
		(uintmax_t)(paged_out->image_after_bytes / KIB), (uintmax_t)(paged_out->image_before_bytes / KIB));
	return TOOL_KERNEL;
}

static enum tool_exit run_on_copy(const struct pageout_plan *plan, enum pageout_arm arm, struct pageout_run *ret)
{
	struct image image;
	enum tool_exit status = make_image(plan, &image);

	if (status != TOOL_OK)
		return status;
	status = run_once(plan, &image, arm, ret);
	close(image.fd);
	return status == TOOL_OK && arm == PAGEOUT_ARM_PAGED_OUT ? check_effect(ret) : status;
}

enum tool_exit pageout_measure(const struct pageout_plan *plan, void (*progress)(unsigned run), struct pageout_result *ret)
{
	static struct pageout_run runs[PAGEOUT_ARMS][PAGEOUT_RUNS_MAX];
	enum tool_exit status = TOOL_OK;
	unsigned n = plan->count * PAGEOUT_ARMS;

	for (unsigned run = 0; status == TOOL_OK && run < n; run++) {
		enum pageout_arm arm = run % PAGEOUT_ARMS;

		progress(run);
		status = run_on_copy(plan, arm, &runs[arm][run / PAGEOUT_ARMS]);
	}
	progress(n);
	for (unsigned arm = 0; status == TOOL_OK && arm < PAGEOUT_ARMS; arm++)
		summarise(runs[arm], plan->count, &ret[arm]);
	return status;
}
