#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What programs of others meet when they use the installed library:
#
#  - CMake and Meson find it by pkg-config; their projects build and run;
#  - find_package() of CMake finds it where it is installed and where that was moved, shared
#    and static, with each library that was installed, and refuses others;
#  - a program has libevent's <event.h>, glibc's <wait.h> and ours in any order, in C and
#    in C++, with no options but those of pkg-config;
#  - a mutex on a stack is reported by libusched-check, linked in or preloaded, and is not
#    by libusched; both link with the same object;
#  - libusched-tls and libusched-posix link with each of both, in any order, shared and
#    static, and the program has one of them; all three link, and libusched-sim with the
#    first;
#  - an object that was compiled for another layout does not link;
#  - code that was compiled with -fsplit-stack is refused, with -ENOTSUP;
#  - a native thread that has waited ends well after dlclose(), of the shared library and of
#    a plugin that has the static one;
#  - musl loads the shared library by dlopen().
#
#   MAKE, CC, SWITCH    as for make
#   CXX                 default c++
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

CXX=${CXX:-c++}
version=$(sed -n 's/^.define USCHED_VERSION "\(.*\)"/\1/p' usched.h)
tested=
skipped=

# leave_out WHAT REASON: the rest is tested.
leave_out() {
	note "$1 not tested: $2"
	skipped="$skipped; no $1"
}

need pkg-config

usr=$dir/usr
lib=$usr/lib
unset DESTDIR
# The libraries besides, and a call of each.
also=
tls='' posix='' sim=''
if echo '#include <openssl/core.h>' | $CC -E - >/dev/null 2>&1; then
	tls=1 also="$also usched-tls:utls_create"
fi
if echo '#include <features.h>
#if !defined __GLIBC__ || !(defined __x86_64__ || defined __aarch64__)
#error none
#endif' | $CC -E - >/dev/null 2>&1; then
	posix=1 sim=1 also="$also usched-posix:uposix_pthread_create"
fi
build=$(plain)
$MAKE -s --no-print-directory install "B=$build" "CC=$CC" CFLAGS='-O2 -g' "prefix=$usr" \
	"TLS=$tls" "POSIX=$posix" "SIM=$sim" "libdir=$lib" "includedir=$usr/include" "mandir=$usr/man" ||
	exit 1
export PKG_CONFIG_PATH="$lib/pkgconfig" LD_LIBRARY_PATH="$lib"
cflags=$(pkg-config --cflags usched) || exit 1

# run PROGRAM ARGUMENT...: what it says is in $dir/log.
run() {
	timeout 300 "$@" >"$dir/log" 2>&1
}

# compile OPTION...: for the installed headers; what the compiler says is in $dir/log.
compile() {
	# shellcheck disable=SC2086
	$CC "$@" $cflags >"$dir/log" 2>&1
}

# The mutex is on the thread's stack with the argument "stack"; and else not.
cat >"$dir/hazard.c" <<'END'
#include <string.h>
#include <usched/rr.h>
#include <usched/usync.h>

#ifdef USES
extern int USES();
void *volatile uses = (void *)USES;
#endif

static struct usync_mutex global;
static int rc = -1;

static void work(void *onstack)
{
	struct usync_mutex local = { 0 };
	struct usync_mutex *m = onstack ? &local : &global;

	rc = usync_mutex_lock(m, USCHED_NEVER);
	if (rc == 0)
		rc = usync_mutex_unlock(m);
}

int main(int argc, char **argv)
{
	void *onstack = argc > 1 && strcmp(argv[1], "stack") == 0 ? argv : NULL;
	struct uprocs *rr;

	if (rr_create(NULL, &rr) || rr_start(rr, work, onstack, NULL))
		return 1;
	return uprocs_destroy(rr, USCHED_NEVER) || rc;
}
END

