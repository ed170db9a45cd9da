/* SPDX-License-Identifier: MIT */
/*
 * test_conf.c: schedulers from all configurations: errors of create, what create takes
 * and destroy gives back, counters, stacks that grow and images that shrink; and calls
 * from outside of threads, or for threads of another kind.
 */
#include <limits.h>

#include "../help/mini.h"
#include "../help/procs.h"
#include "../../uproc.h"

/* ---- Create and destroy ---- */

static void come_and_go(size_t i)
{
	struct uprocs_conf conf = {
		.c_processors = 1 + (unsigned)i % 4,
		.c_stacks = i % 3 ? (unsigned)(i % 3) * 8 : USCHED_NATIVE,
	};
	struct taker takers[20] = { 0 };
	void *s = make(&conf);

	for (size_t k = 0; k < 20; k++) {
		takers[k].t_need = 1;
		takers[k].t_depth = k == i % 20 ? 60000 : k * k * k;
		start_taker(s, &takers[k]);
		assert_int_equal(ustack_detach(takers[k].t_thread), 0);
	}
	if (i % 2)
		for (size_t k = 0; k < 20; k++)
			wake_times(takers[k].t_thread, 1);
	assert_int_equal(over->o_destroy(s), i % 2 ? 0 : -EDEADLK);
}

TEST(test_create_destroy)
{
	size_t rounds = test_scale(1000, 20), mappings, descriptors;

	for (size_t i = 0; i < rounds / 10; i++)        /* libc fills its caches */
		come_and_go(i);
	mappings = test_mappings();
	descriptors = test_descriptors();
	for (size_t i = 0; i < rounds; i++)
		come_and_go(i);
	if (!test_is_scaled())
		assert_in_range(test_mappings(), 0, mappings + 24);
	assert_int_equal(test_descriptors(), descriptors);
}

