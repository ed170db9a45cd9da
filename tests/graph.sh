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
# The user's directory may not be there, or not be writable, which is told then.
MPLCONFIGDIR=$tmp/matplotlib
export MPLCONFIGDIR
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

# Others than cycle: the median, sorted; a smaller size counts instead of the row's, and
# has a column then; what failed sometimes, always, or was missing always.
test_workloads() {
	gives 'ring' <<-END 3<<-TABLE
	   ring,  passes,  U1T,   POSIX,   GO,       LUA, X, Y
	   ring,     100,  4e-7,  3e-7@10, 1e-7,     fail:missing, fail:timeout, fail:missing
	   ring,     100,  2e-7,  5e-7@10, fail:memory, fail:missing, fail:missing, 0
	   ring,     100,  9e-7,  4e-7@20, 3e-7,     fail:missing, 100000, fail:missing
	END
	ring, passes = 100: ns per pass

	| implementation | median |  min |  max | times the best |   runs | passes |
	| :------------- | -----: | ---: | ---: | -------------: | -----: | -----: |
	| GO             |   2.00 | 1.00 | 3.00 |           1.00 | 2 of 3 |    100 |
	| U1T            |   4.00 | 2.00 | 9.00 |           2.00 |      3 |    100 |
	| POSIX          |   30.0 | 20.0 | 50.0 |          15.00 |      3 | 10, 20 |
	| X              |      - |    - |    - |              - | 0 of 3 |      - |
	| Y              |      - |    - |    - |              - | 0 of 3 |      - |

	Not measured: LUA (missing).
	TABLE
}

# Each has its own arithmetic, and its own place for the size.
test_units() {
	while IFS='|' read -r parameters values cell unit result; do
		load=${parameters%%,*}
		printf '%s\n' "$parameters, U" "$load, $values, $cell" >in
		graph <in
		grep -q "^$load, .*: $unit\$" out || fail "$load: no '$unit' in '$(cat out)'"
		same "$load of $cell" "$result" \
			"$(sed -n 's/^| U  *|  *\([0-9.]*\) .*/\1/p' out)"
	done <<-END
	ring, passes|1000|0.001|ns per pass|1000
	counters, counters, calls|20, 50|0.002|ns per call|2000
	counters, counters, calls|20, 50|0.002@5|ns per call|20000
	pingpong, pairs|1000|0.0005|ns per pair|500
	create, threads|1000|0.00025|ns per thread|250
	alternate, repetitions, yields|10, 50|0.001|ns per turn|1000
	alternate, repetitions, yields|10, 50|0.001@5|ns per turn|10000
	memory, threads|1000|264|bytes per thread|264
	memory, threads|1000|250000@10|bytes per thread|250000
	blocks, N, R, M|2, 10, 100|500|blocks per message|0.250
	blocks, N, R, M|2, 10, 100|500000@1000|blocks per message|25.0
	latency, connections, percent|64, 80|636|us per request|636
	redis, clients, command, pipeline|50, GET, 16|1618123|thousand requests per second|1618
	idle, connections|9000|1024.4|bytes per connection|1024
	END
}

