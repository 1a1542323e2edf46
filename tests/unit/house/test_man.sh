#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Every function of the headers below has a manual page, under its own name or as an alias of the page that describes it; each page has
# the sections a reader expects, names in NAME and SYNOPSIS what leads to it, and has examples that compile.
set -eu

cd "$(dirname "$0")/../../.."
headers="include/lull/idle.h include/lull/wait.h include/lull/pool.h"
sections="NAME|SYNOPSIS|DESCRIPTION|RETURN VALUE|ERRORS|THREADS|NOTES|EXAMPLES|SEE ALSO"
pages=src/man
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
	echo "$1"
	failures=$((failures + 1))
}

# Declarations begin in the first column; a name may stand at the end of a line that goes on.
functions() {
	# shellcheck disable=SC2086 # several words
	sed -n 's/^[a-z].*[ *]\(lull_[a-z0-9_]*\)(.*/\1/p' $headers | sort -u
}

# function -> the page that describes it, or nothing
page_of() {
	local page=$pages/$1.3 target
	[ -r "$page" ] || return 0
	target=$(sed -n '1s|^\.so man3/||p' "$page")
	echo "$pages/${target:-$1.3}"
}

# page, section -> its lines, without formatting
section() {
	sed -n "/^\.SH \"\{0,1\}$2/,/^\.SH /p" "$1" | sed -e '/^\.SH/d' -e 's/\\-/-/g'
}

check_function() {
	local page
	page=$(page_of "$1")
	[ -n "$page" ] || { fail "$1 has no page: $pages/$1.3" && return; }
	[ -r "$page" ] || { fail "$pages/$1.3 leads to $page, which is not there" && return; }
	section "$page" NAME | grep -qw "$1" || fail "$page: NAME does not name $1"
	section "$page" SYNOPSIS | grep -q "\b$1(" || fail "$page: SYNOPSIS does not declare $1"
}

check_sections() {
	local found
	found=$(sed -n 's/^\.SH "\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' "$1" | paste -sd '|')
	[ "$found" = "$sections" ] || fail "$1: its sections are not $sections but $found"
}

check_form() {
	local warnings
	command -v groff >/dev/null || return 0
	warnings=$(groff -man -Tutf8 -ww -z "$1" 2>&1) || true
	[ -z "$warnings" ] || fail "$1: $warnings"
}

check_example() {
	section "$1" EXAMPLES | sed -n '/^\.EX/,/^\.EE/p' | sed -e '/^\.E[XE]/d' -e 's/\\e/\\/g' >"$work/example.c"
	[ -s "$work/example.c" ] || { fail "$1: EXAMPLES has no program" && return; }
	cc -std=gnu17 -Wall -Wextra -Werror -Iinclude -fsyntax-only "$work/example.c" 2>"$work/log" || {
		fail "$1: the example does not compile" && cat "$work/log"
	}
}

check_alias() {
	local target
	target=$(page_of "$(basename "$1" .3)")
	[ "$target" = "$1" ] || [ -r "$target" ] || fail "$1 leads to $target, which is not there"
	[ "$target" = "$1" ] || functions | grep -qx "$(basename "$1" .3)" || fail "$1 is a page for no function"
}

[ "$(functions | wc -l)" -ge 20 ] || fail "too few functions found in $headers"
for name in $(functions); do check_function "$name"; done
for page in "$pages"/*.3; do
	check_alias "$page"
	[ "$(page_of "$(basename "$page" .3)")" = "$page" ] || continue
	check_sections "$page"
	check_form "$page"
	check_example "$page"
done
[ "$failures" -eq 0 ] || exit 1
