/* SPDX-License-Identifier: MIT */
/*
 * uposix.c: threads of POSIX over threads of rr.
 *
 * The scheduler is made at the first pthread_create(), so that a daemon has forked by
 * then. The scheduler never ends, since main() is a native thread and may wake a thread
 * at any time. The pthread_t of a thread is the address of its record; a native thread
 * has a pthread_t of libc. A thread calls
 *
 *	run()           which calls the thread's function
 *	end()           which calls the destructors of keys, and frees the record
 *
 * pthread_join() joins a joinable thread in rr, too, and then frees its record. The
 * record of a detached thread is freed when the thread has both ended and been detached.
 */
#include "uposix_set.h"

#include "../debug/uinspect.h"
#include "../debug/ustall.h"
#include "../src/base/sim.h"

#include <stdlib.h>
#include <string.h>

/* A native thread that is made in place of a thread of rr. */
struct native {
	void    *(*n_func)(void *);
	void    *n_arg;
	bool     n_masked;              /* true if the creator is a thread of rr; then
					   n_mask is the creator's signal mask */
	uint64_t n_mask;
	unsigned n_forks;
};

enum {
	JOINS = 32,                             /* joins() follows a chain of joins
						   through at most so many threads */
	WORDS = sizeof(pthread_attr_t) / sizeof(size_t),
	STALL = 100000000,                      /* ns: c_stall, if records are written */
};

static struct usync_mutex making;
static struct uprocs *scheduler;                    /* atomic */

/* With USCHED_RECORD: has stalls write a record. With that or USCHED_LOST: has SIGQUIT
   dump. A handler of the program's stays. */
static void begin_dumps(struct uprocs_conf *conf)
{
	struct sigaction a;

	if (uposix__conf.c_record) {
		ustall_install();
		conf->c_stall = STALL;
	}
	if (uposix__conf.c_dumps && sigaction(SIGQUIT, NULL, &a) == 0
	    && !(a.sa_flags & SA_SIGINFO) && a.sa_handler == SIG_DFL)
		uinspect_install(SIGQUIT);
}

/*
 * Makes the scheduler. Its native threads block all signals except the signals of faults
 * and profiling timers. A handler of any other signal might interrupt the library and
 * call sem_post().
 */
static int make_scheduler(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS,
				      SIGABRT, SIGPROF, SIGVTALRM, SIGURG };
	const struct uposix_conf *c = &uposix__conf;
	struct uprocs_conf conf = {
		.c_stay       = c->c_stay || !uposix__blocks,   /* addresses of native
					   thread-local variables may be kept */
		.c_control    = 1,
		.c_tls        = uposix__blocks,
		.c_processors = c->c_processors, .c_stack_size = c->c_stack_size,
		.c_stacks = c->c_shared, .c_alone = c->c_stacks,
		.c_slice  = c->c_slice * INT64_C(1000000),
		.c_stall  = c->c_slice ? UPOSIX_STALL : 0,
	};
	struct uprocs *rr;
	sigset_t set, old;
	int rc;

	sigfillset(&set);
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		sigdelset(&set, faults[i]);
	pthread_sigmask(SIG_SETMASK, &set, &old);
	begin_dumps(&conf);
	if (c->c_slice)
		uposix__watch_calls();
	rc = rr_create(&conf, &rr);
	if (rc == 0) {
		if (!SIMULATED)         /* a simulation has only one native thread */
			uprocs_hold(rr, 1);
		uposix__watch(rr);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return rc;
	__atomic_store_n(&scheduler, rr, __ATOMIC_RELEASE);
	return 0;
}

/*
 * Stores the scheduler in *rr, and makes one if there is none. Returns 0 or a negative
 * errno value.
 */
static int get_scheduler(struct uprocs **rr)
{
	int rc = 0;

	*rr = __atomic_load_n(&scheduler, __ATOMIC_ACQUIRE);
	if (*rr)
		return 0;
	usync_mutex_lock(&making, USCHED_NEVER);
	if (!scheduler)
		rc = make_scheduler();
	*rr = scheduler;
	usync_mutex_unlock(&making);
	return rc;
}

/*
 * Returns true if `attr' asks for a stack of the program or for a scheduling policy. The
 * thread must then be a native thread, except in a simulation.
 */
static bool is_special(const pthread_attr_t *attr)
{
	int inherit = PTHREAD_INHERIT_SCHED, policy = SCHED_OTHER;
	size_t size = 0;
	void *low = NULL;

	if (pthread_attr_getstack(attr, &low, &size) == 0 && low && size)
		return (uintptr_t)low + size > size;
	pthread_attr_getinheritsched(attr, &inherit);
	pthread_attr_getschedpolicy(attr, &policy);
	return inherit == PTHREAD_EXPLICIT_SCHED && policy != SCHED_OTHER;
}

