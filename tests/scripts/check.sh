#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What make check says at its end, with tests that are made up; and what scripts/install.sh
# installs for it, with an apt-get that is made up: with ONLY what these scripts need, and no
# service that is started then or later.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

# ---- The end ----

# script NAME: a test of the tree, from standard input.
script() {
	{
		printf '#!/bin/sh\n. tests/scripts/test.lib\n'
		cat
	} >"$dir/tree/tests/scripts/$1.sh"
	chmod +x "$dir/tree/tests/scripts/$1.sh"
}

mkdir -p "$dir/tree/scripts" "$dir/tree/tests/scripts" "$dir/tree/build"
cp scripts/check.sh scripts/lib.sh "$dir/tree/scripts"
cp tests/scripts/test.lib "$dir/tree/tests/scripts"
printf 'CC=cc\nCFLAGS=\nVERSION=1\nSWITCH=setjmp\n' >"$dir/tree/build/flags"
script good <<-'END'
	same 'ONLY, which is for check.sh and not for scripts' unset "${ONLY-unset}"
	conclude 'all is well'
END
script bad <<-'END'
	note 'without a thing'
	fail 'the true reason'
	fail 'what follows from it'
	note 'the last line'
	conclude 'never said'
END
script late <<-'END'
	echo stuck
	exit 124
END
script lost <<-'END'
	need no-such-program
END
# It ends the process that writes down its counts, and with that xargs: it comes last.
script gone <<-'END'
	kill -KILL "$(sed -n 's/^PPid:[^0-9]*//p' /proc/$PPID/status)"
END

# check NAME...: these tests of the tree; what is printed is in $dir/said.
check() {
	(cd "$dir/tree" && env -u CHECK_TIMEOUT CHECK_AT_ONCE=1 MAKE=true B=build CC=cc ONLY="$*" \
		scripts/check.sh) >"$dir/said" 2>&1
}

check good lost || fail 'tests that pass do not pass'
same 'the end without failures' '1 passed, 0 failed, 1 skipped' "$(tail -n 1 "$dir/said")"
same 'failures of tests that pass' '' "$(grep '^failed:' "$dir/said")"
! check good bad late lost gone || fail 'tests that fail pass'
same 'the end with failures' 'failed:
	script bad.sh: exit status 1; the true reason
	script gone.sh: did not end
	script late.sh: timed out; stuck
1 passed, 3 failed, 1 skipped' "$(sed -n '/^failed:/,$p' "$dir/said")"

# reads EXPECTED: what is found in a log from standard input.
reads() {
	cat >"$dir/log"
	same 'the reason in a log' "$1" "$(logs=$dir; . scripts/lib.sh; reason "$dir/log")"
}

reads 'b rr: 0x1 != 0x2: tests/t.c:8' <<-'END'
	[ RUN      ] a
	[       OK ] a
	[ RUN      ] b rr
	[  ERROR   ] --- 0x1 != 0x2
	[   LINE   ] --- tests/t.c:8: error: Failure!
	[  FAILED  ] b rr
	[ RUN      ] c
	[  ERROR   ] --- c itself
	[  PASSED  ] 1 test(s).
END
reads 'b rr: tests/t.c:9: n == 1: 2 is not 1' <<-'END'
	[       OK ] a
	[ RUN      ] b rr
	tests/t.c:9: n == 1: 2 is not 1
END
reads 'b rr did not end' <<-'END'
	[       OK ] a
	[ RUN      ] b rr
	thread 1
END
reads 'ERROR: test_c (a.A.test_c): OSError: no' <<-'END'
	test_b (a.A.test_b) ... ok
	======================================================================
	ERROR: test_c (a.A.test_c)
	----------------------------------------------------------------------
	Traceback (most recent call last):
	OSError: no
	FAILED (errors=1)
END
reads 'a: ==123== Invalid read of size 8' <<-'END'
	[ RUN      ] a
	==123== Warning: set address range perms: large range
	==123== Invalid read of size 8
	==123==    at 0x10923C: main (t.c:3)
	[       OK ] a