test_cmake() {
	if ! command -v cmake >/dev/null; then
		leave_out cmake 'it is not installed'
		return
	fi
	mkdir "$dir/cmake"
	cp "$dir/hazard.c" "$dir/cmake/main.c"
	cat >"$dir/cmake/CMakeLists.txt" <<-'END'
	cmake_minimum_required(VERSION 3.10)
	project(user C)
	find_package(PkgConfig REQUIRED)
	pkg_check_modules(USCHED REQUIRED IMPORTED_TARGET usched>=0.1)
	add_executable(user main.c)
	target_link_libraries(user PkgConfig::USCHED)
	END
	if ! { CC=$CC cmake -S "$dir/cmake" -B "$dir/cmake/build" &&
		cmake --build "$dir/cmake/build"; } >"$dir/log" 2>&1
	then
		fail "the CMake project does not build: $(cat "$dir/log")"
	elif ! run "$dir/cmake/build/user"; then
		fail "the CMake project fails: $(cat "$dir/log")"
	fi
	tested="$tested, cmake"
	test_find_package
}

# found WHERE STATIC: a project that finds the library there.
found() {
	rm -rf "$dir/find/build"
	if ! { CC=$CC cmake -S "$dir/find" -B "$dir/find/build" "-DCMAKE_PREFIX_PATH=$1" \
			"-Dusched_USE_STATIC_LIBS=$2" "-DPARTS=$parts" &&
		cmake --build "$dir/find/build"; } >"$dir/log" 2>&1
	then
		fail "find_package in $1, static $2: $(cat "$dir/log")"
		return
	fi
	for part in $(echo "$parts" | tr ';' ' '); do
		program=$dir/find/build/$part
		LD_LIBRARY_PATH='' run "$program" || fail "find_package, $part: $(cat "$dir/log")"
		linked=$(LD_LIBRARY_PATH='' ldd "$program" | grep -c "libusched.* => $1/")
		case $2$part in
		ON*)    expected=0 ;;
		OFFtls) expected=2 ;;
		*)      expected=1 ;;
		esac
		same "libraries of $part, static $2, in $1" $expected "$linked"
	done
}

test_find_package() {
	parts='usched;check'
	[ -z "$tls" ] || parts="$parts;tls"
	[ -z "$posix" ] || parts="$parts;posix"
	mkdir "$dir/find"
	cp "$dir/hazard.c" "$dir/find/main.c"
	cat >"$dir/find/CMakeLists.txt" <<-'END'
	cmake_minimum_required(VERSION 3.14)
	project(user C)
	find_package(usched 0.1 REQUIRED COMPONENTS ${PARTS})
	foreach(part ${PARTS})
	  add_executable(${part} main.c)
	  target_link_libraries(${part} usched::${part})
	endforeach()
	set(tls_calls utls_create)
	set(posix_calls uposix_pthread_create)
	foreach(part tls posix)
	  if(TARGET ${part})
	    target_link_libraries(${part} usched::usched)
	    target_compile_definitions(${part} PRIVATE USES=${${part}_calls})
	  endif()
	endforeach()
	END
	cp -a "$usr" "$dir/moved"
	for static in OFF ON; do
		found "$usr" $static
		found "$dir/moved" $static
	done
	cmake -S "$dir/find" -B "$dir/find/none" "-DCMAKE_PREFIX_PATH=$usr" \
		'-DPARTS=usched;none' >"$dir/log" 2>&1 && fail 'find_package finds a part "none"'
	has 'installed without none' "$dir/log"
	sed -i 's/usched 0.1/usched 9.1/' "$dir/find/CMakeLists.txt"
	cmake -S "$dir/find" -B "$dir/find/none" "-DCMAKE_PREFIX_PATH=$usr" \
		-DPARTS=usched >"$dir/log" 2>&1 && fail 'find_package finds version 9.1'
	has 'considered but not accepted' "$dir/log"
	tested="$tested, find_package"
}

