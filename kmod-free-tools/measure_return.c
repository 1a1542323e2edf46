/* SPDX-License-Identifier: MIT */
/*
 * `lull measure return`: what it costs here to return holes of several sizes in each way lull has, with the other processor idle and busy,
 * and whether what lull chooses by itself is right. Then the halves of huge pages. Each cell (size, way, load) is run some times, all cells
 * in turn, each run in a process of its own. The fields below are the one description of what is printed; there are three kinds of records.
 */
#include "commands.h"
#include "common/contained.h"
#include "common/measuring.h"
#include "common/return_run.h"
#include "common/say.h"
#include "common/table.h"

#include "base/base.h"
#include "kernel/advise.h"
#include "kernel/ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "measure return"
#define SCHEMA "lull.measure.return.1"

#define COUNT_DEFAULT 5
#define SIZES_DEFAULT "4K,64K,256K,1M,4M"
#define SIZES_MAX 8
/* Above, a batch of a few holes is more memory than a small machine has to spare. */
#define HOLE_BYTES_MAX (16 * MIB)

/* So many holes as the engine takes in one batch, or as are 32 MiB, which touched take 0.2 s where a fault costs 25 us. */
#define HOLES_MAX ADVISE_BATCH_RANGES
#define HOLES_MIN 2
#define BATCH_BYTES (32 * MIB)

/* Where each half counts: 16 MiB of halves, well above what the kernel caches of a cgroup's charges (256 KiB a processor). */
#define HUGE_TEST_BYTES (32 * MIB)

/* auto is called slowest when its median is above that of the slowest forced way by more than an eighth, which lets small differences pass
 * where it takes that very way. Whether the runs of the two overlap is told beside it and excuses nothing: on a busy machine those of
 * any two ways do (4 MiB holes: 302 to 4066 us of one way in 15 runs). */
#define SLOWER_MILLI 1125

enum { LOADS = 2 };
static const char *const load_names[LOADS] = {"idle", "busy"};

static bool want_json, want_busy, want_check;
static const char *count_text, *holes_text, *sizes_text = SIZES_DEFAULT;

static const struct option_row options[] = {
	{.letter = 'j', .name = "json", .help = "JSON objects (schema " SCHEMA ")", .set.flag = &want_json},
	{.letter = 'n', .name = "count", .value = "N", .help = "runs of each cell, default 5", .set.text = &count_text},
	{.name = "sizes", .value = "LIST", .help = "of holes, default " SIZES_DEFAULT, .set.text = &sizes_text},
	{.name = "holes", .value = "N", .help = "in a batch, 2 to 512, default 512 or 32 MiB", .set.text = &holes_text},
	{.letter = 'b', .name = "busy", .help = "also with another processor kept busy", .set.flag = &want_busy},
	{.letter = 'c', .name = "check", .help = "exit 1 if auto was slowest somewhere", .set.flag = &want_check},
};

/* ---- what is printed ---- */

struct head {
	const char *what, *kernel, *tool_version, *counted_in;
	uint64_t runs;
};

struct cell {
	struct head head;
	const char *load, *way, *by, *absent;
	uint64_t hole_bytes, holes, asked_bytes;
	uint64_t caller_ns, caller_min_ns, caller_max_ns, caller_cpu_ns, total_ns, min_ns, max_ns, cpu_ns;
	uint64_t back_bytes, usage_bytes, rss_bytes, accepted_bytes;
	const char *slowest;     /* of auto: the slowest of the forced ways, */
	uint64_t slowest_milli;  /* and total of auto / total of that, in thousandths */
	uint64_t is_slowest, is_apart; /* by its median; and its fastest run is slower than that way's slowest */
};

struct huge {
	struct head head;
	const char *way, *absent;
	uint64_t asked_bytes, rss_bytes, usage_bytes, rewrite_bytes;
};

