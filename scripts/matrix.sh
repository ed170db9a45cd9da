#!/bin/sh
# SPDX-License-Identifier: MIT
#
# matrix.sh: make matrix. The tests under many compilers and options, a row for each:
#
#   compiler   gcc, clang, musl-gcc, or a machine of cross() below: gcc for that machine,
#              run by qemu; i386 on x86-64 by itself
#   options    -O0 -O1 -O2 -O3 -Os "-O2 -flto"
#   kind       default: no other options; hard: the hardening of distributions; checked:
#              -DUSCHED_CHECK; stress: USCHED_STRESS=1 as well; branch: pointer
#              authentication and landing pads; valgrind; one: the
#              library is usched-all.c, of make one
#   switch     asm: this machine's file in arch/, or setjmp
#
# The name of a row is these four in this order. Other rows are "proof" and the name of a
# script of tests/scripts/ that has a long form: sanitizers, failing calls, models, random
# programs, and more. A row prints one line. Its output is in $B/matrix/<name>.log, and is
# shown if it failed. The last lines are the numbers of rows, and of test cases, that
# passed, failed, and were skipped.
#
#   MAKE, B             as in the Makefile, which sets them
#   ROWS                patterns of names, separated by |: make matrix
#                       ROWS='gcc -O2*|clang * setjmp'; or short: the rows of CI
#   ROWS_AT_ONCE        default: the number of processors
#   USCHED_TEST_SCALE   default 10, and 100 where the machine is simulated
#   CHECK_TIMEOUT       seconds for one program; default 3600
#   PROOF_TIMEOUT       seconds for a script in its long form; default 7200
set -u
MAKE=${MAKE:-make}
B=${B:-build}
top=$B/matrix
timeout=${CHECK_TIMEOUT:-3600}
export USCHED_TEST_SCALE="${USCHED_TEST_SCALE:-10}"

short='clang -O2 -flto default asm|gcc -O0 default setjmp|gcc -O3 hard asm'
short="$short|aarch64 -O2 default asm|i386 -O2 default asm|riscv64 -O2 default asm"
short="$short|s390x -O2 default setjmp"

# Of these rows, with ROWS=short, these programs: CI has twenty minutes. Frames, depths,
# registers, control words, unwinding, tokens and waits over each scheduler, time,
# descriptors, preemption, coroutines, stacks of threads, threads that move.
few='usched evict dispatch switch float random frames visit slot tokens stack sync_wait
	net_read net_kinds event preempt preempt_step inspect locks uco uco_direct alone move'

# With SINGLE_THREAD: those that need no native thread beside, or skip what does.
alone='usched evict dispatch switch float random visit slot image uco uco_direct
	uco_inline net_select net_line net_transfer net_calls net_kinds net_read
	alone guard overflow ubuf trace metrics'

rows() {
	for cc in gcc clang; do
		for options in -O0 -O1 -O2 -O3 -Os '-O2 -flto'; do
			for kind in default hard; do
				for switch in asm setjmp; do
					echo "$cc $options $kind $switch"
				done
			done
		done
	done
	cat <<-END
	gcc -O2 checked asm
	gcc -O2 checked setjmp
	gcc -O2 single asm
	gcc -O2 one asm
	clang -O3 one asm
	aarch64 -O2 one asm
	arm -O2 one asm
	gcc -O2 stress asm
	gcc -O2 stress setjmp
	clang -O1 stress asm
	clang -O0 checked asm
	gcc -O2 valgrind asm
	gcc -O2 valgrind setjmp
	musl-gcc -O2 default asm
	musl-gcc -O2 default setjmp
	aarch64 -O0 default asm
	aarch64 -O2 default asm
	aarch64 -O2 default setjmp
	aarch64 -O2 branch asm
	aarch64 -O2 hard asm
	riscv64 -O0 default asm
	riscv64 -O2 default asm
	riscv64 -O2 stress asm
	riscv64 -O2 default setjmp
	i386 -O0 default asm
	i386 -O2 default asm
	i386 -O2 hard asm
	i386 -O2 stress asm
	i386 -O2 default setjmp
	arm -O0 default asm
	arm -O2 default asm
	arm -O2 stress asm
	arm -O2 default setjmp
	s390x -O2 default setjmp
	ppc64le -O2 default setjmp
	mips64el -O2 default setjmp
	hppa -O2 default setjmp
	proof sanitize
	proof cpp
	proof faults
	proof model
	proof delays
	proof sim
	proof planted
	proof torture
	proof fuzz
	proof profile
	proof coverage
	proof inline
	proof one
	proof tls
	proof posix
	proof adopt
	proof servers
	proof posixtests
	proof suites
	proof site
	proof deb
	proof packages
	END
}

