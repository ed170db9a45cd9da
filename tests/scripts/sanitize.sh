#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Sanitizers and valgrind: that they still see what is wrong in a thread, and nothing that
# is right. The programs of tests/sanitize/ have a bug each; it must be reported, as what
# it is and in the line where it is, whether frames are moved or not; without the bug
# nothing is. And builds in which stacks cannot be copied are refused, and so are mixed
# ones.
#
#   LONG      1: with all compilers and sanitizers, over both switches; all programs of
#             tests/ in each of these builds; and without each of the hooks of src/watch/watch.h
#             in turn, which a test must notice. By default some of the first, on this
#             machine's switch
#   ROWS      the rows that this pattern of case fits, as 'clang memory *', and no more
#   B, MAKE   for LONG: the builds are in $B/sanitize; default build, make
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

rows=
src=.
LONG=${LONG-}
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
symbolizer=llvm-symbolizer
modules=$(of_make core)
machine=$(uname -m)
[ -f "arch/$machine.S" ] || machine=setjmp

# What each kind of build is for, and its options. -O1: frames are as in the source.
tools_of() {
	case $1 in
	address)        echo address returns leak ;;
	address,undefined) echo address returns leak undefined ;;
	*)              echo "$1" ;;
	esac
}

options_of() {
	case $1 in
	memcheck)       echo -O1 -g -gdwarf-4 ;;        # for valgrind 3.19
	*)              echo -O1 -g "-fsanitize=$1" -fno-sanitize-recover=all \
				-fno-omit-frame-pointer ;;
	esac
}

compile() {
	# shellcheck disable=SC2086
	$cc $options -std=c11 -D_DEFAULT_SOURCE -pthread -I"$src" "$@"
}

# What runs a program of this row; $dir/log is what it says.
watch() {
	case $kind in
	memcheck) # glibc's for a native thread that runs at the end is "possibly lost"
		set -- valgrind -q --error-exitcode=99 --fair-sched=yes --leak-check=full \
			--show-leak-kinds=definite --errors-for-leak-kinds=definite "$@" ;;
	thread)	set -- setarch -R "$@" ;;       # clang's of 14 knows few places for a heap
	leak)	set -- env LSAN_OPTIONS=fast_unwind_on_malloc=0 "$@" ;;
	esac
	timeout -k 5 "${seconds:-600}" "$@" >"$dir/log" 2>&1
}

# Use after return is looked for, or not. Tests have alternate signal stacks of their own.
look_for_returns() {
	returns=$1
	export ASAN_OPTIONS="detect_stack_use_after_return=$1:use_sigaltstack=0"
}

# has_row: do the compiler and the tool work here, with what they need?
has_row() {
	command -v "$cc" >/dev/null || { note "no $cc here"; return 1; }
	if [ "$kind" = memcheck ]; then
		command -v valgrind >/dev/null || { note "no valgrind here"; return 1; }
	elif [ "$cc" = clang ] && ! command -v "$symbolizer" >/dev/null; then
		note "no llvm-symbolizer here: clang cannot tell lines"
		return 1
	fi
	printf '#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n' \
		>"$dir/probe.c"
	if ! compile "$dir/probe.c" -o "$dir/probe" 2>"$dir/log" || ! watch "$dir/probe"; then
		note "$row does not work here: $(tail -n 1 "$dir/log")"
		return 1
	fi
}

