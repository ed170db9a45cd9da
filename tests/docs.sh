#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Do the documents and the code say the same? Checks that
#
#  - every public function is in the NAME or SYNOPSIS of its header's manual page, and has
#    a heading or an item there;
#  - every function that a document names is in a header;
#  - in the manual pages what begins with #include compiles, unless a line is "...";
#  - the README and doc/comparison.md have the same table of other systems;
#  - tests/README.md has each program and script of tests/, and scripts/matrix.sh a row
#    "proof" for each script with a long form;
#  - CHANGES.md and the Debian package begin with the version of usched.h;
#  - the files that Markdown documents link to exist;
#  - no manual page refers to wait(3) where uwait(3) is meant, and so on;
#  - mandoc has nothing to say about the manual pages, and shows no quote inside another
#    one, as where a comma ends no macro (if it is installed).
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/test.lib

public='ustack.h usched.h uimage.h uproc.h debug/uframes.h rr.h ll.h uevents.h uwait.h usync.h'
public="$public unet.h ubuf.h uoffload.h debug/uoverflow.h upreempt.h debug/uinspect.h debug/ustall.h debug/utrace.h uco.h tls/utls.h"
pages='doc/usched.7 doc/ustack.3 doc/rr.3 doc/ll.3 doc/usched.3 doc/uproc.3 doc/uimage.3'
pages="$pages doc/uevents.3 doc/uwait.3 doc/usync.3 doc/unet.3 doc/uoffload.3 doc/uframes.3"
pages="$pages doc/uoverflow.3 doc/upreempt.3 doc/uinspect.3 doc/ustall.3 doc/utrace.3 doc/uco.3 doc/ubuf.3"
pages="$pages doc/utls.3 doc/uthreads.1 doc/uposix.7 doc/usched-run.1"
texts='README.md CHANGES.md CONTRIBUTING.md SECURITY.md doc/*.md tests/*.md bench/*.md'
name='((usched|ustack|rr|ll|uproc|uprocs|uimage|uevents|uwait|usync|unet'
name="$name|ubuf|ufile|uoffload|uoverflow|upreempt|uinspect|ustall|utrace|uco|utls)_[a-z_]*[a-z]|uoffload|upreempt)"

examples=0

