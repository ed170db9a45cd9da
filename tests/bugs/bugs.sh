#!/bin/sh
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034,SC2154	# Variables of recipes.
#
# Known bugs of real programs in the simulation. A recipe, tests/bugs/NAME.sh, has
#
#   program, bug   what is shown of it
#   bad, good      `PACKAGE VERSION' of source packages of Debian
#   mode           -fsanitize=thread, or nothing
#   options        of usched-run
#   arguments      of the program
#   libs           that it is linked with
#   runs           in place of RUNS
#   build()        compiles the program in $source and the driver to objects, by object()
#   repair()       changes the bad one's source, which is what `good' is without a version
#
# Each is searched in three ranges of RUNS seeds and SECONDS; the program runs natively
# NATIVE times, and what is repaired passes FIXED runs. Prints the rows of doc/testing.md.
#
#   ONLY           names of recipes: 'xz-*'
#   BUGS           the directory of the sources: PACKAGE-VERSION of each. Those that are
#                  not there come by apt-get source, where apt has servers of Debian.
#                  The programs are left there, for usched-run --sim
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib
: "${ONLY:=*}" "${BUGS:=$B/bugs}" "${RUNS:=1000}" "${SECONDS_EACH:=120}" "${NATIVE:=100}"
: "${FIXED:=1000}"

here=$PWD/tests/bugs
library=$(cd "$B" && pwd)/libusched-sim.so
[ -f "$library" ] || skip "there is no $library: make POSIX=1 SIM=1 sim posix"
mkdir -p "$BUGS/apt/lists/partial"
BUGS=$(cd "$BUGS" && pwd)

apt() {			# TOOL COMMAND...
	tool=$1
	shift
	apt-$tool -qq -o "Dir::Etc::sourcelist=$BUGS/apt/list" -o Dir::Etc::sourceparts=- \
		-o "Dir::State::lists=$BUGS/apt/lists" -o APT::Sandbox::User=root \
		"$@" 2>>"$dir/apt"
}

# Asks the servers that the machine has for Debian, for sources of all suites.
suites() {
	[ -f "$BUGS/apt/list" ] && return
	apt-get indextargets --format '$(SITE) $(ORIGIN) $(CODENAME)' 2>/dev/null |
		sed -n 's/ Debian [a-z]*\(-security\)\{0,1\}$/ \1/p' | sort -u |
		while read -r server security; do
			for suite in bullseye bookworm trixie; do
				echo "deb-src $server $suite$security main"
			done
			[ "$security" ] || echo "deb-src $server sid main"
		done >"$BUGS/apt/list"
	apt get update >/dev/null
}

# Sets source, to a directory with the source: PACKAGE VERSION.
get() {
	source=$BUGS/$1-$2
	[ -d "$source" ] && return
	suites
	for full in $(apt cache showsrc --only-source "$1" |
		sed -n "s/^Version: \($2[-+].*\)/\1/p" | sort -u); do
		rm -rf "$dir/get"
		mkdir "$dir/get"
		(cd "$dir/get" && apt get source --download-only --tar-only "$1=$full") \
			>/dev/null || continue
		mkdir "$source" && tar -xf "$dir"/get/*.orig.tar.[gx]z -C "$source" \
			--strip-components=1 && return
	done
	return 1
}

# object OPTIONS AND SOURCES: each makes an object, here.
object() {
	$CC -w -g -O1 $built -c -D_GNU_SOURCE "$@"
}

# Makes the program $BUGS/$name: its SUFFIX and MODE.
made() {
	built=$2
	rm -rf "$dir/objects"
	mkdir "$dir/objects"
	(cd "$dir/objects" && build && $CC -o "$BUGS/$name$1" ./*.o -pthread $libs \
		${built:+"$library" "-Wl,-rpath,${library%/*}"}) >"$dir/make" 2>&1 && return
	fail "$name does not compile: $(tail -n 5 "$dir/make" | cut -c1-200)"
	return 1
}

simulated() {		# SEEDS PROGRAM
	USCHED_SIM_LIBRARY=$library timeout -k 1 "$SECONDS_EACH" posix/usched-run --sim \
		--seeds "$1" $options "$2" $arguments >"$dir/out" 2>&1
}

# Prints the runs up to the first failure of three ranges, or - if there is none.
search() {
	for first in 1 100001 200001; do
		simulated $first-$((first + runs - 1)) "$BUGS/$name"
		if grep -q 'with its threads in order' "$dir/out"; then
			echo 0
		else
			sed -n 's/.* and \([0-9]*\) runs\{0,1\} that passed$/\1/p' "$dir/out" |
				grep . || echo -
		fi
	done | tr '\n' ' ' | sed 's/ $//; s/ /, /g'
}

native() {
	bad_runs=0
	for _ in $(seq "$NATIVE"); do
		timeout -s KILL 10 "$BUGS/$name.native" $arguments >"$dir/out" 2>&1 </dev/null ||
			bad_runs=$((bad_runs + 1))
	done
	echo "$bad_runs of $NATIVE"
}

# Prints how many runs passed, and the rate.
control() {
	start=$(date +%s%N)
	simulated "1-$FIXED" "$BUGS/$name.repaired"
	end=$(date +%s%N)
	if grep -q "^usched-run: $FIXED runs passed" "$dir/out"; then
		echo "$FIXED | $((FIXED * 1000000000 / (end - start)))"
	else
		echo "**$(sed -n 's/^usched-run: \(seed.*\)/\1/p' "$dir/out")** | "
	fi
}

row() {
	program= bug= bad= good= mode= options= arguments= libs= runs=$RUNS
	repair() { return 1; }
	. "$1"
	get $bad || { note "$name: skipped: there is no source of $program"; return; }
	made '' "$mode" && made .native '' || return
	found=$(search) natives=$(native) passed='not tried | '
	case $found in *-*) fail "$name: not found: $found" ;; esac
	if [ -z "$good" ]; then
		rm -rf "$dir/repaired"
		cp -r "$source" "$dir/repaired"
		source=$dir/repaired
		repair && made .repaired "$mode" && passed=$(control)
	elif get $good; then
		made .repaired "$mode" && passed=$(control)
	fi
	case $passed in \**) fail "$name: what is repaired fails: $passed" ;; esac
	echo "| $program | $bug | ${mode:+t}${mode:-p} | $found | $natives | $passed |" |
		sed 's/ t-fsanitize=thread / t /'
	count=$((count + 1))
}

echo '| program | bug | | runs to the first failure | native failures | repaired, passed | runs/s |'
echo '|---|---|---|---|---|---|---|'
for recipe in "$here"/$ONLY.sh; do
	name=$(basename "$recipe" .sh)
	[ "$name" = bugs ] || row "$recipe"
done
conclude "$count bugs"
