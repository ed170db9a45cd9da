#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The hand-over where it is inlined: what compilers make of the statement. Builds the
# callers in tests/inline/ with compilers and options, and runs them: with a stack for each
# thread, with one for both, and with a signal at each instruction. The other thread leaves
# rubbish in all registers and, with one stack, below SP.
#
#   B, CC, MAKE, SWITCH   as for make; the library is $B/libusched.a
#   LONG                  1: all compilers that are found, with all options
#   COMPILERS             these C compilers instead, with commas between; that of C++ is
#                         next to each
#   OPTIONS               only these options, lines as in all_options()
#   CORPUS_FLAGS          more options for the callers
#   JOBS                  at a time; default: the number of processors
#
# "inline.sh ROW compiler|options" builds and runs one; the variable work is set then.
set -u
cd "$(dirname "$0")/../.." || exit 1

here=tests/inline
parts='ints frames floats cpp'

# For all compilers. Words in capitals are settings of the rows:
#
#   TRAP       runs with a signal at each instruction
#   INTS       without floats.c and cpp.cc
#   C          without cpp.cc
#   WHOLE      the library, too, is compiled with these options
#   LANDING    needs landing pads
all_options() {
	cat <<-END
	-O0 TRAP
	-O1 TRAP
	-O2 TRAP
	-O3 TRAP
	-Os TRAP
	-O0 -fomit-frame-pointer
	-O2 -fno-omit-frame-pointer TRAP
	-Og
	-O2 -fPIC
	-O0 -fPIC
	-O2 -fPIE -fno-plt
	-O2 -flto
	-O2 -flto WHOLE
	-O3 -flto WHOLE
	-Os -flto WHOLE TRAP
	-O0 -fstack-protector-all
	-O2 -fstack-protector-all -D_FORTIFY_SOURCE=2
	-O2 -fstack-protector-strong -D_FORTIFY_SOURCE=3
	-O0 -fstack-clash-protection
	-O2 -fstack-clash-protection TRAP
	-O2 -ftrivial-auto-var-init=pattern
	-O2 -fzero-call-used-regs=all-gpr
	-O2 -funroll-loops
	-O3 -funroll-loops -ffast-math
	-O2 -fno-inline
	-O2 -ffunction-sections -Wl,--gc-sections
	-O2 -fno-asynchronous-unwind-tables C
	-O2 -fno-dwarf2-cfi-asm
	-O2 -pg
	-O2 --coverage
	-O2 -fprofile-generate
	-O2 -finstrument-functions
	-O0 -fsanitize=undefined
	-O2 -fsanitize=undefined
	-O1 -fsanitize=address WHOLE
	-O2 -fsanitize=address,undefined WHOLE
	-O1 -fsanitize=thread WHOLE
	-O2 -std=gnu99 -fgnu89-inline C
	END
}

x86_options() {
	cat <<-END
	-O2 -mno-red-zone
	-O0 -mno-red-zone
	-O2 -mstackrealign TRAP
	-O0 -mstackrealign
	-O2 -masm=intel
	-O0 -masm=intel
	-O2 -fcf-protection=full LANDING TRAP
	-O0 -fcf-protection=full LANDING
	-O2 -fcf-protection=branch -flto LANDING
	-O2 -mcmodel=medium
	-O2 -mcmodel=large C
	-O2 -mavx2
	-O3 -march=x86-64-v3
	-O2 -mavx512f -mavx512vl -mavx512dq -DCORPUS_512
	-O3 -mavx512f -mavx512vl -mavx512dq -DCORPUS_512
	-O0 -mavx512f -mavx512vl -mavx512dq -DCORPUS_512
	-O2 -mgeneral-regs-only INTS
	-O0 -mgeneral-regs-only INTS
	END
}

arm_options() {
	cat <<-END
	-O2 -mbranch-protection=standard LANDING
	-O0 -mbranch-protection=standard LANDING
	-O3 -march=armv8-a+sve
	-O2 -mcmodel=tiny
	-O2 -mgeneral-regs-only INTS
	END
}

