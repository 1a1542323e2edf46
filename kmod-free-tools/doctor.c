/* SPDX-License-Identifier: MIT */
/*
 * `lull doctor`: what the kernel, the container and its limits allow lull, what is lost without the rest, and what would change that. For
 * a process under lull, by what that process found and left on its statistics page; else by asking here and now, with the library's own
 * probes.
 */
#include "commands.h"
#include "common/diagnosis.h"
#include "common/facts.h"
#include "common/procfs.h"
#include "common/say.h"
#include "common/stats_map.h"
#include "common/table.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "lull.doctor.1"
#define COLUMNS 78
#define LABEL 20

static bool want_json;
static const char *root;

static const struct option_row options[] = {
	{.letter = 'j', .name = "json", .help = "one JSON object (schema " SCHEMA ")", .set.flag = &want_json},
	{.name = "root", .value = "DIR", .help = "read DIR/proc, a recorded tree, instead of /proc", .set.text = &root},
};

struct doctor {
	int pid; /* 0: none was given */
	char command[FACT_TEXT];
	bool is_minimal;
	struct facts facts;
	struct cap_answer answers[CAPS_COUNT];
};

/* --- what is there ---------------------------------------------------------------------------------------------------------------- */

/* As a process started from here would have it. What is wrong in it that process will say. */
static void obey_environment(void)
{
	const char *at = getenv("LULL_CAPS");
	enum cap cap;

	while (at != NULL && *at != '\0') {
		size_t len = strcspn(at, ",");

		if (*at == '-' && caps_find(at + 1, len - 1, &cap))
			caps_force_off(cap);
		at += len + (at[len] == ',');
	}
}

static void ask_here(struct doctor *doctor)
{
	obey_environment();
	for (unsigned i = 0; i < CAPS_COUNT; i++) {
		enum cap cap = (enum cap)i;

		caps_has(cap);
		doctor->answers[i] = (struct cap_answer){.state = caps_state(cap), .reason = caps_reason(cap)};
	}
}

/* A word of a newer or older lull may hold what this command does not know: not asked. */
static void take_from_page(struct doctor *doctor, const struct lull_stats *stats)
{
	const uint64_t words[] = {stats->caps_low, stats->caps_high};

	for (unsigned i = 0; i < CAPS_COUNT; i++) {
		uint64_t word = words[i / LULL_STATS_CAPS_WORD];
		unsigned state = word == TABLE_UNKNOWN ? 0 : (unsigned)(word >> (3 * (i % LULL_STATS_CAPS_WORD)) & 7);

		doctor->answers[i] = (struct cap_answer){.state = state <= CAP_STATE_OFF ? (enum cap_state)state : CAP_STATE_UNKNOWN};
	}
	doctor->is_minimal = stats->caps_high != TABLE_UNKNOWN && (stats->caps_high & LULL_STATS_CAPS_MINIMAL) != 0;
}

static bool is_missing(const struct cap_answer *answer)
{
	return answer->state != CAP_STATE_LIVE && answer->state != CAP_STATE_UNKNOWN;
}

/* What CAP stands on and is missing, else CAP. */
static enum cap find_lacking(const struct doctor *doctor, enum cap cap)
{
	for (unsigned i = 0; i < CAPS_COUNT; i++) {
		enum cap base = (enum cap)i;

		if (caps_stands_on(cap, base) && is_missing(&doctor->answers[i]) && !(base == CAPS_UFFD && doctor->answers[i].door_is_open))
			return base;
	}
	return cap;
}

static void note_relations(struct doctor *doctor)
{
	bool open = doctor->answers[CAPS_UFFD].state == CAP_STATE_LIVE || doctor->answers[CAPS_UFFD_DEV].state == CAP_STATE_LIVE;

	for (unsigned i = 0; i < CAPS_COUNT; i++) {
		doctor->answers[i].door_is_open = open;
		doctor->answers[i].is_minimal = doctor->is_minimal;
	}
	for (unsigned i = 0; i < CAPS_COUNT; i++)
		doctor->answers[i].lacks = find_lacking(doctor, (enum cap)i);
}

