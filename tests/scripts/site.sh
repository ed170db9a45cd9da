#!/bin/sh
# SPDX-License-Identifier: MIT
#
# make site, and what sitelib.py says of the site: links and anchors that lead nowhere, and
# requests to servers. First a page with one mistake of each kind, all of which must be
# found.
#
#   LONG    1: the site is made. Else only the page with mistakes is looked at
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib
need python3

mkdir "$dir/bad"
cat >"$dir/bad/bad.html" <<-END
	<a href="none.html">1</a> <a href="#none">2</a> <p id="twice">3</p> <p id="twice">4</p>
	<img src="https://usched.invalid/none.png">
END
! limited python3 tests/scripts/sitelib.py "$dir/bad" >"$dir/log" || fail 'a bad page is good'
for text in 'none.html is not there' '#none has no such anchor' 'twice:twice' 'loads https:'; do
	has "$text" "$dir/log"
done
[ "${LONG-}" ] || conclude "$count mistakes found; the site was not made"

need mandoc
B=$B scripts/install.sh site >"$dir/log" 2>&1 ||
	skip "MkDocs cannot be had: $(tail -n 2 "$dir/log")"
$MAKE -s --no-print-directory site "B=$B" "CC=$CC" >"$dir/log" 2>&1 ||
	die "make site: $(tail -n 20 "$dir/log")"
limited python3 tests/scripts/sitelib.py "$B/site" >"$dir/log" || die "$(head -n 50 "$dir/log")"
conclude "$count mistakes found; $(cat "$dir/log")"
