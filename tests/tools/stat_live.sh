#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `lull stat` of processes whose statistics are known (page_holder.c) or wrong in one way each.
# shellcheck source-path=SCRIPTDIR source=common.bash
. "$(dirname "$0")/common.bash"

holder=$TEST_OUT/tests/tools/page_holder

# holds HOW EXIT STDOUT STDERR
holds() {
	start "$holder" "$1"
	run "$tool" stat "$pid"
	expect "a page that is $1" "$2" "$3" "$4"
	stop
}

holds good 0 page_holder -
holds second 0 page_holder -
holds long 0 page_holder -
holds foreign 1 - "has only the statistics of pid 1, which made it by clone"
holds version 2 - "has statistics of version 2, this command reads version 1"
holds unsealed 2 - "is not lull's: not sealed, or not filled in"
holds unfilled 2 - "is not lull's: not sealed, or not filled in"

start "$holder" short
run "$tool" stat --json "$pid"
expect "a page of an older writer" 0 '"heaps":null' -
[ "$(json threads_started)" != null ] || fail "a field the older writer had is missing"
stop

# Every member of the struct, in its order, is printed with its own value: word I holds I * 1000003, the head, `way` and other words aside.
start "$holder" good
run "$tool" stat --json "$pid"
expect "all fields" 0 '"schema":"lull.stat.1"' -
members=$(sed -n '/^struct lull_stats {/,/^};/s/^\tuint64_t \([a-z0-9_]*\);.*/\1/p' include/lull/stats.h)
word=0
for member in $members; do
	case $member in
	magic) word=1 ;; # version and size share the next word
	pid) [ "$(json own_pid)" = "$pid" ] || fail "own_pid is $(json own_pid)" ;;
	track_mode) [ "$(json track_mode)" = off ] || fail "track_mode is $(json track_mode)" ;;
	track_state) [ "$(json track_state)" = watches ] || fail "track_state is $(json track_state)" ;;
	policy) [ "$(json policy)" = seed ] || fail "policy is $(json policy)" ;;
	way) [ "$(json way)" = process_madvise ] || fail "way is $(json way)" ;;
	*) [ "$(json "$member")" = $((word * 1000003)) ] || fail "$member is $(json "$member")" ;;
	esac
	word=$((word + 1))
done
[ "$word" -ge 21 ] || fail "only $word words found in lull/stats.h"

# Beside the kernel: the same number as in the process's status file.
kernel=$(awk '$1 == "RssAnon:" { print $2 * 1024 }' "/proc/$pid/status")
[ "$(json rss_anon_bytes)" = "$kernel" ] || fail "rss_anon_bytes is $(json rss_anon_bytes), the kernel says $kernel"

# What is recorded reads the same.
tests/tools/record "$pid" "$work/recorded"
run "$tool" stat --json --root "$work/recorded" "$pid"
expect "the same, recorded" 0 '"command":"page_holder"' -
[ "$(json away_bytes)" = $((7 * 1000003)) ] || fail "the recorded page reads otherwise"

if [ "$(id -u)" -eq 0 ]; then
	# the command may lie where others cannot go
	install -m 755 "$tool" "$work/lull"
	chmod 755 "$work"
	run setpriv --reuid 65534 --regid 65534 --clear-groups "$work/lull" stat "$pid"
	expect "another user's process" 2 - "not permitted to look into pid $pid: needs its user, or CAP_SYS_PTRACE"
fi
stop

finish
