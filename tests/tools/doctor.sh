#!/bin/bash
# SPDX-License-Identifier: MIT
#
# `lull doctor` here, under filters as container runtimes have them, of a process under lull and of one that is not, and of recorded trees,
# compared with the stored outputs. After a wanted change: tests/tools/doctor.sh accept
# shellcheck source-path=SCRIPTDIR source=common.bash
. "$(dirname "$0")/common.bash"

command -v jq >/dev/null || { echo "no program jq" && exit 77; }
filtered=$TEST_OUT/tests/tools/filtered
mode=${1:-check}
version=$("$tool" --version | cut -d ' ' -f 2)

# about the last run: its JSON, by a filter of jq
# shellcheck disable=SC2317 # the last of an or
is() {
	jq -e "$1" "$work/stdout" >/dev/null || {
		fail "not so: $1"
		show_output
	}
}

# cap NAME STATE: the last run's JSON has it so
cap() {
	is "[.capabilities[] | select(.name == \"$1\")] | length == 1 and .[0].state == \"$2\""
}

narrow() {
	awk 'length($0) >= 80 { exit 1 }' "$work/stdout" || fail "$1: a line is not below 80 columns"
}

# --- a process started from here

run "$tool" doctor --json
[ "$status" -le 1 ] || fail "doctor --json ends with $status"
is '.schema == "lull.doctor.1" and .pid == null and .is_minimal == false'
is ".is_complete == ($status == 0)"
is '.capabilities | length == (map(.name) | unique | length)'
is '.is_complete == ([.capabilities[], .facts[] | select(.is_loss)] | length == 0)'
# whatever is missing has a reason, a price and a cure
is 'all(.capabilities[] | select(.is_loss); .why != null and .without != null and .change != null)'
is 'all(.facts[] | select(.is_loss); .without != null and .change != null)'
names=$(jq -r '.capabilities[].name' "$work/stdout")
run "$tool" doctor
narrow "doctor"
for name in $names; do grep -qw "$name" "$work/stdout" || fail "the text does not name $name"; done

# each can be forced off, and is then a loss or at least not live
for name in $names; do
	run env LULL_CAPS="-$name" "$tool" doctor --json
	cap "$name" off
done
run env LULL_CAPS=-uring "$tool" doctor --json
expect "without the ring" 1 '"is_complete":false' -
cap uring off
cap uring_madvise off
is '.capabilities[] | select(.name == "uring_madvise") | .why == "it needs uring" and .change == "as for uring"'

# --- filters

# as Docker's, containerd's (EPERM) and podman's (ENOSYS) default profiles, and one that kills
blocked=io_uring_setup,userfaultfd,process_madvise
if "$filtered" 1 $blocked true; then
	run "$filtered" 1 $blocked env LULL_CAPS=-uffd_dev "$tool" doctor --json
	expect "under EPERM" 1 "" -
	for name in uring uring_madvise uffd process_madvise uffd_wp_async; do cap $name "not permitted"; done
	cap mincore live
	is '.capabilities[] | select(.name == "uring") | .why == "a system call filter is in force" and (.allow | contains("io_uring_setup"))'
	is '.facts[] | select(.name == "seccomp") | .value | startswith("filter")'
	run "$filtered" 1 $blocked env LULL_CAPS=-uffd_dev "$tool" doctor
	expect "under EPERM, as text" 1 "filter: allow      io_uring_setup" -
	expect "with the way to allow it" 1 "SystemCallFilter=" -
	narrow "under a filter"
	run "$filtered" 38 $blocked env LULL_CAPS=-uffd_dev "$tool" doctor --json
	expect "under ENOSYS" 1 "" -
	for name in uring process_madvise uffd_wp_async; do cap $name absent; done
	is '.capabilities[] | select(.name == "uring") | .allow | contains("io_uring_setup")'
	run "$filtered" kill $blocked env LULL_CAPS=-uffd_dev "$tool" doctor --json
	expect "under a filter that kills" 1 "" -
	cap uring "not permitted"
	is '.capabilities[] | select(.name == "uring") | .why == "a system call filter kills for it"'
else
	echo "seccomp filters: not to be had"
fi

# --- a process

start env LD_PRELOAD="$TEST_OUT/liblull.so" LULL_CAPS=-mincore "$TEST_OUT/tests/tools/quiet"
for _ in $(seq 100); do
	run "$tool" doctor --json "$pid"
	[ "$status" -eq 2 ] || break
	sleep 0.1
done
expect "a process under lull" 1 "\"pid\":$pid" -
cap mincore off
cap thread live
cap memfd live
is '.command == "quiet"'
run "$tool" doctor "$pid"
expect "the same as text" 1 "mincore              off" -
narrow "a process"
stop