build_library() {
	mkdir -p "$dir/lib"
	rm -f "$dir"/lib/*
	for module in $modules; do
		compile -c "$src/$module.c" -o "$dir/lib/$(basename "$module").o" || return 1
	done
	compile -c "$(ls "$src/arch/$switch".[Sc] 2>/dev/null)" -o "$dir/lib/switch.o"
}

# said TOOL: what it must report of this program; nothing if it is not for that tool.
said() {
	sed -n "s/^ \* $1: //p" "$source"
}

# The first line of the log, from the report on, that names a place in the program.
place() {
	sed -n "/$1/,\$p" "$dir/log" | grep -m 1 "$(basename "$source"):[0-9]"
}

# check_report TOOL: what the log says is what the head of the program says.
check_report() {
	text=$(said "$1")
	kind_of_bug=${text% in *}
	line=$(sed -n '\|/\* HERE \*/|=' "$source")
	found=$(place "$kind_of_bug")
	case $text in
	*' in '*) case $found in *" ${text##* in } "*) ;; *) line=another ;; esac ;;
	esac
	# Who is only in the same place, or blocked meanwhile, has called nobody.
	grep -q bystand "$dir/log" && line=mixed
	case "$found " in
	*"$(basename "$source"):$line"[!0-9]*) ;;
	*)	fail "$name: not reported: $text, line $line: '$found'"
		sed 's/^/	/; 30q' "$dir/log" >&2 ;;
	esac
}

# Over which stacks. Portable C has but one; and the short form has no time for all.
ways() {
	if [ "$switch" = setjmp ]; then
		echo native
	else
		case "${LONG:-short} $kind $returns" in
		'short mem'*|short*0) echo one ;;
		*)                    echo one native many ;;
		esac
	fi
}

# run TOOL right|wrong
run() {
	for way in $(ways); do
		name="$row: $(basename "$source") $way $2"
		count=$((count + 1))
		watch "$dir/program" "$way" "$2"
		status=$?
		if [ "$2" = wrong ]; then
			[ $status -ne 0 ] || fail "$name: exit status 0"
			check_report "$1"
		elif [ $status -ne 0 ] || [ -s "$dir/log" ]; then
			fail "$name: status $status, and it says"
			sed 's/^/	/; 30q' "$dir/log" >&2
		fi
	done
}

check_program() {
	# shellcheck disable=SC2086
	if ! compile $warnings "$source" "$dir"/lib/*.o -lm -o "$dir/program"; then
		fail "$row: $source does not compile"
		return
	fi
	look_for_returns 1
	for tool in $(tools_of "$kind"); do
		[ -z "$(said "$tool")" ] || run "$tool" wrong
	done
	run any right
	case $kind in
	address*)
		look_for_returns 0
		[ -z "$(said address)" ] || run address wrong
		run any right
		;;
	esac
}

# check_row COMPILER KIND SWITCH: fails if there is no such row here.
check_row() {
	cc=$1 kind=$2 switch=$3
	row="$1 $2 $3"
	options=$(options_of "$kind")
	# It is meant to be a pattern.
	# shellcheck disable=SC2254
	case $row in ${ROWS-*}) ;; *) return 1 ;; esac
	look_for_returns 1
	has_row || return 1
	rows="$rows, $row"
	if ! build_library; then
		fail "$row: the library does not compile"
		return 1
	fi
	for source in tests/sanitize/*.c; do
		case $kind in
		leak)     [ -n "$(said leak)" ] || continue ;;
		memcheck) [ -n "$LONG$(said memcheck)" ] || continue ;;
		esac
		check_program
	done
	return 0
}

# run_tests: all programs of tests/ built for the row that was checked last.
run_tests() {
	built=$B/sanitize/$(echo "$row" | tr ' ' _)
	cppflags='' ldflags='' seconds=1800
	[ "$kind" != address ] || look_for_returns 1
	if [ "$kind" = memory ]; then
		# shellcheck disable=SC2086
		if ! cmocka=$(tests/sanitize/cmocka.sh "$B/sanitize/cmocka" $cc $options \
			2>"$dir/log"); then
			note "no tests for $row: $(tail -n 1 "$dir/log")"
			return
		fi
		cppflags=-I$cmocka/include ldflags=-L$cmocka/lib
	fi
	if ! $MAKE -s --no-print-directory "B=$built" "CC=$cc" "CFLAGS=$options" \
		"CPPFLAGS=$cppflags" "LDFLAGS=$ldflags" "SWITCH=$switch" tests >"$dir/log" 2>&1
	then
		fail "$row: make tests: $(tail -n 3 "$dir/log")"
		return
	fi
	for test in tests/*/test_*.c; do
		test=$(basename "$test" .c)
		count=$((count + 1))
		began=$(date +%s)
		USCHED_TEST_SCALE=100 watch "$built/tests/$test" || {
			fail "$row: $test: status $?"
			grep -v -e '^\[ RUN' -e '^\[  *OK' "$dir/log" | sed 's/^/	/; 60q' >&2
		}
		note "$row: $test: $(($(date +%s) - began)) s"
	done
	seconds=
}

