#!/bin/sh
# SPDX-License-Identifier: MIT
#
# usched-all.c, which `make one' writes: it compiles without warnings, as C11 and as C++20,
# with the compilers that are here; it defines the names of the library and no others; and
# some of the test programs run over it. make matrix runs all of these. usched-all.h has
# all headers for programs. readme.sh has the README's command line.
#
#   B, CC, MAKE, SWITCH  as for make, which sets them
#   LONG                 1: at all levels of optimisation, and for other machines
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

machine=$(${CC%% *} -dumpmachine 2>/dev/null | sed 's/-.*//')
few='switch frames tokens join sync_wait net_read uco_direct preempt trace inspect'
levels=-O2 cc_levels=-O0
[ "${LONG-}" != 1 ] || levels='-O0 -O1 -O2 -O3' cc_levels=$levels
warnings="$(of_make WARNINGS) -Werror"
macros=-DUSCHED_DEBUG
! echo '#include <openssl/ssl.h>' | ${CC:-cc} -E -x c - >/dev/null 2>&1 ||
	macros="$macros -DUSCHED_TLS"

# compile COMPILER OPTION...: as a whole, to $dir/all.o.
compile() {
	count=$((count + 1))
	limited "$@" -c "$B/one/usched-all.c" -o "$dir/all.o" >"$dir/log" 2>&1 ||
		fail "$*: $(head -n 3 "$dir/log")"
}

compile_all() {
	# In C++ a struct and a function of one name are a case of -Wshadow.
	for_cc=$(echo "$warnings" | sed 's/-Wshadow//; s/-Wmissing-prototypes//')
	# shellcheck disable=SC2086
	for compiler in $(command -v gcc) $(command -v clang); do
		for level in $levels; do
			compile "$compiler" -std=c11 $warnings $level $macros
		done
	done
	# shellcheck disable=SC2086
	for compiler in $(command -v g++) $(command -v clang++); do
		for level in $cc_levels; do
			compile "$compiler" -x c++ -std=c++20 $for_cc $level $macros
		done
	done
	# shellcheck disable=SC2086
	for compiler in $(command -v musl-gcc) $(others); do
		compile "$compiler" -std=c11 $warnings -O2 -DUSCHED_DEBUG
	done
}

# The compilers for other machines.
others() {
	[ "${LONG-}" = 1 ] || return
	for triple in aarch64-linux-gnu arm-linux-gnueabihf i686-linux-gnu riscv64-linux-gnu \
		s390x-linux-gnu; do
		command -v $triple-gcc
	done
}

names_of() {
	nm -g --defined-only "$1" | awk 'NF == 3 { print $3 }' | sort -u
}

# The archive has objects that were compiled apart. The portable switch has other names.
compare_names() {
	compile "$1" -O0 -DUSCHED_DEBUG
	names_of "$B/libusched.a" >"$dir/apart"
	names_of "$dir/all.o" | comm -13 "$dir/apart" - >"$dir/more"
	same "names that only usched-all.c has, $1" '' "$(tr '\n' ' ' <"$dir/more")"
}

# The README's server, optimised as a whole, links and runs.
link_whole() {
	readme_server_c >"$dir/server.c"
	count=$((count + 1))
	limited "$1" -flto -O1 "-I$B/one" "$dir/server.c" "$B/one/usched-all.c" -pthread \
		-o "$dir/server" >"$dir/log" 2>&1 || fail "$1 -flto: $(head -n 3 "$dir/log")"
	limited "$dir/server" 127.0.0.1:99999 2>"$dir/log"
	has '^server: 127.0.0.1:99999: ' "$dir/log"
}

run_few() {
	inside=$B/in-one
	programs=$(for name in $few; do echo "$inside/tests/test_$name"; done)
	# shellcheck disable=SC2086
	if ! $MAKE -s --no-print-directory "B=$inside" "library=$inside/one/usched-all.o" \
		$programs >"$dir/log" 2>&1; then
		fail "tests over usched-all.c do not build: $(head -n 3 "$dir/log")"
		return
	fi
	export USCHED_TEST_SCALE=100
	for program in $programs; do
		count=$((count + 1))
		limited "$program" >"$dir/log" 2>&1 ||
			fail "${program##*/}: $(grep -m 3 -e ERROR -e FAILED "$dir/log")"
	done
}

$MAKE -s --no-print-directory one || die 'make one'
for header in $(of_make 'filter-out usched-all.h uco.hh arch/% posix/% sim/%,$(headers)') tls/utls.h; do
	grep -qxF "#include \"$header\"" usched-all.h || fail "usched-all.h lacks $header"
done
compile_all
if [ "${SWITCH:-$machine}" = "$machine" ]; then
	for compiler in $(command -v gcc) $(command -v clang); do
		compare_names "$compiler"
		link_whole "$compiler"
	done
fi
run_few
conclude "$count checks"
