/* SPDX-License-Identifier: MIT */
/*
 * uposix_c11.c: threads of C11, over threads of POSIX. In glibc the C11 types have the
 * layout of the POSIX types. glibc's own C11 functions are not used, since they know
 * nothing of the threads, keys and locks of this library.
 */
#include <threads.h>

#include "uposix_set.h"

#include <stdlib.h>

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t)
	       && sizeof(cnd_t) == sizeof(pthread_cond_t)
	       && sizeof(once_flag) == sizeof(pthread_once_t)
	       && sizeof(tss_t) == sizeof(pthread_key_t)
	       && sizeof(thrd_t) == sizeof(pthread_t), "types are those of POSIX");

/* The argument of a new thread. */
struct start {
	thrd_start_t s_func;
	void        *s_arg;
};

/* Turns an error of POSIX into one of C11. */
static int result(int error)
{
	switch (error) {
	case 0:         return thrd_success;
	case ENOMEM:    return thrd_nomem;
	case ETIMEDOUT: return thrd_timedout;
	case EBUSY:     return thrd_busy;
	default:        return thrd_error;
	}
}

static pthread_mutex_t *mutex(mtx_t *m)
{
	return (pthread_mutex_t *)(void *)m;
}

static pthread_cond_t *cond(cnd_t *c)
{
	return (pthread_cond_t *)(void *)c;
}

static void *run(void *arg)
{
	struct start s = *(struct start *)arg;

	free(arg);
	return (void *)(intptr_t)s.s_func(s.s_arg);
}

/* Threads. */

int uposix_thrd_create(thrd_t *thread, thrd_start_t func, void *arg)
{
	struct start *s = malloc(sizeof *s);
	int rc;

	if (!s)
		return thrd_nomem;
	*s = (struct start){ func, arg };
	rc = uposix_pthread_create(thread, NULL, run, s);
	if (rc)
		free(s);
	return result(rc);
}

void uposix_thrd_exit(int code)
{
	uposix_pthread_exit((void *)(intptr_t)code);
}

int uposix_thrd_join(thrd_t thread, int *code)
{
	void *value = NULL;
	int rc = uposix_pthread_join(thread, &value);

	if (rc == 0 && code)
		*code = (int)(intptr_t)value;
	return result(rc);
}

int uposix_thrd_detach(thrd_t thread)
{
	return result(uposix_pthread_detach(thread));
}

thrd_t uposix_thrd_current(void)
{
	return uposix_pthread_self();
}

int uposix_thrd_equal(thrd_t a, thrd_t b)
{
	return a == b;
}

void uposix_thrd_yield(void)
{
	uposix_sched_yield();
}

/* Returns -1 if a signal ended the sleep, and -2 after another error. */
int uposix_thrd_sleep(const struct timespec *time, struct timespec *rest)
{
	int rc = uposix_clock_nanosleep(CLOCK_REALTIME, 0, time, rest);

	return rc == 0 ? 0 : rc == EINTR ? -1 : -2;
}

/* Mutexes. */

int uposix_mtx_init(mtx_t *m, int type)
{
	pthread_mutexattr_t attr;
	int rc;

	rc = pthread_mutexattr_init(&attr);
	if (rc)
		return result(rc);
	pthread_mutexattr_settype(&attr, type & mtx_recursive ? PTHREAD_MUTEX_RECURSIVE
				  : PTHREAD_MUTEX_NORMAL);
	rc = uposix_pthread_mutex_init(mutex(m), &attr);
	pthread_mutexattr_destroy(&attr);
	return result(rc);
}

void uposix_mtx_destroy(mtx_t *m)
{
	uposix_pthread_mutex_destroy(mutex(m));
}

int uposix_mtx_lock(mtx_t *m)
{
	return result(uposix_pthread_mutex_lock(mutex(m)));
}

int uposix_mtx_trylock(mtx_t *m)
{
	return result(uposix_pthread_mutex_trylock(mutex(m)));
}

int uposix_mtx_timedlock(mtx_t *m, const struct timespec *time)
{
	return result(uposix_pthread_mutex_timedlock(mutex(m), time));
}

int uposix_mtx_unlock(mtx_t *m)
{
	return result(uposix_pthread_mutex_unlock(mutex(m)));
}

/* Conditions. */

int uposix_cnd_init(cnd_t *c)
{
	return result(uposix_pthread_cond_init(cond(c), NULL));
}

void uposix_cnd_destroy(cnd_t *c)
{
	uposix_pthread_cond_destroy(cond(c));
}

int uposix_cnd_wait(cnd_t *c, mtx_t *m)
{
	return result(uposix_pthread_cond_wait(cond(c), mutex(m)));
}

int uposix_cnd_timedwait(cnd_t *c, mtx_t *m, const struct timespec *time)
{
	return result(uposix_pthread_cond_timedwait(cond(c), mutex(m), time));
}

int uposix_cnd_signal(cnd_t *c)
{
	return result(uposix_pthread_cond_signal(cond(c)));
}

int uposix_cnd_broadcast(cnd_t *c)
{
	return result(uposix_pthread_cond_broadcast(cond(c)));
}

/* Values of threads, and call_once(). */

int uposix_tss_create(tss_t *key, tss_dtor_t destroy)
{
	return result(uposix_pthread_key_create(key, destroy));
}

void uposix_tss_delete(tss_t key)
{
	uposix_pthread_key_delete(key);
}

void *uposix_tss_get(tss_t key)
{
	return uposix_pthread_getspecific(key);
}

int uposix_tss_set(tss_t key, void *value)
{
	return result(uposix_pthread_setspecific(key, value));
}

void uposix_call_once(once_flag *flag, void (*func)(void))
{
	uposix_pthread_once((pthread_once_t *)(void *)flag, func);
}
