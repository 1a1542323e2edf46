#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/api/new_delete.sh: every form of C++ operator new and delete (programs/new_delete.cc), under the preload and in a program
# that is linked against the library.
#
# LULL_SO names the library, out/release/liblull.so by default.
# Exit 0 passed, 1 failed, 2 there is no library, 77 there is no C++ compiler.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath -m "${LULL_SO:-${TEST_OUT:-$here/../../out/release}/liblull.so}")
if [ ! -r "$library" ]; then
	echo "new_delete: no library $library: build it, or name another in LULL_SO"
	exit 2
fi
command -v "${CXX:-c++}" >/dev/null || { echo "no program ${CXX:-c++} (package g++)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0

compile() {
	"${CXX:-c++}" -std=c++17 -O1 -Wall -Wextra -fno-builtin -pthread -o "$1" "$here/programs/new_delete.cc" "${@:2}"
}

compile "$work/plain"
compile "$work/linked" "$library" -Wl,-rpath,"$(dirname "$library")"
failed=0
echo "under the preload"
env LD_PRELOAD="$library" "$work/plain" || failed=1
echo "linked"
env LD_LIBRARY_PATH="$(dirname "$library")" "$work/linked" || failed=1
exit "$failed"