# The rows that a pattern in $ROWS matches.
chosen() {
	if [ -z "${ROWS-}" ]; then
		rows
		return
	fi
	if [ "$ROWS" = short ]; then
		patterns=$short
	else
		patterns=$ROWS
	fi
	rows | (
		IFS='|'
		set -f
		while IFS= read -r name; do
			for pattern in $patterns; do
				# $pattern is unquoted: a pattern.
				# shellcheck disable=SC2254
				case $name in
				$pattern) echo "$name" && break ;;
				esac
			done
		done
	)
}

# report VERDICT TEXT: prints the line of a row.
report() {
	printf '%-4s  %-28s %4ds  %s\n' "$1" "$row" $(($(date +%s) - start)) "$2"
}

skip() {
	echo skip >"$base.verdict"
	report skip "$1"
	exit 0
}

# cross MACHINE: sets what GNU calls it. False: it is the name of a compiler.
cross() {
	case $1 in
	aarch64 | hppa | riscv64 | s390x) triple=$1-linux-gnu ;;
	arm)      triple=arm-linux-gnueabihf ;;
	i386)     triple=i686-linux-gnu ;;
	mips64el) triple=mips64el-linux-gnuabi64 ;;
	ppc64le)  triple=powerpc64le-linux-gnu ;;
	*)        return 1 ;;
	esac
}

# Sets the compiler of a row, and what runs its programs.
set_compiler() {
	machine=$1
	EMULATOR=
	if ! cross "$machine"; then
		CC=$1
		machine=$(uname -m)
	elif [ "$machine,$(uname -m)" = i386,x86_64 ]; then
		root=/usr/$triple/lib
		CC="$triple-gcc -Wl,--dynamic-linker=$root/ld-linux.so.2 -Wl,-rpath=$root"
	elif [ "$machine" = hppa ]; then        # set_cmocka() sets its EMULATOR
		CC=$triple-gcc
		USCHED_TEST_SCALE=100
	else
		CC=$triple-gcc
		EMULATOR=$(command -v "qemu-$machine-static" || command -v "qemu-$machine") ||
			skip "no qemu-$machine"
		EMULATOR="$EMULATOR -L /usr/$triple"
		case $machine in
		aarch64)        # with SME all switches go a longer way: see below
			with_sme="$EMULATOR -cpu max"
			EMULATOR="$EMULATOR -cpu max,sme=off" ;;
		mips64el)       # the default does not round upward
			EMULATOR="$EMULATOR -cpu MIPS64R2-generic" ;;
		esac
		USCHED_TEST_SCALE=100
	fi
	command -v "${CC%% *}" >/dev/null || skip "no ${CC%% *}"
}

set_options() {
	cflags="$options -g"
	case $machine in                        # elsewhere the default
	arm | hppa | mips64el | riscv64) cflags="$cflags -funwind-tables" ;;
	esac
	defines=
	case $kind in
	hard)
		cflags="$cflags -fstack-protector-all -fstack-clash-protection"
		if [ "$options" != -O0 ]; then      # with -O0 it only warns
			cflags="$cflags -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"
		fi
		if [ "$machine" = x86_64 ]; then
			cflags="$cflags -fcf-protection=full"
		fi
		;;
	checked)
		cflags="$cflags -DUSCHED_CHECK"
		;;
	single)
		cflags="$cflags -DSINGLE_THREAD"
		;;
	stress)
		cflags="$cflags -DUSCHED_CHECK"
		export USCHED_STRESS=1
		;;
	branch)
		cflags="$cflags -mbranch-protection=standard"
		;;
	valgrind)
		command -v valgrind >/dev/null || skip "no valgrind"
		EMULATOR=$valgrind
		USCHED_TEST_SCALE=100
		;;
	esac
}

