/* SPDX-License-Identifier: MIT */
/*
 * uposix_set.h: what the files of posix/ share. Each file has a section, in the order of
 * the layers, the lowest first. posix.sh checks that a file calls only files before it.
 * In posix/ the plain name of a function of POSIX is libc's function.
 */
#ifndef USCHED_UPOSIX_SET_H
#define USCHED_UPOSIX_SET_H

#define UPOSIX_PLAIN
#include "uposix.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

#include "../src/core/core.h"
#include "../src/proc/block.h"
#include "../src/wait/budget.h"
#include "../rr.h"
#include "../usync.h"

/* ---- uposix_conf.c ---- */

/*
 * Who has thread-local variables. By default threads have blocks of their own if an
 * object has variables that are not known to be harmless.
 */
enum uposix_tls {
	UPOSIX_BY_NEED,
	UPOSIX_OWN,                     /* each thread has a block of its own */
	UPOSIX_NATIVE,                  /* the native thread; its threads share them */
	UPOSIX_EXCHANGE,                /* the values are exchanged: uposix_exchange.c */
};

/* Settings, which uposix__settings() reads from the environment. */
struct uposix_conf {
	unsigned    c_stacks;           /* the most threads with a stack of their own */
	unsigned    c_shared;           /* number of stacks that all threads share, or
					   0 */
	unsigned    c_processors;       /* number of processors; 0: one for each CPU */
	size_t      c_stack_size;       /* least size of a stack, in bytes */
	bool        c_native;           /* true: a native thread is made in place of a
					   thread that cannot be started */
	bool        c_quiet;            /* true: no messages are written */
	unsigned    c_slice;            /* ms that a thread computes while others are
					   ready; 0: no limit */
	const char *c_log;              /* file of messages, or NULL */
	bool        c_stay;             /* true: threads never move between processors */
	const char *c_stats;            /* file of statistics, or NULL */
	bool        c_record;           /* records are written: see utrace.c */
	bool        c_dumps;            /* SIGQUIT dumps: see uinspect.h */
	enum uposix_tls c_tls;
};

extern struct uposix_conf uposix__conf;

/* Reads the settings, once. */
void uposix__settings(void);

#ifdef USCHED_SIM
/*
 * Makes this library call `with' in place of the named function of libc. Returns the
 * function that was called before, or NULL if the name is not in uposix_names.h.
 */
void *uposix__replace(const char *name, void *with);
#endif

/* Writes a message that begins with "usched: ", unless c_quiet is set. */
void uposix__tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes a message, but only the first time that this line of code runs. */
#define UPOSIX_TELL_ONCE(...) do {						\
	static bool told_;							\
	if (!__atomic_exchange_n(&told_, true, __ATOMIC_RELAXED))		\
		uposix__tell(__VA_ARGS__);					\
} while (0)

/* Defines another name for uposix_name, such as one with an off_t of 64 bits. */
#define UPOSIX_ALIAS(name) __attribute__((alias("uposix_" #name)))

