#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The layers. The list below has every file of the library and the files of the project that
# it may include. Besides:
#
#  - of libc the dispatcher uses a few headers, memcpy() and errno;
#  - the only writable globals are one thread-local pointer, and what a process has once:
#    its descriptors, its pool of native threads, the keys of its native threads, and the
#    earlier handlers of its signals, the list of its schedulers;
#  - no C file depends on the machine, except uhere.h and uswitch.h, of which one
#    statement each is inlined, direction.h, which way stacks grow, and code.h, what a
#    pointer to a function points to. All else is in arch/.
#
#   CC    the compiler, with options if it needs some
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/test.lib

layers='
uhere.h:
uswitch.h:      usched.h
usched.h:       uhere.h uswitch.h
usched.c:       ustack.h arch/arch.h arch/offsets.h private/direction.h watch/watch.h
arch/arch.h:
arch/macros.h:
arch/offsets.h:
arch/setjmp.c:  arch.h ../private/direction.h ../usched.h ../watch/watch.h
watch/watch.h:  ../arch/arch.h ../usched.h asan.h tsan.h none.h
watch/asan.h:
watch/tsan.h:
watch/none.h:
uimage.h:
uimage.c:       uimage.h private/direction.h private/lock.h private/uimage_trim.inc
private/uimage_trim.inc:
private/lock.h:
private/poller.h:
private/uevents_epoll.inc:
private/uevents_poll.inc:
private/quota.h:
private/select.h:
private/budget.h: ../ustack.h
uconf.h:
ustack.h:       usched.h
uevents.h:      usched.h
uevents.c:      uevents.h private/cancel.h private/poller.h private/when.h private/uevents_epoll.inc private/uevents_poll.inc
uwait.h:        uevents.h ustack.h
uwait.c:        uwait.h private/budget.h private/cancel.h private/check.h private/when.h private/uwait_native.inc private/uwait_scope.inc
private/uwait_native.inc:
private/uwait_scope.inc:
usync.h:        uevents.h ustack.h uwait.h
usync.c:        usync.h private/check.h
uchan.c:        usync.h private/budget.h private/check.h private/select.h
uscope.c:       usync.h private/check.h
unet.h:         usync.h
unet.c:         unet.h private/budget.h private/cancel.h private/check.h private/poller.h private/select.h private/unet_addr.inc private/unet_open.inc private/unet_poll.inc private/unet_transfer.inc
private/unet_addr.inc:
private/unet_open.inc:
private/unet_poll.inc:
private/unet_transfer.inc:
ubuf.h:
ubuf.c:         ubuf.h unet.h ustack.h private/budget.h private/check.h
uoffload.h:     usync.h
uoffload.c:     uoffload.h unet.h private/budget.h private/cancel.h private/check.h private/native.h
uco.h:          uwait.h
uco.c:          uco.h arch/arch.h private/check.h private/uco_held.inc
private/uco_held.inc:
uoverflow.h:
upreempt.h:     usched.h
uinspect.h:
uinspect.c:     uinspect.h private/cancel.h private/code.h private/direction.h private/native.h private/when.h private/where.h uframes.h upreempt.h uproc.h usync.h utrace.h private/uinspect_unwind.inc private/uinspect_stall.inc private/uinspect_show.inc private/uinspect_metrics.inc
private/uinspect_show.inc:
private/uinspect_metrics.inc:
private/uinspect_stall.inc:
upreempt.c:     upreempt.h arch/arch.h private/budget.h private/code.h private/lock.h private/native.h private/when.h private/upreempt_stall.inc uinspect.h ustack.h
private/upreempt_stall.inc:
uoverflow.c:    uoverflow.h arch/arch.h private/code.h private/direction.h upreempt.h ustack.h
uproc.h:        usched.h uconf.h uevents.h ustack.h uimage.h
utrace.h:       usched.h
utrace.c:       utrace.h arch/arch.h private/cancel.h private/probe.h uproc.h uwait.h private/utrace_json.inc
private/utrace_json.inc:
private/probe.h:
uproc.c:        uproc.h private/cancel.h private/check.h private/code.h private/lock.h private/native.h private/policy.h private/quota.h uoverflow.h upreempt.h utrace.h private/where.h private/direction.h private/uproc_alone.inc private/uproc_trim.inc private/uproc_names.inc private/uproc_layout.inc private/uproc_report.inc private/uproc_move.inc private/uproc_native.inc private/uproc_single.inc private/when.h
private/uproc_alone.inc:
private/uproc_trim.inc:
private/uproc_names.inc:
private/uproc_layout.inc:       ../utrace.h ../uwait.h
private/uproc_report.inc:
private/uproc_move.inc:
private/uproc_native.inc:
private/uproc_single.inc:
private/policy.h:
private/cancel.h:
private/code.h:
private/direction.h:
private/native.h:
private/when.h:
private/uinspect_unwind.inc:
private/where.h:        ../arch/arch.h ../usched.h direction.h
private/check.h:        ../arch/arch.h ../uframes.h ../usched.h direction.h
uframes.h:      usched.h
uframes.c:      uframes.h private/check.h private/direction.h private/where.h
rr.h:           usched.h uconf.h ustack.h
rr.c:           rr.h uproc.h
ll.h:           usched.h uconf.h ustack.h
ll.c:           ll.h uproc.h
bench/bench.h:
bench/cycle.h:  bench.h
bench/thread.h: bench.h ../usched.h ../rr.h ../ll.h
bench/ring.c:   thread.h
bench/counters.c:       thread.h
bench/pingpong.c:       thread.h
bench/create.c: thread.h
bench/alternate.c:      thread.h
bench/memory.c: thread.h
bench/coroutine.c:      bench.h ../rr.h ../uco.h
bench/slow.c:   bench.h ../rr.h ../usync.h
bench/simulate.c:       bench.h ../private/policy.h
bench/chain.h:  bench.h ../ustack.h
bench/uneven.c: chain.h ../rr.h ../usync.h
bench/requests.c:       chain.h ../rr.h ../unet.h
bench/requests-load.c:  chain.h
bench/late.c:   bench.h ../rr.h ../usync.h
bench/contend.c:        bench.h ../ll.h ../usync.h
bench/channel.c:        bench.h ../ll.h ../usync.h
bench/after.c:  bench.h ../rr.h ../usync.h
bench/slice.c:  bench.h ../rr.h
bench/waits.c:  bench.h ../rr.h ../unet.h ../usync.h
bench/outside.c:        bench.h ../rr.h
bench/echo-load.c:      bench.h
bench/inspect.c:        bench.h ../rr.h ../uinspect.h ../usync.h
bench/idle-load.c:      bench.h
bench/chat-load.c:      bench.h
tls/utls.h:
tls/utls_set.h: utls.h
tls/utls.c:     utls.h utls_set.h ../private/budget.h ../private/cancel.h ../ubuf.h ../unet.h
tls/utls_context.c:     utls_set.h ../private/cancel.h
tls/test_utls.c:        utls.h ../tests/net.h ../ubuf.h
posix/uposix.h: uposix_define.h
posix/uposix_define.h:
posix/test_uposix.h:    ../tests/test.h
posix/uposix_set.h:     uposix.h ../rr.h ../usync.h
posix/uposix.c: uposix_set.h
posix/uposix_attr.c:    uposix_set.h
posix/uposix_cancel.c:  uposix_set.h
posix/uposix_catch.c:   uposix_set.h
posix/uposix_conf.c:    uposix_set.h
posix/uposix_c11.c:     uposix_set.h
posix/uposix_fork.c:    uposix_set.h ../uinspect.h ../unet.h ../uoffload.h ../upreempt.h ../uproc.h
posix/uposix_futex.c:   uposix_set.h
posix/uposix_io.h:      uposix_set.h ../uoffload.h ../unet.h
posix/uposix_fd.c:      uposix_io.h
posix/uposix_io.c:      uposix_io.h
posix/uposix_call.c:    uposix_io.h uposix_names.inc
posix/uposix_net.c:     uposix_io.h
posix/uposix_open.c:    uposix_io.h
posix/uposix_queue.c:   uposix_io.h
posix/uposix_poll.c:    uposix_io.h
posix/uposix_proc.c:    uposix_io.h
posix/uposix_stdio.c:   uposix_io.h
posix/uposix_key.c:     uposix_set.h
posix/uposix_load.c:    uposix_set.h uposix_names.inc
posix/uposix_lock.c:    uposix_set.h
posix/uposix_shared.c:  uposix_set.h
posix/uposix_signal.c:  uposix_set.h
posix/uposix_stats.c:   uposix_set.h
posix/uposix_sync.c:    uposix_set.h
posix/uposix_time.c:    uposix_set.h
posix/uposix_exchange.c: uposix_set.h
posix/uposix_tls.c:     uposix_set.h
posix/test_uposix_fork.c:       test_uposix.h ../usync.h
posix/test_uposix_futex.c:      test_uposix.h
posix/test_uposix_io.c: ../tests/test.h
posix/test_uposix_threads.c:    test_uposix.h
debug/ulocks.c: ../ustack.h ../private/code.h
rmain.c:        rr.h bench/cycle.h
lmain.c:        ll.h bench/cycle.h'

