/* SPDX-License-Identifier: MIT */
/*
 * The table of options, and what each means to the layers below. Parsing is pure; options_apply_once is the only part that has effects.
 */
#include "api/options.h"

#include "api/block.h"
#include "api/file.h"
#include "api/stats.h"
#include "kernel/advise.h"
#include "kernel/caps.h"
#include "kernel/report.h"
#include "reclaim/reclaim.h"
#include "reclaim/track.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define PREFIX "LULL_"
/* Of a name or value that is refused, this much is shown. */
#define SHOWN_BYTES 60
/* A day: what is quiet for longer has long been collected. */
#define STAGE_MAX_S 86400

struct option {
	const char *name;     /* behind the prefix */
	const char *accepted; /* for people */
	bool (*parse)(struct options *options, const char *value);
};

/* --- values --------------------------------------------------------------------------------------------------------------------- */

static bool parse_switch(bool *ret, const char *value)
{
	if ((value[0] != '0' && value[0] != '1') || value[1] != '\0')
		return false;
	*ret = value[0] == '1';
	return true;
}

static bool parse_auto_idle(struct options *options, const char *value)
{
	return parse_switch(&options->auto_idle, value);
}

static bool parse_scavenger(struct options *options, const char *value)
{
	return parse_switch(&options->scavenger, value);
}

static bool parse_stats(struct options *options, const char *value)
{
	return parse_switch(&options->stats, value);
}

static bool parse_policy(struct options *options, const char *value)
{
	bool seed = strcmp(value, "seed") == 0;

	if (!seed && strcmp(value, "default") != 0)
		return false;
	options->seed = seed;
	return true;
}

/* Decimal digits; *value moves behind them. */
static bool parse_number(uint32_t *ret, const char **value, uint32_t max)
{
	uint32_t n = 0;

	if (**value < '0' || **value > '9')
		return false;
	for (; **value >= '0' && **value <= '9'; ++*value) {
		n = n * 10 + (uint32_t)(**value - '0');
		if (n > max)
			return false;
	}
	*ret = n;
	return true;
}

static bool parse_stages(struct options *options, const char *value)
{
	uint32_t after_s[OPTIONS_STAGES] = {0};
	unsigned n = 0;

	if (strcmp(value, "0") == 0) {
		options->stages = 0;
		return true;
	}
	do {
		uint32_t before = n == 0 ? 0 : after_s[n - 1];
		if (n == OPTIONS_STAGES || !parse_number(&after_s[n], &value, STAGE_MAX_S) || after_s[n] <= before)
			return false;
		n++;
	} while (*value++ == ',');
	if (value[-1] != '\0')
		return false;
	options->stages = n;
	memcpy(options->stage_s, after_s, sizeof(after_s));
	return true;
}

static bool parse_file_hints(struct options *options, const char *value)
{
	return parse_switch(&options->file_hints, value);
}

static bool parse_track(struct options *options, const char *value)
{
	static const char *const modes[] = {[TRACK_AUTO] = "auto", [TRACK_OFF] = "off", [TRACK_FULL] = "full"};

	for (unsigned mode = 0; mode < array_len(modes); mode++) {
		if (strcmp(value, modes[mode]) == 0) {
			options->track = mode;
			return true;
		}
	}
	return false;
}

static bool parse_return(struct options *options, const char *value)
{
	static const char *const ways[] = {
		[OPTIONS_WAY_AUTO] = "auto",
		[OPTIONS_WAY_URING] = "uring",
		[OPTIONS_WAY_VECTOR] = "vector",
		[OPTIONS_WAY_MADVISE] = "madvise",
	};

	for (unsigned way = 0; way < array_len(ways); way++) {
		if (strcmp(value, ways[way]) == 0) {
			options->way = (enum options_way)way;
			return true;
		}
	}
	return false;
}

/* One "-NAME"; *value moves behind it. */
static bool parse_cap(uint64_t *ret_off, const char **value)
{
	size_t len = strcspn(*value, ",");
	enum cap cap;

	if ((*value)[0] != '-' || !caps_find(*value + 1, len - 1, &cap))
		return false;
	*ret_off |= UINT64_C(1) << cap;
	*value += len;
	return true;
}

static bool parse_caps(struct options *options, const char *value)
{
	uint64_t off = 0;

	options->minimal = strcmp(value, "none") == 0;
	if (options->minimal)
		return true;

	for (;;) {
		if (!parse_cap(&off, &value))
			return false;
		if (*value++ == '\0')
			break;
	}
	options->caps_off = off;
	return true;
}

/* --- the table ------------------------------------------------------------------------------------------------------------------- */

static const struct option table[] = {
	{"AUTO_IDLE", "0 or 1", parse_auto_idle},
	{"SCAVENGER", "0 or 1", parse_scavenger},
	{"STATS", "0 or 1", parse_stats},
	{"POLICY", "default or seed", parse_policy},
	{"IDLE_STAGES", "0, or up to 4 ascending numbers of seconds from 1 to 86400 joined by commas", parse_stages},
	{"FILE_HINTS", "0 or 1", parse_file_hints},
	{"RETURN", "auto, uring, vector or madvise", parse_return},
	{"TRACK", "auto, off or full", parse_track},
	{"CAPS", "none, or -NAME, or several of these joined by commas; NAME: ", parse_caps},
};

