#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `lull stat` of a recorded tree (see record), compared with the stored outputs. After a wanted change: tests/tools/stat_tree.sh accept
# shellcheck source-path=SCRIPTDIR source=common.bash
. "$(dirname "$0")/common.bash"

# compare NAME ARG...
compare() {
	local expected=$here/expected/$1
	shift
	run "$tool" stat --root "$here/tree" "$@"
	sed "s/$version/VERSION/" "$work/stdout" >"$work/seen"
	[ "$mode" != accept ] || cp "$work/seen" "$expected"
	diff -u "$expected" "$work/seen" || fail "lull stat $* differs; if it should: tests/tools/stat_tree.sh accept"
	expect "stat $*" 0 "" -
}

mode=${1:-check}
version=$("$tool" --version | cut -d ' ' -f 2)

compare stat.txt 4242
compare stat-bytes.txt --bytes 4242
compare stat.json --json 4242
awk 'length($0) >= 80 { exit 1 }' "$here/expected/stat.txt" "$here/expected/stat-bytes.txt" || fail "a line is not below 80 columns"

run "$tool" stat --root "$here/tree" 4243
expect "no such process in the tree" 2 - "pid 4243: no such process"

finish
