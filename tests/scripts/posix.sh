#!/bin/sh
# SPDX-License-Identifier: MIT
#
# POSIX threads over usched: posix/test_uposix_*.c, compiled with uposix.h, and as plain
# programs by LD_PRELOAD: with own stacks, with few shared ones, at the limit of
# stacks, on one processor. A C++ program, libraries that are loaded later, allocators with
# locks, a daemon, a process that outlives main(); usched-run and what it tells.
# Thread-local variables, shared and exchanged. A hardened program; the library as it is
# installed, in each of the three ways to use it.
#
#   LONG=1   the test programs natively, too, on 8 processors, and five times
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

cflags=$(sed -n 's/^CFLAGS=//p' "$B/flags" 2>/dev/null)
printf '#include <features.h>\n#if !defined(__GLIBC__) || !defined(__LP64__)\n#error\n#endif\n' |
	$CC ${cflags:-} -E -x c - >/dev/null 2>&1 || skip 'not for this libc or machine'
machine=$($CC -dumpmachine | sed 's/-.*//')
[ -f "posix/$machine.S" ] || skip "posix/ has no $machine.S"
case $cflags in *-fsanitize=*) skip 'threads of sanitizers are those of libc' ;; esac

$MAKE -s --no-print-directory "B=$B" "CC=$CC" posix-tests >"$dir/make" 2>&1 ||
	die "posix does not build: $(tail -n 20 "$dir/make")"
library=$(echo "$PWD/$B/" | sed "s|.*//|/|")libusched-posix.so.$(version)
[ -f "$library" ] || library=$B/libusched-posix.so.$(version)
export USCHED_POSIX="$library"
run=posix/usched-run

# The layers, from below: a file calls only those before it. Symbols are weak only where
# another version of libc or of the program may lack them.
layers='conf fork record catch signal cancel time key stats exchange tls stall attr shared lock
	sync uposix c11 table way file fd io queue net poll stdio proc sigwait call futex load'
weak=' fork:uinspect__forked fork:upreempt__hold stall:dladdr stdio:__isoc23_vfscanf stdio:__isoc23_vfwscanf '
ls posix/uposix*.c | sed 's|posix/uposix_\{0,1\}||; s|\.c$||; s|^$|uposix|' | sort >"$dir/files"
echo "$layers" | xargs -n 1 | sort | cmp -s - "$dir/files" ||
	fail "layers: $(echo "$layers" | xargs -n 1 | sort | diff - "$dir/files")"
for name in $layers; do
	object=$B/posix/uposix_$name.o
	case $name in uposix) object=$B/posix/uposix.o ;; load) object=${object%o}lo ;; esac
	nm "$object" | awk -v "name=$name" '{ print name, $(NF - 1), $NF }'
done >"$dir/symbols"
awk -v "weak=$weak" '
!($1 in rank) { rank[$1] = ++ranks }
$2 ~ /^[TDBRVC]$/ { from[$3] = $1 }
$2 ~ /^[Uwv]$/ { file[++n] = $1; symbol[n] = $3 }
$2 ~ /^[wv]$/ && !index(weak, " " $1 ":" $3 " ") { print $1 " has a weak " $3 }

END {
	for (i = 1; i <= n; i++) {
		other = from[symbol[i]]
		if (other && rank[other] > rank[file[i]])
			print file[i] " calls " other ": " symbol[i]
		calls += other != ""
	}
	if (calls < 100)
		print "only " calls + 0 " calls between files were found"
}
' "$dir/symbols" >"$dir/out"
case $cflags in
*-flto*) ;;
*) [ ! -s "$dir/out" ] || fail "layers: $(cat "$dir/out")" ;;
esac

# The list, and what the library exports.
sed -n 's/^[NL]A[MT]ER*(\(.*\))$/\1/p' posix/uposix_names.h | sort >"$dir/names"
nm -D --defined-only "$library" | awk '{ print $3 }' | sort >"$dir/exported"
for name in $(of_make 'posix_names) $(posix_looks) $(posix_aliases) $(posix_refused') __gmon_start__; do echo "$name"; done |
	sort | cmp -s - "$dir/exported" ||
	fail "exported is something else: $(diff "$dir/names" "$dir/exported")"
# All names that this libc has for them, and programs may call.
nm -D --defined-only "$($CC -print-file-name=libc.so.6)" | awk '
$3 !~ /@@*GLIBC_PRIVATE/ { sub(/@.*/, "", $3); print $3, $1 }' |
	sort -u >"$dir/libc_names"
join "$dir/libc_names" "$dir/names" | awk '{ print $2 }' | sort -u >"$dir/addresses"
sort -k 2 "$dir/libc_names" | join -1 2 - "$dir/addresses" | awk '{ print $2 }' | sort -u |
	comm -23 - "$dir/exported" >"$dir/missing"
[ ! -s "$dir/missing" ] || fail "libc has these names, too: $(cat "$dir/missing")"
# None of its own calls goes to itself.
nm -D --undefined-only "$library" | awk '{ sub(/@.*/, "", $2); print $2 }' | sort -u |
	comm -12 - "$dir/names" >"$dir/unwrapped"
[ ! -s "$dir/unwrapped" ] || fail "calls that are not wrapped: $(cat "$dir/unwrapped")"

# What is done with descriptors: for each function with one in libc's headers, and as
# posix/uposix_names.h has it. glibc has __fp for the descriptor of preadv2().
for header in aio dirent execinfo fcntl mqueue netdb netinet/in poll pty resolv sgtty spawn \
	stdio stdlib stropts sys/epoll sys/eventfd sys/fanotify sys/file sys/inotify \
	sys/ioctl sys/mman sys/mount sys/pidfd sys/quota sys/select sys/sendfile \
	sys/signalfd sys/socket sys/stat sys/statfs sys/statvfs sys/time sys/timerfd \
	sys/uio sys/wait sys/xattr termios unistd utmp wchar
do
	printf '#if __has_include(<%s.h>)\n#include <%s.h>\n#endif\n' $header $header
done | $CC -D_GNU_SOURCE -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -E -P -x c - >"$dir/libc"
awk '
BEGIN { RS = ";" }

{
	gsub(/[ \t\n{}]+/, " ")
	gsub(/__attribute__ *\(\([^()]*(\([^()]*\)[^()]*)*\)\)/, "")
}

/__asm__/ { next }

