/* SPDX-License-Identifier: MIT */
/*
 * `lull stat`: the statistics page of one process, once, beside the kernel's own count of its memory. The fields below are the one
 * description of what is printed, as text and as JSON; they follow struct lull_stats (lull/stats.h) member by member.
 */
#include "commands.h"
#include "common/procfs.h"
#include "common/say.h"
#include "common/stats_map.h"
#include "common/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "lull.stat.1"

static bool want_json;
static bool want_bytes;
static const char *root;

static const struct option_row options[] = {
	{.letter = 'j', .name = "json", .help = "one JSON object (schema " SCHEMA ")", .set.flag = &want_json},
	{.letter = 'b', .name = "bytes", .help = "exact numbers of bytes instead of KiB, MiB, ...", .set.flag = &want_bytes},
	{.name = "root", .value = "DIR", .help = "read DIR/proc, a recorded tree, instead of /proc", .set.text = &root},
};

struct record {
	uint64_t pid;
	const char *command;
	const char *kernel;
	const char *tool_version;
	uint64_t stats_version, stats_size_bytes;
	struct lull_stats stats;
	const char *way, *policy, *track_mode, *track_state;
	uint64_t rss_anon_bytes;
};

#define HEAD(key_, kind_, member) {.key = key_, .kind = kind_, .offset = offsetof(struct record, member), .is_only_in_json = true}
#define BYTES(member, help_) {.key = #member, .kind = FIELD_BYTES, .offset = offsetof(struct record, stats.member), .help = help_}
#define IN_JSON(member) {.key = #member, .kind = FIELD_COUNT, .offset = offsetof(struct record, stats.member), .is_only_in_json = true}
#define TEXT(member, help_) {.key = #member, .kind = FIELD_TEXT, .offset = offsetof(struct record, member), .help = help_}
#define COUNT(member, help_) {.key = #member, .kind = FIELD_COUNT, .offset = offsetof(struct record, stats.member), .help = help_}

static const struct field fields[] = {
	HEAD("pid", FIELD_COUNT, pid),
	HEAD("command", FIELD_TEXT, command),
	HEAD("kernel", FIELD_TEXT, kernel),
	HEAD("lull_version", FIELD_TEXT, tool_version),
	HEAD("stats_version", FIELD_COUNT, stats_version),
	HEAD("stats_size_bytes", FIELD_BYTES, stats_size_bytes),
	HEAD("own_pid", FIELD_COUNT, stats.pid),
	BYTES(reserved_bytes, "address space reserved for blocks"),
	BYTES(committed_bytes, "of it usable"),
	BYTES(in_pages_bytes, "in pages, their free blocks included"),
	BYTES(dirty_bytes, "free slices not returned yet, resident"),
	BYTES(away_bytes, "returned and not touched since"),
	BYTES(returned_bytes, "returned to the kernel, ever"),
	COUNT(return_calls, "kernel calls made for that"),
	BYTES(return_failed_bytes, "refused by the kernel, still resident"),
	BYTES(refaulted_bytes, "away memory taken into use again"),
	COUNT(sweeps, "heaps looked over for holes"),
	COUNT(swept_pages, "pages looked over"),
	COUNT(parks, "blocking calls a thread parked around"),
	COUNT(scavenger_wakes, "times the scavenger woke"),
	COUNT(threads_started, "threads that had a heap, ever"),
	COUNT(heaps, "heaps now"),
	COUNT(heaps_orphaned, "of them waiting for a new thread"),
	BYTES(late_bytes, "freed by others, owner sleeps unseen"),
	TEXT(way, "the call that returns memory now"),
	TEXT(policy, "what decides how long free memory stays"),
	BYTES(kept_bytes, "kept on purpose past the hold, resident"),
	BYTES(floor_bytes, "how much may be"),
	COUNT(ghost_hits, "returned, and wanted again within 1 s"),
	BYTES(ghost_bytes, "of them"),
	COUNT(full_sweeps, "sweeps that looked at every page"),
	COUNT(busy_looks, "returns by threads that do not block"),
	COUNT(idle_stages, "deeper collects of a quiet process"),
	IN_JSON(caps_low), /* for people: lull doctor PID */
	IN_JSON(caps_high),
	COUNT(ring_batches, "hand-overs to io_uring"),
	BYTES(ring_bytes, "returned by io_uring"),
	BYTES(vector_bytes, "returned by process_madvise"),
	BYTES(split_bytes, "split off huge pages first"),
	BYTES(populated_bytes, "brought in ahead of the writes"),
	COUNT(populate_calls, "kernel calls made for that"),
	BYTES(populate_wasted_bytes, "of that, found not written"),
	BYTES(huge_bytes, "may be in huge pages"),
	TEXT(track_mode, "what is asked of the write tracker"),
	TEXT(track_state, "and what it does"),
	BYTES(ws_epoch_bytes, "written in a second, mean of ten"),
	BYTES(ws_10s_bytes, "written in the last ten seconds"),
	BYTES(ws_60s_bytes, "written in the last minute"),
	BYTES(resident_bytes, "memory for blocks that is resident"),
	COUNT(track_faults, "faults caused by watching"),
	COUNT(track_us, "microseconds it cost, faults included"),
	BYTES(moved_bytes, "moved by realloc instead of copied"),
	{.key = "rss_anon_bytes", .kind = FIELD_BYTES, .offset = offsetof(struct record, rss_anon_bytes),
	 .help = "whole process, by the kernel (RssAnon)"},
};

