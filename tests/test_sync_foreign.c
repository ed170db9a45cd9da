/* SPDX-License-Identifier: MIT */
/* test_sync_foreign.c: sync.h over a scheduler that is not ours. */
#include "foreign.h"

#define SCHED foreign
#define START(s, func, arg, thread) foreign_start(s, func, arg, thread)
#define PROCESSORS 1
#include "sync.h"

/*
 * What a wait needs is reserved before anybody knows of it: the image is not found too
 * small when the thread blocks. The join of a scheduler reserves for itself.
 */
static void count_images(struct worker *w)
{
	struct visit *v = w->w_shared;

	TEST_EQUAL(foreign_thread(w->w_thread)->t_allocs, 0);
	TEST_EQUAL(v->v_point->o_wait(w, v->v_place, usync_after(1000)), -ETIMEDOUT);
	TEST_TRUE(foreign_thread(w->w_thread)->t_allocs <= 1);
}

static void reserve(sched *s, const struct point *o, bool unused)
{
	struct visit v = { .v_place = make_place(s), .v_point = o };
	struct worker w;

	(void)unused;
	start_worker(&w, s, false, 0, is_join(o) ? be_late : count_images, &v);
	end_worker(&w);
	free_place(v.v_place);
}

static void reserves(const struct usched_conf *conf)
{
	each_point(conf, false, reserve);
}

static void test_reserve(void **state)
{
	(void)state;
	if (test_is_harsh())
		skip();
	test_timeout(20);
	each_conf(reserves);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SYNC_TESTS,
		cmocka_unit_test(test_reserve),
	};

	return cmocka_run_group_tests_name("sync_foreign", tests, NULL, NULL);
}
