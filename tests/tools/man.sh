#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The man pages say what the command does: the same options as its help, every field of its JSON, the sections a reader expects.
# shellcheck source-path=SCRIPTDIR source=common.bash
. "$(dirname "$0")/common.bash"

pages=kmod-free-tools/man

# Of both, only the lines that name options count, not what is said about them.
help_options() {
	sed -n '/^options:/,/^$/p' "$work/stdout" | cut -c 1-20 | only_options
}

page_options() {
	sed -n '/^\.SH OPTIONS/,/^\.SH [^O]/p' "$1" | grep '^\.B[IR] ' | sed 's/\\-/-/g' | only_options
}

only_options() {
	grep -o -w -E -e '--?[a-zA-Z][a-z]*' | sort
}

for command in '' run stat doctor measure 'measure return' 'measure faults' 'measure pageout'; do
	page=$pages/lull${command:+-${command// /-}}.1
	# shellcheck disable=SC2086 # none, one word or two
	run "$tool" $command --help
	help_options | grep -qx -e --help || fail "no options found in the help"
	[ "$(help_options)" = "$(page_options "$page")" ] || {
		fail "$page and --help list different options:"
		diff <(help_options) <(page_options "$page") || true
	}
	for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' REQUIREMENTS OVERHEAD EXAMPLES 'SEE ALSO'; do
		grep -qxE "\.SH \"?$section\"?" "$page" || fail "$page has no section $section"
	done
	if command -v groff >/dev/null; then
		warnings=$(groff -man -Tutf8 -ww -z "$page" 2>&1) || true
		[ -z "$warnings" ] || fail "$page: $warnings"
	fi
done

page=$pages/lull-stat.1
for section in FIELDS JSON; do
	grep -qxE "\.SH \"?$section\"?" "$page" || fail "$page has no section $section"
done
run "$tool" stat --json --root "$here/tree" 4242
for key in $(python3 -c 'import json, sys; print(*json.load(open(sys.argv[1])))' "$work/stdout"); do
	grep -qxE "\.(B|BR) $key( .*)?" "$page" || fail "$page does not describe $key"
done

finish
