#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A program installs a filter that kills for every system call but the five lull says it can do with, and the few the program itself makes:
# before lull did anything and after, over one thread and over all. It lives, its memory goes back, and a trace shows no other call.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

build filter filter.c
program=$work/filter
bound "$program"

# Every call after the filter is in place: madvise, by which memory goes back, among them.
check_trace() {
	local others
	awk '/PR_SET_SECCOMP, SECCOMP_MODE_FILTER, \{|seccomp\(SECCOMP_SET_MODE_FILTER/ { after = 1; next } after' trace |
		sed -n 's/^[0-9]* *\([a-z0-9_]*\)(.*/\1/p' >calls
	others=$(LC_ALL=C sort calls | uniq -c | grep -Ev ' (mmap|munmap|mprotect|madvise|futex|pread64|write|exit_group|rt_sigreturn)$' || true)
	[ -z "$others" ] || fail "$*: makes other calls: $others"
	grep -q '^madvise$' calls || fail "$*: returns no memory"
	echo "$*: $(LC_ALL=C sort calls | uniq -c | tr -s ' \n' ' ')"
}

# lives SETTING WHEN HOW
lives() {
	local status=0
	preload "$1" "$program" "$2" "$3" >out 2>&1 || status=$?
	[ $status -ne 77 ] || skip "seccomp filters"
	if [ $status -ne 0 ] || [ "$(cat out)" != lives ]; then fail "$*: status $status: $(cat out)"; fi
}

for when in early late; do
	for how in prctl seccomp; do
		for setting in LULL_SCAVENGER=1 LULL_SCAVENGER=0; do lives $setting $when $how; done
	done
done
lives LULL_SCAVENGER=1 late refused

if command -v strace >/dev/null && strace -o trace true 2>/dev/null; then
	# a program that gives nothing back asks for nothing
	plain strace -f -o trace env LD_PRELOAD="$LULL_SO" ls / >out 2>&1 || fail "ls: $(cat out)"
	! grep -Eq '^[0-9]+ +(uname|clone|clone3|process_madvise|mincore|sysinfo)\(' trace || fail "probes at start: $(grep -E 'uname|clone' trace)"
	for when in early late; do
		plain strace -f -o trace env LD_PRELOAD="$LULL_SO" "$program" $when seccomp >out 2>&1 || fail "$when under strace: $(cat out)"
		check_trace "$when"
	done
fi