/int (\* *)?(__restrict )?_*([a-z_]*fd(s|p|in|out|2|2p)?|fp|fildes|pipedes|amaster)[ ,)[]/ ||
/(mqd_t|DIR \*|aiocb(64)? \*|pollfd \*|fd_set \*)/ {
	if (match($0, /[a-z_0-9A-Z]+ *\(/)) {
		name = substr($0, RSTART, RLENGTH)
		sub(/ *\($/, "", name)
		print name
	}
}
' "$dir/libc" | sort -u >"$dir/takes"
echo '#include <sys/syscall.h>' | $CC -E -dM -x c - |
	sed -n 's/^#define \(SYS_[a-z0-9_]*\) .*/\1/p' >"$dir/numbers"
awk '
FILENAME ~ /table$/ {
	for (i = 2; !/^#/ && i <= NF; i++) {
		if ($i in what)
			print $i " has two rows"
		what[$i] = $1
	}
	next
}

FILENAME ~ /names$/ { replaced[$1] = 1; next }

FILENAME ~ /takes$/ {
	count++
	if (!($1 in what))
		print $1 "() has no row"
	next
}

FILENAME ~ /names.h$/ && /^(SYSCALL|MAKES|REFUSED)\(/ {
	split($0, part, /[(,)]/)
	row["SYS_" part[2]] = part[1]
	next
}

FILENAME ~ /numbers$/ { numbers[$1] = 1 }

function of(number) {
	return number in what ? what[number] : what[substr(number, 5)]
}

END {
	for (name in what)
		if (name !~ /^SYS_/ && (what[name] ~ /^(waits|knows|thread)$/) != (name in replaced))
			print name "() " what[name] ", and is " (name in replaced ? "" : "not ") "replaced"
	form["waits"] = form["knows"] = form["thread"] = "SYSCALL"
	form["makes"] = "MAKES"
	form["refused"] = "REFUSED"
	for (number in numbers)
		if (form[of(number)] != row[number])
			print number " " of(number) ", and is " (row[number] ? row[number] : "none")
	if (count < 150)
		print "only " count " functions were found"
}
' tests/scripts/descriptors.table "$dir/names" "$dir/takes" posix/uposix_names.h "$dir/numbers" \
	>"$dir/out"
[ ! -s "$dir/out" ] || fail "descriptors: $(cat "$dir/out")"

# passes WHAT COMMAND...: all tests of a program.
passes() {
	what=$1
	shift
	count=$((count + 1))
	limited "$@" >"$dir/out" 2>&1 && grep -q '  PASSED  ' "$dir/out" ||
		fail "$what: $(grep -v 'OK ' "$dir/out" | tail -n 20)"
}

for program in posix/test_uposix_*.c; do
	program=$B/${program%.c}
	name=${program##*/}
	export UPOSIX_QUIET=1
	passes "$name, compiled in" "$program"
	passes "$name, by preload" $run "$program.plain"
	passes "$name, shared stacks" $run --shared 4 "$program.plain"
	[ "${LONG:-0}" = 0 ] || {
		passes "$name, natively" "$program.plain"
		passes "$name, 8 processors" $run --processors 8 "$program.plain"
		for i in 1 2 3 4 5; do
			passes "$name, $i" $run "$program.plain"
		done
	}
done
# A locale with other letters and another point than those of C, if it can be made.
mkdir "$dir/locale"
localedef -i de_DE -f ISO-8859-1 "$dir/locale/de_DE" >/dev/null 2>&1
export LOCPATH="$dir/locale"
passes 'one processor' $run --processors 1 "$B/posix/test_uposix_threads.plain"
passes 'slices' $run --slice 1 --processors 1 "$B/posix/test_uposix_threads.plain"
passes 'few stacks' $run --stacks 50 "$B/posix/test_uposix_threads.plain"
unset LOCPATH

# The locks that a process has once, alone or in a struct, are found in the sources. Each
# one is held by another native thread while the program forks: a child that finds it held
# shows that it is not in the list of posix/uposix_fork.c.
# shellcheck disable=SC2046
awk '
# A type that is a lock, or known to have one.
function has(type) {
	return known[type] ||
		type ~ /^(pthread_(mutex|rwlock|spinlock)_t|struct uwait_lock)$/
}

# The type of a declaration; what follows is its name.
function type_of(line) {
	return match(line, /^(struct )?[a-z_0-9]+/) ? substr(line, 1, RLENGTH) : ""
}

function name_of(line) {
	sub(/^(struct )?[a-z_0-9]+ +/, "", line)
	sub(/[^a-z_0-9].*/, "", line)
	return line
}

FNR == 1 { body = "" }

/^(static )?struct( [a-z_]+)? \{$/ {
	body = $0
	sub(/^static /, "", body)
	body = body == "struct {" ? "struct " FILENAME : substr(body, 1, length(body) - 2)
	next
}

body && /^\}/ {
	sub(/^\} *(__attribute__\(\(.*\)\))? */, "")
	sub(/[^a-z_].*/, "")
	if ($0)
		variables[++n] = body "|" $0
	body = ""
	next
}

body && /^\t(pthread_[a-z]+_t|struct [a-z_]+) +[a-z_]+(\[.*\])?;/ {
	members[++m] = body "|" type_of(substr($0, 2))
	next
}

/^(\t*static )?(pthread_[a-z]+_t|struct [a-z_]+) +[a-z_]+(\[.*\])?( =|;|,)/ {
	sub(/^\t*static /, "")
	variables[++n] = type_of($0) "|" name_of($0)
}

END {
	do {
		more = 0
		for (i = 1; i <= m; i++) {
			split(members[i], w, "|")
			if (!known[w[1]] && has(w[2]))
				known[w[1]] = more = 1
		}
	} while (more)
	for (i = 1; i <= n; i++) {
		split(variables[i], w, "|")
		if (has(w[1]))
			print w[2]
	}
}
' ./*.[ch] src/*/* $(ls posix/*.[ch] debug/*.c tls/*.[ch] | grep -v /test_) |
	sort -u >"$dir/locks"
# How it is taken, its name, and the bytes from one to the next in an array.
cat >"$dir/kinds" <<'END'
spin   buckets 64
mutex  installing
mutex  inspector
mutex  key_lock
mutex  list_lock
spin   looking
usync  making
mutex  names_lock
mutex  offload
mutex  pool_lock
usync  once_lock
spin   once_over
mutex  pollers_lock
spin   rooms 16
mutex  streams_lock
mutex  table_lock
spin   uposix__lock
spin   writing
END
# Those of builds that check are not here.
absent=held_lock
grep -v "^\($absent\)\$" "$dir/locks" >"$dir/found"
awk '{ print $2 }' "$dir/kinds" | sort | cmp -s - "$dir/found" ||
	fail "locks: $(awk '{ print $2 }' "$dir/kinds" | sort | diff - "$dir/found")"
program=$B/posix/test_uposix_fork
nm -S "$program" >"$dir/symbols"
main=$(awk '$NF == "read_locks" { print $1 }' "$dir/symbols")
UPOSIX_LOCKS=$(while read -r kind name size; do
	# shellcheck disable=SC2046
	set -- $(awk -v "name=$name" '$NF == name { print $1, $2 }' "$dir/symbols")
	[ $# -eq 2 ] || echo "no $name"
	[ -n "$size" ] || size=$((0x$2))
	echo "$kind $name $((0x$1 - 0x$main)) $size $((0x$2 / size))"
done <"$dir/kinds")
export UPOSIX_LOCKS
passes 'locks at a fork' "$program"
! grep -q SKIPPED "$dir/out" || fail "locks at a fork: $(cat "$dir/out")"
unset UPOSIX_LOCKS
unset UPOSIX_QUIET

# What the programs below share.
{
	echo '#define _GNU_SOURCE'
	printf '#include <%s.h>\n' dlfcn errno fcntl link linux/futex poll pthread sched semaphore \
		signal stdint stdio stdlib string sys/eventfd sys/fsuid sys/resource sys/select \
		sys/socket sys/syscall sys/timerfd sys/wait time unistd
	cat <<-'END'
	static inline pthread_t start(void *(*f)(void *), void *arg)
	{
		pthread_t t;

		if (pthread_create(&t, NULL, f, arg))
			abort();
		return t;
	}
	static inline void *join(pthread_t t)
	{
		void *result;

		return pthread_join(t, &result) ? abort(), NULL : result;
	}
	END
} >"$dir/all.h"
# build NAME OPTION... <SOURCE
build() {
	name=$1
	shift
	{ echo '#include "all.h"'; cat; } >"$dir/$name.c"
	# shellcheck disable=SC2086
	$CC -O1 -Wall -o "$dir/$name" "$dir/$name.c" "$@" -pthread >"$dir/errors" 2>&1 ||
		die "$name: $(cat "$dir/errors")"
}

# main() ends first; what is left ends the process. The name says whether a thread that
# main() forked later does.
build late <<'END'
static void *late(void *unused)
{
	sleep(1);
	puts("late");
	return unused;
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1 && daemon(1, 1))
		return 1;
	if (argc > 1)
		return join(start(late, NULL)) != NULL;
	pthread_detach(start(late, NULL));
	pthread_exit(NULL);
}
END
out=$(limited $run "$dir/late" 2>&1)
same 'main() ends first' '0 late' "$? $out"
same 'a daemon' late "$(limited $run "$dir/late" daemon 2>&1)"

# Messages go to a file that is named; those of a daemon to syslog, which is made up here,
# and never into a connection that got the number of standard error.
cat >"$dir/syslog.c" <<'END'
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void syslog(int priority, const char *format, ...)
{
	int fd = open(getenv("SYSLOG"), O_WRONLY | O_APPEND | O_CREAT, 0644);
	va_list list;

	va_start(list, format);
	dprintf(fd, "%d ", priority);
	vdprintf(fd, format, list);
	va_end(list);
	close(fd);
}
END
$CC -fPIC -shared -o "$dir/libsyslog.so" "$dir/syslog.c" || die 'a library does not build'
build tells <<'END'
static __thread int own;

static void *run(void *arg)
{
	own++;
	return arg;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int ends[2] = { -1, -1 };
	char c;

	if (strcmp(how, "null") == 0)
		dup2(open("/dev/null", O_RDWR), 2);
	if (*how && strcmp(how, "null") != 0)
		close(2);
	if (strcmp(how, "socket") == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	join(start(run, NULL));
	return ends[0] >= 0 && recv(ends[1], &c, 1, MSG_DONTWAIT) > 0 ? 3 : 0;
}
END
told='\(tells has 4 bytes of\|threads have\) thread-local variables'
for how in null closed socket; do
	rm -f "$dir/syslog"
	limited env SYSLOG="$dir/syslog" LD_PRELOAD="$dir/libsyslog.so" \
		$run "$dir/tells" $how >"$dir/out" 2>&1 ||
		fail "messages, $how: exit status $?"
	same "messages, $how" '' "$(cat "$dir/out")"
	has "^28 usched: $told" "$dir/syslog"
done
limited env UPOSIX_LOG="$dir/log" $run "$dir/tells" null || fail 'messages in a file'
has "^usched: $told" "$dir/log"
limited $run "$dir/tells" 2>"$dir/out" || fail 'messages'
has "^usched: $told" "$dir/out"

# Not through a link, or into what another user has; and without control characters of what
# is repeated, here of a number, the last one in UTF-8.
ln -s elsewhere "$dir/link"
limited env UPOSIX_LOG="$dir/link" UPOSIX_STATS="$dir/link" $run "$dir/tells" \
	>"$dir/out" 2>&1 || fail 'links'
has "^usched: $told" "$dir/out"
has '^usched: UPOSIX_STATS: cannot write .*/link: ' "$dir/out"
[ ! -e "$dir/elsewhere" ] || fail "messages go through a link: $(cat "$dir/elsewhere")"
UPOSIX_STACKS=$(printf 'x\nusched: y\033[2J\177\302\233z') limited $run "$dir/tells" >"$dir/out" 2>&1 ||
	fail 'control characters'
has '^usched: UPOSIX_STACKS=x?usched: y?\[2J???z is no number' "$dir/out"

# A set-user-ID program does not look at what its caller has in the environment.
mkdir "$dir/suid"
chmod 755 "$dir" "$dir/suid"
cp "$library" "$dir/suid/libusched-posix.so.$(version | cut -d. -f1-2)"
$CC -o "$dir/suid/tells" "$dir/tells.c" -Wl,--no-as-needed "$library" \
	-Wl,-rpath,"$dir/suid" -pthread || fail 'a set-user-ID program does not build'
chmod 4755 "$dir/suid/tells"
echo secret >"$dir/suid/secret"
chmod 777 "$dir/suid"
chmod 600 "$dir/suid/secret"
cp "$(command -v id)" "$dir/suid/id"
chmod 4755 "$dir/suid/id"
as_nobody='limited setpriv --reuid 65534 --regid 65534 --clear-groups'
if [ "$($as_nobody "$dir/suid/id" -u 2>&1)" != 0 ]; then
	note 'set-user-ID programs: skipped: not root, no setpriv, or they have no effect here'
else
	$as_nobody env UPOSIX_STACKS=text UPOSIX_LOG="$dir/suid/log" \
		UPOSIX_STATS="$dir/suid/secret" "$dir/suid/tells" >"$dir/out" 2>&1 ||
		fail 'a set-user-ID program'
	has "^usched: $told" "$dir/out"
	same 'what the caller asked for' '' "$(grep UPOSIX "$dir/out")"
	same 'a file of the owner' secret "$(cat "$dir/suid/secret")"
	[ ! -e "$dir/suid/log" ] || fail "the owner writes the caller's log"
	$as_nobody touch "$dir/suid/log"
	limited env UPOSIX_LOG="$dir/suid/log" $run "$dir/tells" >"$dir/out" 2>&1 || fail "another user's log"
	has "^usched: $told" "$dir/out"
	[ ! -s "$dir/suid/log" ] || fail "root writes another user's log"
fi

# What the kernel keeps with a processor is told, once for each call, to threads.
build keeps <<'END'
static void *sets(void *unused)
{
	cpu_set_t cpus;

	for (int i = 0; i < 2; i++) {
		setfsuid(getuid());
		setfsgid(getgid());
		unshare(0);
		setns(-1, 0);
		sched_getaffinity(0, sizeof cpus, &cpus);
		sched_setaffinity(0, sizeof cpus, &cpus);
		setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0));
		syscall(SYS_setresuid, -1, -1, -1);
		syscall(SYS_setfsgid, getgid());
		syscall(SYS_unshare, 0);
	}
	return unused;
}

int main(void)
{
	long uid = setfsuid(getuid());

	sets(NULL);
	join(start(sets, NULL));
	return setfsuid(-1) != uid || unshare(1) != -1;
}
END
limited $run "$dir/keeps" >"$dir/out" 2>&1 || fail "keeps: $(cat "$dir/out")"
for name in 'setfsuid()' 'setfsgid()' 'unshare()' 'setns()' 'sched_setaffinity()' \
	'setpriority()' SYS_setresuid SYS_setfsgid SYS_unshare
do
	same "told of $name" 1 "$(grep -cF "usched: $name: the kernel keeps" "$dir/out")"
done
same 'told of all' 9 "$(wc -l <"$dir/out")"

# A native thread forks, and is all that the child has besides what it starts itself.
build splits <<'END'
static void *late(void *unused)
{
	usleep(20000);
	return unused;
}

static void *split(void *how)
{
	int status;
	pid_t child = fork();
	pthread_t t;

	if (child > 0) {
		waitpid(child, &status, 0);
		printf("%d ", status);
		fflush(stdout);
		return NULL;
	}
	alarm(100);
	t = start(late, NULL);
	if (how)
		pthread_exit(join(t));
	return NULL;
}

int main(void)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, aligned_alloc(4096, 1 << 20), 1 << 20);
	for (int i = 0; i < 2; i++) {
		pthread_create(&t, &attr, split, i ? &t : NULL);
		pthread_join(t, NULL);
	}
	return 0;
}
END
same 'a fork by a native thread' '0 0 ' "$(limited $run "$dir/splits" 2>&1)"

