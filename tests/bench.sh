#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bench.sh, with programs that take no time, fail, hang, or print nonsense.

set -u
here=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0
runs=0

fail() {
	echo "bench: $*" >&2
	failed=1
}

same() {		# WHAT EXPECTED FOUND
	[ "$2" = "$3" ] || fail "$1: expected '$2', found '$3'"
}

has() {			# PATTERN FILE
	grep -q -e "$1" "$2" || fail "no '$1' in ${2##*/}: $(head -n 20 "$2")"
}

program() {		# NAME, its text on standard input
	{ echo '#!/bin/sh'; cat; } >"$BUILD/$1"
	chmod +x "$BUILD/$1"
}

# A new directory of programs, each of which notes its arguments and succeeds.
programs() {
	BUILD=$(mktemp -d "$tmp/build.XXXXXX")
	export BUILD
	for name in rmain rmain.1t lmain; do
		program "$name" <<-END
		echo "$name \$*" >>"$BUILD/calls"
		echo 0.250000
		END
	done
}

# Runs bench.sh; leaves $status, $out, $err and $results.
bench() {		# ARGUMENTS
	runs=$((runs + 1))
	out=$tmp/out.$runs err=$tmp/err.$runs results=$tmp/results.$runs
	"$here/bench.sh" -o "$results" "$@" >"$out" 2>"$err" </dev/null
	status=$?
}

cell() {		# N R NUMBER-OF-COLUMN: what is in it
	sed -n "s/^ *$1, *$2, //p" "$out" | cut -d , -f $(($3 + 1)) | tr -d ' '
}

# The process that wrote its number to FILE must be gone, or be just going: who does
# not listen is killed two seconds later.
gone() {		# FILE
	i=0
	while [ $((i += 1)) -le 50 ]; do
		kill -0 "$(cat "$1")" 2>/dev/null || return 0
		sleep 0.2
	done
	fail "process $(cat "$1") of ${1##*/} is left behind"
}

wait_for() {		# FILE
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		[ ! -s "$1" ] || return 0
		sleep 0.5
	done
	fail "${1##*/} did not appear after $i tries"
}

test_shape() {
	programs
	export PROCS=3
	bench
	same status 0 $status
	cmp -s "$out" "$results/cycle.csv" || fail "cycle.csv is not what was printed"
	same 'rows of N = 2' 13 "$(grep -c '^ *2,' "$out")"
	same 'rows of N = 8' 13 "$(grep -c '^ *8,' "$out")"
	same 'lines for the plot of N = 2' 15 "$(grep -h -c '^ *[2N],' "$out")"
	same 'lines for the plot of N = 8' 15 "$(grep -h -c '^ *[8N],' "$out")"
	same header N,R,M,U,U1K,U10K,U1T,U1TS,UL "$(head -n 1 "$out" | tr -d ' ')"
	same 'a row' "8,1000,1100$(printf ',0.250000%.0s' 1 2 3 4 5 6)" \
		"$(grep '^ *8, *1000,' "$out" | tr -d ' ')"
	same 'M of the last row' 101 "$(tail -n 1 "$out" | cut -d , -f 3 | tr -d ' ')"
	same R '2 4 8 50 100 500 1000 5000 10000 50000 100000 500000 1000000 ' \
		"$(grep '^ *8,' "$out" | cut -d , -f 2 | tr -d ' ' | tr '\n' ' ')"
	same 'lengths of lines' 1 "$(awk '{ print length }' "$out" | sort -u | wc -l)"
	same 'the commands of a row' \
"rmain 2 2 2000100 0 3
rmain 2 2 2000100 1000 3
rmain 2 2 2000100 10000 3
rmain 2 2 2000100 0 1
rmain.1t 2 2 2000100 0 1
lmain 2 2 2000100 0 3" "$(head -n 6 "$BUILD/calls")"
	same 'all commands' 156 "$(wc -l <"$BUILD/calls")"
	same 'standard error' "bench.sh: results in $results" "$(cat "$err")"
	unset PROCS
}

