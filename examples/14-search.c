/* SPDX-License-Identifier: MIT */
/*
 * Clones of coroutines: plain recursive C that chooses, and goes on with each choice. It
 * places queens, finds all ways in which a regular expression matches, and plays a game
 * to its end. Build it with
 *
 *   cc -O2 examples/14-search.c build/one/usched-all.c -Ibuild/one -pthread -o search
 *
 * after `make one'. It prints:
 *
 *   6 queens: 4 ways, first 1 3 5 0 2 4
 *   8 queens: 92 ways, first 0 4 7 5 2 6 1 3
 *   a*(ab)*b* matches aabb in 2 ways: a ab b, a a b b
 *   7 matches left, 1 to 3 are taken, the last one wins: take 3
 *
 * choose(n) returns n times: with 0, with 1, and so on. All that is in the frames of the
 * search is as it was before the choice: no step has to be taken back. The driver,
 * explore(), clones the coroutine at each choice. With setjmp() or threads this cannot be
 * had, since frames exist once.
 *
 * Clones share the heap. So what a search has found is on the heap, and what it
 * chooses from is in its frames, and on the heap it owns nothing.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "usched-all.h"

enum { QUEENS = 8, MATCHES = 7, TAKE = 3 };

static void check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "search: %s\n", ustack_error(rc));
		exit(1);
	}
}

/* ---- Choices ---- */

/* One of 0 to n - 1; or -1: the search is closed, and has to return. */
static int choose(int n)
{
	void *choice;

	if (n == 0 || uco_yield((void *)(intptr_t)n, &choice))
		return -1;
	return (int)(intptr_t)choice;
}

/* Resumes `co' with `value', and all that comes of it. Closes it. */
static void explore(struct uco *co, int value)
{
	void *choices;
	int rc = uco_resume(co, (void *)(intptr_t)value, &choices);

	check(rc);
	for (int i = 0; rc == 0 && i < (int)(intptr_t)choices; i++) {
		struct uco *clone;

		check(uco_clone(co, &clone));
		explore(clone, i);
	}
	check(uco_close(co));
}

static void search(uco_fn *func, void *arg)
{
	struct uco *co;

	check(uco_create_clonable(func, arg, &co));
	explore(co, 0);
}

/* ---- Queens ---- */

struct board {
	int queens;
	int ways;
	int first[QUEENS];
};

static void *place_queens(void *arg, void *unused)
{
	struct board *b = arg;
	int row[QUEENS];

	(void)unused;
	for (int i = 0; i < b->queens; i++) {
		row[i] = choose(b->queens);
		if (row[i] < 0)
			return NULL;
		for (int j = 0; j < i; j++)
			if (row[j] == row[i] || abs(row[j] - row[i]) == i - j)
				return NULL;
	}
	if (b->ways++ == 0)
		memcpy(b->first, row, sizeof row);
	return NULL;
}

static void queens(int n)
{
	struct board *b = calloc(1, sizeof *b);

	b->queens = n;
	search(place_queens, b);
	printf("%d queens: %d ways, first", n, b->ways);
	for (int i = 0; i < n; i++)
		printf(" %d", b->first[i]);
	puts("");
	free(b);
}

/* ---- A regular expression: letters, groups, and stars ---- */

struct match {
	const char *text;
	int         ways;
	char        found[200];         /* all of them, in words */
};

/* Appends the n letters from `at', which a piece has matched, to the words. */
static void note(char *words, const char *at, int n)
{
	size_t end = strlen(words);

	snprintf(words + end, 40 - end, "%s%.*s", end ? " " : "", n, at);
}

static void *match(void *arg, void *unused)
{
	static const char *const pieces[] = { "a", "ab", "b" };  /* each with a star */
	struct match *m = arg;
	const char *at = m->text;
	char words[40] = "";

	(void)unused;
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		int n = (int)strlen(pieces[i]);

		/* As often as it fits, or less often: that is a choice. */
		while (strncmp(at, pieces[i], (size_t)n) == 0) {
			int more = choose(2);

			if (more < 0)
				return NULL;
			if (!more)
				break;
			note(words, at, n);
			at += n;
		}
	}
	if (*at)
		return NULL;
	snprintf(m->found + strlen(m->found), sizeof m->found - strlen(m->found), "%s%s",
		 m->ways++ ? ", " : "", words);
	return NULL;
}

static void match_all(const char *text)
{
	struct match *m = calloc(1, sizeof *m);

	m->text = text;
	search(match, m);
	printf("a*(ab)*b* matches %s in %d ways: %s\n", text, m->ways, m->found);
	free(m);
}

/* ---- A game tree: a game is played by a function, and the tree are its clones ---- */

/* Gives what can be taken, until nothing is left. */
static void *play(void *matches, void *unused)
{
	int left = (int)(intptr_t)matches;

	(void)unused;
	while (left > 0) {
		int taken = choose(left < TAKE ? left : TAKE);

		if (taken < 0)
			break;
		left -= taken + 1;
	}
	return NULL;
}

/* Whether the player that moves next wins; *best is the move. Closes the game. */
static int wins(struct uco *game, int move, int *best)
{
	void *moves;
	int rc = uco_resume(game, (void *)(intptr_t)move, &moves), won = 0;

	check(rc);
	for (int i = 0; rc == 0 && !won && i < (int)(intptr_t)moves; i++) {
		struct uco *next;
		int reply;

		check(uco_clone(game, &next));
		won = !wins(next, i, &reply);
		*best = i;
	}
	check(uco_close(game));
	return won;
}

static void play_best(void)
{
	struct uco *game;
	int best = 0;

	check(uco_create_clonable(play, (void *)(intptr_t)MATCHES, &game));
	printf("%d matches left, 1 to %d are taken, the last one wins: ", MATCHES, TAKE);
	if (wins(game, 0, &best))
		printf("take %d\n", best + 1);
	else
		puts("lost");
}

static void run(void *unused)
{
	(void)unused;
	queens(6);
	queens(8);
	match_all("aabb");
	play_best();
}

int main(void)
{
	struct uprocs *rr;

	check(rr_create(NULL, &rr));
	check(rr_start(rr, run, NULL, NULL));
	check(uprocs_destroy(rr, USCHED_NEVER));
	return 0;
}
