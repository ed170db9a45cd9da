#!/bin/sh
# SPDX-License-Identifier: MIT
#
# C++: exceptions in flight while threads block, and while coroutines yield; an uncaught exception; and programs in C,
# which need no C++ runtime. Compiles the programs of tests/cpp/ with each C++ compiler that
# is installed, over the switch of this machine and the portable one.
#
#   CC       the compiler of the library, with options if it needs some; default cc
#   CFLAGS   its options; default -O2
#   LONG     1: each with and without optimisation, and under valgrind
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

# As tests/scripts/headers.sh, without -Wshadow.
warnings='-Werror -Wall -Wextra -Wpedantic -Wconversion'
debug=-gdwarf-4                 # valgrind 3.19 complains of what clang 14 writes as 5

# run WHAT COMMAND...: it says "good", and nothing else.
run() {
	what=$1
	shift
	count=$((count + 1))
	timeout 600 "$@" >"$dir/output" 2>&1
	status=$?
	[ "$(cat "$dir/output")" = good ] ||
		fail "$what: status $status, $(tail -n 5 "$dir/output")"
}

# One object for each file of the library, and one for each switch.
build_library() {
	others=
	for file in $(sources) $switches; do
		# shellcheck disable=SC2086
		$CC -std=c11 -D_DEFAULT_SOURCE ${CFLAGS--O2} $debug -pthread -c -I. "$file" \
			-o "$dir/$(basename "${file%.*}").o" || exit 1
		case $file in
		arch/*) ;;
		usched.c) ;;
		*) others="$others $dir/$(basename "${file%.c}").o" ;;
		esac
	done
	library="$dir/usched.o $others"
}

# check_trace ARGUMENT...: gdb finds the frames of a thread, up to its first function.
check_trace() {
	gdb -q -batch -nx -ex run --args true 2>/dev/null |
		grep -q 'exited normally' || return
	gdb -q -batch -nx -ex run -ex bt --args "$dir/escape" "$@" >"$dir/trace" 2>&1
	if ! grep -q '^#.* throw_below ' "$dir/trace" ||
	   ! tail -n 1 "$dir/trace" | grep -q '^#.* usched__launch ' ||
	   grep -q 'Backtrace stopped' "$dir/trace"; then
		fail "$name: the trace does not end at the thread's base"
		tail -n 8 "$dir/trace" >&2
	fi
}

# check_escape ARGUMENT...: the end is std::terminate(), with the exception's text.
check_escape() {
	count=$((count + 1))
	timeout 600 "$dir/escape" "$@" >"$dir/output" 2>&1
	status=$?
	if [ $status -ne 134 ] || grep -q -e 'went on' -e 'caught' "$dir/output" ||
	   ! grep -q 'no handler for this' "$dir/output"; then
		fail "$name: an exception escapes: status $status, $(cat "$dir/output")"
	fi
}

# check COMPILER OPTIONS
check() {
	for program in exceptions coroutines escape; do
		# shellcheck disable=SC2086
		if ! $1 -std=c++17 $2 $debug $warnings -pthread -c -I. "tests/cpp/$program.cc" \
			-o "$dir/$program.o"; then
			fail "$1 $2: $program.cc does not compile"
			return
		fi
	done
	for file in $switches; do
		switch=$(basename "${file%.*}")
		name="$1 $2 $switch"
		for program in exceptions coroutines escape; do
			# shellcheck disable=SC2086
			$1 "$dir/$program.o" $library "$dir/$switch.o" -pthread -lm \
				-o "$dir/$program" || fail "$name: does not link"
		done
		run "$name" "$dir/exceptions"
		run "$name, coroutines" "$dir/coroutines"
		if [ "$switch" = setjmp ]; then
			check_escape native
		else
			check_escape native catch
			check_escape lent catch
			check_trace lent catch
		fi
		if [ -n "${LONG-}" ] && command -v valgrind >/dev/null; then
			run "$name, valgrind" valgrind -q --error-exitcode=99 \
				--fair-sched=yes "$dir/exceptions"
		fi
	done
}

# A program in C neither needs nor gets the runtime library of C++.
check_c() {
	count=$((count + 1))
	for file in $switches; do
		switch=$(basename "${file%.*}")
		# shellcheck disable=SC2086
		if ! $CC -I. examples/01-hello.c $library "$dir/$switch.o" -pthread -lm \
			-o "$dir/hello"; then
			fail "C, $switch: does not link"
		elif [ "$("$dir/hello" | wc -l)" -ne 3 ]; then
			fail "C, $switch: does not greet three times"
		elif readelf -d "$dir/hello" | grep -e 'NEEDED.*c++' -e 'NEEDED.*gcc_s'; then
			fail "C, $switch: needs libraries of C++"
		fi
	done
}

# A program in C loads a library in C++ after its start.
check_plugin() {
	# shellcheck disable=SC2086
	if ! $1 -std=c++17 -O2 -g $warnings -shared -fPIC tests/cpp/plugin.cc \
		-o "$dir/plugin.so" ||
	   ! $CC -O2 -g $warnings -I. tests/cpp/late.c $library "$dir/$switch.o" -pthread \
		-lm -ldl -Wl,--no-as-needed -lstdc++ -o "$dir/late"; then
		fail "$1: plugin.cc or late.c does not compile"
		return
	fi
	run "plugin by $1" "$dir/late" "$dir/plugin.so"
}

# -flto compares the declarations of C++'s headers with those of the library.
check_lto() {
	objects="$dir/exceptions.lto.o $dir/usched.lto.o"
	options='-O2 -flto -pthread -I.'
	# shellcheck disable=SC2086
	if ! g++ -std=c++17 $options -c tests/cpp/exceptions.cc -o "$dir/exceptions.lto.o" ||
	   ! gcc -std=c11 -D_DEFAULT_SOURCE $options -c usched.c -o "$dir/usched.lto.o" ||
	   ! g++ $options $objects $others "$dir/$switch.o" \
		-lm -o "$dir/exceptions"; then
		fail "-flto: does not compile"
		return
	fi
	run "-flto" "$dir/exceptions"
}

machine=$($CC -dumpmachine)
switches=arch/setjmp.c
if [ -f "arch/${machine%%-*}.S" ]; then
	switches="arch/${machine%%-*}.S $switches"
fi
compilers=
for compiler in g++ clang++; do
	if ! echo '#include <exception>' | $compiler -x c++ -fsyntax-only - 2>/dev/null; then
		note "no $compiler here"
		continue
	fi
	compilers="$compilers $compiler"
done
[ -n "$compilers" ] || skip "no C++ compiler"
build_library
levels=-O0
for compiler in $compilers; do
	[ -z "${LONG-}" ] || levels='-O0 -O2'
	for level in $levels; do
		check "$compiler" "$level"
	done
	levels=-O2
	check_plugin "$compiler"
done
check_c
switch=$(basename "${switches%%.*}")
case $compilers in
*" g++"*) command -v gcc >/dev/null && check_lto ;;
esac
conclude "$count programs, by$compilers, over $switches"
