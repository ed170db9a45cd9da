#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The layers. A header at the top is public, a .c file is in the room of its layer, and a
# header in a room is private to the library. The table below has the rooms from the lowest
# to the highest, which files beside belong to them, and which rooms they include from. A
# room may include from these, from what these may, and from nothing above. Besides:
#
#  - of libc the dispatcher uses a few headers, memcpy() and errno;
#  - the only writable globals are one thread-local pointer, and what a process has once:
#    its descriptors, its pool of native threads, the keys of its native threads, and the
#    earlier handlers of its signals, the list of its schedulers;
#  - no C file depends on the machine, except arch/uabi.h and arch/uswitch.h, of which one
#    statement each is inlined, direction.h, which way stacks grow, and code.h, what a
#    pointer to a function points to. All else is in arch/.
#
#   CC    the compiler, with options if it needs some
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

# room: what belongs to it beside its folder: rooms below. An include that goes up is in no
# row, and as rows name only those before them, there is no circle.
rooms='
arch: usched.h:
src/watch:: arch
src/core: usched.c ustack.h arch/setjmp.c: src/watch
src/base:: src/core
src/mem: uimage.h: src/base
src/events: uevents.h: src/base
src/wait: uwait.h: src/events
src/proc: uprocs.h uproc.h upreempt.h: src/wait src/mem
schedulers: rr.c rr.h ll.c ll.h: src/proc
src/sync: usync.h: src/wait
src/net: unet.h ubuf.h uoffload.h: src/sync
src/co: uco.h uco.hh: src/wait
debug:: src/proc src/net
tls:: src/net
posix:: schedulers debug
sim:: posix
bench: rmain.c lmain.c: schedulers src/co debug'

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

# room_of FILE: sets $room.
room_of() {
	room=$(echo "$rooms" | awk -F: -v file="$1" '
		{ n = split($2, own, " "); for (i = 1; i <= n; i++) if (own[i] == file) found = $1 }
		END { print found }')
	room=${room:-$(dirname "$1")}
	case $room in
	bench/* | posix/* | sim/*) room=${room%%/*} ;;
	esac
}

# Each room with all those below it; a row that names a later room has nothing of it.
echo "$rooms" | awk -F: 'NF {
	below[$1] = " " $1 " "
	n = split($3, names, " ")
	for (i = 1; i <= n; i++)
		below[$1] = below[$1] below[names[i]] (names[i] in below ? "" : " unknown:" names[i])
	print $1 ":" below[$1]
}' >"$dir/below"
! grep unknown: "$dir/below" || fail "the table has a room that is not above"

files=$(git ls-files '*.c' '*.h' '*.hh' '*.S' 2>/dev/null | grep -vE '^(tests|examples|packaging|scripts|tools)/|(^|/)test_')
[ -n "$files" ] || files=$(find . -name '*.[chS]' -o -name '*.hh' | sed 's:^\./::' |
	grep -vE "^(tests|examples|packaging|scripts|tools|$B)/|(^|/)test_")
for file in $files; do
	count=$((count + 1))
	case $file in
	usched-all.h) continue ;;       # all public headers
	*/*.h | *.h | *.hh | */*.[cS]) ;;
	usched.c | rr.c | ll.c | rmain.c | lmain.c) ;;
	*) fail "$file is at the top" ;;
	esac
	room_of "$file"
	below=$(sed -n "s|^$room:||p" "$dir/below")
	[ -n "$below" ] || fail "$file is in no room: $room"
	for header in $(includes '"' "$file" | from_top "$file"); do
		[ -e "$header" ] || continue    # made by the Makefile
		room_of "$header"
		case $below in
		*" $room "*) ;;
		*) fail "$file includes $header" ;;
		esac
	done
done

for file in arch/uabi.h usched.h usched.c src/core/dispatch.h arch/arch.h arch/offsets.h; do
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
		__errno_location | ___errno_location) ;;
		__cxa_get_globals | __splitstack_getcontext) ;;   # weak
		# What compilers make of assignments, of the thread-local pointer, and
		# of functions with arrays, where that is their default.
		memset | _GLOBAL_OFFSET_TABLE_ | __stack_chk_*) ;;
		*) fail "the dispatcher needs $symbol ($options)" ;;
		esac
	done
done

# `no_dispatcher' is only read. Of the marks of uproc_ring.c only the addresses are used. The pointers
# of setjmp.c are volatile constants.
for file in $(of_make modules | sed 's/[^ ]*/&.c/g') arch/setjmp.c; do
	compile "$file" -O2
	for symbol in $(nm "$dir/object" | awk '$2 ~ /[BbCDdGgSs]/ { print $3 }'); do
		case ${file##*/}:$symbol in
		usched.c:usched__current | usched.c:no_dispatcher | usched.c:usched__observer | uproc_ring.c:uproc__marks | uproc_name.c:uproc__names | uproc_name.c:names_lock | uproc_ring.c:uproc__schedulers | uproc_ring.c:uproc__observer | uprocs.c:list_lock | uproc_local.c:uproc__local_lost | setjmp.c:call_*) ;;
		unet.c:unet__table | unet_wait.c:doubted | uoffload.c:offload) ;;
		uevents.c:serials | uevents.c:pollers | uevents.c:pollers_lock | uevents.c:own_numbers | uevents.c:no_pwait2) ;;
		uwait_native.c:key_lock | uwait_native.c:native_key | uwait_native.c:key_made) ;;
		uoverflow.c:made_key | uoverflow.c:stack_key | uoverflow.c:key_rc) ;;
		uoverflow.c:own_stack | uoverflow.c:installed | uoverflow.c:old_actions) ;;
		upreempt.c:previous | upreempt.c:installing | upreempt.c:stalls | uinspect_snap.c:inspector | utrace.c:utrace__control) ;;
		uproc_block.c:*) ;;     # libc's, once in a process
		*) fail "$file has a global that can be written to: $symbol" ;;
		esac
	done
done

# The environment is read in one place, which leaves out a set-user-ID process.
for file in *.[ch] src/*/* arch/* debug/*.* tls/u*.[ch] posix/uposix* sim/*.[ch]; do
	[ "$file" = src/core/outside.h ] ||
		! grep -nE '\<(secure_)?getenv\(|\<environ\>' "$file" >"$dir/reads" ||
		fail "$file reads the environment: $(cat "$dir/reads")"
done

# Weak symbols. The first nine may stay: what C++, libgcc, sanitizers and the dynamic linker
# have, if they are linked, and what some machines need.
weak='__cxa_get_globals __splitstack_getcontext __lsan_register_root_region
	__lsan_unregister_root_region __msan_unpoison dladdr dlsym _Unwind_Find_FDE current get_name
	usched__observer'
# The name of each declaration that has this attribute.
cat ./*.[ch] src/*/* debug/*.* arch/*.h | sed 's:/\*.*\*/::' | tr '\n\t' '  ' | tr ';{}' '\n\n\n' |
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
	./*.[ch] arch/*.[ch] src/*/* debug/*.* bench/*.h >"$dir/asked"
if grep -vE '^(src/base/code|src/core/direction|arch/(arch|uabi|uswitch|offsets))\.h:' "$dir/asked"; then
	fail "these lines ask which machine it is"
fi

conclude "$count files keep to them"
