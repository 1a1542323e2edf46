#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/api/file_hints.sh: hints about real files under the preload (programs/file_hints.c), on and switched off.
#
# LULL_SO names the library, out/release/liblull.so by default. Exit 0 all passed, 1 a failure, 2 there is no library.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath -m "${LULL_SO:-${TEST_OUT:-$here/../../out/release}/liblull.so}")
if [ ! -r "$library" ]; then
	echo "file_hints: no library $library: build it, or name another in LULL_SO"
	exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0
# A child of the program reads the file as nobody.
chmod 755 "$work"

"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE= -O1 -Wall -Wextra -Werror -fno-builtin -o "$work/file_hints" "$here/programs/file_hints.c"
# 8 MiB; each OS page ends with its number.
perl -e 'print "x" x 4092, pack("L", $_) for 0 .. 2047' >"$work/a file with blanks"

failed=0
for switch in on off; do
	setting=$([ $switch = on ] && echo 1 || echo 0)
	status=0
	env LD_PRELOAD="$library" LULL_FILE_HINTS="$setting" "$work/file_hints" "$work/a file with blanks" $switch || status=$?
	if [ "$status" -eq 0 ]; then
		echo "file hints $switch: as promised"
	else
		echo "FAIL file hints $switch: status $status"
		failed=1
	fi
done
exit $failed