# A thread forks while main() has its record.
build renames <<'END'
static volatile int stop;

static void nothing(int sig)
{
	(void)sig;
}

static void *run(void *unused)
{
	int status = 0;
	pid_t child;

	for (int i = 0; i < 100 && status == 0; i++) {
		child = fork();
		if (child == 0) {
			alarm(100);
			pthread_setname_np(pthread_self(), "child");
			_exit(0);
		}
		while (waitpid(child, &status, 0) != child)
			;
	}
	printf("%d", status);
	stop = 1;
	return unused;
}

int main(void)
{
	struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };
	pthread_t t;

	sigaction(SIGUSR1, &action, NULL);
	t = start(run, NULL);
	while (!stop) {
		for (int i = 0; i < 10; i++)
			pthread_kill(t, SIGUSR1);
		usleep(50);
	}
	return join(t) != NULL;
}
END
same 'a fork beside pthread_kill()' 0 "$(limited $run "$dir/renames" 2>&1)"

# A handler of main() sends a signal to the thread, on whose way main() itself may be: here
# the thread runs, and has it run, while main() is still in pthread_kill().
build sends <<'END'
static pthread_t self, t;
static sem_t over;
static volatile int caught;

/* Of the thread, which may run while main() is about to wake it. */
static void answer(int sig)
{
	(void)sig;
	pthread_kill(self, SIGUSR2);
}

static void send_on(int sig)
{
	caught += sig == SIGUSR2;
	pthread_kill(t, SIGCONT);
}

static void *run(void *unused)
{
	while (sem_wait(&over))
		;
	return unused;
}

int main(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof one, &one);
	self = pthread_self();
	sem_init(&over, 0, 0);
	signal(SIGUSR1, answer);
	signal(SIGUSR2, send_on);
	signal(SIGCONT, SIG_IGN);
	t = start(run, NULL);
	for (int i = 0; i < 300; i++) {
		int before = caught;

		pthread_kill(t, SIGUSR1);
		while (caught == before)
			usleep(100);
	}
	sem_post(&over);
	join(t);
	puts("sent");
	return 0;
}
END
same 'a handler that sends' sent "$(limited $run "$dir/sends" 2>&1)"

# A wait for a condition of several processes needs no memory to get its mutex again.
build relocks <<'END'
extern void *__libc_malloc(size_t);
static pthread_mutex_t m;
static pthread_cond_t c;
static volatile int fails;

void *malloc(size_t size)
{
	return fails ? NULL : __libc_malloc(size);
}

static void *run(void *unused)
{
	struct timespec soon;

	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec++;
	for (int i = 0; i < 2; i++)
		pthread_mutex_lock(&m);
	fails = 1;
	pthread_cond_timedwait(&c, &m, &soon);
	fails = 0;
	for (int i = 0; i < 3; i++)
		printf("%d ", pthread_mutex_unlock(&m));
	return unused;
}

int main(void)
{
	pthread_mutexattr_t attr;
	pthread_condattr_t attr_c;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&m, &attr);
	pthread_condattr_init(&attr_c);
	pthread_condattr_setpshared(&attr_c, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&c, &attr_c);
	return join(start(run, NULL)) != NULL;
}
END
same 'a wait without memory' '0 0 1 ' "$(limited $run "$dir/relocks" 2>&1)"

