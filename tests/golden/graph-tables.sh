# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# graph.py: tables of the files of graph/, and what it refuses of refused, blocks of lines.
for file in "$here"/tests/golden/graph/*.csv; do
	title "$(basename "$file")"
	python3 "$here/graph.py" <"$file"
	echo "status $?"
done
title columns
echo '2, 2, 1000000, 4, 1.0' | python3 "$here/graph.py" --columns 'N,R,M,P,U'
echo 'ring, 5, 1.0' | python3 "$here/graph.py" --columns 'N,R,M,U' --columns 'ring,passes,U'
echo 'ring, 5, 1.0' | python3 "$here/graph.py" --columns 'ring, U'
echo "status $?"
mkdir "$dir/blocks"
awk -v RS= -v dir="$dir/blocks" '{ print > sprintf("%s/%03d", dir, NR) }' \
	"$here/tests/golden/graph/refused"
printf '' >"$dir/blocks/empty"
printf '\377\376\n' >"$dir/blocks/no-text"
printf '\n2, 2, 1000, 1.0\n' >"$dir/blocks/second-line"
for file in "$dir/blocks"/*; do
	title "refused: $(tail -n 1 "$file" | tr -cd ' -~')"
	python3 "$here/graph.py" "$dir/table.svg" <"$file"
	echo "status $?"
	[ ! -e "$dir/table.svg" ] || fail 'a picture'
done
