/* SPDX-License-Identifier: MIT */
/*
 * test_uco_clone.c: what cannot be cloned: each error of uco_clone(), and what the check
 * build finds. Exceptions of C++ are in cpp/coroutines.cc.
 */
#include "../help/child.h"
#include "../help/mini.h"

#include "../../rr.h"
#include "../../uco.h"
#include "../../usync.h"

#ifdef USCHED_ASAN
#include <sanitizer/asan_interface.h>
#endif

#ifdef USCHED_CHECK
enum { CHECKED = 1 };
#else
enum { CHECKED = 0 };
#endif

#define NEVER USCHED_NEVER

/* Coroutines that have yielded. ThreadSanitizer, and fake stacks, know their frames. */
static bool can_clone(void)
{
#if defined(USCHED_TSAN)
	return false;
#elif defined(USCHED_ASAN)
	return !__asan_get_current_fake_stack();
#else
	return true;
#endif
}

static struct uco *make_one(uco_fn *func, void *arg)
{
	struct uco *co;

	TEST_EQUAL(uco_create_clonable(func, arg, &co), 0);
	return co;
}

static void run_on_rr(void (*func)(void *), void *arg)
{
	struct uprocs_conf conf = { .c_processors = 1, .c_stall = USCHED_QUIET };
	struct uprocs *rr;

	TEST_EQUAL(rr_create(&conf, &rr), 0);
	TEST_EQUAL(rr_start(rr, func, arg, NULL), 0);
	TEST_EQUAL(uprocs_destroy(rr, USCHED_NEVER), 0);
}

static void *yield_once(void *unused, void *value)
{
	(void)unused;
	uco_yield(NULL, NULL);                  /* it may be closed there */
	return value;
}

/* ---- Errors ---- */

static void clone_all(void *unused)
{
	struct uco *co = make_one(yield_once, NULL), *own, *clone;

	(void)unused;
	TEST_EQUAL(uco_clone(co, &clone), 0);
	TEST_EQUAL(uco_close(clone), 0);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	if (can_clone()) {
		TEST_EQUAL(uco_clone(co, &clone), 0);
		TEST_EQUAL(uco_resume(clone, NULL, NULL), 1);
		TEST_EQUAL(uco_close(clone), 0);
	} else {
		TEST_EQUAL(uco_clone(co, &clone), -ENOTSUP);
	}
	TEST_EQUAL(uco_resume(co, NULL, NULL), 1);
	TEST_EQUAL(uco_clone(co, &clone), -ESRCH);
	TEST_EQUAL(uco_close(co), 0);
	TEST_EQUAL(uco_create(yield_once, NULL, &own), 0);
	TEST_EQUAL(uco_clone(own, &clone), -ENOTSUP);
	TEST_EQUAL(uco_resume(own, NULL, NULL), 0);
	TEST_EQUAL(uco_clone(own, &clone), -ENOTSUP);
	TEST_EQUAL(uco_resume(own, NULL, NULL), 1);
	TEST_EQUAL(uco_close(own), 0);
}

static void test_sanitizers(void **state)
{
	(void)state;
	test_timeout(20);
	run_on_rr(clone_all, NULL);
}

static struct uco *waiter, *resumer;

static void *wait_inside(void *unused, void *value)
{
	(void)unused;
	TEST_EQUAL(ustack_wait(), 0);
	return value;
}

static void *resume_waiter(void *unused, void *value)
{
	(void)unused;
	TEST_EQUAL(uco_resume(waiter, NULL, NULL), 1);
	return value;
}

static void resume_resumer(void *unused)
{
	(void)unused;
	TEST_EQUAL(uco_resume(resumer, NULL, NULL), 1);
}

