#!/bin/sh
# SPDX-License-Identifier: MIT
#
# planted.sh: bugs planted in copies of usync*.c, one at a time. Each has to be found by a
# test over sim, in which all accesses of usync.h are steps, within a number of seeds. The
# unchanged sources pass with all these seeds. The last column says whether plain stress
# finds it: the same test over rr, checked and with USCHED_STRESS=1, for the same time of
# the processor, at least one run. STRESS=1 measures that again.
#
#   B        the build directory
#   LONG     1: else it is skipped, for it takes a minute
#   ONLY     these bugs alone
#   STRESS   1: plain stress as well; it builds $B/stress
set -u
B=${B:-build}
MAKE=${MAKE:-make}
[ "$(uname -m)" = x86_64 ] || [ "$(uname -m)" = aarch64 ] || {
	echo 'skipped: posix/ is for x86-64 and AArch64'
	exit 77
}
[ "${LONG-}" = 1 ] || {
	echo 'skipped: takes a minute; with LONG=1 it is done'
	exit 77
}
$MAKE -s "B=$B" traced-sim over-sim || exit 1
if [ -n "${STRESS-}" ]; then
	stressed="$B/stress"
	$MAKE -s "B=$stressed" CFLAGS='-O2 -g -DUSCHED_CHECK' "$stressed/libusched.a" \
		"$stressed/tests/test_sync_storm" "$stressed/tests/test_sync_chan" \
		"$stressed/tests/test_sync_select" || exit 1
fi
dir=$B/planted
fails=0
mkdir -p "$dir"
unset USCHED_SIM_STRATEGY USCHED_SIM_SHRINK USCHED_SIM_REPLAY USCHED_SIM_TWICE
export USCHED_TEST_SCALE=40 USCHED_SIM_STEPS=1000000 CMOCKA_MESSAGE_OUTPUT=STDOUT

# without PROGRAM: the cases that cannot run over sim.
without() {
	awk -v "program=$1" '/^test_/ { here = $1 == program }
		here && /^[ \t]/ { printf "%s ", $1 }' tests/scripts/over_sim.sh
}

# over_sim DIRECTORY PROGRAM SEEDS: its last line is what came of it.
over_sim() {
	LD_LIBRARY_PATH=$1 USCHED_SIM=1-$3 \
		USCHED_TEST_WITHOUT="$(without "$2") test_cancel_granted" \
		timeout 120 "$B/sim/tests/$2" 2>&1
}

# measure: sets seconds to those of the processor that children of this shell had.
measure() {
	times >"$dir/times"
	seconds=$(awk 'NR == 2 { split($1, u, /[ms]/); split($2, s, /[ms]/)
		print u[1] * 60 + u[2] + s[1] * 60 + s[2] }' "$dir/times")
}

# less A B
less() {
	awk "BEGIN { exit !($1 < $2) }"
}

# stress NAME PROGRAM SECONDS: sets how to whether it finds the bug.
stress() {
	how='does not build'
	cc=$(sed -n 's/^CC=//p' "$stressed/flags")
	$cc -O2 -g -DUSCHED_CHECK -std=c11 -D_DEFAULT_SOURCE -pthread -iquote src/sync -iquote src/net -w \
		-o "$dir/$1/$2" "$dir/$1/"usync*.c "$stressed/tests/usync/$2.o" \
		"$stressed/tests/help/test.o" "$stressed/tests/help/over.o" "$stressed/tests/help/sync.o" \
		"$stressed/tests/help/place.o" "$stressed/libusched.a" -lcmocka -lm || return
	measure
	until=$(echo "$seconds $3" | awk '{ print $1 + $2 }')
	how='not found'
	while [ "$how" = 'not found' ]; do
		USCHED_TEST_OVER=rr USCHED_STRESS=1 timeout 60 "$dir/$1/$2" \
			>"$dir/$1/stress" 2>&1 || how=found
		measure
		less "$seconds" "$until" || break
	done
}

