/* SPDX-License-Identifier: MIT */
/*
 * uposix_catch.c: signals that are sent to the process and that a thread is to handle.
 *
 * The system gives such a signal to a native thread that does not block the signal, and
 * tries main() first. A signal that all native threads block stays pending. The catcher,
 * a native thread that blocks all signals, looks for pending signals. The catcher is
 * started when main() blocks a signal that some thread does not block. A signalfd tells
 * when a signal comes, and leaves the signal pending. The catcher watches the signalfd by
 * edge-triggered epoll.
 *
 * The catcher offers the signal to one thread that does not block the signal, and wakes
 * the thread as pthread_kill() does. The thread takes the signal from the system, and
 * runs the handler. If the thread has not taken the signal after PATIENCE, the catcher
 * offers the signal to all threads that do not block the signal. The first of them takes
 * the signal; all others wait on. A signal that a thread awaits in sigwait() is not
 * offered.
 *
 * The sets `opened' and `blocked' only grow, with one exception: the catcher clears a bit
 * of `opened' if no thread takes the signal. uposix__open() sets the bit again. No signal
 * is lost, since a thread changes p_mask first and `opened' afterwards.
 */
#include "uposix_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

enum { NO_THREAD, DEFAULT, OFFERED };   /* results of an offer of a signal */

enum {
	CHANGED  = 32,                  /* a signal of libc, sent to the catcher so
					   that the catcher looks again */
	SETXID   = 33,                  /* a signal of libc that is never blocked */
	STARTING = -1,
	PATIENCE = 10,                  /* ms until a signal is offered to all threads */
	TEXT     = 4096,
};

/*
 * Signals that the catcher ignores. Signals of faults and of profiling timers are handled
 * by the native thread that gets them: see make_scheduler(). A failed write leaves
 * SIGPIPE or SIGXFSZ pending for the processor. The library itself sends SIGPIPE to the
 * thread that made the write.
 */
#define BIT uposix__bit
#define OTHERS (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP)	\
		| BIT(SIGSYS) | BIT(SIGABRT) | BIT(SIGPROF) | BIT(SIGVTALRM)		\
		| BIT(SIGURG) | BIT(SIGPIPE) | BIT(SIGXFSZ) | BIT(SIGKILL)		\
		| BIT(SIGSTOP) | BIT(CHANGED) | BIT(SETXID))

/* All variables up to main_gone are atomic. */
static uint64_t opened;                 /* signals that some thread has not blocked at
					   some time */
static uint64_t blocked;                /* signals that main() has blocked at some time */
static uint64_t awaited;                /* signals that some thread has awaited at some
					   time */
static pid_t catcher;                   /* thread ID of the catcher, 0 without a catcher,
					   or STARTING */
static bool changed;                    /* true if CHANGED has been sent, but the catcher
					   has not taken it yet */
static bool main_gone;                  /* true if main() has ended by pthread_exit() */

/* Descriptors of the catcher. The child of a fork closes them. */
static int signal_fd = -1, epoll_fd = -1;

static pthread_t main_thread;
static uint64_t main_mask;              /* the mask of main() outside of signal
					   handlers */

static uint64_t load(const uint64_t *set)
{
	return __atomic_load_n(set, __ATOMIC_SEQ_CST);
}

/* The catcher. */

static void close_both(void)
{
	if (signal_fd >= 0)
		close(uevents__disown(signal_fd));
	if (epoll_fd >= 0)
		close(uevents__disown(epoll_fd));
	signal_fd = epoll_fd = -1;
}

static bool open_both(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	sigset_t signals;

	uposix__set_of(BIT(CHANGED), &signals);
	signal_fd = uevents__own(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
	epoll_fd = uevents__own(epoll_create1(EPOLL_CLOEXEC));
	if (signal_fd >= 0 && epoll_fd >= 0
	    && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, signal_fd, &event) == 0)
		return true;
	close_both();
	return false;
}

