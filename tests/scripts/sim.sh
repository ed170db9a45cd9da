#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Programs in a simulation: tests/sim/*.c, each under 30 seeds, twice each. Those with a bug
# must fail, and with the same choices again; their twins must not, under 210 seeds.
#
#   LONG   1: ten times as many
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

machine=$($CC -dumpmachine | sed 's/-.*//')
[ -f "posix/$machine.S" ] || skip "posix/ has no $machine.S"
cflags=$(sed -n 's/^CFLAGS=//p' "$B/flags" 2>/dev/null)
case $cflags in *-fsanitize=*) skip 'threads of sanitizers are those of libc' ;; esac
$MAKE -s --no-print-directory "B=$B" "CC=$CC" sim-tests >"$dir/make" 2>&1 ||
	die "the simulation does not build: $(tail -n 20 "$dir/make")"

library=$(cd "$B" && pwd)/libusched-sim.so
seeds=$([ "${LONG-}" = 1 ] && echo 300 || echo 30)

# Seeds, a program and its argument. The last line has a hash.
passes()
{
	range=$1
	shift
	USCHED_SIM=$range USCHED_SIM_TWICE=1 timeout 600 "$B/sim_$@" >"$dir/out" 2>&1 ||
		fail "$*: $(tail -n 5 "$dir/out")"
	grep -q 'runs* passed,' "$dir/out" || fail "$*: it has run natively"
}

# What the report of the failure has, a program and its argument.
fails()
{
	words=$1
	shift
	USCHED_SIM=1-300 USCHED_SIM_SHRINK=$dir/choices "$B/sim_$@" >"$dir/out" 2>&1 &&
		fail "$*: it has passed"
	grep -q "$words" "$dir/out" || fail "$*: $(tail -n 5 "$dir/out")"
	[ -f "$dir/choices" ] || return
	USCHED_SIM=1 USCHED_SIM_REPLAY=$dir/choices USCHED_SIM_TRACE=$dir/trace \
		"$B/sim_$@" >"$dir/out" 2>&1
	grep -q "^usched-run: seed .*$words" "$dir/out" || fail "$*, again: $(tail -n 5 "$dir/out")"
	tail -n 1 "$dir/trace" | grep -q ",end,.*$words" || fail "$*: no end of its trace"
	rm -f "$dir/choices"
}

for program in tests/sim/*.c; do
	program=$(basename "$program" .c)
	case $program in
	test_* | busy | deep | escape | freed | ordered | part | replace | spins | wal | kv | httpd | proxy | \
		chat) ;;
	*) passes 1-$seeds "$program" ;;
	esac
done
# Accesses to memory are steps, too.
traced()
{
	"$@" -g -fsanitize=thread -c -o "$dir/traced.o" 2>"$dir/make" &&
		${1%% *} -o "$B/sim_traced" "$dir/traced.o" "$B/libusched-sim.so" \
			-Wl,-rpath,"$(dirname "$library")" -pthread 2>>"$dir/make" ||
		die "$*: $(cat "$dir/make")"
}
traced $CC -O1 tests/sim/spins.c
passes 1-$((9 * seeds)) traced
# What takes many choices in a row; the seeds up to the failure repeat it.
traced $CC -O1 tests/sim/deep.c
export USCHED_SIM_STRATEGY=depth
USCHED_SIM=1-6000 "$B/sim_traced" >"$dir/out" 2>&1 && fail "deep: it has passed"
USCHED_SIM=$(sed -n 's/.* --seeds \(1-[0-9]*\) .*/\1/p' "$dir/out") USCHED_SIM_TWICE=1 \
	"$B/sim_traced" 2>&1 | cmp -s "$dir/out" - || fail "deep: not again: $(cat "$dir/out")"
