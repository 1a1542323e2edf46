#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What the built libraries show to the outside: the shared and the static library define exactly the names listed in
# src/api/exports.map, the prefixed one none of the standard names, and the shared one needs nothing but libc. The map is anonymous: a
# version name would keep the dynamic linker from binding a program's malloc@GLIBC to ours.
set -eu

cd "$(dirname "$0")/../../.."
export LC_ALL=C
out=${TEST_OUT:-out/release}
map=src/api/exports.map
failures=0
[ -r $map ] || { echo "no $map" && exit 1; }

fail() {
	echo "$1"
	failures=$((failures + 1))
}

# nm's arguments -> defined global names
defined() {
	nm --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u
}

# Map without comments, on one line.
text=$(perl -0777 -pe 's{/\*.*?\*/|#[^\n]*}{ }gs; s/\s+/ /g; s/^ //' $map)
listed=$(tr ';' '\n' <<<"$text" | sed -e 's/.*://' -e 's/[ {}*]//g' -e '/^$/d' | sort)

check_map() {
	local twice
	[[ $text =~ ^\{\ global:\ [^*?[]*\ local:\ \*\;\ \}\; ]] || fail "$map: is not { global: <names without patterns> local: *; };"
	twice=$(uniq -d <<<"$listed" | tr '\n' ' ')
	[ -z "$twice" ] || fail "$map: lists twice: $twice"
}

# library, its defined names
compare() {
	local name
	for name in $(comm -13 <(echo "$listed") <(echo "$2")); do fail "$1 defines '$name', which $map does not list"; done
	for name in $(comm -23 <(echo "$listed") <(echo "$2")); do fail "$1 lacks '$name', which $map lists"; done
}

check_prefixed() {
	local name
	for name in $(comm -12 <(grep -v '^lull_' <<<"$listed") <(defined -g "$out/liblull-prefixed.a")); do
		fail "liblull-prefixed.a defines the standard name '$name'"
	done
}

check_needed() {
	local library
	for library in $(readelf -d "$out/liblull.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
		case $library in libc.so.6 | ld-linux*) ;; *) fail "liblull.so needs $library" ;; esac
	done
	! nm -D --undefined-only "$out/liblull.so" | grep -q __tls_get_addr || fail "a thread-local word is not initial-exec"
}

check_map
compare liblull.so "$(defined -D "$out/liblull.so")"
compare liblull.a "$(defined -g "$out/liblull.a")"
check_prefixed
check_needed
[ "$failures" -eq 0 ] || exit 1
