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
#  - no C file depends on the machine, except arch/uhere.h and arch/uswitch.h, of which one
#    statement each is inlined, direction.h, which way stacks grow, and code.h, what a
#    pointer to a function points to. All else is in arch/.
#
#   CC    the compiler, with options if it needs some
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/test.lib

layers='
arch/uhere.h:
arch/uswitch.h: usched.h
usched.h: arch/uhere.h arch/uswitch.h
src/core/observer.h: usched.h
src/base/outside.h:
src/core/stress.h: src/base/outside.h
src/core/dispatch.h: ustack.h arch/arch.h src/core/direction.h src/core/observer.h src/watch/watch.h
usched.c: src/core/dispatch.h src/core/stress.h arch/offsets.h
src/core/usched_stack.c: src/core/dispatch.h
src/core/usched_hook.c: src/core/dispatch.h
arch/arch.h:
arch/macros.h:
arch/offsets.h:
arch/setjmp.c: arch/arch.h src/core/direction.h usched.h src/watch/watch.h
src/watch/watch.h: src/watch/asan.h src/watch/tsan.h src/watch/none.h arch/arch.h usched.h
src/watch/asan.h:
src/watch/tsan.h:
src/watch/none.h:
uimage.h:
src/mem/uimage.c: uimage.h src/core/direction.h src/mem/image.h src/base/lock.h
src/mem/uimage_trim.c: src/mem/image.h src/base/lock.h
src/mem/image.h: uimage.h
src/base/lock.h:
src/events/poller.h:
src/proc/quota.h:
src/net/select.h: uwait.h
src/wait/budget.h: ustack.h
uprocs.h: usched.h
ustack.h: usched.h
src/wait/ustack.c: uwait.h src/wait/budget.h src/core/dispatch.h src/base/sim.h
uevents.h: usched.h
src/events/uevents.c: uevents.h src/base/cancel.h src/events/poller.h src/base/sim.h src/base/when.h
src/events/uevents_epoll.c: uevents.h src/base/cancel.h src/events/poller.h src/base/sim.h src/base/when.h
src/events/uevents_kqueue.c: uevents.h src/base/cancel.h src/events/poller.h src/base/when.h
src/events/uevents_poll.c: uevents.h src/base/cancel.h src/events/poller.h
uwait.h: uevents.h ustack.h
src/wait/wait.h: uwait.h src/base/sim.h
src/wait/uwait.c: src/wait/budget.h src/base/check.h src/wait/wait.h
src/wait/uwait_native.c: src/base/cancel.h src/wait/wait.h src/base/when.h
src/wait/uwait_scope.c: src/wait/wait.h
usync.h: uevents.h ustack.h uwait.h
src/sync/usync.c: usync.h src/wait/budget.h src/base/check.h
src/sync/chan.h: usync.h src/wait/budget.h src/net/select.h
src/sync/usync_chan.c: src/sync/chan.h src/base/check.h
src/net/usync_select.c: src/sync/chan.h src/base/check.h src/base/sim.h
src/sync/usync_scope.c: usync.h uprocs.h src/wait/budget.h src/base/check.h
unet.h: usync.h
src/net/net.h: unet.h src/wait/budget.h src/base/cancel.h src/events/poller.h src/net/select.h
src/net/unet.c: src/base/cancel.h src/net/net.h
src/net/unet_addr.c: unet.h src/base/check.h
src/net/unet_open.c: src/base/cancel.h src/base/check.h src/net/net.h
src/net/unet_poll.c: src/base/cancel.h src/base/check.h src/net/net.h
src/net/unet_transfer.c: src/base/check.h src/net/net.h
src/net/unet_wait.c: src/base/cancel.h src/net/net.h
ubuf.h:
src/net/ubuf.c: ubuf.h unet.h ustack.h src/wait/budget.h src/base/check.h
uoffload.h: usync.h
src/net/uoffload.c: uoffload.h unet.h src/wait/budget.h src/base/cancel.h src/base/check.h src/base/code.h src/base/native.h src/base/sim.h src/base/when.h
uco.h: uwait.h
src/co/uco_frames.h: usched.h
src/co/uco.c: uco.h src/base/check.h src/core/dispatch.h src/co/uco_frames.h
src/co/uco_frames.c: src/core/dispatch.h src/co/uco_frames.h
debug/uoverflow.h:
upreempt.h: usched.h
debug/uinspect.h:
debug/uinspect.c: debug/uinspect.h src/base/cancel.h src/core/direction.h src/base/lock.h src/base/native.h src/base/when.h src/base/where.h debug/dump.h debug/snap.h debug/uframes.h uproc.h usync.h debug/utrace.h
debug/uinspect_metrics.c: debug/uinspect.h src/base/cancel.h src/base/text.h uevents.h upreempt.h debug/dump.h debug/utrace.h
debug/uinspect_show.c: debug/uinspect.h src/base/code.h src/base/text.h debug/dump.h
debug/uinspect_snap.c: debug/snap.h arch/arch.h
debug/uinspect_unwind.c: debug/snap.h arch/arch.h
debug/dump.h: debug/snap.h uproc.h
debug/snap.h: uproc.h
debug/ustall.h:
debug/ustall.c: debug/ustall.h src/base/code.h src/base/lock.h src/base/native.h src/proc/stall.h src/base/text.h src/base/when.h uproc.h debug/snap.h
src/proc/stall.h: upreempt.h
src/proc/upreempt.c: upreempt.h arch/arch.h src/wait/budget.h src/base/lock.h src/base/native.h src/proc/stall.h src/base/when.h ustack.h src/core/observer.h
debug/uoverflow.c: debug/uoverflow.h arch/arch.h src/base/code.h src/core/direction.h upreempt.h uproc.h
uproc.h: usched.h uprocs.h uevents.h ustack.h uimage.h
debug/utrace.h: usched.h
debug/utrace.c: debug/utrace.h arch/arch.h debug/probe.h src/base/lock.h src/base/when.h uproc.h uwait.h src/proc/layout.h
debug/utrace_write.c: debug/utrace.h arch/arch.h src/base/cancel.h src/base/text.h src/base/when.h uproc.h uwait.h
debug/probe.h:
src/proc/proc.h: uproc.h src/base/lock.h src/core/observer.h
src/proc/layout.h:
src/proc/uproc.c: uproc.h src/base/check.h src/base/outside.h src/proc/policy.h src/proc/proc.h src/base/when.h upreempt.h src/core/stress.h
src/proc/uprocs.c: uproc.h arch/arch.h src/proc/layout.h src/proc/proc.h src/proc/quota.h src/base/when.h
src/proc/uproc_native.c: src/base/cancel.h src/base/native.h src/proc/policy.h src/proc/proc.h src/base/when.h upreempt.h
src/proc/uproc_move.c: src/proc/policy.h src/proc/proc.h src/base/when.h
src/proc/uproc_local.c: src/watch/watch.h src/proc/proc.h
src/proc/uproc_alone.c: src/core/direction.h src/proc/proc.h upreempt.h
src/proc/uproc_trim.c: src/proc/proc.h src/base/when.h upreempt.h
src/proc/uproc_name.c: src/proc/proc.h src/base/text.h
src/proc/uproc_report.c: src/base/code.h src/proc/proc.h src/base/where.h src/base/sim.h src/base/when.h
src/proc/uproc_layout.c: arch/arch.h src/proc/layout.h src/proc/proc.h uwait.h
src/proc/policy.h: uproc.h
src/base/cancel.h:
src/base/code.h: src/base/text.h
src/base/text.h:
src/core/direction.h:
src/base/native.h:
src/base/when.h: src/base/sim.h
src/base/where.h: arch/arch.h usched.h src/core/direction.h
src/base/check.h: arch/arch.h usched.h src/core/direction.h src/core/observer.h src/base/sim.h
debug/uframes.h: usched.h
debug/uframes.c: debug/uframes.h src/base/check.h src/core/direction.h src/base/where.h
rr.h: uprocs.h ustack.h
rr.c: rr.h uproc.h
ll.h: uprocs.h ustack.h
ll.c: ll.h uproc.h
bench/bench.h:
bench/cycle.h: bench/bench.h
bench/thread.h: bench/bench.h usched.h rr.h ll.h
bench/ring.c: bench/thread.h
bench/counters.c: bench/thread.h
bench/pingpong.c: bench/thread.h
bench/create.c: bench/thread.h
bench/alternate.c: bench/thread.h
bench/memory.c: bench/thread.h
bench/coroutine.c: bench/bench.h rr.h uco.h
bench/simulate.h: src/proc/policy.h
bench/simulate.c: bench/bench.h bench/simulate.h
bench/chain.h: bench/bench.h ustack.h
bench/uneven.c: bench/chain.h rr.h usync.h
bench/requests.c: bench/chain.h rr.h unet.h
bench/requests-load.c: bench/chain.h
bench/channel.c: bench/bench.h ll.h usync.h
bench/measure.h: bench/bench.h rr.h
bench/measure.c: bench/measure.h ll.h usync.h
bench/measure_many.c: bench/measure.h unet.h usync.h debug/uinspect.h
bench/echo-load.c: bench/bench.h
bench/idle-load.c: bench/bench.h
bench/chat-load.c: bench/bench.h
tls/utls.h:
tls/utls_set.h: tls/utls.h
tls/utls.c: tls/utls.h tls/utls_set.h src/wait/budget.h src/base/cancel.h ubuf.h unet.h
tls/utls_context.c: tls/utls_set.h src/base/cancel.h
tls/test_utls.c: tls/utls.h tests/net.h ubuf.h
posix/uposix.h: posix/uposix_define.h
posix/uposix_names.h: sim/names.h
posix/test_uposix.h: tests/test.h
posix/uposix_set.h: posix/uposix.h src/wait/budget.h rr.h usync.h
posix/uposix.c: posix/uposix_set.h src/base/sim.h
posix/uposix_attr.c: posix/uposix_set.h
posix/uposix_cancel.c: posix/uposix_set.h
posix/uposix_catch.c: posix/uposix_set.h
posix/uposix_conf.c: posix/uposix_set.h src/base/outside.h src/base/sim.h src/base/text.h
posix/uposix_c11.c: posix/uposix_set.h
posix/uposix_record.c: posix/uposix_set.h uproc.h
posix/uposix_fork.c: posix/uposix_set.h uoffload.h upreempt.h uproc.h debug/uinspect.h
posix/uposix_futex.c: posix/uposix_set.h
posix/uposix_io.h: posix/uposix_set.h uoffload.h unet.h
posix/uposix_fd.c: posix/uposix_io.h src/base/sim.h
posix/uposix_io.c: posix/uposix_io.h
posix/uposix_call.c: posix/uposix_io.h posix/uposix_names.h
posix/uposix_net.c: posix/uposix_io.h
posix/uposix_file.c: posix/uposix_io.h src/base/sim.h
posix/uposix_sigwait.c: posix/uposix_io.h
posix/uposix_table.c: posix/uposix_io.h src/base/sim.h
posix/uposix_way.c: posix/uposix_io.h
posix/uposix_queue.c: posix/uposix_io.h
posix/uposix_poll.c: posix/uposix_io.h src/base/sim.h
posix/uposix_proc.c: posix/uposix_io.h
posix/uposix_stdio.c: posix/uposix_io.h src/base/sim.h
posix/uposix_key.c: posix/uposix_set.h
posix/uposix_load.c: posix/uposix_set.h posix/uposix_names.h src/base/sim.h
posix/uposix_lock.c: posix/uposix_set.h
posix/uposix_shared.c: posix/uposix_set.h
posix/uposix_signal.c: posix/uposix_set.h src/base/sim.h
posix/uposix_stats.c: posix/uposix_set.h src/base/outside.h
posix/uposix_sync.c: posix/uposix_set.h
posix/uposix_time.c: posix/uposix_set.h src/base/sim.h src/base/when.h
posix/uposix_exchange.c: posix/uposix_set.h src/base/sim.h
posix/uposix_tls.c: posix/uposix_set.h
posix/test_uposix_fork.c: posix/test_uposix.h usync.h
posix/test_uposix_futex.c: posix/test_uposix.h
posix/test_uposix_io.c: tests/test.h
posix/test_uposix_threads.c: posix/test_uposix.h
debug/ulocks.c: ustack.h src/base/code.h src/core/observer.h
rmain.c: rr.h bench/cycle.h
lmain.c: ll.h bench/cycle.h
src/base/sim.h:
sim.h: uprocs.h ustack.h
sim/host.h: sim/run.h sim/names.h
sim/names.h:
sim/run.h: src/base/sim.h sim.h uproc.h
sim/ulinear.h:
sim/world.h: sim/host.h
sim/access.c: sim/run.h
sim/clock.c: sim/world.h
sim/enter.c: posix/uposix_set.h src/base/outside.h sim/host.h posix/uposix_names.h
sim/fd.c: sim/world.h
sim/file.c: posix/uposix_set.h sim/world.h
sim/host.c: posix/uposix_set.h src/wait/wait.h sim/host.h
sim/local.c: posix/uposix_set.h sim/world.h
sim/name.c: sim/world.h
sim/net.c: sim/world.h
sim/order.c: sim/run.h
sim/serve.c: src/base/outside.h src/base/text.h sim/host.h
sim/socket.c: sim/world.h
sim/strategy.c: sim/run.h
sim/tell.c: src/base/code.h sim/host.h
sim/transfer.c: sim/world.h posix/uposix_set.h
sim/ulinear.c: sim/ulinear.h
sim/ulinear_models.c: sim/ulinear.h
sim/world.c: sim/world.h
sim.c: sim.h src/proc/proc.h sim/host.h sim/world.h uwait.h'

