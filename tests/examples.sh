#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Builds each example with the command line in its head comment. Its output must be that of
# the comment. A server is started, and ended by SIGTERM. test_servers.py, test_chat.py,
# test_httpd.py and test_kv.py have clients for the servers.
#
#   CC        the compiler in place of cc, with options if it needs some
#   CFLAGS    options besides -Wall -Wextra -Werror
#   LDFLAGS   likewise, behind the sources
#   SWITCH    x86_64, aarch64 or setjmp, in place of the file in arch/; by default what
#             fits this machine
#   EMULATOR  a command that runs the programs
#   PORT      servers get the first free port after this one
#
# In the head of an example, " *   cc ..." is the command line. A backslash continues it in
# the next line. The lines of the same indent behind "It prints:" are the output. A program
# that prints nothing, or "ready", is a server.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/test.lib

switch=${SWITCH:-$(uname -m)}
if [ -f "arch/$switch.S" ]; then
	arch=arch/$switch.S
else
	arch=arch/setjmp.c
fi
PORT=${PORT:-$((22000 + $$ % 900))}
# shellcheck source=tests/server.lib
. tests/server.lib

fail() {
	echo "$1: $2" >&2
	failed=$((failed + 1))
}

# head_of FILE: its first comment, with long lines put together.
head_of() {
	sed -n '/^ \*\//q; :more; /\\$/ { N; s/ *\\\n \* */ /; b more; }; p' "$1"
}

# The libraries of a command line that are not installed.
missing() {
	for word in $1; do
		language=c
		case $word in
		-lhttp_parser) header=http_parser.h ;;
		-lhiredis) header=hiredis/hiredis.h ;;
		-lssl) header=openssl/core.h ;;
		-lcurl) header=curl/curl.h ;;
		-luv) header=uv.h ;;
		-levent_core) header=event2/event.h ;;
		-lstdc++) header=exception language=c++ ;;
		*)	continue ;;
		esac
		# shellcheck disable=SC2086
		printf '%s\n' '#include <stdlib.h>' "#include <$header>" \
			'int main(void) { return 0; }' |
			${CC:-cc} ${CFLAGS-} -x $language - ${LDFLAGS-} $word -o "$dir/library" \
				2>"$dir/errors" || echo "${word#-l}"
	done
}

# The first example that names all sources is built from them. For the others they are
# compiled once, with the options that all examples have.
sources="u*.c rr.c $arch"
once() {
	case $1 in
	*" $sources "*) ;;
	*)	echo "$1"; return ;;
	esac
	if [ ! -d "$dir/objects" ]; then
		mkdir "$dir/objects"
		echo "$1"
		return
	fi
	if [ ! -f "$dir/objects/usched.o" ]; then
		top=$PWD
		# shellcheck disable=SC2086
		(cd "$dir/objects" && ${CC:-cc} -Wall -Wextra -Werror ${CFLAGS-} -I"$top" -pthread \
			-c "$top"/u*.c "$top/rr.c" "$top/$arch")
	fi
	echo "${1%" $sources "*} $dir/objects/*.o ${1#*" $sources "}"
}

# The arguments of a server besides the port.
arguments_of() {
	case $1 in
	*-httpd.c) echo "$dir" ;;
	*-proxy.c) echo 127.0.0.1:1 ;;
	*-https.c) echo "$dir $dir/tls.pem $dir/tls.key" ;;
	esac
}

# Standard error has only the seed of a build with USCHED_STRESS.
check_errors() {		# FILE
	if grep -qv '^usched: USCHED_SEED=[0-9]*$' "$1"; then
		fail "$example" "writes to standard error"
		cat "$1" >&2
	fi
}

compare_output() {
	# shellcheck disable=SC2086
	if ! ${EMULATOR-} "$program" >"$dir/output" 2>"$dir/errors"; then
		fail "$example" "exits with an error"
		cat "$dir/errors" >&2
	else
		check_errors "$dir/errors"
	fi
	diff "$dir/expected" "$dir/output" >&2 ||
		fail "$example" "prints (>) other than it says (<)"
}

# A certificate for a server of TLS.
certify() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
		-subj /CN=localhost -keyout "$dir/tls.key" -out "$dir/tls.pem" 2>/dev/null
}

start_and_end() {
	case $example in
	*-https.c) certify || { note "$example: not run, there is no openssl"; return; } ;;
	esac
	# shellcheck disable=SC2046
	if ! start "$program" $(arguments_of "$example"); then
		fail "$example" "does not get ready"
		return
	fi
	stop "$server" || fail "$example" "status $stop_status after SIGTERM"
	check_errors "$dir/errors.$server"
}

for example in examples/*.c examples/*.cc; do
	[ -f "$example" ] || continue
	program=$dir/$(basename "${example%.*}")
	head_of "$example" >"$dir/head"
	command=$(sed -n 's/^ \*   cc //p' "$dir/head")
	sed '1,/^ \*.*It prints:$/d; s/^ \*   \([^ ]\)/\1/; t; d' "$dir/head" \
		>"$dir/expected"
	case $command in
	"$example "*" arch/x86_64.S "*" -o "*) ;;
	*)	fail "$example" "no command line in its head, or not of this file"
		continue ;;
	esac
	command=$(echo "$command" | sed "s|arch/x86_64\.S|$arch|; s| -o .*||")
	if [ "$arch" = arch/setjmp.c ]; then
		command="$command -lm"
	fi
	libraries=$(missing "$command")
	if [ -n "$libraries" ]; then
		echo "$example: skipped, ${CC:-cc} has no library $libraries"
		continue
	fi
	count=$((count + 1))
	command=$(once "$command")
	# shellcheck disable=SC2086
	if ! ${CC:-cc} -Wall -Wextra -Werror ${CFLAGS-} $command ${LDFLAGS-} -o "$program"
	then
		fail "$example" "does not compile"
	elif [ "$example" = examples/11-crawler.c ]; then
		:                       # test_crawler.py has a site for it
	elif [ -s "$dir/expected" ] && [ "$(cat "$dir/expected")" != ready ]; then
		compare_output
	else
		start_and_end
	fi
done
if [ "$count" -eq 0 ]; then
	fail examples "there are none"
fi
conclude "$count built and run with ${CC:-cc}, $arch"