# Whether threads can have TLS blocks of their own. Where the CPU lets them they must.
build begins <<'END'
static void *run(void *unused)
{
	return unused;
}

int main(void)
{
	pthread_t t;
	int rc = pthread_create(&t, NULL, run, NULL);

	return rc ? rc != ENOTSUP ? 2 : 1 : join(t) != NULL;
}
END
blocks=
if limited $run --tls own "$dir/begins" >"$dir/out" 2>&1; then
	blocks=1
elif [ "$machine" = x86_64 ] && grep -qw fsgsbase /proc/cpuinfo; then
	fail "no TLS blocks here: $(cat "$dir/out")"
else
	has '^usched: UPOSIX_TLS=own: threads cannot have .* of their own: ' "$dir/out"
fi

# With slices, a call that keeps its processor is told of, once for each place.
if [ "$blocks" ] && [ "$machine" = x86_64 ]; then
	build naps <<'END'
#include <sys/syscall.h>
#include <time.h>

static void nap_below(void)
{
	struct timespec t = { 0, 100000000 };
	long rc = SYS_nanosleep;

	__asm__ volatile("syscall" : "+a"(rc) : "D"(&t), "S"(0) : "rcx", "r11", "memory");
}

static void *run(void *unused)
{
	for (int i = 0; i < 4; i++)
		nap_below();
	return unused;
}

int main(void)
{
	return join(start(run, NULL)) != NULL;
}
END
	limited $run --slice 5 "$dir/naps" >"$dir/out" 2>&1 || fail 'naps fails'
	same 'a call that keeps its processor' 1 "$(grep -c \
		'^usched: processor .* has been in system call 35 for 20 ms, at .*naps' \
		"$dir/out")"
fi

# Programs are to find no io_uring and no libaio: each wait there would be a system call.
build waits_below -ldl <<'END'
int main(void)
{
	const char *const names[] = { "io_uring_queue_init", "io_uring_queue_init_params",
				      "io_setup" };

	for (size_t i = 0; i < 3; i++) {
		int (*init)(unsigned, void *, unsigned) = (int (*)(unsigned, void *, unsigned))
			dlsym(RTLD_DEFAULT, names[i]);

		if (!init || init(8, NULL, 0) != -ENOSYS)
			return 1;
	}
	return 0;
}
END
limited $run "$dir/waits_below" || fail 'io_uring or libaio is not refused'

# Variables that threads share are told, of the program and of what it loads later.
cat >"$dir/plug.c" <<'END'
__thread int variable = 1;
int *where(void) { return &variable; }
END
$CC -fPIC -shared -o "$dir/plug.so" "$dir/plug.c" || die 'a library does not build'
build loads -ldl <<'END'
static __thread int own;

static void *run(void *unused)
{
	own++;
	return unused;
}

int main(int argc, char **argv)
{
	for (int i = 0; i < 2; i++) {
		join(start(run, NULL));
		if (i == 0 && argc > 1 && !dlopen(argv[1], RTLD_NOW))
			return 1;
		if (argc > 2)
			break;
	}
	return 0;
}
END
limited $run --tls none "$dir/loads" "$dir/plug.so" >"$dir/out" 2>&1 || fail 'loads fails'
has '^usched: loads has 4 bytes of thread-local .*\. If it fails, try usched-run --tls exchange$' \
	"$dir/out"
has '^usched: plug.so has 4 bytes .* cannot be exchanged: they came by dlopen()\. .* natively$' \
	"$dir/out"
same 'lines told' 2 "$(wc -l <"$dir/out")"
limited $run --tls none "$dir/loads" "$dir/plug.so" once >"$dir/out2" 2>&1 ||
	fail 'loads fails'
same 'told when it is loaded' "$(cat "$dir/out")" "$(cat "$dir/out2")"
cp "$dir/plug.so" "$dir/libcom_err.so.2"
limited $run --tls none "$dir/loads" "$dir/libcom_err.so.2" >"$dir/out" 2>&1 ||
	fail 'loads fails'
same 'a library known to be harmless' 1 "$(wc -l <"$dir/out")"
if [ -n "$blocks" ]; then
	limited $run "$dir/loads" "$dir/plug.so" >"$dir/out" 2>&1 || fail 'loads fails'
	same 'own variables' 'usched: threads have thread-local variables of their own: loads' \
		"$(cat "$dir/out")"
fi
same 'quiet' '' "$(limited $run --quiet "$dir/loads" "$dir/plug.so" 2>&1)"
same 'without threads' '' "$(limited $run true 2>&1)"

# Another native thread has libc's lock of the objects at a fork, which stays closed in the
# child. The child starts a thread, which has variables of its own or not, and waits.
build forks <<'END'
static __thread sem_t own;
static sem_t begun, posted;

static int hold(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)info, (void)size, (void)unused;
	sem_post(&begun);
	pause();
	return 1;
}

static void *holds(void *unused)
{
	dl_iterate_phdr(hold, NULL);
	return unused;
}

static void *waits(void *sem)
{
	if (!sem)
		sem_init(sem = &own, 0, 0);
	sem_wait(sem);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_attr_t attr;
	pthread_t t;
	int status;

	(void)argv;
	sem_init(&begun, 0, 0);
	sem_init(&posted, 0, 1);
	join(start(waits, &posted));
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, aligned_alloc(4096, 1 << 20), 1 << 20);
	pthread_create(&t, &attr, holds, NULL);
	sem_wait(&begun);
	if (fork() == 0) {
		alarm(100);
		t = start(waits, argc > 1 ? NULL : &posted);
		sem_post(&posted);
		join(t);
		_exit(0);
	}
	wait(&status);
	printf("%d\n", status & 0x7f);
	return 0;
}
END
[ -z "$blocks" ] || same 'a child, own variables' 0 "$(limited $run "$dir/forks" 2>/dev/null)"
for option in --tls=none --tls=exchange; do
	same "a child, $option" 0 "$(limited $run $option "$dir/forks" 2>/dev/null)"
	same "a child, $option: a wait for what is refused" 6 \
		"$(ulimit -c 0; limited $run $option "$dir/forks" own 2>/dev/null)"
done

# With blocks of their own threads are to libc what native threads are: <ctype.h>, the
# resolver's state, FILEs, keys and setuid(), which signals all native threads. A library
# that is loaded late has its variables in blocks that are there already, and an object in
# them may be waited for.
build lives -ldl <<'END'
#include <ctype.h>
#include <netdb.h>
#include <resolv.h>

enum { THREADS = 40, FIRST = 60 };      /* more, whose blocks are left at the load */

static __thread sem_t own;
static sem_t *given[THREADS];
static int *(*where)(void);
static int wrong, ready;

static void check(int right)
{
	if (!right)
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static void *begin(void *arg)
{
	usleep(20000);
	check(!where || *where() == 1);
	return arg;
}

static void *run(void *arg)
{
	size_t n = (size_t)arg;

	check(isspace(' ') && !isspace('x') && toupper('a') == 'A');
	_res.retry = (int)n;
	sem_init(&own, 0, 0);
	given[n] = &own;
	__atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
	sem_wait(&own);                         /* main() posts through the address */
	check(where && *where() == 1);
	*where() = (int)n;
	for (int i = 0; i < 20; i++) {
		usleep(100);
		errno = (int)n;
		sched_yield();
		check(*where() == (int)n && errno == (int)n && _res.retry == (int)n);
		check(strtol("7", NULL, 10) == 7);
	}
	if (n == 1)
		check(setuid(getuid()) == 0);
	free(malloc(100 * n + 1));
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[FIRST];
	void *object;

	(void)argc;
	for (size_t i = 0; i < FIRST; i++)
		t[i] = start(begin, NULL);
	for (size_t i = 0; i < FIRST; i++)
		join(t[i]);
	for (int round = 0; round < 2; round++) {
		ready = 0;
		for (size_t i = 0; i < THREADS; i++)
			t[i] = start(run, (void *)i);
		while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < THREADS)
			usleep(100);
		object = dlopen(argv[1], RTLD_NOW);
		if (object)
			where = (int *(*)(void))dlsym(object, "where");
		join(start(begin, NULL));
		for (size_t i = 0; i < THREADS; i++)
			sem_post(given[i]);
		for (size_t i = 0; i < THREADS; i++)
			join(t[i]);
	}
	puts(wrong ? "wrong" : "right");
	return 0;
}
END
sed 's/^__thread/& __attribute__((tls_model("initial-exec")))/' "$dir/plug.c" >"$dir/static.c"
$CC -fPIC -shared -o "$dir/static.so" "$dir/static.c" || die 'a library does not build'
for object in plug static; do
	same "libc's state, natively" right "$(limited "$dir/lives" "$dir/$object.so" 2>&1)"
	for options in '--processors 1' '--processors 2' '--shared 1'; do
		# shellcheck disable=SC2086
		[ -z "$blocks" ] || same "libc's state, $object, $options" right \
			"$(limited $run --quiet $options "$dir/lives" "$dir/$object.so" 2>&1)"
	done