struct ratios {
	struct head head;
	const char *load;
	uint64_t vector_gain_milli;     /* madvise / vector, holes of 64 KiB */
	uint64_t uring_caller_ns;       /* a hole, where it is most, of the sizes whose batch the ring holds at once; */
	uint64_t uring_caller_cpu_ns;   /* processor time of it */
	uint64_t handover_caller_ns;    /* a hole, where it is most */
	uint64_t auto_cells, auto_slowest_cells, auto_apart_cells;
};

#define AT(type, member) .offset = offsetof(struct type, member)
#define HEADS(type)                                                                                                                \
	{.key = "what", .kind = FIELD_TEXT, AT(type, head.what), .is_only_in_json = true},                                             \
		{.key = "kernel", .kind = FIELD_TEXT, AT(type, head.kernel), .is_only_in_json = true},                                     \
		{.key = "lull_version", .kind = FIELD_TEXT, AT(type, head.tool_version), .is_only_in_json = true},                         \
		{.key = "counted_in", .kind = FIELD_TEXT, AT(type, head.counted_in), .is_only_in_json = true},                             \
		{.key = "runs", .kind = FIELD_COUNT, AT(type, head.runs), .is_only_in_json = true}
#define HEAD(type, key_, kind_, member) {.key = key_, .kind = kind_, AT(type, member), .is_only_in_json = true}
#define ROW(type, key_, kind_, member) {.key = key_, .kind = kind_, AT(type, member)}

static const struct field cell_fields[] = {
	ROW(cell, "hole_bytes", FIELD_BYTES, hole_bytes),
	HEADS(cell),
	HEAD(cell, "load", FIELD_TEXT, load),
	HEAD(cell, "holes", FIELD_COUNT, holes),
	ROW(cell, "way", FIELD_TEXT, way),
	HEAD(cell, "absent", FIELD_TEXT, absent),
	ROW(cell, "caller_ns", FIELD_NS, caller_ns),
	HEAD(cell, "caller_min_ns", FIELD_NS, caller_min_ns),
	HEAD(cell, "caller_max_ns", FIELD_NS, caller_max_ns),
	HEAD(cell, "caller_cpu_ns", FIELD_NS, caller_cpu_ns),
	ROW(cell, "total_ns", FIELD_NS, total_ns),
	ROW(cell, "min_ns", FIELD_NS, min_ns),
	ROW(cell, "max_ns", FIELD_NS, max_ns),
	ROW(cell, "cpu_ns", FIELD_NS, cpu_ns),
	HEAD(cell, "asked_bytes", FIELD_BYTES, asked_bytes),
	ROW(cell, "back_bytes", FIELD_BYTES, back_bytes),
	HEAD(cell, "usage_bytes", FIELD_BYTES, usage_bytes),
	HEAD(cell, "rss_bytes", FIELD_BYTES, rss_bytes),
	HEAD(cell, "accepted_bytes", FIELD_BYTES, accepted_bytes),
	ROW(cell, "by", FIELD_TEXT, by),
	HEAD(cell, "slowest", FIELD_TEXT, slowest),
	HEAD(cell, "slowest_milli", FIELD_COUNT, slowest_milli),
	HEAD(cell, "is_slowest", FIELD_COUNT, is_slowest),
	HEAD(cell, "is_apart", FIELD_COUNT, is_apart),
};

static const struct field huge_fields[] = {
	ROW(huge, "way", FIELD_TEXT, way),
	HEADS(huge),
	HEAD(huge, "absent", FIELD_TEXT, absent),
	ROW(huge, "asked_bytes", FIELD_BYTES, asked_bytes),
	ROW(huge, "rss_bytes", FIELD_BYTES, rss_bytes),
	ROW(huge, "usage_bytes", FIELD_BYTES, usage_bytes),
	ROW(huge, "rewrite_bytes", FIELD_BYTES, rewrite_bytes),
};

