#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/idle/swept.sh: every way to leave a wait while one's heap is being swept (programs/swept.c), parks inside parks, and
# handlers on the way into a call (programs/nested.c).
#
# LULL_SO names the library, out/release/liblull.so by default; STRESS_SEED is passed on.
# Exit 0 all passed, 1 a failure, 2 there is no library. What the library does not have is named and left out. time limit: 600 s
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath -m "${LULL_SO:-${TEST_OUT:-$here/../../out/release}/liblull.so}")
if [ ! -r "$library" ]; then
	echo "swept: no library $library: build it, or name another in LULL_SO"
	exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0
export STRESS_TIMEOUT_S=120

for program in swept nested; do
	"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE= -O1 -Wall -Wextra -Wshadow -Werror -fno-builtin -pthread -o "$work/$program" \
		"$here/programs/$program.c"
done

passed=0 failed=0 skipped=0

# PROGRAM ARG: its last line says what was seen
try() {
	local status=0
	# the outer redirection is for the shell's own word about an abort
	{ (exec env LD_PRELOAD="$library" ${setting:+"$setting"} "$work/$1" "$2") >"$work/output" 2>&1; } 2>/dev/null || status=$?
	case $status in
	0) passed=$((passed + 1)) && echo "pass  $(tail -n 1 "$work/output")" ;;
	77) skipped=$((skipped + 1)) && echo "skip  $(tail -n 1 "$work/output")" ;;
	*)
		failed=$((failed + 1))
		echo "FAIL  $* (status $status): $(tail -n 3 "$work/output")"
		;;
	esac
}

setting=""
for way in wake exit cancel handler handler-frees jump jump-allocates jump-exit nested fork fork-handler vfork vfork-killed vfork-handler; do
	try swept $way
done
for part in explicit stopped; do try nested $part; done
setting=LULL_SCAVENGER=0
for part in off inline; do try nested $part; done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
