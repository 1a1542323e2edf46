#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/api/last_thread.sh: the scavenger does not keep a process that libc would end with its last thread (programs/last_thread.c).
#
# LULL_SO names the library, out/release/liblull.so by default. Exit 0 both forms end, 1 one does not, 2 there is no library.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath -m "${LULL_SO:-${TEST_OUT:-$here/../../out/release}/liblull.so}")
if [ ! -r "$library" ]; then
	echo "last_thread: no library $library: build it, or name another in LULL_SO"
	exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-cc}" -std=gnu17 -O1 -Wall -Wextra -fno-builtin -pthread -o "$work/last_thread" "$here/programs/last_thread.c"
failed=0
for form in main child; do
	status=0
	# a process that does not end by itself within this time never will
	LD_PRELOAD="$library" timeout -k 1 30 "$work/last_thread" "$form" >"$work/out" 2>&1 || status=$?
	want=$([ "$form" = main ] && echo 1 || echo 2)
	if [ "$status" -ne 0 ] || [ "$(grep -c '^exit$' "$work/out")" -ne "$want" ]; then
		echo "last_thread $form: ended with $status, wrote: $(cat "$work/out")"
		failed=1
	fi
done
exit $failed