# includes QUOTE FILE: what it includes between such quotes.
includes() {
	sed -n "s/^[[:space:]]*#[[:space:]]*include[[:space:]]*[$1]\([^\">]*\).*/\1/p" "$2"
}

# from_top FILE: the paths of what FILE includes, on standard input, from the top.
from_top() {
	while read -r header; do
		realpath -m --relative-to=. "$(dirname "$1")/$header"
	done
}

for file in *.[ch] src/*/* arch/* private/* debug/*.* debug/watch/* bench/*.[ch] tls/*.[ch] posix/*.[ch] sim/*.[ch]; do
	count=$((count + 1))
	if [ "${file%.S}" != "$file" ]; then
		allowed="file: arch/macros.h arch/offsets.h"
	elif ! allowed=$(echo "$layers" | grep "^$file:"); then
		fail "$file is in no layer"
		continue
	fi
	for header in $(includes '"' "$file" | from_top "$file"); do
		case " $(echo "${allowed#*:}" | tr -s ' ') " in
		*" $header "*) ;;
		*) fail "$file includes $header" ;;
		esac
	done
done
for file in $(echo "$layers" | sed 's/:.*//'); do
	[ -f "$file" ] || fail "$file is in the list and not in the tree"
done

for file in arch/uhere.h usched.h usched.c src/core/dispatch.h arch/arch.h arch/offsets.h; do
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
		memcpy | usched__switch | usched__handover | usched__handover_plain | usched__exit | usched__resumed | usched__probe | usched__commit | usched__frame | usched__control | usched__set_control) ;;
		usched__valgrind | __errno_location | ___errno_location) ;;
		__cxa_get_globals | __splitstack_getcontext | usched__blocks) ;;   # weak
		# What compilers make of assignments, of the thread-local pointer, and
		# of functions with arrays, where that is their default.
		memset | _GLOBAL_OFFSET_TABLE_ | __stack_chk_*) ;;
		*) fail "the dispatcher needs $symbol ($options)" ;;
		esac
	done
