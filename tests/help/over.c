/* SPDX-License-Identifier: MIT */
#include "over.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../ll.h"
#include "../../rr.h"
#include "../../sim/sim.h"
#include "foreign.h"

enum { SLICE = 1000000 };               /* ns */

bool over_stalls;

/* Stalls: see over_stalls. */
static struct uprocs_conf configured(const struct uprocs_conf *conf)
{
	struct uprocs_conf all = conf ? *conf : (struct uprocs_conf){ 0 };

	if (!over_stalls && all.c_stall == 0)
		all.c_stall = USCHED_QUIET;
	return all;
}

/* With USCHED_TEST_SLICE threads give way, and slices have a monitor. */
static int create_rr(const struct uprocs_conf *conf, void **s)
{
	struct uprocs_conf all = configured(conf);
	struct uprocs *rr = NULL;
	int rc;

	if (getenv("USCHED_TEST_SLICE")) {
		all.c_slice = all.c_slice ? all.c_slice : SLICE;
	}
	rc = rr_create(&all, &rr);
	*s = rr;
	return rc;
}

static int start_rr(void *s, void (*func)(void *), void *arg, struct ustack **thread)
{
	return rr_start(s, func, arg, thread);
}

static int start_with_rr(void *s, const struct ustack_how *how, void (*func)(void *),
			 void *arg, struct ustack **thread)
{
	return rr_start_with(s, how, func, arg, thread);
}

static int create_ll(const struct uprocs_conf *conf, void **s)
{
	struct uprocs_conf all = configured(conf);
	struct uprocs *ll = NULL;
	int rc = ll_create(&all, &ll);

	*s = ll;
	return rc;
}

/* On the processors in turn: each is a group of its own. */
static int start_ll(void *s, void (*func)(void *), void *arg, struct ustack **thread)
{
	return ll_start(ll_group(s, 0), func, arg, thread);
}

static int start_with_ll(void *s, const struct ustack_how *how, void (*func)(void *),
			 void *arg, struct ustack **thread)
{
	return ll_start_with(ll_group(s, 0), how, func, arg, thread);
}

static int destroy_procs(void *s)
{
	struct usched_stats stats;

	uprocs_stats(s, &stats);
	test_counted(&stats);
	return uprocs_destroy(s, USCHED_NEVER);
}

static void hold_procs(void *s)
{
	uprocs_hold(s, 1);
}

static void release_procs(void *s)
{
	uprocs_hold(s, 0);
}

static int run_procs(void *s)
{
	return uprocs_run(s);
}

static void stats_procs(void *s, struct usched_stats *out)
{
	uprocs_stats(s, out);
}

static int create_foreign(const struct uprocs_conf *conf, void **s)
{
	struct foreign *f = NULL;
	int rc = foreign_create(conf, &f);

	*s = f;
	return rc;
}

static int destroy_foreign(void *s)
{
	return foreign_destroy(s);
}

static int start_foreign(void *s, void (*func)(void *), void *arg, struct ustack **thread)
{
	return foreign_start(s, func, arg, thread);
}

static int start_with_foreign(void *s, const struct ustack_how *how, void (*func)(void *),
			      void *arg, struct ustack **thread)
{
	return foreign_start_with(s, how, func, arg, thread);
}

static void hold_foreign(void *s)
{
	foreign_hold(s);
}

static void release_foreign(void *s)
{
	foreign_release(s);
}

static void stats_foreign(void *s, struct usched_stats *out)
{
	foreign_stats(s, out);
}

const struct over over_rr = { "rr", create_rr, destroy_procs, start_rr, start_with_rr,
			      hold_procs, release_procs, run_procs, stats_procs, true };
const struct over over_ll = { "ll", create_ll, destroy_procs, start_ll, start_with_ll,
			      hold_procs, release_procs, run_procs, stats_procs, true };
const struct over over_foreign = { "foreign", create_foreign, destroy_foreign,
				   start_foreign, start_with_foreign, hold_foreign,
				   release_foreign, NULL, stats_foreign, false };

