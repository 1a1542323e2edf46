/* SPDX-License-Identifier: MIT */
/*
 * The subcommands: one file each, named after it. To add one, write its file and add it here and to the list in lull.c, or in measure.c for
 * a measurement.
 */
#ifndef LULL_TOOLS_COMMANDS_H
#define LULL_TOOLS_COMMANDS_H

#include "common/options.h"

extern const struct command doctor_command;
extern const struct command measure_command;
extern const struct command measure_faults_command;
extern const struct command measure_pageout_command;
extern const struct command measure_return_command;
extern const struct command run_command;
extern const struct command stat_command;

#endif