unset USCHED_SIM_STRATEGY
# So are frees, and what is freed, or beside a block, is not accessed.
traced $CC -O1 tests/sim/freed.c
passes 1-$((3 * seeds)) traced
fails 'thread 1 reads in use .* what thread 0 has freed in share' traced thread
fails 'thread 2 reads in tell .* what thread 0 has freed in hand_over' traced late
for wrong in 'writes:realloc' 'frees:twice'; do
	fails "${wrong%:*} in main .* what thread 0 has freed in main" traced "${wrong#*:}"
done
for wrong in 'writes in main .* after:after' 'writes in main .* before:before' \
	'writes in main .* after:memset' 'reads in main .* after:strlen' \
	'frees in main .* inside:middle'; do
	fails "${wrong%:*} a block of .* that thread 0 has made in main" traced "${wrong#*:}"
done
# Uses that are ordered are no races, and most of them no steps; a race is named once.
traced $CC -O1 tests/sim/ordered.c
passes 1-$((3 * seeds)) traced
grep -q 'a race' "$dir/out" && fail "ordered: $(cat "$dir/out")"
most=$((3 * seeds * 1500))
[ "$(sed -n 's/.* passed, \([0-9]*\) steps.*/\1/p' "$dir/out")" -lt $most ] ||
	fail "ordered: too many steps: $(cat "$dir/out")"
passes 1-$seeds traced note
[ "$(grep -c 'a race, with the same result: .* writes in [cp].* writes in [cp]' \
	"$dir/out")" -eq 1 ] || fail "ordered: the race is not named: $(cat "$dir/out")"
if command -v g++ >/dev/null; then
	traced g++ -std=c++20 -O1 tests/sim/plus.cc
	passes 1-$((7 * seeds)) traced
	fails 'signal 6' traced swallow
	# std::call_once() has thread-local variables, even if the program has none.
	# Those that wait until another has made a static variable have what was written.
	cat >"$dir/once.cc" <<-'END'
	#include <future>
	int *made()
	{
		static int *one = [] { return sched_yield(), new int(1); }();

		return one;
	}
	int main()
	{
		auto f = [](int n) { return n * *made(); };
		auto one = std::async(std::launch::async, f, 1);

		return std::async(std::launch::async, f, 2).get() + one.get() != 3;
	}
	END
	traced g++ -std=c++20 -O1 "$dir/once.cc"
	passes 1-$((3 * seeds)) traced
	grep -q 'a race' "$dir/out" && fail "once: $(cat "$dir/out")"
fi
if command -v rustc >/dev/null; then
	rustc -O -o "$dir/std" tests/sim/std.rs 2>"$dir/make" || die "$(cat "$dir/make")"
	printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "$library" "$dir/std" >"$B/sim_std"
	chmod +x "$B/sim_std"
	passes 1-$((3 * seeds)) std
	fails 'exit status 101' std wrong
fi
for server in proxy chat kv:hiredis/hiredis.h,sodium.h httpd:http_parser.h; do
	program=${server%:*}
	case $server in
	*:*) echo "${server#*:}" | sed 's/[^,]*/#include <&>/g; y/,/\n/' | $CC -E - >/dev/null 2>&1 || continue ;;
	esac
	$MAKE -s --no-print-directory "B=$B" "CC=$CC" "$B/sim_$program" >"$dir/make" 2>&1 ||
		die "$program does not build: $(tail -n 20 "$dir/make")"
	passes 1-$seeds "$program"
	passes 1-$((seeds / 6)) "$program" all
	passes 1-$((seeds / 6)) "$program" none
done
passes 1-$((7 * seeds)) wal
passes 1-$((seeds / 6)) log 5
passes 1-$((7 * seeds)) replace
fails 'exit status 1' part
fails 'signal 6' orders sleep
# A request that arrives while another thread runs, between two of its waits. In one run
# of four it comes so soon that this is seen within 30 runs.
USCHED_SIM_LATENCY=50-500-50000
export USCHED_SIM_LATENCY
fails 'exit status 1' meet lost
unset USCHED_SIM_LATENCY
USCHED_SIM=1-30 "$B/sim_meet" lost >"$dir/out" 2>&1 && fail "meet: no latency is short"
# Threads that wait for ever while others tick; the report says who could have woken them.
for hang in clock polls; do
	fails 'a hang: ' hang $hang
	grep -q 'pthread_cond_wait in .* nothing wakes it; .*: pthread_cond_signal in ' "$dir/out" ||
		fail "hang $hang: the report does not say who waits, or for whom"
