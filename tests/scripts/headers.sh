#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Each public header, of those that are installed, compiles alone, and twice, as C (except for
# uco.hh) and as C++, strict or not, with the warnings that the project is built with and with every
# compiler that is here.
#
#   CC    the compiler, with options if it needs some; gcc and clang are tried besides
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

warnings='-Werror -Wall -Wextra -Wpedantic -Wconversion'
# posix/uposix.h is for glibc: tests/scripts/posix.sh compiles it. usched.h includes the two
# of arch/, which are parts of it.
headers="$(of_make 'filter-out posix/% arch/ulayout.h arch/uswitch.h,$(headers)') tls/utls.h sim/sim.h sim/ulinear.h"

# compile COMPILER LANGUAGE OPTION...
compile() {
	compiler=$1 language=$2
	shift 2
	for header in $headers; do
		case $language:$header in c:*.hh) continue ;; esac
		printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$dir/alone"
		count=$((count + 1))
		# shellcheck disable=SC2086
		if ! $compiler -x "$language" "$@" $warnings -I. -fsyntax-only "$dir/alone"
		then
			fail "$header does not compile alone: $compiler $*"
		fi
	done
}

# Whether a compiler is here, with what it needs for that language.
has() {
	echo 'int i;' >"$dir/probe"
	# shellcheck disable=SC2086
	command -v ${1%% *} >/dev/null &&
		$1 -x "$2" -fsyntax-only "$dir/probe" >/dev/null 2>&1
}

compilers=
for compiler in "${CC:-cc}" gcc clang; do
	case $compilers in *"|$compiler|"*) continue ;; esac
	if ! has "$compiler" c; then
		continue
	fi
	compilers="$compilers|$compiler|"
	# In C++ a struct and a function of one name, as stat(2), are a case of -Wshadow.
	compile "$compiler" c -std=c11 -Wshadow -Wmissing-prototypes
	compile "$compiler" c -std=gnu17 -Wshadow -Wmissing-prototypes
	if has "$compiler" c++; then
		compile "$compiler" c++ -std=c++11
		compile "$compiler" c++ -std=c++20
	else
		note "$compiler has no C++"
	fi
done
[ "$count" -gt 0 ] || fail "there is no compiler"
conclude "$count compilations, by $(echo "$compilers" | tr -s '|' ' ')"
