#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Without the background thread (LULL_SCAVENGER=0, or stopped) memory goes back all the same, as the program's threads block:
# programs/inline.c, small, medium and large blocks and singletons, under both policies.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath -m "${LULL_SO:-${TEST_OUT:-$here/../../out/release}/liblull.so}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

"${CC:-cc}" -std=gnu17 -O2 -Wall -Wextra -Werror -fno-builtin-malloc -fno-builtin-free -pthread -D_GNU_SOURCE= -o "$work/inline" "$here/programs/inline.c"
for policy in default seed; do
	for size in 100 3000 50000 300000 3000000; do
		for way in own ended stop; do
			scavenger=0
			[ "$way" != stop ] || scavenger=1
			env LULL_POLICY=$policy LULL_SCAVENGER=$scavenger LD_PRELOAD="$library" "$work/inline" $size $way || {
				echo "FAIL: policy $policy"
				failed=$((failed + 1))
			}
		done
	done
done
[ "$failed" -eq 0 ]