done
USCHED_SIM=1-300 USCHED_SIM_TIME=100000 USCHED_SIM_STEPS=100000 "$B/sim_hang" clock 2>&1 |
	grep -q 'has not ended in the steps' || fail "--time 100000"
# Latency, faults and hosts by options; the last line repeats them.
USCHED_SIM=1 USCHED_SIM_LATENCY=0 "$B/sim_meet" lost 2>&1 |
	grep -q 'again: usched-run --sim --seeds 1 --latency 0 ' || fail "--latency 0"
USCHED_SIM=1-20 USCHED_SIM_LATENCY=2000000-3000000 "$B/sim_meet" lost 2>&1 |
	grep -q '20 runs passed' || fail "--latency 2000000-3000000"
faults=crash,full,short,sync-fails,sync-lies,open,no-memory,clock,loss,duplicate,no-buffer
USCHED_SIM=1-20 USCHED_SIM_FAULTS=$faults,no-answer,slow,partition:0,reset:5 "$B/sim_meet" 2>&1 |
	grep -q 'fault: [a-z]' || fail "--faults"
USCHED_SIM=1-20 USCHED_SIM_FAULTS=reset:5 "$B/sim_meet" >"$dir/out" 2>&1
grep -q 'fault: reset' "$dir/out" && grep -q 'again:.* --faults reset:5 ' "$dir/out" ||
	fail "--faults reset:5"
USCHED_SIM=1 USCHED_SIM_HOSTS=a=10.0.0.4,b=10.0.0.5 LD_PRELOAD=$library getent ahostsv4 b 2>&1 |
	grep -q '^10\.0\.0\.5 ' || fail "--hosts"
for bad in TIME=x LATENCY=x LATENCY=3-2 LATENCY=1-2-3-4 FAULTS=quake FAULTS=reset:x FAULTS=reset:1x \
	HOSTS=a HOSTS=a=b HOSTS==1.2.3.4
do
	option=$(echo "${bad%%=*}" | tr A-Z a-z)
	[ "$(env USCHED_SIM=1 "USCHED_SIM_$bad" "$B/sim_meet" 2>&1 | grep -c "^usched-run: --$option: ")" = 1 ] ||
		fail "$bad is no mistake"
done

# OpenMP's library makes system calls itself.
cat >"$dir/sum.c" <<'END'
int main(void)
{
	int sum = 0;

#pragma omp parallel num_threads(3)
	{
#pragma omp barrier
#pragma omp critical
		sum++;
	}
	return sum != 3;
}
END
if $CC -fopenmp -o "$B/sim_sum" "$dir/sum.c" "$library" -Wl,-rpath,"${library%/*}" 2>/dev/null
then
	passes 1-$seeds sum
fi
# Threads that spin, and a thread that computes, without any step.
passes 1-$((seeds / 6)) busy
fails 'it spins, and no other' busy ever
grep -q 'thread 0: spins in main (busy' "$dir/out" || fail "busy: no place: $(cat "$dir/out")"

# What is left at the end.
USCHED_SIM=1-20 USCHED_SIM_LEAKS=1 "$B/sim_leaks" >"$dir/out" 2>&1 ||
	fail "leaks: $(tail -n 5 "$dir/out")"
for left in thread descriptor; do
	USCHED_SIM=1 USCHED_SIM_LEAKS=1 "$B/sim_leaks" $left 2>&1 |
		grep -q "1 $left is left" || fail "a $left that is left is not found"
done

