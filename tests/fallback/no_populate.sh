#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ordinary tests without MADV_POPULATE_WRITE (common.bash).
# shellcheck source=tests/fallback/common.bash
. "$(dirname "$0")/common.bash"

export LULL_CAPS=-populate
ordinary
