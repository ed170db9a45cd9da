#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Random programs of csmith, as threads that block when their functions begin and end. They
# must print the same checksums as in plain runs. A program is compiled at two optimisation
# levels, with two copies of each, since the programs have globals. The copies of the program
# before run at the same time.
#
#   MAKE, B, CC, SWITCH    as for make
#   CSMITH_SEED            of the first program; default 2, for what csmith 2.3
#                          makes of 1 does not end
#   LONG=1                 a hundred programs: minutes
#
# A program is left out if it takes too long to compile, or to run alone. The limit is in
# seconds of processor time, since the machine may be busy.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

B=$B/csmith
programs=2
if [ "${LONG-}" ]; then
	programs=100
fi
include=/usr/include/csmith
seed=${CSMITH_SEED:-2}
run=$dir/csmith
threads=0 left_out=0

need csmith
[ -f $include/csmith.h ] || skip "there is no $include/csmith.h"

# Neither the library nor what runs the programs is instrumented.
# shellcheck disable=SC2086
$MAKE -s --no-print-directory "B=$B" "CC=$CC" ${SWITCH+"SWITCH=$SWITCH"} \
	CFLAGS='-O2 -g' "$B/libusched.a" "$B/tests/help/csmith.o" "$B/tests/help/test.o" &&
	$CC -rdynamic -o "$run" "$B/tests/help/csmith.o" "$B/tests/help/test.o" "$B/libusched.a" \
		-lcmocka -ldl -lm -pthread || exit 1

limited() {		# SECONDS COMMAND...
	# shellcheck disable=SC3045 # the shells of Linux have it
	(ulimit -t "$1" && shift && exec "$@")
}

levels_of() {		# NUMBER
	case $(($1 % 5)) in
	0) echo -O0 -O2 ;;
	1) echo -O1 -O3 ;;
	2) echo -O2 -Os ;;
	3) echo -O3 -O0 ;;
	4) echo -Os -O1 ;;
	esac
}

# make_objects: compiles the program $seed; sets $objects. Fails if it takes too long.
make_objects() {
	objects=
	# It leaves a file where it is run.
	(cd "$dir" && csmith --float --seed "$seed" --output "$seed.c") || return 1
	for level in $(levels_of "$count"); do
		object=$dir/$seed$level.1.so
		# shellcheck disable=SC2086
		limited 60 $CC -w "$level" -fPIC -shared -finstrument-functions \
			-Dprintf=csmith_print -Dmain=csmith_main -I$include \
			"$dir/$seed.c" -o "$object" || return 1
		cp "$object" "$dir/$seed$level.2.so"
		objects="$objects $object $dir/$seed$level.2.so"
	done
	# shellcheck disable=SC2086
	limited 10 "$run" alone $objects >"$dir/alone"
}

# compare STACKS: the output of all copies as threads, with that of plain runs.
compare() {
	# shellcheck disable=SC2086
	if ! timeout 600 "$run" "$1" $before $objects >"$dir/threads"; then
		note "FAIL: seed $seed: crash or failure with $1 stacks added" >&2
		return 1
	fi
	if ! cmp -s "$dir/expected" "$dir/threads"; then
		diff "$dir/expected" "$dir/threads"
		note "FAIL: seed $seed: other results with $1 stacks added" >&2
		return 1
	fi
	threads=$((threads + $(wc -l <"$dir/threads")))
}

before=
: >"$dir/alone.before"
while [ $count -lt $programs ]; do
	if make_objects; then
		cat "$dir/alone.before" "$dir/alone" >"$dir/expected"
		for stacks in 0 1 3 8; do
			compare $stacks || exit 1
		done
		# shellcheck disable=SC2086
		rm -f $before
		mv "$dir/alone" "$dir/alone.before"
		before=$objects
		count=$((count + 1))
	elif [ $((left_out += 1)) -gt $((programs + 5)) ]; then
		die "$left_out programs do not compile or end"
	fi
	rm -f "$dir/$seed.c"
	seed=$((seed + 1))
done
note "$count programs, $threads threads of them; $left_out others left out"
