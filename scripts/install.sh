#!/bin/sh
# SPDX-License-Identifier: MIT
#
# install.sh check|quick|bench|matrix|peers|site|one: installs what `make' of that name
# needs. With apt, it names the missing packages and installs them; Python packages go to
# .venv, of site to $B/mkdocs/venv. Without apt, it says what to install. If nothing is
# missing, it does nothing. Services that come with packages are not started, and are not
# enabled.
#
#   B     the build directory
#   CC    the compiler
#   ONLY  check: scripts of tests/. Then only what these name counts
#   ROWS  matrix: short, if only these rows are to run
set -u
CC=${CC:-cc}
B=${B:-build}
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

# code FILE...: without lines of comments.
code() {
	grep -hvE '^[[:space:]]*(#[ !]|/?\*)' "$@" 2>/dev/null
}

# sources: the scripts of ONLY, and the files that they name, and that these name.
sources() {
	files=
	for script in $ONLY; do
		files="$files tests/scripts/$script.sh $(find "tests/$script" -type f 2>/dev/null)"
	done
	for _ in 1 2; do
		# shellcheck disable=SC2086
		files="$files $(code $files |
			grep -oE '[A-Za-z0-9_./-]+\.(sh|lib|c|h|cc|py|mk)\b' | sort -u | while read -r name; do
				[ ! -f "$name" ] || [ "$name" = scripts/install.sh ] ||
					echo "$name"
			done)"
	done
	echo "$files"
}

# wanted WORDS: does a file of sources name one of these, outside of a comment? WORDS is a
# pattern of grep. Without ONLY everything is wanted.
wanted() {
	[ "$target" = check ] && [ -n "${ONLY-}" ] || return 0
	[ -n "${named-}" ] || named=$(sources)
	# shellcheck disable=SC2086
	code $named | grep -qwE "$1"
}

# tool WORDS PROGRAM PACKAGE...: useful, if it is wanted and missing.
tool() {
	wanted "$1" && ! exists "$2" || return 0
	shift 2
	useful "$@"
}

# library WORDS HEADER PACKAGE...: likewise.
library() {
	wanted "$1" && ! compiles "$2" || return 0
	shift 2
	useful "$@"
}

look() {
	missing=
	packages=
	compiles stdio.h || must "a C compiler that works, as '$CC', and libc's headers" \
		"$(compiler_packages)"
	case $target in
	check | quick | matrix)
		compiles cmocka.h -lcmocka ||
			must "cmocka 1.1 or later: cmocka.h and libcmocka" libcmocka-dev
		;;
	esac
	case $target in
	check | matrix)
		tool valgrind valgrind valgrind
		;;
	esac
	case $target in
	check)
		tool pkg-config pkg-config pkg-config
		tool mandoc mandoc mandoc
		tool python3 python3 python3
		tool 'objdump|readelf|nm' objdump binutils
		tool 'abidw|abidiff' abidw abigail-tools
		tool cmake cmake cmake
		tool meson meson meson
		# Libraries of the example servers, and their clients.
		library 'lhttp_parser|05-httpd' http_parser.h libhttp-parser-dev
		library 'lhiredis|06-kv' hiredis/hiredis.h libhiredis-dev
		library 'uthash|06-kv' uthash.h uthash-dev
		library 'lsodium|06-kv' sodium.h libsodium-dev
		library 'lssl|10-https' openssl/core.h libssl-dev
		library 'lcurl|11-crawler' curl/curl.h libcurl4-openssl-dev
		library luv uv.h libuv1-dev
		library 'levent(_core)?' event2/event.h libevent-dev
		tool openssl openssl openssl
		tool curl curl curl
		tool socat socat socat
		tool ncat ncat ncat
		tool wrk wrk wrk
		tool promtool promtool prometheus
		tool h2load h2load nghttp2-client
		tool 'redis-(cli|benchmark)' redis-cli redis-tools
		tool pgrep pgrep procps
		# Programs that were written for threads of libc.
		tool microsocks microsocks microsocks
		tool tinyproxy tinyproxy tinyproxy-bin
		tool stunnel4 stunnel4 stunnel4
		tool 'pg_config|lpq' pg_config libpq-dev
		library 'lsqlite3|sqlite3' sqlite3.h libsqlite3-dev
		library lz zlib.h zlib1g-dev
		! wanted servers.py || served few
		tool xz xz xz-utils
		tool strace strace strace
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
	one)
		exists python3 || must "Python 3, as 'python3'" python3
		;;
	site)
		exists mandoc || must mandoc mandoc
		exists python3 || must "Python 3, as 'python3'" python3
		has_mkdocs || python3 -c 'import ensurepip, venv' >/dev/null 2>&1 ||
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

