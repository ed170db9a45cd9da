#!/bin/sh
# SPDX-License-Identifier: MIT
#
# over_sim.sh: the tests of over.h over sim, main() as a thread of the simulation. Each
# program runs in order of its threads, with SEEDS seeds, and the first of these twice,
# with equal hashes. The table has a line for each program, with its seeds, and below it
# one for each case that is left out, or for a whole program, with the reason. Each
# program that calls over_all() must be there, and each case must be one of its program.
#
#   B        the build directory
#   SEEDS    for each program, in place of the table's
#   ONLY     these programs alone
set -u
B=${B:-build}
MAKE=${MAKE:-make}

table=$(sed -n '1,/^exit/d; p' "$0")
fails=0
ran=0

# without PROGRAM: the cases of a program that are left out.
without() {
	echo "$table" | awk -v "program=$1" '
		/^test_/            { here = $1 == program }
		here && /^[ \t]/    { printf "%s ", $1 }'
}

# run PROGRAM [twice]: with the seeds of USCHED_SIM.
run() {
	ran=$((ran + 1))
	out=$("$B/sim/tests/$1" 2>&1)
	status=$?
	[ $status -eq 0 ] || {
		fails=$((fails + 1))
		echo "$out" | grep -v ' SKIPPED '
	}
	[ "${2-}$status" = twice0 ] || echo "$1: $(echo "$out" | tail -n 1)"
}