END

# ---- What is installed ----

# The machine has nothing but these tools, and packages are files of $dir/root.
mkdir -p "$dir/bin" "$dir/root/usr/sbin" "$dir/root/etc/systemd/system/multi-user.target.wants" \
	"$dir/root/etc/systemd/system/timers.target.wants" "$dir/root/etc/rc2.d"
for tool in sh sed grep env id mktemp rm find sort cat chmod ls; do
	ln -s "$(command -v $tool)" "$dir/bin/$tool"
done
wants=$dir/root/etc/systemd/system/multi-user.target.wants
timers=$dir/root/etc/systemd/system/timers.target.wants
: >"$wants/old.service"
: >"$dir/root/etc/rc2.d/S01older"

# fake NAME: a program of this machine, from standard input.
fake() {
	{
		echo '#!/bin/sh'
		cat
	} >"$dir/bin/$1"
	chmod +x "$dir/bin/$1"
}

fake apt-cache <<-END
	exit 0
END
fake sudo <<-END
	exec "\$@"
END
fake dpkg-query <<-END
	exit 1
END
# As packages with services do: they ask policy-rc.d, and enable.
fake apt-get <<-END
	[ "\$1" = install ] || exit 0
	echo " \$*" >>"$dir/installed"
	for action in start '(start)' restart '(restart)'; do
		"$dir/root/usr/sbin/policy-rc.d" new "\$action" 2
		echo "\$action \$?" >>"$dir/policy"
	done
	: >"$wants/new.service"
	: >"$wants/new.target"
	: >"$timers/new.timer"
	: >"$dir/root/etc/rc2.d/S03newer"
END
fake deb-systemd-helper <<-END
	[ -z "\$DPKG_MAINTSCRIPT_PACKAGE" ] || echo "\$*" >>"$dir/disabled"
END
fake update-rc.d <<-END
	echo "\$*" >>"$dir/disabled"
END

# installs SCRIPT...: the packages for them are in $dir/installed.
installs() {
	rm -f "$dir/installed" "$dir/policy" "$dir/disabled" "$wants"/new.* "$timers"/* \
		"$dir/root/etc/rc2.d/S03newer"
	DPKG_ROOT=$dir/root PATH=$dir/bin ONLY="$*" CC=cc "$dir/bin/sh" scripts/install.sh check \
		>"$dir/said" 2>&1
	[ -s "$dir/installed" ] || fail "nothing is installed for $*: $(cat "$dir/said")"
}

# lacks WORD...: none of these packages.
lacks() {
	for word; do
		! grep -q " $word\( \|$\)" "$dir/installed" || fail "$word is installed for no test"
	done
}

# packages WORD...: all of these.
packages() {
	for word; do
		has " $word\( \|$\)" "$dir/installed"
	done
}

installs words
same 'packages for words.sh' ' install -y --no-install-recommends gcc libc6-dev libcmocka-dev' \
	"$(cat "$dir/installed")"
installs words sanitize
packages clang llvm valgrind
lacks prometheus curl redis-tools stunnel4
installs adopt
packages curl openssl microsocks tinyproxy-bin stunnel4 libsqlite3-dev libhttp-parser-dev
lacks prometheus clang valgrind
installs ''
packages prometheus clang valgrind stunnel4 mandoc

same 'services that may be started, and started again' 'start 101
(start) 101
restart 0
(restart) 0' "$(cat "$dir/policy")"
same 'policy-rc.d afterwards' '' "$(ls "$dir/root/usr/sbin")"
same 'services that are disabled' 'disable new.service
disable new.target
disable new.timer
newer disable' "$(sort "$dir/disabled")"
echo exit >"$dir/root/usr/sbin/policy-rc.d"
chmod +x "$dir/root/usr/sbin/policy-rc.d"
installs words
same 'a policy-rc.d of the machine' exit "$(cat "$dir/root/usr/sbin/policy-rc.d")"

conclude "$count checks"