/* --- as text ---------------------------------------------------------------------------------------------------------------------- */

static void print_line(const char *label, const char *text)
{
	if (text != NULL && *text != '\0')
		printf("  %-*s %s\n", LABEL - 2, label, text);
}

static void print_loss(const struct finding *finding)
{
	printf("%-*s %s\n", LABEL, finding->name, finding->state);
	print_line("because", finding->why);
	print_line("without it", finding->without);
	print_line("to change it", finding->change);
	print_line("filter: allow", finding->calls);
}

/* Names behind LABEL, wrapped. */
struct names {
	size_t column;
};

static void print_name(struct names *names, const char *label, const char *name)
{
	if (names->column == 0)
		names->column = (size_t)printf("%-*s", LABEL, label);
	else if (names->column + strlen(name) + 2 > COLUMNS)
		names->column = (size_t)(printf(",\n%-*s", LABEL, "") - 2);
	else
		names->column += (size_t)printf(",");
	names->column += (size_t)printf(" %s", name);
}

static void find_cap(const struct doctor *doctor, size_t i, struct finding *ret)
{
	enum cap cap = diagnosis_cap(i);

	diagnosis_of_cap(cap, &doctor->answers[cap], &doctor->facts, ret);
}

/* What is gone with BASE is told with it. */
static void print_also_lost(const struct doctor *doctor, enum cap base)
{
	struct names names = {0};

	for (size_t i = 0; i < CAPS_COUNT; i++) {
		enum cap cap = diagnosis_cap(i);

		if (cap != base && doctor->answers[cap].lacks == base)
			print_name(&names, "  and with it", caps_name(cap));
	}
	if (names.column > 0)
		putchar('\n');
}

/* What a filter of the program's own rules out is told in one sentence. */
static bool is_ruled_out(const struct doctor *doctor, enum cap cap)
{
	return doctor->is_minimal && doctor->answers[cap].state == CAP_STATE_OFF;
}

static bool is_told_by_itself(const struct doctor *doctor, enum cap cap)
{
	return doctor->answers[cap].lacks == cap && !is_ruled_out(doctor, cap);
}

/* Returns whether one of them is a filter's doing. */
static bool print_cap_losses(const struct doctor *doctor)
{
	struct finding finding;
	bool filtered = false;

	for (size_t i = 0; i < CAPS_COUNT; i++) {
		find_cap(doctor, i, &finding);
		if (!finding.is_loss || !is_told_by_itself(doctor, diagnosis_cap(i)))
			continue;
		print_loss(&finding);
		print_also_lost(doctor, diagnosis_cap(i));
		putchar('\n');
		filtered |= finding.calls != NULL;
	}
	return filtered;
}

static void print_fact_losses(const struct doctor *doctor)
{
	struct finding finding;

	for (size_t i = 0; i < diagnosis_n_facts(); i++) {
		diagnosis_of_fact(i, &doctor->facts, &finding);
		if (!finding.is_loss)
			continue;
		print_loss(&finding);
		putchar('\n');
	}
}

/* The capabilities in STATE that were not told above, by name. */
static void print_state(const struct doctor *doctor, enum cap_state state)
{
	struct names names = {0};
	struct finding finding;

	for (size_t i = 0; i < CAPS_COUNT; i++) {
		enum cap cap = diagnosis_cap(i);

		find_cap(doctor, i, &finding);
		if (doctor->answers[cap].state == state && (is_ruled_out(doctor, cap) || (!finding.is_loss && is_told_by_itself(doctor, cap))))
			print_name(&names, caps_state_name(state), finding.name);
	}
	if (names.column > 0)
		putchar('\n');
}

static void print_facts(const struct doctor *doctor)
{
	struct finding finding;

	for (size_t i = 0; i < diagnosis_n_facts(); i++) {
		diagnosis_of_fact(i, &doctor->facts, &finding);
		printf("%-*s %s\n", LABEL, finding.name, finding.state);
	}
}