done

# `no_dispatcher' is only read. Of the marks of uproc.c only the addresses are used. The pointers
# of setjmp.c are volatile constants.
for file in u*.c rr.c ll.c debug/uinspect*.c debug/u[fost]*.c arch/setjmp.c; do
	compile "$file" -O2
	for symbol in $(nm "$dir/object" | awk '$2 ~ /[BbCDdGgSs]/ { print $3 }'); do
		case $file:$symbol in
		usched.c:usched__current | usched.c:no_dispatcher | usched.c:usched__observer | uproc.c:uproc__marks | uproc_name.c:names | uproc_name.c:uproc__names | uproc_name.c:names_lock | uprocs.c:uproc__schedulers | uprocs.c:uproc__observer | uprocs.c:list_lock | uproc_local.c:uproc__local_lost | arch/setjmp.c:call_*) ;;
		unet.c:unet__table | unet_wait.c:doubted | unet.c:shares | unet.c:adopting | uoffload.c:offload) ;;
		uevents.c:serials | uevents.c:pollers | uevents.c:pollers_lock | uevents.c:own_numbers) ;;
		uevents_epoll.c:no_pwait2) ;;
		uwait_native.c:key_lock | uwait_native.c:native_key | uwait_native.c:key_made) ;;
		debug/uoverflow.c:made_key | debug/uoverflow.c:stack_key | debug/uoverflow.c:key_rc) ;;
		debug/uoverflow.c:own_stack | debug/uoverflow.c:installed | debug/uoverflow.c:old_actions) ;;
		upreempt.c:previous | upreempt.c:installing | upreempt.c:stalls | debug/uinspect.c:inspector | debug/utrace.c:utrace__control) ;;
		*) fail "$file has a global that can be written to: $symbol" ;;
		esac
	done