# Three threads have six orders. Each is another output, and none comes twice.
USCHED_SIM=1 USCHED_SIM_STRATEGY=all "$B/sim_orders" 2>&1 |
	grep -q 'all orders passed: 6,' || fail "three threads have not six orders"

# With several jobs a run has the same addresses as the first one, by which it knows that
# threads share what is on the stack of main().
cat >"$dir/shared.c" <<'END'
#include <pthread.h>

static void *add(void *sum)
{
	++*(int *)sum;
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	int sum = 0;

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, add, &sum);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
END
$CC -fsanitize=thread -c -o "$dir/shared.o" "$dir/shared.c" &&
	$CC -o "$dir/shared" "$dir/shared.o" "$library" -pthread || die "shared.c does not build"
for jobs in 1 4; do
	USCHED_SIM=1-50 USCHED_SIM_TWICE=1 USCHED_SIM_JOBS=$jobs \
		LD_LIBRARY_PATH=$B "$dir/shared" 2>&1 | tail -n 1
done | sort -u >"$dir/hashes"
[ "$(wc -l <"$dir/hashes")" -eq 1 ] && grep -q '50 runs passed' "$dir/hashes" ||
	fail "jobs differ: $(cat "$dir/hashes")"

# The report has all choices and faults, even if many steps come after them.
cat >"$dir/late.c" <<'END'
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int stock = 1;

static void *take(void *unused)
{
	int left;

	(void)unused;
	pthread_mutex_lock(&lock);
	left = stock;
	pthread_mutex_unlock(&lock);
	pthread_mutex_lock(&lock);
	stock -= left;
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, take, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	return stock != 0;
}
END
$CC -g -o "$dir/late" "$dir/late.c" "$library" -pthread || die "late.c does not build"
late()
{
	env LD_LIBRARY_PATH="$B" "$@" "$dir/late" >"$dir/out" 2>&1
}
late USCHED_SIM=1-300 USCHED_SIM_SHRINK="$dir/choices"
head -n 1 "$dir/out" | grep -q '^usched-run: seed [0-9]*: exit status 1' ||
	fail "late: begins with $(head -n 1 "$dir/out")"
late USCHED_SIM=1 USCHED_SIM_REPLAY="$dir/choices"
grep -q '  thread 2: .*, in place of thread 1: pthread_mutex_[a-z]* in take (' "$dir/out" &&
	[ "$(grep -c ', in place of ' "$dir/out")" -eq 1 ] ||
	fail "late: no choices: $(head -n 5 "$dir/out")"
# Places are lines of the source; without addr2line they are offsets.
if command -v addr2line >/dev/null; then
	grep -q 'in take (late.c:1[0-9])' "$dir/out" || fail "late: no lines: $(head -n 5 "$dir/out")"
fi
grep -q '^usched: on lock, thread 2 calls .* after thread 1 calls .* and before thread 1 calls pthread_mutex_lock in' "$dir/out" ||
	fail "late: not told: $(head -n 5 "$dir/out")"
late PATH="$dir" USCHED_SIM=1 USCHED_SIM_REPLAY="$dir/choices"
grep -q 'in take (late+0x[0-9a-f]*)' "$dir/out" || fail "late: no offsets: $(head -n 5 "$dir/out")"
rm -f "$dir/choices"

# Shrinking leaves out any choices together, lets others come earlier then, and does not look
# at numbers in messages.
cat >"$dir/fives.c" <<'END'
#include "sim/sim.h"

