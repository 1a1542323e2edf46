#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/vm/6.1.sh: Linux 6.1 with cgroup v2 alone, in an emulated machine (common.bash).
# What lull finds missing there is also PAGEMAP_SCAN and UFFD_FEATURE_WP_ASYNC (6.7). time limit: 500 s
# shellcheck source=tests/vm/common.bash
. "$(dirname "$0")/common.bash"

guest linux-image-cloud-amd64
