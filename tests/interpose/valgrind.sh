#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A program with the library preloaded under valgrind. memcheck and helgrind put their own functions in place of any malloc: the
# library steps aside, and mistakes are found as without it. Told not to, and under callgrind, the library itself runs on
# valgrind's processor; the program must do the same work there.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

need valgrind valgrind
build leaks leaks.c
cd "$work"
bound ./leaks

# valgrind_run OUTPUT HOW OPTIONS... PROGRAM ARGS...: the library is preloaded into the program, not into valgrind's launcher
valgrind_run() {
	local output=$1 how=$2 status=0 option=()
	shift 2
	[ "$how" = plain ] || option=(LD_PRELOAD="$LULL_SO")
	limit=200 plain env ${option[@]+"${option[@]}"} valgrind --log-file="$output.log" "$@" >"$output.out" 2>&1 || status=$?
	echo "exit status $status" >>"$output.out"
	if grep -E "the 'impossible' happened|Process terminating|ERROR: ld.so" "$output.log" "$output.out"; then
		tail -n 60 "$output.log"
		fail "valgrind ended the program ($*)"
	fi
}

# found LOG: what memcheck says, without process numbers and addresses
found() {
	sed -n 's/^==[0-9]*== *\(definitely lost.*\|ERROR SUMMARY.*\|Invalid .*\|All heap blocks.*\)/\1/p' "$1"
}

# The same mistakes are found.
for mistake in "" leak overflow stale; do
	for how in plain preload; do
		valgrind_run "$how" $how --leak-check=full ./leaks $mistake
		found "$how.log" >>"$how.out"
	done
	compare "memcheck, mistake '$mistake'" plain.out preload.out
done
grep -q 'Invalid read' preload.out || fail "memcheck did not look"

for how in plain preload; do valgrind_run "$how" $how --tool=helgrind ./leaks; done
compare "helgrind" plain.out preload.out

# The library's own code at work.
for options in "--tool=none" "--tool=callgrind --callgrind-out-file=calls" \
	"--soname-synonyms=somalloc=nouserintercepts --leak-check=no --undef-value-errors=no"; do
	# shellcheck disable=SC2086 # options are words
	valgrind_run plain plain $options ./leaks
	# shellcheck disable=SC2086
	valgrind_run preload preload $options ./leaks
	compare "valgrind $options" plain.out preload.out
	[ ! -f calls ] || grep -qF "${LULL_SO##*/}" calls || fail "the library does not run under callgrind"
done
echo "valgrind: memcheck, helgrind, callgrind, none"