int main(int count, char **arguments)
{
	unsigned n = 0;

	(void)arguments;
	for (int i = 0; i < 20; i++)
		if (sim_choose(2)) {
			n++;
			if (count > 1)
				sim_choose(2);
		}
	if (count > 1 ? sim_choose(4) == 3 : n % 5 == 2)
		sim_fail("%u of 20", n);
	return 0;
}
END
$CC -I. -o "$dir/fives" "$dir/fives.c" "$library" -pthread || die "fives.c does not build"
for later in '' later; do
	USCHED_SIM=1-100 USCHED_SIM_SHRINK="$dir/choices" LD_LIBRARY_PATH=$B \
		"$dir/fives" $later >"$dir/out" 2>&1
	grep -q ": $([ "$later" ] && echo 1 choice || echo 2 choices) of " "$dir/out" ||
		fail "fives $later: $(tail -n 3 "$dir/out")"
done
rm -f "$dir/choices"
# The report of a deadlock says who has what, and is the same in each run.
cat >"$dir/crossed.c" <<'END'
#include <pthread.h>

static pthread_mutex_t locks[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };

static void *cross(void *first)
{
	pthread_mutex_lock(&locks[first != NULL]);
	pthread_mutex_lock(&locks[first == NULL]);
	pthread_mutex_unlock(&locks[first == NULL]);
	pthread_mutex_unlock(&locks[first != NULL]);
	return NULL;
}

int main(void)
{
	pthread_t t;

	pthread_create(&t, NULL, cross, locks);
	cross(NULL);
	return pthread_join(t, NULL);
}
END
$CC -o "$dir/crossed" "$dir/crossed.c" "$library" -pthread || die "crossed.c does not build"
for i in 1 2; do
	USCHED_SIM=1-300 LD_LIBRARY_PATH=$B "$dir/crossed" >"$dir/out$i" 2>&1
done
grep -q 'thread 1: pthread_mutex_lock in cross (.*; thread 0 has the lock$' "$dir/out1" &&
	cmp "$dir/out1" "$dir/out2" || fail "crossed: $(head -n 9 "$dir/out1")"

# A seed gives the same run with any compiler.
for compiler in "$CC" gcc clang; do
	for level in -O0 -O3; do
		# shellcheck disable=SC2086
		${compiler%% *} $level -o "$dir/orders" tests/sim/orders.c -pthread \
			2>/dev/null || continue
		USCHED_SIM=1-300 LD_PRELOAD="$library" "$dir/orders" 2>&1 | tail -n 1
	done
done | sort -u >"$dir/hashes"
[ "$(wc -l <"$dir/hashes")" -eq 1 ] || fail "compilers differ: $(cat "$dir/hashes")"
grep -vq '300 runs passed' "$dir/hashes" && fail "orders: $(cat "$dir/hashes")"
fails 'was acknowledged' wal lost
fails 'was acknowledged' wal lies
fails 'was acknowledged' wal again
fails 'are in one file\|lines are left' replace file
fails 'was saved' replace dir
for call in fork system symlink settimeofday; do
	fails "$call() cannot be simulated" escape "$call"
done
fails deadlock escape relock
fails 'setitimer() for processor time' escape setitimer
fails 'syscall() of this number' escape syscall
fails 'a real FIFO, socket or device' escape device
# Allocators make no steps: a thread waits there without letting others run.
cat >"$dir/within.c" <<'END'
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *within(void *unused)
{
	for (int i = 0; i < 5; i++) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}
END
cat >"$dir/allocates.c" <<'END'
#include <pthread.h>

void *within(void *unused);

int main(void)
{
	pthread_t t;

	pthread_create(&t, NULL, within, NULL);
	within(NULL);
	return pthread_join(t, NULL);
}
END
$CC -shared -fPIC -o "$dir/libjemalloc.so" "$dir/within.c" &&
	$CC -o "$dir/allocates" "$dir/allocates.c" "$library" "$dir/libjemalloc.so" -pthread ||
	die "allocates.c does not build"
USCHED_SIM=1-30 LD_LIBRARY_PATH=$B:$dir "$dir/allocates" 2>&1 | grep -q '30 runs passed' ||
	fail "allocates: it has not passed"