for file in $(grep -l over_all tests/*/test_*.c); do
	name=$(basename "$file" .c)
	echo "$table" | grep -q "^$name " && continue
	echo "$name is neither run over sim nor left out with a reason"
	fails=$((fails + 1))
done
for name in $(echo "$table" | sed -n 's/^\(test_[a-z_]*\) .*/\1/p'); do
	for case in $(without "$name"); do
		grep -qw "$case" tests/*/"$name.c" && continue
		echo "$name has no case $case"
		fails=$((fails + 1))
	done
done

[ "$(uname -m)" = x86_64 ] || [ "$(uname -m)" = aarch64 ] || {
	echo 'skipped: posix/ is for x86-64 and AArch64'
	exit 77
}
$MAKE -s "B=$B" over-sim || exit 1
unset USCHED_SIM_STRATEGY USCHED_SIM_SHRINK USCHED_SIM_REPLAY
export USCHED_TEST_SCALE=${USCHED_TEST_SCALE:-40} USCHED_SIM_STEPS=3000000
export CMOCKA_MESSAGE_OUTPUT=STDOUT USCHED_SIM USCHED_SIM_TWICE USCHED_TEST_WITHOUT
while read -r program seeds rest; do
	case $program$seeds in
	test_*[0-9]) ;;
	*) continue ;;
	esac
	case " ${ONLY-$program} " in
	*" $program "*) ;;
	*) continue ;;
	esac
	USCHED_TEST_WITHOUT=$(without "$program")
	USCHED_SIM=1-${SEEDS:-$seeds} USCHED_SIM_TWICE=
	run "$program"
	USCHED_SIM=1 USCHED_SIM_TWICE=1
	run "$program" twice
done <<END
$table
END
[ $ran -gt 0 ] || echo 'no program is run'
[ $fails -eq 0 ] || echo "failed: $fails"
[ $fails -eq 0 ] && [ $ran -gt 0 ]
exit

test_sync_cancel 30
	test_cancel_native      native threads, which a cancel does not reach
test_sync_chan 30
	test_meet               another processor
	test_in_vain            another processor
	test_far_budget         the order of threads
test_sync_join 30
	test_join_and_come_back a deadlock, which ends the run
test_sync_lock 30
	test_overtaking         another processor
test_sync_scope 30
	test_begin              a native thread, which a scope does not reach
	bad_arguments           main() is to be no thread
	test_outside            uoffload(), which has native threads
test_sync_select 30
test_sync_self 30
	test_keys               a deadlock, which ends the run
test_sync_storm 30
	test_tokens             a deadlock, which ends the run
test_sync_wait 30
	test_deadlock           a deadlock, which ends the run
test_sync_cost - bytes of frames and images, and deadlocks
test_fault_sync - calls fail by number: tests/scripts/faults.sh

test_exit 20
test_stack 20
	test_name               of the scheduler's own, and a name without processors
	test_outside            main() is to be no thread
test_join 20
	test_join_by_natives    a deadlock, which ends the run
	test_join_then_destroy  it spins
test_lifetime 20
	test_tree               memory of its own scheduler
	test_hold               a deadlock, which ends the run
	test_idle               memory of its own scheduler
test_tokens 20
	test_tokens             a deadlock, which ends the run
	test_wake_before_wait   a deadlock, which ends the run
	test_tokens_survive_join a deadlock, which ends the run
test_wake 20
	test_wake_stale         it spins
	test_wake_untold        it spins
	test_foreign_wakes      a deadlock, which ends the run
	test_wakes_between      a deadlock, which ends the run
test_alone - memory and stacks of its own scheduler
test_control - control words of processors and of native threads

test_ubuf 20
	lost_peer               a reset that is there at once
test_uco 10
	outside                 main() is to be no thread
test_net_calls 20
	descriptors_are_sent    SCM_RIGHTS
	full_receiver           UNIX datagrams do not wait for a receiver
	system_times_out        TCP_USER_TIMEOUT
	forgets                 O_NONBLOCK, which posix/ hides
test_net_fair 20
test_net_kinds 20
	pipes                   O_NONBLOCK, which posix/ hides
	terminals               a device
	files                   mkdtemp()
	beside_input            MSG_OOB
	datagrams               no datagram is lost or late
test_net_limits 20
	exhausted               another limit of descriptors
	first_wait              another limit of descriptors
	refused_for_ever        accept4() in place of that of the library
test_net_line 20
test_net_listen 20
	streams                 O_NONBLOCK, which posix/ hides
	streams_v6              O_NONBLOCK, which posix/ hides
	reuse_port              SO_REUSEPORT
test_net_read 20
	play_all                MSG_OOB
	messages_all            SOCK_SEQPACKET keeps no messages
test_net_reuse 20
	is_forgotten            no transfer is short
test_net_select 20
test_net_storm 10
test_net_transfer 20
	partial                 no transfer is short
	shut_readers            bind() of a socket of AF_UNIX without a name
	shut_writers            SOCK_SEQPACKET
	test_sigpipe            a reset that is there at once
test_net_wait 20
	native_is_cancelled     native threads, which a cancel does not reach
	forgotten               epoll, which is not simulated
	reader_goes             poll() in place of that of the library
	poll_looks              poll() in place of that of the library
	poll_tells              poll() in place of that of the library
	poll_looks_always       MSG_OOB
	polls_sleep             poll() in place of that of the library
	native_waits            no transfer is short
	is_cancelled            no transfer is short
	others_wait             no transfer is short
	times_out               no transfer is short
test_fault_io - calls fail by number: tests/scripts/faults.sh
test_fault_net - calls fail by number: tests/scripts/faults.sh

test_offload - uoffload(), which has native threads
test_offload_file - uoffload(), which has native threads
test_embed - loops that have the scheduler
test_embed_end - loops that have the scheduler
test_ll - another scheduler
test_rr - another scheduler
test_conf - another scheduler
test_trim - memory of its own scheduler
test_guard - memory of its own scheduler
test_quota - processors
test_look - processors
test_preempt - slices
test_stall - slices
test_deadlock - deadlocks, which end a run
test_report - deadlocks, which end a run
test_fault - calls fail by number: tests/scripts/faults.sh
test_signal - signals of native threads
test_errno - errno of native threads
test_torture - its own schedulers, and floating point
test_inspect - processors
test_inspect_live - processors
test_locks - processors
test_metrics - processors
test_trace - processors
test_overflow - it forks
test_segv - it forks
