# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# What the tests of ordinary programs under the preload share; each script beside this file sources it first.
#
# A test does some work twice, without and with the library in LD_PRELOAD, and compares what comes out: standard output, standard
# error and exit status (`same`). So that no test passes without the library, `bound` shows that a program's malloc is the
# library's, and `loaded` that a running server has the library mapped.
#
# LULL_SO names the library, out/release/liblull.so by default; any other allocator's will do to try out a test. TEST_UNDER is a command
# that starts the program with the library, under a filter or a limit (tests/fallback).
# Exit 0 pass, 1 fail (what differs is shown), 77 skip (the last line names what is missing).
set -eu

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LULL_SO=$(realpath -m "${LULL_SO:-$here/../../out/release/liblull.so}")
if [ ! -r "$LULL_SO" ]; then
	echo "no library $LULL_SO: build it, or name another in LULL_SO"
	exit 1
fi

# Output must not depend on whose machine this is.
export LC_ALL=C TZ=UTC
unset LD_PRELOAD LD_DEBUG MALLOC_ARENA_MAX
ulimit -c 0

work=$(mktemp -d)
trap clean_up EXIT
trap 'exit 1' HUP INT TERM
export HOME=$work/home
mkdir "$HOME" "$work/running"
cd "$work"
# A copy: the same library from beginning to end, and readable by whoever may read $work.
install -m 755 "$LULL_SO" "$work"
LULL_SO=$work/${LULL_SO##*/}

# Ends what this test started and has not seen end: one file in $work/running each.
clean_up() {
	local status=$? file pid
	trap - EXIT HUP INT TERM
	for file in "$work"/running/*; do
		pid=${file##*/}
		if [ ! -e "$file" ] || ! kill "$pid" 2>/dev/null; then continue; fi
		wait_for 10 is_gone "$pid" || kill -KILL "$pid" 2>/dev/null || true
	done
	cd /
	rm -rf "$work"
	exit "$status"
}

fail() {
	echo "FAIL: $*"
	exit 1
}

skip() {
	echo "$*"
	exit 77
}

# need PROGRAM PACKAGE
need() {
	command -v "$1" >/dev/null || skip "no program $1 (package $2)"
}

# A process is gone when it no longer runs: a zombie still answers to kill -0.
is_gone() {
	[ ! -r "/proc/$1/stat" ] || grep -q '^State:[[:space:]]Z' "/proc/$1/status" 2>/dev/null
}

# wait_for SECONDS COMMAND...: until COMMAND succeeds
wait_for() {
	local tries=$(($1 * 10))
	shift
	until "$@" 2>/dev/null; do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] || return 1
		sleep 0.1
	done
}

# preload COMMAND...: with the library, ended if it hangs
preload() {
	# shellcheck disable=SC2086 # a command and its arguments
	plain ${TEST_UNDER:-} env LD_PRELOAD="$LULL_SO" "$@"
}

# plain COMMAND...: the same without it. In the background, so that a signal to this script ends it too; what a shell has its
# background commands ignore is set back.
plain() {
	local pid status=0
	timeout -k 5 "${limit:-120}" env --default-signal=INT,QUIT "$@" <&0 &
	pid=$!
	: >"$work/running/$pid"
	wait "$pid" || status=$?
	rm -f "$work/running/$pid"
	return "$status"
}

# start NAME COMMAND...: a server in the background, with the library; its pid is left in $server, its output in NAME.log
start() {
	local name=$1
	shift
	# shellcheck disable=SC2086 # a command and its arguments
	start_plain "$name" ${TEST_UNDER:-} env LD_PRELOAD="$LULL_SO" "$@"
}

# start_plain NAME COMMAND...: the same without the library
start_plain() {
	local name=$1
	shift
	env --default-signal=INT,QUIT "$@" >"$work/$name.log" 2>&1 </dev/null &
	server=$!
	: >"$work/running/$server"
}

# ends_well NAME: the server, told to stop, does so with exit status 0
ends_well() {
	local status=0
	wait_for 60 is_gone "$server" || fail "$1 does not end"
	wait "$server" || status=$?
	rm -f "$work/running/$server"
	[ "$status" -eq 0 ] || fail "$1 ends with status $status"
}

# loaded PID: the library is mapped there
loaded() {
	grep -qF "/${LULL_SO##*/}" "/proc/$1/maps"
}

# bound COMMAND...: the loader resolves malloc to the library in a process of COMMAND
bound() {
	local log
	log=$(mktemp -d -p "$work")
	# TEST_UNDER may make the program another user's
	chmod 777 "$log"
	preload env LD_BIND_NOW=1 LD_DEBUG=bindings LD_DEBUG_OUTPUT="$log/ld" "$@" >/dev/null 2>&1 </dev/null || true
	cat "$log"/ld.* >"$log/all" 2>/dev/null || true
	grep -F "to $LULL_SO [0]: normal symbol" "$log/all" | grep -qF "\`malloc'" || fail "malloc in '$*' is not that of $LULL_SO"
	rm -rf "$log"
}

# same NAME COMMAND...: COMMAND in an empty folder, without and with the library, must end well and say the same
same() {
	local name=$1 how status
	shift
	bound_once "$1"
	for how in plain preload; do
		rm -rf "$work/run"
		mkdir "$work/run"
		status=0
		(cd "$work/run" && $how "$@") >"$work/$name.$how.out" 2>"$work/$name.$how.err" </dev/null || status=$?
		if [ "$status" -ne 0 ]; then
			tail -n 40 "$work/$name.$how.out" "$work/$name.$how.err"
			fail "$name: exit status $status ($how)"
		fi
	done
	compare "$name: standard output" "$name.plain.out" "$name.preload.out"
	compare "$name: standard error" "$name.plain.err" "$name.preload.err"
	echo "same: $name, $(cat "$work/$name.plain.out" "$work/$name.plain.err" | wc -l) lines"
}

# compare WHAT WITHOUT WITH: two files
compare() {
	diff -u "$work/$2" "$work/$3" >"$work/diff" && return
	head -n 60 "$work/diff"
	fail "$1 differs"
}

# The first time a program is used its binding is looked at; `--version` is a harmless argument to all of them.
bound_programs=" "
bound_once() {
	case $bound_programs in *" $1 "*) return ;; esac
	bound "$1" --version
	bound_programs+="$1 "
}

# build OUTPUT SOURCE [FLAGS...]: a program of the c folder
build() {
	local output=$1 source=$here/c/$2 compiler=cc
	local flags=(-std=gnu17 -Wstrict-prototypes -Wmissing-prototypes)
	shift 2
	need cc gcc
	case $source in *.cc)
		need c++ g++
		compiler=c++
		flags=(-std=c++17)
		;;
	esac
	$compiler "${flags[@]}" -D_GNU_SOURCE -O1 -g -Wall -Wextra -Wshadow -Wvla -Wundef -Werror -fno-builtin -pthread \
		-o "$work/$output" "$source" "$@"
}
