#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Builds each example with the command line in its head comment. Its output must be that of
# the comment. A server is started, and ended by SIGTERM. test_servers.py, test_chat.py,
# test_httpd.py and test_kv.py have clients for the servers.
#
# Without CFLAGS, LDFLAGS and EMULATOR the command lines are taken as they are written, with
# gcc and with clang, and linked dynamically and by -static. No object of the library
# defines what is libc's, and no switch goes the long way.
#
#   CC        else: the compiler in place of cc, with options if it needs some
#   CFLAGS    options besides -Wall -Wextra -Werror, in place of -O2
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
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

# shellcheck source=tests/scripts/command.lib
. tests/scripts/command.lib

PORT=${PORT:-$((22000 + $$ % 900))}
# shellcheck source=tests/scripts/server.lib
. tests/scripts/server.lib

fail() {
	note "FAIL: $1: $2" >&2
	failed=$((failed + 1))
}

# head_of FILE: its first comment, with long lines put together.
head_of() {
	sed -n '/^ \*\//q; :more; /\\$/ { N; s/ *\\\n \* */ /; b more; }; p' "$1"
}

# The libraries of a command line that are not installed. Of curl the static one names
# others.
missing() {
	for word in $1; do
		language=c
		case $way$word in
		*-lhttp_parser) header=http_parser.h ;;
		*-lhiredis) header=hiredis/hiredis.h ;;
		*-lsodium) header=sodium.h ;;
		*-lssl) header=openssl/core.h ;;
		-static-lcurl) echo 'curl with all that it needs'; continue ;;
		*-lcurl) header=curl/curl.h ;;
		*-luv) header=uv.h ;;
		*-levent_core) header=event2/event.h ;;
		*-lstdc++) header=exception language=c++ ;;
		*)	continue ;;
		esac
		# shellcheck disable=SC2086
		printf '%s\n' '#include <stdlib.h>' "#include <$header>" \
			'int main(void) { return 0; }' |
			$compiler ${CFLAGS-} $way -x $language - ${LDFLAGS-} $word \
				-o "$dir/library" 2>"$dir/errors" || echo "${word#-l}"
	done
}

# The arguments of a server besides the port.
arguments_of() {
	case $1 in
	*-httpd.c) echo "$dir" ;;
	*-proxy.c) echo 127.0.0.1:1 ;;
	*-https.c) echo "$dir $dir/tls.pem $dir/tls.key" ;;
	esac
}

# Standard error has only the seed of USCHED_STRESS.
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

build_and_run() {
	command=$(command_line "$example")
	case $command in
	"cc -O2 $example build/one/usched-all.c -Ibuild/one "*" -o "* | \
	"cc -O2 $example usched.c arch/x86_64.S "*" -o "*) ;;
	*)	fail "$example" "no command line in its head, or not of this file"
		return ;;
	esac
	libraries=$(missing "$command")
	if [ -n "$libraries" ]; then
		note "$example: skipped, $compiler $way has no library $libraries"
		return
	fi
	[ -z "${CFLAGS-}" ] || command="cc ${command#cc -O2 }"
	count=$((count + 1))
	if ! eval "${command% -o *} -o \"\$program\"" 2>"$dir/errors"; then
		fail "$example" "does not compile: $(cat "$dir/errors")"
	elif [ "$example" = examples/11-crawler.c ] || [ "$example" = examples/18-log.c ]; then
		:                       # test_crawler.py and test_log.py have peers for them
	elif [ -s "$dir/expected" ] && [ "$(cat "$dir/expected")" != ready ]; then
		compare_output
	else
		start_and_end
	fi
}

each_example() {
	for example in examples/*.c examples/*.cc; do
		[ -f "$example" ] || continue
		program=$dir/$(basename "${example%.*}")
		head_of "$example" >"$dir/head"
		sed '1,/^ \*.*It prints:$/d; s/^ \*   \([^ ]\)/\1/; t; d' "$dir/head" \
			>"$dir/expected"
		build_and_run
	done
}

more="-Wall -Wextra -Werror ${CFLAGS-}"
if [ -n "${CFLAGS-}${LDFLAGS-}${EMULATOR-}" ]; then
	each_example
	built="$compiler"
else
	built=
	for compiler in $(compilers_here); do
		for way in $(ways_here); do
			built="$built, $compiler $way"
			apart=
			[ "$compiler $way" != 'gcc dynamic' ] || apart=.
			witness
			way=${way#dynamic}
			each_example
		done
	done
	built=${built#, }
fi
if [ "$count" -eq 0 ]; then
	fail examples "there are none"
fi
conclude "$count built and run with $built, $arch"
