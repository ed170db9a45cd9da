#!/bin/sh
# SPDX-License-Identifier: MIT
#
# source.sh DIRECTORY PACKAGE: the source of a Debian package, unpacked in
# DIRECTORY/PACKAGE, without the distribution's changes. It is fetched once.
#
# It comes by apt, with lists of its own in DIRECTORY. So it needs no privilege and does not
# change the system. Without apt, or if apt does not offer the source, it fails with a
# message.
set -eu
dir=$1
package=$2
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
apt=$dir/apt.$package

fail() {
	echo "source.sh: no source of $package: $1" >&2
	exit 1
}

# The system's entries for binary packages, as ones for sources.
lists_of_sources() {
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ ! -f "$file" ] || sed -n 's/^deb /deb-src /p' "$file"
	done >"$apt/sources.list"
	for file in /etc/apt/sources.list.d/*.sources; do
		[ ! -f "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" \
			>"$apt/parts/$(basename "$file")"
	done
}

ask() {
	(cd "$apt/source" && apt-get -q -o APT::Sandbox::User= \
		-o Dir::Etc::sourcelist="$apt/sources.list" \
		-o Dir::Etc::sourceparts="$apt/parts" \
		-o Dir::State::lists="$apt/lists" \
		-o Dir::Cache="$apt/cache" "$@" >&2)
}

fetch() {
	command -v apt-get >/dev/null || fail 'there is no apt'
	command -v xz >/dev/null || fail 'there is no xz'
	rm -rf "$apt"
	mkdir -p "$apt/lists/partial" "$apt/cache" "$apt/parts" "$apt/source"
	lists_of_sources
	if ! ask update || ! ask source --download-only "$package"; then
		fail 'apt does not offer it'
	fi
	rm -rf "$dir/$package.new"
	mkdir "$dir/$package.new"
	tar -xf "$apt/source/$package"_*.orig.tar.?z -C "$dir/$package.new" \
		--strip-components=1
	rm -rf "$apt"
	mv "$dir/$package.new" "$dir/$package"
}

exec 8>"$dir/lock.$package"
flock 8                                         # others may fetch it at the same time
[ -d "$dir/$package" ] || fetch
