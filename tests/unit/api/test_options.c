/* SPDX-License-Identifier: MIT */
/*
 * Suite options: which settings are accepted, what they mean, and the exact line for those that are not. The parser gets environments made
 * here; its lines are caught in a pipe in place of standard error.
 */
#include "api/options.h"

#include "kernel/caps.h"
#include "reclaim/track.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct options options;
static char said[4096];

#define ENV(...) ((char *const[]){__VA_ARGS__, NULL})

/* Parses ENV into options, with what it says in said. Returns the number of complaints. What is said here fits a pipe. */
static unsigned parse(char *const *env)
{
	int ends[2], saved = dup(STDERR_FILENO);
	unsigned complaints;
	ssize_t n;

	ck_assert_int_eq(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	complaints = options_parse(&options, env);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(ends[1]);
	n = read(ends[0], said, sizeof(said) - 1);
	said[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	return complaints;
}

static void ck_accepted(char *const *env)
{
	ck_assert_uint_eq(parse(env), 0);
	ck_assert_str_eq(said, "");
}

static void ck_refused(char *const *env, const char *line)
{
	ck_assert_uint_eq(parse(env), 1);
	ck_assert_str_eq(said, line);
}

static void ck_defaults(void)
{
	ck_assert(options.auto_idle);
	ck_assert(options.scavenger);
	ck_assert(options.stats);
	ck_assert(!options.seed);
	ck_assert_uint_eq(options.stages, 2);
	ck_assert_uint_eq(options.stage_s[0], 30);
	ck_assert_uint_eq(options.stage_s[1], 75);
	ck_assert(options.file_hints);
	ck_assert_int_eq(options.way, OPTIONS_WAY_AUTO);
	ck_assert_uint_eq(options.caps_off, 0);
}

START_TEST(test_nothing_said_means_the_defaults)
{
	ck_accepted(NULL);
	ck_defaults();
	ck_accepted(ENV("PATH=/bin", "HOME=/", "XLULL_STATS=0", "LULL", "LULL=1", "lull_STATS=0"));
	ck_defaults();
}
END_TEST

START_TEST(test_switches_are_0_or_1)
{
	ck_accepted(ENV("LULL_AUTO_IDLE=0", "LULL_SCAVENGER=0", "LULL_STATS=0", "LULL_FILE_HINTS=0"));
	ck_assert(!options.auto_idle);
	ck_assert(!options.scavenger);
	ck_assert(!options.stats);
	ck_assert(!options.file_hints);
	ck_accepted(ENV("LULL_AUTO_IDLE=1", "LULL_SCAVENGER=1", "LULL_STATS=1", "LULL_FILE_HINTS=1"));
	ck_defaults();
}
END_TEST

START_TEST(test_each_switch_turns_only_itself)
{
	ck_accepted(ENV("LULL_SCAVENGER=0"));
	ck_assert(options.auto_idle);
	ck_assert(!options.scavenger);
	ck_assert(options.stats);
}
END_TEST

START_TEST(test_other_values_of_a_switch_are_refused_by_name)
{
	static const char *const values[] = {"", "2", "00", "01", "yes", "on", " 1", "1 ", "-1"};

	for (unsigned i = 0; i < array_len(values); i++) {
		char setting[64], line[128];

		snprintf(setting, sizeof(setting), "LULL_STATS=%s", values[i]);
		snprintf(line, sizeof(line), "lull: LULL_STATS=%s is not understood; accepted: 0 or 1\n", values[i]);
		ck_refused(ENV(setting), line);
		ck_defaults();
	}
}
END_TEST

START_TEST(test_the_policy_is_one_of_two_words)
{
	ck_accepted(ENV("LULL_POLICY=seed"));
	ck_assert(options.seed);
	ck_accepted(ENV("LULL_POLICY=default"));
	ck_defaults();
	ck_refused(ENV("LULL_POLICY=Seed"), "lull: LULL_POLICY=Seed is not understood; accepted: default or seed\n");
	ck_defaults();
}
END_TEST

START_TEST(test_idle_stages_are_seconds_in_ascending_order)
{
	static const char *const values[] = {
		"", "x", "0,1", "1,", ",1", "1,1", "2,1", "1,2,3,4,5", "86401", "99999999999", "1 ,2", "-1", "1.5", "00"};
	static const char accepted[] = "0, or up to 4 ascending numbers of seconds from 1 to 86400 joined by commas";

	ck_accepted(ENV("LULL_IDLE_STAGES=1,2,3,86400"));
	ck_assert_uint_eq(options.stages, 4);
	ck_assert_uint_eq(options.stage_s[3], 86400);
	ck_accepted(ENV("LULL_IDLE_STAGES=5"));
	ck_assert_uint_eq(options.stages, 1);
	ck_assert_uint_eq(options.stage_s[0], 5);
	ck_accepted(ENV("LULL_IDLE_STAGES=0"));
	ck_assert_uint_eq(options.stages, 0);
	for (unsigned i = 0; i < array_len(values); i++) {
		char setting[64], line[256];

		snprintf(setting, sizeof(setting), "LULL_IDLE_STAGES=%s", values[i]);
		snprintf(line, sizeof(line), "lull: LULL_IDLE_STAGES=%s is not understood; accepted: %s\n", values[i], accepted);
		ck_refused(ENV(setting), line);
		ck_defaults();
	}
}
END_TEST

START_TEST(test_the_way_of_returning_is_one_of_four_words)
{
	ck_accepted(ENV("LULL_RETURN=uring"));
	ck_assert_int_eq(options.way, OPTIONS_WAY_URING);
	ck_accepted(ENV("LULL_RETURN=vector"));
	ck_assert_int_eq(options.way, OPTIONS_WAY_VECTOR);
	ck_accepted(ENV("LULL_RETURN=madvise"));
	ck_assert_int_eq(options.way, OPTIONS_WAY_MADVISE);
	ck_accepted(ENV("LULL_RETURN=auto"));
	ck_assert_int_eq(options.way, OPTIONS_WAY_AUTO);
	ck_refused(ENV("LULL_RETURN=Vector"), "lull: LULL_RETURN=Vector is not understood; accepted: auto, uring, vector or madvise\n");
	ck_assert_int_eq(options.way, OPTIONS_WAY_AUTO);
}
END_TEST

START_TEST(test_tracking_is_one_of_three_words)
{
	ck_accepted(ENV("LULL_TRACK=full"));
	ck_assert_uint_eq(options.track, TRACK_FULL);
	ck_accepted(ENV("LULL_TRACK=off"));
	ck_assert_uint_eq(options.track, TRACK_OFF);
	ck_accepted(ENV("LULL_TRACK=auto"));
	ck_assert_uint_eq(options.track, TRACK_AUTO);
	ck_refused(ENV("LULL_TRACK=1"), "lull: LULL_TRACK=1 is not understood; accepted: auto, off or full\n");
	ck_assert_uint_eq(options.track, TRACK_AUTO);
}
END_TEST

START_TEST(test_capabilities_are_turned_off_by_name)
{
	ck_accepted(ENV("LULL_CAPS=-process_madvise"));
	ck_assert_uint_eq(options.caps_off, 1u << CAPS_PROCESS_MADVISE);
	ck_accepted(ENV("LULL_CAPS=-process_madvise,-process_madvise"));
	ck_assert_uint_eq(options.caps_off, 1u << CAPS_PROCESS_MADVISE);
	ck_assert(!options.minimal);
	ck_accepted(ENV("LULL_CAPS=none"));
	ck_assert(options.minimal);
}
END_TEST

START_TEST(test_every_capability_can_be_turned_off)
{
	char all[1024] = "LULL_CAPS=";

	for (unsigned cap = 0; cap < CAPS_COUNT; cap++) {
		char setting[64];

		snprintf(setting, sizeof(setting), "LULL_CAPS=-%s", caps_name((enum cap)cap));
		ck_accepted(ENV(setting));
		ck_assert_uint_eq(options.caps_off, UINT64_C(1) << cap);
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s-%s", cap == 0 ? "" : ",", caps_name((enum cap)cap));
	}
	ck_accepted(ENV(all));
	ck_assert_uint_eq(options.caps_off, (UINT64_C(1) << CAPS_COUNT) - 1);
}
END_TEST

/* However long the value: the line is cut at its end, and there the last name is. */
static void ck_names_all(void)
{
	for (unsigned cap = 0; cap < CAPS_COUNT; cap++) {
		char name[64];

		snprintf(name, sizeof(name), "%s %s%s", cap == 0 ? "NAME:" : ",", caps_name((enum cap)cap), cap + 1 < CAPS_COUNT ? "," : "\n");
		ck_assert_msg(strstr(said, name + (cap == 0 ? 0 : 1)) != NULL, "%s is not named in: %s", name, said);
	}
}

START_TEST(test_a_list_with_one_mistake_changes_nothing)
{
	static const char *const values[] = {
		"", "-", "process_madvise", "+process_madvise", "-process_madvis", "-process_madvise,", ",-process_madvise",
		"-process_madvise,,", "-process_madvise,-ring", "-process_madvise -process_madvise",
		"-process_madvise,-process_madvise,-process_madvise,-process_madvise,-process_madvise,oops",
	};

	for (unsigned i = 0; i < array_len(values); i++) {
		char setting[128];

		snprintf(setting, sizeof(setting), "LULL_CAPS=%s", values[i]);
		ck_assert_uint_eq(parse(ENV(setting)), 1);
		ck_names_all();
		ck_assert_uint_eq(options.caps_off, 0);
	}
}
END_TEST

START_TEST(test_an_unknown_variable_is_named_with_those_there_are)
{
	static const char known[] = "; there are LULL_AUTO_IDLE, LULL_SCAVENGER, LULL_STATS, LULL_POLICY, LULL_IDLE_STAGES, "
				    "LULL_FILE_HINTS, LULL_RETURN, LULL_TRACK, LULL_CAPS\n";
	static const char *const names[] = {"LULL_STAT", "LULL_STATSS", "LULL_", "LULL_stats"};

	for (unsigned i = 0; i < array_len(names); i++) {
		char setting[64], line[256];

		snprintf(setting, sizeof(setting), "%s=0", names[i]);
		snprintf(line, sizeof(line), "lull: unknown variable %s%s", names[i], known);
		ck_refused(ENV(setting), line);
		ck_defaults();
	}
}
END_TEST

START_TEST(test_a_long_value_is_shortened_and_the_rest_of_the_line_stays)
{
	char setting[2000];

	memset(setting, 'x', sizeof(setting));
	memcpy(setting, "LULL_RETURN=", 12);
	setting[sizeof(setting) - 1] = '\0';
	ck_assert_uint_eq(parse(ENV(setting)), 1);
	ck_assert_ptr_nonnull(strstr(said, "xxx... is not understood; accepted: auto, uring, vector or madvise\n"));
	memset(setting, 'x', sizeof(setting) - 1);
	memcpy(setting, "LULL_", 5);
	ck_assert_uint_eq(parse(ENV(setting)), 1);
	ck_assert_ptr_nonnull(strstr(said, "xxx...; there are LULL_"));
}
END_TEST

START_TEST(test_every_mistake_gets_its_line_and_the_rest_counts)
{
	ck_assert_uint_eq(parse(ENV("LULL_X=1", "LULL_STATS=0", "LULL_RETURN=?")), 2);
	ck_assert_ptr_nonnull(strstr(said, "LULL_X;"));
	ck_assert_ptr_nonnull(strstr(said, "\nlull: LULL_RETURN=? is"));
	ck_assert(!options.stats);
}
END_TEST

START_TEST(test_the_last_of_several_settings_counts)
{
	ck_accepted(ENV("LULL_STATS=0", "LULL_STATS=1"));
	ck_assert(options.stats);
}
END_TEST

START_TEST(test_variables_of_the_tests_are_left_alone)
{
	ck_accepted(ENV("LULL_SO=/x"));
	ck_defaults();
}
END_TEST

int main(void)
{
	Suite *suite = unit_suite("options");
	TCase *parsing = tcase_create("parsing");

	tcase_add_test(parsing, test_nothing_said_means_the_defaults);
	tcase_add_test(parsing, test_switches_are_0_or_1);
	tcase_add_test(parsing, test_each_switch_turns_only_itself);
	tcase_add_test(parsing, test_other_values_of_a_switch_are_refused_by_name);
	tcase_add_test(parsing, test_the_policy_is_one_of_two_words);
	tcase_add_test(parsing, test_idle_stages_are_seconds_in_ascending_order);
	tcase_add_test(parsing, test_the_way_of_returning_is_one_of_four_words);
	tcase_add_test(parsing, test_tracking_is_one_of_three_words);
	tcase_add_test(parsing, test_capabilities_are_turned_off_by_name);
	tcase_add_test(parsing, test_every_capability_can_be_turned_off);
	tcase_add_test(parsing, test_a_list_with_one_mistake_changes_nothing);
	tcase_add_test(parsing, test_an_unknown_variable_is_named_with_those_there_are);
	tcase_add_test(parsing, test_a_long_value_is_shortened_and_the_rest_of_the_line_stays);
	tcase_add_test(parsing, test_every_mistake_gets_its_line_and_the_rest_counts);
	tcase_add_test(parsing, test_the_last_of_several_settings_counts);
	tcase_add_test(parsing, test_variables_of_the_tests_are_left_alone);
	suite_add_tcase(suite, parsing);
	return unit_run(suite);
}
