#!/bin/sh
# SPDX-License-Identifier: MIT
#
# commits.sh [RANGE]: checks the messages of commits against CONTRIBUTING.md. The subject
# has at most 60 columns, and the form "module: do this", with a verb in the imperative,
# as far as its form shows. A body says why. RANGE is as for git log. The default is the
# commits that origin/main lacks, or the last one if there are none. Merges are left out.
# Prints the faults of each commit; the exit status is 1 then.
set -u
LC_ALL=C.UTF-8
export LC_ALL
failed=0
count=0

stop() {
	echo "commits: $1" >&2
	exit 2
}

wrong() {
	printf 'commits: %.12s: %s: %s\n' "$commit" "$1" "$subject" >&2
	failed=$((failed + 1))
}

# Few verbs end like a participle: they are listed. An article or a pronoun is no verb.
check_verb() {
	case $1 in
	need | feed | seed | embed | shed | speed | proceed | exceed | succeed | wed | bleed) ;;
	bring | ping | ring | string | sing | swing | spring | cling) ;;
	*[a-z]ed | *[a-z]ing)
		wrong "'$1' is not in the imperative" ;;
	a | an | the | this | that | these | those | it | we | there | who | what | which | no | not)
		wrong "'$1' is no verb" ;;
	[!a-z]*)
		wrong 'no lower-case verb behind the module' ;;
	esac
}

check_subject() {
	[ "$(printf %s "$subject" | wc -m)" -le 60 ] || wrong 'the subject is over 60 columns'
	case $subject in
	*.) wrong 'the subject ends with a full stop' ;;
	esac
	if printf %s "$subject" | grep -qE '^[A-Za-z0-9_.,/ *+-]+: [^ ]'; then
		text=${subject##*: }
		check_verb "${text%% *}"
	else
		wrong "the subject is not 'module: do this'"
	fi
}

# Trailers such as Signed-off-by do not count as text.
check_body() {
	message=$(git log -1 --format=%B "$commit")
	case $(printf '%s\n' "$message" | sed -n 2p) in
	?*) wrong 'no empty line behind the subject' ;;
	esac
	printf '%s\n' "$message" | sed 1,2d | grep -vE '^([A-Z][A-Za-z-]+-by: .*)?$' >/dev/null ||
		wrong 'no text says why'
}

command -v git >/dev/null || stop 'there is no git here'
if [ $# -gt 0 ]; then
	range=$1
elif [ -n "$(git log -1 --format=%H origin/main..HEAD 2>/dev/null)" ]; then
	range=origin/main..HEAD
else
	range='-1 HEAD'
fi
# shellcheck disable=SC2086 # '-1 HEAD' is two words
commits=$(git log --no-merges --format=%H $range --) || stop "no such commits: $range"
for commit in $commits; do
	subject=$(git log -1 --format=%B "$commit" | sed -n 1p)
	count=$((count + 1))
	check_subject
	check_body
done
echo "commits: $count in $range, $failed faults"
[ "$failed" -eq 0 ]