# In order of appearance, cycle's by N, whatever lies between; other parameters are
# another table; the headers of one say nothing about another.
test_mixed() {
	cat >in <<-END
	memory, threads, U
	N, R, M, U, GO
	alternate, repetitions, yields, U, GO
	alternate, 10, 5, 1e-6, 2e-6
	8, 2, 1000000, 2, fail:missing
	alternate, 1, 50, 1e-6, 4e-6
	memory, 10, 8
	alternate, 10, 5, 3e-6, 2e-6
	2, 2, 1000000, 2, 1
	END
	gives 'mixed' <in 3<<-TABLE
	alternate, repetitions = 10, yields = 5: ns per turn

	| implementation | median |  min |  max | times the best | runs |
	| :------------- | -----: | ---: | ---: | -------------: | ---: |
	| U              |   20.0 | 10.0 | 30.0 |           1.00 |    2 |
	| GO             |   20.0 | 20.0 | 20.0 |           1.00 |    2 |

	alternate, repetitions = 1, yields = 50: ns per turn

	| implementation | median |  min |  max | times the best | runs |
	| :------------- | -----: | ---: | ---: | -------------: | ---: |
	| U              |   10.0 | 10.0 | 10.0 |           1.00 |    1 |
	| GO             |   40.0 | 40.0 | 40.0 |           4.00 |    1 |

	cycle, N = 2: million operations per second

	| threads |    4 |
	| :------ | ---: |
	| U       | 2.00 |
	| GO      | 4.00 |

	cycle, N = 8: million operations per second

	| threads |   16 |
	| :------ | ---: |
	| U       | 8.00 |

	Not measured: GO (missing).

	memory, threads = 10: bytes per thread

	| implementation | median |  min |  max | times the best | runs |
	| :------------- | -----: | ---: | ---: | -------------: | ---: |
	| U              |   8.00 | 8.00 | 8.00 |           1.00 |    1 |
	TABLE
}

# Lines of others than cycle: the median of nanoseconds for a message, a row for each
# point, in its order; a table for each N, or N and R, whatever M is.
test_growth() {
	gives 'threads' <<-END 3<<-TABLE
	threads, N, R, M, U1T, UL1T, C++1T, X, Y
	threads, 2, 500, 1000, 2e-3, fail:memory, 1e-3, fail:missing, fail:timeout
	threads, 2, 5, 100000, 5e-3, 0.25, 100000, fail:missing, fail:exit-1
	threads, 2, 500, 1000, 9e-3, 3e-3, 1e-3, fail:missing, fail:exit-1
	threads, 2, 500, 2000, 6e-3, 5e-3, 1e-3, fail:missing, fail:exit-1
	END
	threads, N = 2: ns per message

	| threads |  U1T | UL1T | C++1T |    Y |
	| :------ | ---: | ---: | ----: | ---: |
	| 10      | 5.00 |  250 |     - |    - |
	| 1000    | 3.00 | 2.75 |  1.00 |    - |

	Not measured: X (missing).
	TABLE
	cat >depth <<-END
	depth, N, R, M, D, U1T, UL1T
	depth, 2, 500, 1000, 102400, 1e-1, 2e-3
	depth, 2, 4, 10000, 0, 8e-5, 4e-5
	depth, 2, 500, 1000, 0, 3e-3, 1e-3
	depth, 2, 500, 1000, 50, 5e-3, 1e-3
	END
	gives 'depth' <depth 3<<-TABLE
	depth, N = 2, R = 4: ns per message

	| D    |  U1T |  UL1T |
	| :--- | ---: | ----: |
	| 0    | 1.00 | 0.500 |

	depth, N = 2, R = 500: ns per message

	| D      |  U1T | UL1T |
	| :----- | ---: | ---: |
	| 0      | 3.00 | 1.00 |
	| 50     | 5.00 | 1.00 |
	| 102400 |  100 | 2.00 |
	TABLE
	cat >stacks <<-END
	stacks, N, R, M, stacks, U1T
	stacks, 2, 500, 1000, 4096, 5e-3
	stacks, 2, 500, 1000, 1, 1e-2
	stacks, 2, 500, 1000, 1, 2e-2
	END
	gives 'stacks' <stacks 3<<-TABLE
	stacks, N = 2, R = 500: ns per message

	| stacks |  U1T |
	| :----- | ---: |
	| 1      | 15.0 |
	| 4096   | 5.00 |
	TABLE
}