static const struct field ratio_fields[] = {
	HEADS(ratios),
	HEAD(ratios, "load", FIELD_TEXT, load),
	HEAD(ratios, "vector_gain_milli", FIELD_COUNT, vector_gain_milli),
	HEAD(ratios, "uring_caller_ns", FIELD_NS, uring_caller_ns),
	HEAD(ratios, "uring_caller_cpu_ns", FIELD_NS, uring_caller_cpu_ns),
	HEAD(ratios, "handover_caller_ns", FIELD_NS, handover_caller_ns),
	HEAD(ratios, "auto_cells", FIELD_COUNT, auto_cells),
	HEAD(ratios, "auto_slowest_cells", FIELD_COUNT, auto_slowest_cells),
	HEAD(ratios, "auto_apart_cells", FIELD_COUNT, auto_apart_cells),
};

/* ---- what is measured ---- */

static struct {
	size_t hole_bytes[SIZES_MAX];
	unsigned sizes, loads, count, holes;
} plan;

static struct return_answer answers[LOADS][SIZES_MAX][RETURN_WAYS][MEASURING_RUNS_MAX];
static struct huge_answer huge_answers[HUGE_WAYS][MEASURING_RUNS_MAX];
static struct cell cells[LOADS][SIZES_MAX][RETURN_WAYS];
static struct huge huges[HUGE_WAYS];
static struct ratios ratios[LOADS];
static char kernel_release[MEASURING_KERNEL_BYTES];

/* "64K", "4M"; true and *text behind it. */
static bool parse_size(const char **text, size_t *ret)
{
	unsigned long number;
	size_t unit;
	char *end;

	errno = 0;
	number = strtoul(*text, &end, 10);
	if (**text < '0' || **text > '9' || errno != 0 || (*end != 'K' && *end != 'M'))
		return false;
	unit = *end == 'K' ? KIB : MIB;
	if (number == 0 || number > HOLE_BYTES_MAX / unit || number * unit % OS_PAGE_SIZE != 0)
		return false;
	*ret = number * unit;
	*text = end + 1;
	return true;
}

static bool parse_sizes(const char *text)
{
	const char *at = text;

	do {
		if (plan.sizes == SIZES_MAX || !parse_size(&at, &plan.hole_bytes[plan.sizes])) {
			say_try_help(COMMAND, "--sizes '%s' is not a list of up to %d sizes like 64K,1M: multiples of 4K, 16M at most", text,
				SIZES_MAX);
			return false;
		}
		plan.sizes++;
	} while (*at++ == ',');
	if (at[-1] == '\0')
		return true;
	plan.sizes = SIZES_MAX; /* what follows is no size */
	return parse_sizes(text);
}

static unsigned holes_of(size_t hole_bytes)
{
	return (unsigned)max_size(HOLES_MIN, min_size(plan.holes, BATCH_BYTES / hole_bytes));
}

static struct return_plan cell_plan(unsigned load, unsigned size, enum return_way way)
{
	return (struct return_plan){
		.way = way,
		.hole_bytes = plan.hole_bytes[size],
		.holes = holes_of(plan.hole_bytes[size]),
		.busy = load > 0,
	};
}

static void show_progress(const struct return_plan *cell, unsigned done, unsigned total)
{
	char what[64];

	snprintf(what, sizeof(what), "%zu KiB, %s, %s", cell->hole_bytes / KIB, load_names[cell->busy], return_way_name(cell->way));
	measuring_progress(what, done, total);
}

/* One run of each cell. done: counted on. A way that was absent once is not tried again. */
static enum tool_exit run_round(unsigned round, unsigned *done, unsigned total)
{
	for (unsigned load = 0; load < plan.loads; load++)
		for (unsigned size = 0; size < plan.sizes; size++)
			for (unsigned n = 0; n < RETURN_WAYS; n++) {
				enum return_way way = (n + round) % RETURN_WAYS; /* another one first each time */
				struct return_plan cell = cell_plan(load, size, way);
				struct return_answer *runs = answers[load][size][way];
				enum tool_exit status = TOOL_OK;

				show_progress(&cell, (*done)++, total);
				if (!runs[0].absent)
					status = contained_run(COMMAND, return_run, &cell, &runs[round], sizeof(runs[round]));
				if (status != TOOL_OK)
					return status;
			}
	return TOOL_OK;
}