done

# Threads with blocks move to processors that have nothing to do, and keep variables and
# errno, at the same addresses. The threads of one processor end first.
build moves <<'END'
static __thread long own;
static int moved, wrong, first;

static void *run(void *arg)
{
	long n = (long)arg, begin = time(NULL);
	long *where = &own;
	int *error = &errno;
	pid_t at = gettid();

	if (n == 0)
		first = at;
	for (*where = n; !moved && time(NULL) < begin + 4; ) {
		*error = (int)n;
		for (volatile int i = 0; i < 10000; i++)
			;
		sched_yield();
		if (gettid() != at)
			__atomic_store_n(&moved, 1, __ATOMIC_RELAXED);
		if (&errno != error || errno != n || &own != where || own != n)
			__atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
		if (at == first && time(NULL) > begin + 1)
			break;
	}
	return NULL;
}

int main(void)
{
	pthread_t t[8];

	for (long i = 0; i < 8; i++)
		t[i] = start(run, (void *)i);
	for (int i = 0; i < 8; i++)
		join(t[i]);
	puts(wrong ? "wrong" : moved ? "moved" : "stayed");
	return 0;
}
END
for options in --tls=own '--tls=own --stay'; do
	[ "$options" = --tls=own ] && to=moved || to=stayed
	# shellcheck disable=SC2086
	[ -z "$blocks" ] || same "moves, $options" $to \
		"$(limited $run --quiet --processors 2 $options "$dir/moves" 2>&1)"
done

# Variables that belong to threads: those of the program and of a library, which others
# may have changed whenever a thread has let them run.
cat >"$dir/keeps.h" <<'END'
struct large { long number; char text[3000]; } __attribute__((aligned(64)));
struct large *of_library(void);
END
cat >"$dir/libkeeps.c" <<'END'
#include "keeps.h"
static __thread struct large large = { .text = "new" };
struct large *of_library(void) { return &large; }
END
$CC -fPIC -shared -o "$dir/libkeeps.so" "$dir/libkeeps.c" || die 'a library does not build'
build keeps "$dir/libkeeps.so" -Wl,-rpath="$dir" <<'END'
#include "keeps.h"

enum { THREADS = 50, ROUNDS = 200 };

static __thread long first = 42, last;
static __thread char text[100] = "new";
static __thread long *self;
static pthread_key_t key;
static int wrong;

static void check(int right)
{
	if (!right)
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static void look(long n)
{
	char expected[20];

	snprintf(expected, sizeof expected, "thread %ld", n);
	check(first == n && last == n && self == &first);
	check(strcmp(text, expected) == 0);
	check(of_library()->number == n);
	check(strcmp(of_library()->text, expected) == 0);
}

/* The destructor of a key has them, too. */
static void destroy(void *value)
{
	usleep(100);
	look((long)(size_t)value);
}

static void *child(void *unused)
{
	check(first == 42 && last == 0 && strcmp(text, "new") == 0 && !self);
	first = last = -1;
	sched_yield();
	check(first == -1 && last == -1);
	return unused;
}

static void *run(void *arg)
{
	long n = (long)(size_t)arg;
	unsigned seed = (unsigned)n;

	check(first == 42 && last == 0 && strcmp(text, "new") == 0 && !self);
	check(of_library()->number == 0 && strcmp(of_library()->text, "new") == 0);
	pthread_setspecific(key, arg);
	self = &first;
	for (int i = 0; i < ROUNDS; i++) {
		first = last = n;
		of_library()->number = n;
		snprintf(text, sizeof text, "thread %ld", n);
		snprintf(of_library()->text, sizeof text, "thread %ld", n);
		errno = (int)n;
		if (rand_r(&seed) % 16)
			sched_yield();
		else
			usleep(rand_r(&seed) % 300);
		check(errno == (int)n);
		look(n);
	}
	if (n % 4 == 0) {
		join(start(child, NULL));
		look(n);
	}
	if (n % 4 == 1)
		pthread_exit(NULL);
	return NULL;
}

int main(void)
{
	pthread_t t[THREADS];

	pthread_key_create(&key, destroy);
	first = 7;
	for (int round = 0; round < 3; round++) {
		for (size_t i = 1; i < THREADS; i++)
			t[i] = start(run, (void *)i);
		for (size_t i = 1; i < THREADS; i++)
			join(t[i]);
	}
	check(first == 7 && last == 0);
	puts(wrong ? "wrong" : "right");
	return 0;
}
END
same 'variables, natively' right "$(limited "$dir/keeps" 2>&1)"
same 'variables that are shared' wrong \
	"$(limited $run --quiet --tls none --processors 1 "$dir/keeps" 2>&1)"
for options in '--processors 1' '--processors 2' '--shared 1' '--shared 3'; do
	# shellcheck disable=SC2086
	[ -z "$blocks" ] || same "own variables of threads, $options" right \
		"$(limited $run --quiet $options "$dir/keeps" 2>&1)"
	# shellcheck disable=SC2086
	same "variables of threads, $options" right \
		"$(limited $run --tls exchange $options "$dir/keeps" 2>&1)"
done

# Those of an object that a constructor has loaded, and would unload.
cat >"$dir/libloads.c" <<'END'
#include <dlfcn.h>
#include <stdlib.h>
static void *object;
int *(*where)(void);
__attribute__((constructor)) static void load(void)
{
	object = dlopen(getenv("PLUG"), RTLD_NOW);
	if (object && (where = (int *(*)(void))dlsym(object, "where")))
		*where() = 7;
}
void unload(void) { dlclose(object); }
END
$CC -fPIC -shared -o "$dir/libloads.so" "$dir/libloads.c" -ldl ||
	die 'a library does not build'
build constructs "$dir/libloads.so" -Wl,-rpath="$dir" <<'END'
extern int *(*where)(void);
void unload(void);
static int wrong;

static void *give(void *arg)
{
	return arg;
}

static void *run(void *unused)
{
	wrong += *where() != 1;
	for (int i = 2; i < 10; i++) {
		*where() = i;
		sched_yield();
		wrong += *where() != i;
	}
	return unused;
}

int main(void)
{
	pthread_t t[8];

	for (int i = 0; i < 8; i++)
		t[i] = start(run, NULL);
	for (int i = 0; i < 8; i++)
		join(t[i]);
	printf("%d %d\n", *where(), wrong);
	fflush(stdout);
	unload();
	return join(start(give, NULL)) != NULL;
}
END
PLUG=$dir/plug.so
export PLUG
for options in '--tls exchange' ${blocks:+--quiet}; do
	# shellcheck disable=SC2086
	out=$(limited $run --processors 1 $options "$dir/constructs" 2>&1)
	same "variables of what a constructor loads, $options" '0 7 0' "$? $out"
done

# An object in such variables that a thread waits for is refused, for no other reaches it,
# and so is one in variables that threads share, which is one instead of many.
build waits <<'END'
static __thread sem_t sem;
static __thread pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static __thread int word;

static void *run(void *how)
{
	sem_init(&sem, 0, 0);
	if (strcmp(how, "sem") == 0)
		sem_wait(&sem);
	else if (strcmp(how, "futex") == 0)
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL);
	else if (strcmp(how, "cond") == 0)
		pthread_mutex_lock(&mutex), pthread_cond_wait(&cond, &mutex);
	else
		pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex);
	return NULL;
}

int main(int argc, char **argv)
{
	return argc != 2 || join(start(run, argv[1])) != NULL;
}
END
for options in '--tls exchange' '--tls none'; do
	for how in sem futex cond; do
		limited $run $options "$dir/waits" $how >"$dir/out" 2>&1
		same "$options, a wait for a $how" 134 $?
		has '^usched: a thread waits for the object 0x.* natively$' "$dir/out"
	done
	limited $run $options "$dir/waits" mutex || fail "$options: a free mutex"
done

