#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ordinary tests without io_uring (common.bash).
# shellcheck source=tests/fallback/common.bash
. "$(dirname "$0")/common.bash"

export LULL_CAPS=-uring
ordinary
