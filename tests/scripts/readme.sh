#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The README, as a newcomer follows it: its commands as they are printed, typed in a fresh
# copy of the tree with the server saved there. The server echoes, and says why it ends
# where the port is taken or the address is wrong. The command lines of manual pages build
# the programs above them with the installed library, from a directory with nothing else.
# All of this with gcc and with clang, the programs linked dynamically and by -static; the
# server with musl-gcc, too. No object of the library defines what is libc's, and no switch goes the
# long way, which debug/ulocks.c would have it go. That file refuses static programs.
# examples.sh does the same for the examples.
# The files that the README names for five questions are where the answers are.
#
#   CC, SWITCH    as for make, which sets them
#   PORT          for the server, the first that is free after this one
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

# shellcheck source=tests/scripts/command.lib
. tests/scripts/command.lib

PORT=${PORT:-27900}
# shellcheck source=tests/scripts/server.lib
. tests/scripts/server.lib
more='-Wall -Wextra -Werror'

# The last program above the command line of a manual page. \e is a backslash.
program_of() {
	awk '/^cc .*pkg-config/ { printf "%s", program; exit }
	/^\.Bd/ { text = ""; on = 1; next }
	/^\.Ed/ { on = 0; if (text ~ /int main/) program = text }
	on { sub(/\\&/, ""); gsub(/\\e/, "\\"); text = text $0 "\n" }' "$1"
}

# typed DIRECTORY LINE...: as it is typed there, by this compiler.
typed() {
	(
		cd "$1" || exit
		cc() {
			# shellcheck disable=SC2086
			$compiler "$@" $more $way $lm
		}
		make() {
			env -u B -u MAKEFLAGS -u CPPFLAGS $MAKE -s --no-print-directory "CC=$compiler" "$@"
		}
		shift
		for line; do
			eval "$line" || exit
		done
	) >"$dir/log" 2>&1 && return
	fail "$compiler $way: $*: $(cat "$dir/log")"
	return 1
}

build_pages() {
	for page in $(grep -l '^cc .*pkg-config' doc/*.3.in); do
		rm -rf "$dir/page"
		mkdir "$dir/page"
		program_of "$page" >"$dir/page/prog.c"
		typed "$dir/page" "$(grep '^cc .*pkg-config' "$page")" || continue
		count=$((count + 1))
		case $page in
		*/unet.3.in) continue ;;        # a server, as that of the README
		esac
		limited "$dir/page/a.out" >/dev/null 2>"$dir/log" ||
			fail "$page, $compiler $way: status $?"
		[ ! -s "$dir/log" ] || fail "$page, $compiler $way: $(head -n 3 "$dir/log")"
	done
}

# The server of the README, at $dir/server.
serve() {
	count=$((count + 1))
	"$dir/clone/server" 127.0.0.1:99999 2>"$dir/log" && fail 'a wrong address is no error'
	grep -q '^server: 127.0.0.1:99999: ' "$dir/log" || fail 'a wrong address is not told'

	# Where the port is taken by others, the next one.
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		port=$((port + 1))
		"$dir/clone/server" "127.0.0.1:$port" 2>"$dir/said" &
		server=$!
		servers=$server
		until_true 600 is_up $port $server
		listens_itself $port $server && break
	done
	limited "$dir/clone/server" "127.0.0.1:$port" 2>"$dir/log" &&
		fail 'a port that is taken is no error'
	grep -q "^server: 127.0.0.1:$port: .*in use" "$dir/log" ||
		fail 'a port that is taken is not told'
	talk
	kill_servers
	wait "$server" 2>/dev/null
	servers=
	[ ! -s "$dir/said" ] || fail "$compiler $way: the server: $(head -n 3 "$dir/said")"
}

# A client: the server's thread blocks.
talk() {
	if command -v python3 >/dev/null; then
		python3 - "$port" <<-'END' || fail 'the server does not echo'
		import socket, sys
		data = bytes(range(256)) * 400
		with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 600) as s:
		    s.sendall(data[:1000])
		    got = b""
		    while len(got) < 1000:
		        got += s.recv(4096)
		    s.shutdown(socket.SHUT_WR)
		    sys.exit(got != data[:1000] or s.recv(1) != b"")
		END
	else
		note 'without python3 the server was not talked to'
	fi
}

# With debug/ulocks.c the witness does say so, and static programs are refused.
add_locks() {
	line=$(command_line examples/01-hello.c | sed 's/ build.one.usched-all/ debug\/ulocks.c&/; s/ -o .*//')
	if ! eval "$line -o $dir/locks" 2>"$dir/log"; then
		fail "with debug/ulocks.c hello does not build: $(cat "$dir/log")"
		return
	fi
	# On a busy machine each wake may come before the wait, so hello never switches.
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		limited "$dir/locks" >/dev/null 2>"$dir/log"
		status=$?
		[ ! -s "$dir/log" ] || break
	done
	if [ "$way" = -static ]; then
		same "status of a static program with ulocks.c, $compiler" 127 $status
		has '^usched: ulocks\.c finds no pthread_[a-z_]* of libc: ' "$dir/log"
	else
		same "status with ulocks.c, $compiler" 0 $status
		[ -z "$shows" ] || has '^a switch goes the long way$' "$dir/log"
	fi
}

# The block of commands after the server: make one, and the compiler.
commands=$(awk '/^```c$/ { n = 1; next } /^```/ && n { if (++n > 3) exit; next } n == 3' README.md)
lm=
[ "$arch" != arch/setjmp.c ] || lm=-lm
case $commands in
'make one
cc -O2 server.c build/one/usched-all.c -Ibuild/one -pthread -o server') ;;
*)	fail "README.md: other commands: $commands" ;;
esac
mkdir "$dir/clone"
tar --exclude=.git --exclude="./$B" --exclude=./build --exclude='./*.svg' -cf - . |
	tar -xf - -C "$dir/clone" || exit
readme_server_c >"$dir/clone/server.c"
$MAKE -s --no-print-directory install "prefix=$dir/installed" DESTDIR= TLS= POSIX= SIM= \
	>"$dir/log" 2>&1 || die "make install: $(tail -n 3 "$dir/log")"
export PKG_CONFIG_PATH="$dir/installed/lib/pkgconfig" LD_LIBRARY_PATH="$dir/installed/lib"
for compiler in $(compilers_here) $(command -v musl-gcc); do
	for way in $(ways_here); do
		way=${way#dynamic}
		# shellcheck disable=SC2086
		[ -n "$way" ] || { typed "$dir/clone" "$commands" && serve; }
		case $compiler in *musl-gcc) continue ;; esac
		build_pages
		apart=.
		witness
		add_locks
		apart='' shows=''
	done
done

# One command line in each of these files; none in others, where it would not be built.
for file in *.md *.h */*.h doc/*.* examples/*.*; do
	lines=$(grep -cE '(^|[ `])cc .*(arch/x86_64\.S|usched-all\.c)' "$file")
	case $lines:$file in
	0:* | 1:README.md | 1:doc/usched.7 | 1:usched-all.h | 1:examples/*) ;;
	*)	fail "$file: command lines that are not built: $lines in all" ;;
	esac
done

conclude "$count programs, by command lines of documents"
