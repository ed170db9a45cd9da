/* SPDX-License-Identifier: MIT */
/*
 * test_direction.c: the dispatcher over a stack that grows up, on any machine; and
 * test_direction_down.c, over one that grows down, by the same code.
 *
 * No compiler makes frames that grow against its ABI, so frames are simulated: bytes of
 * `memory', and SP is a pointer into it. The dispatcher is compiled in, and what arch/
 * does is done here, step by step: threads run no code. They push and pop frames of
 * random bytes, block, end, are looked into and visited. After each step the bytes of the
 * running thread must be those that it wrote, and what is deeper than a thread's top is
 * not written while it is loaded.
 */
#ifndef USCHED_GROWS_UP
#define USCHED_GROWS_UP 1
#endif
#include "../../usched.c"
#include "../../src/core/usched_stack.c"
#include "../../src/base/check.h"

#include "../help/mini.h"

enum {
	THREADS = 7,
	ROUNDS  = 20000,
	MEMORY  = 64 << 10,
	HOME    = 1000,                 /* bytes that usched_run()'s caller has there */
	DEEPEST = 16 << 10,
	FRAME   = 16,                   /* bytes: frames are multiples */
	BEYOND  = 256,                  /* bytes deeper than a top that are looked at */
	UNUSED  = 0xee,                 /* and what is there */
};

struct life {
	struct ustack l_thread;         /* first */
	size_t        l_deep;           /* bytes of frames, */
	unsigned char l_content[DEEPEST]; /* from the bottom on */
	bool          l_visited;
};

static _Alignas(64) char memory[MEMORY];
static char *the_sp;
static struct mini plain;
static struct life life[THREADS];
static uint32_t seed = 1;
static size_t rounds;

/* What arch/ supplies. None of these switches is called. */

const int usched__return_at = -1;
const unsigned usched__frame = FRAME;

int usched__switch(arch_next_fn *next, void *arg)
{
	(void)next;
	(void)arg;
	abort();
}

int usched__handover(struct ustack *u, struct ustack *self, struct usched *s)
{
	(void)u;
	(void)self;
	(void)s;
	abort();
}

int usched__handover_plain(struct ustack *u, struct ustack *self, struct usched *s)
{
	return usched__handover(u, self, s);
}

void usched__resumed(void)
{
}

void usched__exit(void)
{
	abort();
}

uint64_t usched__control(void)
{
	return 0;
}

void usched__set_control(uint64_t words)
{
	(void)words;
}

int usched__probe(void)
{
	return 0;
}

void usched__commit(void)
{
}

/* For test.c; no thread calls it. */
int ustack_yield(void)
{
	abort();
}

static char *byte_of(const struct life *l, size_t index)
{
	return stack_deeper(l->l_thread.u_stack->k_bottom, index + !STACK_GROWS_UP);
}

static void expect_content(const struct life *l)
{
	for (size_t i = 0; i < l->l_deep; i++)
		TEST_EQUAL((unsigned char)*byte_of(l, i), l->l_content[i]);
}

/* Frames come, go, and change. */
static void act(struct life *l)
{
	size_t deep = test_random(&seed) % (DEEPEST / FRAME) * FRAME;

	if (test_random(&seed) % 2)             /* most are shallow */
		deep /= 16;
	deep = deep / FRAME * FRAME + FRAME;
	for (size_t i = deep / 2; i < deep; i++) {
		l->l_content[i] = (unsigned char)test_random(&seed);
		*byte_of(l, i) = (char)l->l_content[i];
	}
	for (size_t i = l->l_deep; i < deep / 2; i++) {
		l->l_content[i] = (unsigned char)i;
		*byte_of(l, i) = (char)i;
	}
	l->l_deep = deep;
	the_sp = stack_deeper(l->l_thread.u_stack->k_bottom, deep);
}

/* usched__load() with SP at the top of that thread. */
static void load_there(struct ustack *u)
{
	char *free_end = stack_deeper(usched__top(u), BEYOND);
	unsigned char *beyond = (void *)stack_low(usched__top(u), free_end);

	memset(beyond, UNUSED, BEYOND);
	usched__load();
	for (size_t i = 0; i < BEYOND; i++)
		TEST_EQUAL(beyond[i], UNUSED);
}

static void note_visit(void *visited)
{
	struct life *l = visited;

	TEST_TRUE(ustack_self() == &l->l_thread);
	expect_content(l);
	l->l_visited = true;
}

/* To where the dispatcher said. The thread that runs then; NULL: usched_run() returns. */
static struct life *jump_to(struct arch_jump j)
{
	struct life *l = j.aj_at;

