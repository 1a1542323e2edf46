#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Memory that went away is taken back with a few calls instead of a fault for each OS page, and none is brought in that is not written
# (programs/taken.c, which counts OS pages that are missing when they are written).
#
# LULL_SO names the library, out/release/liblull.so by default. time limit: 600 s
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath -m "${LULL_SO:-${TEST_OUT:-$here/../../out/release}/liblull.so}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE= -O1 -Wall -Wextra -Werror -fno-builtin -o "$work/taken" "$here/programs/taken.c"

setting=""

# ARG...: the program's lines in $work/output
taken() {
	env ${setting:+"$setting"} LD_PRELOAD="$library" "$work/taken" "$@" >"$work/output" || {
		echo "FAIL: taken $* ($setting) ended with $?: $(tail -n 1 "$work/output")"
		exit 1
	}
}

# WORD LEAST MOST NAME: that number of each round but the first is in between
between() {
	awk -v word="$1" -v least="$2" -v most="$3" '
		$1 == "round" && $2 > 0 {
			n++
			for (i = 1; i < NF; i++)
				if ($i == word && ($(i + 1) < least || $(i + 1) > most)) bad = 1
		}
		END { exit bad || n != 3 }' "$work/output" || {
		echo "FAIL: $4: $1 is not $2 to $3 in each round:"
		cat "$work/output"
		failed=$((failed + 1))
	}
}

if ! env LD_PRELOAD="$library" "$work/taken" 65536 | grep -q 'round 1 faults 0 '; then
	echo "populating calls"
	exit 77
fi

for kib in 65536 256 16; do
	taken $kib
	between faults 0 64 "64 MiB in blocks of $kib KiB"
done
setting=LULL_CAPS=-populate
taken 256
between faults 16300 16384 "64 MiB without populating"
setting=""

# 256 blocks of which 2 OS pages are written: 2 MiB, and not 64
taken 256 8
between resident_kib 0 3072 "8 of 256 KiB written"
# a quarter
taken 256 64
between resident_kib 0 18432 "64 of 256 KiB written"

taken maps
read -r _ _ before _ most <"$work/output"
echo "mappings: $before, at most $most in use"
# the region's own growth, a thread's stack, the statistics page
if [ "$most" -gt $((before + 16)) ]; then
	echo "FAIL: mappings grow with the number of blocks"
	failed=$((failed + 1))
fi
[ "$failed" -eq 0 ]
