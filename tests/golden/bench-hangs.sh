# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# A program that hangs, one that does not listen either, and what they started. More time,
# if that was not enough for those that do not hang.
for limit in 5 60 300; do
	programs
	program rmain <<-END
	[ "\$1 \$2" = "2 4" ] || { echo 0.5; exit; }
	sleep 600 &
	echo \$! >"$dir/hung"
	wait
	END
	program lmain <<-END
	[ "\$1 \$2" = "2 4" ] || { echo 0.5; exit; }
	trap '' TERM
	echo \$\$ >"$dir/deaf"
	for i in \$(seq 600); do sleep 1; done
	END
	PROCS=2 bench --quick --only U,UL >"$dir/said"
	[ "$(grep -c fail: "$out")" != 1 ] || break
done
sed '1d' "$dir/said"
ends "$dir/hung" "$dir/deaf"
limit=300
echo 'exit 124' | program rmain.1t
bench --quick --only U1TS | sed 3q