static enum tool_exit run_huge(unsigned round)
{
	for (enum huge_way way = 0; way < HUGE_WAYS; way++) {
		struct huge_plan huge = {.way = way, .bytes = HUGE_TEST_BYTES};
		struct huge_answer *runs = huge_answers[way];
		enum tool_exit status = TOOL_OK;

		if (!runs[0].absent)
			status = contained_run(COMMAND, huge_run, &huge, &runs[round], sizeof(runs[round]));
		if (status != TOOL_OK)
			return status;
	}
	return TOOL_OK;
}

static enum tool_exit measure(void)
{
	unsigned total = plan.count * plan.loads * plan.sizes * RETURN_WAYS, done = 0;
	enum tool_exit status = TOOL_OK;

	for (unsigned round = 0; status == TOOL_OK && round < plan.count; round++) {
		status = run_round(round, &done, total);
		if (status == TOOL_OK)
			status = run_huge(round);
	}
	measuring_progress("", total, total);
	return status;
}

/* ---- from runs to records ---- */

static const char *by_name(uint64_t by)
{
	static const char *const by_names[RETURN_BY_ALL] = {
		[RETURN_BY_MADVISE] = "madvise",
		[RETURN_BY_VECTOR] = "vector",
		[RETURN_BY_VECTOR | RETURN_BY_MADVISE] = "vector+madvise",
		[RETURN_BY_URING] = "uring",
		[RETURN_BY_URING | RETURN_BY_MADVISE] = "uring+madvise",
		[RETURN_BY_URING | RETURN_BY_VECTOR] = "uring+vector",
		[RETURN_BY_URING | RETURN_BY_VECTOR | RETURN_BY_MADVISE] = "uring+vector+madvise",
	};

	return by < RETURN_BY_ALL ? by_names[by] : NULL;
}

static struct head make_head(const char *what, bool shared)
{
	static const char *const places[] = {"new cgroup", "shared cgroup", "process"};

	return (struct head){
		.what = what,
		.kernel = kernel_release,
		.tool_version = LULL_VERSION,
		.counted_in = places[contained_group.path[0] == '\0' ? 2 : shared],
		.runs = plan.count,
	};
}

static struct spread spread_of(const struct return_answer *runs, size_t offset)
{
	return measuring_spread((const char *)runs + offset, sizeof(*runs), plan.count);
}

#define SPREAD(runs, member) spread_of(runs, offsetof(struct return_answer, member))

static uint64_t each(uint64_t all, uint64_t n)
{
	return all == UINT64_MAX ? TABLE_UNKNOWN : all / n;
}

static void fill_cell(struct cell *cell, const struct return_answer *runs)
{
	struct spread caller = SPREAD(runs, caller_ns), total = SPREAD(runs, total_ns);
	uint64_t n = cell->holes;

	cell->caller_ns = each(caller.median, n);
	cell->caller_min_ns = each(caller.min, n);
	cell->caller_max_ns = each(caller.max, n);
	cell->caller_cpu_ns = each(SPREAD(runs, caller_cpu_ns).median, n);
	cell->total_ns = each(total.median, n);
	cell->min_ns = each(total.min, n);
	cell->max_ns = each(total.max, n);
	cell->cpu_ns = each(SPREAD(runs, cpu_ns).median, n);
	cell->usage_bytes = SPREAD(runs, usage_bytes).median;
	cell->rss_bytes = SPREAD(runs, rss_bytes).median;
	cell->back_bytes = cell->usage_bytes == TABLE_UNKNOWN ? cell->rss_bytes : cell->usage_bytes;
	cell->accepted_bytes = SPREAD(runs, accepted_bytes).median;
	cell->by = by_name(runs[plan.count - 1].by);
}

