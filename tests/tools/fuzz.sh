#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Random command lines and damaged statistics pages: whatever comes in, the command ends with one of its own exit statuses and at
# most one line on stderr. Seeded; FUZZ_SEED=N repeats a run.
# shellcheck source-path=SCRIPTDIR source=common.bash
. "$(dirname "$0")/common.bash"

RANDOM=${FUZZ_SEED:=$((RANDOM % 32768))}
echo "FUZZ_SEED=$FUZZ_SEED"

# No program may be found by name but the one given by its path.
words=(run stat run stat -- - '' -h --help --version -q --quiet -j --json -b --bytes --root --root=/ --root= -x -jb -qj --=
	1 $$ 0 -1 4194304 99999999999999999999 1e3 0x10 /bin/true /nonexistent $'\xff\xfe' $'\n' $'\e[2J' '%s%n' "$(printf 'a%.0s' {1..5000})")

# check_ending WORD...: of the run that WORDs describe
check_ending() {
	local lines
	mapfile -t lines <"$work/stderr"
	case $status in
	0 | 1 | 2) ;;
	*) fail "exit $status: ${*@Q}" ;;
	esac
	[ ${#lines[@]} -le 1 ] || fail "more than one line on stderr: ${*@Q}"
	[ "$status" -eq 0 ] || [ ${#lines[@]} -eq 1 ] || fail "exit $status without a word: ${*@Q}"
}

for ((round = 0; round < 200; round++)); do
	arguments=()
	for ((i = RANDOM % 6; i > 0; i--)); do arguments+=("${words[RANDOM % ${#words[@]}]}"); done
	run env -i PATH=/nonexistent "$tool" "${arguments[@]}"
	check_ending "${arguments[@]}"
done

page='tree/proc/4242/memfd:lull-stats (deleted)'
cp -a "$here/tree" "$work"
: >"$work/objects"
for ((round = 0; round < 60; round++)); do
	cp "$here/$page" "$work/$page"
	noise=
	for ((i = RANDOM % 16; i >= 0; i--)); do printf -v noise '%s\\x%02x' "$noise" $((RANDOM % 256)); done
	# into the words that are read
	printf '%b' "$noise" | dd of="$work/$page" bs=1 seek=$((RANDOM % 176)) conv=notrunc status=none
	[ $((RANDOM % 8)) -ne 0 ] || truncate -s $((RANDOM % 200)) "$work/$page"
	run "$tool" stat --root "$work/tree" 4242
	check_ending "stat of a damaged page, round $round"
	run "$tool" stat --json --root "$work/tree" 4242
	check_ending "stat --json of a damaged page, round $round"
	cat "$work/stdout" >>"$work/objects"
done

# a status file cut anywhere
for ((bytes = 0; bytes < 1400; bytes += 97)); do
	head -c $bytes "$here/tree/proc/4242/status" >"$work/tree/proc/4242/status"
	cp "$here/$page" "$work/$page"
	run "$tool" stat --json --root "$work/tree" 4242
	check_ending "stat with $bytes bytes of the status file"
	cat "$work/stdout" >>"$work/objects"
done
python3 -c 'import json, sys; print(sum(1 for line in open(sys.argv[1]) if json.loads(line)), "pages read as JSON")' "$work/objects" ||
	fail "not JSON"

finish
