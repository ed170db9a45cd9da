# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# A short run of the quick cycle counts as the median of three, except for one that fails.
programs
program rmain <<'END'
of=$*
echo "$of" >>"$BUILD/calls"
case $of in
"2 4 "*" 0 1") set -- 0.100000 0.900000 0.150000 ;;
"2 4 "*" 1000 2") set -- 0.010000 fail ;;
"2 4 "*" 10000 2") set -- 0.000009 1.500000 0.030000 ;;
*) echo 0.200000; exit ;;
esac
shift $(($(grep -cx "$of" "$BUILD/calls") - 1))
echo $1
[ $1 != fail ] || exit 3
END
PROCS=2 bench --quick --only U,U1K,U10K,U1T
cat "$results/short.txt"
calls | grep -e '^2 4 ' -e '^2 100 '
bench --only U1T | sed 3q
