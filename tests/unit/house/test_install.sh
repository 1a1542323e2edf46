#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `make install` into an empty folder gives what a user needs: a program that includes the public headers builds with the flags
# pkg-config prints, against the shared and the static library, in C and in C++, and runs on lull; `make uninstall` leaves nothing.
set -eu

cd "$(dirname "$0")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
	echo "$1"
	failures=$((failures + 1))
}

make_quietly() {
	MAKEFLAGS='' make "$@" VARIANT="${TEST_VARIANT:-release}" PREFIX=/opt/lull DESTDIR="$work/root" >"$work/log" 2>&1 || {
		cat "$work/log"
		echo "make $1 failed"
		exit 1
	}
}

flags() {
	PKG_CONFIG_SYSROOT_DIR=$work/root PKG_CONFIG_PATH=$work/root/opt/lull/lib/pkgconfig pkg-config "$@" lull
}

# what, compiler and arguments: builds the program and runs it
try() {
	local what=$1
	shift
	"$@" -Wall -Wextra -Werror -fno-builtin -o "$work/program" >"$work/log" 2>&1 || { fail "$what does not build" && cat "$work/log" && return; }
	"$work/program" || fail "$what does not run on lull: exit $?"
}

# Also in C++; exit 1: malloc is not lull's, whose blocks of 40 bytes have 48 to use.
cat >"$work/program.c" <<'END'
#include <lull/idle.h>
#include <lull/malloc.h>
#include <lull/pool.h>
#include <lull/stats.h>
#include <lull/wait.h>
#include <malloc.h>
#include <stdlib.h>

int main(void)
{
	void *p = malloc(40);
	int is_ours = malloc_usable_size(p) == 48 && lull_malloc_usable_size(p) == 48;

	lull_free(p);
	lull_thread_idle();
	return is_ours ? 0 : 1;
}
END
cp "$work/program.c" "$work/program.cc"

make_quietly install
lib=$work/root/opt/lull/lib
read -r -a shared <<<"$(flags --cflags --libs) -Wl,-rpath,$lib"
read -r -a include <<<"$(flags --cflags)"
try "C, shared" cc "$work/program.c" "${shared[@]}"
try "C++, shared" c++ "$work/program.cc" "${shared[@]}"
try "C, static library" cc "$work/program.c" "${include[@]}" "$lib/liblull.a" -pthread
try "C++, static library" c++ "$work/program.cc" "${include[@]}" "$lib/liblull.a" -pthread
[ "$(flags --modversion)" = "$("$work/root/opt/lull/bin/lull" --version | awk '{ print $NF }')" ] || fail "pkg-config and lull differ in the version"
"$work/root/opt/lull/bin/lull" run -- true || fail "the installed lull run does not work"

make_quietly uninstall
left=$(find "$work/root" ! -type d)
[ -z "$left" ] || fail "uninstall leaves: $left"
[ "$failures" -eq 0 ] || exit 1