static void clone_waiting(void *unused)
{
	struct ustack *u;
	struct uco *clone;

	(void)unused;
	waiter = make_one(wait_inside, NULL);
	resumer = make_one(resume_waiter, NULL);
	TEST_EQUAL(ustack_start(resume_resumer, NULL, &u), 0);
	while (uco_status(waiter) != UCO_RUNNING)
		TEST_EQUAL(ustack_yield(), 0);
	TEST_EQUAL(uco_status(resumer), UCO_RESUMING);
	TEST_EQUAL(uco_clone(waiter, &clone), -EBUSY);
	TEST_EQUAL(uco_clone(resumer, &clone), -EBUSY);
	TEST_EQUAL(ustack_wake(u), 0);
	TEST_EQUAL(ustack_join(u, NULL, NEVER), 0);
	TEST_EQUAL(uco_clone(waiter, &clone), -ESRCH);
	TEST_EQUAL(uco_close(waiter), 0);
	TEST_EQUAL(uco_close(resumer), 0);
}

static void test_waits(void **state)
{
	(void)state;
	test_timeout(20);
	run_on_rr(clone_waiting, NULL);
}

static const struct ustack_attachment_ops no_ops;

static void *attach_local(void *unused, void *value)
{
	struct ustack_attachment local = { .a_ops = &no_ops };

	(void)unused;
	TEST_EQUAL(ustack_attach(&local), -EBUSY);      /* the resumer has one */
	TEST_EQUAL(uco_yield(NULL, NULL), 0);
	return value;
}

static void attach_inside(void *unused)
{
	struct uco *co = make_one(attach_local, NULL);

	(void)unused;
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 1);
	TEST_EQUAL(uco_close(co), 0);
}

static void do_nothing(struct ustack_attachment *l)
{
	(void)l;
}

/* Of a thread over the dispatcher alone, which waits for nothing. */
static const struct ustack_attachment_ops foreign_ops = {
	.a_end = do_nothing, .a_free = do_nothing,
};
static struct ustack_attachment foreign = { .a_ops = &foreign_ops };
static struct mini outer, inner;

static void attach_foreign(void *co)
{
	struct uco *clone;

	TEST_EQUAL(ustack_attach(&foreign), 0);
	TEST_TRUE(!uco_self());
	TEST_EQUAL(uco_resume(co, NULL, NULL), -EPERM);
	TEST_EQUAL(uco_clone(co, &clone), -EPERM);
	TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
	TEST_EQUAL(uco_status(co), UCO_SUSPENDED);
}

static struct ustack *plain;

static void begin_plain(void *unused)
{
	struct uco *co = make_one(yield_once, NULL);

	(void)unused;
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	mini_start(&outer, &plain[1], attach_foreign, co);
	while (outer.p_dones == 0)
		TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 1);
	TEST_EQUAL(uco_close(co), 0);
}

static void run_plain(void (*func)(void *), unsigned stacks)
{
	mini_init(&outer, stacks, 64 << 10);
	plain = calloc(2, sizeof *plain);
	TEST_TRUE(plain);
	mini_start(&outer, &plain[0], func, NULL);
	TEST_EQUAL(usched_run(&outer.p_sched), 0);
	mini_fini(&outer);
	free(plain);
}

static void test_attachments(void **state)
{
	(void)state;
	test_timeout(20);
	run_on_rr(attach_inside, NULL);
	for (unsigned stacks = 0; stacks < 3; stacks++)
		run_plain(begin_plain, stacks);
}

/* `waiter' has yielded, `resumer' runs a dispatcher, of which this is a thread. */
static void clone_outer(void *unused)
{
	struct uco *clone;

	(void)unused;
	TEST_EQUAL(uco_clone(waiter, &clone), -EXDEV);
	TEST_EQUAL(uco_clone(resumer, &clone), -EXDEV);
	TEST_EQUAL(uco_yield(NULL, NULL), -EPERM);
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(uco_resume(waiter, NULL, NULL), -EXDEV);
}

