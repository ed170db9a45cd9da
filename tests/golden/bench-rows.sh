# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# All columns of all workloads without servers, at the sizes of --quick: commands, additions
# to the environment, and cells. Then the sizes and runs of all.
export PROCS=3 BLOCKS=1
for load in ring counters pingpong create alternate memory blocks walk clone threads depth \
	stacks uneven channel; do
	programs_of "$load"
	bench --workload "$load" --quick -n 1
	cmp "$out" "$results/$load.csv"
	calls
done
programs_of cycle
bench --quick | sed 4q
calls | grep '^[^ ]* 2 4 '
unset BLOCKS
. bench/workloads.sh
for quick in yes no; do
	for load in $workloads; do
		echo "quick $quick, $load, $(runs_of "$load") times:" \
			"$(points_of "$load" | tr '\n' /)"
	done
done
programs_of ring memory
bench --workload ring,memory --only U1T,POSIX
