/* SPDX-License-Identifier: MIT */
/*
 * `lull measure faults`: what it costs to have memory again, by touching it, by one call, by huge pages, and through lull. Each way is run
 * some times, the ways in turn, each run in a process of its own. The fields below are the one description of what is printed; a record is
 * one way.
 */
#include "commands.h"
#include "common/contained.h"
#include "common/faults_run.h"
#include "common/measuring.h"
#include "common/say.h"
#include "common/table.h"

#include "base/base.h"

#include <stdio.h>
#include <string.h>

#define COMMAND "measure faults"
#define SCHEMA "lull.measure.faults.1"

#define COUNT_DEFAULT 5
#define SIZE_MIB_DEFAULT 64
/* Less is a handful of huge pages; more takes minutes where a fault costs 45 us. */
#define SIZE_MIB_MIN 4
#define SIZE_MIB_MAX 1024

static bool want_json;
static const char *count_text, *size_text;

static const struct option_row options[] = {
	{.letter = 'j', .name = "json", .help = "a JSON object for each way (schema " SCHEMA ")", .set.flag = &want_json},
	{.letter = 'n', .name = "count", .value = "N", .help = "runs of each way, default 5", .set.text = &count_text},
	{.name = "size", .value = "MIB", .help = "how much memory, even, 4 to 1024, default 64", .set.text = &size_text},
};

struct record {
	const char *way, *absent;
	const char *kernel, *tool_version;
	uint64_t runs, size_bytes;
	uint64_t total_us, min_us, max_us, take_us, write_us;
	uint64_t minor_faults, write_faults, calls;
	uint64_t page_ns;        /* total for each OS page */
	uint64_t first_write_ns; /* write for each, where it was there before */
	uint64_t total_milli;    /* total of this way / total of one call, in thousandths */
	uint64_t take_milli;     /* take of this way / take of that call; where this way made calls */
};

#define HEAD(key_, kind_, member) {.key = key_, .kind = kind_, .offset = offsetof(struct record, member), .is_only_in_json = true}
#define ROW(key_, kind_, member) {.key = key_, .kind = kind_, .offset = offsetof(struct record, member)}

static const struct field fields[] = {
	ROW("way", FIELD_TEXT, way),
	HEAD("absent", FIELD_TEXT, absent),
	HEAD("kernel", FIELD_TEXT, kernel),
	HEAD("lull_version", FIELD_TEXT, tool_version),
	HEAD("runs", FIELD_COUNT, runs),
	HEAD("size_bytes", FIELD_BYTES, size_bytes),
	ROW("take_us", FIELD_US, take_us),
	ROW("write_us", FIELD_US, write_us),
	ROW("total_us", FIELD_US, total_us),
	ROW("min_us", FIELD_US, min_us),
	ROW("max_us", FIELD_US, max_us),
	HEAD("minor_faults", FIELD_COUNT, minor_faults),
	ROW("write_faults", FIELD_COUNT, write_faults),
	ROW("calls", FIELD_COUNT, calls),
	HEAD("page_ns", FIELD_NS, page_ns),
	HEAD("first_write_ns", FIELD_NS, first_write_ns),
	HEAD("total_milli", FIELD_COUNT, total_milli),
	HEAD("take_milli", FIELD_COUNT, take_milli),
};

static struct faults_answer answers[FAULTS_WAYS][MEASURING_RUNS_MAX];

static uint64_t us(uint64_t ns)
{
	return (ns + 500) / 1000;
}

static struct spread spread_of(enum faults_way way, unsigned count, size_t offset)
{
	return measuring_spread((const char *)answers[way] + offset, sizeof(answers[way][0]), count);
}

#define SPREAD(way, count, member) spread_of(way, count, offsetof(struct faults_answer, member))

static uint64_t milli(uint64_t of, uint64_t to)
{
	return to == 0 ? TABLE_UNKNOWN : of * 1000 / to;
}

static void fill_ratios(struct record *record, enum faults_way way, unsigned count)
{
	uint64_t pages = record->size_bytes / OS_PAGE_SIZE, take = SPREAD(way, count, take_ns).median;
	uint64_t total = SPREAD(way, count, total_ns).median;

	record->page_ns = total / pages;
	record->first_write_ns = record->write_faults < pages / 16 ? SPREAD(way, count, write_ns).median / pages : TABLE_UNKNOWN;
	record->total_milli = record->take_milli = TABLE_UNKNOWN;
	if (answers[FAULTS_POPULATE][0].absent)
		return;
	record->total_milli = milli(total, SPREAD(FAULTS_POPULATE, count, total_ns).median);
	if (record->calls > 0)
		record->take_milli = milli(take, SPREAD(FAULTS_POPULATE, count, take_ns).median);
}

static struct record make_record(const struct faults_plan *plan, unsigned count, const char *kernel)
{
	enum faults_way way = plan->way;
	struct spread total = SPREAD(way, count, total_ns);
	struct record record = {
		.way = faults_way_name(way),
		.kernel = kernel,
		.tool_version = LULL_VERSION,
		.runs = count,
		.size_bytes = plan->bytes,
		.total_us = us(total.median),
		.min_us = us(total.min),
		.max_us = us(total.max),
		.take_us = us(SPREAD(way, count, take_ns).median),
		.write_us = us(SPREAD(way, count, write_ns).median),
		.minor_faults = SPREAD(way, count, minor_faults).median,
		.write_faults = SPREAD(way, count, write_faults).median,
		.calls = SPREAD(way, count, calls).median,
	};

	fill_ratios(&record, way, count);
	return record;
}

