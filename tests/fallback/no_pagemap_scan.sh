#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ordinary tests without the PAGEMAP_SCAN ioctl (common.bash).
# shellcheck source=tests/fallback/common.bash
. "$(dirname "$0")/common.bash"

export LULL_CAPS=-pagemap_scan
ordinary
