#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ordinary tests with 16 open files at most (common.bash).
# shellcheck source=tests/fallback/common.bash
. "$(dirname "$0")/common.bash"

confined nofile
# shellcheck disable=SC2034 # for the functions
with_redis=no
ordinary