# What is exchanged is destroyed when its thread ends, the last one first, and may register
# more then; with exit(), that of the thread that calls it; and what is not exchanged at
# the end of the native thread. All threads have registered before the first ends.
build ends <<'END'
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle __attribute__((visibility("hidden")));

static __thread int first, second;
static pthread_key_t key;
static sem_t ready, go[3];

static void end(void *object)
{
	printf("%d\n", *(int *)object);
	if (*(int *)object == 20)
		__cxa_thread_atexit_impl(end, &first, &__dso_handle);
}

static void end_of_key(void *value)
{
	printf("key %d\n", (int)(intptr_t)value);
}

static void *run(void *arg)
{
	int number = (int)(intptr_t)arg;

	first = number;
	second = 10 * number;
	pthread_setspecific(key, arg);
	__cxa_thread_atexit_impl(end, &first, &__dso_handle);
	usleep(1000);
	__cxa_thread_atexit_impl(end, &second, &__dso_handle);
	sem_post(&ready);
	sem_wait(&go[number - 1]);
	if (number == 3)
		exit(0);
	return NULL;
}

int main(void)
{
	pthread_t t[3];

	pthread_key_create(&key, end_of_key);
	for (intptr_t i = 0; i < 3; i++)
		t[i] = start(run, (void *)(i + 1));
	for (int i = 0; i < 3; i++)
		sem_wait(&ready);
	for (int i = 0; i < 3; i++) {
		sem_post(&go[i]);
		join(t[i]);
	}
	return 1;
}
END
ends='10 1 key 1 20 2 2 key 2 30 3 '
same 'destructors, natively' "$ends" "$(limited "$dir/ends" | tr '\n' ' ')"
for options in '--processors 1' '--processors 2' '--shared 1'; do
	# shellcheck disable=SC2086
	same "destructors, $options" "$ends" \
		"$(limited $run --tls exchange $options "$dir/ends" | tr '\n' ' ')"
	# shellcheck disable=SC2086
	[ -z "$blocks" ] || same "own destructors, $options" "$ends" \
		"$(limited $run $options "$dir/ends" | tr '\n' ' ')"
done

# What cannot be exchanged is told.
build creates -ldl <<'END'
static void *run(void *arg)
{
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t;

	for (int i = 0; i < argc; i++) {
		int rc = pthread_create(&t, NULL, run, NULL);

		puts(strerror(rc));
		if (rc == 0)
			pthread_join(t, NULL);
		if (i + 1 < argc && !dlopen(argv[i + 1], RTLD_NOW))
			return 1;
	}
	return 0;
}
END
limited $run --tls exchange "$dir/creates" "$dir/plug.so" >"$dir/out" 2>&1 ||
	fail "--tls exchange: $(cat "$dir/out")"
same 'threads' 2 "$(grep -c '^Success$' "$dir/out")"
has '^usched: plug.so has 4 bytes .* cannot be exchanged: they came by dlopen()\. ' "$dir/out"
limited $run --tls program "$dir/creates" >"$dir/out" 2>&1 || fail 'a wrong --tls'
has '^usched: UPOSIX_TLS=program is not own, none or exchange: it is ignored$' "$dir/out"

# Objects that manage native threads themselves are told, and start no thread: by their
# names, or by the note of Go's linker. A program that is linked with one ends at once.
cat >"$dir/note.c" <<'END'
static const struct { int name, length, kind; char owner[4], id[4]; } note
	__attribute__((section(".note.go.buildid"), aligned(4), used)) =
	{ 4, 4, 4, "Go", "id" };
END
$CC -fPIC -shared -o "$dir/golib.so" "$dir/note.c" || die 'a library does not build'
cp "$dir/plug.so" "$dir/libjvm.so"
for object in golib.so libjvm.so; do
	limited $run "$dir/creates" "$dir/$object" >"$dir/out" 2>&1
	has "^usched: $object cannot be run over usched: .* natively\$" "$dir/out"
	same "$object" 'Operation not supported' "$(tail -n 1 "$dir/out")"
	same "threads before $object" 1 "$(grep -c '^Success$' "$dir/out")"
	$CC -o "$dir/linked" "$dir/creates.c" -pthread -Wl,--no-as-needed "$dir/$object" \
		-Wl,-rpath,"$dir" || die 'a program does not build'
	limited $run "$dir/linked" >"$dir/out" 2>&1
	same "exit status with $object" 2 $?
	same "lines with $object" 1 "$(wc -l <"$dir/out")"
	has "^usched: $object cannot be run over usched: " "$dir/out"
done

# The older version of conditions, and functions that libc calls by other names.
if [ "$machine" = x86_64 ]; then
	build old <<'END'
__asm__(".symver pthread_cond_wait, pthread_cond_wait@GLIBC_2.2.5");
__asm__(".symver pthread_cond_signal, pthread_cond_signal@GLIBC_2.2.5");
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int ready;

static void *run(void *unused)
{
	pthread_mutex_lock(&m);
	ready = 1;
	pthread_cond_signal(&c);
	pthread_mutex_unlock(&m);
	return unused;
}

int main(void)
{
	pthread_t t;

	pthread_mutex_lock(&m);
	t = start(run, NULL);
	while (!ready)
		pthread_cond_wait(&c, &m);
	pthread_mutex_unlock(&m);
	join(t);
	puts("old");
	return 0;
}
END
	same 'old conditions' old "$(limited $run "$dir/old" 2>&1)"
fi
build aliases -ldl <<'END'
#define CALL(name, like) ((__typeof__(&like))dlsym(RTLD_DEFAULT, name))

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int to_main[2], to_thread[2];

static void *run(void *unused)
{
	char c;

	CALL("__read", read)(to_thread[0], &c, 1);
	CALL("__pthread_mutex_lock", pthread_mutex_lock)(&m);
	CALL("__pthread_mutex_unlock", pthread_mutex_unlock)(&m);
	CALL("__write", write)(to_main[1], "", 1);
	return unused;
}

static void *writes(void *unused)
{
	struct pollfd fd = { .fd = to_main[0], .events = POLLIN };
	fd_set set;

	CALL("__pthread_mutex_lock", pthread_mutex_lock)(&m);
	CALL("__write", write)(to_thread[1], "", 1);
	CALL("__nanosleep", nanosleep)(&(struct timespec){ 0, 1000000 }, NULL);
	pthread_mutex_unlock(&m);
	CALL("__poll", poll)(&fd, 1, -1);
	FD_ZERO(&set);
	FD_SET(fd.fd, &set);
	printf("%d\n", CALL("__select", select)(fd.fd + 1, &set, NULL, NULL, NULL));
	return unused;
}

int main(void)
{
	pthread_t t;

	if (pipe(to_main) || pipe(to_thread))
		return 1;
	t = start(run, NULL);
	join(start(writes, NULL));
	return join(t) != NULL;
}
END
same 'other names' 1 "$(timeout 60 $run --processors 1 "$dir/aliases" 2>&1)"

# Allocators whose locks and thread-local variables go together.
build allocates <<'END'
enum { THREADS = 64, TIMES = 2000, LIVE = 64 };

static void *run(void *arg)
{
	unsigned seed = (unsigned)(size_t)arg;
	unsigned char *live[LIVE] = { 0 };

	for (int i = 0; i < TIMES; i++) {
		unsigned at = rand_r(&seed) % LIVE, size = rand_r(&seed) % 20000 + 1;

		if (live[at] && (live[at][0] != at || live[at][1] != (unsigned char)~at))
			abort();
		free(live[at]);
		live[at] = malloc(size + 1);
		live[at][0] = (unsigned char)at;
		live[at][1] = (unsigned char)~at;
		if (i % 8 == 0)
			sched_yield();
	}
	for (int i = 0; i < LIVE; i++)
		free(live[i]);
	return NULL;
}

