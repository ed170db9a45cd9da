#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The threads' part of the Open POSIX Test Suite, as Debian has its source (package
# posixtestsuite): each of its programs, natively and with libusched-posix.so preloaded.
# The verdict must be the same. tests/scripts/posixtests.table has the ones that differ, each with
# the reason; one of these that is the same after all is named.
#
#   LONG=1   all of them, else a few
#   ONLY     patterns of names: ONLY='sem_*'
#
# The verdicts are in $B/posixtests/verdicts, what the programs say in the directories
# native and preload beside it.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/scripts/adopt.lib
. tests/scripts/adopt.lib
need_posix
need timeout xargs
scripts/source.sh "$B/posixtests" posixtestsuite >"$dir/source" 2>&1 ||
	skip "$(tail -n 1 "$dir/source")"
top=$(cd "$B/posixtests" && pwd)
source=$top/posixtestsuite
interfaces=$source/conformance/interfaces

# The default of threads at a time and of seconds: a few programs wait for a minute.
at_once=12
limit=90

# Some set the clock of the machine if they may, and deadlines of others pass then.
as_is=
if [ "$(id -u)" -eq 0 ]; then
	need setpriv
	as_is='setpriv --bounding-set=-sys_time --inh-caps=-sys_time'
fi

# A few of each kind, and fast ones, unless all of them are asked for.
few='pthread_create.1-[1-4] pthread_join.1-* pthread_exit.[1-3]-1 pthread_detach.2-1
	pthread_cancel.1-* pthread_cleanup_p*.1-* pthread_key_create.1-* pthread_once.1-*
	pthread_mutex_lock.1-1 pthread_mutex_timedlock.[14]-1 pthread_mutex_init.1-2
	pthread_cond_wait.1-1 pthread_cond_timedwait.[14]-1 pthread_barrier_wait.1-1
	pthread_rwlock_wrlock.1-1 pthread_spin_trylock.1-1 pthread_kill.2-1 pthread_equal.1-1
	sem_wait.1-* sem_timedwait.[16]-1 sem_post.[12]-1 nanosleep.1-1'
if [ -n "${LONG-}" ]; then
	few='*'
fi

# The files of programs, each with its name.
programs() {
	set -f
	for part in 'pthread_*' 'sem_*' sched_yield nanosleep clock_nanosleep; do
		find "$interfaces" -path "$interfaces/$part/*" -name '*-*.c'
	done | while read -r file; do
		name=$(echo "${file#"$interfaces/"}" | sed 's|\.c$||; s|/|.|g')
		for pattern in ${ONLY:-$few}; do
			# $pattern is unquoted: a pattern.
			# shellcheck disable=SC2254
			case $name in
			$pattern) echo "$name $file" && break ;;
			esac
		done
	done
}

# The scripts that xargs calls.
cat >"$dir/build" <<'END'
[ -x "bin/$1" ] && exit
timeout 600 ${CC:-cc} -std=gnu99 -w -D_GNU_SOURCE -Iposixtestsuite/include "$2" \
	-o "bin/$1" -lpthread -lrt -lm 2>"bin/$1.errors"
END
cat >"$dir/run" <<'END'
column=$1 top=$2 limit=$3 as_is=$4 name=$5
mkdir -p "$column/$name"
cd "$column/$name" || exit 1
if [ "$column" = preload ]; then
	set -- env "LD_PRELOAD=$PRELOAD"
else
	set --
fi
# shellcheck disable=SC2086
timeout -k 5 "$limit" $as_is "$@" "$top/bin/$name" >output 2>&1 </dev/null
status=$?
case $status in
0)	verdict=PASS ;;
1)	verdict=FAILED ;;
2)	verdict=UNRESOLVED ;;
4)	verdict=UNSUPPORTED ;;
5)	verdict=UNTESTED ;;
124 | 137) verdict=HUNG ;;
*)	verdict=DIED ;;
esac
echo "$name $verdict"
END

# run COLUMN: one line for each program, in $top/COLUMN.verdicts.
run() {
	# shellcheck disable=SC2016
	(cd "$top" && cut -d ' ' -f 1 list |
		PRELOAD=$preload xargs -n 1 -P $at_once sh "$dir/run" "$1" "$top" $limit \
			"$as_is") |
		sort >"$top/$1.verdicts"
}

verdict() {		# COLUMN NAME
	(cd "$top" && PRELOAD=$preload sh "$dir/run" "$1" "$top" 300 "$as_is" "$2") |
		cut -d ' ' -f 2
}

# same_again NAME: alone, and with more time. Some programs take it for granted that their
# threads run soon.
same_again() {
	for _ in 1 2 3; do
		[ "$(verdict native "$1")" = "$(verdict preload "$1")" ] || continue
		note "$1 has the same verdict alone, and had others beside others"
		return 0
	done
	return 1
}

mkdir -p "$top/bin"
programs >"$top/all"
(cd "$top" && xargs -n 2 -P 2 sh "$dir/build" <all)
while read -r name file; do     # some files are parts of others
	[ ! -x "$top/bin/$name" ] || echo "$name $file"
done <"$top/all" >"$top/list"
run native
run preload
join "$top/native.verdicts" "$top/preload.verdicts" >"$top/verdicts"
grep -v '^#' tests/scripts/posixtests.table >"$dir/table"

while read -r name native other; do
	count=$((count + 1))
	listed=$(awk -v name="$name" '$1 == name { print $2, $3 }' "$dir/table")
	case $listed in
	'')	[ "$native" = "$other" ] || same_again "$name" ||
			fail "$name: $native natively, $other preloaded: $(tail -n 3 \
				"$top/preload/$name/output")" ;;
	'any any') ;;
	*)	if [ "$native" = "$other" ]; then
			note "$name is $native now: the table can do without it"
		else
			[ "$native $other" = "$listed" ] ||
				fail "$name: $native natively, $other preloaded; listed: $listed"
		fi ;;
	esac
done <"$top/verdicts"
differ=$(awk '$2 != $3' "$top/verdicts" | wc -l)
[ "$count" -gt 0 ] || fail 'no program was run'
conclude "$count programs, $differ of them with another verdict than natively"
