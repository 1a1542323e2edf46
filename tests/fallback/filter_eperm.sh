#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ordinary tests under a filter that answers EPERM to every unusual call (common.bash).
# shellcheck source=tests/fallback/common.bash
. "$(dirname "$0")/common.bash"

confined eperm
ordinary