int main(void)
{
	pthread_t t[THREADS];

	for (size_t i = 0; i < THREADS; i++)
		t[i] = start(run, (void *)i);
	for (size_t i = 0; i < THREADS; i++)
		join(t[i]);
	return 0;
}
END
for allocator in libjemalloc.so.2 libtcmalloc.so.4; do
	for where in /usr/lib/*-linux-gnu /usr/lib64 /usr/lib; do
		[ -f "$where/$allocator" ] || continue
		count=$((count + 1))
		LD_PRELOAD="$where/$allocator" limited $run "$dir/allocates" >"$dir/out" 2>&1 ||
			fail "$allocator: $(cat "$dir/out")"
		break
	done
done

# C++: destructors at pthread_exit() and pthread_cancel(), std::thread and its like.
if command -v g++ >/dev/null; then
	cat >"$dir/plus.cc" <<'END'
#include <bits/stdc++.h>
#include <pthread.h>
#include <unistd.h>

static int destroyed;
struct noted {
	~noted() { destroyed++; }
};

static void *ends(void *)
{
	noted a;
	try {
		noted b;
		pthread_exit(nullptr);
	} catch (const std::exception &) {
	}
	return nullptr;
}

static void *sleeps(void *)
{
	noted a;
	pthread_cleanup_push([](void *) { destroyed += 10; }, nullptr);
	sleep(100);
	pthread_cleanup_pop(0);
	return nullptr;
}

static std::once_flag once;
static std::atomic<int> tries;

int main()
{
	std::vector<std::thread> threads;
	std::condition_variable changed;
	std::mutex m;
	std::shared_mutex s;
	int n = 0, thrown = 0;
	pthread_t t;

	pthread_create(&t, nullptr, ends, nullptr);
	pthread_join(t, nullptr);
	pthread_create(&t, nullptr, sleeps, nullptr);
	usleep(20000);
	pthread_cancel(t);
	pthread_join(t, nullptr);
	for (int i = 0; i < 20; i++)
		threads.emplace_back([&] {
			try {
				std::call_once(once, [] {
					std::this_thread::sleep_for(
						std::chrono::milliseconds(2));
					if (++tries < 3)
						throw std::runtime_error("not yet");
				});
			} catch (const std::exception &) {
				std::lock_guard<std::mutex> l(m);
				thrown++;
			}
			std::shared_lock<std::shared_mutex> r(s);
			std::unique_lock<std::mutex> l(m);
			n++;
			changed.notify_all();
			changed.wait_for(l, std::chrono::seconds(100), [&] { return n == 20; });
		});
	for (auto &thread : threads)
		thread.join();
	auto value = std::async(std::launch::async, [] { return 42; });
	std::printf("%d %d %d %d %d\n", destroyed, n, thrown, tries.load(), value.get());
}
END
	g++ -O1 -std=c++17 -o "$dir/plus" "$dir/plus.cc" -pthread >"$dir/errors" 2>&1 ||
		die "C++: $(cat "$dir/errors")"
	same 'C++' '13 20 2 3 42' "$(limited $run "$dir/plus" 2>&1)"

	# A handler that keeps the end of its thread for itself ends the process, as natively.
	cat >"$dir/swallows.cc" <<'END'
#include <bits/stdc++.h>
#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

static char how;

static void *swallows(void *)
{
	try {
		if (how == 'e' || how == 'n')
			pthread_exit(nullptr);
		sleep(100);
	} catch (abi::__forced_unwind &) {
		if (how == 'n')
			pthread_exit(nullptr);
		if (how != 'f')
			throw;
	} catch (...) {
	}
	return nullptr;
}

static void *swallows_any(void *)
{
	try {
		swallows(nullptr);
	} catch (...) {
		if (how == 'c' || how == 'e')
			return nullptr;
		throw;
	}
	return nullptr;
}

int main(int, char **argv)
{
	pthread_t t;

	how = *argv[1];
	pthread_create(&t, nullptr, swallows_any, nullptr);
	pthread_cancel(t);
	pthread_join(t, nullptr);
	return how == 'r' ? 3 : 0;
}
END
	g++ -O1 -o "$dir/swallows" "$dir/swallows.cc" -pthread >"$dir/errors" 2>&1 ||
		die "swallows: $(cat "$dir/errors")"
	for how in rethrow cancel exit forced nested; do
		(ulimit -c 0; limited $run "$dir/swallows" $how) >"$dir/out" 2>&1
		same "swallows $how" "$([ $how = rethrow ] && echo 3 || echo 134)" $?
		[ $how = rethrow ] || grep -q 'FATAL: exception not rethrown' "$dir/out" ||
			fail "swallows $how: $(cat "$dir/out")"
	done

	# What it waits for by syscall(), with more threads than processors.
	cat >"$dir/futex.cc" <<'END'
#include <bits/stdc++.h>

struct slow {
	int value;
	slow() : value(1) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }
};

static int get()
{
	static slow once;
	return once.value;
}

int main()
{
	std::vector<std::thread> threads;
	std::atomic<int> sum(0), turn(0), timeouts(0);

	for (int i = 0; i < 20; i++)
		threads.emplace_back([&] {
			std::promise<int> p;
			auto f = p.get_future();
			std::thread t([&] {
				while (!timeouts)
					std::this_thread::sleep_for(
						std::chrono::milliseconds(10));
				p.set_value(get());
			});
			timeouts += f.wait_for(std::chrono::milliseconds(1))
				== std::future_status::timeout;
			sum += f.get() + get();
			t.join();
		});
#ifdef __cpp_lib_atomic_wait
	for (int i = 20; i > 0; i--)
		threads.emplace_back([&turn, i] {
			for (int now; (now = turn.load()) != i - 1;)
				turn.wait(now);
			turn = i;
			turn.notify_all();
		});
	for (int now; (now = turn.load()) != 20;)
		turn.wait(now);
#else
	turn = 20;
#endif
	for (auto &thread : threads)
		thread.join();
	std::printf("%d %d %d\n", sum.load(), turn.load(), timeouts > 0);
}
END
	for standard in c++20 c++17; do
		g++ -O1 -std=$standard -o "$dir/futex" "$dir/futex.cc" -pthread \
			>"$dir/errors" 2>&1 && break
	done
	[ -x "$dir/futex" ] || die "C++: $(cat "$dir/errors")"
	same 'C++ that waits by syscall()' '40 20 1' "$(limited $run "$dir/futex" 2>&1)"
	same 'on one processor' '40 20 1' \
		"$(limited $run --processors 1 "$dir/futex" 2>&1)"
fi

# The names of a hardened build, a vfork(), and descriptors of other kinds. On one processor
# a call that waits natively keeps the writer from running.
build hardened -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 <<'END'
static int fds[2], event, turn;

static void *write_later(void *unused)
{
	uint64_t one = 1;

	usleep(10000);
	return (void *)(intptr_t)(turn == 5 ? write(event, &one, sizeof one) != 8
		: write(fds[1], "ab\n", 3) != 3);
}

static void *serve(void *unused)
{
	struct itimerspec soon = { .it_value.tv_nsec = 1000000 };
	FILE *in = fdopen(dup(fds[0]), "r"), *out = fdopen(dup(fds[0]), "w");
	volatile size_t three = 3, one = 1;
	struct pollfd p[1] = { { fds[0], POLLIN, 0 } };
	char text[4] = "";
	uint64_t number;
	pthread_t t;
	long good = 0;
	int status, timer;
	pid_t pid;

	event = eventfd(0, 0);
	timer = timerfd_create(CLOCK_MONOTONIC, 0);
	for (turn = 0; turn < 6; turn++) {
		t = start(write_later, NULL);
		switch (turn) {
		case 0: good += read(fds[0], text, three) == 3; break;
		case 1: good += recv(fds[0], text, three, 0) == 3; break;
		case 2: good += poll(p, one, -1) == 1 && read(fds[0], text, three) == 3; break;
		case 3: good += fgets(text, (int)three + 1, in) == text; break;
		case 4: good += fread(text, 1, three, in) == 3; break;
		case 5: good += read(event, &number, sizeof number) == 8 && number == 1; break;
		}
		good += !join(t);
	}
	good += fprintf(out, "%s", text) == 3 && fflush(out) == 0;
	good += recv(fds[1], text, three, 0) == 3;
	timerfd_settime(timer, 0, &soon, NULL);
	good += read(timer, &number, sizeof number) == 8;
	pid = vfork();
	if (pid == 0)
		_exit(7);
	good += waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7;
	printf("%ld\n", good);
	return NULL;
}

int main(void)
{
	socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
	join(start(serve, NULL));
}
END
nm -u "$dir/hardened" | sed -n 's/.* \(__[a-z]*_chk\)@.*/\1/p' >"$dir/refers"
for name in read recv poll fgets fread fprintf; do
	has "^__${name}_chk$" "$dir/refers"
done
same 'a hardened program' 16 "$(timeout 20 $run --processors 1 "$dir/hardened" 2>&1)"

# As it is installed: preloaded, linked before libc, and compiled with uposix.h.
usr=$dir/usr
$MAKE -s --no-print-directory install "B=$B" "CC=$CC" POSIX=1 "prefix=$usr" "libdir=$usr/lib" \
	"includedir=$usr/include" "bindir=$usr/bin" "datadir=$usr/share" "mandir=$usr/man" \
	>"$dir/make" 2>&1 || fail "make install: $(tail -n 5 "$dir/make")"
