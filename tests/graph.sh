#!/bin/sh
# SPDX-License-Identifier: MIT
#
# graph.py. The tables need only Python; the pictures also matplotlib, and without it
# they are skipped. PYTHON says which Python.

set -u
here=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
if [ -z "${PYTHON-}" ]; then
	PYTHON=python3
	[ ! -x "$here/.venv/bin/python3" ] || PYTHON=$here/.venv/bin/python3
fi
failed=0
setting=''
cat >results <<END
N, R, M, U, C++, <a & "b">, POSIX
2, 2, 1000000, 1.0, 0.5, 0.7, 7
2, 100, 1000000, 30.0, 25.0, 24.0, 100000.000
2, 1000000, 100, fail:timeout, 5.0, 6.0, 100000.000
N, R, M, U, C++
2, 2, 1000000, 1.5, 0.6
2, 100, 1000000, 32.0, 35.0
END

fail() {
	echo "graph: $*" >&2
	failed=1
}

same() {		# WHAT EXPECTED FOUND
	[ "$2" = "$3" ] || fail "$1: expected '$2', found '$3'"
}

# Runs graph.py on standard input, with $setting in the environment if there is one;
# leaves $status, out and err.
graph() {		# PICTURES
	env ${setting:+"$setting"} "$PYTHON" "$here/graph.py" "$@" >out 2>err
	status=$?
}

# The input must give exactly the table on descriptor 3.
gives() {		# WHAT
	graph
	same "$1, status" 0 $status
	same "$1" "$(cat <&3)" "$(cat out)"
	same "$1, standard error" '' "$(cat err)"
}

# An input of these lines must be refused with the message, and nothing written.
refused() {		# MESSAGE, a pattern; LINE...
	pattern=$1
	shift
	printf '%s\n' "$@" >in
	set -- "$pattern"
	graph table.svg <in
	same "status of '$1'" 1 $status
	grep -q "^graph.py: $1" err || fail "'$1' expected, found '$(cat err)'"
	same "lines of message for '$1'" 1 "$(wc -l <err)"
	[ ! -s out ] || fail "'$1': a table all the same"
	[ -z "$(find . -name '*.svg*')" ] || fail "'$1': a picture all the same"
}

# 4 million operations in 1 s and in 2 s: the mean rate is 3 million per second, while
# those of 4 million in the mean time, 1.5 s, would be 2.67.
test_means() {
	gives 'the mean of rates' <<-END 3<<-TABLE
	      N,       R,       M,            U,           UL
	      2,       2, 1000000,     1.000000,     0.500000
	      2,       4, 1000000,     3.000000,     0.250000
	      N,       R,       M,            U,           UL
	      2,       2, 1000000,     2.000000,     0.500000
	      2,       4,  500000,     3.000000,     0.125000
	END
	| threads |    4 |     8 |
	| :------ | ---: | ----: |
	| U       | 3.00 |  2.00 |
	| UL      | 8.00 | 32.00 |
	TABLE
}

# One run without GO, one without U, headers of another N, whose rows grep left out.
test_columns() {
	gives 'mixed columns' <<-END 3<<-TABLE
	N, R, M, U, GO
	2, 2, 1000000, 1, 2
	N, R, M, U, GO
	N, R, M, GO, U1T

	2, 2, 1000000, 4, 8
	2, 50, 1000, 0.01, .001
	END
	| threads |    4 |    100 |
	| :------ | ---: | -----: |
	| U       | 4.00 |      - |
	| GO      | 1.50 |  10.00 |
	| U1T     | 0.50 | 100.00 |
	TABLE
}

# As it was published: narrow columns, and 100000 seconds for a crash.
test_published() {
	gives 'published results' <<-END 3<<-TABLE
	      N,       R,       M, POSIX,    GO,  U10K, C++
	      8,  500000,     102, 100000.000, 10.200, -1.000, 1.02
	      8, 1000000,     100, 1000000.0, 16.000, 0.0, 1e1
	END
	| threads | 4000000 | 8000000 |
	| :------ | ------: | ------: |
	| POSIX   |       - |       - |
	| GO      |   40.00 |   50.00 |
	| U10K    |       - |       - |
	| C++     |  400.00 |   80.00 |
	TABLE
}

