#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Builds each example with the command line in its head comment and compares what it
# prints with what the comment says it prints.
#
#   CC        the compiler in place of cc, with options if it needs some
#   CFLAGS    options besides -Wall -Wextra -Werror
#   LDFLAGS   likewise, behind the sources
#   SWITCH    x86_64, aarch64 or setjmp, in place of the file in arch/; by default what
#             fits this machine
#   EMULATOR  a command that runs the programs
#
# In an example's head, " *   cc ..." is the command line, and the lines of the same
# indent behind "It prints:" are the output.
set -u
cd "$(dirname "$0")/.." || exit 1

switch=${SWITCH:-$(uname -m)}
if [ -f "arch/$switch.S" ]; then
	arch=arch/$switch.S
else
	arch=arch/setjmp.c
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
failed=0
count=0

fail() {
	echo "$1: $2" >&2
	failed=$((failed + 1))
}

for example in examples/*.c; do
	[ -f "$example" ] || continue
	count=$((count + 1))
	program=$dir/$(basename "$example" .c)
	command=$(sed -n '/^ \*\//q; s/^ \*   cc //p' "$example")
	sed -n '1,/^ \*.*It prints:$/d; /^ \*\//q; s/^ \*   //p' "$example" >"$dir/expected"
	case $command in
	"$example "*" arch/x86_64.S "*" -o "*) ;;
	*)	fail "$example" "no command line in its head, or not of this file"
		continue ;;
	esac
	if [ ! -s "$dir/expected" ]; then
		fail "$example" "its head does not say what it prints"
		continue
	fi
	command=$(echo "$command" | sed "s|arch/x86_64\.S|$arch|; s| -o .*||")
	if [ "$arch" = arch/setjmp.c ]; then
		command="$command -lm"
	fi
	# The words of these are words of the command line.
	# shellcheck disable=SC2086
	if ! ${CC:-cc} -Wall -Wextra -Werror ${CFLAGS-} $command ${LDFLAGS-} -o "$program"
	then
		fail "$example" "does not compile"
		continue
	fi
	# shellcheck disable=SC2086
	if ! ${EMULATOR-} "$program" >"$dir/output" 2>"$dir/errors"; then
		fail "$example" "exits with an error"
		cat "$dir/errors" >&2
	elif [ -s "$dir/errors" ]; then
		fail "$example" "writes to standard error"
		cat "$dir/errors" >&2
	fi
	diff "$dir/expected" "$dir/output" >&2 ||
		fail "$example" "prints (>) other than it says (<)"
done
if [ "$count" -eq 0 ]; then
	fail examples "there are none"
fi
if [ "$failed" -gt 0 ]; then
	exit 1
fi
echo "examples: $count built and run with ${CC:-cc}, $arch"