/*
 * Unlocks the counts of threads. If main() has called pthread_exit() and no thread is
 * left, ends the process.
 */
static void unlock_counts(void)
{
	const struct uposix_counts *c = &uposix__counts;
	bool last = c->c_main_ended && c->c_now == 0 && c->c_natives == 0;

	uwait_unlock(&uposix__lock);
	if (last)
		exit(0);
}

static void count_end(unsigned *count)
{
	uwait_lock(&uposix__lock);
	--*count;
	unlock_counts();
}

static void end_main(void *unused)
{
	(void)unused;
	uposix__main_ends();
	uwait_lock(&uposix__lock);
	uposix__counts.c_main_ended = true;
	unlock_counts();
}

/*
 * In the child of a fork, the native thread that called fork() takes the place of main().
 */
static void native_ended(void *native)
{
	const struct native *n = native;

	if (n->n_forks == uposix__forked.f_count)
		count_end(&uposix__counts.c_natives);
	else
		end_main(NULL);
}

static void *run_native(void *arg)
{
	struct native n = *(struct native *)arg;
	void *result;

	free(arg);
	if (n.n_masked)
		uposix__set_native_mask(n.n_mask);
	pthread_cleanup_push(native_ended, &n);
	result = n.n_func(n.n_arg);
	pthread_cleanup_pop(1);
	return result;
}

static int create_native(pthread_t *thread, const pthread_attr_t *attr,
			 void *(*func)(void *), void *arg)
{
	struct native *n = malloc(sizeof *n);
	int rc;

	if (!n)
		return EAGAIN;
	n->n_func = func;
	n->n_arg = arg;
	n->n_masked = ustack_self();
	n->n_mask = uposix__mask();
	n->n_forks = uposix__forked.f_count;
	uwait_lock(&uposix__lock);
	uposix__counts.c_natives++;
	uposix__counts.c_native++;
	uwait_unlock(&uposix__lock);
	rc = pthread_create(thread, attr, run_native, n);
	if (rc) {
		free(n);
		count_end(&uposix__counts.c_natives);
	}
	return rc;
}

/* Ends a thread. The destructors of its keys may wait, and may set values again. */
static void end(struct uposix_thread *p)
{
	p->p_exiting = true;
	uposix__destroy_variables(p);
	uposix__destroy_values(p);
	if (p == uposix__forked.f_me) {
		end_main(NULL);
		uproc__end_forked();
	}
	uposix__end_signals(p);
	uposix__end_held(p, true);
	uposix__disown();
	uposix__set_me(NULL);
	uwait_lock(&p->p_lock);
	p->p_ended = true;
	uwait_unlock(&p->p_lock);
	count_end(&uposix__counts.c_now);
	if (__atomic_fetch_or(&p->p_state, UPOSIX_ENDED, __ATOMIC_ACQ_REL)
	    & UPOSIX_DETACHED)
		uposix__free_record(p);
}

static void run(struct usched__wrap *w)
{
	struct uposix_thread *p = (void *)((char *)w
					   - offsetof(struct uposix_thread, p_wrap));

	uposix__own(p);
	if (uposix__set_me(p)) {
		uposix__tell("no memory for a thread that was started");
		abort();
	}
	usched__control_words(&p->p_control);
	p->p_waiter = uwait_self();
	uwait_lock(&p->p_lock);
	p->p_thread = ustack_self();
	uwait_unlock(&p->p_lock);
	uposix__handle(p);
	p->p_result = p->p_func(p->p_arg);
	end(p);
}

/*
 * Gives a new thread the signal mask of its creator. From here on the catcher may offer
 * signals to the thread.
 */
static void give_mask(struct uposix_thread *p)
{
	uint64_t mask = uposix__mask();

	if (!ustack_self())
		uposix__native_creates(mask);
	__atomic_store_n(&p->p_mask, mask, __ATOMIC_SEQ_CST);
	uposix__open(mask);
}

static size_t size_at;                  /* index of the word of a pthread_attr_t that
					   holds the stack size */

/* Returns true if the program has set the stack size. */
static bool has_size(const pthread_attr_t *attr)
{
	size_t words[WORDS];

	memcpy(words, attr, sizeof words);
	return size_at && words[size_at];
}

/*
 * Starts a thread, with a stack of its own unless c_shared is set. The stack size is the
 * size that the program has set in `attr', but at least c_stack_size.
 */