static void *run_inner(void *unused, void *value)
{
	struct ustack *u = calloc(1, sizeof *u);
	struct uco *clone;

	(void)unused;
	TEST_TRUE(u);
	mini_init(&inner, 0, 0);
	mini_start(&inner, u, clone_outer, NULL);
	TEST_EQUAL(usched_run(&inner.p_sched), 0);
	mini_fini(&inner);
	free(u);
	TEST_EQUAL(uco_clone(uco_self(), &clone), -EBUSY);
	return value;
}

static void nest(void *unused)
{
	(void)unused;
	waiter = make_one(yield_once, NULL);
	resumer = make_one(run_inner, NULL);
	TEST_EQUAL(uco_resume(waiter, NULL, NULL), 0);
	TEST_EQUAL(uco_resume(resumer, NULL, NULL), 1);
	TEST_EQUAL(uco_resume(waiter, NULL, NULL), 1);
	TEST_EQUAL(uco_close(waiter), 0);
	TEST_EQUAL(uco_close(resumer), 0);
}

static void test_nested(void **state)
{
	(void)state;
	test_timeout(20);
	for (unsigned stacks = 0; stacks < 3; stacks++)
		run_plain(nest, stacks);
}

/* ---- What the check build finds ---- */

static struct usync_mutex mutex;
static struct usync_rwlock rwlock;
static struct usync_cond cond;
static struct usync_scope *scope;

static void lock(void)
{
	TEST_EQUAL(usync_mutex_lock(&mutex, NEVER), 0);
	TEST_EQUAL(usync_mutex_lock(&mutex, 0), -EDEADLK);
}

static void unlock(void)
{
	TEST_EQUAL(usync_mutex_unlock(&mutex), 0);
	TEST_EQUAL(usync_mutex_unlock(&mutex), -EPERM);
}

static void lock_again(void)
{
	lock();
	TEST_EQUAL(usync_cond_wait(&cond, &mutex, usync_after(1000)), -ETIMEDOUT);
}

static void unlock_theirs(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_mutex_unlock(&mutex), -EPERM);
}

static void lock_in_vain(void)
{
	struct ustack *u;

	lock();
	TEST_EQUAL(ustack_start(unlock_theirs, NULL, &u), 0);
	TEST_EQUAL(ustack_join(u, NULL, NEVER), 0);
}

static void lock_to_read(void)
{
	TEST_EQUAL(usync_rwlock_read(&rwlock, NEVER), 0);
}

static void lock_to_write(void)
{
	TEST_EQUAL(usync_rwlock_write(&rwlock, 0), 0);
}

static void unlock_both(void)
{
	TEST_EQUAL(usync_rwlock_unlock(&rwlock), 0);
	TEST_EQUAL(usync_rwlock_unlock(&rwlock), -EPERM);
}

static void enter(void)
{
	TEST_EQUAL(usync_scope_create(NULL, &scope, NEVER), 0);
	TEST_EQUAL(usync_scope_enter(scope), 0);
}

static void leave(void)
{
	TEST_EQUAL(usync_scope_leave(), 0);
	TEST_EQUAL(usync_scope_leave(), -EPERM);
	usync_scope_release(scope);
}

static const struct thing {
	const char *t_text;
	void      (*t_take)(void), (*t_give)(void);
} things[] = {
	{ ", has mutex 0x", lock, unlock },
	{ ", has mutex 0x", lock_again, unlock },
	{ ", has mutex 0x", lock_in_vain, unlock },
	{ ", has rwlock 0x", lock_to_read, unlock_both },
	{ ", has rwlock 0x", lock_to_write, unlock_both },
	{ ", has scope 0x", enter, leave },
};

/* Gives it back when it is told to. */
static void *hold_one(void *arg, void *value)
{
	const struct thing *t = arg;

	t->t_take();
	if (uco_yield(NULL, &value) == 0 && value)
		t->t_give();
	uco_yield(NULL, NULL);
	return NULL;
}

