/* SPDX-License-Identifier: MIT */
/*
 * Runs of a measurement, each in a child process of its own and in a memory cgroup made for them where that is permitted: a run starts
 * from nothing, and however it or this command ends, no process and no cgroup stays behind.
 */
#ifndef LULL_TOOLS_CONTAINED_H
#define LULL_TOOLS_CONTAINED_H

#include "common/memory_group.h"
#include "common/say.h"

#include <stddef.h>

/* The cgroup all runs are in, for the runs to read. */
extern struct memory_group contained_group;

/* Before the first run. Starts the lull that is linked in, so that it reads its settings (LULL_CAPS) and complains of them once. From here
 * on SIGINT, SIGTERM and SIGHUP end the run under way and keep further ones from starting. */
void contained_begin(void);

/*
 * Calls RUN(PLAN, RET) in a child; what it leaves in RET, LEN bytes, is then here. RUN may start threads and leave them and its memory
 * to the end of the child.
 *
 * Returns what RUN returned, or TOOL_CANNOT when the child gave no answer, which is said for COMMAND, or a signal came, which is not.
 */
enum tool_exit contained_run(
	const char *command, enum tool_exit (*run)(const void *plan, void *ret), const void *plan, void *ret, size_t len);

/* After the last run. Removes the cgroup, or says for COMMAND which is left; ends this process by the signal that came, if one did. */
void contained_end(const char *command);

#endif
