#!/bin/bash
# SPDX-License-Identifier: MIT
#
# lull makes no system call that README.md does not list: a program that uses memory, frees it and waits is traced without and with the
# library, and every call that only the second run makes must stand in the table under "Every system call lull makes".
set -eu

cd "$(dirname "$0")/../../.."
library=${TEST_OUT:-$PWD/out/release}/liblull.so
command -v strace >/dev/null || { echo "no program strace" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strace -o "$work/trace" true 2>/dev/null || { echo "no permission to trace a process" && exit 77; }

# Blocks of every kind; as many small ones kept as leaves holes. Two seconds of waiting are some forty ticks.
cat >"$work/program.c" <<'END'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define N 20000
int main(void)
{
	static const size_t sizes[] = {100, 3000, 20000, 120000};
	static char *blocks[N];
	for (int i = 0; i < N; i++)
		if ((blocks[i] = malloc(sizes[i % 4])) != NULL)
			memset(blocks[i], 1, i < 1000 ? sizes[i % 4] : 100);
	for (int i = 0; i < N; i++)
		if (i % 40 != 0)
			free(blocks[i]);
	memset(realloc(calloc(1, 3 << 20), 30 << 20), 1, 1 << 20);
	for (int i = 0; i < 20; i++)
		usleep(100000);
	return 0;
}
END
cc -O1 -fno-builtin -w -o "$work/program" "$work/program.c"

# file, environment -> names of the calls made
calls() {
	local file=$1
	shift
	strace -f -o "$file" env "$@" "$work/program"
	sed -n 's/^[0-9]* *\([a-z0-9_]*\)(.*/\1/p' "$file" | LC_ALL=C sort -u
}

# shellcheck disable=SC2016 # the backquotes are those of the document
listed=$(sed -n '/^## Every system call/,/^## What it does not/p' README.md | grep -o '`[a-z0-9_]*[`(]' | tr -d '`(' | LC_ALL=C sort -u)
calls "$work/plain" >"$work/plain.names"
failures=0
for setting in LULL_RETURN=auto LULL_RETURN=madvise LULL_CAPS=-process_madvise LULL_SCAVENGER=0; do
	calls "$work/lull" LD_PRELOAD="$library" "$setting" >"$work/lull.names"
	for name in $(LC_ALL=C comm -13 "$work/plain.names" "$work/lull.names" | LC_ALL=C comm -23 - <(echo "$listed")); do
		echo "$setting: README.md does not list $name: $(grep -m 1 "$name(" "$work/lull")"
		failures=1
	done
done
exit $failures