static void print_filter_help(void)
{
	puts("How a filter is made to allow calls:\n"
	     "  Docker, Podman  the runtime's default profile with those names added:\n"
	     "                  --security-opt seccomp=FILE; process_madvise comes with\n"
	     "                  --cap-add SYS_PTRACE\n"
	     "  Kubernetes      securityContext: seccompProfile: type: Localhost,\n"
	     "                  localhostProfile: FILE\n"
	     "  systemd         SystemCallFilter=NAME NAME\n");
}

static void print_text(const struct doctor *doctor)
{
	if (doctor->pid == 0)
		printf("A process started from here; Linux %s, lull %s\n\n", doctor->facts.kernel, LULL_VERSION);
	else
		printf("pid %d (%s); Linux %s, lull %s\n\n", doctor->pid, doctor->command, doctor->facts.kernel, LULL_VERSION);
	if (doctor->is_minimal)
		puts("It installed a system call filter. Since then lull makes no system call but\n"
		     "mmap, munmap, mprotect, madvise and futex, and asks for nothing else.\n");
	bool filtered = print_cap_losses(doctor);
	print_fact_losses(doctor);
	if (filtered)
		print_filter_help();
	for (int state = CAP_STATE_LIVE; state <= CAP_STATE_OFF; state++)
		print_state(doctor, (enum cap_state)state);
	print_state(doctor, CAP_STATE_UNKNOWN);
	putchar('\n');
	print_facts(doctor);
}

/* --- as JSON ---------------------------------------------------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
	return text == NULL || *text == '\0' ? json_null() : json_string(text);
}

static void append_finding(json_t *list, const struct finding *finding, const char *value_key)
{
	json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:b}", "name", finding->name, value_key, finding->state, "why",
					      text_or_null(finding->why), "without", text_or_null(finding->without), "change",
					      text_or_null(finding->change), "allow", text_or_null(finding->calls), "is_loss",
					      finding->is_loss));
}

static bool print_json(const struct doctor *doctor, bool complete)
{
	json_t *capabilities = json_array(), *facts = json_array(), *object;
	struct finding finding;
	bool done;

	for (size_t i = 0; i < CAPS_COUNT; i++) {
		find_cap(doctor, i, &finding);
		append_finding(capabilities, &finding, "state");
	}
	for (size_t i = 0; i < diagnosis_n_facts(); i++) {
		diagnosis_of_fact(i, &doctor->facts, &finding);
		append_finding(facts, &finding, "value");
	}
	object = json_pack("{s:s, s:o, s:o, s:s, s:s, s:b, s:b, s:o, s:o}", "schema", SCHEMA, "pid",
			   doctor->pid == 0 ? json_null() : json_integer(doctor->pid), "command", text_or_null(doctor->command), "kernel",
			   doctor->facts.kernel, "lull_version", LULL_VERSION, "is_minimal", doctor->is_minimal, "is_complete", complete,
			   "capabilities", capabilities, "facts", facts);
	done = object != NULL && json_dumpf(object, stdout, JSON_COMPACT | JSON_ENSURE_ASCII) == 0 && putchar('\n') != EOF;
	json_decref(object);
	return done;
}

/* --- the command ------------------------------------------------------------------------------------------------------------------ */

static bool is_complete(const struct doctor *doctor)
{
	struct finding finding;

	for (size_t i = 0; i < CAPS_COUNT; i++) {
		find_cap(doctor, i, &finding);
		if (finding.is_loss)
			return false;
	}
	for (size_t i = 0; i < diagnosis_n_facts(); i++) {
		diagnosis_of_fact(i, &doctor->facts, &finding);
		if (finding.is_loss)
			return false;
	}
	return true;
}

static int report(struct doctor *doctor)
{
	bool complete;

	note_relations(doctor);
	complete = is_complete(doctor);
	if (!want_json) {
		print_text(doctor);
	} else if (!print_json(doctor, complete)) {
		say("doctor", "cannot write JSON");
		return TOOL_CANNOT;
	}
	return complete ? TOOL_OK : TOOL_NO;
}

