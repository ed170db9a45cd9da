/* SPDX-License-Identifier: MIT */
/*
 * uposix_cancel.c: pthread_cancel(), pthread_kill(), and the end of a thread from any
 * depth. Both set a bit of p_asked, and end the wait of the thread by ustack_cancel().
 * The thread finds the reason, and takes the cancel of usched back: it is for this wait.
 */
#include "uposix_set.h"

#include <setjmp.h>
#include <string.h>
#include <unwind.h>

#undef longjmp

/* glibc's, whose headers hide them from code that can be unwound. */
void __pthread_register_cancel(__pthread_unwind_buf_t *buffer);
void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer);
void __pthread_register_cancel_defer(__pthread_unwind_buf_t *buffer);
void __pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buffer);
void __pthread_unwind_next(__pthread_unwind_buf_t *buffer) __attribute__((noreturn));

static void ask(struct uposix_thread *p, uint32_t what);
static bool may_cancel(const struct uposix_thread *me);
static bool handle_one(struct uposix_thread *me, int sig);
static void unwind(struct uposix_thread *me) __attribute__((noreturn));

static uint64_t bit(int sig)
{
	return (uint64_t)1 << (sig - 1);
}

int uposix_pthread_cancel(pthread_t thread)
{
	struct uposix_thread *p = uposix__thread(thread), *me = uposix__me();

	if (!p)
		return pthread_cancel(thread);
	if (uposix__is_gone(p))
		return ESRCH;
	ask(p, UPOSIX_CANCEL);
	if (p == me && me->p_asynchronous)
		uposix_pthread_testcancel();
	return 0;
}

/* Has it look at p_asked, soon. */
static void ask(struct uposix_thread *p, uint32_t what)
{
	__atomic_fetch_or(&p->p_asked, what, __ATOMIC_ACQ_REL);
	if (p == uposix__me())
		return;
	uwait_lock(&p->p_lock);
	if (p->p_thread && !p->p_ended)
		ustack_cancel(p->p_thread);
	uwait_unlock(&p->p_lock);
}

static bool may_cancel(const struct uposix_thread *me)
{
	return __atomic_load_n(&me->p_asked, __ATOMIC_ACQUIRE) & UPOSIX_CANCEL
		&& !me->p_disabled && !me->p_exiting;
}

void uposix_pthread_testcancel(void)
{
	struct uposix_thread *me = uposix__me();

	if (!me)
		pthread_testcancel();
	else if (may_cancel(me))
		uposix__exit(me, PTHREAD_CANCELED);
}

int uposix_pthread_setcancelstate(int state, int *old)
{
	struct uposix_thread *me = uposix__me();

	if (!me)
		return pthread_setcancelstate(state, old);
	if (state != PTHREAD_CANCEL_ENABLE && state != PTHREAD_CANCEL_DISABLE)
		return EINVAL;
	if (old)
		*old = me->p_disabled ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
	me->p_disabled = state == PTHREAD_CANCEL_DISABLE;
	if (me->p_asynchronous)
		uposix_pthread_testcancel();
	return 0;
}

int uposix_pthread_setcanceltype(int type, int *old)
{
	struct uposix_thread *me = uposix__me();

	if (!me)
		return pthread_setcanceltype(type, old);
	if (type != PTHREAD_CANCEL_DEFERRED && type != PTHREAD_CANCEL_ASYNCHRONOUS)
		return EINVAL;
	if (old)
		*old = me->p_asynchronous ? PTHREAD_CANCEL_ASYNCHRONOUS
					  : PTHREAD_CANCEL_DEFERRED;
	me->p_asynchronous = type == PTHREAD_CANCEL_ASYNCHRONOUS;
	if (me->p_asynchronous)
		uposix_pthread_testcancel();
	return 0;
}

/* Waits. */

bool uposix__again_slow(int *rc)
{
	struct uposix_thread *me = uposix__me();

	if (!me)
		return false;
	uwait__uncancel();
	if (uposix__point_slow(me) == 0)
		return true;
	*rc = -EINTR;
	return false;
}

int uposix__point_slow(struct uposix_thread *me)
{
	bool interrupted;

	if (may_cancel(me))
		uposix__exit(me, PTHREAD_CANCELED);
	interrupted = uposix__handle(me);
	if (may_cancel(me))
		uposix__exit(me, PTHREAD_CANCELED);
	return interrupted ? -EINTR : 0;
}

bool uposix__once_more(int rc)
{
	struct uposix_thread *me;

	if (__builtin_expect(rc != -ECANCELED, 1))
		return false;
	me = uposix__me();
	if (!me)
		return false;
	uwait__uncancel();
	uposix__handle(me);
	return true;
}