done

# What is included is a header.
for file in ./*.inc private/*.inc debug/*.inc; do
	[ ! -f "$file" ] || fail "$file is neither a module nor a header"
done

# The environment is read in one place, which leaves out a set-user-ID process.
for file in *.[ch] src/*/* arch/* private/* debug/*.* tls/u*.[ch] posix/uposix* sim/*.[ch]; do
	[ "$file" = src/base/outside.h ] ||
		! grep -nE '\<(secure_)?getenv\(|\<environ\>' "$file" >"$dir/reads" ||
		fail "$file reads the environment: $(cat "$dir/reads")"
done

# Nothing below knows what looks on.
for file in *.[ch] private/*; do
	for header in $(includes '"' "$file" | from_top "$file"); do
		case $file:$header in
		src/core/dispatch.h:src/watch/watch.h | uproc_local.c:src/watch/watch.h) ;;
		*:debug/*) fail "$file includes $header" ;;
		esac
	done
done

# Weak symbols. The first eight may stay: what C++, libgcc, sanitizers and the dynamic linker
# have, if they are linked, and what some machines need.
weak='__cxa_get_globals __splitstack_getcontext __lsan_register_root_region
	__lsan_unregister_root_region __msan_unpoison dladdr _Unwind_Find_FDE current get_name
	usched__blocks'
# The name of each declaration that has this attribute.
cat ./*.[ch] private/* debug/*.* arch/*.h | sed 's:/\*.*\*/::' | tr '\n\t' '  ' | tr ';{}' '\n\n\n' |
	sed -n 's/__attribute__ *((weak.*//p' |
	sed 's/__asm__.*//; s/__typeof__([^)]*)//; s/(.*//; s/ *$//; s/.*[ *]//' >"$dir/weak"
while read -r symbol; do
	case " $(echo $weak) " in
	*" $symbol "*) ;;
	*) fail "$symbol is weak" ;;
	esac
done <"$dir/weak"

machines='x86|X86|amd64|i[3-6]86|aarch64|arm|ARM|riscv|powerpc|PPC|s390|mips|loongarch|hppa|LP64'
grep -nE "^[[:space:]]*#[[:space:]]*(el)?if.*_($machines)" \
	./*.[ch] arch/*.[ch] private/* debug/*.* debug/watch/* bench/*.h >"$dir/asked"
if grep -vE '^(private/(code|direction)|arch/(uhere|uswitch|offsets))\.h:' "$dir/asked"; then
	fail "these lines ask which machine it is"
fi

conclude "$count files keep to them"
