#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A C++ program: all forms of operator new and delete, new handlers, bad_alloc on impossible sizes, exceptions, containers.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

need c++ g++
# A pair of new and delete must not be folded away.
build cplusplus cplusplus.cc -faligned-new -fno-allocation-dce
bound "$work/cplusplus"
# operator new must be the library's, not only the malloc below it.
LD_BIND_NOW=1 LD_DEBUG=bindings LD_DEBUG_OUTPUT=$work/ld preload "$work/cplusplus" >"$work/out"
cat "$work"/ld.* >"$work/bindings"
if grep -qF "to $LULL_SO [0]: normal symbol \`_Znwm'" "$work/bindings"; then
	for name in _Znwm _Znam _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t \
		_ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t _ZnwmSt11align_val_tRKSt9nothrow_t \
		_ZnamSt11align_val_tRKSt9nothrow_t; do
		grep -F "$work/cplusplus [0] to" "$work/bindings" | grep -F "normal symbol \`$name'" | grep -qF "$LULL_SO" ||
			fail "$name is not the library's"
	done
fi
same cplusplus "$work/cplusplus"
