# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Boots a kernel of Debian's in an emulated machine and runs tests in it: each script beside this file sources it and calls guest
# with the name of a kernel package. The kernel is downloaded and unpacked into out/vm, never installed, and kept; the rest of the
# system is busybox, the test programs of out/release and the libraries they are linked to, in an initramfs (init is its first process).
#
# Exit 0 all passed or skipped, 1 a failure (what it printed is shown) or no end, 77 there is no emulator or no kernel. The last line
# is "N passed, N failed, N skipped" and what was skipped.
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${TEST_OUT:=$PWD/out/release}"

# The emulator translates, so that a guest runs 10 to 20 times slower: a run takes 70 to 100 s on two processors that are free, and some 300 s on
# busy ones.
guest_limit_s=450
test_limit_s=100
memory_mib=768
processors=2

work=$(mktemp -d)
emulator=""
trap tidy_up EXIT
trap 'exit 1' HUP INT TERM

tidy_up() {
	[ -z "$emulator" ] || kill "$emulator" 2>/dev/null || true
	wait
	rm -rf "$work"
}

skip() {
	echo "$*"
	exit 77
}

need() {
	command -v "$1" >/dev/null || skip "no program $1 (package $2)"
}

# ---- the kernel

# The package that META stands for: META depends on it, and its name changes with every update.
kernel_package() {
	apt-cache depends "$1" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1
}