test_meson() {
	if ! command -v meson >/dev/null; then
		leave_out meson 'it is not installed'
		return
	fi
	mkdir "$dir/meson"
	cp "$dir/hazard.c" "$dir/meson/main.c"
	cat >"$dir/meson/meson.build" <<-'END'
	project('user', 'c')
	executable('user', 'main.c', dependencies: dependency('usched', version: '>=0.1'))
	END
	if ! { CC=$CC meson setup "$dir/meson/build" "$dir/meson" &&
		meson compile -C "$dir/meson/build"; } >"$dir/log" 2>&1
	then
		fail "the Meson project does not build: $(cat "$dir/log")"
	elif ! run "$dir/meson/build/user"; then
		fail "the Meson project fails: $(cat "$dir/log")"
	fi
	tested="$tested, meson"
}

# Where libevent is not installed, a header of that name takes its place.
fake_libevent() {
	event=
	if ! echo '#include <event.h>' | $CC -E - >/dev/null 2>&1; then
		mkdir "$dir/system"
		echo 'static inline const char *event_get_version(void) { return "2"; }' \
			>"$dir/system/event.h"
		event="-isystem $dir/system"
	fi
}

# in_order LANGUAGE COMPILER HEADER...: each header has supplied what it declares.
in_order() {
	language=$1 compiler=$2
	shift 2
	{
		printf '#include <%s>\n' "$@"
		echo 'const char *version(void);
		const char *version(void) { return event_get_version(); }
		int pid(int *status);
		int pid(int *status) { return (int)wait(status); }
		int read_one(char *c);
		int read_one(char *c) { return (int)unet_read(0, c, 1, 0); }
		int make(struct uprocs **rr, struct uevents **e);
		int make(struct uprocs **rr, struct uevents **e) { *e = 0; return rr_create(0, rr); }'
	} >"$dir/order"
	# shellcheck disable=SC2086
	$compiler $cflags $event -x "$language" -Wall -Wextra -Werror -fsyntax-only "$dir/order" \
		>"$dir/log" 2>&1 || fail "$language: $*: $(cat "$dir/log")"
}

test_orders() {
	ours='usched/rr.h usched/uevents.h usched/uwait.h usched/unet.h'
	fake_libevent
	languages=c
	if echo 'int i;' | $CXX -x c++ -fsyntax-only - 2>/dev/null; then
		languages='c c++'
	else
		leave_out C++ "no $CXX"
	fi
	for language in $languages; do
		case $language in
		c) compiler=$CC ;;
		*) compiler=$CXX ;;
		esac
		# shellcheck disable=SC2086
		{
			in_order $language "$compiler" event.h wait.h $ours
			in_order $language "$compiler" wait.h event.h $ours
			in_order $language "$compiler" event.h $ours wait.h
			in_order $language "$compiler" wait.h $ours event.h
			in_order $language "$compiler" $ours event.h wait.h
			in_order $language "$compiler" $ours wait.h event.h
		}
		tested="$tested, includes in $language"
	done
}

# reports WHAT COMMAND...: the mutex on the stack, and no other.
reports() {
	what=$1
	shift
	if run "$@" stack; then
		fail "$what: a mutex on a stack is not reported"
	elif ! grep -q 'usync_mutex_lock: shared object .* in the frames' "$dir/log"; then
		fail "$what: a mutex on a stack: $(cat "$dir/log")"
	fi
	run "$@" global || fail "$what: a mutex elsewhere: $(cat "$dir/log")"
}

test_check() {
	compile -Wall -Werror -c "$dir/hazard.c" -o "$dir/hazard.o" ||
		fail "does not compile: $(cat "$dir/log")"
	for name in usched usched-check; do
		# shellcheck disable=SC2046
		{
			compile "$dir/hazard.o" -o "$dir/$name" $(pkg-config --libs $name)
			compile "$dir/hazard.o" -o "$dir/$name-static" \
				$(pkg-config --libs --static $name | sed "s/-l$name/-l:lib$name.a/")
		} || fail "does not link with $name: $(cat "$dir/log")"
	done
	for kind in '' -static; do
		run "$dir/usched$kind" stack || fail "libusched: a mutex on a stack is an error"
		reports "usched-check$kind" "$dir/usched-check$kind"
	done
	reports preloaded env "LD_PRELOAD=$lib/libusched-check.so" "$dir/usched"
	tested="$tested, checks"
}