/* Turns a result of the library into a result of POSIX: at least 0, or -1 and errno. */
static inline long uposix__result(long rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

/* ---- uposix_fork.c ---- */

/*
 * The parts that take part in a fork. Before the fork the parent takes the locks of all
 * parts in this order, which is the lock order of all threads. Afterwards, in the same
 * order, each part in the child forgets the state of native threads that the child does
 * not have.
 */
enum uposix_part {
	UPOSIX_OBJECTS, UPOSIX_STREAMS, UPOSIX_TABLE, UPOSIX_SCHEDULER, UPOSIX_THREADS,
	UPOSIX_BLOCKS, UPOSIX_HELD, UPOSIX_LIBRARY, UPOSIX_FUTEX, UPOSIX_SEMS,
	UPOSIX_ONCE, UPOSIX_STATS, UPOSIX_CATCH, UPOSIX_PARTS
};

/*
 * Registers functions for a part; either may be NULL. hold(1) takes the locks, before the
 * fork; hold(0) releases them, in the parent and in the child. forked() runs in the
 * child.
 */
void uposix__at_fork(enum uposix_part part, void (*hold)(int on), void (*forked)(void));

/* Registers a part when the library is loaded. */
#define UPOSIX_AT_FORK(part, hold, forked)					\
	__attribute__((constructor(103))) static void register_part(void)	\
	{									\
		uposix__at_fork(part, hold, forked);				\
	}

/* ---- uposix_record.c ---- */

struct uposix_value {
	void    *v_value;
	uint32_t v_age;                 /* k_age of the key when the value was set */
};

/* Requests to a thread, bits of p_asked. */
enum { UPOSIX_CANCEL = 1, UPOSIX_SIGNAL = 2 };

/* Bits of p_state. */
enum { UPOSIX_DETACHED = 1, UPOSIX_ENDED = 2 };

/*
 * The record of a thread. A pthread_t is the address of a record. No record is unmapped,
 * so that p_magic shows whether the thread of a pthread_t is gone.
 */
struct uposix_thread {
	struct uposix_thread *p_next;   /* next of all records, or of the free records;
					   under uposix__lock */
	struct uposix_thread *p_prev;
	uintptr_t            p_magic;   /* UPOSIX_MAGIC or UPOSIX_GONE; atomic */
	struct ustack       *p_thread;  /* NULL before the thread begins; under p_lock */
	struct uwaiter      *p_waiter;  /* uwait_self(), by which the child of a fork
					   ends the wait of this thread */
	struct usched__wrap  p_wrap;    /* the function that starts the thread; for
					   reports, also p_func and the creator */
	void              *(*p_func)(void *);
	void                *p_arg;
	void                *p_result;
	uint64_t             p_control; /* floating-point control words of the creator */
	/* Called when the thread's frames have been unwound. Ends the calling thread. */
	void               (*p_leave)(struct uposix_thread *me) __attribute__((noreturn));

	/* The members up to p_joins are atomic. */
	uint32_t             p_asked;
	uint32_t             p_state;
	uint64_t             p_pending; /* signals sent to the thread by pthread_kill();
					   signal n is bit n - 1, as in all sets here */
	uint64_t             p_mask;    /* signals that the thread blocks */
	uint64_t             p_waits;   /* signals that the thread awaits in sigwait() */
	uint64_t             p_offer;   /* signals of the process that the catcher
					   offers to the thread: uposix_catch.c */
	struct uposix_thread *p_joins;  /* thread that this thread waits for in
					   pthread_join(), or NULL */

	/* Other threads do not use these members, except p_ended. */
	struct uposix_value *p_values;  /* values of keys: an array of p_room */
	uint32_t             p_room;
	uint32_t             p_handled; /* number of handlers called */
	bool                 p_disabled;        /* PTHREAD_CANCEL_DISABLE */
	bool                 p_asynchronous;
	bool                 p_exiting;
	bool                 p_ended;   /* true after the end; under p_lock */
	__pthread_unwind_buf_t *p_cleanup;      /* the clean-up handler pushed last */
	struct uposix_held  *p_held;    /* list of process-shared mutexes that this thread
					   holds as their owner */
	struct _Unwind_Exception p_unwind;
	locale_t             p_locale;  /* set by uselocale(); NULL: the process's */
	struct uposix_destructor *p_destructors;        /* a list, the latest first */
	char                *p_tls;     /* values of the exchanged variables while
					   another thread runs; NULL: none */

	struct uwait_lock    p_lock;
	char                 p_name[16];
};

#define UPOSIX_MAGIC ((uintptr_t)0x75706f73)
#define UPOSIX_GONE  ((uintptr_t)0x75706f72)    /* ended, and joined or detached */

/* Returns the record of the calling thread, or NULL if the caller has no record. */
struct uposix_thread *uposix__me(void);

/*
 * Makes `me' the record of the calling thread. When the thread ends, `me' is NULL.
 * Returns 0 or a negative errno value.
 */
int uposix__set_me(struct uposix_thread *me);

/*
 * Returns uposix__me(), or NULL if the caller runs natively. The thread that called
 * fork() runs natively in the child, and the system keeps its signal mask there.
 */
static inline struct uposix_thread *uposix__thread_now(void)
{
	return ustack_self() ? uposix__me() : NULL;
}

/*
 * Returns the record of `u', or NULL if `u' has not begun or is ending. The caller is the
 * native thread that runs `u'. Not if threads have blocks, but in a simulation.
 */
struct uposix_thread *uposix__record_of(const struct ustack *u);

/*
 * Returns the record of a pthread_t, or NULL if that is a native thread. The thread of
 * the record may be gone: see uposix__is_gone().
 */
struct uposix_thread *uposix__thread(pthread_t thread);

bool uposix__is_gone(const struct uposix_thread *p);

/*
 * Counts of threads. In the child of a fork all counts start at 0. Protected by
 * uposix__lock.
 */
struct uposix_counts {
	unsigned c_now, c_most;
	unsigned c_natives;             /* living native threads that were made in place
					   of threads */
	uint64_t c_started, c_refused, c_native;
	bool     c_main_ended;          /* main() has called pthread_exit() */
};

extern struct uwait_lock uposix__lock;
extern struct uposix_records {                  /* protected by uposix__lock */
	struct uposix_thread *r_all;    /* first in the list of p_next */
	struct uposix_thread *r_vacant; /* first of the free records */
} uposix__records;
extern struct uposix_counts uposix__counts;

/* Makes and counts a record for a new thread. Returns NULL if there is no memory. */
struct uposix_thread *uposix__new_record(void);

/*
 * Frees a thread's record, and changes p_magic so that later callers can see that the
 * thread is gone.
 */
void uposix__free_record(struct uposix_thread *p);

/* The state of a process that is the child of a fork. */
extern struct uposix_forked {
	struct uposix_thread *f_me;     /* the thread that called fork(); NULL: main() */
	pthread_t             f_native; /* the native thread that goes on as f_me */
	uintptr_t             f_name;   /* uwait_name() of f_me in the parent; a lock of
					   f_me still has this name as its owner */
	unsigned              f_count;  /* number of forks from the first process to
					   this one */
	bool                  f_alone;  /* true until the child starts a thread; up to
					   then no internal lock has a holder */
} uposix__forked;

/*
 * Returns true in the child of a fork. A lock may then name a thread of the parent as its
 * owner, or f_name, the name that the caller had in the parent.
 */
static inline bool uposix__has_forked(void)
{
	return __atomic_load_n(&uposix__forked.f_alone, __ATOMIC_RELAXED)
		|| uposix__forked.f_name;
}

enum { UPOSIX_INTERNAL = 32 };          /* the first of signals 32 and 33, which libc
					   uses itself */

static inline uint64_t uposix__bit(int sig)
{
	return (uint64_t)1 << (sig - 1);
}

/* Returns a set as a word. In glibc signal n is bit n - 1 of the set's first word. */
static inline uint64_t uposix__mask_of(const sigset_t *set)
{
	uint64_t mask;

	memcpy(&mask, set, sizeof mask);
	return mask;
}

static inline void uposix__set_of(uint64_t mask, sigset_t *set)
{
	sigemptyset(set);
	memcpy(set, &mask, sizeof mask);
}

/*
 * Returns the signal mask of the calling thread, which differs from the mask of its
 * processor.
 */
uint64_t uposix__mask(void);

/* Sets the signal mask of the calling native thread. */
void uposix__set_native_mask(uint64_t mask);

/*
 * Lock and unlock p_lock. Signal handlers are blocked in between, since a handler may
 * take the same lock.
 */
void uposix__lock_record(struct uposix_thread *p, uint64_t *old);
void uposix__unlock_record(struct uposix_thread *p, const uint64_t *old);

/*
 * Between these two calls no signal handler runs on the calling native thread. If the
 * caller is a thread, the calls do nothing, since no handler interrupts a processor.
 */
void uposix__hold_handlers(uint64_t *old);
void uposix__release_handlers(const uint64_t *old);

/* Sets bits of p_asked, and wakes `p' so that `p' looks at the bits. */
void uposix__ask(struct uposix_thread *p, uint32_t what);

/* ---- uposix_catch.c ---- */

/*
 * Returns the signals that main() has blocked at some time. The catcher offers only these
 * signals to threads.
 */
uint64_t uposix__main_blocks(void);

/* Sets the signals that the calling thread awaits in sigwait(); 0 if the wait is over. */
void uposix__await(struct uposix_thread *me, uint64_t set);

/* If a thread did not take a signal, tells the catcher to offer the signal again. */
void uposix__look_again(void);

/* Tells the catcher that a thread has set its signal mask to `mask'. */
void uposix__open(uint64_t mask);

/* Tells the catcher that the calling native thread changes its mask. */
void uposix__native_mask(uint64_t before, uint64_t now);

/* Tells the catcher that the calling native thread, with this mask, creates a thread. */
void uposix__native_creates(uint64_t mask);

/* Makes the system take the default action for a pending signal. */
void uposix__act_by_default(int sig);

/* Tells the catcher that main() ends by pthread_exit(). */
void uposix__main_ends(void);

/* ---- uposix_signal.c ---- */

/* Sets the mask of `me', except for signals that no thread can block. */
void uposix__set_mask(struct uposix_thread *me, uint64_t mask);

/*
 * Runs the handlers of pending signals of `me'. Returns true if a handler without
 * SA_RESTART has run.
 */
bool uposix__handle(struct uposix_thread *me);

/*
 * Takes a signal of `mask' that pthread_kill() sent to `me'. Returns its number, or 0 if
 * there is no such signal.
 */
int uposix__take_sent(struct uposix_thread *me, uint64_t mask, siginfo_t *info);

/*
 * Fills in what a signal that the caller takes has from a timer of the simulation, if one
 * has sent the signal. Returns whether another timer has sent the same signal, which then
 * stays pending.
 */
bool sim__describe(siginfo_t *info);

/* If an ending thread has not taken some signals, gives them to other threads. */
void uposix__end_signals(struct uposix_thread *me);

/* ---- uposix_cancel.c ---- */

/*
 * Looks at the result of a wait that is a cancellation point:
 *
 *	do
 *		rc = usync_...(..., deadline);
 *	while (uposix__again(&rc));
 *
 * If pthread_cancel() is pending, the thread ends. If a handler with SA_RESTART has run,
 * or if there was no reason to end the wait, returns true, and the caller waits again.
 * After a handler without SA_RESTART, sets *rc to -EINTR and returns false. Otherwise
 * returns false, and leaves *rc unchanged.
 *
 * uposix__again_once() is for waits that Linux never restarts: sleeps, polls, and all
 * waits with a time-out (signal(7)). After any handler, uposix__again_once() sets *rc to
 * -EINTR.
 */
bool uposix__again_slow(int *rc, bool restarts);

static inline bool uposix__again(int *rc)
{
	return __builtin_expect(*rc == -ECANCELED, 0) && uposix__again_slow(rc, true);
}

static inline bool uposix__again_once(int *rc)
{
	return __builtin_expect(*rc == -ECANCELED, 0) && uposix__again_slow(rc, false);
}

/*
 * Runs signal handlers, for a wait that is no cancellation point and never ends with
 * EINTR. Returns true if the caller is to wait again.
 */
bool uposix__once_more(int rc);

/*
 * Returns why a wait ended, for callers that decide themselves what to do: -ECANCELED if
 * pthread_cancel() is pending, so that uposix__point() would end the thread; -EINTR if a
 * handler without SA_RESTART has run; otherwise 0.
 */
int uposix__why(int rc);

/*
 * Called before a wait that is a cancellation point: ends the thread if pthread_cancel()
 * is pending, and runs signal handlers. Returns -EINTR if a handler without SA_RESTART
 * has run, otherwise 0.
 */
int uposix__point_slow(struct uposix_thread *me, bool restarts);

static inline int uposix__point_for(bool restarts)
{
	struct uposix_thread *me = uposix__me();

	if (!me || __builtin_expect(!__atomic_load_n(&me->p_asked, __ATOMIC_ACQUIRE), 1))
		return 0;
	return uposix__point_slow(me, restarts);
}

static inline int uposix__point(void)
{
	return uposix__point_for(true);
}

/*
 * Called before a wait with uposix__again_once(): any handler that runs here ends the
 * wait.
 */
static inline int uposix__point_once(void)
{
	return uposix__point_for(false);
}

/*
 * Does what uposix__point_for() does, and returns true if the function of POSIX that
 * calls this is to go on. If the function must fail, sets errno to EINTR, and returns
 * false.
 */
static inline bool uposix__begins(bool restarts)
{
	return uposix__result(uposix__point_for(restarts)) == 0;
}

/* Ends the calling thread, after its clean-up handlers and destructors have run. */
void uposix__end_me(struct uposix_thread *me, void *result) __attribute__((noreturn));

/* ---- uposix_time.c ---- */

/*
 * Returns a time of `clock' as a deadline. If `clock' is set to another time afterwards,
 * the deadline is wrong: see uposix__early().
 */
int64_t uposix__deadline(const struct timespec *time, clockid_t clock);

/*
 * Called after -ETIMEDOUT: returns true if `clock' was set back during the wait, so that
 * the caller must wait again.
 */
bool uposix__early(const struct timespec *time, clockid_t clock);

/* Returns true if tv_nsec is from 0 to 999,999,999, as POSIX requires. */
static inline bool uposix__is_time(const struct timespec *time)
{
	return time->tv_nsec >= 0 && time->tv_nsec < 1000000000;
}

/* ---- uposix_key.c ---- */

/* Calls the destructors of the thread's values, in up to four rounds. */
void uposix__destroy_values(struct uposix_thread *me);

/* ---- uposix_stats.c ---- */

/* Makes this library write the statistics of `rr' if c_stats is set. */
void uposix__watch(struct uprocs *rr);

/* ---- uposix_exchange.c ---- */

/*
 * This is true in libusched-posix.so, whose functions replace libc's in the program, and
 * false if this library is linked into the program.
 */
extern bool uposix__is_loaded;

/* True if each thread has a TLS block of its own. Constant after the first thread. */
extern bool uposix__blocks;

/*
 * Returns why the variables of an object cannot be exchanged, or NULL if they can. `late'
 * is true if the object was not loaded at the start.
 */
const char *uposix__why_shared(const struct dl_phdr_info *info, bool late);

/*
 * Chooses an object, whose variables are exchanged from then on. Called before there are
 * threads. Returns NULL, or why the variables cannot be exchanged.
 */
const char *uposix__choose(const struct dl_phdr_info *info, const ElfW(Phdr) *h,
			   bool late);

/*
 * Keeps chosen objects from being unloaded. Called once, at the first pthread_create(),
 * when all objects have been chosen.
 */
void uposix__keep_chosen(void);

/* Notes the offset of an object's TLS block from the thread pointer. */
void uposix__note_place(const struct dl_phdr_info *info, const ElfW(Phdr) *h);

/*
 * The calling thread is about to wait for `object'. If `object' is in thread-local
 * variables that are exchanged or shared, aborts the process with a message.
 */
void uposix__refuse_place(void *object);

/*
 * Allocates memory for a thread's exchanged variables. The memory is freed with the
 * record. Returns 0 or -ENOMEM.
 */
int uposix__make_values(struct uposix_thread *p);

/*
 * uposix__own() is called when the thread `me' begins. It makes `me' the owner of the TLS
 * blocks, and sets the locale to that of the process. uposix__disown() is called when the
 * calling thread ends, and leaves the blocks without an owner.
 */
void uposix__own(struct uposix_thread *me);
void uposix__disown(void);

/* Calls the destructors of the exchanged variables of `me', the calling thread. */
void uposix__destroy_variables(struct uposix_thread *me);

/* ---- uposix_tls.c ---- */

/*
 * Looks for objects with thread-local variables that are not known to be harmless.
 * Returns 0, or ENOTSUP after a message if there is an object that cannot be run over
 * usched, or if threads are to have blocks and cannot.
 */
int uposix__look_at_objects(void);

/* Looks at objects that were loaded since the last look. Each load calls this. */
void uposix__loaded(void);

/*
 * Returns true if `where' is code of a memory allocator. No other thread may run during a
 * call of an allocator.
 */
bool uposix__in_allocator(const void *where);

/* Returns whether threads may give way at `where', an address of code: not in libc, in
   usched, or in an allocator. */
bool uposix__may_stop_at(uintptr_t where);

/*
 * Yields, unless `where', an address in the caller, is code of an allocator. Signal
 * handlers may run.
 */
void uposix__let_run(const void *where);

/*
 * Called before a call that need not wait: yields if the thread has run for long.
 * uposix__pace_lock() is for calls that make no system call: see budget.h.
 */
__attribute__((always_inline)) static inline void uposix__pace(void)
{
	if (__builtin_expect(usched__is_tired(), 0))
		uposix__let_run(__builtin_return_address(0));
}

__attribute__((always_inline)) static inline void uposix__pace_lock(void)
{
	if (budget_lock())
		uposix__let_run(__builtin_return_address(0));
}

/* ---- uposix_stall.c ---- */

enum { UPOSIX_STALL = 20000000 };       /* ns: longer system calls are told of */

/* Makes schedulers with c_stall tell of system calls that keep a processor. Called before
   the first one is made. */
void uposix__watch_calls(void);

/* ---- uposix_shared.c ---- */

/*
 * Waits for an object of libc that processes share. Calls try(object) from time to time
 * until the result is not EBUSY, and returns that result. Returns ETIMEDOUT if `time'
 * comes first, and EINVAL if `time' is invalid. If `time' is NULL, there is no time-out.
 * Signal handlers run during the wait.
 */
int uposix__poll(int (*try)(void *object), void *object, clockid_t clock,
		 const struct timespec *time);

enum { UPOSIX_LOOK = 1000000 };         /* ns from one try to the next */

/* Returns whether a call with a time-out of 0 has failed since it would wait. The signal
   that ends slices may interrupt such a call. */
static inline bool uposix__would_wait(void)
{
	if (errno == EINTR)
		errno = EAGAIN;
	return errno == EAGAIN;
}

/*
 * Waits until the next try. Returns false, and sets errno to EINTR, if a handler has run.
 */
bool uposix__look_later(void);

/*
 * Calls for mutexes and conditions that processes share, and robust mutexes. Such a mutex
 * may be used with a condition that processes do not share; then `cond' is NULL.
 */
int uposix__shared_init(pthread_mutex_t *mutex, int kind, int robust);
int uposix__shared_lock(pthread_mutex_t *mutex, clockid_t clock,
			const struct timespec *time);
int uposix__shared_trylock(pthread_mutex_t *mutex);
int uposix__shared_unlock(pthread_mutex_t *mutex);
int uposix__shared_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
			const struct timespec *time);

/*
 * Frees the list of these mutexes that `me', the calling thread, holds. If `me' dies, the
 * next one to lock a robust mutex is told so.
 */
void uposix__end_held(struct uposix_thread *me, bool dies);

/* ---- uposix_call.c ---- */

/* Does what syscall() does for any number except SYS_futex. */
long uposix__call(long number, const long *a);

#endif /* USCHED_UPOSIX_SET_H */
