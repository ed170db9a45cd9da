/* SPDX-License-Identifier: MIT */
/*
 * uposix_key.c: keys, and pthread_once(). Each key is a key of libc, which holds the
 * values of native threads. A thread has an array of its values, indexed by key.
 */
#include "uposix_set.h"
#include "../src/base/sim.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROOM = 8,                       /* length of a thread's first array of values */
	ONCE_NEW = 0, ONCE_RUNS = 1, ONCE_DONE = 2,
	ONCE_FORK = 4,                  /* f_count times this is added to ONCE_RUNS */
};

static struct {
	void   (*k_destroy)(void *);
	uint32_t k_age;                 /* odd while the key exists; atomic */
} keys[PTHREAD_KEYS_MAX];

static struct usync_mutex once_lock;
static struct usync_cond once_over;

/* In the child of a fork, drops the parent's waiters for calls of pthread_once(). */
static void once_forked(void)
{
	once_lock = (struct usync_mutex){ 0 };
	once_over = (struct usync_cond){ 0 };
}

UPOSIX_AT_FORK(UPOSIX_ONCE, NULL, once_forked)

int uposix_pthread_key_create(pthread_key_t *key, void (*destroy)(void *))
{
	int rc = pthread_key_create(key, destroy);

	if (rc)
		return rc;
	if (*key >= PTHREAD_KEYS_MAX) {
		pthread_key_delete(*key);
		return EAGAIN;
	}
	keys[*key].k_destroy = destroy;
	__atomic_fetch_add(&keys[*key].k_age, 1 + (keys[*key].k_age & 1),
			   __ATOMIC_RELEASE);
	return 0;
}

int uposix_pthread_key_delete(pthread_key_t key)
{
	if (key < PTHREAD_KEYS_MAX && keys[key].k_age & 1)
		__atomic_fetch_add(&keys[key].k_age, 1, __ATOMIC_RELEASE);
	return pthread_key_delete(key);
}

void *uposix_pthread_getspecific(pthread_key_t key)
{
	const struct uposix_thread *me = uposix__me();
	const struct uposix_value *v;

	if (!me)
		return pthread_getspecific(key);
	if (key >= me->p_room)
		return NULL;
	v = &me->p_values[key];
	return v->v_age == __atomic_load_n(&keys[key].k_age, __ATOMIC_ACQUIRE)
		? v->v_value : NULL;
}

static bool make_room(struct uposix_thread *me, pthread_key_t key)
{
	uint32_t room = me->p_room ? me->p_room : ROOM;
	struct uposix_value *values;

	while (room <= key)
		room *= 2;
	if (room == me->p_room)
		return true;
	values = realloc(me->p_values, room * sizeof *values);
	if (!values)
		return false;
	memset(values + me->p_room, 0, (room - me->p_room) * sizeof *values);
	me->p_values = values;
	me->p_room = room;
	return true;
}

int uposix_pthread_setspecific(pthread_key_t key, const void *value)
{
	struct uposix_thread *me = uposix__me();
	uint32_t age;

	if (!me)
		return pthread_setspecific(key, value);
	if (key >= PTHREAD_KEYS_MAX)
		return EINVAL;
	age = __atomic_load_n(&keys[key].k_age, __ATOMIC_ACQUIRE);
	if (!(age & 1))
		return EINVAL;
	if (!value && key >= me->p_room)
		return 0;
	if (!make_room(me, key))
		return ENOMEM;
	me->p_values[key] = (struct uposix_value){ (void *)(uintptr_t)value, age };
	return 0;
}

void uposix__destroy_values(struct uposix_thread *me)
{
	bool more = true;

	for (int round = 0; more && round < PTHREAD_DESTRUCTOR_ITERATIONS; round++) {
		more = false;
		for (uint32_t i = 0; i < me->p_room; i++) {
			struct uposix_value v = me->p_values[i];
			void (*destroy)(void *) = keys[i].k_destroy;

			me->p_values[i].v_value = NULL;
			if (!v.v_value || !destroy || v.v_age
			    != __atomic_load_n(&keys[i].k_age, __ATOMIC_ACQUIRE))
				continue;
			more = true;
			destroy(v.v_value);
		}
	}
	free(me->p_values);
	me->p_values = NULL;
	me->p_room = 0;
}

/* A call of func by pthread_once(). settle() ends the call, even if the thread ends. */
struct once {
	int *o_state;
	int  o_next;
};

static void settle(struct once *o)
{
	while (uposix__once_more(usync_mutex_lock(&once_lock, USCHED_NEVER)))
		;
	__atomic_store_n(o->o_state, o->o_next, __ATOMIC_RELEASE);
	if (SIMULATED)
		sim__done(o->o_state);
	usync_cond_broadcast(&once_over);
	usync_mutex_unlock(&once_lock);
}

static void run_once(int *state, void (*func)(void))
{
	struct once o __attribute__((cleanup(settle))) = { state, ONCE_NEW };

	func();
	o.o_next = ONCE_DONE;
}

/* Returns the state of an object whose function is running in this process. */
static int runs_here(void)
{
	return (int)(ONCE_RUNS | uposix__forked.f_count * ONCE_FORK);
}

/*
 * Returns true if the caller is to call the function. As in libc, a call that was running
 * in the parent of a fork is made again by the child.
 */
static bool begin_once(int *state)
{
	int now = __atomic_load_n(state, __ATOMIC_ACQUIRE);

	return now != ONCE_DONE && now != runs_here()
		&& __atomic_compare_exchange_n(state, &now, runs_here(), false,
					       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Waits until another thread's call of the function is over. */
static void wait_for_end(const int *state)
{
	while (uposix__once_more(usync_mutex_lock(&once_lock, USCHED_NEVER)))
		;
	while (__atomic_load_n(state, __ATOMIC_ACQUIRE) == runs_here())
		uposix__once_more(usync_cond_wait(&once_over, &once_lock, USCHED_NEVER));
	usync_mutex_unlock(&once_lock);
}

/*
 * std::call_once() of libstdc++ keeps its function in two thread-local variables until
 * pthread_once() calls func. So this function does not yield before it calls func. If
 * another thread's call is running, both variables are saved over the wait, since the
 * caller may have to call func afterwards.
 */
int uposix_pthread_once(pthread_once_t *once, void (*func)(void))
{
	static const char *const names[] = {
		"_ZSt15__once_callable", "_ZSt11__once_call",
	};
	void *kept[2] = { NULL, NULL }, **at;
	int *state = once;

	if (__atomic_load_n(state, __ATOMIC_ACQUIRE) == ONCE_DONE)
		return 0;
	while (!begin_once(state)) {
		if (__atomic_load_n(state, __ATOMIC_ACQUIRE) == ONCE_DONE)
			return 0;
		for (int i = 0; i < 2; i++)
			if ((at = dlsym(RTLD_DEFAULT, names[i])))
				kept[i] = *at;
		wait_for_end(state);
		for (int i = 0; i < 2; i++)
			if ((at = dlsym(RTLD_DEFAULT, names[i])))
				*at = kept[i];
	}
	run_once(state, func);
	return 0;
}
