#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The README, as a newcomer follows it: `make one', and its server by the command line that
# it gives, as that stands there, in a directory with these three files. The server echoes,
# and says why it ends where the port is taken or the address is wrong. So does the server
# by the command line of usched(7). The command lines of the manual pages build the programs
# above them. All of this with gcc and with clang, linked dynamically and by -static; the
# server with musl-gcc, too. No object of the library defines what is libc's, and no switch
# goes the long way, which debug/ulocks.c would have it go. That file refuses static
# programs. examples.sh does the same for the examples.
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

# build COMMAND-LINE SOURCE PROGRAM: the line as it is, except for the two names.
build() {
	line=$(echo "$1" | sed -e "s| [a-z]*\.c| $2|" -e 's| -o .*||')
	eval "$line -o $3" 2>"$dir/log" && return
	fail "$compiler $way: does not build: $line: $(cat "$dir/log")"
	return 1
}

# The last program above the command line of a manual page. \e is a backslash.
program_of() {
	awk '/^cc .*pkg-config/ { printf "%s", program; exit }
	/^\.Bd/ { text = ""; on = 1; next }
	/^\.Ed/ { on = 0; if (text ~ /int main/) program = text }
	on { sub(/\\&/, ""); gsub(/\\e/, "\\"); text = text $0 "\n" }' "$1"
}

build_pages() {
	for page in $(grep -l '^cc .*pkg-config' doc/*.[17] doc/*.3.in); do
		case $page in
		*/usched.7) program_of doc/unet.3.in ;; # it names no program
		*)          program_of "$page" ;;
		esac >"$dir/prog.c"
		rm -f "$dir"/objects/*prog.c.o
		command=$(grep '^cc .*pkg-config' "$page")
		case $command in *' -O2 '*) ;; *) fail "$page: no -O2: $command" ;; esac
		build "$command" "$dir/prog.c" "$dir/prog" || continue
		count=$((count + 1))
		case $page in
		*/unet.3.in | */usched.7) continue ;;      # a server, as that of the README
		esac
		limited "$dir/prog" >/dev/null 2>"$dir/log" ||
			fail "$page, $compiler $way: status $?"
		[ ! -s "$dir/log" ] || fail "$page, $compiler $way: $(head -n 3 "$dir/log")"
	done
}

# As it is typed, in a directory with nothing else.
type_command() {
	rm -rf "$dir/one"
	mkdir "$dir/one"
	cp "$files/usched-all.c" "$files/usched.h" "$dir/one"
	readme_server_c >"$dir/one/server.c"
	(
		cd "$dir/one" || exit
		cc() {
			# shellcheck disable=SC2086
			$compiler "$@" $more $way $lm
		}
		eval "$typed"
	) 2>"$dir/log" && mv "$dir/one/server" "$dir/server" && return
	fail "$compiler $way: does not build: $typed: $(cat "$dir/log")"
	return 1
}

# The server of the README, at $dir/server.
serve() {
	count=$((count + 1))
	"$dir/server" 127.0.0.1:99999 2>"$dir/log" && fail 'a wrong address is no error'
	grep -q '^server: 127.0.0.1:99999: ' "$dir/log" || fail 'a wrong address is not told'

	# Where the port is taken by others, the next one.
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		port=$((port + 1))
		"$dir/server" "127.0.0.1:$port" 2>"$dir/said" &
		server=$!
		servers=$server
		until_true 600 is_up $port $server
		listens_itself $port $server && break
	done
	limited "$dir/server" "127.0.0.1:$port" 2>"$dir/log" &&
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
	line=$(command_line examples/01-hello.c | sed 's/ rr\.c/ debug\/ulocks.c&/; s/ -o .*//')
	if ! eval "$line -o $dir/locks" 2>"$dir/log"; then
		fail "with debug/ulocks.c hello does not build: $(cat "$dir/log")"
		return
	fi
	limited "$dir/locks" >/dev/null 2>"$dir/log"
	status=$?
	if [ "$way" = -static ]; then
		same "status of a static program with ulocks.c, $compiler" 127 $status
		has '^usched: ulocks\.c finds no pthread_[a-z_]* of libc: ' "$dir/log"
	else
		same "status with ulocks.c, $compiler" 0 $status
		[ -z "$shows" ] || has '^a switch goes the long way$' "$dir/log"
	fi
}

typed=$(sed -n '/^cc .* usched-all\.c /{ p; q; }' README.md)
files=$B/one
lm=
[ "$arch" != arch/setjmp.c ] || lm=-lm
case $typed in
'cc -O2 server.c usched-all.c -pthread -o server') ;;
*)	fail "README.md: another command line: $typed" ;;
esac
$MAKE -s --no-print-directory one || die 'make one'
readme_server_c installed >"$dir/server.c"
for compiler in $(compilers_here) $(command -v musl-gcc); do
	witness
	for way in $(ways_here); do
		way=${way#dynamic}
		type_command && serve
		case $compiler in *musl-gcc) continue ;; esac
		build "$(command_line doc/usched.7)" "$dir/server.c" "$dir/server" && serve
		build_pages
		add_locks
	done
done

# One command line in each of these files; none in others, where it would not be built.
for file in *.md *.h */*.h doc/*.* examples/*.*; do
	lines=$(grep -cE '(^|[ `])cc .*arch/x86_64\.S' "$file")
	case $lines:$file in
	0:* | 1:doc/*.3.in | 1:doc/*.7 | 1:examples/*) ;;
	*)	fail "$file: command lines that are not built: $lines in all" ;;
	esac
done

conclude "$count programs, by command lines of documents"
