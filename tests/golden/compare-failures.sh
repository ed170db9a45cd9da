# SPDX-License-Identifier: MIT
# shellcheck shell=sh

# Makes new programs. Standard input has cases of $command, which print what the program
# prints; $turn is how often it was called.
compare_programs() {
	BUILD=$(mktemp -d "$dir/build.XXXXXX")
	export BUILD
	mkdir "$BUILD/bench" "$BUILD/peers"
	{
		cat <<-END
		command="\${0#"$BUILD"/} \$*"
		echo "\$command" >>"$BUILD/calls"
		turn=\$(grep -cxF "\$command" "$BUILD/calls")
		case \$command in
		END
		cat
		cat <<-'END'
		*) echo 1.000000 ;;
		esac
		echo 4711
		END
	} | program bench/counters-direct
	for name in peers/corosensei-counters peers/cxx20-counters bench/create-direct \
		peers/cxx20-create; do
		ln "$BUILD/bench/counters-direct" "$BUILD/$name"
	done
}

title 'each way to fail, in one turn of three'
while IFS= read -r action; do
	compare_programs <<-END
	*corosensei-*) [ \$turn != 2 ] || { $action; exit; }; echo 0.5 ;;
	END
	rm -rf "$dir/kept"
	compare -n 3 -o "$dir/kept/new" counters >"$dir/said"
	grep '^!' "$dir/said"
	sed -n 's/^COROS.*, //p' "$dir/kept/new/compare.csv" | tr '\n' ' '
	echo
done <<'END'
echo 0.5; echo out of luck >&2; exit 3
echo 0.5; kill -9 $$
exit 0
echo; echo 0.5
echo nan
echo -1.5
echo 1.2.3
echo 0.000000
echo fail
echo 1.5 seconds
END
cat "$dir/said"
title 'what is missing'
rm "$BUILD/bench/create-direct"
chmod -x "$BUILD/bench/counters-direct"	# all are one file
compare -n 2 counters create
title 'a failure counts more than what was missed, before it or after'
compare_programs <<'END'
bench/create*) echo 100 ;;
*corosensei-*) echo none ;;
END
compare -n 1 create counters
compare -n 1 counters create
compare -n 1 create
title 'wrong arguments'
while read -r words; do
	eval "compare $words"
done <<'END'
-n 0
-x
create none
END
