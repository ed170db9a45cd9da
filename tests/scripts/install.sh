#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What users do to build with the library:
#
#  - make install, and then pkg-config, for the static and for the shared library; each
#    header that a manual page names is there, and each public call has a page of its name;
#  - ulocks.so, preloaded from where pkg-config says that it is;
#  - the README's server, by its command line for the installed library;
#  - make uninstall, which leaves nothing;
#  - compile the sources in, which needs no option but -pthread, and no extension of C's
#    library that they do not ask for themselves; with -flto nothing of it, or of the program,
#    is said to be uninitialised; the assembly of another machine says
#    what to take instead; and for machines of 32 bits, where -m32 makes such programs.
#
#   MAKE, CC, SWITCH    as for make
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

build=$(plain)
run_make() {
	$MAKE -s --no-print-directory "$@" "B=$build" "CC=$CC" CFLAGS='-O2 -g' \
		"DESTDIR=$dir/dest" prefix=/opt/usched libdir=/opt/usched/lib \
		includedir=/opt/usched/include mandir=/opt/usched/man
}

ln -s "$PWD" "$dir/usched"            # <usched/rr.h>, as installed

# A program for each scheduler: it ends with 0 if its threads ran.
for scheduler in rr ll; do
	where=s
	if [ $scheduler = ll ]; then
		where='ll_group(s, 0)'
	fi
	cat >"$dir/$scheduler.c" <<-END
	#include <usched/$scheduler.h>

	static int count;

	static void work(void *thread)
	{
		if (ustack_wait() == 0 && ustack_self() == *(struct ustack **)thread)
			count++;
	}

	int main(void)
	{
		static struct ustack *thread[10];
		struct uprocs_conf conf = { .c_processors = 1 };
		struct uprocs *s;

		if (${scheduler}_create(&conf, &s))
			return 1;
		for (int i = 0; i < 10; i++)
			if (${scheduler}_start($where, work, &thread[i], &thread[i]))
				return 1;
		for (int i = 0; i < 10; i++)
			if (ustack_wake(thread[i]))
				return 1;
		for (int i = 0; i < 10; i++)
			if (ustack_join(thread[i], NULL, USCHED_NEVER))
				return 1;
		return uprocs_destroy(s, USCHED_NEVER) != 0 || count != 10;
	}
	END
done

# One whose thread blocks with a mutex of pthread.h.
cat >"$dir/held.c" <<-END
#include <pthread.h>
#include <usched/rr.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void hold(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&mutex);
	ustack_yield();
	pthread_mutex_unlock(&mutex);
}

int main(void)
{
	struct uprocs *rr;

	return rr_create(NULL, &rr) || rr_start(rr, hold, NULL, NULL) || uprocs_destroy(rr, USCHED_NEVER);
}
END

# One that has an error end the process where the compiler does not see that it does.
cat >"$dir/made.c" <<-END
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <usched/ll.h>
#include <usched/rr.h>
#include <usched/ubuf.h>
#include <usched/uco.h>
#include <usched/usync.h>

__attribute__((noinline)) static void check(long rc)
{
	if (rc < 0)
		exit(1);
}

static void *count(void *arg, void *first)
{
	return uco_yield(arg, NULL) ? NULL : first;     /* it is closed */
}

static void make(void *arg)
{
	struct usync_scope *scope;
	struct usync_chan *chan;
	struct uco *one;
	int value = 7;

	check(usync_scope_create(NULL, &scope, USCHED_NEVER));
	usync_scope_release(scope);
	check(usync_chan_create(sizeof value, 1, &chan));
	check(usync_chan_send(chan, &value, 0));
	check(usync_chan_recv(chan, &value, 0));
	usync_chan_destroy(chan);
	check(uco_create(count, arg, &one));
	check(uco_resume(one, NULL, NULL));
	check(uco_close(one));
}

static void read_text(int fd)
{
	struct ubuf_in in;
	char *text;

	ubuf_in_init(&in, fd, 100);
	check(ubuf_line(&in, &text, USCHED_NEVER));
	check(strcmp(text, "a line") ? -1 : 0);
	check(ubuf_take(&in, 2, &text, USCHED_NEVER));
	check(memcmp(text, "of", 2) ? -1 : 0);
	check(ubuf_take(&in, 1, &text, USCHED_NEVER));
	check(*text == '!' ? 0 : -1);
	ubuf_in_free(&in);
}

