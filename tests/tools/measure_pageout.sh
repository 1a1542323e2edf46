#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `lull measure pageout`: one short run of each way. Faults and bytes are looked at, not times; and that nothing is left behind.
# shellcheck source-path=SCRIPTDIR source=common.bash
. "$(dirname "$0")/common.bash"

[ -r "$TEST_OUT/liblull.so" ] || {
	echo "no library at $TEST_OUT/liblull.so; build it with: make"
	exit 1
}

# field WAY KEY
field() {
	sed -n "/\"way\":\"$1\"/s/.*[{,]\"$2\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$work/stdout"
}

# expect_more WHAT NUMBER THAN
expect_more() {
	[ "$2" -gt "$3" ] || fail "$1: $2 is not more than $3"
}

if [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ]; then
	run "$tool" measure pageout --dir /dev/shm
	expect "a folder in memory" 3 - "lull measure pageout: '/dev/shm' is in memory (tmpfs)"
fi

folder=$work/images
mkdir "$folder"
short=(--count 1 --pause 4 --image 16 --dir "$folder")
run "$tool" measure pageout --json "${short[@]}"
[ "$status" -ne 3 ] || {
	[ "$failures" -eq 0 ] || finish
	echo "a folder whose files can be paged out: $(cat "$work/stderr")"
	exit 77
}
expect "JSON" 0 '"schema":"lull.measure.pageout.1","way":"page-out"' -
[ "$(wc -l <"$work/stdout")" -eq 3 ] || fail "JSON: not one line for each way"
expect_more "half of the image, than what stays of it after a page-out" \
	"$(($(field page-out image_before_bytes) / 2))" "$(field page-out image_after_bytes)"
expect_more "major faults after a page-out, than after nothing" \
	"$(field page-out next_major_faults)" "$(field neither next_major_faults)"
for way in idle-stages neither; do
	expect_more "what stays of the image in the way $way" \
		"$(field $way image_after_bytes)" "$(($(field $way image_before_bytes) * 15 / 16 - 1))"
done
for key in $(python3 -c 'import json, sys; print(*json.loads(open(sys.argv[1]).readline()))' "$work/stdout"); do
	grep -qxE "\.(B|BR) $key( .*)?" kmod-free-tools/man/lull-measure-pageout.1 || fail "lull-measure-pageout.1 does not describe $key"
done

run env LULL_NO_SUCH=1 TMPDIR="$folder" "$tool" measure pageout "${short[@]:0:6}"
expect "text, in TMPDIR, and no word of the preload's" 0 "image of 16 MiB in $folder;" -
grep -qE '^way +page-out +idle-stages +neither$' "$work/stdout" || fail "text: no headings"
awk 'length($0) >= 80 && !/MiB in/ { exit 1 }' "$work/stdout" || fail "text is not below 80 columns"
[ -z "$(ls -A "$folder")" ] || fail "left behind: $(ls -A "$folder")"

finish
