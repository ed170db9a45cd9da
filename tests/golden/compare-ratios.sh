# SPDX-License-Identifier: MIT
# shellcheck shell=sh
title 'the ratio of the medians, 5 / 4, and not the median of the ratios, 2'
compare_programs <<'END'
bench/create*) set -- 30 5 8 3 4; shift $((turn - 1)); echo $1 ;;
peers/cxx20-create*) set -- 40 2.5 4 10 2; shift $((turn - 1)); echo $1 ;;
END
for turns in 5 4 2; do
	compare -n $turns create
	calls >"$dir/calls"
done
title 'what is at the limit has reached it; a median counts, not the spread'
compare_programs <<'END'
bench/create*) set -- 1.3 1.4 1.2; shift $((turn - 1)); echo $1 ;;
bench/ring*) echo 2.51 ;;
peers/c-ring-worst*) echo 1000 ;;
END
compare -n 3 create
compare -n 1 ring
calls >"$dir/calls"
compare -n 3 ring create
title 'one is the fastest by its median, another one in one turn only'
compare_programs <<'END'
lmain\ *) echo 4 ;;
*-lifo\ 2\ 4\ *) set -- 2 8 3; shift $((turn - 1)); echo $1 ;;
*-fifo\ 2\ 4\ *) set -- 4 5 6; shift $((turn - 1)); echo $1 ;;
*-lifo\ 8\ 2\ *) set -- 1 8 8; shift $((turn - 1)); echo $1 ;;
*-fifo\ 8\ 2\ *) echo 4 ;;
*-fifo*) echo 2 ;;
*-lifo*) echo 4 ;;
END
compare -n 3 cycle | grep C++1TL
title 'what has half of the turns is compared in these'
compare_programs <<'END'
lmain\ *) set -- 1 100 1 100 7; shift $((turn - 1)); echo $1 ;;
*go-cycle*) set -- 20 30 25; shift $((turn - 1)); echo $1 ;;
END
compare cycle | grep -e GO1T -e C++1TL
