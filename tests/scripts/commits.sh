#!/bin/sh
# SPDX-License-Identifier: MIT
#
# scripts/commits.sh, with repositories that are made up: messages that are right, each
# fault that it knows, and the ranges.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

script=$PWD/scripts/commits.sh

need git
. tests/scripts/checkout.lib
git init -q -b main "$dir/repository"
cd "$dir/repository" || exit 1

commit() {
	git commit -q --allow-empty --cleanup=verbatim -m "$1"
}

# says STATUS WORDS ARGUMENT...: of the script.
says() {
	status=$1 words=$2
	shift 2
	count=$((count + 1))
	"$script" "$@" >"$dir/log" 2>&1
	[ $? -eq "$status" ] || fail "not status $status: $(cat "$dir/log")"
	grep -q -e "$words" "$dir/log" || fail "not '$words': $(cat "$dir/log")"
}

right() {
	commit "$1"
	says 0 '^commits: 1 in -1 HEAD, 0 faults$'
}

wrong() {
	commit "$2"
	says 1 "$1"
	[ "$(grep -c '^commits: [0-9a-f]\{12\}: ' "$dir/log")" -eq 1 ] ||
		fail "not one fault: $(cat "$dir/log")"
}

why='

It was not there.'
sixty='net: 3456789 123456789 123456789 123456789 123456789 1234567'
right "unet: add a call$why"
right "tests: net, sync: add a case$why"
right "scripts/commits.sh: embed a list$why"
right "usched: bring order into it$why"
right "doc: wait, then wake$why

Signed-off-by: A B <a@example.org>"
right "net: do $(echo "$sixty" | cut -c 9-)$why"
right "net: dö $(echo "$sixty" | cut -c 9-)$why"        # columns, not bytes
wrong 'over 60 columns' "net: do $(echo "$sixty" | cut -c 8-)$why"
wrong 'full stop' "unet: add a call.$why"
wrong "not 'module: do this'" "Add a call$why"
wrong "not 'module: do this'" "unet:add a call$why"
wrong "'added' is not in the imperative" "unet: added a call$why"
wrong "'adding' is not in the imperative" "tests: net: adding a call$why"
wrong "'a' is no verb" "unet: a call more$why"
wrong 'no lower-case verb' "unet: Add a call$why"
wrong 'no text says why' 'unet: add a call'
wrong 'no text says why' 'unet: add a call

Signed-off-by: A B <a@example.org>'
wrong 'no empty line' "unet: add a call
It was not there.

Really."

# Ranges: several commits, without merges; and those that origin/main has not.
first=$(git rev-parse HEAD)
git checkout -q -b side
commit 'Nothing'
commit "unet: take out a call$why"
says 1 "^commits: 2 in $first..HEAD, 2 faults\$" "$first..HEAD"
says 0 '^commits: 1 in HEAD~1..HEAD, 0 faults$' HEAD~1..HEAD
git checkout -q main
commit "unet: add a call$why"
git update-ref refs/remotes/origin/main HEAD
git merge -q --no-ff -m 'A merge' side
says 1 '^commits: 2 in origin/main..HEAD, 2 faults$'
git update-ref refs/remotes/origin/main HEAD
commit "unet: add a call$why"
says 0 '^commits: 1 in origin/main..HEAD, 0 faults$'
git update-ref refs/remotes/origin/main HEAD
says 0 '^commits: 1 in -1 HEAD, 0 faults$'
says 2 'no such commits: nowhere' nowhere..HEAD

conclude "$count messages and ranges"