# one_library WHAT NAME PROGRAM: of the two, it has NAME's, or for "none" neither.
one_library() {
	found=$(ldd "$3" 2>/dev/null | grep -o '^[^a-z]*libusched\(-check\)\?\.so' | tr -d '\t ')
	if [ "$2" = none ]; then
		same "libraries of $1" '' "$found"
	else
		same "libraries of $1" "lib$2.so" "$found"
	fi
	case $1 in
	*usched-check*) reports "$1" "$3" ;;
	*) run "$3" stack || fail "$1: $(cat "$dir/log")" ;;
	esac
}

# pair NAME OTHER CALL: hazard.c with both, which refers to CALL.
pair() {
	names="$1 $2"
	flags=$(pkg-config --cflags "$1" "$2")
	base=$1
	[ "${base#*-[tp]}" = "$base" ] || base=$2
	# shellcheck disable=SC2046,SC2086
	$CC $flags "-DUSES=$3" "$dir/hazard.c" -o "$dir/pair" $(pkg-config --libs "$1" "$2") \
		>"$dir/log" 2>&1 || fail "$names does not link: $(cat "$dir/log")"
	one_library "$names" "$base" "$dir/pair"
	static=$(pkg-config --libs --static "$1" "$2" | sed 's/-l\(usched[a-z-]*\)/-l:lib\1.a/g')
	# shellcheck disable=SC2086
	$CC $flags "-DUSES=$3" "$dir/hazard.c" -o "$dir/pair" $static >"$dir/log" 2>&1 ||
		fail "$names, static, does not link: $(cat "$dir/log")"
	one_library "$names, static" none "$dir/pair"
	case "$all_static$names" in *-posix* | ' '*) return ;; esac   # that needs ld.so
	# shellcheck disable=SC2086
	$CC -static $flags "-DUSES=$3" "$dir/hazard.c" -o "$dir/pair" $static \
		>"$dir/log" 2>&1 || fail "$names, -static, does not link: $(cat "$dir/log")"
	one_library "$names, -static" none "$dir/pair"
}

# Both of the others with the library, shared and static.
test_all_three() {
	for names in 'usched usched-tls usched-posix' 'usched-posix usched-tls usched-check'; do
		# shellcheck disable=SC2086
		{
			flags="$(pkg-config --cflags $names) -DUSES=utls_create"
			shared=$(pkg-config --libs $names)
			static=$(pkg-config --libs --static $names |
				sed 's/-l\(usched[a-z-]*\)/-l:lib\1.a/g')
			for libs in "$shared" "$static"; do
				$CC $flags "$dir/hazard.c" -o "$dir/three" $libs >"$dir/log" 2>&1 &&
					run "$dir/three" || fail "$names: $(cat "$dir/log")"
			done
		}
	done
	tested="$tested, all three"
}

# A program of usched is run in the simulation: it is named before the library.
test_with_sim() {
	# shellcheck disable=SC2046
	compile "$dir/hazard.c" -o "$dir/simulated" $(pkg-config --libs usched-sim usched) ||
		fail "usched-sim does not link: $(cat "$dir/log")"
	USCHED_SIM=1-3 run "$dir/simulated" || fail "in the simulation: $(cat "$dir/log")"
	has '3 runs passed' "$dir/log"
	run "$dir/simulated" || fail "with usched-sim, natively: $(cat "$dir/log")"
	tested="$tested, usched-sim"
}

