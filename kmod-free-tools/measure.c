/* SPDX-License-Identifier: MIT */
/*
 * `lull measure`: what something costs on this machine, measured here and now. Each measurement is a command of its own with its own
 * options; this one only finds it. To add one, write its file and add it here and to commands.h.
 */
#include "commands.h"
#include "common/pageout_program.h"
#include "common/say.h"

#include <stdio.h>
#include <string.h>

static const struct command *const measurements[] = {
	&measure_return_command,
	&measure_faults_command,
	&measure_pageout_command,
	NULL,
};

static int measure_run(int n, char **operands)
{
	const struct command *measurement;

	if (n == 0) {
		say_try_help("measure", "no measurement given: return, faults, pageout");
		return TOOL_CANNOT;
	}
	measurement = options_find_command(&measure_command, operands[0]);
	if (measurement != NULL)
		return options_run(measurement, n, operands);
	if (strcmp(operands[0], PAGEOUT_PROGRAM) == 0)
		return pageout_program_run(n - 1, operands + 1);
	say_try_help("measure", "'%s' is not a measurement: return, faults, pageout", operands[0]);
	return TOOL_CANNOT;
}

const struct command measure_command = {
	.name = "measure",
	.summary = "measure what returning memory costs here",
	.usage = "MEASUREMENT [OPTION...]",
	.about = "Measures on this machine what giving memory back costs, and having it again.\n"
		 "Options stand behind the measurement: lull measure return --help.\n",
	.subcommands = measurements,
	.examples = "  lull measure return\n"
		    "  lull measure faults --json | jq .total_us\n"
		    "  lull measure pageout --count 10 --dir /srv/data\n",
	.stops_at_operand = true,
	.run = measure_run,
};