#ifdef USCHED_SIM
/* On one processor threads would run until they wait. */
static int create_sim(const struct uprocs_conf *conf, void **s)
{
	struct uprocs_conf all = configured(conf);
	struct uprocs *sim = NULL;
	int rc;

	all.c_processors = 2;
	rc = sim_create(&all, &sim);
	*s = sim;
	return rc;
}

static int start_sim(void *s, void (*func)(void *), void *arg, struct ustack **thread)
{
	return sim_start(s, func, arg, thread);
}

static int start_sim_with(void *s, const struct ustack_how *how, void (*func)(void *),
			  void *arg, struct ustack **thread)
{
	return sim_start_with(s, how, func, arg, thread);
}

const struct over over_sim = { "sim", create_sim, destroy_procs, start_sim,
			       start_sim_with, hold_procs, release_procs, run_procs,
			       stats_procs, false };

const struct over *over = &over_sim;

static const struct over *const all[] = { &over_sim };
#else
const struct over *over = &over_rr;

static const struct over *const all[] = { &over_rr, &over_ll, &over_foreign };
#endif

static const char *join_names(const char *test, const char *scheduler)
{
	size_t size = strlen(test) + strlen(scheduler) + 2;
	char *name = malloc(size);

	TEST_TRUE(name);
	snprintf(name, size, "%s %s", test, scheduler);
	return name;
}

enum { ALL = sizeof all / sizeof all[0] };

/* The schedulers that USCHED_TEST_OVER has, words, as bits; unset: all. */
static unsigned wanted(void)
{
	const char *at = getenv("USCHED_TEST_OVER");
	unsigned found = 0;

	if (!at)
		return OVER_ALL;
	for (at += strspn(at, " "); *at; at += strspn(at, " ")) {
		size_t length = strcspn(at, " "), k = 0;

		while (k < ALL && (strlen(all[k]->o_name) != length
				   || strncmp(at, all[k]->o_name, length) != 0))
			k++;
		TEST_TRUE(k < ALL);     /* else there is none of that name */
		found |= 1u << k;
		at += length;
	}
	return found;
}

static void leave_out(void **state)
{
	(void)state;
	skip();
}

/* Whether USCHED_TEST_WITHOUT, words, has the first word of a case's name. */
static bool is_left_out(const char *name)
{
	const char *at = getenv("USCHED_TEST_WITHOUT");
	size_t n = strcspn(name, " ");

	for (; at && *at; at += strspn(at, " ")) {
		if (strcspn(at, " ") == n && strncmp(at, name, n) == 0)
			return true;
		at += strcspn(at, " ");
	}
	return false;
}

/* Runs these over all[k], which cases are named after. */
static int run_over(size_t k, const struct CMUnitTest *tests, size_t n)
{
	struct CMUnitTest *cases = calloc(n, sizeof *cases);
	int failed;

	TEST_TRUE(cases);
	over = all[k];
	for (size_t i = 0; i < n; i++) {
		cases[i] = tests[i];
		if (is_left_out(tests[i].name))
			cases[i].test_func = leave_out;
		cases[i].name = join_names(tests[i].name, over->o_name);
	}
	failed = _cmocka_run_group_tests("tests", cases, n, NULL, NULL);
	for (size_t i = 0; i < n; i++)
		free((void *)(uintptr_t)cases[i].name);
	free(cases);
	return failed;
}

int over_all(unsigned which)
{
	struct CMUnitTest *tests;
	int failed = 0;
	size_t n;

	which &= wanted();
	for (size_t k = 0; k < ALL; k++) {
		if (!(which & 1u << k))
			continue;
		n = test_cases(1u << k, &tests);
		failed += run_over(k, tests, n);
		free(tests);
	}
	n = test_cases(0, &tests);
	if (n > 0)
		failed += _cmocka_run_group_tests("once", tests, n, NULL, NULL);
	free(tests);
	return failed;
}
