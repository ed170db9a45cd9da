/* SPDX-License-Identifier: MIT */
/*
 * sweep.h: a scene, which is a thread's function that starts others, is run again and
 * again over each scheduler; each time the next call fails, until none is left that can.
 * To be included once by a program that is linked as fault.h has it.
 *
 * What a scene does it tries again as long as it fails for that reason. So all must be
 * there in the end; and all that was taken must have been given back.
 */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "../usync.h"
#include "either.h"
#include "fault.h"

/* What a call returns when it has not failed because another was made to. */
#define TRY(call) __extension__ ({              \
	intmax_t rc_;                           \
	do                                      \
		rc_ = (call);                   \
	while (fault_made((int)rc_));           \
	rc_;                                    \
})

static const struct scheduler *over;
static void *the;                       /* scheduler */

static const struct usched_conf confs[] = {
	{ .c_processors = 1, .c_stacks = USCHED_NATIVE },
	{ .c_processors = 1, .c_embed = 1 },
	{ .c_processors = 2, .c_stacks = 1, .c_image = 1 },
	{ .c_processors = 3, .c_stacks = 5 },
};

static struct ustack *go(void (*func)(void *), void *arg)
{
	struct ustack *u = NULL;

	TEST_EQUAL(TRY(over->s_start(the, func, arg, &u)), 0);
	return u;
}

static void end(struct ustack *u)
{
	TEST_EQUAL(TRY(ustack_join(u, USCHED_NEVER)), 0);
}

static long descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	long n = 0;

	TEST_TRUE(dir != NULL);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

struct scene {
	void (*s_main)(void *unused);   /* a thread's function */
	void (*s_after)(void);          /* gives back what is kept; or NULL */
	long   s_step;                  /* from n to the next */
};

static void run_scene(const struct scene *scene, const struct usched_conf *conf)
{
	struct ustack *u;
	int rc = over->s_create(&the, conf);

	if (rc) {
		TEST_TRUE(fault_made(rc));
		return;
	}
	u = go(scene->s_main, NULL);
	TEST_EQUAL(ustack_join(u, USCHED_NEVER), 0);              /* the same in ll */
	TEST_EQUAL(over->s_destroy(the), 0);
	if (scene->s_after)
		scene->s_after();
}

/*
 * With several processors it is not the same calls each time, so a few runs must be
 * without failures.
 */
static void sweep_one(const struct scene *scene, const struct usched_conf *conf,
		      enum fault_kind kind, long width, long first, long step)
{
	long held = fault_held(), open = descriptors();
	int beyond = 0;

	for (long n = first; beyond < 3; n += step) {
		test_seed = (uint32_t)n;        /* says which it was */
		fault_begin(kind, n, n + width - 1);
		run_scene(scene, conf);
		beyond += fault_end() == 0;
		TEST_EQUAL(fault_held(), held);
		TEST_EQUAL(descriptors(), open);
	}
}

/*
 * `width' calls in a row fail. With a step, all together take every n, unless LONG is in
 * the environment: then each does.
 */
static void sweep(const struct scene *scene, enum fault_kind kind, long width)
{
	long step = getenv("LONG") ? 1 : scene->s_step * (30 / (long)test_scale(30, 1));
	long first = 0;

	test_timeout(getenv("LONG") ? 600 : 60);
	for (size_t k = 0; k < 2; k++)
		for (size_t c = 0; c < sizeof confs / sizeof *confs; c++) {
			/* Without stacks, ustack_join() and rr_destroy() would have to be as deep. */
			if (confs[c].c_embed && !test_has_stacks())
				continue;
			over = &schedulers[k];
			fault_end();
			run_scene(scene, &confs[c]);    /* what is made once is there then */
			sweep_one(scene, &confs[c], kind, width, 1 + first++ % step, step);
		}
}
