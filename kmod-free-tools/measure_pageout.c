/* SPDX-License-Identifier: MIT */
/*
 * `lull measure pageout`: what a request after a pause costs when the program's image was paged out in the pause, when lull's idle stages
 * ran, and when neither did. The fields below are the one description of what is printed; a record is one of the three ways.
 */
#include "commands.h"
#include "common/library.h"
#include "common/measuring.h"
#include "common/pageout.h"
#include "common/say.h"
#include "common/table.h"

#include "base/base.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define COMMAND "measure pageout"
#define SCHEMA "lull.measure.pageout.1"

/* The seed's image had 57 MiB in memory. */
#define IMAGE_MIB_DEFAULT 64
/* The pieces a request reads are 4 MiB together and must lie apart; no page cache should be flooded. */
#define IMAGE_MIB_MIN 16
#define IMAGE_MIB_MAX 4096
#define COUNT_DEFAULT 3
#define PAUSE_S_DEFAULT 5
/* A file system on a disk, and not emptied at start-up; /tmp often is in memory. */
#define DIR_DEFAULT "/var/tmp"

static bool want_json;
static const char *count_text, *pause_text, *image_text, *dir_text;

static const struct option_row options[] = {
	{.letter = 'j', .name = "json", .help = "a JSON object for each way (schema " SCHEMA ")", .set.flag = &want_json},
	{.letter = 'n', .name = "count", .value = "N", .help = "runs of each way, default 3", .set.text = &count_text},
	{.letter = 'p', .name = "pause", .value = "S", .help = "seconds of pause, 4 to 25, default 5", .set.text = &pause_text},
	{.name = "image", .value = "MIB", .help = "size of the image, default 64", .set.text = &image_text},
	{.name = "dir", .value = "DIR", .help = "folder for it: on a disk, default /var/tmp", .set.text = &dir_text},
};

struct record {
	const char *way;
	const char *kernel;
	const char *tool_version;
	const char *dir;
	uint64_t runs, pause_us, image_bytes;
	uint64_t steady_us, next_us, added_us, next_min_us, next_max_us;
	struct pageout_run run;
};

#define HEAD(key_, kind_, member) {.key = key_, .kind = kind_, .offset = offsetof(struct record, member), .is_only_in_json = true}
#define ROW(key_, kind_, member) {.key = key_, .kind = kind_, .offset = offsetof(struct record, member)}

static const struct field fields[] = {
	ROW("way", FIELD_TEXT, way),
	HEAD("kernel", FIELD_TEXT, kernel),
	HEAD("lull_version", FIELD_TEXT, tool_version),
	HEAD("dir", FIELD_TEXT, dir),
	HEAD("runs", FIELD_COUNT, runs),
	HEAD("pause_us", FIELD_US, pause_us),
	HEAD("image_bytes", FIELD_BYTES, image_bytes),
	ROW("steady_us", FIELD_US, steady_us),
	ROW("next_us", FIELD_US, next_us),
	ROW("next_min_us", FIELD_US, next_min_us),
	ROW("next_max_us", FIELD_US, next_max_us),
	ROW("added_us", FIELD_US, added_us),
	ROW("steady_major_faults", FIELD_COUNT, run.steady_major_faults),
	ROW("next_major_faults", FIELD_COUNT, run.next_major_faults),
	ROW("steady_minor_faults", FIELD_COUNT, run.steady_minor_faults),
	ROW("next_minor_faults", FIELD_COUNT, run.next_minor_faults),
	ROW("image_before_bytes", FIELD_BYTES, run.image_before_bytes),
	ROW("image_after_bytes", FIELD_BYTES, run.image_after_bytes),
	ROW("anon_before_bytes", FIELD_BYTES, run.anon_before_bytes),
	ROW("anon_after_bytes", FIELD_BYTES, run.anon_after_bytes),
	ROW("rss_before_bytes", FIELD_BYTES, run.rss_before_bytes),
	ROW("rss_after_bytes", FIELD_BYTES, run.rss_after_bytes),
};

static const char *const way_names[PAGEOUT_ARMS] = {
	[PAGEOUT_ARM_PAGED_OUT] = "page-out",
	[PAGEOUT_ARM_IDLE_STAGES] = "idle-stages",
	[PAGEOUT_ARM_NEITHER] = "neither",
};

static unsigned total_runs;

static void show_progress(unsigned run)
{
	measuring_progress(way_names[run % PAGEOUT_ARMS], run, total_runs);
}

