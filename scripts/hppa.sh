#!/bin/sh
# SPDX-License-Identifier: MIT
#
# hppa.sh DIRECTORY: for the row of PA-RISC in matrix.sh, cmocka built from source, and
# qemu-hppa. Prints the directory, with cmocka in include/ and lib/, and bin/qemu-hppa.
#
# Debian has no packages for PA-RISC; the ports archive does, which is elsewhere. So cmocka
# comes from the distribution's source. Before version 8, qemu gives programs another
# machine's error numbers in SO_ERROR; then the one of a later Debian is taken, which needs
# no library. Both are unpacked in DIRECTORY, with apt's lists, and nothing is installed.
# If apt cannot have one, this fails with a message.
#
#   SUITE   the later Debian; default trixie
set -eu
mkdir -p "$1"
dir=$(cd "$1" && pwd)
CC=hppa-linux-gnu-gcc
OLDEST=8

fail() {
	echo "hppa.sh: $1" >&2
	exit 1
}

# apt with lists of its own: those of sources here, and the later Debian's packages.
apt() {
	(cd "$dir/new" && apt-get -q -o APT::Sandbox::User= -o Dir::Cache="$dir/apt/cache" \
		-o Dir::State::lists="$dir/apt/lists" -o Dir::State::status=/dev/null \
		-o Dir::Etc::sourcelist="$dir/apt/sources.list" \
		-o Dir::Etc::sourceparts=- "$@" >&2)
}

prepare_apt() {
	command -v apt-get >/dev/null || fail "no apt: no cmocka, and no newer qemu"
	rm -rf "$dir/apt"
	mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache" "$dir/new"
	codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	key='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
	mirror=http://deb.debian.org/debian
	printf '%s\n' "deb-src $key $mirror $codename main" \
		"deb $key $mirror ${SUITE:-trixie} main" >"$dir/apt/sources.list"
	apt update || fail "apt cannot have its lists"
}

# Its one file. Its own build asks for these things with cmake.
build_cmocka() {
	apt source --download-only cmocka || fail "no source of cmocka"
	mkdir "$dir/new/source" "$dir/new/include" "$dir/new/lib"
	tar -xf "$dir"/new/cmocka_*.orig.tar.?z -C "$dir/new/source" --strip-components=1
	cp "$dir"/new/source/include/cmocka*.h "$dir/new/include"
	$CC -std=gnu99 -O2 -g -DHAVE_MALLOC_H -DHAVE_INTTYPES_H -DHAVE_SIGNAL_H \
		-DHAVE_STRINGS_H -DHAVE_GCC_THREAD_LOCAL_STORAGE -DHAVE_CLOCK_REALTIME \
		-DHAVE_STRUCT_TIMESPEC -DHAVE_SIGLONGJMP -DHAVE_STRSIGNAL \
		-DWORDS_SIZEOF_VOID_P=4 -DWORDS_BIGENDIAN -I"$dir/new/include" \
		-c "$dir/new/source/src/cmocka.c" -o "$dir/new/cmocka.o" >&2
	hppa-linux-gnu-ar rcs "$dir/new/lib/libcmocka.a" "$dir/new/cmocka.o"
}

# The system's, if it is new enough.
find_qemu() {
	mkdir "$dir/new/bin"
	for qemu in qemu-hppa-static qemu-hppa; do
		qemu=$(command -v $qemu) || continue
		version=$($qemu --version | sed -n '1s/.*version \([0-9]*\).*/\1/p')
		if [ "$version" -ge $OLDEST ]; then
			ln -s "$qemu" "$dir/new/bin/qemu-hppa"
			return
		fi
	done
	apt download qemu-user || fail "no newer qemu"
	dpkg-deb -x "$dir"/new/qemu-user_*.deb "$dir/new/unpacked"
	cp "$dir/new/unpacked/usr/bin/qemu-hppa" "$dir/new/bin"
	rm -rf "$dir/new/unpacked" "$dir"/new/qemu-user_*.deb
}

exec 9>"$dir/lock"
flock 9                                         # rows run in parallel
if [ ! -d "$dir/hppa" ]; then
	rm -rf "$dir/new"
	prepare_apt
	build_cmocka
	find_qemu
	rm -rf "$dir/apt"
	mv "$dir/new" "$dir/hppa"               # last, as it marks the end
fi
echo "$dir/hppa"
