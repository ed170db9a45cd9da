#!/bin/sh
# SPDX-License-Identifier: MIT
#
# headers.sh DIRECTORY: unpacks the headers of libstdc++ 14, of a later Debian's package,
# into DIRECTORY: c++/14, and machine/c++/14. apt has lists of its own for that, and
# nothing is installed.
#
#   SUITE   the later Debian; default trixie
set -eu
mkdir -p "$1"
dir=$(cd "$1" && pwd)
rm -rf "$dir/new" "$dir/c++" "$dir/machine"
mkdir -p "$dir/new/lists/partial" "$dir/new/cache"
key='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
echo "deb $key http://deb.debian.org/debian ${SUITE:-trixie} main" >"$dir/new/sources.list"

apt() {
	(cd "$dir/new" && apt-get -q -o APT::Sandbox::User= -o Dir::Cache="$dir/new/cache" \
		-o Dir::State::lists="$dir/new/lists" -o Dir::State::status=/dev/null \
		-o Dir::Etc::sourcelist="$dir/new/sources.list" \
		-o Dir::Etc::sourceparts=- "$@" >&2)
}

apt update
apt download libstdc++-14-dev
dpkg-deb -x "$dir"/new/libstdc++-14-dev_*.deb "$dir/new/unpacked"
mv "$dir/new/unpacked/usr/include/c++" "$dir/c++"
mkdir "$dir/machine"
mv "$dir"/new/unpacked/usr/include/*-linux-gnu*/c++ "$dir/machine/c++"
rm -rf "$dir/new"
