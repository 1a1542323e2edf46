# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Shared by the scripts of this folder: where the command is, a folder to work in, running a command with its output kept, and
# counting what failed. A script ends with `finish`.
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${TEST_OUT:=$PWD/out/release}"
tool=$TEST_OUT/lull
# shellcheck disable=SC2034 # for the scripts
here=$PWD/tests/tools
[ -x "$tool" ] || {
	echo "no command at $tool; build it with: make"
	exit 1
}

work=$(mktemp -d)
failures=0
started=()

tidy_up() {
	local pid
	for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
	rm -rf "$work"
}
trap tidy_up EXIT

# run ARG... -> $status, $work/stdout, $work/stderr
run() {
	status=0
	"$@" >"$work/stdout" 2>"$work/stderr" </dev/null || status=$?
}

fail() {
	echo "FAIL: $1"
	failures=$((failures + 1))
}

show_output() {
	sed 's/^/  stdout: /' "$work/stdout"
	sed 's/^/  stderr: /' "$work/stderr"
}

# expect NAME EXIT STDOUT STDERR: about the last run. STDOUT, STDERR: a text that must be in it; "-": it must be empty; "": anything.
expect() {
	local name=$1 what text bad=
	[ "$status" = "$2" ] || bad+=" exit $status instead of $2;"
	for what in stdout stderr; do
		text=$3
		[ $what = stdout ] || text=$4
		case $text in
		-) [ ! -s "$work/$what" ] || bad+=" $what is not empty;" ;;
		*) grep -qF -e "$text" "$work/$what" || bad+=" no '$text' in $what;" ;;
		esac
	done
	[ -z "$bad" ] || {
		fail "$name:$bad"
		show_output
	}
}

# start COMMAND...: in the background with its input held open until the script ends; returns when it has printed "ready". -> $pid
start() {
	local line=
	coproc STARTED { exec "$@"; }
	pid=$STARTED_PID
	started+=("$pid")
	read -r -t 60 line <&"${STARTED[0]}" || true
	[ "$line" = ready ] || {
		echo "'$*' did not start"
		exit 1
	}
}

stop() {
	kill "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || true
}

# json KEY: its value in the last run's JSON, which is one flat object on one line ("null" when not known)
json() {
	sed -n "s/.*[{,]\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$work/stdout"
}

# left_cgroups: those of `lull measure` that are there
left_cgroups() {
	find /sys/fs/cgroup -name 'lull-measure-*' 2>/dev/null || true
}

# check_keys PAGE: every key of the last run's JSON lines is described in that man page
check_keys() {
	local key
	for key in $(jq -r 'keys[]' "$work/stdout" | sort -u); do
		grep -qxE "\.(B|BR) $key( .*)?" "kmod-free-tools/man/$1" || fail "$1 does not describe $key"
	done
}

# holds NAME FILTER: the last run's JSON lines, as one array, make FILTER true
holds() {
	jq -es "$2" "$work/stdout" >/dev/null || {
		fail "$1: not so: $2"
		show_output
	}
}

finish() {
	[ "$failures" -eq 0 ] || {
		echo "$failures failed"
		exit 1
	}
}
