#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Allocation before constructors, in constructors and destructors of programs, threads and libraries, and at exit; and with a
# library in front of ours that wraps malloc and finds ours with dlsym. A process ends with the last of the program's threads.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

build lifecycle lifecycle.c
build plugin.so plugin.c -shared -fPIC
build wrapper.so wrapper.c -shared -fPIC
build fork fork.c
bound "$work/lifecycle" "$work/plugin.so"
same lifecycle "$work/lifecycle" "$work/plugin.so"

build last last.c
for how in ids main fork both; do same "last thread, $how" "$work/last" $how; done

cd "$work"
# Lazy and immediate binding resolve our symbols at different times.
for binding in "" LD_BIND_NOW=1; do
	for program in "lifecycle $work/plugin.so" "fork first" "fork vfork 5"; do
		# shellcheck disable=SC2086 # a program and its arguments, a setting or none
		plain env $binding LD_PRELOAD="$work/wrapper.so $LULL_SO" ./$program >out 2>err || {
			status=$?
			cat out err
			fail "$program behind a wrapper of malloc ($binding): status $status"
		}
		[ "${program%% *}" != lifecycle ] || cmp out lifecycle.plain.out || fail "$program says something else behind a wrapper of malloc"
	done
done
echo "lifecycle: alone and behind a wrapper"