# refuse COMPILER FEATURE MESSAGE OPTION...: does not compile, and says why; with
# compilers that tell a program that they were given the option.
refuse() {
	refuser=$1 message=$3
	printf '%s\n' "#if !($2)" '#error "does not tell"' '#endif' >"$dir/probe.c"
	shift 3
	if ! $refuser "$@" -fsyntax-only "$dir/probe.c" 2>"$dir/log"; then
		note "not tested: $refuser $*"
	elif $refuser "$@" -std=c11 -D_DEFAULT_SOURCE -fsyntax-only usched.c 2>"$dir/log"; then
		fail "$refuser $*: not refused"
	elif ! grep -q "error.*$message" "$dir/log"; then
		fail "$refuser $*: refused with other words: $(head -n 3 "$dir/log")"
	else
		count=$((count + 1))
	fi
}

# Of the C library of another machine there may be no headers. Nothing is made of these
# here, so empty ones do; the others are the compiler's own.
refuse_all() {
	refuse clang '__has_feature(safe_stack)' 'second stack' -fsanitize=safe-stack
	mkdir "$dir/empty"
	for header in assert errno string; do
		: >"$dir/empty/$header.h"
	done
	empty="-ffreestanding -isystem $dir/empty"
	arm="--target=aarch64-linux-gnu $empty"
	# shellcheck disable=SC2086
	{
		refuse clang '__has_feature(shadow_call_stack)' 'second stack' $arm \
			-fsanitize=shadow-call-stack -ffixed-x18
		refuse clang '__has_feature(hwaddress_sanitizer)' 'tags' $arm \
			-fsanitize=hwaddress
		refuse clang '__has_feature(memtag_stack)' 'tags' $arm \
			-march=armv8.5-a+memtag -fsanitize=memtag
		refuse aarch64-linux-gnu-gcc __SANITIZE_HWADDRESS__ 'tags' $empty \
			-fsanitize=hwaddress
	}
}

# refuse_mixed COMPILER KIND: a program with it does not link with a library without.
refuse_mixed() {
	cc=$1 kind=$2
	options=$(options_of "$2")
	says=needs_a_library_built_with_fsanitize_$kind
	command -v "$cc" >/dev/null || return
	for call in usched_init rr_create ll_create; do
		printf '#include "%s.h"\nvoid *volatile call = (void *)%s;\n%s\n' \
			"${call%_*}" $call 'int main(void) { return !call; }' >"$dir/mixed.c"
		count=$((count + 1))
		if ! compile -c "$dir/mixed.c" -o "$dir/mixed.o" 2>"$dir/log"; then
			note "not tested: $cc -fsanitize=$kind"
		elif compile "$dir/mixed.o" "$dir"/lib/*.o -lm -o "$dir/mixed" 2>"$dir/log" ||
			! grep -q "undefined reference to .${call}_$says" "$dir/log"
		then
			fail "$cc -fsanitize=$kind: $call links without: $(cat "$dir/log")"
		fi
	done
}

# With a library that is built without any.
refuse_all_mixed() {
	cc=${CC:-cc} kind=none switch=$machine options=-O1
	build_library
	for each in gcc clang; do
		refuse_mixed $each address
		refuse_mixed $each thread
	done
	refuse_mixed clang memory
}

# What usched_init() says where usched__probe() finds a shadow stack.
refuse_shadow_stack() {
	cat >"$dir/shadow.c" <<-'END'
		#include <errno.h>
		#include "rr.h"
		int __wrap_usched__probe(void);
		int __wrap_usched__probe(void)
		{
			return -ENOTSUP;
		}
		int main(void)
		{
			struct uprocs *rr;
			struct usched s;
			struct usched_calls calls = { 0 };
			return usched_init(&s, &calls) != -ENOTSUP || rr_create(NULL, &rr) != -ENOTSUP;
		}
	END
	cc=${CC:-cc} kind=none switch=$machine options=-O1
	count=$((count + 1))
	build_library
	compile "$dir/shadow.c" "$dir"/lib/*.o -lm -Wl,--wrap=usched__probe \
		-o "$dir/shadow" || fail 'the shadow stack does not link'
	"$dir/shadow" || fail 'a shadow stack is not refused with -ENOTSUP'
}

# hooks_of FILE: the functions in there that do something and return nothing; except for what
# ends a stack's name, without which valgrind only searches longer.
hooks_of() {
	awk '/^(UNWATCHED )?static inline void watch_[a-z]/ {
			sub(/\(.*/, "", $0); name = $NF; next }
		/^}/ { name = "" }
		name == "watch_stack_end" { name = "" }
		name && !/^{|\(void\)|^$/ { print name; name = "" }' "$1"
}

