# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# machine.txt; where results go by default, and what is said of the version.
programs
printf '%s\n' CC=cc 'CFLAGS=-O2 -DX=1' CPPFLAGS= SWITCH=setjmp \
	'VERSION=Compiler 1.2 (a=b)' >"$BUILD/flags"
printf '%s\n' 'go: go 1.2' 'lua: Lua 5' >"$BUILD/peers/versions"
echo 'haskell (ring): install ghc' >"$BUILD/peers/skipped"
limit='' PROCS=5 bench --quick --only U,UL,GO1T
machine
rm "$BUILD/flags" "$BUILD/peers"/*
PROCS=5 bench --quick --only UL --workload=ring,cycle >/dev/null
machine | grep -e ^workloads -e ^peer
tree=$dir/outer/tree
mkdir -p "$tree/bench"
cp bench.sh usched.h "$tree"
cp bench/workloads.sh "$tree/bench"
git='git -c user.name=x -c user.email=x@example.org -C'
$git "$dir/outer" init -q	# a history that is not ours
$git "$dir/outer" commit -q --allow-empty -m x
"$tree/bench.sh" --quick --only UL >/dev/null 2>&1
"$tree/bench.sh" --quick --only UL >/dev/null 2>&1
find "$tree/runs" -type f -path "*/runs/20*-$(uname -n | tr -c 'A-Za-z0-9.\n' -)*" |
	sed 's|.*/||' | sort
cat "$tree/runs"/*/machine.txt | grep -e ^commit: -e ^compiler:
$git "$tree" init -q
$git "$tree" add bench.sh
$git "$tree" commit -q -m x
"$tree/bench.sh" --quick --only UL -o "$dir/clean" >/dev/null 2>&1
echo '# changed' >>"$tree/bench.sh"
"$tree/bench.sh" --quick --only UL -o "$dir/dirty" >/dev/null 2>&1
cat "$dir/clean/machine.txt" "$dir/dirty/machine.txt" | grep ^commit: |
	sed "s/$($git "$tree" rev-parse HEAD)/HASH/"