# A header without its comments and what is in braces, but for those of extern "C".
outline() {
	awk '
	{ text = text $0 "\n" }
	END {
		sub(/extern "C" \{/, "", text)
		while (i = index(text, "/*")) {
			rest = substr(text, i + 2)
			text = substr(text, 1, i - 1) " " \
				substr(rest, index(rest, "*/") + 2)
		}
		for (i = 1; i <= length(text); i++) {
			c = substr(text, i, 1)
			if (c == "{")
				depth++
			if (depth == 0)
				printf "%s", c
			if (c == "}" && depth > 0)
				depth--
		}
	}' "$1"
}

# The names of functions, and of types of functions, that a header declares.
declared() {
	outline "$1" | grep -v '^#' | grep -oE "(^|[^a-zA-Z0-9_])$name\(" |
		grep -oE "$name" | sort -u
}

# mdoc lines, a word to a line, of the NAME and SYNOPSIS of a manual page.
synopsis() {
	awk '/^\.Sh/ { on = $2 == "NAME" || $2 == "SYNOPSIS" }
	     on && /^\.(Nm|Fn|Fo) / { print $2 }' "$1" | sort -u
}

# What a manual page explains: it is in the head of an item or of a section there.
explained() {
	awk '/^\.Sh/ { on = $2 != "NAME" && $2 != "SYNOPSIS" }
	     on && /^\.(It|Ss) / {
		for (i = 2; i < NF; i++)
			if ($i == "Fn")
				print $(i + 1)
	     }' "$1" | sort -u
}

for header in $public; do
	page=${header##*/}
	page=doc/${page%.h}.3
	declared "$header" | grep -v '__' >"$dir/${header##*/}"  # those are private
	synopsis "$page" >"$dir/synopsis"
	explained "$page" >"$dir/explained"
	[ -s "$dir/${header##*/}" ] || fail "$header: no functions found"
	while read -r function; do
		grep -qx "$function" "$dir/synopsis" ||
			fail "$function() of $header is not in the SYNOPSIS of $page"
		grep -qx "$function" "$dir/explained" ||
			fail "$function() of $header has no item in $page"
	done <"$dir/${header##*/}"
done

cat "$dir"/*.h >"$dir/functions"
for header in *.h arch/*.h debug/*.h tls/utls.h; do
	declared "$header"
done >"$dir/known"
for document in $pages $texts; do
	case $document in *\**) continue ;; esac        # there is none like that
	if [ ! -f "$document" ]; then
		fail "$document is missing"
		continue
	fi
	{
		grep -oE "(^|[^a-zA-Z0-9_])$name\(" "$document"
		grep '^\.' "$document" | grep -oE "(Nm|Fn|Fo) $name"
	} | grep -oE "$name" | sort -u >"$dir/named"
	while read -r function; do
		grep -qx "$function" "$dir/known" ||
			fail "$document names $function(), which no header declares"
	done <"$dir/named"
done

# As installed: <usched/rr.h>.
mkdir "$dir/usched"
ln -s "$PWD"/*.h "$PWD/arch" "$PWD/debug" "$PWD/tls" "$dir/usched"

# From .Bd to .Ed; \e is a backslash, and \& nothing.
for page in $pages; do
	rm -rf "$dir/examples"
	mkdir "$dir/examples"
	awk -v name="$dir/examples/" '
	/^\.Bd/ { text = ""; on = 1; next }
	/^\.Ed/ {
		if (on && text ~ /^#(define|include)/ && text !~ /\n\t+\.\.\.\n/)
			printf "%s", text >(name (n += 1) ".c")
		on = 0
	}
	on { sub(/\\&/, ""); gsub(/\\e/, "\\"); text = text $0 "\n" }' "$page"
	for example in "$dir"/examples/*.c; do
		[ -f "$example" ] || continue
		examples=$((examples + 1))
		${CC:-cc} -Wall -Wextra -Werror -Wno-unused-function "-I$dir" -fsyntax-only "$example" ||
			fail "$page: example $(basename "$example") does not compile"
	done
done

for document in $texts; do
	[ -f "$document" ] || continue
	grep -oE '\]\([^)#[:space:]]+' "$document" | sed 's/^](//' | sort -u |
		grep -vE '^[a-z]+:' >"$dir/links"
	while read -r link; do
		[ -e "$(dirname "$document")/$link" ] ||
			fail "$document links to $link, which is not there"
	done <"$dir/links"
done

# The lines from one that begins with TEXT to the next that is empty.
from() {
	awk -v text="$1" 'index($0, text) == 1 { on = 1 } !NF { on = 0 } on' "$2"
}
from '| | usched |' README.md >"$dir/ours"
from '| | usched |' doc/comparison.md | cmp -s "$dir/ours" - && [ -s "$dir/ours" ] ||
	fail "README.md and doc/comparison.md compare usched in different tables"

for test in tests/*.sh tests/test_*.c tests/test_*.py; do
	grep -qF "(${test#tests/})" tests/README.md || fail "tests/README.md has no ${test#tests/}"
done
for test in $(grep -lE '\$\{?LONG' tests/*.sh); do
	test=${test#tests/}
	grep -qx "	proof ${test%.sh}" scripts/matrix.sh ||
		fail "scripts/matrix.sh has no row for the long form of $test"
done

version=$(version)
grep -m 1 '^## ' CHANGES.md | grep -qF "## $version (" ||
	fail "CHANGES.md does not begin with $version"
head -n 1 packaging/debian/changelog | grep -qF "usched ($version-" ||
	fail "packaging/debian/changelog does not begin with $version"

for page in $pages; do
	name=$(basename "${page%.*}")
	case $name in
	u*)	# shellcheck disable=SC2086
		grep -nE "Xr ${name#u} ${page##*.}( |\$)" $pages >&2 &&
			fail "there is no ${name#u}(${page##*.}), but $name" ;;
	esac
done

if command -v mandoc >/dev/null; then
	opening=$(printf '\342\200\230') closing=$(printf '\342\200\231')
	for page in $pages; do
		! mandoc -Tutf8 "$page" | grep -n "${opening}[^$closing]*$opening" >&2 ||
			fail "$page: a quote inside another one"
	done
	# shellcheck disable=SC2086
	mandoc -Tlint -Wwarning $pages >&2 || fail "mandoc complains"
else
	note "mandoc is not installed: manual pages not checked"
fi

conclude "$(wc -l <"$dir/functions") functions," \
	"$(echo "$pages" | wc -w) manual pages with $examples examples"
