#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Do the documents and the code say the same? Checks that
#
#  - scripts/man.awk makes a manual page of each public header, so each public function has
#    a comment;
#  - every function that a document names is in a header, except under "was" in a table;
#  - in the manual pages what begins with #include compiles, unless a line is "...";
#  - each function of the headers in $shown is called by an example: in examples/, in the
#    README, or in a page's EXAMPLES;
#  - doc/map.md names each file of the library, and what it looks for is in the file;
#  - scripts/matrix.sh has a row "proof" for each script with a long form;
#  - CHANGES.md begins with the version of usched.h;
#  - the files that Markdown documents link to exist;
#  - no manual page refers to wait(3) where uwait(3) is meant, and so on;
#  - mandoc has nothing to say about the manual pages, and shows no quote inside another
#    one, as where a comma ends no macro (if it is installed).
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

pages=$(echo doc/*.[17] doc/*.3.in)
texts='README.md CHANGES.md CONTRIBUTING.md SECURITY.md doc/*.md tests/*.md bench/*.md'
name='((usched|ustack|rr|ll|uproc|uprocs|uimage|uevents|uwait|usync|unet'
name="$name|ubuf|ufile|uoffload|uoverflow|upreempt|uinspect|ustall|uco|utls|ulinear|sim)_[a-z_]*[a-z]|uoffload|upreempt)"
shown='usched-rr usched-ll uprocs ustack usync unet ubuf uco uoffload'

examples=0

mkdir "$dir/man"
for page in doc/*.3.in; do
	made=$(basename "$page" .3.in)
	header=$(ls "${made#usched-}.h" "debug/$made.h" "tls/$made.h" "sim/$made.h" 2>/dev/null)
	awk -f scripts/man.awk "$header" "$page" >"$dir/man/$made.3" || fail "$page: no page"
done
for header in $(of_make headers) tls/utls.h sim/sim.h sim/ulinear.h; do
	case $header in usched-all.h | arch/* | posix/* | *.hh) continue ;; esac
	made=$(basename "$header" .h)
	[ -f "doc/$made.3.in" ] || [ -f "doc/usched-$made.3.in" ] || fail "$header has no manual page"
done
grep -ohE "^.Nm $name" "$dir"/man/*.3 | sort -u >"$dir/functions"
grep -hvE '^( \*|/\*|#)' *.h arch/*.h debug/*.h tls/utls.h sim/*.h | grep -oE "(^|[*[:space:]])$name\(" |
	grep -oE "$name" >"$dir/known"
for document in $pages $texts; do
	case $document in *\**) continue ;; esac        # there is none like that
	if [ ! -f "$document" ]; then
		fail "$document is missing"
		continue
	fi
	awk '/^\| was \|/ { on = 1 } !/^\|/ { on = 0 } on { sub(/^\|[^|]*/, "") } 1' \
		"$document" >"$dir/text"
	{
		grep -oE "(^|[^a-zA-Z0-9_])$name\(" "$dir/text"
		grep '^\.' "$dir/text" | grep -oE "(Nm|Fn|Fo) $name"
	} | grep -oE "$name" | sort -u >"$dir/named"
	while read -r function; do
		grep -qx "$function" "$dir/known" ||
			fail "$document names $function(), which no header declares"
	done <"$dir/named"
done

# As installed: <usched/rr.h>.
mkdir "$dir/usched"
ln -s "$PWD"/*.h "$PWD/arch" "$PWD/debug" "$PWD/tls" "$PWD/sim" "$dir/usched"

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

{
	cat examples/*.* examples/tutorial/*.c README.md
	awk '/^\.Sh/ { on = /EXAMPLES/ } on' doc/*.3.in
} >"$dir/shown"
for page in $shown; do
	for function in $(sed -n 's/^\.Nm \([a-z_]*\).*/\1/p' "$dir/man/$page.3" | sort -u); do
		grep -qE "(^|[^a-z_])$function\(" "$dir/shown" ||
			fail "$page.h: no example calls $function()"
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

# sources NAME: the files of the library with names like that.
sources() {
	find . \( -path './build*' -o -path './.*' -o -path ./results -o -path ./tests \
		-o -path ./bench -o -path ./examples -o -path ./scripts -o -path ./packaging -o -name 'test_*' \) \
		-prune -o -name "$1" -print
}
for file in $(sources '*.[chS]') $(sources '*.hh'); do
	grep -qwF "${file##*/}" doc/map.md || fail "doc/map.md does not name $file"
done
sed -n 's/^| \([a-z0-9_]*\.[chS]\) |.*/\1:/p' doc/map.md >"$dir/places"
grep -oE '[a-z0-9_]+\.[chS]: (`[^`]+`(, )?)+' doc/map.md | tr -d '`(),' >>"$dir/places"
while read -r file names; do
	found=$(sources "${file%:}")
	[ "$found" ] || fail "doc/map.md names ${file%:}, which is not there"
	for name in $names; do
		# shellcheck disable=SC2086 # several
		grep -qE "^([a-zA-Z].*[ *])?$name(\(|:)|^function $name([ ,]|\$)|>$name\[" $found ||
			fail "doc/map.md looks for $name in $file"
	done
done <"$dir/places"

for test in $(grep -lE '\$\{?LONG' tests/scripts/*.sh); do
	test=${test##*/}
	grep -qx "	proof ${test%.sh}" scripts/matrix.sh ||
		fail "scripts/matrix.sh has no row for the long form of $test"
done

version=$(version)
grep -m 1 '^## ' CHANGES.md | grep -qF "## $version (" ||
	fail "CHANGES.md does not begin with $version"

for page in $pages; do
	page=${page%.in}
	name=$(basename "${page%.*}")
	case $name in
	u*)	# shellcheck disable=SC2086
		grep -nE "Xr ${name#u} ${page##*.}( |\$)" $pages >&2 &&
			fail "there is no ${name#u}(${page##*.}), but $name" ;;
	esac
done

if command -v mandoc >/dev/null; then
	opening=$(printf '\342\200\230') closing=$(printf '\342\200\231')
	for page in doc/*.[17] "$dir"/man/*.3; do
		! mandoc -Tutf8 "$page" | grep -n "${opening}[^$closing]*$opening" >&2 ||
			fail "$page: a quote inside another one"
		! mandoc -Tutf8 "$page" | grep -n '[^ (]""' >&2 ||
			fail "$page: quotes that mdoc has taken for its own"
	done
	mandoc -Tlint -Wwarning doc/*.[17] "$dir"/man/*.3 >&2 || fail "mandoc complains"
else
	note "mandoc is not installed: manual pages not checked"
fi

conclude "$(wc -l <"$dir/functions") functions," \
	"$(echo "$pages" | wc -w) manual pages with $examples examples"
