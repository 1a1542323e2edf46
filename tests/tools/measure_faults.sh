#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `lull measure faults`: a short run. Faults, calls and which ways there are, never times.
# shellcheck source-path=SCRIPTDIR source=common.bash
. "$(dirname "$0")/common.bash"

short=(--count 1 --size 16)
before=$(left_cgroups)

run "$tool" measure faults --json "${short[@]}"
expect "JSON" 0 '"schema":"lull.measure.faults.1","way":"touch"' -
holds "all ways, each once" '
	map(.way) == ["touch", "populate", "huge, touch", "huge, populate", "lull, one block", "lull, 256 KiB", "lull, 16 KiB"]'
holds "a way has numbers, or says why not" '
	all((.absent == null and .total_us > 0 and .write_faults >= 0) or (.absent != null and .total_us == null and .calls == null))'
holds "touching takes a fault for each OS page, and no call" 'map(select(.way == "touch")) | all(.write_faults >= 4096 and .calls == 0)'
holds "populating takes one call, and no faults afterwards" '
	map(select(.way == "populate" and .absent == null)) | all(.write_faults < 64 and .calls == 1)'
holds "a huge page takes one fault" '
	map(select(.way == "huge, touch" and .absent == null)) | all(.write_faults >= 8 and .write_faults < 64)'
holds "lull has all of it again, by faults or by calls" '
	map(select(.way | startswith("lull"))) | length == 3 and all(.minor_faults >= 8 and (.write_faults >= 4096 or .calls > 0))'
check_keys lull-measure-faults.1

run env LULL_CAPS=-populate "$tool" measure faults --json "${short[@]}"
expect "lull without populate" 0 '"way":"lull, one block"' -
holds "then it takes a fault for each OS page" 'map(select(.way | startswith("lull"))) | all(.write_faults >= 4096 and .calls == 0)'

run "$tool" measure faults "${short[@]}"
expect "text" 0 "having 16 MiB again, milliseconds; medians of 1;" -
grep -qE '^way +take +write +total +min +max +write faults +calls$' "$work/stdout" || fail "text: no headings"
grep -qE '^a page fault, its write included: [0-9.]+ us$' "$work/stdout" || fail "text: no price of a fault"
awk 'length($0) >= 80 { exit 1 }' "$work/stdout" || fail "text is not below 80 columns"

run env LULL_CAPS=-dontneed "$tool" measure faults "${short[@]}"
expect "lull that returns nothing" 3 - "lull measure faults: what lull was given back did not go to the kernel"
[ "$(left_cgroups)" = "$before" ] || fail "left behind: $(left_cgroups)"

finish
