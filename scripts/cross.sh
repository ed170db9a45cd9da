#!/bin/sh
# SPDX-License-Identifier: MIT
#
# cross.sh DIRECTORY: cmocka for aarch64, for programs that gcc of aarch64-linux-gnu
# builds on another machine. Prints a directory with cmocka in include/ and lib/.
#
# It unpacks the distribution's package of that architecture in DIRECTORY, and installs
# nothing. apt's lists of that architecture are in DIRECTORY as well. So it needs no
# privilege and does not change the system. Without apt, or if apt does not offer the
# architecture, it fails with a message.
set -eu
dir=$1
lock=$dir.lock

if [ ! -e "$dir/lib/libcmocka.so" ]; then
	mkdir -p "$(dirname "$dir")"
	exec 9>"$lock"
	flock 9                                 # rows run in parallel
fi
if [ ! -e "$dir/lib/libcmocka.so" ]; then
	if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
		echo "cross.sh: no apt: cannot fetch cmocka for aarch64" >&2
		exit 1
	fi
	rm -rf "$dir"
	mkdir -p "$dir/lists/partial" "$dir/cache" "$dir/deb" "$dir/include" "$dir/lib"
	full=$(cd "$dir" && pwd)
	apt() {
		apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
			-o APT::Sandbox::User= -o Dir::State::status=/dev/null \
			-o Dir::State::lists="$full/lists" -o Dir::Cache="$full/cache" "$@" >&2
	}
	apt update
	(cd "$dir/deb" && apt download libcmocka-dev libcmocka0)
	for package in "$dir"/deb/*.deb; do
		dpkg-deb -x "$package" "$dir/unpacked"
	done
	cp "$dir"/unpacked/usr/include/cmocka*.h "$dir/include"
	rm -rf "$dir/lists" "$dir/cache"
	# Last, as it marks the end.
	cp -P "$dir"/unpacked/usr/lib/aarch64-linux-gnu/libcmocka.so* "$dir/lib"
fi
cd "$dir" && pwd