# Sets the options of make, and of EMULATOR, that find cmocka. False: there is none.
set_cmocka() {
	cppflags=
	ldflags=
	case $CC in
	hppa-*)
		cmocka=$(scripts/hppa.sh "$B/hppa" 2>>"$row_log") || return 1
		cppflags="-isystem $cmocka/include"
		ldflags=-L$cmocka/lib
		EMULATOR="$cmocka/bin/qemu-hppa -L /usr/hppa-linux-gnu"
		;;
	*-gcc*)
		cmocka=$(scripts/cross.sh "$B/cross" "$CC" 2>>"$row_log") || return 1
		cppflags="-isystem $cmocka/include"
		ldflags=-L$cmocka/lib
		if [ -e "$cmocka/lib/unwind.o" ]; then
			ldflags="$ldflags $cmocka/lib/unwind.o -Wl,--eh-frame-hdr"
		fi
		;;
	esac
}

# Sets what make is to build, for run_tests().
set_targets() {
	tests=
	case ${ROWS-},$row in
	short,* | *' single '*)
		[ "$kind" != single ] || few=$alone
		for test in $few; do
			tests="$tests $base/tests/test_$test"
		done
		targets=$tests
		note="; $(echo "$few" | wc -w) programs"
		;;
	*)
		for test in tests/*/test_*.c; do
			test=${test##*/}
			case $kind,$test in
			one,test_dispatch.c) continue ;;        # it wraps a function of ours
			esac
			tests="$tests $base/tests/${test%.c}"
		done
		targets='programs tests'
		note=
		;;
	esac
}

