#!/bin/sh
# SPDX-License-Identifier: MIT
#
# How the code reads, as far as that can be counted:
#
#  - it and its are at most so many in 1,000 words of comments, and few sentences begin
#    with a pronoun that stands for a noun of another sentence: `limits' has the numbers
#    for each area;
#  - no line of C or assembly is over 90 columns, and none ends in a space;
#  - no function of the library is over 40 lines from brace to brace.
#
# words.sh --worst N prints the N files with the highest rates, and such sentences.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

# AREA RATE SENTENCES: it and its in 1,000 words, and sentences that begin with a pronoun,
# at most. The aim is 15 and 4. Lower a limit when comments get better; never raise it.
limits='library 11 4
posix 9 2
sim 8 2
tls 7 2'

# files PATTERN...: of the project, tracked by git or not yet; without git, all there are.
files() {
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git ls-files -co --exclude-standard -- "$@"
	else
		for pattern in "$@"; do
			find . -name "$pattern" ! -path './build*' | sed 's|^\./||'
		done
	fi | grep -vE '^(build|runs|results|bench/results|bench/peers/rust/Cargo.lock)' |
		while read -r file; do
			if [ -f "$file" ]; then echo "$file"; fi
		done
}

# comments FILE...: "file:line: text" of each comment in C, a line each.
comments() {
	awk '
	BEGIN { token = "\"([^\"\\\\]|\\\\.)*\"|\047([^\047\\\\]|\\\\.)*\047|/[*]|//" }
	{
		line = $0
		if (inside) sub(/^[ \t]*([*]([^\/]|$))?/, "", line)
		while (inside || match(line, token)) {
			if (inside) {
				end = index(line, "*/")
				text = text " " (end ? substr(line, 1, end - 1) : line)
				if (!end) break
				print FILENAME ":" at ":" text
				inside = 0; line = substr(line, end + 2)
				continue
			}
			found = substr(line, RSTART, RLENGTH)
			line = substr(line, RSTART + RLENGTH)
			if (found == "/*") { inside = 1; at = FNR; text = "" }
			else if (found == "//") { print FILENAME ":" FNR ": " line; break }
		}
	}' "$@"
}

# count: of lines of comments(), "AREA FILE WORDS ITS" of each file, and a line
# "AREA ! file:line: sentence" for each sentence that begins with a pronoun.
count() {
	awk '
	BEGIN { vague = "^((the )?others|those|none|one (that|of|is|has|may))[ ,:;]" }
	{
		match($0, /^[^:]*:[0-9]*: */)
		at = substr($0, 1, RLENGTH); text = substr($0, RLENGTH + 1)
		gsub(/[ \t]+/, " ", text)
		file = at; sub(/:.*/, "", file)
		area = match(file, /^(posix|sim|tls)\//) ? substr(file, 1, RLENGTH - 1) : "library"
		n = split(text, sentence, /[.!?][])"\047]* +/)
		for (i = 1; i <= n; i++)
			if (tolower(sentence[i]) ~ vague)
				print area " ! " at sentence[i]
		n = split(text, word, /[^A-Za-z\047-]+/)
		for (i = 1; i <= n; i++) {
			words[area " " file] += word[i] ~ /^[A-Za-z]/
			its[area " " file] += tolower(word[i]) ~ /^its?$/
		}
	}
	END { for (f in words) print f, words[f], its[f] + 0 }'
}

files '*.c' '*.h' '*.S' '*.cc' '*.hpp' '*.cpp' >"$dir/code"
grep -E '^((src|debug|arch|posix|sim|tls)/.*|[^/]*)\.[ch]$' "$dir/code" |
	grep -vE '^[rl]main|/test_' >"$dir/read"
# shellcheck disable=SC2046
comments $(cat "$dir/read") | count >"$dir/count"
if [ "${1-}" = --worst ]; then
	awk '$2 != "!" { printf "%5.1f %s\n", 1000 * $4 / ($3 + !$3), $2 }' "$dir/count" |
		sort -rn | head -n "${2-20}"
	grep ' ! ' "$dir/count" | head -n "${2-20}"
	exit 0
fi
echo "$limits" >"$dir/limits"
awk '
NR == FNR      { area[NR] = $1; rate[$1] = $2; few[$1] = $3; n = NR; next }
$2 == "!"      { begin[$1]++; next }
               { words[$1] += $3; its[$1] += $4; all += $3; them += $4 }
END {
	for (i = 1; i <= n; i++) {
		a = area[i]; per = 1000 * its[a] / words[a]
		said = sprintf("%s %.1f and %d", a, per, begin[a])
		sum = sum said ", "
		if (per > rate[a] || begin[a] > few[a])
			print "FAIL " said ", of " rate[a] " and " few[a]
	}
	printf "it/its in 1,000 words, and sentences: %sin all %.1f\n", sum, 1000 * them / all
}' "$dir/limits" "$dir/count" >"$dir/rates"
while read -r fails said; do
	[ "$fails" != FAIL ] || fail "$said (words.sh --worst 20)"
done <"$dir/rates"

while read -r file; do
	expand -t 8 "$file" | awk -v file="$file" '
		length($0) > 90 { print file ":" NR ": " length($0) " columns" }
		/ $/            { print file ":" NR ": ends in a space" }'
done <"$dir/code" >"$dir/lines"
if [ -s "$dir/lines" ]; then
	cat "$dir/lines" >&2
	fail "$(wc -l <"$dir/lines") lines"
fi

grep -vE '^(bench|tests|examples|model)/' "$dir/code" | grep -E '\.(c|h|inc)$' |
	while read -r file; do
		awk -v file="$file" '
		/^\{/         { at = NR }
		/^\}/ && at   { if (NR - at - 1 > 40)
					print file ":" at ": " NR - at - 1 " lines"
				at = 0 }' "$file"
	done >"$dir/long"
if [ -s "$dir/long" ]; then
	cat "$dir/long" >&2
	fail "$(wc -l <"$dir/long") functions are long"
fi

conclude "$(tail -n 1 "$dir/rates")"
