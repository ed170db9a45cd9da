#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Test suites of other programs, natively and with libusched-posix.so preloaded: CPython's
# (package libpython3-testsuite), and those of libuv, stunnel and libstdc++, whose sources
# come by apt. No case may fail that does not fail natively.
#
#   LONG   1: else it is skipped, for it takes half an hour
#   ONLY   suites: ONLY='libuv stunnel'
#
# The cases that failed are in $B/suites/NAME.native and NAME.preload.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/scripts/adopt.lib
. tests/scripts/adopt.lib
[ "${LONG-}" = 1 ] || skip 'takes half an hour; with LONG=1 it is done'
need_posix
need timeout xargs setpriv cmake c++
mkdir -p "$B/suites"
top=$(cd "$B/suites" && pwd)

# gettid(2) is the number of the processor.
differ='^test_various_ops'

# Each build_NAME builds in $dir once. Each cases_NAME runs a column, and prints the cases,
# each with its verdict.
build_python() {
	/usr/bin/python3 -c 'import test.test_threading'
}

cases_python() {
	for module in thread threading threading_local threadsignals queue selectors socket \
		ssl subprocess signal concurrent_futures asyncio multiprocessing_fork \
		multiprocessing_forkserver
	do      # not sockets of virtual machines, which hang natively
		(cd "$dir" && timeout 1200 env $over /usr/bin/python3 -m test -v -i '*VSOCK*' \
			"test_$module" >log 2>&1 </dev/null) || echo "$module FAIL"
		sed -nE 's/^(test\w+) \(.*\.\.\. ok$/\1 ok/p; s/^(FAIL|ERROR): (\w+).*/\2 FAIL/p' \
			"$dir/log"
	done | sed '/^threading FAIL$/d'        # of $differ
}

build_libuv() {
	mkdir "$dir/uv" && cd "$dir/uv" && cmake "$top/libuv1" && make -j2 && chmod 777 .
}

cases_libuv() {         # not as root
	as=$([ "$(id -u)" -ne 0 ] || echo setpriv --reuid=nobody --regid=nogroup --clear-groups)
	(cd "$dir/uv" && $as env HOME=/tmp $over ./uv_run_tests 2>&1 </dev/null) |
		sed -nE 's/^ok [0-9]+ - (\w+).*/\1 ok/p; s/^not ok [0-9]+ - (\w+).*/\1 FAIL/p'
}

build_stunnel() {
	mkdir "$dir/st" && cd "$dir/st" && "$top/stunnel4/configure" && make &&
		make -C tests/certs check
}

cases_stunnel() {
	echo "exec env $over $dir/st/src/stunnel \"\$@\"" | sed '1i #!/bin/sh' >"$dir/over"
	chmod +x "$dir/over"
	(cd "$dir/st/tests" && python3 "$top/stunnel4/tests/maketest.py" --program "$dir/over" \
		2>&1) | awk '/^[0-9]+\. / { name = $1 } /^\.+ succeeded/ { print name, "ok" }
			     /^\.+ failed/ { print name, "FAIL" }'
}

build_libstdcxx() {
	mkdir "$dir/bin" && cd "$dir" && tar -xJf "$top/$gcc"/gcc-*.tar.xz --strip-components=1 \
		--wildcards '*/libstdc++-v3/testsuite' '*/g++.dg/tls' &&
	grep -lr 'dg-do run' libstdc++-v3/testsuite/30_threads gcc/testsuite/g++.dg/tls |
		xargs -P 2 -I{} sh -c 'std=$(sed -n "s/.*dg-options.*\(-std=[^ \"]*\).*/\1/p" {})
			c++ -w ${std:--std=gnu++17} -Ilibstdc++-v3/testsuite/util {} -pthread \
			-latomic -o "bin/$(echo {} | tr / _)" || true'
}

cases_libstdcxx() {
	for program in "$dir"/bin/*; do
		env $over timeout 60 "$program" >"$dir/log" 2>&1 </dev/null
		echo "${program##*/} $?" | sed 's/ 0$/ ok/'
	done
}

failing() {		# COLUMN [COMMAND...]: of $suite; the number of cases is $ran
	column=$1
	shift
	over=$*
	"cases_$suite" >"$dir/cases"
	ran=$(wc -l <"$dir/cases")
	sed '/ ok$/d; s/ .*//' "$dir/cases" | grep -v "$differ" | sort -u >"$top/$suite.$column"
}

gcc=gcc-$(c++ -dumpversion | sed 's/\..*//')
cp "$preload" "$dir/preload.so"
chmod 755 "$dir"
for suite in ${ONLY:-python libuv stunnel libstdcxx}; do
	case $suite in
	libuv) of=libuv1 ;; stunnel) of=stunnel4 ;; libstdcxx) of=$gcc ;; *) of= ;;
	esac
	{ [ ! "$of" ] || scripts/source.sh "$top" "$of"; } >"$dir/built" 2>&1 &&
		("build_$suite") >>"$dir/built" 2>&1 ||
		{ note "no $suite: $(tail -n 1 "$dir/built")"; continue; }
	failing native
	failing preload "LD_PRELOAD=$dir/preload.so"
	count=$((count + ran))
	[ "$ran" -gt 0 ] || fail "$suite: no case was run"
	note "$suite: $ran cases; $(wc -l <"$top/$suite.native") fail natively"
	cp "$top/$suite.preload" "$dir/first"   # beside other programs, some are late
	comm -13 "$top/$suite.native" "$dir/first" | grep -q . || continue
	failing preload "LD_PRELOAD=$dir/preload.so"
	more=$(comm -13 "$top/$suite.native" "$top/$suite.preload" | comm -12 - "$dir/first")
	[ -z "$more" ] || fail "$suite: fail only preloaded: $(echo $more)"
done
conclude "$count cases"
