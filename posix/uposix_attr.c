/* SPDX-License-Identifier: MIT */
/* uposix_attr.c: names, attributes and the scheduling of threads. */
#include "uposix_set.h"

#include "../src/base/sim.h"

#include <string.h>

int uposix_pthread_setname_np(pthread_t thread, const char *name)
{
	struct uposix_thread *p = uposix__thread(thread);
	uint64_t old;
	int rc = 0;

	if (!p)
		return pthread_setname_np(thread, name);
	if (uposix__is_gone(p))
		return ESRCH;
	if (strlen(name) >= sizeof p->p_name)
		return ERANGE;
	uposix__lock_record(p, &old);
	strcpy(p->p_name, name);
	if (p->p_thread && !p->p_ended)
		rc = ustack_name(p->p_thread, name);
	uposix__unlock_record(p, &old);
	return -rc;
}

int uposix_pthread_getname_np(pthread_t thread, char *name, size_t size)
{
	struct uposix_thread *p = uposix__thread(thread);
	uint64_t old;

	if (!p)
		return pthread_getname_np(thread, name, size);
	if (uposix__is_gone(p))
		return ESRCH;
	if (size < sizeof p->p_name)
		return ERANGE;
	uposix__lock_record(p, &old);
	memcpy(name, p->p_name, sizeof p->p_name);
	uposix__unlock_record(p, &old);
	return 0;
}

/*
 * The attributes contain a stack only after the thread has begun and got a stack. The
 * library has the last bytes of the stack, and they count, as libc's do natively: so the
 * size is at least what the program has asked for.
 */
int uposix_pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	struct uposix_thread *p = uposix__thread(thread);
	const struct usched_stack *k;
	uint64_t old;
	size_t page = (size_t)getpagesize(), size;
	int rc;

	if (!p)
		return pthread_getattr_np(thread, attr);
	if (uposix__is_gone(p))
		return ESRCH;
	rc = pthread_attr_init(attr);
	if (rc)
		return rc;
	uposix__lock_record(p, &old);
	k = p->p_thread && !p->p_ended ? p->p_thread->u_stack : NULL;
	if (k && k->k_bottom) {
		size = (k->k_size + page - 1) & -page;
		rc = pthread_attr_setstack(attr, k->k_bottom - k->k_size, size);
	}
	uposix__unlock_record(p, &old);
	pthread_attr_setdetachstate(attr, p->p_state & UPOSIX_DETACHED
				    ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
	return rc;
}

/* Scheduling. The only policy is SCHED_OTHER, without priorities. */

int uposix_pthread_getschedparam(pthread_t thread, int *policy, struct sched_param *param)
{
	if (!uposix__thread(thread))
		return pthread_getschedparam(thread, policy, param);
	if (uposix__is_gone(uposix__thread(thread)))
		return ESRCH;
	*policy = SCHED_OTHER;
	param->sched_priority = 0;
	return 0;
}

int uposix_pthread_setschedparam(pthread_t thread, int policy,
				 const struct sched_param *param)
{
	if (!uposix__thread(thread))
		return pthread_setschedparam(thread, policy, param);
	if (param->sched_priority < sched_get_priority_min(policy)
	    || param->sched_priority > sched_get_priority_max(policy))
		return EINVAL;
	return policy == SCHED_OTHER ? 0 : ENOTSUP;
}

int uposix_pthread_setschedprio(pthread_t thread, int priority)
{
	if (!uposix__thread(thread))
		return pthread_setschedprio(thread, priority);
	return priority == 0 ? 0 : EINVAL;
}

/* CPUs and clocks are those of the process, since no thread has its own. */

int uposix_pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *cpus)
{
	if (!uposix__thread(thread))
		return pthread_getaffinity_np(thread, size, cpus);
	return sched_getaffinity(getpid(), size, cpus) ? errno : 0;
}

int uposix_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *cpus)
{
	if (!uposix__thread(thread))
		return pthread_setaffinity_np(thread, size, cpus);
	UPOSIX_TELL_ONCE("pthread_setaffinity_np(): threads do not choose their CPUs");
	return CPU_COUNT_S(size, cpus) == 0 ? EINVAL : 0;
}

int uposix_pthread_getcpuclockid(pthread_t thread, clockid_t *clock)
{
	if (!uposix__thread(thread))
		return pthread_getcpuclockid(thread, clock);
	if (!SIMULATED)
		return ENOENT;
	*clock = CLOCK_THREAD_CPUTIME_ID;
	return 0;
}

int uposix_sched_yield(void)
{
	if (!uposix__me())
		return sched_yield();
	uposix__once_more(ustack_yield());
	return 0;
}

int uposix_pthread_yield(void) UPOSIX_ALIAS(sched_yield);
