/* SPDX-License-Identifier: MIT */
/*
 * uposix_signal.c: signals of threads: masks, pthread_kill(), and handlers. A thread runs
 * its handlers itself, at its next wait or during the current wait. uposix_catch.c offers
 * signals of the process to threads. uposix_sigwait.c has the waits for signals.
 */
#include "uposix_set.h"

#include "../src/base/sim.h"

#include <string.h>
#include <sys/syscall.h>

/* Signals that are ignored by default. */
#define IGNORED (uposix__bit(SIGCHLD) | uposix__bit(SIGCONT) | uposix__bit(SIGURG)	\
		 | uposix__bit(SIGWINCH))

/* Signals that cannot be blocked. */
#define ALWAYS (uposix__bit(SIGKILL) | uposix__bit(SIGSTOP))

/*
 * If the thread now blocks a signal that was offered to it, the signal must go to another
 * thread. A signal that the thread no longer blocks may be pending for the process.
 */
void uposix__set_mask(struct uposix_thread *me, uint64_t mask)
{
	uint64_t less;

	mask &= ~ALWAYS;
	less = me->p_mask & ~mask;
	__atomic_store_n(&me->p_mask, mask, __ATOMIC_SEQ_CST);
	if (SIMULATED) {
		me->p_pending |= sim__signals(~mask, true);
	} else if (less) {
		uposix__open(mask);
		less &= uposix__main_blocks();
		if (__builtin_expect(less != 0, 0))
			__atomic_fetch_or(&me->p_offer, less, __ATOMIC_SEQ_CST);
	}
	if (__builtin_expect((__atomic_load_n(&me->p_offer, __ATOMIC_SEQ_CST) & mask)
			     != 0, 0)) {
		__atomic_fetch_and(&me->p_offer, ~mask, __ATOMIC_SEQ_CST);
		uposix__look_again();
	}
}

int uposix__take_sent(struct uposix_thread *me, uint64_t mask, siginfo_t *info)
{
	uint64_t now = __atomic_load_n(&me->p_pending, __ATOMIC_ACQUIRE) & mask;
	int sig = now ? __builtin_ctzll(now) + 1 : 0;

	if (sig == 0)
		return 0;
	__atomic_fetch_and(&me->p_pending, ~uposix__bit(sig), __ATOMIC_ACQ_REL);
	memset(info, 0, sizeof *info);
	info->si_signo = sig;
	info->si_code = SI_TKILL;
	info->si_pid = SIMULATED ? uposix_getpid() : getpid();
	info->si_uid = getuid();
	if (SIMULATED && sim__describe(info))
		me->p_pending |= uposix__bit(sig);
	return sig;
}

/*
 * Takes a signal that the catcher has offered. Returns its number, or 0 if another thread
 * has taken the signal.
 */
static int take_offered(struct uposix_thread *me, siginfo_t *info)
{
	const struct timespec now = { 0, 0 };
	uint64_t set = __atomic_load_n(&me->p_offer, __ATOMIC_SEQ_CST) & ~me->p_mask;
	long sig;

	if (__builtin_expect(set == 0, 1))
		return 0;
	__atomic_fetch_and(&me->p_offer, ~set, __ATOMIC_SEQ_CST);
	sig = syscall(SYS_rt_sigtimedwait, &set, info, &now, sizeof set);
	if (sig <= 0)
		return 0;
	__atomic_fetch_or(&me->p_offer, set, __ATOMIC_SEQ_CST);         /* more signals
									   may be
									   pending */
	return (int)sig;
}

/* Makes the signal end or stop the process, even if all native threads block it. */
static void default_action(int sig)
{
	kill(getpid(), sig);
	uposix__act_by_default(sig);
}

/*
 * Takes the action of a signal on the stack of `me', and restores the control words after
 * the handler. Returns true if the handler ends the wait.
 */
static bool handle_one(struct uposix_thread *me, int sig, siginfo_t *info)
{
	uint64_t mask = me->p_mask, words = usched__control_words(NULL), more;
	struct sigaction action;
	int error = errno;

	if (sigaction(sig, NULL, &action) || action.sa_handler == SIG_IGN)
		return false;
	if (action.sa_handler == SIG_DFL) {
		if (!(uposix__bit(sig) & IGNORED))
			default_action(sig);
		return false;
	}
	if (action.sa_flags & (int)SA_RESETHAND)
		signal(sig, SIG_DFL);
	me->p_handled++;
	more = uposix__mask_of(&action.sa_mask);
	if (!(action.sa_flags & SA_NODEFER))
		more |= uposix__bit(sig);
	uposix__set_mask(me, mask | more);
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(sig, info, NULL);
	else
		action.sa_handler(sig);
	uposix__set_mask(me, mask);
	usched__control_words(&words);
	errno = error;
	return !(action.sa_flags & SA_RESTART);
}

bool uposix__handle(struct uposix_thread *me)
{
	bool interrupted = false;
	siginfo_t info;
	int sig;

	if (!(__atomic_load_n(&me->p_asked, __ATOMIC_ACQUIRE) & UPOSIX_SIGNAL))
		return false;
	__atomic_fetch_and(&me->p_asked, ~(uint32_t)UPOSIX_SIGNAL, __ATOMIC_ACQ_REL);
	while ((sig = uposix__take_sent(me, ~me->p_mask, &info)) > 0
	       || (sig = take_offered(me, &info)) > 0)
		interrupted |= handle_one(me, sig, &info);
	return interrupted;
}