int main(void)
{
	struct uprocs *rr;
	struct uprocs *ll;
	int ends[2];

	check(pipe(ends));
	check(write(ends[1], "a line\nof!", 10) - 10);
	read_text(ends[0]);
	check(rr_create(NULL, &rr));
	check(rr_start(rr, make, &rr, NULL));
	check(uprocs_destroy(rr, USCHED_NEVER));
	check(ll_create(NULL, &ll));
	check(ll_start(ll_group(ll, 0), make, &ll, NULL));
	check(uprocs_destroy(ll, USCHED_NEVER));
	return 0;
}
END

# build_and_run WHAT COMPILER-ARGUMENT...
build_and_run() {
	what=$1
	shift
	# shellcheck disable=SC2086
	if ! $CC "$@" -o "$dir/program"; then
		fail "$what: does not build"
	elif ! LD_LIBRARY_PATH=$lib timeout 300 "$dir/program"; then
		fail "$what: fails"
	fi
}

# The server of the README, by its command line for the installed library, and with the
# headers that it names for that. A header of the program that has the name of one of ours
# is the program's.
readme_server() {
	readme_server_c >"$dir/server.c"
	command=$(sed -n '/^cc .*server\.c .*pkg-config/p' README.md | sed "s|^cc|$CC|")
	[ -n "$command" ] || fail 'the README has no command line with pkg-config'
	(cd "$dir" && eval "$command") || fail "the README's server does not build: $command"
	LD_LIBRARY_PATH=$lib timeout 300 "$dir/server" 1.2.3.4.5 2>"$dir/log"
	has '^server: 1.2.3.4.5: ' "$dir/log"
	mkdir "$dir/own"
	echo '#define OWN 1' >"$dir/own/unet.h"
	printf '#include <usched/rr.h>\n#include <unet.h>\nint main(void) { return OWN != 1; }\n' \
		>"$dir/own.c"
	# shellcheck disable=SC2086
	build_and_run 'a program with an unet.h' "$dir/own.c" $cflags "-I$dir/own" $shared
}

lib=$dir/dest/opt/usched/lib
run_make install || exit 1
if command -v pkg-config >/dev/null; then
	export PKG_CONFIG_LIBDIR="$lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$dir/dest"
	cflags=$(pkg-config --cflags usched) || exit 1
	shared=$(pkg-config --libs usched)
	static=$(pkg-config --libs --static usched | sed 's/-lusched/-l:libusched.a/')
	for scheduler in rr ll; do
		# Words of these are options.
		# shellcheck disable=SC2086
		build_and_run "$scheduler, shared" $cflags "$dir/$scheduler.c" $shared
		LD_LIBRARY_PATH=$lib ldd "$dir/program" | grep -q "libusched.so.* => $lib/" ||
			fail "$scheduler, shared: does not use the shared library"
		# shellcheck disable=SC2086
		build_and_run "$scheduler, static" $cflags "$dir/$scheduler.c" $static
		if LD_LIBRARY_PATH=$lib ldd "$dir/program" | grep libusched; then
			fail "$scheduler, static: uses the shared library"
		fi
	done
	locks=$(pkg-config --variable=ulocks usched)
	[ -f "$locks" ] || locks=$dir/dest$locks        # newer ones add the root
	build_and_run "with locks, shared" "$dir/held.c" $cflags $shared
	LD_LIBRARY_PATH=$lib LD_PRELOAD=$locks timeout 300 "$dir/program" >"$dir/log" 2>&1
	has 'blocks while it holds pthread_mutex_t' "$dir/log"
	readme_server
	version=$(version)
	[ "$(pkg-config --modversion usched)" = "$version" ] ||
		fail "pkg-config does not say that it is version $version"
	how='static, shared and compiled in'
else
	how='compiled in only, for there is no pkg-config'
fi