#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

/* The members are words one after another: when one is appended, this fails until it has a field above. */
_Static_assert(offsetof(struct lull_stats, moved_bytes) + sizeof(uint64_t) == sizeof(struct lull_stats), "a new statistic needs a field");

static const char *way_name(uint64_t way)
{
	switch (way) {
	case 0:
		return "madvise";
	case 1:
		return "process_madvise";
	case 2:
		return "io_uring";
	default:
		return NULL;
	}
}

static const char *policy_name(uint64_t policy)
{
	switch (policy) {
	case 0:
		return "default";
	case 1:
		return "seed";
	default:
		return NULL;
	}
}

static const char *track_mode_name(uint64_t mode)
{
	static const char *const names[] = {"auto", "off", "full"};

	return mode < sizeof(names) / sizeof(names[0]) ? names[mode] : NULL;
}

static const char *track_state_name(uint64_t state)
{
	static const char *const names[] = {"rests", "watches", "refused"};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : NULL;
}

/* The number behind the last blank: the process as it is numbered in its innermost pid namespace. 0 when not known. */
static uint64_t own_pid_of(int process)
{
	char text[256];
	const char *last;

	if (procfs_status(process, "NStgid", text, sizeof(text)) != 0)
		return 0;
	last = strpbrk(text, " \t") == NULL ? text : text + strlen(text);
	while (last > text && last[-1] != '\t' && last[-1] != ' ')
		last--;
	return strtoull(last, NULL, 10);
}

static int say_refused(int pid, int err)
{
	switch (err) {
	case EACCES:
	case EPERM:
		say("stat", "not permitted to look into pid %d: needs its user, or CAP_SYS_PTRACE", pid);
		break;
	case ENOENT:
	case ESRCH:
		say("stat", "pid %d: no such process", pid);
		break;
	default:
		say("stat", "cannot read pid %d: %s", pid, strerror(err));
	}
	return TOOL_CANNOT;
}

static int say_no_page(int process, int pid)
{
	if (procfs_has_mapped(process, "liblull.so"))
		say("stat", "pid %d runs under lull but has no statistics: nothing returned yet, LULL_STATS=0, or its memfd closed", pid);
	else
		say("stat", "pid %d does not run under lull (no " LULL_STATS_MEMFD_NAME " memfd); start it with: lull run -- CMD", pid);
	return TOOL_NO;
}

