#!/bin/sh
# SPDX-License-Identifier: MIT
#
# install.sh check|bench|matrix|peers: installs what `make' of that name needs. With apt,
# it names the missing packages and installs them; Python packages go to .venv. Without
# apt, it says what to install. If nothing is missing, it does nothing.
#
#   CC    the compiler
#   ROWS  matrix: short, if only these rows are to run
set -u
CC=${CC:-cc}
target=$1
missing=                # what is required, in words
packages=               # all packages to install: required, or useful

exists() {
	command -v "$1" >/dev/null 2>&1
}

# installed PACKAGE: by dpkg?
installed() {
	dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q ' installed$'
}

tool_of() {
	case $1 in
	golang-go)      echo go ;;
	rustc-web)      echo rustc ;;
	cargo-web)      echo cargo ;;
	chezscheme)     echo scheme ;;
	guile-3.0)      echo guile ;;
	*)              echo "$1" ;;
	esac
}

# compiles HEADER [OPTION]: does a program with the header build?
compiles() {
	object=$(mktemp) || exit 1
	# $CC may have options.
	# shellcheck disable=SC2086
	printf '%s\n' '#include <setjmp.h>' '#include <stdarg.h>' '#include <stddef.h>' \
		'#include <stdint.h>' "#include <$1>" 'int main(void) { return 0; }' |
		$CC -x c - -o "$object" ${2+"$2"} >/dev/null 2>&1
	result=$?
	rm -f "$object"
	return $result
}

# The Debian packages of the compiler.
compiler_packages() {
	case ${CC%% *} in
	cc | gcc)               echo gcc libc6-dev ;;
	musl-gcc)               echo musl-tools ;;
	*-linux-gnu*-gcc)       cross_packages "${CC%%-gcc*}" ;;
	*)                      echo "${CC%% *}" libc6-dev ;;
	esac
}

# cross_packages TRIPLE: those of a compiler for another machine, and of its libc.
cross_packages() {
	case $1 in
	aarch64-*)      libc=arm64 ;;
	arm-*)          libc=armhf ;;
	i686-*)         libc=i386 ;;
	powerpc64le-*)  libc=ppc64el ;;
	*)              libc=${1%%-*} ;;
	esac
	echo "gcc-$1 libc6-dev-$libc-cross"
}

# must WORDS PACKAGE...: it is missing, and required.
must() {
	missing="$missing
	$1"
	shift
	packages="$packages $*"
}

# useful PACKAGE...: it is missing, and tests are skipped without it.
useful() {
	packages="$packages $*"
}

look() {
	missing=
	packages=
	compiles stdio.h || must "a C compiler that works, as '$CC', and libc's headers" \
		"$(compiler_packages)"
	case $target in
	check | matrix)
		compiles cmocka.h -lcmocka ||
			must "cmocka 1.1 or later: cmocka.h and libcmocka" libcmocka-dev
		exists valgrind || useful valgrind
		;;
	esac
	case $target in
	check)
		exists pkg-config || useful pkg-config
		exists mandoc || useful mandoc
		exists python3 || useful python3
		exists objdump || useful binutils
		# Libraries of the example servers, and their clients.
		compiles http_parser.h || useful libhttp-parser-dev
		compiles hiredis/hiredis.h || useful libhiredis-dev
		compiles uthash.h || useful uthash-dev
		compiles openssl/core.h || useful libssl-dev
		compiles curl/curl.h || useful libcurl4-openssl-dev
		compiles uv.h || useful libuv1-dev
		compiles event2/event.h || useful libevent-dev
		exists openssl || useful openssl
		exists curl || useful curl
		exists socat || useful socat
		exists ncat || useful ncat
		exists wrk || useful wrk
		exists promtool || useful prometheus
		exists h2load || useful nghttp2-client
		exists redis-cli || useful redis-tools
		exists pgrep || useful procps
		# Programs that were written for threads of libc.
		exists microsocks || useful microsocks
		exists tinyproxy || useful tinyproxy-bin
		exists stunnel4 || useful stunnel4
		exists pg_config || useful libpq-dev
		compiles sqlite3.h || useful libsqlite3-dev
		compiles zlib.h || useful zlib1g-dev
		exists xz || useful xz-utils
		exists strace || useful strace
		proofs
		;;
	matrix)
		proofs
		exists gcc || useful gcc
		exists clang || useful clang llvm
		exists musl-gcc || useful musl-tools
		for triple in aarch64-linux-gnu i686-linux-gnu riscv64-linux-gnu s390x-linux-gnu
		do
			exists $triple-gcc || useful "$(cross_packages $triple)"
		done
		exists qemu-aarch64-static || exists qemu-aarch64 || useful qemu-user-static
		exists xz || useful xz-utils
		[ "${ROWS-}" != short ] || return
		for triple in arm-linux-gnueabihf powerpc64le-linux-gnu mips64el-linux-gnuabi64 \
			hppa-linux-gnu
		do
			exists $triple-gcc || useful "$(cross_packages $triple)"
		done
		exists aarch64-linux-gnu-g++ || useful g++-aarch64-linux-gnu
		# More compilers, as far as the system has them.
		for version in 11 12; do
			exists g++-$version || useful gcc-$version g++-$version
		done
		for version in 14 15 16 19 22; do
			exists clang-$version || useful clang-$version
		done
		;;
	bench)
		exists python3 || must "Python 3, as 'python3'" python3
		has_matplotlib || python3 -c 'import ensurepip, venv' >/dev/null 2>&1 ||
			must "Python's modules venv and ensurepip" python3-venv
		;;
	peers)
		# A newer tool from elsewhere does as well. Missing ones are skipped.
		while read -r package; do
			exists "$(tool_of "$package")" || installed "$package" ||
				useful "$package"
		done <bench/peers/packages
		;;
	esac
}

