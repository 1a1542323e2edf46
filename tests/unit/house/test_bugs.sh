#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/bugs.md: B1 to B40 stand in it once each, in order, and every test it names exists: a test of a suite that is also run (it is added
# to the suite), a function of a script, or a whole program or script.
set -eu

cd "$(dirname "$0")/../../.."
table=tests/bugs.md
failures=0

fail() {
	echo "$1"
	failures=$((failures + 1))
}

# path without its ending -> the file, or nothing
file_of() {
	local ending
	for ending in c cc sh; do [ ! -f "tests/$1.$ending" ] || echo "tests/$1.$ending"; done
}

# file, test
is_there() {
	case $1 in
	*.c) grep -q "START_TEST($2)" "$1" && grep -Eq "add(_loop)?_test\([a-z_]+, $2[,)]" "$1" ;;
	*) grep -q "^$2()" "$1" ;;
	esac
}

check_rows() {
	local number=0 row cell name file names
	while IFS= read -r row; do
		number=$((number + 1))
		[[ $row == "| B$number | "* ]] || fail "row $number begins with: ${row:0:12}"
		[ "$(tr -cd '|' <<<"$row")" = '|||||' ] || fail "B$number: not four columns"
		cell=${row% |}
		cell=${cell##* | }
		read -ra names <<<"${cell//\`/}"
		[ "${#names[@]}" -gt 0 ] || fail "B$number names no test"
		for name in "${names[@]}"; do
			file=$(file_of "${name%%:*}")
			if [ -z "$file" ]; then
				fail "B$number: no file for $name"
			elif [[ $name == *:* ]]; then
				is_there "$file" "${name##*:}" || fail "B$number: $file has no test ${name##*:}"
			fi
		done
	done < <(grep '^| B[0-9]' $table)
	[ $number -eq 40 ] || fail "$number rows, not 40"
}

check_rows
[ "$failures" -eq 0 ] || exit 1
