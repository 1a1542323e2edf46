#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ordinary tests without userfaultfd, by either door (common.bash).
# shellcheck source=tests/fallback/common.bash
. "$(dirname "$0")/common.bash"

export LULL_CAPS=-uffd,-uffd_dev
ordinary