/* Changes the signal set of the signalfd. The change itself is an edge for epoll. */
static void watch(uint64_t set, uint64_t *watched)
{
	sigset_t signals;

	if (set == *watched)
		return;
	*watched = set;
	uposix__set_of(set | BIT(CHANGED), &signals);
	signalfd(signal_fd, &signals, 0);
}

/*
 * Returns the signals that main() blocks now. main() may be in a handler or in
 * sigsuspend().
 */
static uint64_t main_blocks(void)
{
	char path[40], text[TEXT];
	const char *found;
	ssize_t n = -1;
	int fd;

	if (__atomic_load_n(&main_gone, __ATOMIC_SEQ_CST))
		return ~(uint64_t)0;
	snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof text - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	found = strstr(text, "\nSigBlk:");
	return found ? strtoull(found + 8, NULL, 16) : load(&blocked);
}

/*
 * Offers a signal to one thread, or to all. The caller holds uposix__lock. A signal that
 * a thread awaits in sigwait() counts as offered.
 */
static int offer_locked(int sig, bool all)
{
	bool may_wait = load(&awaited) & BIT(sig);
	struct uposix_thread *p, *first = NULL;
	struct sigaction action;

	for (p = uposix__records.r_all; p && (!first || may_wait); p = p->p_next) {
		if (load(&p->p_waits) & BIT(sig))
			return OFFERED;
		if (!first && !(load(&p->p_mask) & BIT(sig)))
			first = p;
	}
	if (!first)
		return NO_THREAD;
	if (sigaction(sig, NULL, &action) == 0
	    && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN))
		return DEFAULT;
	for (p = first; p; p = all ? p->p_next : NULL)
		if (!(load(&p->p_mask) & BIT(sig))) {
			__atomic_fetch_or(&p->p_offer, BIT(sig), __ATOMIC_SEQ_CST);
			uposix__ask(p, UPOSIX_SIGNAL);
		}
	return OFFERED;
}

void uposix__look_again(void)
{
	pid_t it = __atomic_load_n(&catcher, __ATOMIC_SEQ_CST);

	if (it > 0 && !__atomic_exchange_n(&changed, true, __ATOMIC_SEQ_CST))
		syscall(SYS_tgkill, getpid(), it, CHANGED);
}

/*
 * Unblocks the signal for a moment. The system then takes the default action, which may
 * end or stop the process.
 */
void uposix__act_by_default(int sig)
{
	uint64_t set = BIT(sig), old;

	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, &old, sizeof set);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
}

static bool offer(int sig, bool all)
{
	int found;

	uwait_lock(&uposix__lock);
	found = offer_locked(sig, all);
	if (found == NO_THREAD) {
		__atomic_fetch_and(&opened, ~BIT(sig), __ATOMIC_SEQ_CST);
		found = offer_locked(sig, all);
		if (found != NO_THREAD)
			__atomic_fetch_or(&opened, BIT(sig), __ATOMIC_SEQ_CST);
		else
			uposix__look_again();
	}
	uwait_unlock(&uposix__lock);
	if (found == DEFAULT)
		uposix__act_by_default(sig);
	return found == OFFERED;
}

/*
 * Offers each pending signal to one thread, or to all. Returns true if a signal was
 * offered.
 */
static bool look(uint64_t set, bool all)
{
	bool some = false;
	sigset_t signals;

	sigpending(&signals);
	set &= uposix__mask_of(&signals);
	if (set)
		set &= main_blocks();
	for (int sig = 1; set; sig++) {
		if (set & BIT(sig))
			some |= offer(sig, all);
		set &= ~BIT(sig);
	}
	return some;
}

/*
 * The function of the catcher. Once the program has closed both descriptors, the catcher
 * ends. It does not close them again, since other files may have their numbers.
 */
