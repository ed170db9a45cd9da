/* SPDX-License-Identifier: MIT */
/*
 * uposix_cancel.c: pthread_cancel(), and the end of a thread from any depth of calls. A
 * cancel or a signal sets a bit of p_asked, and ends the wait of the thread by
 * ustack_cancel(). The thread then finds the reason in p_asked, and clears the cancel of
 * usched, since that would end later waits, too.
 */
#include "uposix_set.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/*
 * Jumps to the clean-up handler that was pushed last. In the end that handler calls
 * pthread_unwind_next(). If there is no handler, ends the thread.
 */
static void jump(struct uposix_thread *me)
{
	struct __jmp_buf_tag *to = (void *)me->p_cleanup;

	if (!to)
		me->p_leave(me);
	/*
	 * Hides the buffer from the compiler's checks, since the buffer has only the
	 * first members of a jmp_buf, without the signal mask.
	 */
	__asm__("" : "+r"(to));
	longjmp(to, 1);
}

/*
 * Stops the unwinding at the frame that pushed the clean-up handler, after all deeper
 * frames have been unwound.
 */
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

/*
 * Called if a handler of C++ has caught the end of the thread and has not thrown it
 * again. Aborts, as glibc does.
 */
static void swallowed(_Unwind_Reason_Code code, struct _Unwind_Exception *e)
{
	(void)code, (void)e;
	uposix__tell("FATAL: exception not rethrown: catch (...) without throw; took"
		     " pthread_cancel() or pthread_exit()");
	abort();
}

__attribute__((noreturn))
static void unwind(struct uposix_thread *me)
{
	memset(&me->p_unwind, 0, sizeof me->p_unwind);
	me->p_unwind.exception_cleanup = swallowed;
	_Unwind_ForcedUnwind(&me->p_unwind, stop, me);
	jump(me);
	__builtin_unreachable();
}
#include <unwind.h>

#undef longjmp

/*
 * Functions of glibc that glibc's headers do not declare for code that is compiled with
 * exceptions.
 */
void __pthread_register_cancel(__pthread_unwind_buf_t *buffer);
void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer);
void __pthread_register_cancel_defer(__pthread_unwind_buf_t *buffer);
void __pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buffer);
void __pthread_unwind_next(__pthread_unwind_buf_t *buffer) __attribute__((noreturn));

static bool may_cancel(const struct uposix_thread *me)
{
	return __atomic_load_n(&me->p_asked, __ATOMIC_ACQUIRE) & UPOSIX_CANCEL
		&& !me->p_disabled && !me->p_exiting;
}

void uposix__end_me(struct uposix_thread *me, void *result)
{
	me->p_exiting = true;
	me->p_result = result;
	unwind(me);
}

void uposix_pthread_testcancel(void)
{
	struct uposix_thread *me = uposix__me();

	budget_rest();
	if (!me)
		pthread_testcancel();
	else if (may_cancel(me))
		uposix__end_me(me, PTHREAD_CANCELED);
}

int uposix_pthread_cancel(pthread_t thread)
{
	struct uposix_thread *p = uposix__thread(thread), *me = uposix__me();

	if (!p)
		return pthread_cancel(thread);
	if (uposix__is_gone(p))
		return ESRCH;
	uposix__ask(p, UPOSIX_CANCEL);
	if (p == me && me->p_asynchronous)
		uposix_pthread_testcancel();
	return 0;
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

int uposix__point_slow(struct uposix_thread *me, bool restarts)
{
	uint32_t before = me->p_handled;
	bool interrupted;

	if (may_cancel(me))
		uposix__end_me(me, PTHREAD_CANCELED);
	interrupted = uposix__handle(me);
	if (may_cancel(me))
		uposix__end_me(me, PTHREAD_CANCELED);
	return interrupted || (!restarts && me->p_handled != before) ? -EINTR : 0;
}

bool uposix__again_slow(int *rc, bool restarts)
{
	struct uposix_thread *me = uposix__me();

	if (!me)
		return false;
	uwait__uncancel();
	if (uposix__point_slow(me, restarts) == 0)
		return true;
	*rc = -EINTR;
	return false;
}

int uposix__why(int rc)
{
	struct uposix_thread *me = rc == -ECANCELED ? uposix__me() : NULL;
	bool interrupted;

	if (!me)
		return 0;
	uwait__uncancel();
	interrupted = uposix__handle(me);
	return may_cancel(me) ? -ECANCELED : interrupted ? -EINTR : 0;
}

bool uposix__once_more(int rc)
{
	if (__builtin_expect(rc != -ECANCELED, 1) || !uposix__me())
		return false;
	uposix__why(rc);
	return true;
}

/* Clean-up handlers of C. */

/*
 * glibc has a list of clean-up handlers for each native thread. This library has a list
 * for each thread; pad[0] of a handler points to the handler that was pushed before.
 */
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
