#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ordinary tests without process_madvise (common.bash).
# shellcheck source=tests/fallback/common.bash
. "$(dirname "$0")/common.bash"

export LULL_CAPS=-process_madvise,-process_madvise_cold
ordinary
