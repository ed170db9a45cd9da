#!/bin/sh
# SPDX-License-Identifier: MIT
#
# root.sh {[--vary WORDS] COMMAND}...: runs each command line as on a fresh machine, in a
# minimal root. The root has the machine's distribution, Debian or one made from it, and only
# git, make, certificates and netbase besides, whose /etc/hosts each installed system has:
# localhost is 127.0.0.1 and ::1. The commands run in a clone of this checkout's last commit.
# From the machine the root gets the package sources of apt and of pip, proxies, name servers
# and certificates, and nothing else. Like a container it has /proc, /dev with
# pseudo-terminals, and a read-only /sys. /tmp is a tmpfs, if there is memory for it.
#
# All commands run, also after a failure. The exit status is that of the first failure, or
# 77 if no root can be made; a message gives the reason. At the end, also after a signal,
# the root is removed: its mounts and processes are in their own namespaces and end with
# it. It needs root or sudo. It installs debootstrap if that is missing.
#
#   --vary WORDS  how the root differs from this for the commands behind:
#                   one-address  localhost is 127.0.0.1 only
#                   no-ipv6      there is no IPv6, and no network but loopback. iproute2 and
#                                the packages of make check are installed before
#                   disk         /tmp is on the disk
#   ROOT_PARENT   the directory of the root; default /var/tmp. It takes 3 GB there
set -u
parent=${ROOT_PARENT:-/var/tmp}
tmp_kib=$((4 << 20))    # of memory; with less /tmp is on the disk

cannot() {
	echo "root.sh: no root can be made: $*" >&2
	exit 77
}

# The variables for package sources, for CI and for the compiler.
kept() {
	env | sed -nE 's/^(CI|CC|CFLAGS|CPPFLAGS|PIP_[A-Z_]+|[A-Za-z]+_(proxy|PROXY))=.*/\1/p'
}

# copy FILE...: copies existing files to the same place in the root, and overwrites.
copy() {
	for file; do
		if [ -d "$file" ]; then
			mkdir -p "$root$file" && cp -RL "$file/." "$root$file" || exit 77
		elif [ -e "$file" ]; then
			install -D -m 644 "$file" "$root$file" || exit 77
		fi
	done
}

# The first source of the distribution itself, by apt.
find_mirror() {
	suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	mirror=$(apt-get update --print-uris 2>/dev/null |
		sed -n "s|^'\(.*\)/dists/$suite/InRelease'.*|\1|p" | head -n 1)
	if [ -z "$suite" ] || [ -z "$mirror" ]; then
		cannot "apt names no source of '$suite'"
	fi
}

get_debootstrap() {
	command -v debootstrap >/dev/null && return
	echo 'root.sh: debootstrap is missing; installing it through apt'
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q update || cannot 'apt has no lists'
	apt-get -q install -y --no-install-recommends debootstrap || cannot 'no debootstrap'
}

# debootstrap uses the proxy of the environment, apt that of its configuration.
make_system() {
	proxy=$(apt-config shell p Acquire::http::Proxy | sed "s/^p='\(.*\)'$/\1/")
	[ -z "$proxy" ] || export http_proxy="${http_proxy-$proxy}"
	debootstrap --force-check-gpg --variant=minbase \
		--include=git,make,ca-certificates,netbase \
		"$suite" "$root" "$mirror" >"$root.log" 2>&1 || {
		tail -n 20 "$root.log" >&2
		cannot "debootstrap of $suite"
	}
}