# For the proofs: model checker, sanitizers, fuzzer, random programs, profilers. clang
# needs its libraries apart, as recommended packages are not installed.
proofs() {
	exists spin || useful spin
	[ "$target" != matrix ] || exists testssl || useful testssl.sh bsdextrautils
	[ "$target" != matrix ] || adopted
	exists csmith || useful csmith libcsmith-dev
	exists g++ || useful g++
	exists clang || useful clang
	exists llvm-symbolizer || useful llvm
	installed libclang-rt-14-dev || ! exists apt-get || useful libclang-rt-14-dev
	exists gdb || useful gdb
	compiles gperftools/profiler.h || useful libgoogle-perftools-dev google-perftools
	exists perf || useful linux-perf
}

# For "proof adopt": servers, and clients with servers of their own.
adopted() {
	exists microsocks || useful microsocks
	exists tinyproxy || useful tinyproxy-bin
	exists stunnel4 || useful stunnel4
	compiles microhttpd.h || useful libmicrohttpd-dev
	exists curl || useful curl
	exists wrk || useful wrk
	exists ncat || useful ncat
	exists redis-server || useful redis-server redis-tools
	exists psql || useful postgresql postgresql-client
}

has_matplotlib() {
	.venv/bin/python3 -c 'import matplotlib' >/dev/null 2>&1 ||
		python3 -c 'import matplotlib' >/dev/null 2>&1
}

stop() {
	echo "make $target: $1" >&2
	exit 1
}

install_packages() {
	command="apt-get install -y --no-install-recommends$packages"
	if [ "$(id -u)" -eq 0 ]; then
		as_root=
	elif exists sudo; then
		as_root='sudo '
	else
		stop "packages are missing and there is no sudo. As root, run
	$command"
	fi
	echo "make $target: missing packages; running
	${as_root}apt-get update
	$as_root$command"
	# shellcheck disable=SC2086
	${as_root}apt-get update || stop "could not install:$packages"
	# Some systems lack useful packages. Required ones are looked for again.
	known=
	for package in $packages; do
		! apt-cache show "$package" >/dev/null 2>&1 || known="$known $package"
	done
	command="apt-get install -y --no-install-recommends$known"
	# shellcheck disable=SC2086
	[ -z "$known" ] || ${as_root}env DEBIAN_FRONTEND=noninteractive $command ||
		stop "could not install:$known"
}

look
if [ -n "$packages" ] && exists apt-get; then
	install_packages
	look
fi
if [ -n "$missing" ]; then
	stop "install these, they are missing here:$missing"
fi

if [ "$target" = bench ] && ! has_matplotlib; then
	echo "make bench: matplotlib is missing; installing it in .venv"
	if ! python3 -m venv --clear .venv ||
	   ! .venv/bin/python3 -m pip install --quiet --disable-pip-version-check matplotlib
	then
		rm -rf .venv
		stop "could not install Python's matplotlib in .venv; what pip says is above.
	Its package in the system would do as well; in Debian: python3-matplotlib"
	fi
fi
