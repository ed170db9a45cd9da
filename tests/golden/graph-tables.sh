# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# graph.py: tables of the files of graph/, and what it refuses; `;' ends a line.
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
while IFS= read -r text; do
	title "refused: $text"
	echo "$text" | sed 's/; */\n/g' | python3 "$here/graph.py" "$dir/table.svg"
	echo "status $?"
	[ ! -e "$dir/table.svg" ] || fail 'a picture'
done <<'END'

N, R, M, U
2, 2, 1000, 1.0
N, R, M, U,
N, R, M, U, GO, U
N, R, M, U, GO; 2, 2, 1000, 1.0, 1.0; 2, 4, 10
N, R, M, U, GO; 2, 2, 1000, 1.0, 1.0; 2, 4, 10, fail, 1
N, R, M, U, GO; 2, 2, 1000, 1.0, 1.0; 2, 0, 10, 1, 2
ring, passes, U; create, 5, 1.0
ring, passes, U, GO; ring, 5, 1, 1@1e3
redis, clients, command, pipeline, U; redis, 50, get, 1, 5
END
printf '\377\376\n' | python3 "$here/graph.py"
echo "status $?"
