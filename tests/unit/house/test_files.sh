#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Every source, header and script begins with its licence line and says what it is; no line of C is longer than 140 columns (a tab
# counts four); nothing is left for later. Recorded trees and expected outputs of tests are data and not looked at.
set -eu

cd "$(dirname "$0")/../../.."

sources() {
	find src include kmod-free-tools tests -name '*.[ch]' -o -name '*.cc'
}

scripts() {
	find tests .ci kmod-free-tools cgroup-configs -type f -perm -100 -exec grep -lm1 '^#!' {} +
}

# line number of the licence and the licence; then files
check() {
	awk -v first="$1" -v licence="$2" '
		function fail(what) { print FILENAME ": " what; failed = 1 }
		FNR == 1 { long = 0 }
		FNR == first && $0 != licence { fail("line " first " is not the licence") }
		FNR == first + 1 && !/^(\/\*|#)/ { fail("does not open with what it is") }
		first == 1 && length($0) + 3 * gsub(/\t/, "\t") > 140 { fail("line " FNR " is over 140 columns") }
		/(^|[^A-Za-z])(TO[D]O|FIX[M]E|XX[X])([^A-Za-z]|$)/ { fail("line " FNR " leaves something for later") }
		END { exit failed }' "${@:3}"
}

failed=0
mapfile -t files < <(sources)
check 1 '/* SPDX-License-Identifier: MIT */' "${files[@]}" || failed=1
mapfile -t files < <(scripts)
check 2 '# SPDX-License-Identifier: MIT' "${files[@]}" || failed=1
exit $failed
