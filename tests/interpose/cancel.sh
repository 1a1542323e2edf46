#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Threads swept and cancelled inside every kind of blocking call, with clean-up handlers that free and allocate: the same happens to each call
# as without the library.
# shellcheck source=common.bash
. "$(dirname "$0")/common.bash"

build cancel cancel.c
bound "$work/cancel" 0
same cancel "$work/cancel" 4
