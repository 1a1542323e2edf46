#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/idle/stress.sh: the stress programs with the standard names under the preload, where the calls that block are watched: threads
# are swept while others free into their pages, fork and collect.
#
# LULL_SO names the library, out/release/liblull.so by default; STRESS_SEED and STRESS_SCALE (percent, 20 by default: the full counts
# run on the prefixed build) are passed on. Exit 0 all passed, 1 a failure, 2 there is no library. time limit: 600 s
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath -m "${LULL_SO:-${TEST_OUT:-$here/../../out/release}/liblull.so}")
export STRESS_SCALE=${STRESS_SCALE:-20}
if [ ! -r "$library" ]; then
	echo "stress: no library $library: build it, or name another in LULL_SO"
	exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0

passed=0 failed=0
for source in "$here"/../stress/*.c; do
	name=$(basename "$source" .c)
	"${CC:-cc}" -std=gnu17 -O2 -Wall -Wextra -DSTRESS_STANDARD_NAMES -fno-builtin-malloc -fno-builtin-free -fno-builtin-calloc \
		-fno-builtin-realloc -pthread -o "$work/$name" "$source"
	if env LD_PRELOAD="$library" "$work/$name" >"$work/output" 2>&1; then
		passed=$((passed + 1))
		echo "pass  $(tail -n 1 "$work/output")"
	else
		failed=$((failed + 1))
		echo "FAIL  $name: $(tail -n 3 "$work/output")"
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
