#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The benchmark programs under profilers. Their handlers interrupt threads and walk their
# stacks. Nothing crashes, no message is lost, and the benchmark's function is in the
# profile. The profilers are
#
#  - the CPU profiler of gperftools, preloaded;
#  - perf, with call chains by frame pointers and by unwinding;
#  - programs that are built with -pg, and gprof.
#
# A profiler is left out if it is not installed, not permitted, or not for this compiler. The
# last line names it.
#
#   B, CC, MAKE, SWITCH    as for make
#   LONG=1                 many more samples
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

samples=10
runs='rmain:default lmain:1'
if [ -n "${LONG-}" ]; then
	samples=500
	runs='rmain:default rmain:1 rmain:native lmain:default lmain:1 lmain:native'
fi
ran=
left=

left_out() {
	left="$left; no $*"
}

# More rounds each time, until there are samples enough:
#
#   until_enough COUNT PROGRAM COMMAND...
#
# runs COMMAND... PROGRAM ARGUMENTS, and COUNT prints how many samples of pass_on there are.
until_enough() {
	count=$1 program=$2
	shift 2
	rounds=5000
	while [ $rounds -lt 2000000 ]; do
		BLOCKS=1 "$@" "$program" 8 100 $rounds 1000 2 >"$dir/out" 2>"$dir/err"
		status=$?
		if [ $status -ne 0 ] || ! [ "$(cat "$dir/out")" -ge $((100 * rounds)) ]; then
			fail "$* $program: status $status: $(cat "$dir/out" "$dir/err")"
			return
		fi
		[ "$($count "$program")" -lt $samples ] || return
		rounds=$((4 * rounds))
	done
	fail "$* $program: no $samples samples of pass_on"
}

# Programs and stacks: one for each thread, one for all, or the native one.
everywhere() {
	for run in $runs; do
		case $run in
		*:default) unset USCHED_STACKS ;;
		*) export USCHED_STACKS="${run#*:}" ;;
		esac
		until_enough "$1" "$programs/${run%:*}" "$2"
	done
	unset USCHED_STACKS
}

count_gperf() {
	google-pprof --text "$1" "$dir/gperf" 2>/dev/null |
		awk '$6 == "pass_on" { n = $4 } END { print n + 0 }'
}

# Without the program that reads profiles: all samples.
count_interrupts() {
	sed -n 's|^PROFILE: .*= \([0-9]*\)/.*|\1|p' "$dir/err"
}

with_gperf() {
	env CPUPROFILE="$dir/gperf" CPUPROFILE_FREQUENCY=4000 LD_PRELOAD="$profiler" "$@"
}

count_perf() {
	perf script --no-inline -i "$dir/perf" -F ip,sym 2>/dev/null |
		awk 'BEGIN { RS = "" } / pass_on/ { n++ } END { print n + 0 }'
}

with_perf() {
	perf record -q -e cpu-clock -F 4000 --call-graph "$chain" -o "$dir/perf" -- "$@"
}

# All samples, if it is among them.
count_gprof() {
	gprof -b -p "$1" "$dir/gmon.out" 2>/dev/null |
		awk '$1 > 0 { all = $2 * 100 } /pass_on/ { found = 1 } END { print found * all }'
}

# It writes gmon.out where it is.
with_gprof() {
	(cd "$dir" && "$@")
}

programs=$B
[ -x "$B/lmain" ] || die "nothing in $B: run make programs first"

profiler=$(${CC} -print-file-name=libprofiler.so 2>/dev/null)
if ! [ -e "$profiler" ]; then
	left_out 'libprofiler.so'
elif command -v google-pprof >/dev/null; then
	everywhere count_gperf with_gperf
	ran="$ran gperftools"
else
	everywhere count_interrupts with_gperf
	ran="$ran gperftools (interrupts only)"
fi

chain=fp
if ! command -v perf >/dev/null; then
	left_out perf
elif ! with_perf true >"$dir/err" 2>&1; then
	left_out "perf permitted here"
else
	for chain in fp dwarf; do
		everywhere count_perf with_perf
		ran="$ran perf ($chain)"
	done
fi

programs=$dir/pg
if ! command -v gprof >/dev/null; then
	left_out gprof
elif ! echo 'int main(void) { return 0; }' |
	${CC} -pg -x c - -o "$dir/probe" 2>/dev/null || ! with_gprof ./probe; then
	left_out "-pg with $CC"
elif ! $MAKE -s --no-print-directory "B=$programs" "CC=$CC" CFLAGS='-O1 -pg' \
	${SWITCH:+"SWITCH=$SWITCH"} "$programs/rmain" "$programs/lmain"; then
	fail "does not build with -pg"
else
	samples=$((samples / 5))        # it takes some tens a second, the others thousands
	everywhere count_gprof with_gprof
	ran="$ran gprof"
fi

if [ $failed -gt 0 ]; then
	exit 1
fi
[ -n "$ran" ] || skip "${left#; }"
conclude "${ran# }$left"