gcc_options() {
	cat <<-END
	-O2 -freorder-blocks-and-partition
	-O3 -ftracer -funroll-all-loops
	-O2 -fno-ipa-ra
	-O2 -fzero-call-used-regs=all
	-O2 -fipa-pta -fipa-cp-clone
	-O2 -frename-registers -flive-range-shrinkage
	-O2 -fno-shrink-wrap
	-O2 -fselective-scheduling2 -fsel-sched-pipelining
	-O2 -fira-algorithm=priority -fira-region=all
	-O2 -fno-reorder-blocks -fno-stack-limit
	END
}

clang_options() {
	case $1 in
	x86_64) wide='-O2 -DCORPUS_512' ;;      # it knows all registers always
	*)	wide= ;;
	esac
	cat <<-END
	-Oz
	-O2 -mllvm -enable-shrink-wrap=false
	-O2 -mllvm -regalloc=basic
	$wide
	-O2 -mllvm -enable-split-machine-functions
	END
}

quick_options() {
	cat <<-END
	-O0
	-O2 TRAP
	END
}

family() {		# COMPILER: gcc or clang
	case $($1 --version 2>/dev/null) in
	*clang*) echo clang ;;
	*)	echo gcc ;;
	esac
}

plus_plus() {		# COMPILER: that of C++ next to it
	echo "$1" | sed 's/clang/clang++/; s/gcc/g++/; s/^cc$/c++/'
}

machine_of() {		# COMPILER
	case $1 in
	*--target=aarch64*) echo aarch64 ;;
	*)	$1 -dumpmachine | sed 's/-.*//' ;;
	esac
}

# Builds the library of a row: libusched.a, by its options if they are for the whole.
library() {
	if [ -z "$whole" ] && [ "$machine" = "$native" ]; then
		archive=$B/libusched.a
		return
	fi
	archive=$row/lib/libusched.a
	ar='ar'
	case $flags in
	*-flto*) [ "$kind" = gcc ] && ar=gcc-ar || ar=llvm-ar ;;
	esac
	if [ -z "$whole" ]; then        # one for all rows of that machine
		archive=$work/lib-$machine/libusched.a
		[ ! -e "$archive" ] || return 0
		flags_of_library=-O2
	else
		flags_of_library=$flags
	fi
	$MAKE -s --no-print-directory "B=${archive%/*}" "CC=$cc" "AR=$ar" "SWITCH=$machine" \
		"CFLAGS=$flags_of_library" "$archive"
}

# The parts that are not tested; with sanitizers they must agree.
common() {
	common=$work/common-$machine
	[ -z "$whole" ] || common=$row
	mkdir -p "$common"
	for file in drive trap partner; do
		# shellcheck disable=SC2086
		[ -e "$common/$file$left_out.o" ] || $cc -std=gnu11 -O1 -g $whole $without \
			-c "$here/$file.c" -o "$common/$file$left_out.o" || return 1
	done
	for file in $parts; do
		[ -e "$work/common-$machine/$file-plain.o" ] || plain "$file" || return 1
	done
}

# plain FILE: without hand-overs, to compare with. 512: this needs no such machine.
plain() {
	mkdir -p "$work/common-$machine"
	case $machine in
	x86_64) wide=-DCORPUS_512 ;;
	*)	wide= ;;
	esac
	# shellcheck disable=SC2086
	compile "$1" -O1 $wide -DCORPUS_PLAIN -o "$work/common-$machine/$1-plain.o"
}

# compile FILE OPTION...
compile() {
	file=$1
	shift
	case $file in
	cpp)	$cxx -std=c++14 -DUSCHED_INLINE_SWITCH ${CORPUS_FLAGS-} "$@" -c "$here/$file.cc" ;;
	*)	case "$*" in
		*-std=*) $cc -DUSCHED_INLINE_SWITCH ${CORPUS_FLAGS-} "$@" -c "$here/$file.c" ;;
		*)	$cc -std=gnu11 -DUSCHED_INLINE_SWITCH ${CORPUS_FLAGS-} "$@" -c "$here/$file.c" ;;
		esac ;;
	esac
}

build_row() {
	library && common || return 1
	objects=
	for file in $files; do
		# shellcheck disable=SC2086
		compile "$file" $flags -o "$row/$file.o" || return 1
		objects="$objects $row/$file.o $work/common-$machine/$file-plain.o"
	done
	linker=$cxx
	[ "$linker_c" = "" ] || linker=$cc
	# shellcheck disable=SC2086
	$linker $flags -Wl,-z,now $objects "$common/drive$left_out.o" "$common/trap$left_out.o" \
		"$common/partner$left_out.o" "$archive" -pthread -o "$row/corpus"
}

