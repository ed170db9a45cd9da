# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# shellcheck disable=SC2154,SC3045 # the caller sets them; all shells have ulimit -n
#
# server.sh: for scripts that exec a server of another project, so that the server has
# their process number and gets their SIGTERM. The including script sets
#
#   me, names, count   the program's name, the names of its arguments, their number
#   server             the command
#
# It calls prepare() before the exec. Then watch() runs beside the server: it prints when
# the server listens, and removes temporary files after the server has ended.

fail() {		# MESSAGE
	echo "$me: $1" >&2
	exit 1
}

usage() {
	echo "usage: $me $names" >&2
	exit 2
}

least() {		# NUMBER|unlimited NUMBER
	case $1 in
	unlimited) echo "$2" ;;
	*) echo $(($1 < $2 ? $1 : $2)) ;;
	esac
}

# Sets `tmp', the name of a temporary directory.
prepare() {
	tmp=$(mktemp -d) || fail 'cannot make a temporary directory'
	mkfifo "$tmp/pipe" || fail 'cannot make a pipe'
	watch &
	exec 9>"$tmp/pipe"
}

# The kernel's number of the socket that listens at 127.0.0.1:PORT.
listener() {
	awk -v "at=$(printf '0100007F:%04X' "$port")" \
		'$2 == at && $4 == "0A" { print $10 }' /proc/net/tcp
}

listens() {
	number=$(listener)
	[ -n "$number" ] || return 1
	find "/proc/$$/fd" -lname "socket:\[$number\]" 2>/dev/null | grep -q .
}

announce() {
	until listens; do
		sleep 0.02
	done
	echo ready
}

# The server has the pipe open as long as it runs, and never writes to it.
watch() {
	announce &
	exec >/dev/null
	trap '' HUP INT TERM
	read -r _ <"$tmp/pipe"
	kill $! 2>/dev/null
	rm -rf "$tmp"
}

[ $# -eq "$count" ] || usage
port=$1
case $port in
'' | *[!0-9]* | 0* | ??????*) usage ;;
esac
[ "$port" -le 65535 ] || usage
ulimit -S -n "$(ulimit -H -n)"