# counts WHAT COMMAND...: whether its thread is one of usched's.
counts() {
	what=$1
	shift
	same "$what" 'threads_started 1' "$(env -u USCHED_POSIX UPOSIX_STATS=- \
		LD_LIBRARY_PATH="$usr/lib" timeout 20 "$@" 2>&1 | grep threads_started)"
}
counts 'installed, preloaded' "$usr/bin/usched-run" "$dir/late"
$CC -o "$dir/linked" "$dir/late.c" -L"$usr/lib" -lusched-posix -pthread || fail 'linked: it does not'
counts 'installed, linked before libc' "$dir/linked"
if command -v pkg-config >/dev/null; then
	# shellcheck disable=SC2046
	PKG_CONFIG_PATH=$usr/lib/pkgconfig $CC -o "$dir/compiled" "$dir/late.c" \
		$(PKG_CONFIG_PATH=$usr/lib/pkgconfig pkg-config --cflags --libs usched-posix usched) ||
		fail 'compiled with uposix.h: it is not'
	counts 'installed, compiled' "$dir/compiled"
fi

# What stands for the plain names: each is defined and declared, by every standard.
# compiles FILE COMPILER...: that file, with the header first and with warnings as errors.
compiles() {
	source=$1
	shift
	count=$((count + 1))
	"$@" -O2 -Wall -Wextra -Wpedantic -Wshadow -Werror "-I$usr/include" \
		-include usched/posix/uposix.h -fsyntax-only "$source" >"$dir/errors" 2>&1 ||
		fail "$* $source: $(head -n 5 "$dir/errors")"
}
{
	echo '#include <threads.h>'
	while read -r name; do
		printf '#ifndef %s\n#error %s\n#endif\nextern __typeof__(uposix_%s) *of_%s;\n' \
			"$name" "$name" "$name" "$name"
	done <"$dir/names"
} >"$dir/names.c"
cat >"$dir/before.c" <<'END'
#include <threads.h>
#include <usched/posix/uposix.h>

static int stops(void *value)
{
	struct flock lock = { .l_type = F_WRLCK };

	(void)value;
	(void)lock;
	thrd_yield();
	return printf("%d\n", call_once == uposix_call_once);
}

int main(void)
{
	thrd_t t;

	return thrd_create(&t, stops, NULL) == thrd_success;
}
END
printf '#include <mutex>\n#include <string>\n#include <thread>\n#include <sys/sem.h>\n' >"$dir/names.cc"
for compiler in gcc clang; do
	command -v $compiler >/dev/null || continue
	compiles "$dir/names.c" $compiler -std=gnu11
	for option in -std=c99 -std=c11 '-std=gnu17 -D_FORTIFY_SOURCE=2'; do
		# shellcheck disable=SC2086
		compiles "$dir/before.c" $compiler $option
		# shellcheck disable=SC2086
		$compiler $option -D_GNU_SOURCE -Wpedantic -Werror "-I$usr/include" -fsyntax-only \
			"$dir/before.c" || fail "$compiler $option: not behind <threads.h>"
	done
	echo 'int i;' | $compiler -x c++ -fsyntax-only - 2>/dev/null || continue
	for option in -std=c++11 -std=c++20 '-std=c++17 -D_FORTIFY_SOURCE=2'; do
		# shellcheck disable=SC2086
		compiles "$dir/names.cc" $compiler $option
	done
done
# In C++ a cancel calls destructors, also where libc's headers have a function not throw.
cat >"$dir/cancelled.cc" <<'END'
#include <sys/sem.h>
#include <sys/syscall.h>

static int ends[2], set, begun, destroyed;
static sem_t sem;

struct noted {
	noted() { __atomic_add_fetch(&begun, 1, __ATOMIC_RELEASE); }
	~noted() { destroyed++; }
};

#define THREAD(name, ...) static void *name(void *) { noted n; __VA_ARGS__; return nullptr; }
static char c;
THREAD(reads, (void)!read(ends[0], &c, 1))
THREAD(calls, syscall(SYS_read, ends[0], &c, 1))
THREAD(waits, sem_wait(&sem))
THREAD(takes, struct sembuf op = { 0, -1, 0 }; semop(set, &op, 1))
THREAD(child, wait4(-1, nullptr, 0, nullptr))
THREAD(tests, for (;;) { pthread_testcancel(); sched_yield(); })
THREAD(exits, pthread_exit(PTHREAD_CANCELED))

int main()
{
	void *(*all[])(void *) = { reads, calls, waits, takes, child, tests, exits };
	int n = 0, stop[2];

	(void)!pipe(ends);
	(void)!pipe(stop);
	set = semget(IPC_PRIVATE, 1, 0600);
	sem_init(&sem, 0, 0);
	if (fork() == 0) {
		close(stop[1]);
		_exit((int)read(stop[0], &c, 1));
	}
	for (auto call : all) {
		pthread_t t;
		void *result;

		pthread_create(&t, nullptr, call, nullptr);
		while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) == n)
			usleep(1000);
		n++;
		pthread_cancel(t);
		pthread_join(t, &result);
		if (destroyed != n || result != PTHREAD_CANCELED)
			printf("%d: not so\n", n);
	}
	semctl(set, 0, IPC_RMID);
	printf("%d\n", destroyed);
}
END
for compiler in g++ clang++; do
	command -v $compiler >/dev/null || continue
	for option in -O0 -O2; do
		$compiler -std=c++17 $option "-I$usr/include" -include usched/posix/uposix.h \
			-o "$dir/cancelled" "$dir/cancelled.cc" "$usr/lib/libusched-posix.a" \
			"$usr/lib/libusched.a" -pthread -ldl >"$dir/errors" 2>&1 ||
			die "C++: $(cat "$dir/errors")"
		same "C++, cancelled, $compiler $option" 7 "$(limited "$dir/cancelled" 2>&1)"
	done
done

# usched-run.
tells() {		# WHAT EXPECTED OPTION...
	what=$1 expected=$2
	shift 2
	limited $run "$@" >"$dir/out" 2>&1
	status=$?
	[ $status -ne 0 ] || fail "$what: status 0"
	has "$expected" "$dir/out"
}
mkdir -p "$dir/tree/posix" "$dir/tree/build"
cp posix/usched-run "$dir/tree/posix"
cp "$library" "$dir/tree/build/libusched-posix.so"
ln -s tree/posix/usched-run "$dir/run"
same 'by a relative path, and by a link' 'done
done' "$(unset USCHED_POSIX
	cd "$dir/tree" && limited posix/usched-run sh -c 'cd / && env echo done' 2>&1
	cd .. && limited ./run sh -c 'cd / && env echo done' 2>&1)"
tells 'no program' '^usage: usched-run'
tells 'no such program' 'there is no program' "$dir/none"
tells 'no such option' 'there is no option --threads' --threads 3 true
tells 'no number' "is no number" --stacks many true
build static -static <<'END'
int main(void) { return 0; }
END
tells 'a static program' 'is linked statically' "$dir/static"
cp "$dir/late" "$dir/suid"
chmod u+s "$dir/suid"
tells 'a set-user-ID program' 'set-user-ID' "$dir/suid"
limited $run --processors 1 --stats "$dir/late" >"$dir/out" 2>&1 || fail 'statistics'
has '^threads_started 1$' "$dir/out"
limited $run --stats="$dir/statistics" "$dir/late" >/dev/null 2>&1 || fail 'statistics'
has '^threads_most 1$' "$dir/statistics"
(
	trap '' XFSZ
	ulimit -f 0
	limited $run --stats="$dir/statistics" "$dir/late" >/dev/null 2>&1
)
has '^threads_most 1$' "$dir/statistics"        # the old ones, as none can be written
limited $run --stats="$dir/none/statistics" "$dir/late" >"$dir/out" 2>&1
has "UPOSIX_STATS: cannot write $dir/none/statistics: No such file" "$dir/out"
USCHED_POSIX=$dir/none tells 'no library' "there is no library $dir/none" true
USCHED_POSIX="$dir/a b" tells 'a blank in its name' 'cannot have such a name' true
same 'a relative name' done "$(cd "$dir/suid" && cp "$library" library.so &&
	USCHED_POSIX=./library.so limited "$OLDPWD/$run" sh -c 'cd / && env echo done' 2>&1)"
UPOSIX_STACKS=x limited $run "$dir/late" >"$dir/out" 2>&1
has 'UPOSIX_STACKS=x is no number' "$dir/out"

conclude "$(wc -l <"$dir/names") functions, $count checks"