# Several programs: a server and its clients, each with its own variables and options.
# with_clients COMMAND-LINES ARGUMENT...
with_clients() {
	USCHED_SIM=1-30 USCHED_SIM_TWICE=1 USCHED_SIM_WITH=$1 timeout 600 \
		"$B/sim_with" ${2:+"$2" "$3"} >"$dir/out" 2>&1
}
clients="$B/sim_with -n 2
$B/sim_with '-n' \"3\""
with_clients "$clients" -l 5 && grep -q '30 runs passed' "$dir/out" ||
	fail "with: $(tail -n 3 "$dir/out")"
with_clients "$clients
$B/sim_with -p 7001 -l 0" -l 5 && grep -q '30 runs passed' "$dir/out" ||
	fail "with: two servers: $(tail -n 3 "$dir/out")"
# The client has copies of variables that the server's copies stand for, and no -pie.
if command -v g++ >/dev/null; then
	cat >"$dir/greet.cc" <<'END'
#include <arpa/inet.h>
#include <iostream>
#include <sys/socket.h>

int main(int argc, char **)
{
	sockaddr_in a = { AF_INET, htons(7000), { htonl(INADDR_LOOPBACK) }, { 0 } };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	bool client = argc > 1;

	std::cout << "begins" << std::endl;
	if (client ? connect(fd, (sockaddr *)&a, sizeof a)
	    : bind(fd, (sockaddr *)&a, sizeof a) || listen(fd, 1) || accept(fd, NULL, NULL) < 0)
		return 1;
	return !std::cout;
}
END
	g++ -o "$dir/greet" "$dir/greet.cc" && g++ -no-pie -o "$dir/greets" "$dir/greet.cc" ||
		die "greet.cc does not build"
	USCHED_SIM_LIBRARY=$library posix/usched-run --sim --seeds 1-30 --with "$dir/greets x" \
		"$dir/greet" >"$dir/out" 2>&1 || fail "greet: $(tail -n 3 "$dir/out")"
fi
with_clients "$clients" -l 6 || grep -q 'sim_with: the exit status is 3' "$dir/out" ||
	fail "with: the server's status: $(tail -n 3 "$dir/out")"
with_clients "$clients -p 7001" -l 2 || grep -q 'sim_with: the exit status is 1' "$dir/out" ||
	fail "with: a client's status: $(tail -n 3 "$dir/out")"
with_clients "$clients" || grep -q 'ended before a wait' "$dir/out" ||
	fail "with: no server: $(tail -n 3 "$dir/out")"
with_clients "$0 x" -l 2 || grep -q -- "--with '.* x': that is no program" "$dir/out" ||
	fail "with: no program: $(tail -n 3 "$dir/out")"
USCHED_SIM=1 USCHED_SIM_WITH="$B/sim_with" "$B/sim_escape" relock 2>&1 |
	grep -q '^usched: no program of --with has begun' || fail "with: it is not said that none begins"
for option in --shrink --trace; do
	USCHED_SIM_LIBRARY=$library posix/usched-run --sim $option "$dir/none/file" true 2>&1 |
		grep -q "^usched-run: $option: '.*' cannot be written" ||
		fail "$option: not tried before the runs"
done
USCHED_SIM=1 LD_PRELOAD=$library sh -c 'exec true' 2>&1 |
	grep -q 'execve() .*; use the program itself' || fail "exec: no advice"
# A variable of a library that only a client has.
echo 'int of_library = 7;' >"$dir/number.c"
cat >"$dir/asks.c" <<'END'
extern int of_library;

int main(void)
{
	return of_library != 7;
}
END
$CC -shared -fPIC -o "$dir/libnumber.so" "$dir/number.c" &&
	$CC -o "$dir/asks" "$dir/asks.c" -L"$dir" -lnumber -Wl,-rpath,"$dir" ||
	die "asks.c does not build"
with_clients "$dir/asks" -l 0 || fail "with: a variable: $(tail -n 3 "$dir/out")"
# libstdc++ may come with a client alone, and not from the start.
cat >"$dir/lazy.cc" <<'END'
#include <random>
#include <string>

