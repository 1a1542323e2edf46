#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Ordinary tests without any kernel feature (common.bash): what is left is mmap, munmap, mprotect, madvise and futex. A program that uses
# memory, frees it and waits is traced without and with the library, and only the second may make more calls of those five names.
# shellcheck source=tests/fallback/common.bash
. "$(dirname "$0")/common.bash"

export LULL_CAPS=none

# WITHOUT WITH: names of calls that only the second made
only_in_second() {
	LC_ALL=C comm -13 <(names_in "$1") <(names_in "$2")
}

names_in() {
	sed -n 's/^[0-9]* *\([a-z0-9_]*\)(.*/\1/p' "$1" | LC_ALL=C sort -u
}

check_calls() {
	local name unexpected=""
	compile idle/programs/inline.c
	strace -o "$work/trace.plain" "$work/inline" 3000 own >/dev/null 2>&1 || true
	strace -f -o "$work/trace.preload" env LD_PRELOAD="$LULL_SO" "$work/inline" 3000 own >"$work/log" 2>&1 || { cat "$work/log"; fail "inline"; }
	for name in $(only_in_second "$work/trace.plain" "$work/trace.preload"); do
		case $name in mmap | munmap | mprotect | madvise | futex) ;; *) unexpected+=" $name" ;; esac
	done
	[ -z "$unexpected" ] || fail "with all capabilities off lull makes:$unexpected"
	passed=$((passed + 1))
}

if ! command -v strace >/dev/null; then
	missing=" strace"
elif ! strace -o "$work/trace" true 2>/dev/null; then
	missing=" tracing"
else
	check_calls
fi
ordinary
