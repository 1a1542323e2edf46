#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ordinary tests under a filter that kills for every unusual call (common.bash).
# shellcheck source=tests/fallback/common.bash
. "$(dirname "$0")/common.bash"

confined kill
ordinary