tool=$dir/dest/opt/usched/bin/uthreads
others=$(find "$dir/dest" -type f ! -perm 644 ! -path "$tool")
[ -z "$others" ] || fail "not of mode 644: $others"
for page in doc/*.[17] doc/*.3.in; do
	case $page in           # with TLS=1, POSIX=1, SIM=1
	doc/utls.3.in | doc/uposix.7 | doc/usched-run.1) continue ;;
	doc/sim.3.in | doc/ulinear.3.in) continue ;;
	*.in) page=$build/${page%.in} ;;
	esac
	installed=$dir/dest/opt/usched/man/man${page##*.}/$(basename "$page")
	cmp "$page" "$installed" || fail "$page is not installed"
	for header in $(sed -n 's/^\.In usched\/\([^ ]*\).*/\1/p' "$page"); do
		cmp "$header" "$dir/dest/opt/usched/include/usched/$header" ||
			fail "$page names $header, which is not installed"
	done
done

# It finds its modules where they will be.
grep -qx 'DATA = "/opt/usched/share/usched"' "$tool" && [ -x "$tool" ] ||
	fail "uthreads does not know where it is installed"
for file in tools/usched_view/*.py tools/usched-gdb.py; do
	cmp "$file" "$dir/dest/opt/usched/share/usched/${file#tools/}" ||
		fail "$file is not installed"
done
if command -v python3 >/dev/null; then
	sed -i "s|^DATA = \"|&$dir/dest|" "$tool"
	"$tool" ps --help >"$dir/log" || fail "uthreads does not run"
fi

# Every public call has a name under which its page is found.
man=$dir/dest/opt/usched/man
nm -D --defined-only "$lib/libusched.so" | sed -n 's/_layout[0-9]*$//; s/.* T //p' |
	grep -v __ >"$dir/calls"
grep -qx unet_read "$dir/calls" || fail "libusched.so has no calls: $(cat "$dir/calls")"
while read -r call; do
	[ -f "$man/man3/$call.3" ] || fail "there is no $call.3"
done <"$dir/calls"
if man -M "$man" -w unet >/dev/null 2>&1; then
	for name in unet_read rr_create uoffload usched; do
		man -M "$man" -w $name >/dev/null || fail "man $name finds nothing"
	done
	for name in wait event net; do
		! man -M "$man" -w $name 2>/dev/null || fail "man $name finds a page of ours"
	done
else
	note "there is no man here to look for pages"
fi

run_make uninstall || fail "make uninstall"
left=$(find "$dir/dest" ! -type d; find "$dir/dest" -name usched ! -path '*/opt/usched')
[ -z "$left" ] || fail "make uninstall leaves $left"

switch=$(sed -n 's/^SWITCH=//p' "$build/flags")
libs=
if [ "$switch" = setjmp ]; then
	libs=-lm
fi
for scheduler in rr ll; do
	build_and_run "$scheduler, compiled in" "-I$dir" "$dir/$scheduler.c" $(sources) \
		arch/"$switch".[cS] -pthread $libs
done
modules=$(of_make modules | sed 's/[a-z_/]\+/&.c/g')
# shellcheck disable=SC2086
build_and_run "all of it, compiled in" -std=c11 -Werror=implicit-function-declaration "-I$dir" \
	"$dir/rr.c" $modules arch/"$switch".[cS] -pthread $libs
# Over all files at once the compiler sees each error, and that no result is left unset.
for level in 1 3; do
	# shellcheck disable=SC2086
	build_and_run "with -flto -O$level" -flto -O$level -Wall -Wextra -Werror "-I$dir" \
		"$dir/made.c" $modules arch/"$switch".[cS] -pthread $libs
done
echo 'int main(void) { return sizeof(void *) != 4; }' >"$dir/narrow.c"
# shellcheck disable=SC2086
if $CC -m32 "$dir/narrow.c" -o "$dir/narrow" 2>/dev/null && "$dir/narrow" 2>/dev/null; then
	build_and_run "for 32 bits" -m32 "-I$dir" "$dir/rr.c" $modules arch/setjmp.c -pthread -lm
	how="$how, also for 32 bits"
fi

fitting=0
for assembly in arch/*.S; do
	# shellcheck disable=SC2086
	if $CC -E "$assembly" >/dev/null 2>"$dir/log"; then
		fitting=$((fitting + 1))
	elif ! grep -q 'take .*arch/setjmp\.c with -lm' "$dir/log"; then
		fail "$assembly does not say what to take instead: $(cat "$dir/log")"
	fi
done
[ "$fitting" -le 1 ] || fail "arch/ has assembly of $fitting machines for this one"

conclude "$how"
