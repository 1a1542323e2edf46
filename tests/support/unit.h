/* SPDX-License-Identifier: MIT */
/*
 * The two ends of a unit test's main: make its suite; run it and exit 0 when all of it passed. Check starts each test in a process
 * of its own (CK_FORK=no turns that off, for a debugger), so tests may leave static state behind.
 */
#ifndef TESTS_SUPPORT_UNIT_H
#define TESTS_SUPPORT_UNIT_H

#include <check.h>
#include <stdlib.h>

/* Check's limit of 4 s for one test is too short for a busy machine or a sanitizer; tests/run has a limit for the program as well. */
static inline Suite *unit_suite(const char *name)
{
	setenv("CK_DEFAULT_TIMEOUT", "60", 0);
	return suite_create(name);
}

/* For checks in long loops: Check's own record every one that holds, with a write each. */
#define unit_holds(x) ((x) ? (void)0 : ck_abort_msg("does not hold: %s", #x))

static inline int unit_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}

#endif
