/* SPDX-License-Identifier: MIT */
/*
 * Counts the words of files: a group of threads for each processor, and no lock. Build it
 * with
 *
 *   cc -O2 examples/17-words.c build/one/usched-all.c -Ibuild/one -pthread -o words
 *
 * after `make one'. Run it
 * with names of files; without any it counts those of LICENSE. It prints:
 *
 *   the: 15
 *   software: 9
 *   or: 9
 *   of: 8
 *   to: 8
 *   in: 6
 *   and: 5
 *   is: 4
 *   copyright: 3
 *   any: 3
 *
 * Each file has a thread, which waits for its pieces while others count. The threads of a
 * group share a tree of words. They are on one processor and switch only where they wait,
 * so none finds the tree half changed. At the end the trees are added up.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "usched-all.h"

enum { GROUPS = 4, PIECE = 4096, LONGEST = 64, SHOWN = 10 };

struct word {
	size_t count;
	char   text[LONGEST];           /* longer ones are cut */
};

struct shard {
	void *words;                    /* tsearch(3) */
};

struct file {
	struct shard *shard;
	const char   *name;
	int           error;
};

static struct usync_group files;
static void *sum;                       /* of all shards */
static const struct word *top[SHOWN];

static int compare(const void *one, const void *other)
{
	const struct word *w = one, *v = other;

	return strcmp(w->text, v->text);
}

/* Does not switch. */
static int add(void **tree, const char *text, size_t count)
{
	struct word *new = calloc(1, sizeof *new), **found;

	if (!new)
		return -ENOMEM;
	snprintf(new->text, LONGEST, "%s", text);
	found = tsearch(new, tree, compare);
	if (!found || *found != new)
		free(new);
	if (!found)
		return -ENOMEM;
	(*found)->count += count;
	return 0;
}

static int count_words(struct file *f, int fd)
{
	char piece[PIECE], word[LONGEST] = "";
	size_t length = 0;
	off_t at = 0;
	ssize_t n;
	int rc = 0;

	while (rc == 0 && (n = ufile_pread(fd, piece, PIECE, at, USCHED_NEVER)) > 0) {
		at += n;
		for (ssize_t i = 0; i < n && rc == 0; i++) {
			int c = (unsigned char)piece[i];

			if (isalpha(c)) {
				if (length < LONGEST - 1)
					word[length++] = (char)tolower(c);
			} else if (length > 0) {
				word[length] = '\0';
				rc = add(&f->shard->words, word, 1);
				length = 0;
			}
		}
	}
	return rc ? rc : n < 0 ? (int)n : 0;
}

static void count_file(void *arg)
{
	struct file *f = arg;
	int fd = ufile_open(f->name, O_RDONLY | O_CLOEXEC, 0, USCHED_NEVER);

	f->error = fd < 0 ? fd : count_words(f, fd);
	if (fd >= 0)
		close(fd);
	usync_group_done(&files);
}

static void add_to_sum(const void *node, VISIT visit, int depth)
{
	const struct word *w = *(const struct word *const *)node;

	(void)depth;
	if ((visit == postorder || visit == leaf) && add(&sum, w->text, w->count))
		exit(1);
}

static void find_top(const void *node, VISIT visit, int depth)
{
	const struct word *w = *(const struct word *const *)node, *less;

	(void)depth;
	if (visit != postorder && visit != leaf)
		return;
	for (size_t i = 0; i < SHOWN && w; i++) {
		if (!top[i] || w->count > top[i]->count) {
			less = top[i];
			top[i] = w;
			w = less;
		}
	}
}

int main(int argc, char **argv)
{
	static char *license[] = { "words", "LICENSE", NULL };
	static struct shard shards[GROUPS];
	struct ll_group *groups[GROUPS];
	struct uprocs *ll;
	struct file *all;
	int rc;

	if (argc < 2) {
		argv = license;
		argc = 2;
	}
	all = calloc((size_t)argc, sizeof *all);
	rc = all ? ll_create(NULL, &ll) : -ENOMEM;
	for (int i = 0; rc == 0 && i < GROUPS; i++)
		groups[i] = ll_group(ll, 0);
	for (int i = 1; rc == 0 && i < argc; i++) {
		struct ustack_how how = { .h_name = argv[i] };

		all[i] = (struct file){ &shards[i % GROUPS], argv[i], 0 };
		usync_group_add(&files, 1);
		rc = ll_start_with(groups[i % GROUPS], &how, count_file, &all[i], NULL);
	}
	if (rc) {
		fprintf(stderr, "words: %s\n", ustack_error(rc));
		return 1;
	}
	usync_group_wait(&files, USCHED_NEVER);
	uprocs_destroy(ll, USCHED_NEVER);
	for (int i = 0; i < GROUPS; i++)
		twalk(shards[i].words, add_to_sum);
	twalk(sum, find_top);
	for (int i = 0; i < SHOWN && top[i]; i++)
		printf("%s: %zu\n", top[i]->text, top[i]->count);
	for (int i = 1; i < argc; i++) {
		if (all[i].error)
			fprintf(stderr, "words: %s: %s\n", all[i].name,
				ustack_error(all[i].error));
		rc |= all[i].error;
	}
	free(all);
	return rc != 0;
}
