#!/bin/sh
# SPDX-License-Identifier: MIT
#
# How the code reads, as far as that can be counted:
#
#  - comments and documents have a subject: "who", "whoever", "whom", "nobody" and
#    "somebody" are fewer than one in 1,000 words of them;
#  - no line of C or assembly is over 90 columns, and none ends in a space;
#  - no function of the library is over 40 lines from brace to brace.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

summary=

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

# c_comments FILE: the text of its comments, with line numbers.
c_comments() {
	awk '
	{
		n = length($0); text = ""
		for (i = 1; i <= n; i++) {
			two = substr($0, i, 2); c = substr($0, i, 1)
			if (comment) {
				if (two == "*/") { comment = 0; i++; text = text " " }
				else text = text c
			} else if (quote) {
				if (c == "\\") i++
				else if (c == quote) quote = ""
			} else if (two == "/*") { comment = 1; i++ }
			else if (two == "//") { text = text substr($0, i + 2); break }
			else if (c == "\"" || c == "\047") quote = c
		}
		quote = ""
		if (text != "") print NR ": " text
	}' "$1"
}

# shell_comments FILE: likewise of a file whose comments begin with #.
shell_comments() {
	awk '/^[[:space:]]*#([^!]|$)/ { sub(/^[[:space:]]*#/, ""); print NR ": " $0 }' "$1"
}

# each KIND EXTRACT FILE...: "file:line: text" of each.
each() {
	extract=$1
	while read -r file; do
		$extract "$file" | sed "s|^|$file:|"
	done
}

as_it_is() {
	grep -n '' "$1" | sed 's/:/: /'
}

# rate WHAT: of the text in $dir/text; tells where such words are.
rate() {
	sed 's/^[^:]*:[0-9]*: //' "$dir/text" |
		grep -oE "[A-Za-z][A-Za-z'-]*" >"$dir/words"
	words=$(wc -l <"$dir/words")
	vague=$(grep -ciE '^(who|whoever|whom|nobody|somebody)$' "$dir/words")
	if [ $((vague * 1000)) -ge "$words" ]; then
		sed 's/\(:[0-9]*:\) */\1 /' "$dir/text" |
			grep -iwE 'who|whoever|whom|nobody|somebody' | head -n 20 >&2
		fail "$1: $vague of $words words are of these"
	fi
	summary="$summary, $vague of $words words of $1"
}

files '*.c' '*.h' '*.S' '*.cc' '*.hpp' '*.cpp' >"$dir/code"
each c_comments <"$dir/code" >"$dir/text"
rate 'comments in C'
files '*.sh' '*.py' '*.lib' Makefile '*.mk' .ci/run >"$dir/scripts"
each shell_comments <"$dir/scripts" >"$dir/text"
rate 'comments in scripts'
files '*.md' '*.1' '*.3.in' '*.7' >"$dir/documents"
each as_it_is <"$dir/documents" >"$dir/text"
rate documents

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

conclude "${summary#, }"