# The machine's apt may have hooks that call missing programs: only its settings of
# transfers are copied. dpkg does not sync files: the root is temporary.
configure() {
	rm -f "$root/etc/apt/sources.list"
	copy /etc/apt /usr/share/keyrings /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt \
		/etc/pip.conf
	case ${PIP_FIND_LINKS-} in /*) copy "$PIP_FIND_LINKS" ;; esac
	rm -rf "$root/etc/apt/apt.conf" "$root/etc/apt/apt.conf.d"
	mkdir "$root/etc/apt/apt.conf.d"
	apt-config dump | grep -E '^Acquire::(https?|ftp|Retries|Check)' \
		>"$root/etc/apt/apt.conf.d/machine"
	for file in "${HOME-}/.pip/pip.conf" "${XDG_CONFIG_HOME:-${HOME-}/.config}/pip/pip.conf"; do
		[ ! -e "$file" ] || install -D -m 644 "$file" "$root/root/.config/pip/pip.conf" ||
			exit 77
	done
	echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/fast"
}

make_devices() {
	mount -t tmpfs -o mode=755,nosuid dev "$root/dev" || return
	while read -r name major minor; do
		mknod -m 666 "$root/dev/$name" c "$major" "$minor" || return
	done <<-'END'
		null 1 3
		zero 1 5
		full 1 7
		random 1 8
		urandom 1 9
		tty 5 0
	END
	mkdir "$root/dev/pts" "$root/dev/shm"
	ln -s pts/ptmx "$root/dev/ptmx"
	ln -s /proc/self/fd "$root/dev/fd"
	for name in 0:stdin 1:stdout 2:stderr; do
		ln -s "fd/${name%:*}" "$root/dev/${name#*:}"
	done
	mount -t devpts -o newinstance,mode=620,ptmxmode=666 devpts "$root/dev/pts" &&
		mount -t tmpfs -o mode=1777,nosuid,nodev,size=64m shm "$root/dev/shm"
}

mount_all() {
	mount -t proc proc "$root/proc" || cannot '/proc cannot be mounted'
	mount -t sysfs -o ro sysfs "$root/sys" || cannot '/sys cannot be mounted'
	make_devices || cannot '/dev cannot be made'
	free=$(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo)
	if [ "${free:-0}" -lt $tmp_kib ]; then
		echo 'root.sh: there is not enough memory for a tmpfs: /tmp is on the disk'
	else
		mount -t tmpfs -o "mode=1777,nosuid,nodev,size=${tmp_kib}k" tmp "$root/tmp" ||
			cannot '/tmp cannot be mounted'
	fi
}

# vary WORD...: from now on. Without a network each command has its own loopback, and what make
# check needs is installed before.
vary() {
	for word; do
		case $word in
		one-address) echo '127.0.0.1 localhost' >"$root/etc/hosts" ;;
		no-ipv6) leave_network ;;
		disk) ! mountpoint -q "$root/tmp" || umount "$root/tmp" || exit 77 ;;
		*)	echo "root.sh: --vary has no '$word'" >&2
			exit 2 ;;
		esac
	done
}

leave_network() {
	enter 'apt-get -q install -y iproute2 && scripts/install.sh check' ||
		cannot 'packages of make check'
	net='unshare --net'
	first_line='ip link set lo up && echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6 &&'
}

# enter COMMAND: runs it in the clone.
net=
first_line=
enter() {
	line="$first_line cd /root/usched && $1"
	set -- HOME=/root TERM=dumb \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	for name in $(kept); do
		set -- "$@" "$name=$(printenv "$name")"
	done
	# shellcheck disable=SC2086 # nothing, or a command
	$net chroot "$root" /usr/bin/env -i "$@" sh -c "$line" </dev/null
}

# The main program, inside the namespaces.
inside() {
	began=$(date +%s)
	get_debootstrap
	find_mirror
	make_system
	configure
	mount_all
	git clone -q "$PWD" "$root/root/usched" || cannot 'the checkout cannot be cloned'
	echo "root.sh: a minimal root of $suite, made in $(($(date +%s) - began)) s"
	first=0
	while [ $# -gt 0 ]; do
		if [ "$1" = --vary ]; then
			echo "root.sh: from here on: $2"
			# shellcheck disable=SC2086 # words
			vary $2
			shift 2
			continue
		fi
		command=$1
		shift
		began=$(date +%s)
		echo "root.sh: $command"
		enter "$command"
		status=$?
		[ $first -ne 0 ] || first=$status
		echo "root.sh: $command: exit status $status, $(($(date +%s) - began)) s"
	done
	exit $first
}

# Mounts and processes end with the first process of their namespaces, after a moment.
remove() {
	if [ -n "$child" ]; then
		kill -KILL "$child"
		wait "$child"
	fi 2>/dev/null
	for _ in 1 2 3 4 5; do
		rm -rf --one-file-system "$dir" 2>/dev/null && return
		sleep 1
	done
	echo "root.sh: $dir is left over" >&2
}

if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || cannot 'it takes root, and there is no sudo'
	exec sudo "--preserve-env=$(kept | tr '\n' ,)ROOT_PARENT" "$0" "$@"
fi
cd "$(dirname "$0")/.." || exit 1
if [ "${1-}" = --inside ]; then
	root=$2
	shift 2
	inside "$@"
fi
for tool in apt-get git unshare; do
	command -v $tool >/dev/null || cannot "there is no $tool"
done
unshare --mount --pid --fork --kill-child true 2>/dev/null ||
	cannot 'the system refuses namespaces for mounts and processes'
child=
dir=$(mktemp -d "$parent/usched-root.XXXXXX") || exit 77
trap remove EXIT
trap 'exit 1' HUP INT TERM
unshare --mount --pid --fork --kill-child scripts/root.sh --inside "$dir/root" "$@" &
child=$!
wait $child
status=$?
child=
exit $status