test_failures() {
	gives 'failed cells' <<-END 3<<-TABLE
	N, R, M, A, B, C
	2, 2, 1000000, fail:exit-1, 1.0, fail:killed-9
	2, 4, 1000000, fail:timeout, 1.0, fail:memory
	N, R, M, A, B, C
	2, 2, 1000000, 1.0, fail:missing, fail:interrupted
	2, 4, 1000000, fail:output, 2.0, fail:
	END
	| threads |    4 |    8 |
	| :------ | ---: | ---: |
	| A       | 4.00 |    - |
	| B       | 4.00 | 6.00 |
	| C       |    - |    - |
	TABLE
}

# The same number of threads in cycles of two lengths is not the same thing.
test_lengths() {
	gives 'two N' <<-END 3<<-TABLE
	N, R, M, U, V
	8, 2, 1000000, 1, 2
	N, R, M, U
	2, 8, 1000000, 2
	END
	N = 2

	| threads |   16 |
	| :------ | ---: |
	| U       | 8.00 |

	N = 8

	| threads |    16 |
	| :------ | ----: |
	| U       | 16.00 |
	| V       |  8.00 |
	TABLE
}

test_malformed() {
	refused 'no results.*empty' ''
	refused 'no results.*headers' 'N, R, M, U'
	refused 'no results.*every cell' \
		'N, R, M, U' '2, 2, 2, fail:exit-1' '2, 4, 2, 100000.0'
	refused 'line 1: .*before any header' '2, 2, 1000, 1.0'
	refused 'line 2: .*before any header' '' 'Segmentation fault'
	refused 'line 1: a header is' 'N, R, M'
	refused 'line 1: a header is' 'N, M, R, U'
	refused 'line 1: column 5 has no name' 'N, R, M, U,'
	refused 'line 1: two columns .* U$' 'N, R, M, U, GO, U'
	head='N, R, M, U, GO' row='2, 2, 1000, 1.0, 1.0'
	refused 'line 3: the header has 5 cells, this line 3' "$head" "$row" '2, 4, 10'
	refused 'line 3: the header has 5 cells, this line 6' "$head" "$row" "$row, 3"
	refused "line 4: column GO: 'x'" "$head" "$row" "$head" '2, 4, 10, 1, x' "$row"
	for word in '' - nan inf -inf 1_0 0x10 1.5e 1.2.3 fail '1 2' 1s; do
		refused "line 3: column U: '$word'" "$head" "$row" "2, 4, 10, $word, 1"
	done
	for sizes in '0, 4, 10' '-2, 4, 10' '2, 0, 10' '2, 4, 0' '2, 4.0, 1' '2, , 1' \
		'2, 4, 1e3' '2, 4, 11111111111111111' '²2, 4, 10'; do
		refused 'line 3: [NRM] is ' "$head" "$row" "$sizes, 1, 2"
	done
	refused 'line 1: ' "$(printf '\377\376')"
	graph </dev/null
	same 'status of an empty input' 1 $status
}

test_arguments() {
	graph --wide <results
	same 'status of an unknown option' 2 $status
	for name in c2 c2.jpg c2.svgz .svg; do
		graph c2.png "$name" <results
		same "status of '$name'" 2 $status
		grep -q "'$name'" err || fail "'$name' is not in '$(cat err)'"
		[ ! -e c2.png ] || fail "'$name': a picture all the same"
		[ ! -s out ] || fail "'$name': a table all the same"
	done
	graph --help </dev/null
	same 'status of --help' 0 $status
	grep -q '^usage: ' out || fail '--help has no usage'
}

starts() {		# FILE BYTES
	same "start of $1" "$2" "$(head -c ${#2} "$1" | tr -d '\0')"
}