# includes QUOTE FILE: what it includes between such quotes.
includes() {
	sed -n "s/^[[:space:]]*#[[:space:]]*include[[:space:]]*[$1]\([^\">]*\).*/\1/p" "$2"
}

for file in *.[ch] arch/* watch/* private/* debug/* bench/*.[ch] tls/*.[ch] posix/*.[ch]; do
	count=$((count + 1))
	if [ "${file%.S}" != "$file" ]; then
		allowed="file: macros.h offsets.h"
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

for file in uhere.h usched.h usched.c arch/arch.h arch/offsets.h; do
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
		memcpy | usched__switch | usched__handover | usched__exit | usched__resumed | usched__probe | usched__commit | usched__frame | usched__control | usched__set_control) ;;
		usched__valgrind | __errno_location | ___errno_location) ;;
		__cxa_get_globals | uwait_join | usched__leave | usched__grow | usched__settle | usched__begin | usched__blocks | __splitstack_getcontext) ;;    # weak
		# What compilers make of assignments, of the thread-local pointer, and
		# of functions with arrays, where that is their default.
		memset | _GLOBAL_OFFSET_TABLE_ | __stack_chk_*) ;;
		*) fail "the dispatcher needs $symbol ($options)" ;;
		esac
	done
done

# `outside' is only read. Of the marks of uproc.c only the addresses are used. The pointers
# of setjmp.c are volatile constants.
for file in usched.c uimage.c uproc.c rr.c ll.c uframes.c uevents.c uwait.c usync.c uchan.c uscope.c unet.c ubuf.c uoffload.c \
	uoverflow.c upreempt.c uinspect.c utrace.c uco.c arch/setjmp.c; do
	compile "$file" -O2
	for symbol in $(nm "$dir/object" | awk '$2 ~ /[BbCDdGgSs]/ { print $3 }'); do
		case $file:$symbol in
		usched.c:usched__current | usched.c:outside | uproc.c:marks | uproc.c:names | uproc.c:names_first | uproc.c:names_lock | uproc.c:schedulers | uproc.c:list_lock | arch/setjmp.c:call_*) ;;
		unet.c:table | unet.c:doubted | unet.c:shares | unet.c:adopting | uoffload.c:pool) ;;
		uevents.c:serials | uevents.c:pollers | uevents.c:pollers_lock) ;;
		uwait.c:key_lock | uwait.c:key | uwait.c:key_made) ;;
		uoverflow.c:made_key | uoverflow.c:key | uoverflow.c:key_rc) ;;
		uoverflow.c:mine | uoverflow.c:installed | uoverflow.c:previous) ;;
		upreempt.c:previous | upreempt.c:installing | uinspect.c:inspector | utrace.c:utrace__control) ;;
		*) fail "$file has a global that can be written to: $symbol" ;;
		esac
	done
done

machines='x86|X86|amd64|i[3-6]86|aarch64|arm|ARM|riscv|powerpc|PPC|s390|mips|loongarch|hppa|LP64'
grep -nE "^[[:space:]]*#[[:space:]]*(el)?if.*_($machines)" \
	./*.[ch] arch/*.[ch] watch/* private/* debug/* bench/*.h >"$dir/asked"
if grep -vE '^(\./u(here|switch)|private/(code|direction)|arch/offsets)\.h:' "$dir/asked"; then
	fail "these lines ask which machine it is"
fi

conclude "$count files keep to them"