	if (j.aj_op == ARCH_VISIT) {
		load_there(&l->l_thread);
		j = usched__visited(1);
		l = j.aj_at;
	}
	if (j.aj_op <= 0) {
		TEST_EQUAL(j.aj_op, 0);
		the_sp = j.aj_at;
		return NULL;
	}
	if (j.aj_op == ARCH_LAUNCH) {
		l->l_deep = 0;
		the_sp = l->l_thread.u_stack->k_bottom;
		return l;
	}
	the_sp = usched__top(&l->l_thread);
	if (j.aj_op == ARCH_LOAD)
		load_there(&l->l_thread);
	TEST_TRUE(l->l_thread.u_stack->k_resident == &l->l_thread);
	TEST_TRUE(the_sp == stack_deeper(l->l_thread.u_stack->k_bottom, l->l_deep));
	expect_content(l);
	return l;
}

/* Where a byte of a blocked thread's frames is: on the stack, or in the image. */
static char *find_byte(const struct life *l, char *address)
{
	const struct ustack *u = &l->l_thread;
	size_t i = (size_t)(address - stack_low(u->u_stack->k_bottom, usched__top(u)));
	size_t near = u->u_outside ? usched__near_room(ustack_sched(u)) : 0;

	if (u->u_stack->k_resident == u)
		return address;
	return i < near ? usched__near(u) + i : usched__image(u) + i - near;
}

/* The frames of a blocked thread, where they are. */
static void look_into(struct life *l)
{
	size_t at = test_random(&seed) % l->l_deep;
	char *c = find_byte(l, byte_of(l, at));
	struct ustack *whose;
	enum usched_place place = usched__onstack(byte_of(l, at), &whose, the_sp);

	TEST_EQUAL((unsigned char)*c, l->l_content[at]);
	l->l_content[at]++;
	*c = (char)l->l_content[at];
	TEST_TRUE(place != USCHED_ELSEWHERE && place != USCHED_REMOTE);
	TEST_TRUE((place == USCHED_MINE) == (whose != NULL));
}

static void look_at_own(const struct life *l)
{
	struct ustack *whose;

	TEST_EQUAL(usched__onstack(byte_of(l, 0), &whose, the_sp), USCHED_MINE);
	TEST_TRUE(whose == &l->l_thread);
	TEST_EQUAL(usched__onstack(byte_of(l, l->l_deep - 1), NULL, the_sp), USCHED_MINE);
	TEST_TRUE(usched__onstack(byte_of(l, l->l_deep), NULL, the_sp) != USCHED_MINE);
	TEST_EQUAL(usched__onstack(byte_of(l, (size_t)-1), NULL, the_sp),
		   USCHED_ELSEWHERE);
}

static void nothing(void *unused)
{
	(void)unused;
	abort();
}

static void start(struct life *l)
{
	mini_start(&plain, &l->l_thread, nothing, NULL);
}

static struct arch_jump step(struct life *l)
{
	struct life *other = &life[test_random(&seed) % THREADS];
	struct usched *s = &plain.p_sched;
	struct arch_jump jump;

	act(l);
	look_at_own(l);
	if (other != l && other->l_thread.u_stack != &s->s_new) {
		look_into(other);
		if (test_random(&seed) % 8 == 0) {
			s->s_func = note_visit;
			s->s_arg = other;
			other->l_visited = false;
			TEST_TRUE(jump_to(visit(the_sp, &other->l_thread)) == l);
			TEST_TRUE(other->l_visited);
		}
	}
	if (test_random(&seed) % 64 > 0)
		return hand_over(the_sp, NULL);
	jump = usched__end();
	start(l);                               /* once more */
	return jump;
}

/* usched_run(), from a place at that depth. */
static void run_at(char *home)
{
	struct usched *s = &plain.p_sched, *outer = usched__current;
	struct life *l;

	usched__current = s;
	s->s_errno = &errno;
	s->s_caught = &none_caught;
	the_sp = home;
	l = jump_to(enter(the_sp, s));
	for (size_t i = 0; l; i++) {
		plain.p_stop = i >= rounds;
		l = jump_to(step(l));
	}
	TEST_TRUE(the_sp == home);
	s->s_home = NULL;
	usched__current = outer;
}

TEST(test_frames)
{
	char *home = stack_deeper(stack_first(memory, MEMORY, 0), HOME);
	char *callers = stack_first(memory, MEMORY, HOME);
	struct usched_stats stats;

	if (WATCHED) {
		print_message("sanitizers follow real frames only\n");
		skip();
	}
	rounds = test_scale(ROUNDS, 1000);
	mini_init(&plain, 0, 0);
	for (int i = 0; i < THREADS; i++)
		start(&life[i]);
	memset(callers, UNUSED, HOME);
	run_at(home);
	run_at(home);
	for (int i = 0; i < HOME; i++)
		assert_int_equal((unsigned char)callers[i], UNUSED);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(ustack_abort(&life[i].l_thread), 0);
	stats = mini_stats(&plain);
	assert_in_range(stats.st_evictions, rounds, 4 * rounds);
	assert_in_range(stats.st_loads, rounds, 4 * rounds);
	mini_fini(&plain);
}

int main(void)
{
	return test_run_all();
}
