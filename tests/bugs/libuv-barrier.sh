# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034,SC2154
program='libuv 1.44.2'
bug='#3905: a round of uv_barrier_wait() begins before the last one ends'
bad='libuv1 1.44.2'
good='libuv1 1.50.0'

build() {
	object -ffunction-sections -I"$source" -I"$source/include" -I"$source/src" \
		"$here/libuv-barrier.c"
}
libs=-Wl,--gc-sections
