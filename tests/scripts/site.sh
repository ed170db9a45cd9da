#!/bin/sh
# SPDX-License-Identifier: MIT
#
# make site, and what sitelib.py says of the site: links and anchors that lead nowhere, and
# in headless Chromium, at 420 and 1280 pixels, errors, requests to servers, and what is
# cut. First a page with one mistake of each kind, all of which must be found. make check
# does not install Chromium.
#
#   LONG    1: all pages in Chromium: minutes. Else one of each kind
#   SHOTS   a directory for pictures of the pages that Chromium opens
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib
need chromium mandoc python3
B=$B scripts/install.sh site >"$dir/log" 2>&1 ||
	skip "MkDocs cannot be had: $(tail -n 2 "$dir/log")"

mkdir "$dir/bad"
cat >"$dir/bad/bad.html" <<-END
	<body class="md-content"><script>console.error("planted"); throw new Error("planted")</script>
	<a href="none.html">1</a> <a href="#none">2</a> <p id="twice">3</p> <p id="twice">4</p>
	<img src="https://usched.invalid/none.png"> <pre style="width: 2000px">wide</pre>
END
! SHOTS='' limited python3 tests/scripts/sitelib.py "$dir/bad" >"$dir/log" ||
	fail 'a bad page is good'
for text in 'none.html is not there' '#none has no such anchor' 'twice:twice' \
	'loads https:' 'asks for https:' 'at 420: console' 'at 1280: exception' \
	'scrolls to 20..' 'PRE ends at 20..'
do
	has "$text" "$dir/log"
done

$MAKE -s --no-print-directory site "B=$B" "CC=$CC" >"$dir/log" 2>&1 ||
	die "make site: $(tail -n 20 "$dir/log")"
[ "${LONG-}" ] || set -- index.html doc/porting.html manual/index.html manual/usync.3.html \
	doc/benchmarks.html bench/results/epyc.html usched.c.html
timeout 3600 python3 tests/scripts/sitelib.py "$B/site" "$@" >"$dir/log" ||
	die "$(head -n 50 "$dir/log")"
conclude "$count mistakes found; $(cat "$dir/log")"
