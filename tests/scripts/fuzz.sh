#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Fuzzing, guided by coverage: the targets in fuzz/, each first over its inputs in
# fuzz/corpus/, and then for some seconds over what libFuzzer makes of them. All is built
# with the invariants checked and with the sanitizers.
#
#   api        sequences of calls over rr and ll, beside a model of what must hold
#   stress      the same with USCHED_STRESS; with LONG=1 only
#   dispatch   random programs over the dispatcher alone
#   httpd, kv, proxy  what the example servers get from clients: work is bounded
#   socks      what a proxy over ubuf.h gets: SOCKS, and CONNECT of HTTP; likewise
#   tls        records of TLS to a session of utls.h, also after the handshake
#   addr       unet_addr()
#
#   CLANG      a clang that has libFuzzer; default clang
#   LONG       1: FUZZ_SECONDS for each, 120 if unset
#   TARGETS    these only
#   SWITCH, MAKE   as for make
#
# A run depends on its input alone: with the file that it failed on, whose content is
# printed as Base64, the same target fails again (not always `stress', which chooses at
# random across runs). Such a file goes to fuzz/corpus/.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

CLANG=${CLANG:-clang}
root=$PWD
runs=0
tested=

links() {		# OPTION...
	printf '%s\n' 'int LLVMFuzzerTestOneInput(void);' \
		'int LLVMFuzzerTestOneInput(void) { return 0; }' |
		"$CLANG" -x c - -o "$dir/program" "$@" >/dev/null 2>&1
}

has() {			# HEADER
	echo "#include <$1>" | "$CLANG" -E -x c - >/dev/null 2>&1
}

links -fsanitize=fuzzer || skip "there is no clang with libFuzzer as '$CLANG'"
sanitizers=undefined
[ ! -f src/watch/watch.h ] || sanitizers=address,undefined
# To look for leaks is to trace, which may not be allowed.
if links "-fsanitize=fuzzer,$sanitizers" &&
	! (cd "$dir" && ./program -runs=1) >/dev/null 2>&1
then
	export ASAN_OPTIONS=detect_leaks=0
fi
optimize=-O0                            # soon built
[ "${LONG-}" != 1 ] || optimize=-O1     # faster
options="$optimize -g -fsanitize=$sanitizers -fno-sanitize-recover=all -DUSCHED_CHECK"
guided="$options -fsanitize=fuzzer-no-link"
replaced='-Dclock_gettime=fuzz_clock_gettime -Dsyscall=fuzz_syscall -D_exit=fuzz_exit'
counted='-fsanitize-coverage=trace-pc-guard -fno-builtin'
work=$dir/work.o
guard=__sanitizer_cov_trace_pc_guard
for name in $guard ${guard}_init ustack_yield $(sed -n \
	's/^REPLACE(.*, \([a-z]*\), (.*/\1/p' tests/fuzz/work.c)
do
	work="$work -Wl,--wrap=$name"
done
hiredis=-lhiredis
! links -l:libhiredis.a || hiredis=-l:libhiredis.a      # what it calls is counted
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes -Werror'

# library NAME OPTIONS
library() {
	$MAKE -s --no-print-directory -j2 "B=$dir/lib.$1" "CC=$CLANG" "CFLAGS=$2" \
		"CPPFLAGS=$replaced" LDFLAGS= ${SWITCH:+"SWITCH=$SWITCH"} \
		"$dir/lib.$1/libusched.a"
}

# compile OPTIONS FILE
compile() {
	# shellcheck disable=SC2086
	"$CLANG" -std=c11 -D_DEFAULT_SOURCE -I. $warnings $1 \
		-c -o "$dir/$(basename "$2" .c).o" "$2"
}

# What is fuzzed of a server is the example: so the library is not watched there.
build() {		# TARGET
	source=$1 with=$dir/fuzz.o library=api libs= more=
	case $1 in
	stress)	source=api library=stress ;;
	dispatch)
		with="$with $dir/test.o" libs=-lcmocka
		compile "$options $replaced" tests/help/test.c || return ;;
	httpd)	library=servers libs=-lhttp_parser more=$counted with="$with $work" ;;
	kv)	library=servers libs="$hiredis -lsodium" more=$counted with="$with $work" ;;
	proxy)	library=servers more=$counted with="$with $work" ;;
	socks)
		library=servers more=$counted with="$with $dir/ubuf.o $work"
		compile "$guided $counted $replaced" src/net/ubuf.c || return ;;
	tls)
		library=servers libs='-lssl -lcrypto'
		with="$with $dir/utls.o $dir/utls_context.o"
		compile "$guided $replaced" tls/utls.c &&
			compile "$guided $replaced" tls/utls_context.c || return ;;
	esac
	if [ "$source" = api ]; then
		with="$with $dir/model.o"
		compile "$guided $replaced" tests/fuzz/model.c || return
	fi
	compile "$guided $more $replaced -Dtime=fuzz_time" "tests/fuzz/$source.c" || return
	# shellcheck disable=SC2086
	"$CLANG" $options -fsanitize=fuzzer -o "$dir/$1" "$dir/$source.o" $with \
		"$dir/lib.$library/libusched.a" $libs -pthread -lm
}

# fuzz TARGET BYTES SECONDS: inputs of at most so many bytes, for so long.
fuzz() {
	case " ${TARGETS-$1} " in *" $1 "*) ;; *) return ;; esac
	if ! build "$1"; then
		fail "$1 does not build"
		return
	fi
	seconds=$3
	[ "${LONG-}" != 1 ] || seconds=${FUZZ_SECONDS-120}
	dictionary=$root/tests/fuzz/$1.dict
	[ -f "$dictionary" ] || dictionary=
	mkdir -p "$dir/new/$1"
	if (cd "$dir/www" && "$dir/$1" -seed=1 "-max_total_time=$seconds" "-max_len=$2" \
		-timeout=1000 "-artifact_prefix=$dir/found-" ${dictionary:+"-dict=$dictionary"} \
		-print_final_stats=1 "$dir/new/$1" "$root/tests/fuzz/corpus/$source") \
		>"$dir/log" 2>&1
	then
		more=$(sed -n 's/^stat::number_of_executed_units: //p' "$dir/log")
		runs=$((runs + more))
		tested="$tested $1"
	else
		fail "$1: $(grep -vE '^#[0-9]+|NEW_FUNC' "$dir/log")
$(cat "$dir"/found-* 2>/dev/null | base64)"
	fi
}

library api "$guided" && library servers "$options" &&
	compile "$options" tests/fuzz/fuzz.c &&
	compile "$optimize -g" tests/fuzz/work.c || exit 1
mkdir "$dir/www" "$dir/www/sub"
echo '<p>hello' >"$dir/www/index.html"
echo 'p {}' >"$dir/www/a.css"
echo 'f()' >"$dir/www/sub/b.js"
dd if=/dev/zero of="$dir/www/large" bs=70000 count=1 2>/dev/null

fuzz api 512 2
if [ "${LONG-}" = 1 ]; then
	export USCHED_SEED=1
	library stress "$guided -DUSCHED_CHECK" || exit 1
	USCHED_STRESS=1 fuzz stress 512 3
fi
fuzz dispatch 4096 1
! has http_parser.h || fuzz httpd 1024 1
! has hiredis/hiredis.h || ! has uthash.h || ! has sodium.h || fuzz kv 1024 1
fuzz proxy 1024 1
fuzz socks 1024 1
! has openssl/core.h || fuzz tls 512 2
fuzz addr 64 1

conclude "$runs runs of$tested, with -fsanitize=$sanitizers"