static void fill_absent(struct cell *cell, const struct return_answer *runs)
{
	cell->absent = runs[0].reason;
	cell->caller_ns = cell->caller_min_ns = cell->caller_max_ns = cell->caller_cpu_ns = TABLE_UNKNOWN;
	cell->total_ns = cell->min_ns = cell->max_ns = cell->cpu_ns = TABLE_UNKNOWN;
	cell->back_bytes = cell->usage_bytes = cell->rss_bytes = cell->accepted_bytes = TABLE_UNKNOWN;
}

static struct cell make_cell(unsigned load, unsigned size, enum return_way way)
{
	const struct return_answer *runs = answers[load][size][way];
	struct return_plan of = cell_plan(load, size, way);
	struct cell cell = {
		.head = make_head("cell", !contained_group.is_new),
		.load = load_names[load],
		.way = return_way_name(way),
		.hole_bytes = of.hole_bytes,
		.holes = of.holes,
		.asked_bytes = of.holes * of.hole_bytes,
		.slowest_milli = TABLE_UNKNOWN,
		.is_slowest = TABLE_UNKNOWN,
		.is_apart = TABLE_UNKNOWN,
	};

	if (runs[0].absent)
		fill_absent(&cell, runs);
	else
		fill_cell(&cell, runs);
	return cell;
}

/* Against the forced ways that are there; with one alone auto can do nothing but take it. */
static void judge_auto(struct cell *of_size)
{
	struct cell *chosen = &of_size[RETURN_AUTO];
	const struct cell *slowest = NULL;
	unsigned n = 0;

	for (enum return_way way = RETURN_MADVISE; way <= RETURN_URING; way++) {
		if (of_size[way].absent != NULL)
			continue;
		n++;
		if (slowest == NULL || of_size[way].total_ns > slowest->total_ns)
			slowest = &of_size[way];
	}
	if (n < 2 || slowest->total_ns == 0)
		return;
	chosen->slowest = slowest->way;
	chosen->slowest_milli = chosen->total_ns * 1000 / slowest->total_ns;
	chosen->is_slowest = chosen->slowest_milli > SLOWER_MILLI;
	chosen->is_apart = chosen->is_slowest && chosen->min_ns > slowest->max_ns;
}

/* TABLE_UNKNOWN is no number. */
static void keep_most(uint64_t *most, uint64_t number)
{
	if (number != TABLE_UNKNOWN && (*most == TABLE_UNKNOWN || number > *most))
		*most = number;
}

static void make_ratios(unsigned load)
{
	struct ratios *ret = &ratios[load];

	*ret = (struct ratios){
		.head = make_head("ratios", !contained_group.is_new),
		.load = load_names[load],
		.vector_gain_milli = TABLE_UNKNOWN,
		.uring_caller_ns = TABLE_UNKNOWN,
		.uring_caller_cpu_ns = TABLE_UNKNOWN,
		.handover_caller_ns = TABLE_UNKNOWN,
	};
	for (unsigned size = 0; size < plan.sizes; size++) {
		const struct cell *of_size = cells[load][size];
		const struct cell *vector = &of_size[RETURN_VECTOR], *uring = &of_size[RETURN_URING], *chosen = &of_size[RETURN_AUTO];

		if (vector->hole_bytes == 64 * KIB && vector->absent == NULL && vector->total_ns > 0)
			ret->vector_gain_milli = of_size[RETURN_MADVISE].total_ns * 1000 / vector->total_ns;
		if (uring->holes <= RING_ENTRIES) {
			keep_most(&ret->uring_caller_ns, uring->caller_ns);
			keep_most(&ret->uring_caller_cpu_ns, uring->caller_cpu_ns);
		}
		keep_most(&ret->handover_caller_ns, of_size[RETURN_HAND_OVER].caller_ns);
		ret->auto_cells += chosen->is_slowest != TABLE_UNKNOWN;
		ret->auto_slowest_cells += chosen->is_slowest == 1;
		ret->auto_apart_cells += chosen->is_apart == 1;
	}
}

