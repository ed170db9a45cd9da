#!/bin/sh
# SPDX-License-Identifier: MIT
#
# make dist: what it packs is what is committed, under the version's name, with a checksum
# that fits, and the same bytes for the same commit. It refuses what is no checkout, and a
# checkout with changes. make deb says at once all that it lacks.
#
#   MAKE    default make
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

# dist DIRECTORY: what it says is in $dir/log.
dist() {
	$MAKE -s --no-print-directory -C "$1" B=build dist >"$dir/log" 2>&1
}

# refused WORDS: with these, and without a file.
refused() {
	rm -rf "$dir/tree/build"
	if dist "$dir/tree"; then
		fail "does not refuse: $1"
	elif ! grep -q "make dist: .*$1" "$dir/log"; then
		fail "refuses with other words than '$1': $(cat "$dir/log")"
	fi
	[ ! -e "$dir/tree/build/$name.tar.gz" ] || fail "packs what is refused: $1"
}

need git
. tests/scripts/checkout.lib
make_checkout || exit 1
name=usched-$(version)

dist "$dir/tree" || fail "fails: $(cat "$dir/log")"
cp -r "$dir/tree" "$dir/copy"
cp "$dir/tree/build/$name.tar.gz" "$dir/first.tar.gz"
(cd "$dir/tree/build" && sha256sum -c "$name.tar.gz.sha256") >/dev/null ||
	fail 'the checksum does not fit'
tar -tzf "$dir/first.tar.gz" | grep -v '/$' | sort >"$dir/packed"
git -C "$dir/tree" ls-files | sed "s,^,$name/," | sort | diff - "$dir/packed" >&2 ||
	fail 'does not pack (>) what is committed (<)'
! grep -rq '@[a-z0-9]*@' "$dir/tree/build/packaging" ||
	fail "not filled in: $(grep -r '@[a-z0-9]*@' "$dir/tree/build/packaging")"
mkdir "$dir/unpacked"
tar -xzf "$dir/first.tar.gz" -C "$dir/unpacked"
cmp Makefile "$dir/unpacked/$name/Makefile" || fail 'packs another Makefile'

sleep 1         # files are later than the first time
find "$dir/copy" -name '*.[ch]' -exec touch {} +
(umask 077 && dist "$dir/copy") || fail "fails in a copy: $(cat "$dir/log")"
cmp "$dir/first.tar.gz" "$dir/copy/build/$name.tar.gz" || fail 'packs other bytes in a copy'
# A clone of a clone, under another umask, with another language, and a user's settings.
(
	umask 027
	git clone -q "$dir/tree" "$dir/clone" && git clone -q "$dir/clone" "$dir/elsewhere" ||
		exit 1
	printf '[tar]\n\tumask = 0077\n[core]\n\tautocrlf = true\n' >"$dir/settings"
	GIT_CONFIG_GLOBAL=$dir/settings LC_ALL=$(locale -a | grep -vxE 'C|POSIX' | tail -n 1)
	export GIT_CONFIG_GLOBAL LC_ALL TZ=Asia/Kathmandu GZIP=-1
	dist "$dir/elsewhere"
) || fail "fails in a clone: $(cat "$dir/log")"
cmp "$dir/first.tar.gz" "$dir/elsewhere/build/$name.tar.gz" ||
	fail 'packs other bytes in a clone'

echo >"$dir/tree/new"
refused 'changes that are in no commit'
# make deb says that at once with the packages that are missing: here all of them.
mkdir "$dir/none"
printf '#!/bin/sh\nexit 1\n' >"$dir/none/dpkg-query"
chmod +x "$dir/none/dpkg-query"
! PATH=$dir/none:$PATH $MAKE -s --no-print-directory -C "$dir/tree" B=build deb \
	>"$dir/log" 2>&1 || fail 'make deb: does not refuse'
for words in 'changes that are in no commit' '?? new' \
	'apt-get install .* build-essential .*debhelper .*libssl-dev'
do
	grep -q "$words" "$dir/log" || fail "make deb: no '$words' in $(cat "$dir/log")"
done
rm "$dir/tree/new"
echo >>"$dir/tree/README.md"
refused 'changes that are in no commit'
rm -rf "$dir/tree/.git"
refused 'git checkout'

conclude "$(wc -l <"$dir/packed") files"
