#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Signal handlers that interrupt every kind of blocking call while its thread is swept: results, errno, restarts and signal masks are those
# without the library. Waits with a mask of their own apply it exactly.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

build signals signals.c
bound "$work/signals"
same signals "$work/signals"