/* Signals. */

/* Not for what goes on natively after a fork: the system knows its mask. */
static struct uposix_thread *thread_now(void)
{
	return ustack_self() ? uposix__me() : NULL;
}

uint64_t uposix__mask(void)
{
	const struct uposix_thread *me = thread_now();
	sigset_t set;

	if (me)
		return me->p_mask;
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	return uposix__mask_of(&set);
}

void uposix__set_native_mask(uint64_t mask)
{
	sigset_t set;

	uposix__set_of(mask, &set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
}

bool uposix__handle(struct uposix_thread *me)
{
	uint64_t now;
	bool interrupted = false;

	if (!(__atomic_load_n(&me->p_asked, __ATOMIC_ACQUIRE) & UPOSIX_SIGNAL))
		return false;
	__atomic_fetch_and(&me->p_asked, ~(uint32_t)UPOSIX_SIGNAL, __ATOMIC_ACQ_REL);
	while ((now = __atomic_load_n(&me->p_pending, __ATOMIC_ACQUIRE) & ~me->p_mask)) {
		int sig = __builtin_ctzll(now) + 1;

		__atomic_fetch_and(&me->p_pending, ~bit(sig), __ATOMIC_ACQ_REL);
		interrupted |= handle_one(me, sig);
	}
	return interrupted;
}

/* Its action, on the stack of `me'. True: it ends a wait. */
static bool handle_one(struct uposix_thread *me, int sig)
{
	uint64_t mask = me->p_mask;
	struct sigaction action;
	siginfo_t info;
	int error = errno;

	if (sigaction(sig, NULL, &action) || action.sa_handler == SIG_IGN)
		return false;
	if (action.sa_handler == SIG_DFL) {
		kill(getpid(), sig);            /* as the default is */
		return false;
	}
	if (action.sa_flags & (int)SA_RESETHAND)
		signal(sig, SIG_DFL);
	me->p_handled++;
	me->p_mask |= uposix__mask_of(&action.sa_mask);
	if (!(action.sa_flags & SA_NODEFER))
		me->p_mask |= bit(sig);
	if (action.sa_flags & SA_SIGINFO) {
		memset(&info, 0, sizeof info);
		info.si_signo = sig;
		info.si_code = SI_TKILL;
		info.si_pid = getpid();
		info.si_uid = getuid();
		action.sa_sigaction(sig, &info, NULL);
	} else {
		action.sa_handler(sig);
	}
	me->p_mask = mask;
	errno = error;
	return !(action.sa_flags & SA_RESTART);
}

int uposix_pthread_kill(pthread_t thread, int sig)
{
	struct uposix_thread *p = uposix__thread(thread), *me;

	if (!p)
		return pthread_kill(thread, sig);
	if (uposix__is_gone(p))
		return ESRCH;
	if (sig < 0 || sig > 64)
		return EINVAL;
	if (sig == 0)
		return 0;
	if (p == uposix__forked.f_me)
		return pthread_kill(uposix__forked.f_native, sig);
	if (sig == SIGKILL || sig == SIGSTOP)
		return kill(getpid(), sig) ? errno : 0;
	__atomic_fetch_or(&p->p_pending, bit(sig), __ATOMIC_ACQ_REL);
	ask(p, UPOSIX_SIGNAL);
	me = uposix__me();
	if (p == me)
		uposix__handle(me);
	return 0;
}

int uposix_pthread_sigqueue(pthread_t thread, int sig, const union sigval value)
{
	if (!uposix__thread(thread))
		return pthread_sigqueue(thread, sig, value);
	UPOSIX_TELL_ONCE("pthread_sigqueue(): the value is lost");
	return uposix_pthread_kill(thread, sig);
}

/* For pthread_kill() only: those of the process go to main(), or to a native thread. */
int uposix_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	struct uposix_thread *me = thread_now();
	uint64_t mask;

	if (!me)
		return pthread_sigmask(how, set, old);
	mask = me->p_mask;
	if (set) {
		uint64_t given = uposix__mask_of(set) & ~bit(SIGKILL) & ~bit(SIGSTOP);

		if (how != SIG_BLOCK && how != SIG_UNBLOCK && how != SIG_SETMASK)
			return EINVAL;
		me->p_mask = how == SIG_BLOCK ? mask | given
			: how == SIG_UNBLOCK ? mask & ~given : given;
	}
	if (old)
		uposix__set_of(mask, old);
	if (__atomic_load_n(&me->p_pending, __ATOMIC_ACQUIRE) & ~me->p_mask) {
		__atomic_fetch_or(&me->p_asked, UPOSIX_SIGNAL, __ATOMIC_ACQ_REL);
		uposix__handle(me);
	}
	return 0;
}

