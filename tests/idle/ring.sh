#!/bin/bash
# SPDX-License-Identifier: MIT
#
# io_uring under the preload: a program that frees much has it returned by io_uring without asking, finds no descriptor of it afterwards,
# and nothing of it, no memory and no thread of the kernel's, once it is quiet. Where it is forbidden nothing is missed.
# programs/ring.c.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
out=${TEST_OUT:-$here/../../out/release}
library=$(realpath -m "${LULL_SO:-$out/liblull.so}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

"${CC:-cc}" -std=gnu17 -O2 -Wall -Wextra -Werror -fno-builtin-malloc -fno-builtin-free -pthread -D_GNU_SOURCE= -I "$here/../../include" \
	-o "$work/ring" "$here/programs/ring.c" -ldl

# environment -- arguments
try() {
	local setting=()
	while [ "$1" != -- ]; do
		setting+=("$1")
		shift
	done
	shift
	env "${setting[@]}" LD_PRELOAD="$library" "$work/ring" "$@" || {
		echo "FAIL: ${setting[*]} ring $*"
		failed=$((failed + 1))
	}
}

try LULL_CAPS=-uring -- none
try LULL_RETURN=vector -- none
try LULL_RETURN=madvise -- none
try LULL_SCAVENGER=0 -- none
[ "$failed" -eq 0 ] || exit 1
if ! [ -e /proc/sys/kernel/io_uring_disabled ] || [ "$(cat /proc/sys/kernel/io_uring_disabled)" != 0 ]; then
	echo "io_uring for everyone (kernel.io_uring_disabled=0)"
	exit 77
fi
try LULL_RETURN=auto --
try LULL_RETURN=uring --
[ "$failed" -eq 0 ]
