#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The layers. A file of the library includes, of the project's files, only those named
# behind it below, and every file is in the list. Besides:
#
#  - the dispatcher has its few headers, memcpy() and errno, and nothing else of libc;
#  - what can be written to is one thread-local pointer; and what a process has only one of:
#    its descriptors, its pool of native threads, the keys of its native threads, what
#    handled its faults before;
#  - no C file asks for which machine it is compiled, that is what arch/ is for; but for
#    here.h, of which one statement has to be inlined.
#
#   CC    the compiler, with options if it needs some
set -u
cd "$(dirname "$0")/.." || exit 1

layers='
here.h:
usched.h:       here.h
usched.c:       usched.h arch.h arch/offsets.h watch.h
arch.h:
arch/offsets.h:
arch/setjmp.c:  ../arch.h ../usched.h ../watch.h
watch.h:        arch.h usched.h watch_asan.h watch_tsan.h watch_none.h
watch_asan.h:
watch_tsan.h:
watch_none.h:
image.h:
image.c:        image.h lock.h
lock.h:
conf.h:
token.h:        usched.h
event.h:        usched.h
event.c:        event.h
wait.h:         event.h usched.h
wait.c:         wait.h
sync.h:         event.h usched.h wait.h
sync.c:         sync.h check.h
chan.c:         sync.h check.h
net.h:          sync.h
net.c:          net.h check.h
offload.h:      sync.h
offload.c:      offload.h net.h check.h
overflow.h:
overflow.c:     overflow.h usched.h
proc.h:         usched.h conf.h event.h token.h image.h
proc.c:         proc.h lock.h overflow.h where.h proc_report.h proc_native.h proc_single.h
proc_report.h:
proc_native.h:
proc_single.h:
where.h:        arch.h usched.h
check.h:        arch.h frames.h usched.h
frames.h:       usched.h
frames.c:       frames.h check.h where.h
rr.h:           usched.h conf.h token.h
rr.c:           rr.h proc.h
ll.h:           usched.h conf.h token.h
ll.c:           ll.h proc.h
bench/bench.h:
bench/cycle.h:  bench.h
bench/thread.h: bench.h ../usched.h ../rr.h ../ll.h
bench/ring.c:   thread.h
bench/counters.c:       thread.h
bench/pingpong.c:       thread.h
bench/create.c: thread.h
bench/alternate.c:      thread.h
bench/memory.c: thread.h
bench/slow.c:   bench.h ../rr.h ../sync.h
bench/echo-load.c:      bench.h
bench/idle-load.c:      bench.h
rmain.c:        rr.h bench/cycle.h
lmain.c:        ll.h bench/cycle.h'

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
failed=0
count=0

fail() {
	echo "layers: $*" >&2
	failed=$((failed + 1))
}

# includes QUOTE FILE: what it includes between such quotes.
includes() {
	sed -n "s/^[[:space:]]*#[[:space:]]*include[[:space:]]*[$1]\([^\">]*\).*/\1/p" "$2"
}

for file in *.[ch] arch/* bench/*.[ch]; do
	count=$((count + 1))
	if [ "${file%.S}" != "$file" ]; then
		allowed=offsets.h
	elif ! allowed=$(echo "$layers" | grep "^$file:"); then
		fail "$file is in no layer"
		continue
	fi
	for header in $(includes '"' "$file"); do
		case " $(echo "${allowed#*:}" | tr -s ' ') " in
		*" $header "*) ;;
		*) fail "$file includes $header" ;;
		esac
	done
done
for file in $(echo "$layers" | sed 's/:.*//'); do
	[ -f "$file" ] || fail "$file is in the list and not in the tree"
done

for file in here.h usched.h usched.c arch.h arch/offsets.h; do
	includes '<' $file
done >"$dir/standard"
while read -r header; do
	case $header in
	assert.h | errno.h | stdbool.h | stddef.h | stdint.h | string.h) ;;
	*) fail "the dispatcher includes <$header>" ;;
	esac
done <"$dir/standard"

# compile FILE OPTION...: to $dir/object.
compile() {
	file=$1
	shift
	# shellcheck disable=SC2086
	${CC:-cc} -std=c11 -D_DEFAULT_SOURCE -fno-pie "$@" -c "$file" -o "$dir/object" ||
		fail "$file does not compile"
}

for options in -O0 -O2; do
	compile usched.c $options
	for symbol in $(nm -u "$dir/object" | awk '{ print $2 }'); do
		case $symbol in
		memcpy | usched__switch | usched__hop | usched__exit | usched__probe | usched__frame) ;;
		usched__valgrind | __errno_location | ___errno_location) ;;
		__cxa_get_globals) ;;   # weak
		# What compilers make of assignments, of the thread-local pointer, and
		# of functions with arrays, where that is their default.
		memset | _GLOBAL_OFFSET_TABLE_ | __stack_chk_*) ;;
		*) fail "the dispatcher needs $symbol ($options)" ;;
		esac
	done
done

# The dispatcher of nobody is only read; the marks of proc.c are addresses, nothing is
# ever at them; the pointers of setjmp.c are volatile constants.
for file in usched.c image.c proc.c rr.c ll.c frames.c event.c wait.c sync.c chan.c net.c offload.c \
	overflow.c arch/setjmp.c; do
	compile "$file" -O2
	for symbol in $(nm "$dir/object" | awk '$2 ~ /[BbCDdGgSs]/ { print $3 }'); do
		case $file:$symbol in
		usched.c:usched__current | usched.c:nobody | proc.c:marks | arch/setjmp.c:call_*) ;;
		net.c:table | offload.c:pool | event.c:serials) ;;
		wait.c:key_lock | wait.c:key | wait.c:key_made) ;;
		overflow.c:made_key | overflow.c:key | overflow.c:key_rc) ;;
		overflow.c:mine | overflow.c:installed | overflow.c:previous) ;;
		*) fail "$file has a global that can be written to: $symbol" ;;
		esac
	done
done

machines='x86|X86|amd64|i[3-6]86|aarch64|arm|ARM|riscv|powerpc|PPC|s390|mips|loongarch|LP64'
grep -nE "^[[:space:]]*#[[:space:]]*(el)?if.*_($machines)" \
	./*.[ch] arch/*.[ch] bench/*.h >"$dir/asked"
if grep -v '^\./here\.h:' "$dir/asked"; then
	fail "these lines ask which machine it is"
fi

if [ "$failed" -gt 0 ]; then
	exit 1
fi
echo "layers: $count files keep to them"
