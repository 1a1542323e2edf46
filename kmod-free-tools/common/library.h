/* SPDX-License-Identifier: MIT */
/*
 * The liblull.so that belongs to this command, and preloading it into a program about to be executed.
 */
#ifndef LULL_TOOLS_LIBRARY_H
#define LULL_TOOLS_LIBRARY_H

#include <stdbool.h>

/* ret: PATH_MAX bytes; resolved, so that it still names the library after a program changes its folder. False: said why for COMMAND. */
bool library_find(const char *command, char *ret);

/* Puts PATH in front of what LD_PRELOAD names already, in this process's environment. False: said why for COMMAND. */
bool library_preload(const char *command, const char *path);

#endif
