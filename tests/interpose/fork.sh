#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Processes made while threads allocate: fork 1000 times, vfork, posix_spawn, popen, and fork before the first malloc.
# The children are ended by their own alarm when they hang, which is a failure. time limit: 600 s, for a busy machine.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

build fork fork.c
cd "$work"
bound ./fork child
for how in plain preload; do
	for mode in "first" "vfork 60" "storm 1000"; do
		[ "$how $mode" != "plain storm 1000" ] || mode="storm 20"
		# shellcheck disable=SC2086 # a mode and its number
		limit=280 $how ./fork $mode >out 2>&1 || { status=$?; cat out; fail "fork $mode: status $status ($how)"; }
	done
done
echo "fork: first, vfork and spawn 60, storm 1000"