test_pairs() {
	all_static=' '                  # or nothing: there is a static libc
	! $CC -static "$dir/unload.c" -o "$dir/pair" 2>/dev/null || all_static=
	for both in $also; do
		name=${both%:*} call=${both#*:}
		for base in usched usched-check; do
			pair $base "$name" "$call"
			pair "$name" $base "$call"
		done
		tested="$tested, pairs with $name"
	done
	[ -z "$tls$posix" ] || [ "$tls" != "$posix" ] || test_all_three
	[ -z "$sim" ] || test_with_sim
}

# As a program that was compiled with another version's headers.
test_layout() {
	layout=$(sed -n 's/^#define USCHED_LAYOUT //p' "$usr/include/usched/arch/uabi.h")
	case $layout in
	'' | *[!0-9]*) fail "uabi.h has no layout number but '$layout'" ;;
	esac
	cp -r "$usr/include" "$dir/other"
	sed -i "s/^#define USCHED_LAYOUT .*/#define USCHED_LAYOUT $((layout + 1))/" \
		"$dir/other/usched/arch/uabi.h"
	for call in usched_init rr_create ll_create; do
		printf '#include <usched/%s.h>\nvoid *volatile call = (void *)%s;\n%s\n' \
			"${call%_*}" $call 'int main(void) { return !call; }' >"$dir/call.c"
		# shellcheck disable=SC2046
		compile "$dir/call.c" -o "$dir/call" $(pkg-config --libs usched) ||
			fail "$call does not link: $(cat "$dir/log")"
		for name in usched usched-check; do
			# shellcheck disable=SC2046
			if compile "-I$dir/other" "$dir/call.c" -o "$dir/call" \
				$(pkg-config --libs $name)
			then
				fail "$call: another layout links with $name"
			elif ! grep -q "undefined reference to .$call" "$dir/log"; then
				fail "$call: another layout: $(cat "$dir/log")"
			fi
		done
	done
	tested="$tested, layouts"
}

test_dlclose() {
	cat >"$dir/unload.c" <<-'END'
	#include <dlfcn.h>
	#include <pthread.h>
	#include <stdint.h>
	#include <stdio.h>

	static void *library;

	/* The deadline is past; the library keeps something for this native thread. */
	static void *work(void *arg)
	{
		static long sem[8];
		int (*wait)(void *, int64_t) = 0;

		*(void **)&wait = dlsym(library, "usync_sem_wait");
		return wait && wait(sem, 1) < 0 && dlclose(library) == 0 ? arg : NULL;
	}

	int main(int argc, char **argv)
	{
		pthread_t native;
		void *done = NULL;

		if (argc > 1)
			library = dlopen(argv[1], RTLD_NOW);
		if (!library) {
			fputs(dlerror(), stderr);
			return 77;
		}
		if (pthread_create(&native, NULL, work, &native))
			return 1;
		return pthread_join(native, &done) || !done;
	}
	END
	if ! $CC "$dir/unload.c" -o "$dir/unload" -ldl -pthread; then
		fail 'the program with dlclose() does not build'
		return
	fi
	run "$dir/unload" "$lib/libusched.so"
	case $? in
	0)  tested="$tested, dlclose"; test_plugin ;;
	77) leave_out dlclose "$(cat "$dir/log")" ;;
	*)  fail "after dlclose(): $(cat "$dir/log")" ;;
	esac
}