static int say_result(int process, int pid, enum stats_map_result result, const struct lull_stats *head)
{
	switch (result) {
	case STATS_MAP_NONE:
		return say_no_page(process, pid);
	case STATS_MAP_FOREIGN:
		say("stat", "pid %d has only the statistics of pid %ju, which made it by clone", pid, (uintmax_t)head->pid);
		return TOOL_NO;
	case STATS_MAP_VERSION:
		say("stat", "pid %d has statistics of version %u, this command reads version %d", pid, head->version, LULL_STATS_VERSION);
		return TOOL_CANNOT;
	case STATS_MAP_DAMAGED:
		say("stat", "pid %d has a " LULL_STATS_MEMFD_NAME " memfd that is not lull's: not sealed, or not filled in", pid);
		return TOOL_CANNOT;
	case STATS_MAP_REFUSED:
		return say_refused(pid, errno);
	case STATS_MAP_OK:
		break;
	}
	return TOOL_OK;
}

static bool print_record(const struct record *record)
{
	if (want_json)
		return table_print_json(stdout, SCHEMA, fields, N_FIELDS, record);
	printf("pid %ju (%s), Linux %s, lull %s\n", (uintmax_t)record->pid, record->command, record->kernel, record->tool_version);
	table_print(stdout, fields, N_FIELDS, record, want_bytes);
	return true;
}

static int stat_process(int process, int pid)
{
	char command[64] = "?", kernel[128] = "?";
	struct record record = {.pid = (uint64_t)pid, .command = command, .kernel = kernel, .tool_version = LULL_VERSION};
	enum stats_map_result result = stats_map_read(process, own_pid_of(process), root == NULL, &record.stats);

	if (result != STATS_MAP_OK)
		return say_result(process, pid, result, &record.stats);
	procfs_status(process, "Name", command, sizeof(command));
	procfs_read_line(root == NULL ? "" : root, "sys/kernel/osrelease", kernel, sizeof(kernel));
	say_clean(command);
	say_clean(kernel);
	record.stats_version = record.stats.version;
	record.stats_size_bytes = record.stats.size_bytes;
	record.way = way_name(record.stats.way);
	record.policy = policy_name(record.stats.policy);
	record.track_mode = track_mode_name(record.stats.track_mode);
	record.track_state = track_state_name(record.stats.track_state);
	record.rss_anon_bytes = procfs_status_bytes(process, "RssAnon");
	if (!print_record(&record)) {
		say("stat", "cannot write JSON");
		return TOOL_CANNOT;
	}
	return TOOL_OK;
}

/* Told apart from a pid that is not in the tree. */
static bool is_readable_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0) {
		say("stat", "cannot read '%s': %s", path, strerror(errno));
		return false;
	}
	close(fd);
	return true;
}

static int stat_run(int n, char **operands)
{
	int pid, process, status;

	if (n == 0) {
		say_try_help("stat", "no pid given");
		return TOOL_CANNOT;
	}
	if (n > 1) {
		say_try_help("stat", "one pid at a time, '%s' is too much", operands[1]);
		return TOOL_CANNOT;
	}
	if (!procfs_parse_pid(operands[0], &pid)) {
		say_try_help("stat", "'%s' is not a pid: a number from 1 to %d", operands[0], PROCFS_PID_MAX);
		return TOOL_CANNOT;
	}
	if (root != NULL && !is_readable_folder(root))
		return TOOL_CANNOT;
	process = procfs_open(root == NULL ? "" : root, pid);
	if (process < 0)
		return say_refused(pid, -process);
	status = stat_process(process, pid);
	close(process);
	return status;
}

const struct command stat_command = {
	.name = "stat",
	.summary = "print the statistics of a process under lull",
	.usage = "[OPTION...] PID",
	.about = "Prints once what lull holds and has returned in process PID. Exit status: 0\n"
		 "printed; 1 PID does not run under lull; 2 could not look.\n",
	.options = options,
	.n_options = sizeof(options) / sizeof(options[0]),
	.examples = "  lull stat $(pidof redis-server)\n"
		    "  lull stat --bytes 4242\n"
		    "  lull stat --json 4242 | jq .away_bytes\n",
	.run = stat_run,
};
