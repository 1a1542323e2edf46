#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `lull measure return`: a short run. What is looked at is which cells there are, which way was really taken, and bytes; never times. And
# that nothing is left behind, also when a signal ends it.
# shellcheck source-path=SCRIPTDIR source=common.bash
. "$(dirname "$0")/common.bash"

short=(--count 1 --sizes "4K,1M" --holes 16)
before=$(left_cgroups)

run "$tool" measure return --json --busy --check "${short[@]}"
[ "$status" -ne 3 ] || {
	echo "MADV_DONTNEED: $(cat "$work/stderr")"
	exit 77
}
# --check may say no on a machine that has other things to do; then the JSON says so too
worst=$(jq -s 'map(.auto_slowest_cells // 0) | add' "$work/stdout")
expect "JSON" $((worst > 0)) '"schema":"lull.measure.return.1"' -
holds "all cells, each once" '
	map(select(.what == "cell")) | length == 20 and
	(map([.load, .hole_bytes, .way]) | unique | length) == 20 and
	(map(.way) | unique) == ["auto", "handover", "madvise", "uring", "vector"]'
holds "the rest" 'map(.what) | (map(select(. == "huge")) | length) == 2 and (map(select(. == "ratios")) | length) == 2'
holds "one schema" 'map(.schema) | unique == ["lull.measure.return.1"]'
holds "a cell has numbers, or says why not" '
	map(select(.what == "cell")) | all((.absent == null and .caller_ns > 0 and .cpu_ns > 0 and .asked_bytes == .holes * .hole_bytes) or
		(.absent != null and .caller_ns == null and .back_bytes == null))'
holds "a forced way is the way taken" '
	map(select(.what == "cell" and .absent == null and (.way == "madvise" or .way == "vector" or .way == "uring"))) |
	length > 0 and all(.by == .way)'
holds "the kernel took all that was asked, and resident memory fell by it" '
	map(select(.what == "cell" and .absent == null and .way != "handover")) |
	all(.accepted_bytes == .asked_bytes and .rss_bytes >= .asked_bytes / 2)'
holds "what was handed over went back" '
	map(select(.way == "handover" and .absent == null)) | all(.accepted_bytes >= .asked_bytes / 2 and .total_ns == null)'
holds "one hole or all, caller before total" '
	map(select(.what == "cell" and .total_ns != null)) | all(.caller_ns <= .total_ns and .min_ns <= .total_ns and .total_ns <= .max_ns)'
holds "both halves of huge pages left resident memory" '
	map(select(.what == "huge" and .absent == null)) | all(.rss_bytes >= .asked_bytes / 2)'
holds "a split half is the cgroup's again, and written again no more than before" '
	map(select(.way == "lull, split first" and .absent == null and .counted_in == "new cgroup")) |
	all(.usage_bytes >= .asked_bytes / 2 and .rewrite_bytes < .asked_bytes / 2)'
check_keys lull-measure-return.1

# bytes of 1 MiB holes are the cgroup's too
holds "the cgroup got them back" '
	map(select(.hole_bytes == 1048576 and .absent == null and .counted_in == "new cgroup" and .way != "handover")) |
	all(.usage_bytes >= .asked_bytes / 2)'

run env LULL_CAPS=-uring,-process_madvise LULL_RETURN=vector "$tool" measure return "${short[@]}"
expect "without the ring and the vector" 0 "auto / slowest, idle: there is only one way" -
grep -qx 'vector: not here: process_madvise: off' "$work/stdout" || fail "no reason for the vector"
grep -qx 'uring: not here: uring: off' "$work/stdout" || fail "no reason for the ring"
grep -qE '^hole +way +caller +total +min +max +cpu +back +by$' "$work/stdout" || fail "text: no headings"
awk 'length($0) >= 80 { exit 1 }' "$work/stdout" || fail "text is not below 80 columns"

run env LULL_RETURN=madvise LULL_NO_SUCH=1 "$tool" measure return --json "${short[@]}"
expect "a setting that is none" 0 '"what":"ratios"' "lull: unknown variable LULL_NO_SUCH;"
[ "$(wc -l <"$work/stderr")" -eq 1 ] || fail "a wrong setting is complained of more than once"
holds "auto is free to choose" '
	map(select(.what == "cell")) | (map(select(.way == "vector" and .absent == null)) | length) == 0 or
	(map(select(.way == "auto" and .hole_bytes == 4096)) | all(.by == "vector"))'

run env LULL_CAPS=-dontneed "$tool" measure return "${short[@]}"
expect "a kernel that returns nothing" 3 - "lull measure return: madvise(MADV_DONTNEED) does not return memory here (dontneed: off)"

# ended by a signal when a run is under way
run_by_signal() {
	local pid child=
	"$tool" measure return --count 100 >"$work/stdout" 2>"$work/stderr" &
	pid=$!
	for ((i = 0; i < 600; i++)); do
		child=$(pgrep -P $pid) && break
		sleep 0.1
	done
	[ -n "$child" ] || fail "no run was started"
	kill "-$1" $pid
	status=0
	wait $pid || status=$?
}
run_by_signal TERM
expect "SIGTERM" 143 - -
[ "$(left_cgroups)" = "$before" ] || fail "left behind: $(left_cgroups)"

finish
