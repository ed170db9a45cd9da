# SPDX-License-Identifier: MIT
# shellcheck shell=sh
title 'each way to fail, in one turn of three'
while IFS= read -r action; do
	compare_programs <<-END
	*-corosensei*) [ \$turn != 2 ] || { $action; exit; }; echo 0.5 ;;
	END
	rm -rf "$dir/kept"
	compare -n 3 -o "$dir/kept/new" counters
	sed -n 's/^COROS.*, //p' "$dir/kept/new/compare.csv" | tr '\n' ' '
	echo
done <<'END'
echo 0.5; echo out of luck >&2; exit 3
echo 0.5; kill -9 $$
exit 0
echo
echo; echo 0.5
echo nan
echo inf
echo -1.5
echo 1.2.3
echo 1.
echo .
echo 0.000000
echo 0
echo fail
echo 1.5 seconds
printf '1\0002\n'
END
title 'what is missing, in both places of a ratio, and in a mean'
compare_programs </dev/null
rm "$BUILD/peers/cxx20-cycle-lifo" "$BUILD/lmain.setjmp"
compare -n 2 cycle
rm "$BUILD/bench/memory-ll"
compare memory
chmod -x "$BUILD/bench/ring-direct"	# all are one file
compare -n 1 ring create
rm -r "$BUILD"
compare -n 1 ring create
title 'a failure counts more than what was missed, before it or after'
compare_programs <<'END'
bench/create*) echo 100 ;;
peers/boost*) echo none ;;
END
compare -n 1 create pingpong
compare -n 1 pingpong create
compare -n 1 create
title 'wrong arguments'
calls >"$dir/calls"
while read -r words; do
	eval "compare $words"
done <<'END'
-n 0
-n 05
-n 1x
-n -1
-n ''
-n
-o
-x
--help
none
create none
''
'*'
'create ring'
Cycle
-n 1 -o /dev/null/kept create
END
calls