# notices HOOK ROW...: does a program of the row fail without that hook?
notices() {
	hook=$1
	shift
	failed=0 src=$dir/src
	check_row "$@" >"$dir/ablation" 2>&1
	src=.
	if grep -q -e 'does not' -e 'status 124' "$dir/ablation"; then      # or too slow
		fail "$*: without $hook: $(cat "$dir/ablation")"
		return 2
	fi
	[ "$failed" -gt 0 ]
}

# ablate FILE ROWS: each hook in that file is an empty function in turn, which the programs
# of one of the rows notice.
ablate() {
	file=$1
	for hook in $(hooks_of "$file"); do
		rm -rf "$dir/src"
		mkdir "$dir/src"
		cp -r ./*.[ch] arch src debug "$dir/src"
		sed -i "/ $hook(/,/^{/ s/^{/{ return;/" "$dir/src/$file"
		before=$failed noticed=''
		for ablated in $2; do
			# shellcheck disable=SC2046
			notices "$hook" $(echo "$ablated" | tr : ' ') && noticed=$ablated && break
		done
		failed=$before
		if [ -z "$noticed" ]; then
			fail "$2: nobody misses $hook of $file"
		else
			note "without $hook: $(head -n 1 "$dir/ablation")"
		fi
	done
}

ablate_all() {
	ablate src/watch/watch.h "gcc:address:$machine gcc:memcheck:$machine"
	ablate src/watch/asan.h "gcc:address:$machine gcc:address:setjmp"
	ablate src/watch/tsan.h "clang:thread:$machine clang:thread:setjmp"
}

check_short() {
	check_row gcc address,undefined "$machine"
	check_row clang thread "$machine"
	check_row clang memory "$machine"
	check_row gcc leak "$machine"
	check_row gcc memcheck "$machine"
}

check_long() {
	for compiler in gcc clang; do
		for kinds in address address,undefined undefined leak thread memory memcheck; do
			for switches in $machine setjmp; do
				case $compiler$kinds in gccmemory) continue ;; esac
				check_row $compiler $kinds "$switches" || continue
				case $kinds in leak|memcheck) ;; *) run_tests ;; esac
			done
		done
	done
}

if [ -z "$LONG" ]; then
	check_short
else
	check_long
	[ -n "${ROWS-}" ] || ablate_all
fi
refuse_all
refuse_all_mixed
refuse_shadow_stack
if [ "$failed" -gt 0 ]; then
	exit 1
fi
[ -n "$rows" ] || skip "no sanitizer and no valgrind here"
note "$count runs of $(find tests/sanitize -name '*.c' | wc -l) programs${rows}"
