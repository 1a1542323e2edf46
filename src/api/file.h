/* SPDX-License-Identifier: MIT */
/*
 * The switch of the calls in <lull/file.h>.
 */
#ifndef LULL_API_FILE_H
#define LULL_API_FILE_H

#include "base/base.h"

/* LULL_FILE_HINTS. Any thread; takes effect at its next call. */
void file_set_hints(bool on) hidden;

#endif
