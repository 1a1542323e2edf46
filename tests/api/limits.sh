#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/api/limits.sh: allocation where the kernel says no, under the preload (programs/limits.c): address space limits of 256 MiB,
# 1 GiB and 4 GiB, and locked memory.
#
# LULL_SO names the library, out/release/liblull.so by default.
# Exit 0 all passed, 1 a failure, 2 there is no library. A scenario that the machine cannot show is named as skipped.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath -m "${LULL_SO:-${TEST_OUT:-$here/../../out/release}/liblull.so}")
if [ ! -r "$library" ]; then
	echo "limits: no library $library: build it, or name another in LULL_SO"
	exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0

"${CC:-cc}" -std=gnu17 -O2 -Wall -Wextra -fno-builtin-malloc -fno-builtin-free -fno-builtin-calloc -fno-builtin-realloc -pthread \
	-o "$work/limits" "$here/programs/limits.c"

passed=0 failed=0 skipped=0

# NAME LIMIT-IN-KIB|unlimited ARGS...
try() {
	local name=$1 limit=$2 status=0
	shift 2
	# the outer redirection is for the shell's own word about an abort
	{
		(
			ulimit -v "$limit"
			exec env LD_PRELOAD="$library" "$work/limits" "$@"
		) >"$work/output" 2>&1
	} 2>/dev/null || status=$?
	case $status in
	0) passed=$((passed + 1)) && set -- pass ;;
	77) skipped=$((skipped + 1)) && set -- skip ;;
	*) failed=$((failed + 1)) && set -- "FAIL (status $status)" ;;
	esac
	printf '%-24s %s  %s\n' "$name" "$1" "$(tr '\n' ' ' <"$work/output")"
}

try "ulimit -v 256 MiB" $((256 << 10)) address-space
try "ulimit -v 1 GiB" $((1 << 20)) address-space
try "ulimit -v 4 GiB" $((4 << 20)) address-space
try "mlockall first" unlimited locked-first
try "mlockall first, onfault" unlimited locked-first onfault
try "mlockall later" unlimited locked-later
try "mlockall later, onfault" unlimited locked-later onfault
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
