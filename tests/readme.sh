#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The README, as a newcomer follows it: its server is compiled in by the command line that
# it gives, echoes, and says why it ends where the port is taken or the address is wrong.
# The files that it names for five questions are where the answers are.
#
#   CC, SWITCH    as for make, which sets them
#   PORT          for the server, the first that is free after this one
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/test.lib

PORT=${PORT:-27900}
# shellcheck source=tests/server.lib
. tests/server.lib

awk '/^```/ { if (on) exit; on = $0 == "```c"; next } on' README.md >"$dir/server.c"
command=$(sed -n '/^cc server\.c u\*/p' README.md)
switch=$(ls arch/"${SWITCH:-$(uname -m)}".[cS] 2>/dev/null)
command=$(echo "$command" | sed -e "s|^cc|${CC:-cc} -Wall -Wextra -Werror|" \
	-e "s|server\.c|$dir/server.c|" -e "s|arch/x86_64\.S|${switch:-arch/setjmp.c} -lm|" \
	-e "s|-o server|-o $dir/server|")
if [ -z "$command" ] || ! eval "$command"; then
	fail "the server does not build: $command"
	exit 1
fi

"$dir/server" 127.0.0.1:99999 2>"$dir/log" && fail 'a wrong address is no error'
grep -q '^server: 127.0.0.1:99999: ' "$dir/log" || fail 'a wrong address is not told'

# Where the port is taken by others, the next one.
for _ in 1 2 3 4 5 6 7 8 9 10; do
	port=$((port + 1))
	"$dir/server" "127.0.0.1:$port" 2>"$dir/log" &
	server=$!
	servers=$server
	until_true 600 is_up $port $server
	listens_itself $port $server && break
done
limited "$dir/server" "127.0.0.1:$port" 2>"$dir/log" && fail 'a port that is taken is no error'
grep -q "^server: 127.0.0.1:$port: .*in use" "$dir/log" || fail 'a port that is taken is not told'
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

# holds FILE FUNCTION: the README names them together, and the function is there.
holds() {
	grep -q "($1).*\`$2\`" README.md || fail "README.md does not look for $2() in $1"
	grep -qE "^[a-z].*[ *]$2\(" "$1" || fail "$1 has no $2()"
}
holds usched.c evict
holds usched.c load_frames
holds private/uproc_native.inc unpark
holds unet.c unet_close

conclude "a server, by the README's own command line"
