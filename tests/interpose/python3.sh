#!/bin/bash
# SPDX-License-Identifier: MIT
#
# python3 under the preload: its own tests. Each test case must have the result it has without the preload. They run twice: with
# python's small-object allocator, and with PYTHONMALLOC=malloc, where every object is a malloc block. time limit: 600 s, for a
# busy machine.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

# Debian's python comes first: its test suite is a package.
python=""
for candidate in /usr/bin/python3 python3; do
	command -v "$candidate" >/dev/null || continue
	python=$candidate
	! "$candidate" -c 'import test.test_list, test.test_json' 2>/dev/null || break
done
[ -n "$python" ] || skip "no program python3 (package python3)"
"$python" -c 'import test.test_list, test.test_json' 2>/dev/null ||
	skip "no tests of python (package lib$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')-testsuite)"

bound "$python" --version

# Programs reach malloc_trim through ctypes, by the process's own names (ours) or through libc (not ours: its heap, near empty).
preload "$python" -c '
import ctypes
burst = [bytearray(100000) for _ in range(200)]
del burst
for library in (None, "libc.so.6"):
    assert ctypes.CDLL(library).malloc_trim(0) in (0, 1)
' || fail "malloc_trim through ctypes"

# results NAME: one line per test case from the report in NAME.xml
cat >"$work/results.py" <<'END'
import sys
import xml.etree.ElementTree as tree

lines = []
for case in tree.parse(sys.argv[1]).iter("testcase"):
    bad = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
    lines.append("%s %s" % (case.get("name"), bad or "ok"))
print("\n".join(sorted(lines)))
END

# run_tests HOW NAME TEST...
run_tests() {
	local how=$1 name=$2 status=0
	shift 2
	rm -rf "$work/run"
	mkdir "$work/run"
	(cd "$work/run" && limit=280 $how "$python" -m test --junit-xml "$work/$name.$how.xml" "$@") >"$work/$name.$how.log" 2>&1 || status=$?
	echo "exit status $status" >"$work/$name.$how.out"
	[ -s "$work/$name.$how.xml" ] || { tail -n 40 "$work/$name.$how.log"; fail "$name: no report ($how)"; }
	"$python" "$work/results.py" "$work/$name.$how.xml" >>"$work/$name.$how.out"
}

# same_tests NAME TEST...
same_tests() {
	run_tests plain "$@"
	run_tests preload "$@"
	if ! (compare "$1: results" "$1.plain.out" "$1.preload.out"); then
		grep -A 40 -E '^(ERROR|FAIL):' "$work/$1.preload.log" | head -n 80 || true
		exit 1
	fi
	echo "same: $1, $(grep -c ' ok$' "$work/$1.plain.out") of $(($(wc -l <"$work/$1.plain.out") - 1)) cases pass"
}

# The tests of subprocess count open descriptors; the library's statistics page is one, there when memory has gone back.
LULL_STATS=0 same_tests usual test_threading test_subprocess test_fork1 test_threading_local
PYTHONMALLOC=malloc same_tests malloc test_list test_dict test_json test_bytes test_array test_set test_memoryview
