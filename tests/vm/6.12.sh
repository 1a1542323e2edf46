#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/vm/6.12.sh: Linux 6.12 with cgroup v2 alone, in an emulated machine (common.bash).
# What lull finds missing there is process_madvise(MADV_DONTNEED) on itself (6.13). time limit: 500 s
# shellcheck source=tests/vm/common.bash
. "$(dirname "$0")/common.bash"

guest linux-image-6.12-cloud-amd64
