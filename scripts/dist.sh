#!/bin/sh
# SPDX-License-Identifier: MIT
#
# dist.sh [check]: make dist. Packs the last commit as $B/usched-$VERSION.tar.gz, with a checksum
# for sha256sum -c beside it. The same commit gives the same bytes, by the same gzip. What
# Meson, vcpkg and Homebrew need, of packaging, goes to $B/packaging with the version and
# the checksums filled in: the tar file cannot have its own. With `check' it packs nothing,
# and only says why it cannot.
#
#   B, VERSION   as in the Makefile, which sets them
set -eu
: "${VERSION:?}"
B=${B:-build}
name=usched-$VERSION

stop() {
	echo "${said}$1" >&2
	exit 1
}
said='make dist: '
[ "${1-}" != check ] || said=

command -v git >/dev/null || stop 'there is no git here'
top=$(git rev-parse --show-toplevel 2>/dev/null) || stop 'this is not a git checkout'
[ "$top" = "$(pwd -P)" ] || stop 'this is not the top of a git checkout'
changes=$(git status --porcelain)
[ -z "$changes" ] || stop "there are changes that are in no commit; commit them, or git stash -u:
$changes"
[ "${1-}" != check ] || exit 0

mkdir -p "$B"
git -c tar.umask=0022 -c core.autocrlf=false -c core.eol=lf archive --format=tar --prefix="$name/" HEAD >"$B/$name.tar"
gzip -9nf "$B/$name.tar"
cd "$B"
sha256sum "$name.tar.gz" >"$name.tar.gz.sha256"
rm -rf packaging
mkdir packaging
cp -r "$top/packaging/meson" "$top/packaging/vcpkg" "$top/packaging/homebrew" packaging
find packaging -type f -exec sed -i -e "s/@version@/$VERSION/" \
	-e "s/@sha256@/$(cut -c 1-64 "$name.tar.gz.sha256")/" \
	-e "s/@sha512@/$(sha512sum "$name.tar.gz" | cut -c 1-128)/" {} +
echo "$B/$name.tar.gz"