static struct record make_absent(const struct faults_plan *plan, const char *kernel)
{
	return (struct record){
		.way = faults_way_name(plan->way),
		.absent = answers[plan->way][0].reason,
		.kernel = kernel,
		.tool_version = LULL_VERSION,
		.size_bytes = plan->bytes,
		.total_us = TABLE_UNKNOWN,
		.min_us = TABLE_UNKNOWN,
		.max_us = TABLE_UNKNOWN,
		.take_us = TABLE_UNKNOWN,
		.write_us = TABLE_UNKNOWN,
		.minor_faults = TABLE_UNKNOWN,
		.write_faults = TABLE_UNKNOWN,
		.calls = TABLE_UNKNOWN,
		.page_ns = TABLE_UNKNOWN,
		.first_write_ns = TABLE_UNKNOWN,
		.total_milli = TABLE_UNKNOWN,
		.take_milli = TABLE_UNKNOWN,
	};
}

/* On some virtual machines the first use of an OS page costs as much as a fault, however it came there. */
static void print_page_costs(const struct record *records)
{
	const struct record *touch = &records[FAULTS_TOUCH], *populate = &records[FAULTS_POPULATE];

	printf("\na page fault, its write included: %.2f us\n", (double)touch->page_ns / 1000);
	if (populate->first_write_ns != TABLE_UNKNOWN)
		printf("the first write to a page that is there: %.2f us\n", (double)populate->first_write_ns / 1000);
}

static void print_ratio(const struct record *record)
{
	if (record->total_milli == TABLE_UNKNOWN)
		return;
	printf("%s: %.2f x populate", record->way, (double)record->total_milli / 1000);
	if (record->take_milli != TABLE_UNKNOWN)
		printf("; without the writes %.2f x", (double)record->take_milli / 1000);
	putchar('\n');
}

static void print_text(const struct record *records)
{
	printf("having %ju MiB again, milliseconds; medians of %ju;\nLinux %s, lull %s\n\n", (uintmax_t)(records->size_bytes / MIB),
		(uintmax_t)records->runs, records->kernel, records->tool_version);
	table_print_rows(stdout, fields, array_len(fields), records, FAULTS_WAYS, sizeof(*records), false);
	print_page_costs(records);
	for (enum faults_way way = FAULTS_LULL_ONE; way < FAULTS_WAYS; way++)
		print_ratio(&records[way]);
	for (enum faults_way way = 0; way < FAULTS_WAYS; way++)
		if (records[way].absent != NULL)
			printf("%s: not here: %s\n", records[way].way, records[way].absent);
}

static bool print_json(const struct record *records)
{
	for (enum faults_way way = 0; way < FAULTS_WAYS; way++)
		if (!table_print_json(stdout, SCHEMA, fields, array_len(fields), &records[way]))
			return false;
	return true;
}

static enum tool_exit report(struct faults_plan *plan, unsigned count)
{
	struct record records[FAULTS_WAYS];
	char kernel[MEASURING_KERNEL_BYTES];

	measuring_kernel(kernel);
	for (plan->way = 0; plan->way < FAULTS_WAYS; plan->way++)
		records[plan->way] =
			answers[plan->way][0].absent ? make_absent(plan, kernel) : make_record(plan, count, kernel);
	if (!want_json) {
		print_text(records);
		return TOOL_OK;
	}
	if (print_json(records))
		return TOOL_OK;
	say(COMMAND, "cannot write JSON");
	return TOOL_CANNOT;
}

/* A way that was absent once is not tried again. */
static enum tool_exit measure(struct faults_plan *plan, unsigned count)
{
	enum tool_exit status = TOOL_OK;

	for (unsigned run = 0; status == TOOL_OK && run < count * FAULTS_WAYS; run++) {
		plan->way = run % FAULTS_WAYS;
		measuring_progress(faults_way_name(plan->way), run, count * FAULTS_WAYS);
		if (!answers[plan->way][0].absent)
			status = contained_run(COMMAND, faults_run, plan, &answers[plan->way][run / FAULTS_WAYS], sizeof(answers[0][0]));
	}
	measuring_progress("", count * FAULTS_WAYS, count * FAULTS_WAYS);
	return status;
}

static int faults_command_run(int n, char **operands)
{
	unsigned count = COUNT_DEFAULT, size_mib = SIZE_MIB_DEFAULT;
	struct faults_plan plan = {0};
	enum tool_exit status;

	if (!measuring_no_operands(COMMAND, n, operands) ||
		!measuring_number(COMMAND, "--count", count_text, 1, MEASURING_RUNS_MAX, &count) ||
		!measuring_number(COMMAND, "--size", size_text, SIZE_MIB_MIN, SIZE_MIB_MAX, &size_mib))
		return TOOL_CANNOT;
	if (size_mib % 2 != 0) {
		say_try_help(COMMAND, "--size '%s' is not even: a huge page has 2 MiB", size_text);
		return TOOL_CANNOT;
	}
	plan.bytes = size_mib * MIB;
	contained_begin();
	status = measure(&plan, count);
	contained_end(COMMAND);
	return status == TOOL_OK ? report(&plan, count) : status;
}

const struct command measure_faults_command = {
	.name = COMMAND,
	.summary = "what having returned memory again costs",
	.usage = "[OPTION...]",
	.about = "What having memory again costs: touched, by one MADV_POPULATE_WRITE, by huge\n"
		 "pages, and through lull. Takes some ten seconds. Exit status: 0 measured; 2\n"
		 "could not run; 3 this kernel does not take memory back in the first place.\n",
	.options = options,
	.n_options = array_len(options),
	.examples = "  lull measure faults\n"
		    "  lull measure faults --size 256 --count 3\n"
		    "  lull measure faults --json | jq -c '[.way, .total_us, .minor_faults]'\n",
	.run = faults_command_run,
};