# Rates of servers: lines over connections, of medians; the highest bar first, with words
# among the parameters.
test_servers() {
	cat >http <<-END
	http, connections, U, EPOLL, UV, ST
	http, 64, 184000, 200000, fail:exit-3, fail:missing
	http, 1, 11000.5, 12000, 9000, fail:missing
	http, connections, U, EPOLL, UV
	http, 64, 190000, 150000, fail:errors
	http, 1, 11000.5, 12000, 8000
	END
	for load in http h2load echo; do
		unit='requests'
		[ $load != echo ] || unit='round trips'
		sed "s/^http/$load/" http >in
		gives $load <in 3<<-TABLE
		$load: thousand $unit per second

		| connections |    U | EPOLL |   UV |
		| :---------- | ---: | ----: | ---: |
		| 1           | 11.0 |  12.0 | 8.50 |
		| 64          |  187 |   175 |    - |

		Not measured: ST (missing).
		TABLE
	done
	cat >redis <<-END
	redis, clients, command, pipeline, U, REDIS, X
	redis, 50, GET, 16, 1000000, 1250000, fail:end
	redis, 50, SET, 1, 100000, 90000, fail:client
	END
	gives 'pipelines' <redis 3<<-TABLE
	redis, clients = 50, command = GET, pipeline = 16: thousand requests per second

	| implementation | median |  min |  max | times the best |   runs |
	| :------------- | -----: | ---: | ---: | -------------: | -----: |
	| REDIS          |   1250 | 1250 | 1250 |           1.00 |      1 |
	| U              |   1000 | 1000 | 1000 |           0.80 |      1 |
	| X              |      - |    - |    - |              - | 0 of 1 |

	redis, clients = 50, command = SET, pipeline = 1: thousand requests per second

	| implementation | median |  min |  max | times the best |   runs |
	| :------------- | -----: | ---: | ---: | -------------: | -----: |
	| U              |    100 |  100 |  100 |           1.00 |      1 |
	| REDIS          |   90.0 | 90.0 | 90.0 |           0.90 |      1 |
	| X              |      - |    - |    - |              - | 0 of 1 |
	TABLE
	cat >latency <<-END
	latency, connections, percent, U, EPOLL, GO
	latency, 64, 80, 600, 500, fail:rate
	END
	gives 'percentiles' <latency 3<<-TABLE
	latency, connections = 64, percent = 80: us per request

	| implementation | median |  min |  max | times the best |   runs |
	| :------------- | -----: | ---: | ---: | -------------: | -----: |
	| EPOLL          |    500 |  500 |  500 |           1.00 |      1 |
	| U              |    600 |  600 |  600 |           1.20 |      1 |
	| GO             |      - |    - |    - |              - | 0 of 1 |
	TABLE
	cat >idle <<-END
	idle, connections, U, GO
	idle, 1000, 1500, 20000
	idle, 9000, 1200, 18000
	END
	gives 'connections' <idle 3<<-TABLE
	idle, connections = 1000: bytes per connection

	| implementation | median |   min |   max | times the best | runs |
	| :------------- | -----: | ----: | ----: | -------------: | ---: |
	| U              |   1500 |  1500 |  1500 |           1.00 |    1 |
	| GO             |  20000 | 20000 | 20000 |          13.33 |    1 |

	idle, connections = 9000: bytes per connection

	| implementation | median |   min |   max | times the best | runs |
	| :------------- | -----: | ----: | ----: | -------------: | ---: |
	| U              |   1200 |  1200 |  1200 |           1.00 |    1 |
	| GO             |  18000 | 18000 | 18000 |          15.00 |    1 |
	TABLE
}

