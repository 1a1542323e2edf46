#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The command line, row by row from cli.table, and what holds for every row: a mistake is told in exactly one line.
# shellcheck source-path=SCRIPTDIR source=common.bash
. "$(dirname "$0")/common.bash"

trim() {
	local text=$1
	text=${text#"${text%%[! ]*}"}
	printf '%s' "${text%"${text##*[! ]}"}"
}

rows=0
while IFS='|' read -r words exit_status out err; do
	case $words in '#'* | '') continue ;; esac
	arguments=()
	eval "arguments=($words)" # the table is ours; quoting and \$'...' are wanted
	run "$tool" "${arguments[@]}"
	expect "lull $(trim "$words")" "$(trim "$exit_status")" "$(trim "$out")" "$(trim "$err")"
	[ "$status" -eq 0 ] || [ "$(wc -l <"$work/stderr")" -le 1 ] || fail "lull $words: more than one line on stderr"
	rows=$((rows + 1))
done <"$here/cli.table"
# a table that was not read must not pass
[ $rows -ge 50 ] || fail "only $rows rows read from cli.table"

for command in '' run stat doctor measure 'measure return' 'measure faults' 'measure pageout'; do
	# shellcheck disable=SC2086 # none, one word or two
	run "$tool" $command --help
	awk 'length($0) >= 80 { exit 1 }' "$work/stdout" || fail "lull $command --help is not below 80 columns"
	grep -q '^examples:' "$work/stdout" || fail "lull $command --help has no examples"
done

# a full disk is an error, not silence
status=0
"$tool" --help >/dev/full 2>"$work/stderr" || status=$?
: >"$work/stdout"
expect "help onto a full disk" 2 - "lull: cannot write to standard output: No space left on device"

finish