static int say_refused(int pid, int err)
{
	if (err == EACCES || err == EPERM)
		say("doctor", "not permitted to look into pid %d: needs its user, or CAP_SYS_PTRACE", pid);
	else if (err == ENOENT || err == ESRCH)
		say("doctor", "pid %d: no such process", pid);
	else
		say("doctor", "cannot read pid %d: %s", pid, strerror(err));
	return TOOL_CANNOT;
}

static int say_no_page(int process, int pid, enum stats_map_result result)
{
	switch (result) {
	case STATS_MAP_REFUSED:
		return say_refused(pid, errno);
	case STATS_MAP_VERSION:
	case STATS_MAP_DAMAGED:
		say("doctor", "pid %d has a " LULL_STATS_MEMFD_NAME " memfd that this command cannot read", pid);
		return TOOL_CANNOT;
	default:
		if (procfs_has_mapped(process, "liblull.so"))
			say("doctor", "pid %d has no statistics: nothing returned yet, LULL_STATS=0, or its memfd closed; try: lull doctor", pid);
		else
			say("doctor", "pid %d does not run under lull; for what it would get: lull doctor", pid);
		return TOOL_CANNOT;
	}
}

static int doctor_process(int process, int pid)
{
	struct doctor doctor = {.pid = pid};
	struct lull_stats stats;
	enum stats_map_result result = stats_map_read(process, 0, root == NULL, &stats);

	if (result != STATS_MAP_OK)
		return say_no_page(process, pid, result);
	if (procfs_status(process, "Name", doctor.command, sizeof(doctor.command)) != 0)
		doctor.command[0] = '\0';
	say_clean(doctor.command);
	take_from_page(&doctor, &stats);
	facts_read(root == NULL ? "" : root, process, &doctor.facts);
	return report(&doctor);
}

static int doctor_here(void)
{
	struct doctor doctor = {0};
	int process = procfs_open("", getpid());

	if (process < 0) {
		say("doctor", "cannot read /proc: %s", strerror(-process));
		return TOOL_CANNOT;
	}
	facts_read("", process, &doctor.facts);
	close(process);
	ask_here(&doctor);
	return report(&doctor);
}

static int doctor_run(int n, char **operands)
{
	int pid, process, status;

	if (n > 1) {
		say_try_help("doctor", "one pid at a time, '%s' is too much", operands[1]);
		return TOOL_CANNOT;
	}
	if (n == 0 && root != NULL) {
		say_try_help("doctor", "--root needs a pid: a recorded tree cannot be asked");
		return TOOL_CANNOT;
	}
	if (n == 0)
		return doctor_here();
	if (!procfs_parse_pid(operands[0], &pid)) {
		say_try_help("doctor", "'%s' is not a pid: a number from 1 to %d", operands[0], PROCFS_PID_MAX);
		return TOOL_CANNOT;
	}
	process = procfs_open(root == NULL ? "" : root, pid);
	if (process < 0)
		return say_refused(pid, -process);
	status = doctor_process(process, pid);
	close(process);
	return status;
}

const struct command doctor_command = {
	.name = "doctor",
	.summary = "say what this system allows lull, and what would help",
	.usage = "[OPTION...] [PID]",
	.about = "Says what kernel, container and limits allow lull, what is lost without the\n"
		 "rest, and the setting that would change it: for a process started from here,\n"
		 "or as process PID found it. Exit status: 0 nothing is missing; 1 something\n"
		 "is; 2 could not look.\n",
	.options = options,
	.n_options = sizeof(options) / sizeof(options[0]),
	.examples = "  lull doctor\n"
		    "  lull doctor $(pidof redis-server)\n"
		    "  docker run --rm IMAGE lull doctor\n"
		    "  lull doctor --json | jq '.capabilities[] | select(.is_loss)'\n",
	.run = doctor_run,
};