test_malformed_workloads() {
	refused 'line 1: .*before any header (ring, passes' 'ring, 5, 1.0'
	refused 'line 2: .*before any header' 'ring, passes, U' 'create, 5, 1.0'
	refused 'line 1: .*before any header' 'ring'
	refused 'line 1: a header is ring, passes' 'ring, U'
	refused 'line 1: a header is ring, passes' 'ring, passes'
	refused 'line 1: a header is counters, counters, calls' 'counters, calls, counters, U'
	refused 'line 1: column 4 has no name' 'ring, passes, U, , X'
	refused 'line 1: two columns are named U' 'ring, passes, U, U'
	head='ring, passes, U, GO'
	refused 'no results.*headers' "$head"
	refused 'no results.*every cell' "$head" 'ring, 5, fail:missing, 100000'
	refused 'line 2: the header has 4 cells, this line 3' "$head" 'ring, 5, 1'
	refused 'line 2: passes is ' "$head" 'ring, 0, 1, 1'
	refused 'line 2: calls is ' 'counters, counters, calls, U' 'counters, 1, -1, 1'
	for word in 1@ 1@0 1@-5 1@1e3 1@2.5 1@x 1@2@3 @5 x@5 1@11111111111111111; do
		refused "line 3: column GO: " "$head" 'ring, 5, 1, 1' "ring, 5, 1, $word"
	done
	refused 'line 2: column U: ' 'N, R, M, U' '2, 2, 2, 1@1'
	refused 'line 2: column U: ' 'threads, N, R, M, U' 'threads, 2, 2, 2, 1@1'
	refused 'line 2: D is ' 'depth, N, R, M, D, U' 'depth, 2, 2, 2, -1, 1'
	refused 'line 2: D is ' 'depth, N, R, M, D, U' 'depth, 2, 2, 2, , 1'
	refused 'line 2: M is ' 'depth, N, R, M, D, U' 'depth, 2, 2, 0, 1, 1'
	head='redis, clients, command, pipeline, U'
	refused "line 2: command is 'get'" "$head" 'redis, 50, get, 1, 5'
	refused "line 2: command is '7'" "$head" 'redis, 50, 7, 1, 5'
	refused 'line 2: clients is ' "$head" 'redis, 0, GET, 1, 5'
	refused 'line 2: connections is ' 'http, connections, U' 'http, 0, 5'
	refused 'line 2: column U: ' 'http, connections, U' 'http, 1, 5@1'
	refused 'line 2: stacks is ' 'stacks, N, R, M, stacks, U' 'stacks, 2, 2, 2, 0, 1'
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

# The implementations in a picture, from its top.
names_in() {		# FILE.svg
	sed -n 's/.*<!-- \([A-Z][A-Z0-9+]*\) -->.*/\1/p' "$1" | tr '\n' ' '
}

says() {		# FILE.svg WORD...
	file=$1
	shift
	for word; do
		grep -q -e "<!-- .*$word.* -->" "$file" || fail "$file does not say '$word'"
	done
}

# Bars: the lowest first; ours in another colour; none for what has no value.
test_bars() {
	cat >in <<-END
	ring, passes, UCONTEXT, U10K, GO, LUA, X
	ring, 1000, 3e-6, 2e-6, 40e-6@20000, fail:missing, fail:memory
	ring, 1000, 5e-6, 2e-6, 60e-6@20000, fail:missing, fail:memory
	END
	graph bars.svg bars.png bars.pdf <in
	same 'status of bars' 0 $status
	same 'complaints about bars' '' "$(cat err)"
	same 'names at bars' 'U10K GO UCONTEXT ' "$(names_in bars.svg)"
	says bars.svg 'ns per pass' 'passes = 1000; lower is better; median of 2 runs' \
		'2\.50 (with 20k passes)' '4\.00' '2\.00'
	same 'bars in our colour' 1 "$(grep -c 'style="fill: #0072b2"/>' bars.svg)"
	same 'bars of others' 2 "$(grep -c 'style="fill: #b8b8b8"/>' bars.svg)"
	! grep -q -e logarithmic bars.svg || fail 'a narrow axis is logarithmic'
	cp bars.svg again
	graph bars.svg <in
	cmp bars.svg again || fail 'bars of the same are not the same'
	{
		cat in
		echo 'ring, passes, PYTHON'
		echo 'ring, 1000, 1e-3'
	} >wide
	graph wide.svg <wide
	says wide.svg 'ns per pass, logarithmic' '1 to 2 runs' 1000
	same 'names at wide bars' 'U10K GO UCONTEXT PYTHON ' "$(names_in wide.svg)"
}

# A part of the picture for each table, also for one without any value.
test_mixed_picture() {
	{
		cat results
		printf '%s\n' 'memory, threads, U, GO' 'memory, 5, 100, 200' \
			'create, threads, U, GO' 'create, 5, fail:missing, fail:timeout'
	} >in
	graph mixed.svg <in
	same 'status of a mixed picture' 0 $status
	same 'complaints about a mixed picture' '' "$(cat err)"
	same 'parts of a mixed picture' 3 "$(grep -c '<g id="axes_' mixed.svg)"
	says mixed.svg Cycle Memory Create 'bytes per thread' 'every cell has failed'
}

# Lines of ours are heavy, of the others dashed; logarithmic from a factor of 50 on.
test_lines() {
	printf '%s\n' 'N, R, M, UL, UCONTEXT, GO' '2, 2, 1000000, 1, 49, 2' \
		'2, 200, 10000, 1, 49, 2' >in
	graph lines.svg <in
	same 'lines of ours, with that in the legend' 2 "$(grep -c 'stroke-width: 2.4' lines.svg)"
	same 'lines of others' 4 "$(grep -c 'stroke-dasharray.*stroke-width: 1.1' lines.svg)"
	sed 's/49/51/' in >wide
	graph lines.svg <wide
	! grep -q -e '<!-- 0 -->' lines.svg || fail 'a wide axis has a zero'
	says lines.svg '0\.1'
}

# With zero on a logarithmic axis, and with nothing but zero. What is chosen is named.
test_growth_pictures() {
	graph depth.svg <depth
	same 'status of depth' 0 $status
	same 'complaints about depth' '' "$(cat err)"
	same 'parts of depth' 2 "$(grep -c '<g id="axes_' depth.svg)"
	says depth.svg 'ns per message' '8 threads, N = 2, R = 4; lower is better; one run' \
		'1000 threads, N = 2, R = 500; lower is better' 'D, bytes' 0 50 102400
	graph stacks.svg <stacks
	says stacks.svg stacks 1 4096 'median of 1 to 2 runs'
	same 'lines of ours, with that in the legend' 2 "$(grep -c 'stroke-width: 2.4' stacks.svg)"
	printf '%s\n' 'threads, N, R, M, U, C++1T' 'threads, 2, 5, 100000, 5e-3, 2e-3' \
		'threads, 2, 500000, 10, 5e-3, 2e-3' >in
	graph threads.svg <in
	says threads.svg 'threads, N·R' 'ns per message' 'N = 2; lower is better' 100k
}

# Ours are lines and bars of ours, but UV is not; what is better is said.
test_server_pictures() {
	graph http.svg <http
	same 'status of http' 0 $status
	same 'complaints about http' '' "$(cat err)"
	says http.svg connections 'thousand requests per second' 64
	grep -q '<!-- higher is better; median of 2 runs, ' http.svg ||
		fail 'http.svg does not say what is better, and nothing before it'
	same 'lines of ours, with that in the legend' 2 "$(grep -c 'stroke-width: 2.4' http.svg)"
	same 'lines of others' 4 "$(grep -c 'stroke-dasharray.*stroke-width: 1.1' http.svg)"
	graph redis.svg <redis
	says redis.svg 'command = GET, pipeline = 16; higher is better' 1250
	same 'names at bars of redis' 'REDIS U U REDIS ' "$(names_in redis.svg)"
	graph idle.svg <idle
	says idle.svg 'connections = 9000; lower is better' 'bytes per connection'
	graph latency.svg <latency
	says latency.svg '99th percentile' 'us per request' 'percent = 80; lower is better'
	same 'bars of ours' 1 "$(grep -c 'style="fill: #0072b2"/>' latency.svg)"
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
test_workloads
test_units
test_mixed
test_growth
test_servers
test_malformed_workloads
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
test_bars
test_mixed_picture
test_lines
test_growth_pictures
test_server_pictures
test_surroundings
[ $failed -eq 0 ] || exit 1
echo 'graph: tables and pictures, of results that are made up'