test_machine() {
	programs
	printf '%s\n' CC=cc 'CFLAGS=-O2 -DX=1' CPPFLAGS= SWITCH=setjmp \
		'VERSION=Compiler 1.2 (a=b)' >"$BUILD/flags"
	export PROCS=5
	bench --quick --only U,UL
	unset PROCS
	for line in 'CC: cc' 'CFLAGS: -O2 -DX=1' 'SWITCH: setjmp' 'PROCS: 5' \
		'compiler: Compiler 1.2 (a=b)' 'CPPFLAGS: $' 'columns: U UL' 'runs: 1' 'quick: yes' \
		"kernel: $(uname -sr)" "machine: $(uname -m)" 'usched: [0-9.]\{5\}' \
		'cpu: .' 'cores: [1-9][0-9]*' 'memory: .' 'commit: .' 'load at start: .' \
		'date: 2[0-9]*-[0-9]*-[0-9]* ' 'end: .*, complete'; do
		has "^$line" "$results/machine.txt"
	done
	[ ! -e "$results/failures.txt" ] || fail "failures.txt, but nothing failed"
}

# Where results go by default, and what is said of the version.
test_tree() {
	programs
	tree=$tmp/outer/tree
	mkdir -p "$tree"
	cp "$here/bench.sh" "$here/usched.h" "$tree"
	git="git -c user.name=x -c user.email=x@example.org -C"
	if command -v git >/dev/null; then	# a history that is not ours
		$git "$tmp/outer" init -q
		$git "$tmp/outer" commit -q --allow-empty -m x
	fi
	"$tree/bench.sh" --quick --only UL >/dev/null 2>&1
	"$tree/bench.sh" --quick --only UL >/dev/null 2>&1
	host=$(uname -n | tr -c 'A-Za-z0-9.\n' -)
	same 'directories of two sweeps' 2 "$(find "$tree/results" -type f \
		-path "*/results/20*-$host*/cycle.csv" | wc -l)"
	cat "$tree/results"/*/machine.txt >"$tmp/tree.txt"
	same 'unknown commits' 2 "$(grep -c '^commit: unknown$' "$tmp/tree.txt")"
	same 'unknown compilers' 2 "$(grep -c '^compiler: unknown$' "$tmp/tree.txt")"
	command -v git >/dev/null || return 0
	$git "$tree" init -q
	$git "$tree" add bench.sh
	$git "$tree" commit -q -m x
	commit=$($git "$tree" rev-parse HEAD)
	"$tree/bench.sh" --quick --only UL -o "$tmp/clean" >/dev/null 2>&1
	has "^commit: $commit\$" "$tmp/clean/machine.txt"
	echo '# changed' >>"$tree/bench.sh"
	"$tree/bench.sh" --quick --only UL -o "$tmp/dirty" >/dev/null 2>&1
	has "^commit: $commit-dirty\$" "$tmp/dirty/machine.txt"
}

test_options() {
	programs
	bench --quick --only=UL,U -n 2
	same 'header of --only' N,R,M,U,UL "$(head -n 1 "$out" | tr -d ' ')"
	same 'rows of -n 2 --quick' 16 "$(grep -c '^ *[28],' "$out")"
	same 'headers of -n 2 --quick' 4 "$(grep -c '^ *N,' "$out")"
	same 'R of --quick' '4 100 5000 100000 ' \
		"$(grep '^ *8,' "$out" | head -n 4 | cut -d , -f 2 | tr -d ' ' | tr '\n' ' ')"
	same 'M of --quick' 62510 "$(grep '^ *8, *4,' "$out" | head -n 1 |
		cut -d , -f 3 | tr -d ' ')"
	before=$(cat "$out")
	"$here/bench.sh" --quick -o "$results" >"$tmp/again" 2>&1
	same 'status when results exist' 1 $?
	same 'results that exist' "$before" "$(cat "$results/cycle.csv")"
	"$here/bench.sh" --help >"$tmp/help" 2>&1
	same 'status of --help' 0 $?
	has '^usage: ' "$tmp/help"
}

wrong() {		# ARGUMENTS
	bench "$@"
	same "status of $*" 2 $status
	[ -s "$err" ] || fail "$*: no message"
	[ ! -s "$out" ] || fail "$*: output"
	[ ! -e "$results" ] || fail "$*: made a directory"
}

test_usage() {
	programs
	wrong --only NONE
	has "NONE.*U10K" "$err"
	wrong --only ''
	wrong --only ,
	wrong --only '*'
	has "no column '[*]'" "$err"
	wrong --only u
	wrong --only
	wrong -n
	wrong -n 0
	wrong -n 1x
	wrong -n -1
	wrong --limit 0
	wrong --limit=1.5
	wrong --slow
	wrong more
	export PROCS=none
	wrong --quick
	unset PROCS
	rm "$BUILD"/*
	bench --quick
	same 'status without programs' 1 $status
	has 'make' "$err"
	[ ! -e "$results" ] || fail 'without programs: made a directory'
}

# Each way to fail at R = 4, where N = 2, or 8; all is well in the other rows.
test_failures() {
	programs
	program rmain <<-'END'
	case "$*" in
	"2 4 "*" 0 2") echo out of luck >&2; exit 3 ;;
	"2 4 "*" 1000 2") kill -9 $$ ;;
	"2 4 "*" 10000 2") echo 'rmain: not enough memory for it' >&2; exit 1 ;;
	"2 4 "*" 0 1") echo 1.5 seconds ;;
	"8 4 "*" 0 2") ;;
	"8 4 "*" 1000 2") echo nan ;;
	"8 4 "*" 10000 2") echo 0.000000 ;;
	"8 4 "*" 0 1") echo 1.5; echo 2.5 ;;
	*) echo 0.5 ;;
	esac
	END
	program lmain <<-'END'
	case "$*" in
	"2 4 "*) echo 1.2.3 ;;
	"8 4 "*) echo 1.5; kill -SEGV $$ ;;
	*) echo 0.5 ;;
	esac
	END
	rm "$BUILD/rmain.1t"
	export PROCS=2
	bench --quick
	unset PROCS
	same 'status with failures' 0 $status
	i=0
	for expected in exit-3 killed-9 memory output missing output; do
		i=$((i + 1))
		same "N = 2, column $i" fail:$expected "$(cell 2 4 $i)"
	done
	i=0
	for expected in output output output output missing killed-11; do
		i=$((i + 1))
		same "N = 8, column $i" fail:$expected "$(cell 8 4 $i)"
	done
	same 'other rows' 6 "$(grep -c ' 0.5, .* fail:missing, * 0.5$' "$out")"
	has '^U N=2 R=4 M=250010: fail:exit-3: out of luck' "$results/failures.txt"
	has '^bench.sh: U N=2 R=4 M=250010: fail:exit-3: out of luck' "$err"
	same 'failures noted' 18 "$(wc -l <"$results/failures.txt")"
}

# A program that hangs, one that will not listen either, and what they started.
test_timeout() {
	programs
	program rmain <<-END
	[ "\$1 \$2" = "2 4" ] || { echo 0.5; exit; }
	sleep 50 &
	echo \$! >"$tmp/hung"
	wait
	END
	program lmain <<-END
	[ "\$1 \$2" = "2 4" ] || { echo 0.5; exit; }
	trap '' TERM
	echo \$\$ >"$tmp/deaf"
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 1; done
	END
	program rmain.1t <<-'END'
	exit 124
	END
	began=$(date +%s)
	bench --quick --only U,U1TS,UL --limit 1
	[ $(($(date +%s) - began)) -lt 15 ] || fail 'the limit was not kept'
	same 'status with time-outs' 0 $status
	same 'a program that hangs' fail:timeout "$(cell 2 4 1)"
	same 'a program that fails like one that hangs' fail:exit-124 "$(cell 2 4 2)"
	same 'a program that does not listen' fail:timeout "$(cell 2 4 3)"
	same 'all rows' 8 "$(grep -c '^ *[28],' "$out")"
	gone "$tmp/hung"
	gone "$tmp/deaf"
}

# Runs bench.sh until PROGRAM, made to hang, runs at N = 2, R = 100; then signals it.
interrupt() {		# SIGNAL PROGRAM
	programs
	rm -f "$tmp/pid"
	program "$2" <<-END
	[ "\$1 \$2" = "2 100" ] || { echo 0.5; exit; }
	echo \$\$ >"$tmp/pid"
	exec sleep 20
	END
	runs=$((runs + 1))
	out=$tmp/out.$runs results=$tmp/results.$runs
	# A shell has what it starts with & ignore SIGINT, and so would bench.sh.
	env --default-signal=INT \
		"$here/bench.sh" --quick -o "$results" >"$out" 2>/dev/null </dev/null &
	bench=$!
	wait_for "$tmp/pid"
	began=$(date +%s)
	kill -s "$1" $bench
	wait $bench 2>/dev/null
	status=$?
	[ $(($(date +%s) - began)) -lt 15 ] || fail "$1: not at once"
	gone "$tmp/pid"
	cmp -s "$out" "$results/cycle.csv" || fail "$1: cycle.csv is not what was printed"
	has "^end: .*, $1\$" "$results/machine.txt"
	[ ! -e "$results/failures.txt" ] || fail "$1: an interruption is no failure"
}

test_interrupt() {
	env --default-signal=INT true 2>/dev/null || {
		echo 'bench: no interruptions tried, env cannot reset signals'
		return
	}
	interrupt INT lmain
	same 'status of SIGINT' 130 $status
	same 'rows kept' 2 "$(grep -c '^ *2,' "$out")"
	same 'first row, column 6' 0.5 "$(cell 2 4 6)"
	same 'last row, column 5' 0.250000 "$(cell 2 100 5)"
	same 'last row, column 6' fail:interrupted "$(cell 2 100 6)"
	interrupt TERM rmain.1t
	same 'status of SIGTERM' 143 $status
	same 'last row, column 4' 0.250000 "$(cell 2 100 4)"
	same 'last row, column 5' fail:interrupted "$(cell 2 100 5)"
	same 'last row, column 6' fail:interrupted "$(cell 2 100 6)"
	interrupt HUP rmain
	same 'a row of which nothing was measured' '' "$(grep '^ *2, *100,' "$out")"
	same 'rows kept' 1 "$(grep -c '^ *2,' "$out")"
}

# Standard output that closes, or is full, ends the sweep; what it got is kept.
test_no_reader() {
	programs
	results=$tmp/results.reader
	"$here/bench.sh" -o "$results" 2>/dev/null | head -n 1 >/dev/null
	wait_for "$results/cycle.csv"
	lines=$(wc -l <"$results/cycle.csv")
	[ "$lines" -lt 28 ] || fail "the sweep went on without a reader"
	[ -w /dev/full ] || return 0
	"$here/bench.sh" -o "$results.full" >/dev/full 2>/dev/null
	same 'status when the disk is full' 1 $?
	same 'lines when the disk is full' 1 "$(wc -l <"$results.full/cycle.csv")"
}

# The progress is for terminals (test_shape() sees that others get none).
test_progress() {
	programs
	script -qec true /dev/null >/dev/null 2>&1 || return 0
	script -qec "'$here/bench.sh' --quick --only UL -o '$tmp/results.tty' >'$tmp/csv'" \
		/dev/null >"$tmp/tty" </dev/null
	has 'run 1 of 1, N 2, R 4, UL: 0% done' "$tmp/tty"
	has 'N 8, R 100000, UL: [1-9][0-9]% done, about 0 min' "$tmp/tty"
	has '^ *2, *4, *250010, *0.250000$' "$tmp/csv"
}

# After all the others.
test_no_rest() {
	same 'temporary files' '' "$(ls "$TMPDIR")"
}

command -v timeout >/dev/null || {
	echo 'bench: skipped, there is no command timeout'
	exit 77
}
unset PROCS
TMPDIR=$tmp/tmp
export TMPDIR
mkdir "$TMPDIR"
test_shape
test_machine
test_tree
test_options
test_usage
test_failures
test_timeout
test_interrupt
test_no_reader
test_progress
test_no_rest
exit $failed
