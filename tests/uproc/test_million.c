/* SPDX-License-Identifier: MIT */
/* test_million.c: a million blocked threads at once, and what each of them costs. */
#include "../help/test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../ll.h"
#include "../../rr.h"

enum {
#ifdef __aarch64__
	IMAGE  = 192,           /* bytes: not used if it is too small */
#else
	IMAGE  = 96,
#endif
	RECORD = 64 + IMAGE + 16,       /* with the part that is apart */
	RING   = 24,            /* place in the run queue, and in the one before */
	STACKS = 1024,          /* of a processor, with two pages each */
	HUGE   = 4 << 20,  /* the huge pages that the last records and images begin */
};

static atomic_size_t woken;
static struct uprocs    *rr;
static struct uprocs    *ll;

static void wait_once(void *arg)
{
	TEST_EQUAL(*(const int *)arg ? ustack_wait() : ustack_wait(), 0);
	woken++;
}

static void no_log(const char *line)
{
	(void)line;
}

static int start(const int *local, struct ustack **thread)
{
	return *local ? ll_start(ll_group(ll, 0), wait_once, (void *)(uintptr_t)local,
				 thread)
		      : rr_start(rr, wait_once, (void *)(uintptr_t)local, thread);
}

static int join(int local, struct ustack *thread)
{
	return local
		? ustack_join(thread, NULL, USCHED_NEVER) : ustack_join(thread, NULL,
									USCHED_NEVER);
}

/* What a thread may take: what is documented, and no more. */
static size_t most(const struct uprocs_conf *conf, const struct usched_stats *stats,
		   size_t n)
{
	size_t pages = conf->c_stacks == USCHED_NATIVE
		? 0 : 2 * STACKS * conf->c_processors;
	size_t image = (size_t)stats->st_image_bytes / n;

	return RECORD + RING + (image > IMAGE ? image : 0)
		+ (pages * (size_t)sysconf(_SC_PAGESIZE) + HUGE) / n;
}

/* ThreadSanitizer knows some thousands of threads at most, and is slow to make them. */
static size_t how_many(void)
{
	return test_is_sanitized() ? 1000 : test_scale(1000000, 1000);
}

static void million(int is_local, const struct uprocs_conf *conf)
{
	static int local;
	size_t n = how_many(), before, after;
	struct ustack **threads = calloc(n, sizeof *threads);
	struct usched_stats stats;

	assert_non_null(threads);
	local = is_local;
	woken = 0;
	assert_int_equal(local ? ll_create(conf, &ll) : rr_create(conf, &rr), 0);
	for (size_t i = 0; i < n; i++)          /* so that the array is resident */
		threads[i] = (struct ustack *)threads;
	before = test_resident();
	for (size_t i = 0; i < n; i++)
		assert_int_equal(start(&local, &threads[i]), 0);
	assert_int_equal(join(local, threads[0]), -EDEADLK);    /* all wait */
	after = test_resident();
	assert_int_equal(woken, 0);
	if (local)
		uprocs_stats(ll, &stats);
	else
		uprocs_stats(rr, &stats);
	assert_int_equal(stats.st_launches, n);
	print_message("%s, %u processors: %zu threads, %zu bytes each\n",
		      local ? "ll" : "rr", conf->c_processors, n, (after - before) / n);
	if (test_has_stacks() && n >= 100000)
		assert_in_range((after - before) / n, 0, most(conf, &stats, n));
	for (size_t i = 0; i < n; i++)
		assert_int_equal(local
				 ? ustack_wake(threads[i]) : ustack_wake(threads[i]), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(join(local, threads[i]), 0);
	assert_int_equal(woken, n);
	assert_int_equal(uprocs_destroy(local ? ll : rr, USCHED_NEVER), 0);
	free(threads);
}

TEST(test_rr)
{
	test_timeout(300);
	million(0, &(struct uprocs_conf){ .c_processors = 1, .c_log = no_log });
	million(0, &(struct uprocs_conf){ .c_processors = 2, .c_log = no_log });
}

TEST(test_ll)
{
	test_timeout(300);
	million(1, &(struct uprocs_conf){ .c_processors = 2, .c_log = no_log });
	million(1, &(struct uprocs_conf){ .c_processors = 1, .c_stacks = USCHED_NATIVE,
					.c_log = no_log });
}

int main(void)
{
	return test_run_all();
}