static struct record make_record(const struct pageout_plan *plan, const struct pageout_result *result, enum pageout_arm arm)
{
	return (struct record){
		.way = way_names[arm],
		.tool_version = LULL_VERSION,
		.dir = plan->dir,
		.runs = plan->count,
		.pause_us = (uint64_t)plan->pause_s * 1000000,
		.image_bytes = plan->image_bytes,
		.steady_us = result->median.steady_ns / 1000,
		.next_us = result->median.next_ns / 1000,
		.added_us = result->median.next_ns / 1000 - result->median.steady_ns / 1000,
		.next_min_us = result->next_min_ns / 1000,
		.next_max_us = result->next_max_ns / 1000,
		.run = result->median,
	};
}

static bool print_text(const struct record *records)
{
	const void *columns[PAGEOUT_ARMS];

	for (unsigned arm = 0; arm < PAGEOUT_ARMS; arm++)
		columns[arm] = &records[arm];
	printf("the request after a pause of %ju s; image of %ju MiB in %s; medians of %ju;\nLinux %s, lull %s\n\n",
		(uintmax_t)records->pause_us / 1000000, (uintmax_t)(records->image_bytes / MIB), records->dir, (uintmax_t)records->runs,
		records->kernel, records->tool_version);
	table_print_columns(stdout, fields, array_len(fields), columns, PAGEOUT_ARMS, false);
	return true;
}

static bool print_json(const struct record *records)
{
	for (unsigned arm = 0; arm < PAGEOUT_ARMS; arm++)
		if (!table_print_json(stdout, SCHEMA, fields, array_len(fields), &records[arm]))
			return false;
	return true;
}

/* A sixteenth may go by itself: the kernel takes clean pages whenever it needs some. */
static bool is_image_whole(const struct pageout_run *run)
{
	return run->image_after_bytes >= run->image_before_bytes - run->image_before_bytes / 16;
}

static enum tool_exit report(const struct pageout_plan *plan, const struct pageout_result *results)
{
	struct record records[PAGEOUT_ARMS];
	char kernel[MEASURING_KERNEL_BYTES];
	bool ok;

	measuring_kernel(kernel);
	for (unsigned arm = 0; arm < PAGEOUT_ARMS; arm++) {
		records[arm] = make_record(plan, &results[arm], arm);
		records[arm].kernel = kernel;
	}
	ok = want_json ? print_json(records) : print_text(records);
	if (!ok) {
		say(COMMAND, "cannot write JSON");
		return TOOL_CANNOT;
	}
	return is_image_whole(&results[PAGEOUT_ARM_IDLE_STAGES].median) ? TOOL_OK : TOOL_NO;
}

static const char *choose_dir(void)
{
	const char *dir = dir_text != NULL ? dir_text : getenv("TMPDIR");

	return dir != NULL && *dir != '\0' ? dir : DIR_DEFAULT;
}

static int pageout_run(int n, char **operands)
{
	struct pageout_result results[PAGEOUT_ARMS];
	char library[PATH_MAX];
	struct pageout_plan plan = {.dir = choose_dir(), .preload = library, .count = COUNT_DEFAULT, .pause_s = PAUSE_S_DEFAULT};
	unsigned image_mib = IMAGE_MIB_DEFAULT;
	enum tool_exit status;

	if (!measuring_no_operands(COMMAND, n, operands) ||
		!measuring_number(COMMAND, "--count", count_text, 1, PAGEOUT_RUNS_MAX, &plan.count) ||
		!measuring_number(COMMAND, "--pause", pause_text, PAGEOUT_PAUSE_MIN_S, PAGEOUT_PAUSE_MAX_S, &plan.pause_s) ||
		!measuring_number(COMMAND, "--image", image_text, IMAGE_MIB_MIN, IMAGE_MIB_MAX, &image_mib) || !library_find(COMMAND, library))
		return TOOL_CANNOT;
	plan.image_bytes = image_mib * MIB;
	total_runs = plan.count * PAGEOUT_ARMS;
	status = pageout_measure(&plan, show_progress, results);
	return status == TOOL_OK ? report(&plan, results) : status;
}

const struct command measure_pageout_command = {
	.name = COMMAND,
	.summary = "what paging an image out costs the next request",
	.usage = "[OPTION...]",
	.about = "What the request after a pause costs a program whose image was paged out in\n"
		 "the pause, under lull's idle stages, and with neither. Takes about a minute.\n"
		 "Exit status: 0 measured; 1 the idle stages took part of the image; 2 could not\n"
		 "run; 3 nothing can be paged out here.\n",
	.options = options,
	.n_options = array_len(options),
	.examples = "  lull measure pageout\n"
		    "  lull measure pageout --count 10 --dir /srv/data\n"
		    "  lull measure pageout --json | jq -c '[.way, .added_us, .next_major_faults]'\n",
	.run = pageout_run,
};