/* Read by others around a program, which inherits them: the tests' path of the library. */
static const char *const not_ours[] = {"SO"};

/* --- complaints ------------------------------------------------------------------------------------------------------------------- */

/* Copies at most SHOWN_BYTES of LEN bytes; "..." where something is missing. */
static const char *shown(char (*buf)[SHOWN_BYTES + 4], const char *text, size_t len)
{
	size_t n = min_size(len, SHOWN_BYTES);

	memcpy(*buf, text, n);
	strcpy(*buf + n, n < len ? "..." : "");
	return *buf;
}

static void complain_name(const char *name, size_t len)
{
	char buf[SHOWN_BYTES + 4];
	const char *parts[3 + 2 * array_len(table)] = {"unknown variable " PREFIX, shown(&buf, name, len), "; there are"};
	size_t n = 3;

	for (size_t i = 0; i < array_len(table); i++) {
		parts[n++] = i == 0 ? " " PREFIX : ", " PREFIX;
		parts[n++] = table[i].name;
	}
	report_warning(parts, n);
}

static void complain_value(const struct option *option, const char *value)
{
	char buf[SHOWN_BYTES + 4];
	const char *cut = shown(&buf, value, strlen(value));
	const char *parts[6 + 2 * CAPS_COUNT] = {PREFIX, option->name, "=", cut, " is not understood; accepted: ", option->accepted};
	size_t n = 6;

	for (unsigned cap = 0; option->parse == parse_caps && cap < CAPS_COUNT; cap++) {
		parts[n++] = cap == 0 ? "" : ", ";
		parts[n++] = caps_name((enum cap)cap);
	}
	report_warning(parts, n);
}

/* --- parsing ---------------------------------------------------------------------------------------------------------------------- */

static bool is_name(const char *known, const char *name, size_t len)
{
	return strlen(known) == len && memcmp(known, name, len) == 0;
}

static const struct option *find(const char *name, size_t len)
{
	for (size_t i = 0; i < array_len(table); i++)
		if (is_name(table[i].name, name, len))
			return &table[i];
	return NULL;
}

static bool is_not_ours(const char *name, size_t len)
{
	for (size_t i = 0; i < array_len(not_ours); i++)
		if (is_name(not_ours[i], name, len))
			return true;
	return false;
}

/* setting: NAME=VALUE behind the prefix. True when there was nothing to complain about. */
static bool parse_setting(struct options *options, const char *setting)
{
	size_t len = strcspn(setting, "=");
	const struct option *option = find(setting, len);

	if (is_not_ours(setting, len))
		return true;
	if (option == NULL) {
		complain_name(setting, len);
		return false;
	}
	const char *value = setting + len + (setting[len] == '=');
	if (option->parse(options, value))
		return true;
	complain_value(option, value);
	return false;
}

unsigned options_parse(struct options *ret, char *const *env)
{
	struct options options = {
		.auto_idle = true,
		.scavenger = true,
		.stats = true,
		.file_hints = true,
		.stage_s = {30, 75},
		.stages = 2,
	};
	unsigned complaints = 0;

	for (; env != NULL && *env != NULL; env++)
		if (strncmp(*env, PREFIX, strlen(PREFIX)) == 0)
			complaints += !parse_setting(&options, *env + strlen(PREFIX));
	*ret = options;
	return complaints;
}

/* --- effects ---------------------------------------------------------------------------------------------------------------------- */

static void force_way(enum options_way way)
{
	static const enum advise_way ways[] = {
		[OPTIONS_WAY_URING] = ADVISE_URING,
		[OPTIONS_WAY_VECTOR] = ADVISE_VECTOR,
		[OPTIONS_WAY_MADVISE] = ADVISE_LOOP,
	};

	if (way != OPTIONS_WAY_AUTO)
		advise_set_way(ways[way]);
}

static void apply(const struct options *options)
{
	block_set_auto_idle(options->auto_idle);
	reclaim_enable_scavenger(options->scavenger);
	reclaim_set_policy(options->seed);
	reclaim_set_stages(options->stage_s, options->stages);
	stats_publish(options->stats);
	file_set_hints(options->file_hints);
	track_set_mode((enum track_mode)options->track);
	if (options->minimal)
		caps_minimal();
	for (unsigned cap = 0; cap < CAPS_COUNT; cap++)
		if (options->caps_off >> cap & 1)
			caps_force_off((enum cap)cap);
	force_way(options->way);
}

void options_apply_once(void)
{
	static atomic_flag done = ATOMIC_FLAG_INIT;
	struct options options;

	if (environ == NULL || atomic_flag_test_and_set(&done))
		return;
	options_parse(&options, getauxval(AT_SECURE) ? NULL : environ);
	apply(&options);
}