int uposix_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	if (!thread_now())
		return sigprocmask(how, set, old);
	return (int)uposix__result(-uposix_pthread_sigmask(how, set, old));
}

int uposix_raise(int sig)
{
	if (!thread_now())
		return raise(sig);
	return (int)uposix__result(-uposix_pthread_kill(uposix_pthread_self(), sig));
}

/* Until a handler has run, and be it with SA_RESTART. */
static void await_handler(struct uposix_thread *me)
{
	uint32_t before = me->p_handled;
	int rc = uposix__point();

	while (me->p_handled == before) {
		rc = usync_sleep_until(USCHED_NEVER);
		if (!uposix__again(&rc) && rc != -EINTR)
			ustack_yield();         /* no memory */
	}
	errno = EINTR;
}

int uposix_pause(void)
{
	struct uposix_thread *me = thread_now();

	if (!me)
		return pause();
	await_handler(me);
	return -1;
}

int uposix_sigsuspend(const sigset_t *set)
{
	struct uposix_thread *me = thread_now();
	sigset_t old;

	if (!me)
		return sigsuspend(set);
	uposix__set_of(me->p_mask, &old);
	uposix__point();
	me->p_mask = uposix__mask_of(set) & ~bit(SIGKILL) & ~bit(SIGSTOP);
	__atomic_fetch_or(&me->p_asked, UPOSIX_SIGNAL, __ATOMIC_ACQ_REL);
	await_handler(me);
	uposix_pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = EINTR;
	return -1;
}

/* The end, from any depth. */

/* glibc keeps a list of those of C, which is each thread's: in pad[0] the one before. */
void uposix___pthread_register_cancel(__pthread_unwind_buf_t *buffer)
{
	struct uposix_thread *me = uposix__me();

	if (!me) {
		__pthread_register_cancel(buffer);
		return;
	}
	buffer->__pad[0] = me->p_cleanup;
	me->p_cleanup = buffer;
}

void uposix___pthread_unregister_cancel(__pthread_unwind_buf_t *buffer)
{
	struct uposix_thread *me = uposix__me();

	if (me)
		me->p_cleanup = buffer->__pad[0];
	else
		__pthread_unregister_cancel(buffer);
}

void uposix___pthread_register_cancel_defer(__pthread_unwind_buf_t *buffer)
{
	struct uposix_thread *me = uposix__me();

	if (!me) {
		__pthread_register_cancel_defer(buffer);
		return;
	}
	buffer->__pad[1] = (void *)(uintptr_t)me->p_asynchronous;
	me->p_asynchronous = false;
	uposix___pthread_register_cancel(buffer);
}

void uposix___pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buffer)
{
	struct uposix_thread *me = uposix__me();

	if (!me) {
		__pthread_unregister_cancel_restore(buffer);
		return;
	}
	uposix___pthread_unregister_cancel(buffer);
	me->p_asynchronous = buffer->__pad[1] != NULL;
}

void uposix___pthread_unwind_next(__pthread_unwind_buf_t *buffer)
{
	struct uposix_thread *me = uposix__me();

	if (!me)
		__pthread_unwind_next(buffer);
	me->p_cleanup = buffer->__pad[0];
	unwind(me);
}

void uposix__exit(struct uposix_thread *me, void *result)
{
	me->p_exiting = true;
	me->p_result = result;
	unwind(me);
}

/* Back to what was pushed last, which comes to pthread_unwind_next(); or to run(). */
static void jump(struct uposix_thread *me)
{
	struct __jmp_buf_tag *to = (void *)me->p_cleanup;

	if (!to)
		uposix__leave(me);
	/* It has the first members only: no mask was saved. */
	__asm__("" : "+r"(to));
	longjmp(to, 1);
}

/* Frames below the one that pushed have destructors, or are done with. */
static _Unwind_Reason_Code stop(int version, _Unwind_Action actions,
				_Unwind_Exception_Class kind,
				struct _Unwind_Exception *e,
				struct _Unwind_Context *context, void *me)
{
	const struct uposix_thread *p = me;

	(void)version, (void)kind, (void)e;
	if (actions & _UA_END_OF_STACK
	    || (p->p_cleanup && _Unwind_GetCFA(context) > (uintptr_t)p->p_cleanup))
		jump(me);
	return _URC_NO_REASON;
}

static void unwind(struct uposix_thread *me)
{
	memset(&me->p_unwind, 0, sizeof me->p_unwind);
	_Unwind_ForcedUnwind(&me->p_unwind, stop, me);
	jump(me);
	__builtin_unreachable();
}
