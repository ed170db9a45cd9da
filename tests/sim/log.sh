#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Bugs in copies of examples/18-log.c, each of which log.c finds within so many seeds. The
# lines tell how many it took.
#
#   ONLY   the number of a bug, to plant that one alone
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/scripts/test.lib

export LD_LIBRARY_PATH="$B"
number=0

# bug NODES SEEDS NAME SED-SCRIPT
bug() {
	number=$((number + 1))
	[ "${ONLY:-$number}" = $number ] || return
	count=$((count + 1))
	sed -e "$4" examples/18-log.c >"$dir/log.c"
	if cmp -s examples/18-log.c "$dir/log.c"; then
		fail "$3: the place is not found"
		return
	fi
	$CC -O2 -I. -DLOG="\"$dir/log.c\"" tests/sim/log.c -o "$dir/log" \
		"$B/libusched-sim.so" -pthread || die "$3: it does not compile"
	if USCHED_SIM=1-$2 "$dir/log" "$1" >"$dir/out" 2>&1; then
		fail "$3: not found in $2 seeds"
	else
		sed -n "s/^usched-run: \(seed [0-9]*\): \(.*\), after.*/\1: \2/p
			s/^usched-run: .*, before the first seed: \(.*\)/seed 0: \1/p" \
			"$dir/out" | sed "s/^/$number. $3: /; s/seed [0-9]*/& of $2/"
	fi
}

bug 3 1000 'nothing is synced' \
	's/rc = ufile_sync(n->file, USCHED_NEVER);/rc = 0;/'
bug 3 1000 'a log is not cut where it differs' \
	'/if (same && index <= n->last)$/,+1d'
bug 3 1000 'a log that is behind gets a vote' \
	's/r->term >= n->term && up_to_date &&/r->term >= n->term \&\&/'
bug 3 1000 'a log of an older term gets a vote' \
	's/bool up_to_date = r->previous_term > last_term/bool up_to_date = r->previous_term < last_term/'
bug 3 1000 'two votes in a term' \
	's/ && (vote == 0 || vote == id);/;/'
bug 3 1000 'votes of the election before count' \
	's/n->votes = 1;/n->votes++;/'
bug 3 1000 'entries are applied twice by a new leader' \
	's/^	n->role = LEADER;/&\n	n->applied = 0;/'
bug 3 1000 'entries are taken whatever is before them' \
	's/\&\& n->log\[r->previous\].term == r->previous_term;/;/'
bug 3 1000 'entries are taken from a leader of a term before' \
	'/^	if (r->term < n->term)$/,+1d'
bug 3 1000 'a late message cuts what is there' \
	's/if (same && index <= n->last && n->log\[index\].term == term)/if (0)/'
bug 3 1000 'all is committed that the leader has committed' \
	's/if (fits && r->commit > n->commit)/if (r->commit > n->commit)/'
bug 3 1000 'a read does not ask for confirmation' \
	's/round = ++n->round;/round = 0;/'
bug 3 1000 'a read does not wait for an entry of the term' \
	's/!(n->log\[n->commit\].term == term && most_have/!(most_have/'
bug 3 1000 'an append is answered before it is committed' \
	's/while (rc == 0 && n->commit < index &&/while (0 \&\&/; s/if (n->commit >= index && n->log/if (n->log/'
bug 3 1000 'half of the nodes are most' \
	's/n->votes > n->nodes \/ 2/n->votes >= n->nodes \/ 2/; s/count > n->nodes/count >= n->nodes/'
bug 3 1000 'what is half written is read' \
	's/if (strtoull(end - 16, NULL, 16) != sum)/if (0)/'
bug 3 1000 'a leader whose disk is full counts refusals' \
	's/if (term != r->term || n->term != term/if (n->term != r->term/; s/follow(n, 0);  .*/;/'
bug 3 1000 'memory changes before the disk' \
	's/^	if (rc < 0) {/	while (n->saved < n->used)\n		redo(n);\n	n->sum = n->saved_sum;\n&/'
bug 3 1000 'a vote is not saved before it is answered' \
	'/^static int on_vote/,/^}/{s/r->term, grants ? id : vote);/r->term, 0);/
		s/^	if (grants)$/	n->vote = grants ? id : vote;\n&/;}'
bug 3 1000 'a vote is not synced' \
	'/n->used > n->saved)$/s/)$/ \&\& n->journal[n->saved] != 116)/'
bug 3 1000 'a term is saved with the first entry' \
	'/^static int on_vote/,/^}/s/if (save(n))/if (r->term > n->term)\
			follow(n, 0);\
		if (r->term > n->term || grants)\
			n->term = r->term, n->vote = grants ? id : 0;\
		if (0)/'
# It takes four crashes or partitions in the right order: figure 8 of the paper.
bug 3 5000 'an entry of a term before is committed by counting' \
	's/i > n->commit && n->log\[i\].term == n->term; i--/i > n->commit; i--/
	/note(n, "e %llu ", n->term);/d; s/p->next = n->last;/p->next = n->last + 1;/'

conclude "$count bugs were found"
