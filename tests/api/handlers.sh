#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/api/handlers.sh: signal handlers under the preload: that block in the middle of malloc and free (programs/handlers.c), and that run
# at every instruction of a blocking call (programs/steps.c).
#
# LULL_SO names the library, out/release/liblull.so by default. An argument is the seed of the first.
# Exit 0 all passed or skipped, 1 a failure, 2 there is no library.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath -m "${LULL_SO:-${TEST_OUT:-$here/../../out/release}/liblull.so}")
if [ ! -r "$library" ]; then
	echo "handlers: no library $library: build it, or name another in LULL_SO"
	exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0

build() {
	"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE= -O1 -Wall -Wextra -Werror -fno-builtin -pthread "${@:2}" -o "$work/$1" "$here/programs/$1.c"
}

failed=0

# NAME ARGS...
try() {
	local status=0
	env LD_PRELOAD="$library" "$work/$1" "${@:2}" || status=$?
	case $status in
	0 | 77) ;;
	*)
		echo "FAIL $*: status $status"
		failed=$((failed + 1))
		;;
	esac
}

build handlers
case $(uname -m) in
x86_64) build steps -mno-red-zone ;;
*) build steps ;;
esac
try handlers "$@"
LULL_SCAVENGER=0 try handlers "$@"
for kind in alloc wait both fork jump; do try steps $kind; done
[ "$failed" -eq 0 ]