static unsigned chance = std::random_device{}();

static const std::string &word()
{
	static std::string made = "made";
	return made;
}

int main()
{
	return chance == 0 || word() != "made" || word().empty();
}
END
if g++ -o "$dir/lazy" "$dir/lazy.cc" 2>/dev/null; then
	with_clients "$dir/lazy" -l 0 || fail "with: libstdc++: $(tail -n 3 "$dir/out")"
fi
for command in ./nothing cd ''; do
	USCHED_SIM_LIBRARY=$library posix/usched-run --sim --with "$command" true \
		>"$dir/out" 2>&1 || grep -q 'no program' "$dir/out" ||
		fail "--with $command: $(cat "$dir/out")"
done
# A trace changes nothing of the run.
for program in echo log; do
	USCHED_SIM=7 "$B/sim_$program" >"$dir/out" 2>&1
	USCHED_SIM=7 USCHED_SIM_TRACE=$dir/trace "$B/sim_$program" >"$dir/out2" 2>&1
	cmp "$dir/out" "$dir/out2" && grep -q ',send,' "$dir/trace" &&
		grep -q ',receive,' "$dir/trace" ||
		fail "$program: not the same with a trace, or no messages in it"
done
# Nor does what malloc() leaves in memory.
MALLOC_PERTURB_=85 USCHED_SIM=7 "$B/sim_log" 2>&1 | cmp - "$dir/out" ||
	fail "log: not the same with other bytes in new memory"
USCHED_SIM=1-2 USCHED_SIM_TRACE=$dir/trace "$B/sim_echo" 2>&1 | grep -q 'and one run' ||
	fail "several runs have one trace"
# Where a file was, it is written anew; what a link points to is another's.
head -c 1000000 /dev/zero >"$dir/trace"
ln -s trace "$dir/link"
USCHED_SIM=7 USCHED_SIM_TRACE=$dir/link "$B/sim_echo" 2>&1 | grep -q 'cannot be written' &&
	[ "$(wc -c <"$dir/trace")" -eq 1000000 ] || fail "a trace is written through a link"
USCHED_SIM=7 USCHED_SIM_TRACE=$dir/trace "$B/sim_echo" >/dev/null 2>&1
tail -n 1 "$dir/trace" | grep -q '^,,,,end,' || fail "the end of a trace is an earlier file's"
USCHED_SIM=$(printf '\033[2J') "$B/sim_echo" 2>&1 | grep -q "'?\[2J': give A or A-B" ||
	fail "control characters are repeated"
# A set-user-ID program is not for its caller to simulate.
mkdir "$dir/suid"
chmod 755 "$dir" "$dir/suid"
cp "$(command -v id)" "$dir/suid/id"
chmod 4755 "$dir/suid/id"
as_nobody='limited setpriv --reuid 65534 --regid 65534 --clear-groups'
if [ "$($as_nobody "$dir/suid/id" -u 2>&1)" != 0 ]; then
	note 'set-user-ID programs: skipped: not root, no setpriv, or they have no effect here'
else
	cp "$library" "$dir/suid/libusched-sim.so.$(version | cut -d. -f1-2)"
	$CC -o "$dir/suid/echo" "$B/tests/sim/echo.o" "$library" -Wl,-rpath,"$dir/suid" -pthread
	chmod 4755 "$dir/suid/echo"
	USCHED_SIM=7 $as_nobody "$dir/suid/echo" >"$dir/out" 2>&1
	grep -q 'echo: passed' "$dir/out" || fail "set-user-ID: $(cat "$dir/out")"
	! grep 'run passed' "$dir/out" || fail "a set-user-ID program is simulated"
fi
for name in /tmp/usched-sim* /var/tmp/usched-sim*; do
	[ -e "$name" ] && fail "$name is on the disk"
done
conclude "connections work, and what is synced outlasts crashes, and what is not synced is found"