start "$TEST_OUT/tests/tools/quiet"
run "$tool" doctor "$pid"
expect "a process without lull" 2 - "pid $pid does not run under lull"
[ "$(wc -l <"$work/stderr")" -eq 1 ] || fail "more than one line about a process without lull"
stop

# --- recorded trees

# page FILE MINIMAL STATE...: a statistics page with these states, in the order of the capabilities
page() {
	perl -e '
		my ($file, $minimal, @states) = @ARGV;
		my @words = (0) x 1024;
		my ($bytes) = `cat include/lull/stats.h` =~ /struct lull_stats \{(.*?)\n\};/s;
		my @members = $bytes =~ /^\tuint(?:64|32)_t (\w+);/gm;
		my %at = map { my $i = $_; ($members[$i] => $i > 2 ? $i - 1 : $i) } 0 .. $#members;
		$words[0] = 0x535441544c4c554c;
		$words[1] = 1 | (@members - 1) * 8 << 32;
		$words[2] = 77;
		$words[$at{$_ < 20 ? "caps_low" : "caps_high"}] |= $states[$_] << 3 * ($_ % 20) for 0 .. $#states;
		$words[$at{caps_high}] |= 1 << 60 if $minimal;
		open my $out, ">", $file or die; print $out pack "Q*", @words;' "$@"
}

# tree NAME: an empty one with a process 77
tree() {
	tree=$work/$1
	at=$tree/proc/77
	mkdir -p "$at/fd" "$at/attr" "$tree/proc/sys/kernel" "$tree/proc/sys/vm" "$tree/sys/kernel/mm/transparent_hugepage" "$tree/proc/pressure"
	ln -s "../memfd:lull-stats (deleted)" "$at/fd/3"
}

compare() {
	local expected=$here/expected/$1.txt
	run "$tool" doctor --root "$tree" 77
	sed "s/$version/VERSION/" "$work/stdout" >"$work/seen"
	[ "$mode" != accept ] || cp "$work/seen" "$expected"
	diff -u "$expected" "$work/seen" || fail "lull doctor of $1 differs; if it should: tests/tools/doctor.sh accept"
	expect "$1" 1 "" -
	narrow "$1"
}

# A pod under its runtime's default profile: no ring, no userfaultfd, no vector call; a read-only cgroup; an old kernel without PSI.
tree pod
#         dontneed..cold     ring      populate..names mincore..uffd_rwp sysinfo..proc
page "$at/memfd:lull-stats (deleted)" 0 1 3 1 1 1 1 3 3 3 3 1 2 1 2 2 1 2 3 2 3 3 2 1 2 1 1 1 1 1
printf 'Name:\tpaymentd\nCapEff:\t00000000a80425fb\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n' >"$at/status"
cat >"$at/limits" <<'END'
Max processes             4096                 4096                 processes 
Max open files            32                   1048576              files     
Max locked memory         65536                65536                bytes     
Max address space         17179869184          unlimited            bytes     
END
echo '44 30 0:27 / /sys/fs/cgroup ro,nosuid shared:9 - cgroup2 cgroup rw' >"$at/mountinfo"
echo '0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-4242.scope' >"$at/cgroup"
echo 'cri-containerd.apparmor.d (enforce)' >"$at/attr/current"
echo 6.1.0-18-cloud-amd64 >"$tree/proc/sys/kernel/osrelease"
echo 2 >"$tree/proc/sys/vm/overcommit_memory"
echo 65530 >"$tree/proc/sys/vm/max_map_count"
echo 0 >"$tree/proc/sys/vm/unprivileged_userfaultfd"
echo 'always madvise [never]' >"$tree/sys/kernel/mm/transparent_hugepage/enabled"
printf 'Filename\tType\tSize\tUsed\tPriority\n/dev/sda2 partition 1048576 0 -2\n' >"$tree/proc/swaps"
compare doctor-pod

# A host whose administrator switched the ring off, and a program there that locked itself in.
tree locked
page "$at/memfd:lull-stats (deleted)" 1 1 5 5 5 5 5 3 3 3 3 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5
printf 'Name:\tsandboxed\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n' >"$at/status"
echo 2 >"$tree/proc/sys/kernel/io_uring_disabled"
echo 'some avg10=0.00 avg60=0.00 avg300=0.00 total=0' >"$tree/proc/pressure/memory"
echo 6.12.0 >"$tree/proc/sys/kernel/osrelease"
printf '40 30 0:37 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n34 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n' >"$at/mountinfo"
compare doctor-locked

run "$tool" doctor --root "$tree" 78
expect "no such process in the tree" 2 - "pid 78: no such process"
run "$tool" doctor --root "$tree"
expect "a tree alone" 2 - "--root needs a pid"

finish
