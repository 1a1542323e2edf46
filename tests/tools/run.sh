#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `lull run`: which library it preloads, what it leaves as it was, what it warns of; and a program that goes quiet, seen by `lull stat`.
# shellcheck source-path=SCRIPTDIR source=common.bash
. "$(dirname "$0")/common.bash"

library=$TEST_OUT/liblull.so
[ -r "$library" ] || {
	echo "no library at $library; build it with: make"
	exit 1
}
library=$(readlink -f "$library")
# shellcheck disable=SC2016 # for the inner shell
show='echo "$LD_PRELOAD"'

run "$tool" run -- sh -c "$show"
expect "the library beside the command" 0 "$library" -
run env LD_PRELOAD=libm.so.6:libdl.so.2 "$tool" run -- sh -c "$show"
expect "what was preloaded before stays, behind" 0 "$library:libm.so.6:libdl.so.2" -
run "$tool" run -- grep -c "$library" /proc/self/maps
expect "the library is in the program" 0 "" -
run "$tool" run -- sh -c 'kill -PIPE $$'
expect "the program's own end" 141 - -

mkdir -p "$work/prefix/bin" "$work/prefix/lib" "$work/alone" "$work/a b"
cp "$tool" "$work/prefix/bin"
cp "$tool" "$work/alone"
cp "$tool" "$library" "$work/a b"
cp "$library" "$work/prefix/lib/liblull.so.0"
ln -s liblull.so.0 "$work/prefix/lib/liblull.so"
run "$work/prefix/bin/lull" run -- sh -c "$show"
expect "installed: ../lib" 0 "/prefix/lib/liblull.so.0" -
ln -s prefix/bin/lull "$work/link"
run "$work/link" run -- sh -c "$show"
expect "called by a link" 0 "/prefix/lib/liblull.so.0" -
run "$work/alone/lull" run -- true
expect "no library anywhere" 2 - "lull run: cannot find liblull.so in '$work/alone', nor in lib, lib/$(uname -m)-linux-gnu or lib64 beside it"
run "$work/a b/lull" run -- true
expect "a path the loader cannot read" 2 - "LD_PRELOAD cannot name a path with a blank or a colon"

# /sbin/ldconfig is static in every Debian
note="note: '/sbin/ldconfig' is statically linked: it runs without lull"
run "$tool" run -- /sbin/ldconfig --version
expect "a static program" 0 ldconfig "lull run: $note"
run "$tool" run -q -- /sbin/ldconfig --version
expect "a static program, quietly" 0 ldconfig -

start "$tool" run -- sh -c 'echo ready; read -r x'
run "$tool" stat "$pid"
expect "stat of a program that had nothing to give back" 1 - "pid $pid runs under lull but has no statistics: nothing returned yet"
stop

# 48 MiB taken, 19 of 20 blocks freed, then asleep. The bound of 20 s is for a busy machine; it is a condition, not a measurement.
start "$tool" run -- "$TEST_OUT/tests/tools/quiet"
returned=0
for ((i = 0; i < 200 && returned < 32 << 20; i++)); do
	run "$tool" stat --json "$pid"
	[ "$status" -ne 0 ] || returned=$(json returned_bytes)
	sleep 0.1
done
expect "stat of a program under lull" 0 '"command":"quiet"' -
[ "$returned" -ge $((32 << 20)) ] || fail "only $returned bytes returned by a program that freed 45 MiB and sleeps"
[ "$status" -ne 0 ] || [ "$(json rss_anon_bytes)" -le $((16 << 20)) ] || fail "the kernel still counts $(json rss_anon_bytes) bytes"
stop

finish
