#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The assembly for FreeBSD and macOS, as far as clang on another system can tell. It
# assembles, has the instructions that it has for Linux, and the same names, as C has them
# there. The waits of the headers compile, too. Nothing is run.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

need clang llvm-nm llvm-objdump
echo '#include <errno.h>' | clang -E -dM - | grep '^#define E[A-Z0-9]* ' >"$dir/errno.h"
cat >"$dir/waits.c" <<-'END'
	#include "ustack.h"
	int waits(void);
	int waits(void) { return ustack_block() + (usched__here() != NULL); }
END

# to TARGET FILE OPTION...: makes $dir/TARGET/FILE.o.
to() {
	target=$1 file=$2
	shift 2
	count=$((count + 1))
	mkdir -p "$dir/$target"
	clang "--target=$target" "$@" -c "$file" -o "$dir/$target/$(basename "$file").o" \
		2>"$dir/log" || fail "$file for $target: $(head -n 5 "$dir/log")"
}

# names OBJECT: what it needs, "U NAME", and defines: "h NAME" hidden, "g NAME" not. The
# underscores of macOS are left out; a name without one is "?".
names() {
	case $1 in
	*apple*)
		llvm-nm -gm "$1" | awk '{ if (!sub(/^_/, "", $NF)) $NF = "?" }
			{ print (/undefined/ ? "U" : /private external/ ? "h" : "g"), $NF }' ;;
	*)
		llvm-objdump -t "$1" | awk '/\*UND\*/ && NF > 3 { print "U", $NF }
			$2 == "g" { print (/ \.hidden / ? "h" : "g"), $NF }' ;;
	esac | grep -v -x 'U getauxval' | sort
}

# instructions OBJECT: without operands. Linux alone is asked whether there is SME.
instructions() {
	llvm-objdump -d --no-show-raw-insn "$1" | awk -F '\t' '
	/^[0-9a-f]+ <.*>:$/ { skip = /has_sme/ }
	/^ *[0-9a-f]+:/ && !skip { print $2 }'
}

# same WHAT FILE TARGET: as for Linux.
same() {
	"$1" "$dir/$linux/$2.o" >"$dir/right"
	"$1" "$dir/$3/$2.o" >"$dir/found"
	count=$((count + 1))
	[ "$(wc -l <"$dir/right")" -gt 30 ] || fail "$2 for Linux has too few $1"
	diff "$dir/right" "$dir/found" >"$dir/log" ||
		fail "$2 for $3 has other $1: $(head -n 5 "$dir/log")"
}

for machine in x86_64:x86_64 aarch64:arm64; do
	source=${machine%:*}.S
	linux=${machine%:*}-unknown-linux-gnu
	to "$linux" "arch/$source"
	for system in "${machine%:*}-unknown-freebsd" "${machine#*:}-apple-macos11"; do
		to "$system" "arch/$source"
		same names "$source" "$system"
		same instructions "$source" "$system"
		to "$system" "$dir/waits.c" -O2 -ffreestanding -nostdlibinc -I. \
			"-isystem$dir" -DUSCHED_INLINE_SWITCH
	done
done
conclude "$count checks, for FreeBSD and macOS"