static struct huge make_huge(enum huge_way way)
{
	const struct huge_answer *runs = huge_answers[way];
	bool absent = runs[0].absent != 0;

#define MEDIAN(member) (absent ? TABLE_UNKNOWN : measuring_spread(&runs[0].member, sizeof(runs[0]), plan.count).median)
	return (struct huge){
		.head = make_head("huge", !contained_group.is_new),
		.way = huge_way_name(way),
		.absent = absent ? runs[0].reason : NULL,
		.asked_bytes = HUGE_TEST_BYTES / 2,
		.rss_bytes = MEDIAN(rss_bytes),
		.usage_bytes = MEDIAN(usage_bytes),
		.rewrite_bytes = MEDIAN(rewrite_bytes),
	};
#undef MEDIAN
}

static void summarise(void)
{
	measuring_kernel(kernel_release);
	for (unsigned load = 0; load < plan.loads; load++) {
		for (unsigned size = 0; size < plan.sizes; size++) {
			for (enum return_way way = 0; way < RETURN_WAYS; way++)
				cells[load][size][way] = make_cell(load, size, way);
			judge_auto(cells[load][size]);
		}
		make_ratios(load);
	}
	for (enum huge_way way = 0; way < HUGE_WAYS; way++)
		huges[way] = make_huge(way);
}

/* ---- printing ---- */

static void print_cells(unsigned load)
{
	static struct cell rows[SIZES_MAX * RETURN_WAYS];

	for (unsigned size = 0; size < plan.sizes; size++)
		memcpy(&rows[size * RETURN_WAYS], cells[load][size], sizeof(cells[load][size]));
	printf("\nthe other processor %s:\n", load_names[load]);
	table_print_rows(stdout, cell_fields, array_len(cell_fields), rows, plan.sizes * RETURN_WAYS, sizeof(rows[0]), false);
}

static void print_absent(void)
{
	for (enum return_way way = 0; way < RETURN_WAYS; way++)
		if (cells[0][0][way].absent != NULL)
			printf("%s: not here: %s\n", cells[0][0][way].way, cells[0][0][way].absent);
}

static void print_huge(void)
{
	if (huges[0].absent != NULL) {
		printf("\nhuge pages: not here: %s\n", huges[0].absent);
		return;
	}
	printf("\nhalf of each huge page returned: resident memory and use fell by; use after\nwriting it again, against before:\n");
	table_print_rows(stdout, huge_fields, array_len(huge_fields), huges, HUGE_WAYS, sizeof(huges[0]), false);
}

/* Of each size how auto compares with the slowest forced way. */
static void print_auto(unsigned load)
{
	printf("auto / slowest, %s:", load_names[load]);
	for (unsigned size = 0; size < plan.sizes; size++) {
		const struct cell *chosen = &cells[load][size][RETURN_AUTO];

		if (chosen->slowest_milli != TABLE_UNKNOWN)
			printf("%s %.2f", size == 0 ? "" : ",", (double)chosen->slowest_milli / 1000);
	}
	if (ratios[load].auto_cells == 0)
		puts(" there is only one way");
	else if (ratios[load].auto_slowest_cells == 0)
		puts("; never the slowest by an eighth");
	else
		printf(";\n  the slowest by more than an eighth in %ju of %ju, in %ju with all its runs\n",
			(uintmax_t)ratios[load].auto_slowest_cells, (uintmax_t)ratios[load].auto_cells,
			(uintmax_t)ratios[load].auto_apart_cells);
}

