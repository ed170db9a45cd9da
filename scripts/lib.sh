# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# lib.sh: runs and counts tests, for check.sh and matrix.sh. They set $logs, the directory
# for the output of the programs.
#
#   EMULATOR   a command that runs the programs; $valgrind is one
: "${logs:?}"

LC_ALL=C                # messages are compared
export LC_ALL

# Tests run programs and make in their temporary directory. If it does not allow programs,
# or has a space in its name, they get one in $logs.
probe=$(mktemp)
{ echo '#!/bin/sh' >"$probe" && chmod +x "$probe" && "$probe"; } 2>/dev/null
case $?$probe in
0*' '* | [!0]*)
	mkdir -p "$logs/tmp" || exit 1
	TMPDIR=$(cd "$logs/tmp" && pwd)
	export TMPDIR ;;
esac
rm -f "$probe"

passed=0
failed=0
skipped=0
valgrind='valgrind -q --error-exitcode=99 --leak-check=full --fair-sched=yes'
valgrind="$valgrind --errors-for-leak-kinds=definite,indirect,possible"
cores=$(nproc 2>/dev/null || echo 1)

# setting NAME: a setting of the build in $B.
setting() {
	sed -n "s/^$1=//p" "$B/flags"
}

# Runs make quietly, with a job for each processor, unless the user has set -j.
build() {
	case ${MAKEFLAGS-} in
	*-j*)	$MAKE -s --no-print-directory "$@" ;;
	*)	$MAKE -s --no-print-directory "-j$cores" "$@" ;;
	esac
}

# count LOG STATUS: sets p, f and s to the numbers of test cases in the output of a cmocka
# program. There is one failure more if it crashed, ran nothing, or its exit status does
# not agree with its last lines. With status 77 it is skipped from some case on.
count() {
	# shellcheck disable=SC2046
	set -- "$2" $(awk -v status="$2" '
		/^\[ +OK +\]/                  { ok++ }
		/^\[  FAILED  \] [^0-9]/       { bad[$NF] = 1 }
		/^\[  PASSED  \] [0-9]+ test/  { passed += $4; closed = 1 }
		/^\[  FAILED  \] [0-9]+ test/  { failed += $4 }
		/^\[  SKIPPED \] [0-9]+ test/  { skipped += $4 }
		END {
			if (!closed) {
				passed = ok
				failed = length(bad) + (status != 77)
			}
			if (status == 77) {
				skipped++
				if (length(bad) > failed)
					failed = length(bad)
			}
			print passed + 0, failed + 0, skipped + 0
		}' "$1")
	p=$2 f=$3 s=$4
	if [ "$f" -eq 0 ] && [ "$1" -ne 0 ] && [ "$1" -ne 77 ]; then
		f=1
	fi
	if [ $((p + f + s)) -eq 0 ]; then
		f=1
	fi
}

# show LOG: prints the output of a failed program, or its two ends if it is long.
show() {
	if [ "$(wc -l <"$1")" -le 400 ]; then
		cat "$1"
	else
		head -n 200 "$1"
		echo "[...: all of it is in $1]"
		tail -n 200 "$1"
	fi
}

# run LABEL SECONDS PROGRAM: runs a test program of cmocka.
run() {
	name=$(basename "$3")
	log=$logs/$1-$name.log
	began=$(date +%s)
	# shellcheck disable=SC2086
	CMOCKA_MESSAGE_OUTPUT=STDOUT timeout -k 5 "$2" ${EMULATOR-} "$3" >"$log" 2>&1
	status=$?
	count "$log" "$status"
	if [ "$f" -gt 0 ]; then
		show "$log"
	fi
	line "$1" "$name" "$(grep -E '^\[ +[A-Z]+ +\] [0-9]+ test|^\[ SKIPPED! \]' "$log" | tr -s '\n' ' ')"
}

# Programs that run once more with USCHED_TEST_SLICE: threads of rr give way then.
slice_tests='test_join test_lifetime test_net_storm test_net_wait
	test_sync_cancel test_sync_chan test_sync_scope test_sync_lock test_sync_storm test_tokens
	test_ubuf test_wake'

# counted LOG...: how often threads moved to other processors and gave way in these runs.
counted() {
	cat "$@" | awk '/^\[ COUNTED  \]/ { moved += $5; preempted += $7 }
		END { printf "moved %d, preempted %d\n", moved, preempted }'
}

# run_script LABEL SECONDS COMMAND...: status 0 is a pass, 77 a skip, others a failure.
run_script() {
	label=$1 seconds=$2
	shift 2
	name=$(basename "$1")
	log=$logs/$label-$name.log
	began=$(date +%s)
	timeout -k 5 "$seconds" "$@" >"$log" 2>&1
	status=$?
	p=0 f=0 s=0
	case $status in
	0)	p=1 ;;
	77)	s=1 ;;
	*)	f=1
		show "$log" ;;
	esac
	line "$label" "$name" "$(tail -n 1 "$log")"
}

