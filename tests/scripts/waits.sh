#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bench/measure waits: what it prints, and the bytes of some waits, where the compiler saves frames
# and threads have stacks. doc/benchmarks.md has these numbers for more threads; as it was built
# for that, no wait takes more than a sixth beyond what it says.
#
#   B   where the program is
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

# Without the bytes.
expected() {
	cat <<-'END'
	| wait | bytes |
	|---|---|
	| `ustack_wait()` | N |
	| semaphore | N |
	| semaphore, with a deadline | N |
	| mutex | N |
	| reader-writer lock, to read | N |
	| condition | N |
	| group | N |
	| channel, 8 bytes | N |
	| sleep | N |
	| join | N |
	| join, with a deadline | N |
	| read from a pipe | N |
	| read from a pipe, with a deadline | N |
	END
}

bytes_of() {		# WAIT
	sed -n "s/^| $1 | \([0-9]*\) |\$/\1/p" "$dir/out"
}

# most WAIT BYTES
most() {
	n=$(bytes_of "$1")
	if [ "${n:-0}" -lt 1 ] || [ "$n" -gt "$2" ]; then
		fail "waits: $1: $n bytes, and not 1 to $2"
	fi
}

"$B/bench/measure" waits 30000 >"$dir/out" || fail "waits: status $?"
expected >"$dir/want"
sed 's/ [0-9][0-9]* |$/ N |/' "$dir/out" | diff "$dir/want" - >&2 || fail 'waits: the table'
usual=no
if grep -q "^CFLAGS=.*-O[23]" "$B/flags" && ! grep -q -e SWITCH=setjmp -e -fsanitize \
	-e USCHED_CHECK "$B/flags"; then
	usual=yes
	most '`ustack_wait()`' 230
	for wait in semaphore 'semaphore, with a deadline' mutex 'reader-writer lock, to read' \
		group sleep; do
		most "$wait" 400
	done
fi
if grep -qx 'CFLAGS=-O2 -g' "$B/flags" && [ "$(uname -m)" = x86_64 ] && [ "$usual" = yes ] &&
	$CC --version | grep -q 'Free Software'
then
	usual='yes, of doc/benchmarks.md, too'
	grep -E '^\| .* \| [0-9]+ \|$' "$dir/out" | cut -d '|' -f 2 >"$dir/waits"
	while read -r wait; do
		bytes=$(sed -n "s/^| $wait | \([0-9]*\) |\$/\1/p" doc/benchmarks.md)
		[ -n "$bytes" ] || fail "waits: doc/benchmarks.md does not have $wait"
		most "$wait" $((${bytes:-0} * 7 / 6))
	done <"$dir/waits"
fi
for arguments in x 0 '5 5'; do
	# shellcheck disable=SC2086 # several
	"$B/bench/measure" waits $arguments >"$dir/out" 2>"$dir/err"
	[ $? -eq 2 ] && grep -q '^usage: measure waits' "$dir/err" || fail "waits $arguments"
done
conclude "13 kinds of waits, limits: $usual"