static void print_ratios(unsigned load)
{
	const struct ratios *of = &ratios[load];

	if (of->vector_gain_milli != TABLE_UNKNOWN)
		printf("madvise / vector, %u holes of 64 KiB, %s: %.1f\n", holes_of(64 * KIB), of->load, (double)of->vector_gain_milli / 1000);
	if (of->uring_caller_ns != TABLE_UNKNOWN)
		printf("uring, up to %u holes, the caller pays at most, %s: %.2f us a hole (processor time: %.2f)\n", RING_ENTRIES, of->load,
			(double)of->uring_caller_ns / 1000, (double)of->uring_caller_cpu_ns / 1000);
	if (of->handover_caller_ns != TABLE_UNKNOWN)
		printf("handover, the caller pays at most, %s: %.2f us a hole\n", of->load, (double)of->handover_caller_ns / 1000);
	print_auto(load);
}

static void print_text(void)
{
	printf("returning %u holes, or 32 MiB, at a time: us a hole until the caller goes on;\n"
		   "until the kernel answered for all, least, most; processor time; what came back,\n"
		   "counted by its %s; medians of %u; Linux %s,\nlull %s\n",
		plan.holes, cells[0][0][0].head.counted_in, plan.count, kernel_release, LULL_VERSION);
	for (unsigned load = 0; load < plan.loads; load++)
		print_cells(load);
	print_absent();
	print_huge();
	putchar('\n');
	for (unsigned load = 0; load < plan.loads; load++)
		print_ratios(load);
}

static bool print_json(void)
{
	bool ok = true;

	for (unsigned load = 0; load < plan.loads; load++)
		for (unsigned size = 0; size < plan.sizes; size++)
			for (enum return_way way = 0; ok && way < RETURN_WAYS; way++)
				ok = table_print_json(stdout, SCHEMA, cell_fields, array_len(cell_fields), &cells[load][size][way]);
	for (enum huge_way way = 0; ok && way < HUGE_WAYS; way++)
		ok = table_print_json(stdout, SCHEMA, huge_fields, array_len(huge_fields), &huges[way]);
	for (unsigned load = 0; ok && load < plan.loads; load++)
		ok = table_print_json(stdout, SCHEMA, ratio_fields, array_len(ratio_fields), &ratios[load]);
	return ok;
}

static enum tool_exit report(void)
{
	bool slowest = false;

	summarise();
	if (!want_json)
		print_text();
	else if (!print_json()) {
		say(COMMAND, "cannot write JSON");
		return TOOL_CANNOT;
	}
	for (unsigned load = 0; load < plan.loads; load++)
		slowest |= ratios[load].auto_slowest_cells > 0;
	return want_check && slowest ? TOOL_NO : TOOL_OK;
}

static int return_command_run(int n, char **operands)
{
	enum tool_exit status;

	plan.count = COUNT_DEFAULT;
	plan.holes = HOLES_MAX;
	plan.loads = want_busy ? LOADS : 1;
	if (!measuring_no_operands(COMMAND, n, operands) ||
		!measuring_number(COMMAND, "--count", count_text, 1, MEASURING_RUNS_MAX, &plan.count) ||
		!measuring_number(COMMAND, "--holes", holes_text, HOLES_MIN, HOLES_MAX, &plan.holes) || !parse_sizes(sizes_text))
		return TOOL_CANNOT;
	unsetenv("LULL_RETURN"); /* would make auto one of the others */
	contained_begin();
	status = measure();
	if (status == TOOL_OK)
		status = report();
	contained_end(COMMAND);
	return status;
}

const struct command measure_return_command = {
	.name = COMMAND,
	.summary = "what each way of returning memory costs",
	.usage = "[OPTION...]",
	.about = "What returning holes of several sizes costs the caller and in all, each way\n"
		 "lull has, and what lull chooses; and halves of huge pages. Takes about half a\n"
		 "minute, with --busy twice that. Exit status: 0 measured; 1 with --check, auto\n"
		 "was the slowest somewhere; 2 could not run; 3 nothing can be returned here.\n",
	.options = options,
	.n_options = array_len(options),
	.examples = "  lull measure return\n"
		    "  lull measure return --busy --check --sizes 64K,4M\n"
		    "  lull measure return --json | jq -c '[.hole_bytes, .way, .total_ns]'\n",
	.run = return_command_run,
};
