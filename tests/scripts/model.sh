#!/bin/sh
# SPDX-License-Identifier: MIT
#
# spin searches all states of the models in tests/model/ within some bounds. Then mistakes are
# planted: with a BREAK_something of a model spin must find an error. The bounds of both are
# in the heads of the models.
#
#   CC      the compiler in place of cc
#   LONG    1: larger bounds, and all mistakes, not the first of each model only: minutes
#   MODELS  a pattern; default *
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

# look FILE OPTIONS...: 0: all that can happen is right; 1: it is not; 2: the search did not end.
look() {
	model=$PWD/$1
	shift
	(
		cd "$dir" && spin -a "$@" "$model" &&
			${CC:-cc} "$optimize" -w -DSAFETY "$memory" -DMEMLIM=2000 \
				-o pan pan.c &&
			./pan -m100000 -w22
	) >"$dir/log" 2>&1 || return 2
	if grep -q 'errors: [1-9]' "$dir/log"; then
		return 1
	fi
	if grep -Eq 'Search not completed|search depth too small' "$dir/log"; then
		return 2
	fi
	grep -q 'errors: 0$' "$dir/log" || return 2
}

# A line of the list, in a process of its own: FORM FILE OPTIONS....
if [ $# -eq 1 ]; then
	# The words of a line are words.
	# shellcheck disable=SC2086
	set -- $1
	form=$1 file=$2
	shift 2
	optimize=-O0 memory=-DPLAIN             # most of the time goes to the compiler
	if [ "$form" = long ]; then
		optimize=-O1 memory=-DCOLLAPSE
	fi
	case $form in
	BREAK_*)
		look "$file" "-D$form" "$@"
		if [ $? -eq 1 ]; then
			echo "$file: $form is found"
		else
			echo "$file: FAIL: $form $* is not found"
			cat "$dir/log"
		fi
		;;
	*)
		if look "$file" "$@"; then
			states=$(sed -n 's/^ *\([^ ]*\) states, stored.*/\1/p' "$dir/log")
			echo "$file: $states states with $*"
		else
			echo "$file: FAIL: $*"
			cat "$dir/log"
		fi
		;;
	esac
	exit 0
fi

need spin
list=$dir/list
output=$dir/output
form=short mistakes=2
if [ "${LONG-}" = 1 ]; then
	form=long mistakes=1000
fi
for file in tests/model/${MODELS:-*}.pml; do
	sed -n "s#^ \*   \($form\|BREAK_[A-Z_]*\): *#\1 $file #p" "$file" |
		awk -v most=$mistakes '!/^BREAK_/ || ++n <= most' >>"$list"
	sed -n 's/^#.*\(BREAK_[A-Z_]*\).*/\1/p' "$file" | sort -u >"$dir/variants"
	while read -r variant; do
		grep -q "^ \*   $variant: " "$file" ||
			echo "$file: FAIL: where is $variant found?"
	done <"$dir/variants" >>"$output"
	if ! grep -q "^$form $file" "$list" ||
		[ "$(wc -l <"$dir/variants")" -lt 4 ]
	then
		echo "$file: FAIL: no bounds, or few mistakes to find" >>"$output"
	fi
done
tr '\n' '\0' <"$list" |
	xargs -0 -r -n 1 -P "$(nproc 2>/dev/null || echo 1)" "$0" >>"$output" 2>&1
cat "$output"
right=$(grep -c ' states with ' "$output")
found=$(grep -c ' is found$' "$output")
if grep -q FAIL "$output" || [ $((right + found)) -ne "$(wc -l <"$list")" ]; then
	exit 1
fi
note "$right searches found nothing wrong, and $found mistakes were found"
