#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/api/overcommit.sh: with vm.overcommit_memory=2 everything works and the charge comes back after a release, under the preload
# (programs/limits.c, scenario commit). The setting is the machine's, so it is looked at and never changed here.
#
# LULL_SO names the library, out/release/liblull.so by default.
# Exit 0 passed, 1 failed, 77 the machine overcommits.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath -m "${LULL_SO:-${TEST_OUT:-$here/../../out/release}/liblull.so}")
if [ ! -r "$library" ]; then
	echo "overcommit: no library $library: build it, or name another in LULL_SO"
	exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0

"${CC:-cc}" -std=gnu17 -O2 -Wall -Wextra -fno-builtin -pthread -o "$work/limits" "$here/programs/limits.c"
status=0
env LD_PRELOAD="$library" "$work/limits" commit || status=$?
case $status in 0 | 77) exit "$status" ;; *) exit 1 ;; esac
