/* SPDX-License-Identifier: MIT */
#include "sweep.h"

#include <stdlib.h>

void *the;

const struct uprocs_conf sweep_confs[SWEEP_CONFS] = {
	{ .c_processors = 1, .c_stacks = USCHED_NATIVE },
	{ .c_processors = 1, .c_embed = 1 },
	{ .c_processors = 2, .c_stacks = 1, .c_image = 1 },
	{ .c_processors = 3, .c_stacks = 5 },
};

struct ustack *go(void (*func)(void *), void *arg)
{
	struct ustack *u = NULL;

	TEST_EQUAL(TRY(over->o_start(the, func, arg, &u)), 0);
	return u;
}

void end(struct ustack *u)
{
	TEST_EQUAL(TRY(ustack_join(u, NULL, USCHED_NEVER)), 0);
}

void run_scene(const struct scene *scene, const struct uprocs_conf *conf)
{
	struct ustack *u;
	int rc = over->o_create(conf, &the);

	if (rc) {
		TEST_TRUE(fault_made(rc));
		return;
	}
	u = go(scene->s_main, NULL);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
	TEST_EQUAL(over->o_destroy(the), 0);
	if (scene->s_after)
		scene->s_after();
}

/*
 * With several processors calls differ between runs, so a few runs must have no failure.
 */
static void sweep_one(const struct scene *scene, const struct uprocs_conf *conf,
		      enum fault_kind kind, long width, long first, long step)
{
	size_t open = test_descriptors();
	long held = sweep_held();
	int beyond = 0;

	for (long n = first; beyond < 3; n += step) {
		test_seed = (uint32_t)n;        /* a failure prints it */
		fault_begin(kind, n, n + width - 1);
		run_scene(scene, conf);
		beyond += fault_end() == 0;
		TEST_EQUAL(sweep_held(), held);
		TEST_EQUAL(test_descriptors(), open);
	}
}

void sweep(const struct scene *scene, enum fault_kind kind, long width)
{
	long step = getenv("LONG") ? 1 : scene->s_step * (30 / (long)test_scale(30, 1));
	long first = over == &over_rr ? 0 : SWEEP_CONFS;

	test_timeout(getenv("LONG") ? 600 : 60);
	for (size_t c = 0; c < SWEEP_CONFS; c++, first++) {
		/* Without stacks, join and destroy would need the same depth. */
		if (sweep_confs[c].c_embed && !test_has_stacks())
			continue;
		fault_end();
		run_scene(scene, &sweep_confs[c]);      /* takes what is kept for good */
		sweep_one(scene, &sweep_confs[c], kind, width, 1 + first % step, step);
	}
}

bool sweep_is_exact(void)
{
	return test_is_dynamic() && !test_is_counted();
}

long sweep_held(void)
{
	return sweep_is_exact() ? fault_held() : 0;
}

void no_log(const char *line)
{
	(void)line;
}

void sweep_kinds(const struct scene *scene)
{
	for (int kind = 0; kind < FAULT_KINDS; kind++)
		sweep(scene, (enum fault_kind)kind, 1);
	sweep(scene, FAULT_USED_UP, 40);
}