run_corpus() {		# ARGUMENT...
	# shellcheck disable=SC2086
	(cd "$row" && GCOV_PREFIX=$row timeout 300 $emulator ./corpus "$@") >"$row/out" 2>&1 &&
		return
	echo "$name: corpus $*: status $?: $(head -n 12 "$row/out")"
}

# Prints how many hand-overs the program has outside of the library's assembly, and how many
# of them go on at no landing pad. A hand-over computes the address where it goes on, loads
# SP, and jumps by a register or memory.
hand_overs() {
	"$objdump" -d --no-show-raw-insn "$row/corpus" | awk '
	/^[0-9a-f]+ <.*>:$/ { ours = $2 !~ /^<usched__/ }
	/^ *[0-9a-f]+:\t/ {
		op[$1] = $2
		if ($2 == "lea" && match($0, /# [0-9a-f]+/))
			place = substr($0, RSTART + 2, RLENGTH - 2)
		if ($2 == "adr")
			place = $4
		if ($2 == "mov" && (/,%rsp *$/ || $3 == "sp,"))
			near = 4
		if (near-- > 0 && ours && ($2 == "jmp" && $3 ~ /^\*/ || $2 == "br"))
			goes_on[++n] = place ":"
	}
	END {
		for (i in goes_on)
			bad += op[goes_on[i]] !~ /^(endbr64|bti|hint)$/
		print n + 0, bad + 0
	}'
}

check_row() {
	# shellcheck disable=SC2046
	set -- $(hand_overs)
	echo "$1" >>"$row/count"
	[ "$1" -ge "$at_least" ] || echo "$name: $1 hand-overs, not $at_least"
	[ -z "$landing" ] || [ "$2" -eq 0 ] || echo "$name: $2 go on at no landing pad"
}

# Sets what the words in capitals of a row say.
settings() {
	flags='' whole='' trap='' landing='' left_out='' without='' files=$parts linker_c=
	for word in $1; do
		case $word in
		TRAP)	 trap=1 ;;
		WHOLE)	 whole=1 ;;
		LANDING) landing=1 ;;
		C)	 left_out=-c without=-DCORPUS_NO_CPP files='ints frames floats' linker_c=1 ;;
		INTS)	 left_out=-ints without='-DCORPUS_NO_CPP -DCORPUS_NO_FLOATS'
			 files='ints frames' linker_c=1 ;;
		*)	 flags="$flags $word" ;;
		esac
	done
	[ -z "$whole" ] || whole=$flags
	flags=${flags# }
}