# run_python LABEL SECONDS FILE: runs tests of Python's unittest. Each test is a case; so
# is a file or a class that is skipped as a whole.
run_python() {
	name=$(basename "$3")
	log=$logs/$1-$name.log
	began=$(date +%s)
	python=${PYTHON:-python3}
	[ -n "${PYTHON-}" ] || [ ! -x .venv/bin/python3 ] || python=.venv/bin/python3
	if ! command -v "$python" >/dev/null; then
		status=77 p=0 f=0 s=1
		line "$1" "$name" "skipped: there is no $python"
		return
	fi
	timeout -k 5 "$2" "$python" -B "$3" -v >"$log" 2>&1
	status=$?
	count_python "$log" "$status"
	if [ "$f" -gt 0 ]; then
		show "$log"
	fi
	line "$1" "$name" "$(grep -E '^(Ran [0-9]+ test|OK|FAILED)' "$log" | tail -n 2 |
		tr '\n' ' ')$(sed -n "s/.*\.\.\. skipped ['\"]\(.*\)['\"]\$/\1/p" "$log" | sort -u |
		paste -s -d ';' -)"
}

# count_python LOG STATUS: like count, for the output of unittest. A failure outside of
# all tests, as in a set-up of several, counts besides those that ran.
count_python() {
	# shellcheck disable=SC2046
	set -- "$2" $(awk '
		/^Ran [0-9]+ tests? in / { ran = $2; closing = "" }
		/^(OK|FAILED)( \(|$)/    { closing = $0 }
		END {
			gsub(/[^a-z0-9]+/, " ", closing)
			n = split(closing, word, " ")
			for (i = 1; i < n; i++)
				number[word[i]] = word[i + 1]
			failed = number["failures"] + number["errors"] + number["successes"]
			skipped = number["skipped"] + 0
			passed = ran - failed - skipped
			print (passed > 0 ? passed : 0), failed, skipped
		}' "$1")
	p=$2 f=$3 s=$4
	if [ "$f" -eq 0 ] && [ "$1" -ne 0 ] || [ $((p + f + s)) -eq 0 ]; then
		f=1
	fi
}

# reason LOG: what failed first, in a line: what a script marks by FAIL; else what cmocka,
# unittest, valgrind, a sanitizer or a compiler says; else the test that did not end, or the
# last line.
reason() {
	awk '
	function found(text, more) {
		if (!first) {
			first = text
			wanted = more
		}
	}
	/[^ \t]/                     { last = $0 }
	/^\[ RUN      \] /           { open = test = substr($0, 14) }
	/^\[ +(OK|SKIPPED) \] /      { open = "" }
	/^[^ ]*: FAIL: / && !marked  { marked = substr($0, index($0, ": FAIL: ") + 8) }
	wanted && first && match($0, wanted) {
		first = first ": " substr($0, RSTART)
		sub(/\[   LINE   \] --- /, "", first)
		sub(/: error: Failure!$/, "", first)
		wanted = ""
	}
	/^(FAIL|ERROR): /            { found($0, "^[A-Za-z_.]+(Error|Exception|Expired)(:.*)?$") }
	/^\[  ERROR   \] --- /       { found(test ": " substr($0, 18), "^\\[   LINE   \\] .*") }
	/^\[  FAILED  \] [^0-9]/     { found($NF) }
	/^==[0-9]+==.* [a-z]/ && !/Warning: /                          { found((open ? open ": " : "") $0) }
	/^[^ ]*\.(c|h|cc|hh):[0-9]+:[0-9: ]*(.* error: | .* is not )/  { found((open ? open ": " : "") $0) }
	END {
		if (!first)
			first = open ? open " did not end" : last
		print substr(marked ? marked : first, 1, 300)
	}' "$1"
}

# line LABEL NAME TEXT: prints the result of a program. The text is that of a program that
# has not failed. Failures are listed in the file $failures, if that is set.
line() {
	if [ "$f" -gt 0 ]; then
		verdict=FAIL
	elif [ "$p" -eq 0 ]; then
		verdict=skip
	else
		verdict=ok
	fi
	text=$3
	if [ "$verdict" = FAIL ]; then
		[ ! -s "${log-}" ] || text=$(reason "$log")
		text="exit status $status; $text"
	fi
	case $status in
	124 | 137) text="timed out; ${text#exit status *; }" ;;
	esac
	[ "$verdict" != FAIL ] || [ -z "${failures-}" ] ||
		printf '%s %s: %s\n' "$1" "$2" "$text" >>"$failures"
	printf '%-4s  %-9s %-14s %4ds  %s\n' \
		"$verdict" "$1" "$2" $(($(date +%s) - began)) "$text"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# cycles LABEL: runs the cycle benchmarks, and the one without locks, briefly.
cycles() {
	for program in rmain lmain rmain.1t; do
		began=$(date +%s)
		log=$logs/$1-$program.log
		# shellcheck disable=SC2086
		timeout -k 5 300 ${EMULATOR-} "$B/$program" 8 50 100 1000 2 >"$log" 2>&1
		status=$?
		p=0 f=0 s=0
		if [ "$status" -eq 0 ] && grep -qx '[0-9]*\.[0-9]*' "$log"; then
			p=1
		else
			f=1
			show "$log"
		fi
		line "$1" "$program" "$(tail -n 1 "$log") seconds"
	done
}

# Prints the sums, and ends the program.
summary() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
	exit
}