# META -> $kernel: the folder it is unpacked in
get_kernel() {
	local meta=$1 package
	kernel=$PWD/out/vm/$meta
	[ ! -s "$kernel/vmlinuz" ] || return 0
	need apt-get apt
	need dpkg dpkg
	package=$(kernel_package "$meta")
	if [ -z "$package" ]; then
		[ "$(id -u)" -ne 0 ] || apt-get -qq update >/dev/null 2>&1 || true
		package=$(kernel_package "$meta")
	fi
	[ -n "$package" ] || skip "no package $meta to be had"
	rm -rf "$kernel"
	mkdir -p "$kernel/part"
	(cd "$kernel" && apt-get -qq download "$package" >"$work/log" 2>&1) || { cat "$work/log"; skip "no download of package $package"; }
	dpkg -x "$kernel"/*.deb "$kernel/part"
	rm "$kernel"/*.deb
	mv "$kernel/part/lib/modules"/* "$kernel/modules"
	mv "$kernel/part/boot"/vmlinuz-* "$kernel/vmlinuz"
	rm -rf "$kernel/part"
}

# ---- what the guest is made of

# Programs are taken without debug information: all of it is read into the guest's memory.
add_program() {
	mkdir -p "$root/${2%/*}"
	objcopy --strip-debug "$1" "$root/$2"
	add_libraries "$1"
}

add_libraries() {
	local library
	for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
		case $library in /lib64/*) mkdir -p "$root/lib64" && cp -Ln "$library" "$root/lib64" ;; *) cp -Ln "$library" "$root/lib" ;; esac
	done
}

# The modules NAME needs, then NAME, into the guest's list, unpacked.
add_module() {
	local name=$1 file needed
	# a module's name has underscores where its file may have hyphens
	file=$(find "$kernel/modules" -name "${name//[-_]/[-_]}.ko*" | head -n 1)
	[ -n "$file" ] && [ ! -e "$root/modules/$name.ko" ] || return 0
	case $file in *.xz) xz -dc "$file" ;; *) cat "$file" ;; esac >"$root/modules/$name.ko"
	for needed in $(strings -a "$root/modules/$name.ko" | sed -n 's/^depends=//p' | tr ',' ' '); do add_module "$needed"; done
	echo "/modules/$name.ko" >>"$root/modules/list"
}

# NAME COMMAND: one more line of the guest's list
add_test() {
	printf '%s\t%s\t%s\n' "$1" "$test_limit_s" "$2" >>"$root/tests/list"
}

# SOURCE...: each is a test by itself
add_tests() {
	local source path
	for source in "$@"; do
		path=${source%.c}
		[ -x "$TEST_OUT/$path" ] || { echo "no program $TEST_OUT/$path; build it with: make programs"; exit 1; }
		add_program "$TEST_OUT/$path" "$path"
		add_test "${path#tests/}" "/$path"
	done
}

# NAME SOURCE: a program for the preload, which is linked to nothing of ours
build() {
	"${CC:-cc}" -std=gnu17 -D_GNU_SOURCE= -O1 -Wall -Wextra -Werror -fno-builtin -pthread -Iinclude -o "$work/$1" "$2"
	add_program "$work/$1" "tests/programs/$1"
}

# NAME ENVIRONMENT PROGRAM ARGUMENTS...
add_preload_test() {
	add_test "$1" "env LD_PRELOAD=/lib/liblull.so $2 /tests/programs/${*:3}"
}

add_preload_tests() {
	local how mode
	add_program "$TEST_OUT/liblull.so" lib/liblull.so
	build limits tests/api/programs/limits.c
	for how in first later; do
		for mode in "" " onfault"; do add_preload_test "api/limits locked-$how$mode" "" limits "locked-$how$mode"; done
	done
	build swept tests/idle/programs/swept.c
	for how in wake cancel handler-frees fork; do add_preload_test "idle/swept $how" "" swept "$how"; done
	build inline tests/idle/programs/inline.c
	for how in 3000 300000; do add_preload_test "idle/inline $how" LULL_SCAVENGER=0 inline "$how own"; done
	command -v sqlite3 >/dev/null || return 0
	add_program "$(command -v sqlite3)" tests/programs/sqlite3
	cp tests/vm/sqlite3 "$root/tests/programs/sqlite3-compared"
	add_test interpose/sqlite3 /tests/programs/sqlite3-compared
}

make_root() {
	root=$work/root
	mkdir -p "$root"/{bin,lib,modules,tests,proc,sys,dev}
	cp "$(command -v busybox)" "$root/bin/busybox"
	cp tests/vm/init "$root/init"
	# pthread_cancel loads it when first called
	cp -L "$("${CC:-cc}" -print-file-name=libgcc_s.so.1)" "$root/lib"
	: >"$root/modules/list"
	# lzo-rle: older kernels' zram compresses with it and does not say so
	for module in lzo_rle zram; do add_module $module; done
	shopt -s nullglob
	add_tests tests/kernel/*.c
	add_tests tests/fallback/*.c
	add_tests tests/unit/kernel/*.c tests/unit/region/test_meta.c
	add_tests tests/unit/page/test_reuse.c tests/unit/heap/test_heap.c tests/unit/reclaim/test_{sweep,scavenger}.c
	add_tests tests/stress/{calloc_return,thread_exit}.c
	add_preload_tests
	(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) >"$work/initramfs"
}

# ---- running it

# Both serial lines go to files. timeout is the emulator's parent and ends it whatever becomes of this script.
boot() {
	timeout -k 5 "$guest_limit_s" qemu-system-x86_64 -M q35 -accel tcg,thread=multi -m "$memory_mib" -smp "$processors" \
		-kernel "$kernel/vmlinuz" -initrd "$work/initramfs" -append "console=ttyS0 quiet loglevel=4 panic=-1 psi=1 rdinit=/init" \
		-nodefaults -display none -no-reboot -serial file:"$work/console" -serial file:"$work/results" >"$work/log" 2>&1 </dev/null &
	emulator=$!
	wait "$emulator" || true
	emulator=""
}

# The guest's report for people: failures behind the rest, the count last.
report() {
	tr -d '\r' <"$work/results" | awk '
		/^kernel / || (/^\| / && name == "") { print; next }
		/^start / { name = substr($0, 7); log_text = ""; running = 1; last = ""; next }
		/^\| / { log_text = log_text "    " $0 "\n"; last = substr($0, 3); next }
		/^result [0-9]+ [0-9]+ [0-9]+ [a-z]/ {
			if ($2 in seen) next
			seen[$2]; reported++
			status = $3; seconds = $4; running = 0
			name = $0; sub(/^result [0-9]+ [0-9]+ [0-9]+ /, "", name)
			if (name == "kernel/capabilities") print "capabilities " last
			if (status == 0) { passed++; printf "pass  %-40s %4d s\n", name, seconds; next }
			if (status == 77 && last != "") {
				skipped++; skips = skips (skips == "" ? "" : "; ") name ": " last
				printf "skip  %-40s %4d s  %s\n", name, seconds, last; next
			}
			failed++
			fails = fails sprintf("FAIL  %-40s %4d s  status %d\n%s", name, seconds, status, log_text)
			next
		}
		/^done [0-9]+$/ { finished = 1; ran = $2 }
		END {
			if (finished && ran != reported + 0) {
				failed++
				fails = fails "FAIL  " ran " tests ran, and " reported + 0 " results arrived\n"
			}
			if (!finished) {
				failed++
				fails = fails (running ? "FAIL  " name ": no end\n" log_text : "FAIL  the machine stopped, or did not start\n")
			}
			printf "%s", fails
			printf "%d passed, %d failed, %d skipped%s\n", passed, failed, skipped, skips == "" ? "" : " (" skips ")"
			exit failed > 0
		}'
}

show_console() {
	echo "the end of the machine's console:"
	tail -qn 30 "$work/console" "$work/log" | tr -d '\r' | sed 's/^/    /'
}

guest() {
	local status=0
	[ "$(uname -m)" = x86_64 ] || skip "no x86-64 machine: the guest runs programs of this one"
	need qemu-system-x86_64 qemu-system-x86
	need busybox busybox-static
	need cpio cpio
	need objcopy binutils
	need xz xz-utils
	get_kernel "$1"
	make_root
	boot
	report >"$work/report" || status=$?
	grep -q '^done' "$work/results" || show_console
	cat "$work/report"
	return "$status"
}
