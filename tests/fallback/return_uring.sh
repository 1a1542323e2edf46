#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ordinary tests where all memory goes back by io_uring (common.bash).
# shellcheck source=tests/fallback/common.bash
. "$(dirname "$0")/common.bash"

export LULL_RETURN=uring
ordinary