static void *run(void *unused)
{
	const uint64_t all = ~BIT(SETXID), told = BIT(CHANGED);
	const struct timespec now = { 0, 0 };
	struct epoll_event event;
	uint64_t watched = 0, set;
	int n = 1, limit;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
	if (open_both())
		__atomic_store_n(&catcher, gettid(), __ATOMIC_SEQ_CST);
	else
		UPOSIX_TELL_ONCE("no descriptors for signals that main() blocks");
	while (epoll_fd >= 0 && (n >= 0 || errno == EINTR)) {
		while (syscall(SYS_rt_sigtimedwait, &told, NULL, &now, sizeof told) > 0)
			;
		__atomic_store_n(&changed, false, __ATOMIC_SEQ_CST);
		set = load(&opened) & load(&blocked);
		watch(set, &watched);
		limit = look(set, n == 0) && n != 0 ? PATIENCE : -1;
		n = epoll_wait(epoll_fd, &event, 1, limit);
	}
	signal_fd = epoll_fd = -1;
	__atomic_store_n(&catcher, 0, __ATOMIC_SEQ_CST);
	return unused;
}

static void start(void)
{
	pid_t none = 0;
	sigset_t all, old;
	pthread_t t;

	if (!__atomic_compare_exchange_n(&catcher, &none, STARTING, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&t, NULL, run, NULL) == 0) {
		pthread_setname_np(t, "usched signals");
		pthread_detach(t);
	} else {
		UPOSIX_TELL_ONCE("no native thread for signals that main() blocks");
		__atomic_store_n(&catcher, 0, __ATOMIC_SEQ_CST);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Calls that tell the catcher of changes. */

void uposix__open(uint64_t mask)
{
	uint64_t more = ~mask & ~OTHERS & ~load(&opened);

	if (more)
		__atomic_fetch_or(&opened, more, __ATOMIC_SEQ_CST);
	if (__builtin_expect((load(&opened) & load(&blocked)) == 0, 1))
		return;
	if (__atomic_load_n(&catcher, __ATOMIC_SEQ_CST) == 0)
		start();
	else if (more)
		uposix__look_again();
}

/*
 * If the mask was not main_mask before, main() is in a signal handler, which may have
 * interrupted an allocator. Then allocating is unsafe, and the catcher is started later,
 * by uposix__open().
 */
void uposix__native_mask(uint64_t before, uint64_t now)
{
	bool usual = before == main_mask;
	uint64_t more;

	if (!pthread_equal(pthread_self(), main_thread))
		return;
	if (usual)
		main_mask = now;
	more = now & ~OTHERS & ~load(&blocked);
	if (__builtin_expect(more == 0, 1))
		return;
	__atomic_fetch_or(&blocked, more, __ATOMIC_SEQ_CST);
	if ((load(&opened) & more) == 0)
		return;
	if (__atomic_load_n(&catcher, __ATOMIC_SEQ_CST) != 0)
		uposix__look_again();
	else if (usual)
		start();
}

/*
 * A thread is never created in a handler, so `mask' is the mask that main() has outside
 * of handlers.
 */
void uposix__native_creates(uint64_t mask)
{
	if (mask == main_mask || !pthread_equal(pthread_self(), main_thread))
		return;
	main_mask = mask;
	uposix__native_mask(mask, mask);
}

void uposix__main_ends(void)
{
	__atomic_store_n(&main_gone, true, __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&blocked, ~OTHERS, __ATOMIC_SEQ_CST);
	uposix__open(~(uint64_t)0);
	uposix__look_again();
}

void uposix__await(struct uposix_thread *me, uint64_t set)
{
	uint64_t before = me->p_waits;

	if (set & ~load(&awaited))
		__atomic_fetch_or(&awaited, set, __ATOMIC_SEQ_CST);
	__atomic_store_n(&me->p_waits, set, __ATOMIC_SEQ_CST);
	if (before & ~set & load(&opened) & load(&blocked))
		uposix__look_again();
}

uint64_t uposix__main_blocks(void)
{
	return load(&blocked);
}

__attribute__((constructor(103))) static void begin(void)
{
	main_thread = pthread_self();
	main_mask = uposix__mask();
	blocked = main_mask & ~OTHERS;
}

static void catch_forked(void)
{
	opened = awaited = 0;
	catcher = 0;
	changed = main_gone = false;
	close_both();
	begin();
}

UPOSIX_AT_FORK(UPOSIX_CATCH, NULL, catch_forked)