run_row() {
	row=$1
	start=$(date +%s)
	base=$top/$(echo "$row" | tr ' ' _)
	row_log=$base.log
	logs=$base.logs
	mkdir -p "$logs"
	: >"$row_log"
	. scripts/lib.sh

	case $row in
	proof*)
		prove "${row#* }" >>"$row_log" 2>&1
		conclude
		return
		;;
	esac
	rest=${row#* }
	switch=${rest##* }
	rest=${rest% *}
	kind=${rest##* }
	options=${rest% *}
	set_compiler "${row%% *}"
	set_options
	if [ "$switch" = asm ]; then
		switch=$machine
		[ -f "arch/$switch.S" ] || skip "no arch/$switch.S"
	fi
	set_targets
	if set_cmocka; then
		build_and_run >>"$row_log" 2>&1
	else
		failed=1
		note='; cmocka, or an emulator, cannot be had for it'
	fi
	conclude
}

conclude() {
	echo "$passed $failed $skipped" >"$base.counts"
	if [ "$failed" -eq 0 ]; then
		verdict=pass
	else
		verdict=FAIL
	fi
	echo "$verdict" >"$base.verdict"
	report "$verdict" "$passed passed, $failed failed, $skipped skipped$note"
}

# prove NAME: runs the long form of tests/NAME.sh.
prove() {
	B=$base
	SWITCH=$(uname -m)
	[ -f "arch/$SWITCH.S" ] || SWITCH=setjmp
	export B SWITCH CC="${CC:-cc}" MAKE
	note=
	build "B=$B" all checked programs examples tests || failed=1
	LONG=1 run_script proof "${PROOF_TIMEOUT:-7200}" "tests/scripts/$1.sh"
	note="; $(tail -n 1 "$logs/proof-$1.sh.log")"
}

# The row fails if no thread moved, or none was preempted.
run_sliced() {
	export USCHED_TEST_SLICE=1
	for test in $slice_tests; do
		run slice "$timeout" "$B/tests/$test"
	done
	unset USCHED_TEST_SLICE
	moved=$(counted "$logs"/*.log)
	note="$note; $moved"
	case "$moved" in
	*' 0'*)	failed=$((failed + 1)) ;;
	esac
}

# Sets USCHED_TEST_FAILS to what qemu-user 7.2 does wrong for this machine, as programs
# without usched have shown: the address of a SIGBUS; what handlers compute; the number of
# an error in SO_ERROR, which is the host's. On each machine it may abort where the child of
# a fork with native threads makes one.
note_faults() {
	case $machine in
	arm) USCHED_TEST_FAILS=addresses ;;
	ppc64le) USCHED_TEST_FAILS=handlers ;;
	mips64el) USCHED_TEST_FAILS=errors ;;
	*) USCHED_TEST_FAILS= ;;
	esac
	[ -z "$EMULATOR" ] || [ "$kind" = valgrind ] || USCHED_TEST_FAILS="$USCHED_TEST_FAILS forks"
	export USCHED_TEST_FAILS
}

build_and_run() {
	B=$base
	instead=
	[ "$kind" != one ] || instead="library=$B/one/usched-all.o"
	# shellcheck disable=SC2086
	if ! build "B=$B" $instead "CC=$CC" "CFLAGS=$cflags" "CPPFLAGS=$cppflags ${CPPFLAGS-}" \
		"LDFLAGS=$ldflags ${LDFLAGS-}" "SWITCH=$switch" $targets
	then
		failed=1
		return
	fi
	cat "$B/flags"
	note_faults
	for test in $tests; do
		run "$kind" "$timeout" "$test"
	done
	if [ "$machine" = aarch64 ] && [ -n "$EMULATOR" ]; then
		without_sme=$EMULATOR
		EMULATOR=$with_sme
		for test in switch dispatch visit float; do
			run sme "$timeout" "$B/tests/test_$test"
		done
		EMULATOR=$without_sme
	fi
	[ "$targets" != "$tests" ] || return    # that was all
	cycles "$kind"
	case $switch:$kind:$EMULATOR in
	setjmp:* | *stress:* | *:?*) ;;
	*) run_sliced ;;
	esac
	case $kind in
	valgrind) ;;   # examples are not run so
	*)
		# With -flto the linker warns without reason.
		CC=$CC CFLAGS="$cflags $defines -Wno-error" EMULATOR=$EMULATOR SWITCH=$switch \
			run_script "$kind" "$timeout" tests/scripts/examples.sh
		;;
	esac
}

if [ $# -eq 1 ]; then
	run_row "$1"
	exit 0
fi

rm -f "$top"/*.verdict "$top"/*.counts
mkdir -p "$top"
export MAKE B
chosen >"$top/rows"
if [ ! -s "$top/rows" ]; then
	echo "matrix.sh: no row is called ${ROWS-}" >&2
	exit 1
fi
tr '\n' '\0' <"$top/rows" |
	xargs -0 -r -n 1 -P "${ROWS_AT_ONCE:-$(nproc 2>/dev/null || echo 1)}" "$0"

for verdict in "$top"/*.verdict; do
	if [ "$(cat "$verdict" 2>/dev/null)" = FAIL ]; then
		log=${verdict%.verdict}.log
		printf '\n==== %s\n' "$log"
		cat "$log"
	fi
done
echo
awk -v rows="$(wc -l <"$top/rows")" '{ n[$1]++ } END {
	printf "rows: %d passed, %d failed, %d skipped\n", n["pass"], n["FAIL"], n["skip"]
	exit n["pass"] + n["skip"] < rows
}' "$top"/*.verdict /dev/null
status=$?
awk '{ p += $1; f += $2; s += $3 } END {
	printf "%d passed, %d failed, %d skipped\n", p, f, s
	exit !(p > 0 && f == 0)
}' "$top"/*.counts /dev/null || status=1
exit $status