# musl loads the shared library by dlopen(), and threads run. With the wrapper of another gcc
# the unwinder in libgcc asks for a function of glibc, which the program has to have.
test_musl() {
	cat >"$dir/load.c" <<-'END'
	#include <dlfcn.h>
	#include <stdio.h>
	#include <usched/rr.h>

	#define TEXT(name) #name
	#define NAME(name) TEXT(name)   /* may be a macro */

	int _dl_find_object(void *pc, void *result);

	int _dl_find_object(void *pc, void *result)
	{
		return pc && result ? -1 : -2;
	}

	static int (*yield)(void);
	static int yielded;

	static void run(void *unused)
	{
		(void)unused;
		for (int i = 0; i < 10; i++)
			yielded += yield() == 0;
	}

	int main(int argc, char **argv)
	{
		void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
		int (*create)(const struct uprocs_conf *, struct uprocs **) = 0;
		int (*start)(struct uprocs *, void (*)(void *), void *, struct ustack **) = 0;
		int (*destroy)(struct uprocs *, int64_t) = 0;
		struct uprocs *rr;

		if (!library) {
			fputs(dlerror(), stderr);
			return 1;
		}
		*(void **)&create = dlsym(library, NAME(rr_create));
		*(void **)&start = dlsym(library, NAME(rr_start));
		*(void **)&destroy = dlsym(library, NAME(uprocs_destroy));
		*(void **)&yield = dlsym(library, NAME(ustack_yield));
		if (!create || !start || !destroy || !yield || create(NULL, &rr)
		    || start(rr, run, NULL, NULL) || start(rr, run, NULL, NULL)
		    || destroy(rr, USCHED_NEVER))
			return 2;
		return yielded != 20;
	}
	END
	if ! command -v musl-gcc >/dev/null; then
		leave_out musl "there is no musl-gcc"
	elif ! $MAKE -s --no-print-directory "B=$dir/musl" CC=musl-gcc CFLAGS=-O0 \
			"$dir/musl/libusched.so.$version" ||
		! musl-gcc -I"$usr/include" "$dir/load.c" -rdynamic -o "$dir/load"; then
		fail 'with musl the library or a program does not build'
	elif run "$dir/load" "$dir/musl/libusched.so.$version"; then
		tested="$tested, musl"
	else
		fail "dlopen() by musl: $(cat "$dir/log")"
	fi
}

# A plugin with the library linked in stays, as the shared library does, by -z nodelete.
test_plugin() {
	echo '#include <usched/usync.h>
	void *keeps(void);
	void *keeps(void) { return (void *)usync_sem_wait; }' >"$dir/plugin.c"
	# shellcheck disable=SC2046
	if ! compile -fPIC -c "$dir/plugin.c" -o "$dir/plugin.o" ||
		! $CC -shared "$dir/plugin.o" $(of_make 'modules) $(switch' |
			sed "s|[^ ][^ ]*|$build/&.lo|g") -Wl,-z,nodelete -pthread -lm \
			-o "$dir/plugin.so"; then
		fail "a plugin does not build: $(cat "$dir/log")"
	elif ! run "$dir/unload" "$dir/plugin.so"; then
		fail "after dlclose() of a plugin: $(cat "$dir/log")"
	else
		tested="$tested, plugins"
	fi
}

# The program runs if it is refused: with either library, and with the dispatcher compiled
# in. clang cannot compile all of the library so.
test_split_stack() {
	cat >"$dir/split.c" <<-'END'
	#include <errno.h>
	#include <usched/rr.h>

	int main(void)
	{
		struct uprocs *rr;
		struct usched s;
		struct usched_calls calls = { 0 };

		return usched_init(&s, &calls) != -ENOTSUP || rr_create(NULL, &rr) != -ENOTSUP;
	}
	END
	if ! compile -fsplit-stack -c "$dir/split.c" -o "$dir/split.o"; then
		leave_out -fsplit-stack "$(tail -n 1 "$dir/log")"
		return
	fi
	for libraries in "$(pkg-config --libs usched)" "$lib/libusched.a -lm" \
		"usched.c -std=c11 $lib/libusched.a -lm"
	do
		# shellcheck disable=SC2086
		compile -fsplit-stack "$dir/split.o" -o "$dir/split" $libraries ||
			fail "-fsplit-stack, $libraries: does not build: $(cat "$dir/log")"
		run "$dir/split" || fail "-fsplit-stack, $libraries: not refused"
	done
	if $MAKE -s --no-print-directory "B=$dir/refused" "CC=$CC" CFLAGS=-fsplit-stack \
		"$dir/refused/usched.o" >"$dir/log" 2>&1 || ! grep -q fsplit-stack "$dir/log"
	then
		fail "make does not refuse -fsplit-stack: $(cat "$dir/log")"
	fi
	tested="$tested, -fsplit-stack"
}

test_cmake
test_meson
test_orders
test_check
test_layout
test_dlclose
test_pairs
test_musl
test_split_stack
conclude "${tested#, }$skipped"