test_pictures() {
	graph one.svg one.png one.PDF <results
	same 'status of three pictures' 0 $status
	same 'standard error of three pictures' '' "$(cat err)"
	graph two.svg two.png two.PDF <results
	for kind in svg png PDF; do
		cmp one.$kind two.$kind || fail "a .$kind of the same is not the same"
	done
	starts one.PDF %PDF-
	same 'start of one.png' '211 P N G' \
		"$(head -c 4 one.png | od -An -c | tr -s ' ' | sed 's/^ //; s/ $//')"
	"$PYTHON" - one.svg <<-'END' || fail 'one.svg is not the XML of a picture'
	import sys, xml.etree.ElementTree as tree
	sys.exit(tree.parse(sys.argv[1]).getroot().tag != "{http://www.w3.org/2000/svg}svg")
	END
	for word in '<!-- U -->' '<!-- C++ -->' '<!-- POSIX -->' 'million operations' \
		'<!-- threads' 'N = 2'; do
		grep -q -e "$word" one.svg || fail "the picture does not say '$word'"
	done
	! grep -q -e '<dc:date>' one.svg || fail 'the picture has a date'
	graph <results
	cp out table
	graph one.svg <results
	cmp out table || fail 'the table depends on the pictures'
}

# Nothing is written if something cannot be; no other file is left either.
test_all_or_none() {
	mkdir taken.png
	for name in absent/c2.svg taken.png; do
		graph first.svg "$name" <results
		same "status of $name" 1 $status
		grep -q "^graph.py: cannot write $name: " err || fail "$name: $(cat err)"
		[ ! -s out ] || fail "$name: a table all the same"
		[ -z "$(find . -name 'first*')" ] || fail "$name: $(find . -name 'first*')"
	done
}

# Many implementations, one number of threads, several N: drawn without complaint.
test_many() {
	{
		echo "N, R, M$(seq -f ', I%g' 1 30 | tr -d '\n')"
		echo "2, 4, 1000$(seq -f ', 0.%g' 11 40 | tr -d '\n')"
		echo "8, 4, 1000$(seq -f ', 0.%g' 11 40 | tr -d '\n')"
	} >in
	graph many.svg <in
	same 'status of many lines' 0 $status
	same 'complaints about many lines' '' "$(cat err)"
	same 'names in two legends' 60 "$(grep -c '<!-- I[0-9]* -->' many.svg)"
	same 'N that are drawn' 2 "$(grep -c '<!-- .*N = [28] ' many.svg)"
}

# What must not matter: the user's settings, and a screen.
test_surroundings() {
	graph plain.svg <results
	echo 'axes.facecolor: red' >matplotlibrc
	setting=MPLBACKEND=nonsense
	graph settings.svg <results
	setting=''
	rm matplotlibrc
	same 'status with other settings' 0 $status
	cmp plain.svg settings.svg || fail 'the picture depends on settings'
}

test_without_matplotlib() {
	mkdir empty
	echo 'raise ImportError("not here")' >empty/matplotlib.py
	setting=PYTHONPATH=$tmp/empty
	graph <results
	same 'status of a table without matplotlib' 0 $status
	graph none.svg <results
	setting=''
	same 'status of a picture without matplotlib' 1 $status
	grep -q '^graph.py: .*matplotlib' err || fail "no advice: $(cat err)"
	[ ! -s out ] || fail 'a table, but no picture, without matplotlib'
}

command -v "$PYTHON" >/dev/null || {
	echo "graph: skipped, there is no $PYTHON"
	exit 77
}
test_means
test_columns
test_published
test_failures
test_lengths
test_malformed
test_arguments
test_without_matplotlib
# Once before the tests, for it may tell at its first start that it looks for fonts.
if ! "$PYTHON" "$here/graph.py" fonts.svg <results >/dev/null 2>&1; then
	"$PYTHON" -c 'import matplotlib' 2>/dev/null && fail 'no picture with matplotlib'
	[ $failed = 1 ] || echo 'graph: pictures skipped, there is no matplotlib'
	exit $((failed ? 1 : 77))
fi
test_pictures
test_all_or_none
test_many
test_surroundings
exit $failed
