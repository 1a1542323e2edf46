#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A program built with AddressSanitizer that gets the library preloaded. The sanitizer demands to come first and says so about any
# preloaded library; told not to check, or preloaded before the library, it must do its work and the library must not disturb it.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

need cc gcc
echo 'int main(void) { return 0; }' >"$work/probe.c"
cc -fsanitize=address -o "$work/probe" "$work/probe.c" 2>/dev/null || skip "no AddressSanitizer (package libasan of the compiler)"
build leaks leaks.c -fsanitize=address
build empty.so empty.c -shared -fPIC
cd "$work"

# Fixed shadow addresses need an address space without randomisation on kernels that randomise more bits than the sanitizer expects.
steady=()
! setarch -R true 2>/dev/null || steady=(setarch -R)
export ASAN_OPTIONS=detect_leaks=0
plain "${steady[@]}" ./leaks >plain.out 2>&1 || skip "AddressSanitizer does not run here"

# asan_run OUTPUT PRELOAD ARGS...
asan_run() {
	local output=$1 library=$2 status=0
	shift 2
	plain "${steady[@]}" env LD_PRELOAD="$library" ./leaks "$@" >"$output.out" 2>"$output.err" || status=$?
	echo "exit status $status" >>"$output.out"
}

# What is found, without process numbers and addresses.
found() {
	sed -n 's/^==[0-9]*== *\(ERROR: AddressSanitizer: [a-z-]*\).*/\1/p; s/^SUMMARY: \(AddressSanitizer: [a-z-]*\).*/\1/p' "$1"
}

# The refusal is the sanitizer's, and not about us: a library without a single function gets it too.
asan_run any "$work/empty.so"
asan_run ours "$LULL_SO"
for name in any ours; do sed -i 's/^==[0-9]*==//' "$name.err"; done
if grep -q 'ASan runtime does not come first' ours.err; then
	compare "the sanitizer's refusal" any.err ours.err
	compare "the refused program" any.out ours.out
	echo "refused like any other preloaded library"
else
	echo "exit status 0" >>plain.out
	compare "the program" plain.out ours.out
fi

# Not checked, and in the order the sanitizer wants.
runtime=$(ldd ./leaks | sed -n 's/.*=> \(.*libasan[^ ]*\).*/\1/p')
for mistake in "" overflow stale; do
	# shellcheck disable=SC2086 # no mistake is no argument
	ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 asan_run reference "$work/empty.so" $mistake
	for way in unchecked first; do
		if [ $way = unchecked ]; then
			# shellcheck disable=SC2086
			ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 asan_run ours "$LULL_SO" $mistake
		else
			[ -n "$runtime" ] || continue
			# shellcheck disable=SC2086
			asan_run ours "$runtime $LULL_SO" $mistake
			found reference.err >reference.found
			found ours.err >ours.found
			compare "found by the sanitizer that comes first, mistake '$mistake'" reference.found ours.found
			compare "program after the sanitizer, mistake '$mistake'" reference.out ours.out
		fi
		if grep -qE 'SEGV|CHECK failed|allocator|DEADLYSIGNAL' ours.err || [ "$(tail -n 1 ours.out)" = "exit status 139" ]; then
			cat ours.out ours.err
			fail "crash, $way, mistake '$mistake'"
		fi
		[ -n "$mistake" ] || compare "the program, $way" reference.out ours.out
	done
done
echo "asan: unchecked and after the sanitizer"
