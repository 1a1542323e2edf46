#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tests/idle/file_pages.sh: a clean file mapping is whole after both idle stages, and no advice is given on it or on anything else that
# lull did not map: by /proc/self/smaps in the program (programs/file_pages.c), and by the calls that strace sees.
#
# LULL_SO names the library, out/release/liblull.so by default.
# Exit 0 passed, 1 a failure, 2 there is no library, 77 the program passed and its calls could not be traced.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath -m "${LULL_SO:-${TEST_OUT:-$here/../../out/release}/liblull.so}")
if [ ! -r "$library" ]; then
	echo "file_pages: no library $library: build it, or name another in LULL_SO"
	exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0

# The stages are set to 1 s and 2 s of quiet; what they do then takes milliseconds.
export LULL_IDLE_STAGES=1,2
wait_ms=4000

"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE= -O1 -Wall -Wextra -Werror -fno-builtin -pthread -I"$here/../../include" -o "$work/file_pages" "$here/programs/file_pages.c"
head -c $((8 << 20)) /dev/urandom >"$work/file"
# what is clean can be dropped at no cost: that is the trap
sync "$work/file"

# ENVIRONMENT COMMAND...: the program under the library; its output in $work/out
try() {
	local setting=$1 status=0
	shift
	"$@" env "$setting" LD_PRELOAD="$library" "$work/file_pages" "$work/file" $wait_ms >"$work/out" 2>"$work/err" || status=$?
	if [ "$status" -ne 0 ]; then
		cat "$work/out" "$work/err"
		echo "FAIL file_pages, $setting: status $status"
		exit 1
	fi
}

# Every range of every call against every mapping that the program named.
check_calls() {
	perl -e '
		my ($out, $trace, $setting) = @ARGV;
		my (@mappings, $ranges, $failed);
		open my $o, "<", $out or die;
		while (<$o>) { push @mappings, [hex $1, hex $2] if /^mapping ([0-9a-f]+) ([0-9a-f]+)$/ }
		open my $t, "<", $trace or die;
		while (<$t>) {
			my @advised;
			push @advised, [hex $1, $2] if /\bmadvise\(0x([0-9a-f]+), (\d+),/;
			push @advised, [hex $1, $2] while /iov_base=0x([0-9a-f]+), iov_len=(\d+)/g;
			for my $range (@advised) {
				my ($start, $end) = ($range->[0], $range->[0] + $range->[1]);
				$ranges++;
				next unless grep { $start < $_->[1] && $_->[0] < $end } @mappings;
				print "FAIL $setting: advice on a mapping of the program: $_";
				$failed = 1;
			}
		}
		die "FAIL $setting: only $ranges ranges were advised on\n" if $ranges < 100;
		die "FAIL $setting: no mappings\n" if @mappings < 4;
		print "$setting: $ranges ranges advised on, none in ", scalar @mappings, " mappings of the program\n";
		exit($failed ? 1 : 0)' "$work/out" "$work/trace" "$1"
}

try LULL_RETURN=auto
tail -n 1 "$work/out"
command -v strace >/dev/null || { echo "no program strace" && exit 77; }
strace -o "$work/trace" true 2>/dev/null || { echo "no permission to trace a process" && exit 77; }
for setting in LULL_RETURN=auto LULL_RETURN=madvise; do
	try $setting strace -f -v -e trace=madvise,process_madvise -o "$work/trace"
	check_calls $setting
done