static void clone_it(struct uco *co)
{
	struct uco *clone;

	TEST_EQUAL(uco_clone(co, &clone), can_clone() ? 0 : -ENOTSUP);
	if (can_clone())
		TEST_EQUAL(uco_close(clone), 0);
}

static void clone_with_it(void *thing)
{
	struct uco *co = make_one(hold_one, thing);

	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	clone_it(co);
}

static void *give_back(void *arg, void *value)
{
	const struct thing *t = arg;

	t->t_give();
	return value;
}

/* It is given back by something else. */
static void clone_later(void *arg, struct uco *giver)
{
	struct uco *co = make_one(hold_one, arg);
	const struct thing *t = arg;

	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	if (giver)
		TEST_EQUAL(uco_resume(giver, NULL, NULL), 1);
	else
		t->t_give();
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	clone_it(co);
	TEST_EQUAL(uco_close(co), 0);
	if (giver)
		TEST_EQUAL(uco_close(giver), 0);
}

/* Given back by the coroutine, by its resumer, by another one, or never. */
static void clone_without_it(void *arg)
{
	const struct thing *t = arg;
	struct uco *co = make_one(hold_one, arg), *other = make_one(yield_once, NULL);

	TEST_EQUAL(uco_resume(other, NULL, NULL), 0);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	clone_it(other);                       /* that has nothing */
	TEST_EQUAL(uco_resume(co, co, NULL), 0);
	clone_it(co);
	TEST_EQUAL(uco_close(co), 0);
	clone_later(arg, NULL);
	clone_later(arg, make_one(give_back, arg));
	t->t_take();                            /* its resumer has it */
	clone_it(other);
	t->t_give();
	co = make_one(hold_one, arg);
	TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
	TEST_EQUAL(uco_close(co), 0);
	for (int i = 0; i < 4; i++) {           /* in its place, perhaps */
		co = make_one(yield_once, NULL);
		TEST_EQUAL(uco_resume(co, NULL, NULL), 0);
		clone_it(co);
		TEST_EQUAL(uco_close(co), 0);
	}
	t->t_give();
	TEST_EQUAL(uco_close(other), 0);
}

static void with_it(void *thing)
{
	run_on_rr(clone_with_it, thing);
}

static void without_it(void *thing)
{
	run_on_rr(clone_without_it, thing);
}

static void test_held(void **state)
{
	(void)state;
	test_timeout(60);
	child_begin();
	for (size_t i = 0; i < sizeof things / sizeof *things; i++) {
		void *thing = (void *)(uintptr_t)&things[i];

		assert_survived(in_child(without_it, thing));
		if (!CHECKED || !can_clone())
			continue;
		assert_killed(in_child(with_it, thing), SIGABRT);
		assert_said("usched: uco_clone(): coroutine 0x");
		assert_said(things[i].t_text);
	}
}

/* An object there is told when it is used. */
static void *lock_local(void *unused, void *value)
{
	struct usync_mutex local = { .m_owner = 0 };

	(void)unused;
	TEST_EQUAL(usync_mutex_lock(&local, NEVER), 0);
	return value;
}

static void use_local(void *unused)
{
	(void)unused;
	TEST_EQUAL(uco_resume(make_one(lock_local, NULL), NULL, NULL), 1);
}

static void use_local_on_rr(void *unused)
{
	run_on_rr(use_local, unused);
}

static void test_objects(void **state)
{
	(void)state;
	test_timeout(20);
	if (!CHECKED)
		skip();
	child_begin();
	assert_killed(in_child(use_local_on_rr, NULL), SIGABRT);
	assert_said("usched: usync_mutex_lock: shared object 0x");
}

int main(void)
{
	const struct CMUnitTest clone_tests[] = {
		cmocka_unit_test(test_sanitizers),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_attachments),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_objects),
	};

	return cmocka_run_group_tests(clone_tests, NULL, NULL);
}
