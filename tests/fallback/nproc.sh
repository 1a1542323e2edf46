#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Tests of programs with one thread (common.bash) whose user may have no more processes or threads: no background thread, no workers of
# io_uring, no child to probe in.
# shellcheck source=tests/fallback/common.bash
. "$(dirname "$0")/common.bash"

confined nproc
# shellcheck disable=SC2034 # for the functions
with_redis=no
memory_goes_back
real_programs
count