TEST(test_create_errors)
{
	struct uprocs_conf tiny  = { .c_processors = 1, .c_stack_size = 4096 };
	struct uprocs_conf huge  = { .c_processors = 1, .c_stacks = 1,
				   .c_stack_size = (size_t)3 << 30 };
	struct uprocs_conf image = { .c_processors = 1, .c_image = 65537 };
	struct uprocs_conf many  = { .c_processors = 2, .c_stacks = 200000000 };
	struct uprocs_conf most  = { .c_processors = 2, .c_image = 65535 };
	size_t mappings;
	void *s = NULL;

	mappings = test_mappings();
	assert_int_equal(over->o_create(&image, &s), -EINVAL);
#if SIZE_MAX == UINT32_MAX
	for (unsigned n = INT_MAX; over->o_procs && n > INT_MAX / 256; n /= 2) {
		struct uprocs_conf all = { .c_processors = n };

		assert_int_equal(over->o_create(&all, &s), -ENOMEM);
	}
#endif
	if (test_has_stacks()) {
		assert_int_equal(over->o_create(&tiny, &s), -EINVAL);
		assert_int_equal(over->o_create(&huge, &s), -EINVAL);
		for (size_t n = 100; n <= (test_is_scaled() ? 1000 : 1000000); n *= 10) {
			struct uprocs_conf some = {
				.c_processors = 2, .c_stacks = (unsigned)n,
			};

			if (over->o_create(&some, &s) == 0)
				assert_int_equal(over->o_destroy(s), 0);
		}
		if (!test_is_scaled())
			assert_int_equal(over->o_create(&many, &s), -ENOMEM);
	}
	if (!test_is_scaled())
		assert_in_range(test_mappings(), 0, mappings + 24);
	assert_int_equal(over->o_create(&most, &s), 0);
	assert_int_equal(over->o_start(s, nothing, NULL, NULL), 0);
	assert_int_equal(over->o_destroy(s), 0);
	assert_int_equal(over->o_create(NULL, &s), 0);
	assert_int_equal(over->o_start(s, nothing, NULL, NULL), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

static void destroy_inside(void *arg)
{
	TEST_EQUAL(over->o_destroy(arg), -EPERM);
}

TEST(test_outside)
{
	void *s;

	s = make(NULL);
	assert_int_equal(ustack_yield(), -EPERM);
	assert_int_equal(ustack_wait(), -EPERM);
	assert_int_equal(over->o_start(s, destroy_inside, s, NULL), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

/* ---- Counters, stacks, images ---- */

/* Returns the most bytes of frames that a record keeps beside an image from s_alloc. */
static size_t in_record(const struct uprocs_conf *conf)
{
	return conf->c_image ? conf->c_image : 256;
}

/* With c_stay, since other threads get unshared stacks first, and so no images. */
static void stats(const struct uprocs_conf *given)
{
	struct uprocs_conf conf = *given;
	struct taker takers[50] = { 0 };
	struct usched_stats st;
	void *s;

	conf.c_stay = 1;
	s = make(&conf);
	for (size_t i = 0; i < 50; i++) {
		takers[i].t_need = 4;
		takers[i].t_depth = i * 300;
		start_taker(s, &takers[i]);
	}
	for (size_t k = 0; k < 4; k++) {
		assert_int_equal(ustack_join(takers[0].t_thread, NULL, USCHED_NEVER),
				 -EDEADLK);
		over->o_stats(s, &st);
		assert_int_equal(st.st_launches, 50);
		assert_in_range(st.st_switches, 50, 50 * (k + 1));
		assert_in_range(st.st_images, 1, 50);   /* some fit their records */
		assert_true(st.st_image_bytes + 50 * in_record(&conf)
			    >= 50 * 49 / 2 * 300);
		assert_in_range(st.st_deepest, 49 * 300, 49 * 300 + 4096);
		for (size_t i = 0; i < 50; i++)
			wake_times(takers[i].t_thread, 1);
	}
	for (size_t i = 0; i < 50; i++)
		assert_int_equal(ustack_join(takers[i].t_thread, NULL, USCHED_NEVER), 0);
	over->o_stats(s, &st);
	assert_int_equal(st.st_launches, 50);
	assert_in_range(st.st_switches, 50, 50 * 5);
	assert_int_equal(st.st_evictions, st.st_loads);
	assert_int_equal(st.st_images, 0);
	assert_int_equal(st.st_image_bytes, 0);
	if (conf.c_stacks == 0 && conf.c_processors > 1 && test_has_stacks()
	    && !test_is_stressed())
		assert_int_equal(st.st_bytes, 0);       /* R7: all fit */
	else if (conf.c_stacks == 1 && conf.c_processors == 1)
		assert_true(st.st_bytes >= 2 * 50 * 49 / 2 * 300);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_stats, each_conf, stats)

/*
 * R7: stacks grow with the threads. Each of 1024 threads has a stack; more threads
 * share the first 64 stacks, and the other 960 stacks stay unshared.
 */
static void grow_stacks(size_t n, unsigned stacks)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stacks = stacks };
	struct ustack **threads = calloc(n, sizeof(struct ustack *));
	void *s = make(&conf);
	size_t shared = 0;
	struct usched_stats st;

	TEST_TRUE(threads);
	for (size_t i = 0; i < n; i++)
		start_waiter(s, &threads[i]);
	assert_int_equal(ustack_join(threads[0], NULL, USCHED_NEVER), -EDEADLK);
	for (size_t i = 0; i < n; i++) {
		const struct usched_stack *k = threads[i]->u_stack;

		assert_true(k->k_threads == 1 || k->k_shared);
		shared += k->k_threads > 1;
	}
	over->o_stats(s, &st);
	if (n <= 1024) {
		assert_int_equal(shared, 0);
		assert_int_equal(st.st_evictions, 0);
	} else {
		assert_int_equal(shared, n - (1024 - 64));
		assert_true(st.st_evictions >= n - 1024);
	}
	for (size_t i = 0; i < n; i++)
		wake_times(threads[i], 1);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(ustack_join(threads[i], NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
	free(threads);
}

TEST(test_stacks_grow)
{
	if (test_is_stressed())
		skip();
	if (!test_has_stacks())
		skip();
	grow_stacks(65, 0);
	grow_stacks(1024, 0);
	grow_stacks(65, 1024);
	grow_stacks(1024, 1024);
	if (!test_is_scaled()) {
		grow_stacks(3000, 0);
		grow_stacks(3000, 1024);
	}
}

/* Stacks that no thread needs take no memory, only address space. */
TEST(test_stacks_unused)
{
	struct uprocs_conf conf = { .c_processors = 2, .c_stacks = 4000 };
	size_t before, after;
	void *s;

	if (!test_has_stacks() || test_is_sanitized() || test_on_valgrind())
		skip();
	if (test_is_scaled())
		skip();                         /* an emulator's memory is there, too */
	s = make(&conf);                        /* what libc allocates once */
	assert_int_equal(over->o_destroy(s), 0);
	before = test_resident();
	s = make(&conf);
	after = test_resident();
	assert_in_range(after > before ? after - before : 0, 0, 4 << 20);
	run_to_end(s, nothing, NULL);
	assert_int_equal(over->o_destroy(s), 0);
}

static void deep_then_shallow(void *arg)
{
	struct taker *t = arg;

	below(30000, take_one, t);
	take_one(t);
	below(30000, take_one, t);
	take_one(t);
}

/* Runs so many threads that all others are evicted. */
static void evict_all(void *s, const struct uprocs_conf *conf)
{
	size_t stacks = conf->c_stacks == USCHED_NATIVE ? 1 : conf->c_stacks;
	size_t n = 4 * conf->c_processors * stacks;
	struct ustack **filler = calloc(n, sizeof(struct ustack *));

	TEST_TRUE(filler);
	for (size_t i = 0; i < n; i++)
		start_waiter(s, &filler[i]);
	TEST_EQUAL(ustack_join(filler[0], NULL, USCHED_NEVER), -EDEADLK);
	for (size_t i = 0; i < n; i++)
		wake_times(filler[i], 1);
	for (size_t i = 0; i < n; i++)
		TEST_EQUAL(ustack_join(filler[i], NULL, USCHED_NEVER), 0);
	free(filler);
}

static bool is_resident(const struct ustack *u)
{
	return u->u_stack->k_resident == u;
}

/* An image grows with the depth at once, and shrinks when needed. */
static void exchange(const struct uprocs_conf *conf)
{
	struct uprocs_conf c = *conf;
	struct taker t = { 0 };
	struct usched_stats st;
	void *s;

	if (c.c_stacks == 0)
		c.c_stacks = 4;
	s = make(&c);
	assert_int_equal(over->o_start(s, deep_then_shallow, &t, &t.t_thread), 0);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(ustack_join(t.t_thread, NULL, USCHED_NEVER), -EDEADLK);
		assert_int_equal(t.t_got, i);
		do
			evict_all(s, &c);               /* all may move elsewhere */
		while (is_resident(t.t_thread));
		over->o_stats(s, &st);
		if (i % 2 == 0)
			assert_in_range(st.st_image_bytes, 30000 - in_record(&c), 45000);
		else
			assert_in_range(st.st_image_bytes, 0, 5000);
		wake_times(t.t_thread, 1);
	}
	assert_int_equal(ustack_join(t.t_thread, NULL, USCHED_NEVER), 0);
	assert_int_equal(over->o_destroy(s), 0);
}

TEST_CASE(test_exchange, each_conf, exchange)

/* ---- A dispatcher without most call-backs ---- */

static void try_all(void *unused)
{
	struct ustack *self = ustack_self();

	(void)unused;
	TEST_EQUAL(ustack_wait(), 0);           /* s_next returns the same */
	TEST_EQUAL(ustack_wake(self), -ENOTSUP);
	TEST_EQUAL(self->u_tokens, INT32_MIN);
	TEST_EQUAL(ustack_yield(), -ENOTSUP);
	TEST_EQUAL(ustack_cancel(self), -ENOTSUP);
	TEST_EQUAL(ustack_detach(self), -ENOTSUP);
	TEST_EQUAL(ustack_join(self, NULL, USCHED_NEVER), -ENOTSUP);
	TEST_EQUAL(ustack_name(self, "foreign"), -ENOTSUP);
	TEST_EQUAL(ustack_stay(1), -ENOTSUP);
}

TEST(test_foreign_thread)
{
	static struct mini plain;
	struct ustack foreign;

	mini_init(&plain, 0, 0);
	mini_start(&plain, &foreign, try_all, NULL);
	assert_int_equal(usched_run(&plain.p_sched), 0);
	mini_fini(&plain);
}

/* ---- Room for a policy ---- */

struct room {
	char r_text[20];                /* no multiple of 8 */
};

static struct ustack *next_of_room(struct usched *s)
{
	return uproc_next(uproc_from(s), uproc_pop);
}

static struct ustack *pick_of_room(struct usched *s, struct ustack *self)
{
	return uproc_wait(s, self, uproc_pop);
}

static struct room *room_of_self(void)
{
	return uproc_room(uproc_thread(ustack_self()));
}

static void check_room(void *expected)
{
	TEST_EQUAL(strcmp(room_of_self()->r_text, expected), 0);
	strcpy(room_of_self()->r_text, "used");         /* the record's next thread */
}

static void start_and_join(struct uprocs *r, const struct ustack_how *how,
			   void (*func)(void *), void *arg)
{
	struct ustack *u;

	TEST_EQUAL(uproc_start(uprocs_place(r, how), how, func, arg, &u), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
}

static void start_with_rooms(void *procs)
{
	const struct room mine = { "of the starter" }, given = { "given" };
	const struct ustack_how how = { .h_room = &given };

	*room_of_self() = mine;
	for (int i = 0; i < 50; i++) {
		start_and_join(procs, NULL, check_room, "of the starter");
		start_and_join(procs, &how, check_room, "given");
	}
}

/* A room is what h_room says, or that of the starting thread, or zeros. */
TEST_ONCE(test_room)
{
	struct uproc_policy policy = {
		.y_size = sizeof(struct uproc), .y_room = UPROC_ROOM_MAX + 1,
		.y_next = next_of_room, .y_pick = pick_of_room,
	};
	struct uprocs *r;

	test_timeout(20);
	assert_int_equal(uprocs_create(NULL, &policy, &r), -EINVAL);
	policy.y_room = sizeof(struct room);
	assert_int_equal(uprocs_create(NULL, &policy, &r), 0);
	for (int i = 0; i < 50; i++)
		start_and_join(r, NULL, check_room, "");
	start_and_join(r, NULL, start_with_rooms, r);
	assert_int_equal(uprocs_destroy(r, USCHED_NEVER), 0);
}

int main(void)
{
	return over_all(OVER_PROCS);
}
