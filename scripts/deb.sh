#!/bin/sh
# SPDX-License-Identifier: MIT
#
# deb.sh: make deb. Builds the source and binary packages of packaging/debian from the tar
# file of make dist, in a scratch directory, and leaves them in $B/deb. Version, date and
# maintainer are filled in: those of the commit that is packed.
#
#   B, VERSION          as in the Makefile, which sets them
#   DEBFULLNAME, DEBEMAIL   the maintainer, in place of the commit's committer
#   DEB_BUILD_OPTIONS   as for dpkg-buildpackage, such as nocheck
set -eu
: "${VERSION:?}"
B=${B:-build}

stop() {
	echo "make deb: $1" >&2
	exit 1
}

# The packages that are needed and not installed: what control names, and what comes before.
missing_packages() {
	field=$(sed -n '/^Build-Depends:/,/^[^ ]*:/ { s/^Build-Depends://; /:/d; p; }' \
		packaging/debian/control)
	case " ${DEB_BUILD_PROFILES-} " in
	*' nocheck '*)	field=$(echo "$field" | sed '/<!nocheck>/d') ;;
	esac
	for package in build-essential git $(echo "$field" |
		sed 's/([^)]*)//g; s/<[^>]*>//g; s/,//g; s/debhelper-compat/debhelper/')
	do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' ||
			echo "$package"
	done
}

# All that is in the way, at once.
command -v dpkg-query >/dev/null || stop 'there is no dpkg: Debian packages are built on Debian'
packages=$(missing_packages | tr '\n' ' ')
wrong=$(scripts/dist.sh check 2>&1) || wrong="
  $(echo "$wrong" | sed '2,$s/^/    /')"
[ -z "$packages" ] || wrong="$wrong
  packages are missing. As root:
    apt-get install -y --no-install-recommends ${packages% }"
[ -z "$wrong" ] || stop "cannot be done yet:$wrong"
scripts/dist.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

cp "$B/usched-$VERSION.tar.gz" "$scratch/usched_$VERSION.orig.tar.gz"
tar -xzf "$scratch/usched_$VERSION.orig.tar.gz" -C "$scratch"
cp -r packaging/debian "$scratch/usched-$VERSION/debian"
name=${DEBFULLNAME:-$(git log -1 --format=%cn)}
address=${DEBEMAIL:-$(git log -1 --format=%ce)}
sed -i -e "s|@maintainer@|$name <$address>|; s|@version@|$VERSION|" \
	-e "s|@date@|$(git log -1 --format=%cD)|" \
	"$scratch/usched-$VERSION/debian/control" "$scratch/usched-$VERSION/debian/changelog"

# The inner make gets no settings of the outer one.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES CC CFLAGS CPPFLAGS LDFLAGS SWITCH DESTDIR
unset prefix libdir includedir mandir WARNINGS
(cd "$scratch/usched-$VERSION" && env -u B -u VERSION dpkg-buildpackage -us -uc) ||
	stop 'the packages do not build'
rm -rf "$B/deb"
mkdir -p "$B/deb"
mv "$scratch"/*_* "$B/deb"
echo "$B/deb"