# For the proofs: model checker, sanitizers, fuzzer, profilers. clang
# needs its libraries apart, as recommended packages are not installed.
proofs() {
	tool spin spin spin
	[ "$target" != matrix ] || exists testssl || useful testssl.sh bsdextrautils
	[ "$target" != matrix ] || { adopted && served; }
	tool 'g\+\+|c\+\+|CXX' g++ g++
	tool clang clang clang
	tool 'clang|llvm-symbolizer' llvm-symbolizer llvm
	! wanted clang || installed libclang-rt-14-dev || ! exists apt-get ||
		useful libclang-rt-14-dev
	tool gdb gdb gdb
	library profiler gperftools/profiler.h libgoogle-perftools-dev google-perftools
	tool perf perf linux-perf
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

# served [few]: the packages of servers.py.
served() {
	for package in $(awk -F '"' -v few="${1-}" '/^FEW/ { row = " " $2 " " }
		/ Program\("/ && (!few || index(row, " " $2 " ")) { print $4 }' \
		tests/servers/servers.py)
	do
		installed "$package" || useful "$package"
	done
}

has_matplotlib() {
	.venv/bin/python3 -c 'import matplotlib' >/dev/null 2>&1 ||
		python3 -c 'import matplotlib' >/dev/null 2>&1
}

# The version is part of what is tested: a newer one may look another way.
mkdocs='mkdocs-material==9.8.2'
has_mkdocs() {
	"$B/mkdocs/venv/bin/python3" -c "import importlib.metadata, mkdocs
assert importlib.metadata.version('mkdocs-material') == '${mkdocs##*=}'" 2>/dev/null
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
	$as_root$command
and keeping their services, if they have some, from being started"
	# shellcheck disable=SC2086
	${as_root}apt-get update || stop "could not install:$packages"
	# Some systems lack useful packages. Required ones are looked for again.
	known=
	for package in $packages; do
		! apt-cache show "$package" >/dev/null 2>&1 || known="$known $package"
	done
	# shellcheck disable=SC2086
	[ -z "$known" ] || ${as_root}env DEBIAN_FRONTEND=noninteractive sh -c "$without_services" \
		install $known || stop "could not install:$known"
}

# As root, with packages as arguments. policy-rc.d keeps services from being started; the
# action is "(start)" where the runlevel is not known. Links that start services later, and
# that were not there before, are removed by the tools that made them, which take themselves
# to be called for a package. DPKG_ROOT is a directory in place of /, as for these.
# shellcheck disable=SC2016 # a script
without_services='
	root=${DPKG_ROOT-} policy=${DPKG_ROOT-}/usr/sbin/policy-rc.d
	services() {
		find "$root/etc/systemd/system" "$root/etc/rc2.d" \
			-path "*.wants/*" -o -name "S[0-9]*" 2>/dev/null
	}
	before=$(services)
	if [ ! -e "$policy" ]; then
		trap "rm -f \"$policy\"" EXIT
		trap "exit 1" HUP INT TERM
		printf "%s\n" "#!/bin/sh" "case \" \$* \" in *[\ \(]start[\ \)]*) exit 101 ;; esac" \
			>"$policy" && chmod 755 "$policy"
	fi
	apt-get install -y --no-install-recommends "$@" || exit
	export DPKG_MAINTSCRIPT_PACKAGE=usched
	services | while read -r link; do
		name=${link##*/}
		case " $(echo $before) " in *" $link "*) continue ;; esac
		case $link in
		*.wants/*)	deb-systemd-helper disable "$name" ;;
		*)		update-rc.d "${name#S[0-9][0-9]}" disable ;;
		esac
	done
	exit 0'

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

if [ "$target" = site ] && ! has_mkdocs; then
	echo "make site: installing $mkdocs in $B/mkdocs/venv"
	if ! python3 -m venv --clear "$B/mkdocs/venv" ||
	   ! "$B/mkdocs/venv/bin/python3" -m pip install --quiet --disable-pip-version-check "$mkdocs"
	then
		rm -rf "$B/mkdocs/venv"
		stop "could not install $mkdocs; what pip says is above"
	fi
fi
