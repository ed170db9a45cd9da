#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Programs of Debian with threads, natively and by usched-run with its default options: six
# rows of tests/servers/servers.py. Those that are not there are left out, and said so.
# Programs of Java and of Go are refused, and print nothing themselves.
#
#   LONG=1   all rows
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/scripts/adopt.lib
. tests/scripts/adopt.lib
need_posix
need python3 curl socat
export B USCHED_POSIX="$preload"

# refused COMMAND...
refused() {
	limited posix/usched-run "$@" >"$dir/out" 2>&1
	same "exit status of $1" 2 $?
	same "$1" 1 "$(grep -c '^usched: .* cannot be run over usched: ' "$dir/out")"
	same "lines of $1" 1 "$(wc -l <"$dir/out")"
}

! command -v java >/dev/null || refused java -version
if command -v go >/dev/null; then
	cat >"$dir/a.go" <<-END
		package main

		// #include <stdlib.h>
		import "C"

		func main() { println(C.abs(-1)) }
	END
	HOME=$dir GOFLAGS=-mod=mod go build -o "$dir/go" "$dir/a.go" >"$dir/log" 2>&1 ||
		die "go: $(cat "$dir/log")"
	refused "$dir/go"
fi
rows=few
[ -z "${LONG-}" ] || rows=
# shellcheck disable=SC2086
python3 tests/servers/servers.py $rows >"$dir/rows" 2>&1
status=$?
sed '$d' "$dir/rows"
[ $status -ne 77 ] || skip 'none of these programs is there'
[ $status -eq 0 ] || failed=1
conclude "$(tail -n 1 "$dir/rows")"