/* Runs the handlers of signals that are pending and not blocked. */
static void look(struct uposix_thread *me)
{
	uint64_t now = __atomic_load_n(&me->p_pending, __ATOMIC_ACQUIRE)
		| __atomic_load_n(&me->p_offer, __ATOMIC_ACQUIRE);

	if (__builtin_expect((now & ~me->p_mask) == 0, 1))
		return;
	__atomic_fetch_or(&me->p_asked, UPOSIX_SIGNAL, __ATOMIC_ACQ_REL);
	uposix__handle(me);
}

void uposix__end_signals(struct uposix_thread *me)
{
	look(me);
	__atomic_store_n(&me->p_mask, ~(uint64_t)0, __ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&me->p_offer, __ATOMIC_SEQ_CST) != 0, 0))
		uposix__look_again();
}

int uposix_pthread_kill(pthread_t thread, int sig)
{
	struct uposix_thread *p = uposix__thread(thread), *me;

	budget_rest();
	if (!p)
		return pthread_kill(thread, sig);
	if (uposix__is_gone(p))
		return ESRCH;
	if (sig < 0 || sig > 64 || sig == UPOSIX_INTERNAL
	    || sig == UPOSIX_INTERNAL + 1)
		return EINVAL;
	if (sig == 0)
		return 0;
	if (p == uposix__forked.f_me)
		return pthread_kill(uposix__forked.f_native, sig);
	if (sig == SIGKILL || sig == SIGSTOP)
		return kill(getpid(), sig) ? errno : 0;
	__atomic_fetch_or(&p->p_pending, uposix__bit(sig), __ATOMIC_ACQ_REL);
	uposix__ask(p, UPOSIX_SIGNAL);
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

/*
 * If the old mask is `before', computes the mask that sigprocmask(how, set) sets. Returns
 * false if `how' is invalid.
 */
static bool change(int how, uint64_t before, uint64_t set, uint64_t *mask)
{
	*mask = how == SIG_BLOCK ? before | set : how == SIG_UNBLOCK ? before & ~set
		: set;
	return how == SIG_BLOCK || how == SIG_UNBLOCK || how == SIG_SETMASK;
}

static int native_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	uint64_t given = set ? uposix__mask_of(set) & ~ALWAYS : 0, now;
	sigset_t before;
	int rc = pthread_sigmask(how, set, &before);

	if (rc == 0 && set && change(how, uposix__mask_of(&before), given, &now))
		uposix__native_mask(uposix__mask_of(&before), now);
	if (rc == 0 && old)
		*old = before;
	return rc;
}

int uposix_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	struct uposix_thread *me = uposix__thread_now();
	uint64_t before, mask;

	if (!me)
		return native_sigmask(how, set, old);
	before = me->p_mask;
	if (set) {
		if (!change(how, before, uposix__mask_of(set), &mask))
			return EINVAL;
		uposix__set_mask(me, mask);
	}
	if (old)
		uposix__set_of(before, old);
	look(me);
	return 0;
}

int uposix_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return (int)uposix__result(-uposix_pthread_sigmask(how, set, old));
}

int uposix_raise(int sig)
{
	if (!uposix__thread_now())
		return raise(sig);
	return (int)uposix__result(-uposix_pthread_kill(uposix_pthread_self(), sig));
}

/*
 * Returns true if the caller is a thread that sends a signal to its own gettid(). The
 * processor blocks the signal, so the signal is sent by pthread_kill() instead.
 */
static bool is_here(pid_t thread)
{
	return uposix__thread_now() && thread == gettid();
}

int uposix_tgkill(pid_t process, pid_t thread, int sig)
{
	if (is_here(thread) && process == getpid())
		return uposix_raise(sig);
	return (int)syscall(SYS_tgkill, process, thread, sig);
}

enum { SIGNAL_AT = 56 };                /* a word holds an address in so many bits, and
					   a signal number in the bits above */

static void send_timed(union sigval v)
{
	uintptr_t word = (uintptr_t)v.sival_ptr;

	uposix_pthread_kill(word & (((uintptr_t)1 << SIGNAL_AT) - 1),
			    (int)(word >> SIGNAL_AT));
}

/*
 * If a thread asks for SIGEV_THREAD_ID with its own gettid(), libc's native thread for
 * timers sends the signal to the thread.
 */
int uposix_timer_create(clockid_t clock, struct sigevent *e, timer_t *timer)
{
	struct sigevent sends = { .sigev_notify = SIGEV_THREAD };

	if (!e || e->sigev_notify != SIGEV_THREAD_ID || !is_here(e->_sigev_un._tid)
	    || e->sigev_signo < 1 || e->sigev_signo > 64)
		return timer_create(clock, e, timer);
	sends.sigev_notify_function = send_timed;
	sends.sigev_value.sival_ptr = (void *)(uposix_pthread_self()
					       | (uintptr_t)e->sigev_signo << SIGNAL_AT);
	return timer_create(clock, &sends, timer);
}

/*
 * Returns the pending signals of the thread and of the process. SIGPIPE and SIGXFSZ of
 * the process are left out, since they stay pending after failed writes.
 */
int uposix_sigpending(sigset_t *set)
{
	const struct uposix_thread *me = uposix__thread_now();
	uint64_t pending;
	int rc = (budget_rest(), sigpending(set));

	if (!me || rc)
		return rc;
	pending = uposix__mask_of(set) & ~uposix__bit(SIGPIPE)
		& ~uposix__bit(SIGXFSZ);
	pending |= __atomic_load_n(&me->p_pending, __ATOMIC_ACQUIRE);
	if (SIMULATED)
		pending |= sim__signals(~(uint64_t)0, false);
	uposix__set_of(pending & me->p_mask, set);
	return 0;
}