# plant NAME FILE PROGRAM SEEDS STRESS SED
plant() {
	mkdir -p "$dir/$1"
	file=$(echo src/*/"$2.c")
	sed "$6" "$file" >"$dir/$1/$2.c"
	! cmp -s "$file" "$dir/$1/$2.c" || {
		echo "$1: the expression changes nothing"
		return 1
	}
	$MAKE -s "B=$B" "PLANTED=$dir/$1" traced-sim 2>"$dir/$1/errors" || {
		cat "$dir/$1/errors"
		return 1
	}
	measure
	before=$seconds
	over_sim "$dir/$1" "$3" "$4" >"$dir/$1/output" && {
		echo "$1: not found with $4 seeds: $(tail -n 1 "$dir/$1/output")"
		return 1
	}
	measure
	took=$(echo "$seconds $before" | awk '{ printf "%.2f", $1 - $2 }')
	seed=$(sed -n 's/^usched-run: seed \([0-9]*\): .*/\1/p' "$dir/$1/output")
	how=$5
	[ -z "${STRESS-}" ] || stress "$1" "$3" "$took"
	printf '%-22s %-17s %5s %5s %7s s  %s\n' "$1" "$3" "${seed:-order}" "$4" "$took" "$how"
}

printf '%-22s %-17s %5s %5s %9s  %s\n' bug test seed of time 'plain stress'
while IFS='|' read -r name file program seeds how expression; do
	case " ${ONLY-$name} " in
	*" $name "*) plant "$name" "$file" "$program" "$seeds" "$how" "$expression" ||
		fails=$((fails + 1)) ;;
	esac
done <<'END'
semaphore-lost-wake|usync|test_sync_storm|20|not found|/^static inline int take_or_wait/,/^}/ { /uwait_note/,/^}/s/if (rc == BUSY)/if (1)/; }
semaphore-torn-count|usync|test_sync_storm|20|at times|/^static inline int take_or_wait/,/if (rc != BUSY)/ { /uwait_lock(/d; /uwait_unlock(/d; }
group-torn-count|usync|test_sync_storm|50|not found|/^int usync_group_done/,/^}/ { /uwait_lock/d; /uwait_unlock/d; }
rwlock-no-wake|usync|test_sync_storm|1|found|/^int usync_rwlock_unlock/,/^}/ s/admit(l)/!l->rw_readers \&\& uwait_of(l->rw_queue.q_first)->w_tag ? admit(l) : (struct uwait_queue){ NULL, NULL }/
condition-order|usync|test_sync_storm|50|not found|/^APART static int cond_wait/,/^}/ { /uwait_lock/d; s/^\(.*\)usync_mutex_unlock(m);/\1usync_mutex_unlock(m);\1uwait_lock(\&c->cv_lock);/; }
mutex-torn-owner|usync|test_sync_storm|20|found|/^static inline int mutex_wait/,/^}/ { s/while (!__atomic_compare_exchange_n(&m->m_owner, &owner, next, 0,/while (m->m_owner = next, 0);/; /__ATOMIC_ACQUIRE, __ATOMIC_RELAXED));/d; }
mutex-torn-unlock|usync|test_sync_storm|50|not found|/^int usync_mutex_unlock/,/^}/ { /__ATOMIC_RELAXED))$/d; s/if (__atomic_compare_exchange_n(&m->m_owner, &owner, 0, 0, __ATOMIC_RELEASE,/if (m->m_owner == self \&\& (m->m_owner = 0, 1))/; }
mutex-second-waiter|usync|test_sync_storm|1|found|/^static bool pass_mutex/,/^}/ s/owner | (m->m_queue.q_first ? WAITED : 0)/owner/
channel-lost-wake|usync_chan|test_sync_storm|10|not found|/^APART static int wait_one/,/^}/ s/int rc = usync__try(c, op, value, false);/int rc = (uwait_lock(\&c->ch_lock), SELECT_BUSY);/
channel-missed-close|usync_chan|test_sync_chan|50|not found|/^int usync_chan_close/,/^}/ { /c->ch_closed = true;/d; s/^\(.*\)while ((p = (struct/\1c->ch_closed = true;\1while ((p = (struct/; }
select-lost-wake|usync_select|test_sync_select|10|at times|/^static int push_chan/,/^}/ s/done = could(.*/done = false;/
END
for row in test_sync_storm.50 test_sync_chan.50 test_sync_select.10; do
	[ -z "${ONLY-}" ] || break
	over_sim "$B/sim/traced" "${row%.*}" "${row#*.}" >"$dir/output" || {
		cat "$dir/output"
		echo "${row%.*} fails without a bug"
		fails=$((fails + 1))
	}
done
[ $fails -eq 0 ]