static int start(struct uprocs *rr, struct uposix_thread *p, const pthread_attr_t *attr)
{
	struct ustack **handle = p->p_state & UPOSIX_DETACHED ? NULL : &p->p_thread;
	size_t size = 0, usual = 0;
	pthread_attr_t none;

	if (SIMULATED)
		sim__posix_starts();
	if (uposix__conf.c_shared)
		return rr_start(rr, usched__wrapped, &p->p_wrap, handle);
	if (attr && pthread_attr_init(&none) == 0) {
		pthread_attr_getstacksize(&none, &usual);
		pthread_attr_destroy(&none);
		pthread_attr_getstacksize(attr, &size);
	}
	if (size < uposix__conf.c_stack_size
	    || (size == usual && !(attr && has_size(attr))))
		size = USTACK_OWN;
	return rr_start_with(rr, &(struct ustack_how){ .h_stack = size }, usched__wrapped,
			     &p->p_wrap, handle);
}

/* Frees the record of a thread that could not be started. */
static void give_up(struct uposix_thread *p)
{
	__atomic_store_n(&p->p_mask, ~(uint64_t)0, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&p->p_offer, __ATOMIC_SEQ_CST))
		uposix__look_again();
	uwait_lock(&uposix__lock);
	uposix__counts.c_now--;
	uposix__counts.c_started--;
	uposix__counts.c_refused++;
	uwait_unlock(&uposix__lock);
	uposix__free_record(p);
}

/*
 * Ends the calling thread. If its frames can be unwound, they have been unwound before.
 */
__attribute__((noreturn)) static void leave(struct uposix_thread *me)
{
	end(me);
	ustack_exit(NULL);
	abort();
}

int uposix_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*func)(void *), void *arg)
{
	int state = PTHREAD_CREATE_JOINABLE, rc;
	struct uposix_thread *p;
	struct uprocs *rr;

	uposix__pace();
	uposix__settings();
	rc = uposix__look_at_objects();
	if (rc)
		return rc;
	__atomic_store_n(&uposix__forked.f_alone, false, __ATOMIC_RELAXED);
	if (!SIMULATED && attr && is_special(attr))
		return create_native(thread, attr, func, arg);
	rc = get_scheduler(&rr);
	if (rc)
		return EAGAIN;
	p = uposix__new_record();
	if (!p)
		return EAGAIN;
	if (attr)
		pthread_attr_getdetachstate(attr, &state);
	p->p_wrap = (struct usched__wrap){ run, (void (*)(void *))(void (*)(void))func,
					   __builtin_return_address(0) };
	p->p_func = func;
	p->p_leave = leave;
	p->p_arg = arg;
	p->p_control = usched__control_words(NULL);
	p->p_state = state == PTHREAD_CREATE_DETACHED ? UPOSIX_DETACHED : 0;
	*thread = (pthread_t)p;         /* the thread may read *thread at once */
	rc = uposix__make_values(p);
	if (rc == 0) {
		give_mask(p);
		rc = start(rr, p, attr);
	}
	if (rc == 0)
		return 0;
	give_up(p);
	return uposix__conf.c_native ? create_native(thread, attr, func, arg) : EAGAIN;
}

/*
 * Finds the word of a pthread_attr_t that holds the stack size. In glibc the word is 0,
 * for the default size, until pthread_attr_setstacksize() is called.
 */
__attribute__((constructor(102))) static void find_size(void)
{
	enum { SIZE = 0x5a5000 };
	union { pthread_attr_t u; size_t words[WORDS]; } attr;

	memset(&attr, 0, sizeof attr);
	if (pthread_attr_init(&attr.u) || pthread_attr_setstacksize(&attr.u, SIZE))
		return;
	for (size_t i = 0; i < WORDS; i++)
		if (attr.words[i] == SIZE)
			size_at = i;
	pthread_attr_init(&attr.u);
	if (attr.words[size_at])
		size_at = 0;
	pthread_attr_destroy(&attr.u);
}

void uposix_pthread_exit(void *result)
{
	struct uposix_thread *me = uposix__me();
	pthread_key_t key;

	if (me)
		uposix__end_me(me, result);
	if (getpid() == gettid() && pthread_key_create(&key, end_main) == 0)
		pthread_setspecific(key, &uposix__counts);
	pthread_exit(result);
}

/*
 * Joins a native thread. A thread of the library tries once a millisecond, so that its
 * processor is not blocked.
 */