# Prints what is wrong, and writes "done", "none" (the compiler lacks an option) or
# "failed" to $row/verdict.
run_row() {
	name=$1
	cc=${1%%|*}
	row=$work/$(echo "$name" | tr -c 'a-zA-Z0-9\n' _ | cut -c 1-100)
	mkdir -p "$row"
	settings "${1#*|}"
	cxx=$(plus_plus "$cc")
	kind=$(family "$cc")
	machine=$(machine_of "$cc")
	native=$(uname -m)
	emulator='' objdump=objdump at_least=40
	case $flags in
	*-mcmodel=large*) at_least=0 ;;         # there it is a function
	*-mgeneral-regs-only*) [ "$machine" = x86_64 ] || at_least=0 ;;         # likewise
	esac
	if [ "$machine" != "$native" ]; then
		objdump=$machine-linux-gnu-objdump
		emulator="$(command -v "qemu-$machine-static" || command -v "qemu-$machine") -L \
			/usr/$machine-linux-gnu"
		trap=
	fi
	# shellcheck disable=SC2086
	if ! echo 'int main(void) { return 0; }' | $cc $flags -Werror -x c - -o "$row/probe" \
		>"$row/probe.log" 2>&1; then
		echo none >"$row/verdict"
		return
	fi
	if ! build_row >"$row/build" 2>&1; then
		echo "$name: does not build: $(grep -m 6 -i -e error -e undefined "$row/build")"
		echo failed >"$row/verdict"
		return
	fi
	{
		check_row
		run_corpus
		run_corpus shared
		[ -z "$trap" ] || run_corpus trap
	} >"$row/wrong"
	cat "$row/wrong"
	if [ -s "$row/wrong" ]; then
		echo failed >"$row/verdict"
	else
		echo "done" >"$row/verdict"
		rm -f "$row/corpus" "$row"/*.o
	fi
}

if [ "${1-}" = ROW ]; then
	run_row "$2"
	exit
fi

. tests/scripts/test.lib

# The compilers, one a line; those that are missing are noted.
compilers() {
	if [ -n "${COMPILERS-}" ]; then
		echo "$COMPILERS" | tr "," "\n" | while read -r cc; do
			echo "$cc"
		done
		return
	fi
	if [ -z "${LONG-}" ]; then
		{ echo "$CC"; echo gcc; echo clang; } | while read -r cc; do
			resolved "$cc"
		done | sort -u -k 1,1 | sed 's/^[^ ]* //'
		return
	fi
	for cc in gcc gcc-11 gcc-12 gcc-13 gcc-14 gcc-15 clang clang-14 clang-15 clang-16 \
		clang-17 clang-18 clang-19 clang-20 clang-21 clang-22 aarch64-linux-gnu-gcc; do
		resolved "$cc" || echo "$cc" >>"$dir/missing"
	done | sort -u -k 1,1 | sed 's/^[^ ]* //'
	if command -v clang >/dev/null && [ -d /usr/aarch64-linux-gnu ]; then
		echo 'clang --target=aarch64-linux-gnu'
	fi
}

# resolved COMPILER: where it really is, and its name; nothing if there is none.
resolved() {
	path=$(command -v "${1%% *}") || return 1
	command -v "$(plus_plus "${1%% *}")" >/dev/null || return 1
	echo "$(readlink -f "$path") $1"
}

options_of() {		# COMPILER
	if [ -n "${OPTIONS-}" ]; then
		echo "$OPTIONS"
		return
	fi
	if [ -z "${LONG-}" ]; then
		quick_options
		return
	fi
	all_options
	case $(machine_of "$1") in
	x86_64)  x86_options ;;
	aarch64) arm_options ;;
	esac
	"$(family "$1")_options" "$(machine_of "$1")" | grep .
}

need objdump
[ -f "$B/libusched.a" ] || die "nothing in $B: run make first"
case ${SWITCH:-$(sed -n 's/^SWITCH=//p' "$B/flags")} in
setjmp)	skip 'the portable switch is a function' ;;
esac
B=$(cd "$B" && pwd)
work=$dir
export work B MAKE

compilers >"$dir/compilers"
while read -r cc; do
	options_of "$cc" </dev/null | while read -r options; do
		echo "$cc|$options"
	done
done <"$dir/compilers" >"$dir/rows"

# The parts that rows share are made by the first of each machine.
sed 's/|.*/|-O1/' "$dir/rows" | sort -u >"$dir/first"
while read -r row; do
	"$0" ROW "$row" </dev/null >>"$dir/wrong" 2>&1
	sort -u "$dir/first" >/dev/null
done <<-END
$(while read -r row; do
	echo "$(machine_of "${row%%|*}") $row"
done <"$dir/first" | sort -u -k 1,1 | sed 's/^[^ ]* //')
END
xargs -d '\n' -n 1 -P "${JOBS:-$(nproc 2>/dev/null || echo 1)}" "$0" ROW <"$dir/rows" \
	>>"$dir/wrong" 2>&1
cat "$dir/wrong" >&2

count=$(cat "$dir"/*/verdict | grep -c done)
none=$(cat "$dir"/*/verdict | grep -c none)
failed=$(cat "$dir"/*/verdict | grep -c failed)
[ ! -s "$dir/missing" ] || note "missing: $(tr '\n' ' ' <"$dir/missing")"
[ "$none" -eq 0 ] || note "$none rows with options that the compiler lacks"
[ "$count" -gt 0 ] || die "nothing was built"
conclude "$count rows, $(awk '{ n += $1 } END { print n }' "$dir"/*/count) hand-overs," \
	"$(tr '\n' ' ' <"$dir/compilers")"