static int join_native(pthread_t thread, void **result, const struct timespec *time,
		       clockid_t clock)
{
	int rc, woken;

	uposix__point();
	while ((rc = pthread_tryjoin_np(thread, result)) == EBUSY) {
		if (time && uposix__deadline(time, clock) <= usync_after(0))
			return ETIMEDOUT;
		woken = usync_sleep_until(usync_after(UPOSIX_LOOK));
		uposix__again(&woken);
	}
	return rc;
}

/*
 * Returns true if `p' waits in pthread_join() for `me', directly or through other
 * threads.
 */
static bool joins(const struct uposix_thread *p, const struct uposix_thread *me)
{
	for (int i = 0; p && i < JOINS; i++) {
		if (p == me)
			return true;
		p = __atomic_load_n(&p->p_joins, __ATOMIC_ACQUIRE);
	}
	return false;
}

static int join(struct uposix_thread *p, void **result, int64_t deadline)
{
	struct uposix_thread *me = uposix__me();
	int rc;

	if (me && joins(p, me))
		return EDEADLK;
	if (__atomic_load_n(&p->p_state, __ATOMIC_ACQUIRE) & UPOSIX_DETACHED)
		return EINVAL;
	uposix__point();
	do {
		if (me && deadline > 0)
			__atomic_store_n(&me->p_joins, p, __ATOMIC_RELEASE);
		rc = ustack_join(p->p_thread, NULL, deadline);
		if (me)
			__atomic_store_n(&me->p_joins, NULL, __ATOMIC_RELEASE);
	} while (uposix__again(&rc) || rc == -EINTR);   /* a pending cancel ends the
							   thread here */
	if (rc)
		return -rc;
	if (result)
		*result = p->p_result;
	uposix__free_record(p);
	return 0;
}

int uposix_pthread_join(pthread_t thread, void **result)
{
	struct uposix_thread *p = uposix__thread(thread);

	if (!thread)		/* Never started: libc's answer, too. */
		return ESRCH;
	if (!p)
		return ustack_self() ? join_native(thread, result, NULL, 0)
			: pthread_join(thread, result);
	return uposix__is_gone(p) ? ESRCH : join(p, result, USCHED_NEVER);
}

int uposix_pthread_tryjoin_np(pthread_t thread, void **result)
{
	struct uposix_thread *p = uposix__thread(thread);
	int rc;

	if (!p)
		return uposix__pace(), pthread_tryjoin_np(thread, result);
	rc = uposix__is_gone(p) ? ESRCH : join(p, result, 0);
	return rc == ETIMEDOUT ? EBUSY : rc;
}

int uposix_pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock,
				const struct timespec *time)
{
	struct uposix_thread *p = uposix__thread(thread);
	int rc;

	if (!p && !ustack_self())
		return pthread_clockjoin_np(thread, result, clock, time);
	if (p && uposix__is_gone(p))
		return ESRCH;
	if (time && (!uposix__is_time(time)
		     || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)))
		return EINVAL;
	if (!p)
		return join_native(thread, result, time, clock);
	if (!time)
		return join(p, result, USCHED_NEVER);
	do
		rc = join(p, result, uposix__deadline(time, clock));
	while (rc == ETIMEDOUT && uposix__early(time, clock));
	return rc;
}

int uposix_pthread_timedjoin_np(pthread_t thread, void **result,
				const struct timespec *time)
{
	if (!uposix__thread(thread) && !ustack_self())
		return pthread_timedjoin_np(thread, result, time);
	return uposix_pthread_clockjoin_np(thread, result, CLOCK_REALTIME, time);
}

int uposix_pthread_detach(pthread_t thread)
{
	struct uposix_thread *p = uposix__thread(thread);
	uint32_t before;

	if (!p)
		return pthread_detach(thread);
	if (uposix__is_gone(p))
		return ESRCH;
	before = __atomic_load_n(&p->p_state, __ATOMIC_ACQUIRE);
	if (before & UPOSIX_DETACHED || ustack_detach(p->p_thread))
		return EINVAL;
	before = __atomic_fetch_or(&p->p_state, UPOSIX_DETACHED, __ATOMIC_ACQ_REL);
	if (before & UPOSIX_ENDED)
		uposix__free_record(p);
	return 0;
}

/* The child of a fork forgets the parent's scheduler, and does not free the memory. */
static void scheduler_forked(void)
{
	__atomic_store_n(&uposix__forked.f_alone, scheduler != NULL, __ATOMIC_RELAXED);
	making = (struct usync_mutex){ 0 };
	scheduler = NULL;
}

UPOSIX_AT_FORK(UPOSIX_SCHEDULER, NULL, scheduler_forked)
