/* SPDX-License-Identifier: MIT */
/*
 * uposix_set.h: what the files of posix/ share: each file's part in the order of their
 * layers, from below. A file calls only those before it, as posix.sh checks. A
 * plain name of POSIX is libc's there.
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

#include "../src/wait/budget.h"
#include "../rr.h"
#include "../usync.h"

/* ---- uposix_conf.c ---- */

/* Settings, from the environment; see uposix_load.c. */
struct uposix_conf {
	unsigned    c_stacks;           /* threads with an own stack, at most */
	unsigned    c_shared;           /* 0; or all share so many stacks */
	unsigned    c_processors;       /* 0: all */
	size_t      c_stack_size;       /* bytes */
	bool        c_native;           /* beyond c_stacks threads are native */
	bool        c_quiet;            /* no messages */
	const char *c_log;              /* file of messages, or NULL */
	const char *c_stats;            /* file of statistics, or NULL */
	const char *c_tls;              /* objects whose thread-local variables belong to
					   the thread: names, with commas; or NULL */
};

extern struct uposix_conf uposix__conf;

/* Reads the settings, once. */
void uposix__settings(void);

#ifdef USCHED_SIM
/* Has the calls of this library to that function of libc go to `with'. Returns where they
   went before; NULL: it is not in uposix_names.h. */
void *uposix__replace(const char *name, void *with);
#endif

/* A message, after "usched: ", unless c_quiet. */
void uposix__tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, once for each place. */
#define UPOSIX_TELL_ONCE(...) do {						\
	static bool told_;							\
	if (!__atomic_exchange_n(&told_, true, __ATOMIC_RELAXED))		\
		uposix__tell(__VA_ARGS__);					\
} while (0)

/* The function is uposix_name: where off_t has 64 bits, for one. */
#define UPOSIX_ALIAS(name) __attribute__((alias("uposix_" #name)))

/* A result of the library as POSIX has it: at least 0, or -1 and errno. */
static inline long uposix__result(long rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

/* ---- uposix_fork.c ---- */

/*
 * Parts of what is done at a fork. Before it the locks are taken in this order, which is
 * that of all threads. Then the child forgets, in this order, what belongs to native
 * threads that are not there.
 */
enum uposix_part {
	UPOSIX_OBJECTS, UPOSIX_STREAMS, UPOSIX_TABLE, UPOSIX_SCHEDULER, UPOSIX_THREADS,
	UPOSIX_HELD, UPOSIX_LIBRARY, UPOSIX_FUTEX, UPOSIX_SEMS, UPOSIX_ONCE,
	UPOSIX_STATS, UPOSIX_CATCH, UPOSIX_PARTS
};

/* hold: with `on' takes a lock, and without releases it, in the parent and in the child.
   Either function may be NULL. */
void uposix__at_fork(enum uposix_part part, void (*hold)(int on), void (*forked)(void));

/* Has the file that it stands in register its part. */
#define UPOSIX_AT_FORK(part, hold, forked)					\
	__attribute__((constructor(103))) static void register_part(void)	\
	{									\
		uposix__at_fork(part, hold, forked);				\
	}

/* ---- uposix_record.c ---- */

struct uposix_value {
	void    *v_value;
	uint32_t v_age;                 /* of the key */
};

/* What is asked of a thread, in p_asked. */
enum { UPOSIX_CANCEL = 1, UPOSIX_SIGNAL = 2 };

/* In p_state. */
enum { UPOSIX_DETACHED = 1, UPOSIX_ENDED = 2 };

/*
 * A thread. These records are never unmapped: a pthread_t is the address of one, and one
 * that is used too late is found out by p_magic.
 */
struct uposix_thread {
	uintptr_t            p_magic;   /* UPOSIX_MAGIC or _GONE; atomic */
	struct uposix_thread *p_next;   /* under uposix__lock: list of all, or of free */
	struct uposix_thread *p_prev;
	struct ustack       *p_thread;  /* p_lock; NULL: it has not begun */
	struct uwaiter      *p_waiter;  /* from its begin on; for the child of a fork */
	struct usched__wrap  p_wrap;    /* names the thread by p_func */
	void              *(*p_func)(void *);
	void                *p_arg;
	void                *p_result;
	uint64_t             p_control; /* control words of its creator, its first */
	/* Ends the calling thread, when its frames are unwound. */
	void               (*p_leave)(struct uposix_thread *me) __attribute__((noreturn));

	/* Atomic. */
	uint32_t             p_asked;
	uint32_t             p_state;
	uint64_t             p_pending; /* signals, bit n - 1 */
	uint64_t             p_mask;    /* likewise, blocked; its own, others read it */
	uint64_t             p_waits;   /* likewise, which it awaits in sigwait() */
	uint64_t             p_offer;   /* likewise, for the process: it may take them */
	struct uposix_thread *p_joins;  /* waits for its end */

	/* The thread's own. */
	struct uposix_value *p_values;  /* p_room, by key */
	uint32_t             p_room;
	uint32_t             p_handled; /* calls of handlers */
	bool                 p_disabled;        /* PTHREAD_CANCEL_DISABLE */
	bool                 p_asynchronous;
	bool                 p_exiting;
	bool                 p_ended;   /* p_lock */
	__pthread_unwind_buf_t *p_cleanup;      /* pushed last */
	struct uposix_held  *p_held;    /* mutexes of several processes, some kinds */
	struct _Unwind_Exception p_unwind;
	locale_t             p_locale;  /* of uselocale(); or NULL: that of the process */
	struct uposix_destructor *p_destructors;        /* the last one first */
	char                *p_tls;     /* while another thread runs: its variables, for
					   c_tls; or NULL */

	struct uwait_lock    p_lock;
	char                 p_name[16];
};

#define UPOSIX_MAGIC ((uintptr_t)0x75706f73)
#define UPOSIX_GONE  ((uintptr_t)0x75706f72)    /* has ended, and was let go */

/* The calling thread; NULL: the caller is a native thread. */
struct uposix_thread *uposix__me(void);

/* Has the calling thread be `me'; NULL: none, as it ends. 0 or a negative errno value. */
int uposix__set_me(struct uposix_thread *me);

/* The same; NULL also: it goes on natively after a fork, and the system has its mask. */
static inline struct uposix_thread *uposix__thread_now(void)
{
	return ustack_self() ? uposix__me() : NULL;
}

/* That of `u', on its native thread; NULL: it has not begun, or is ending. */
struct uposix_thread *uposix__record_of(const struct ustack *u);

/* The record of a pthread_t; NULL: it is libc's. p_magic may be UPOSIX_GONE. */
struct uposix_thread *uposix__thread(pthread_t thread);

bool uposix__is_gone(const struct uposix_thread *p);

/* Threads since the start, or since the fork. Under uposix__lock. */
struct uposix_counts {
	unsigned c_now, c_most;
	unsigned c_natives;             /* native threads that stand for ours, now */
	uint64_t c_started, c_refused, c_native;
	bool     c_main_ended;          /* by pthread_exit() */
};

extern struct uwait_lock uposix__lock;
extern struct uposix_thread *uposix__all;       /* under it; p_next is another one */
extern struct uposix_counts uposix__counts;

/* A record of one more thread, which is counted; NULL: no memory. */
struct uposix_thread *uposix__new_record(void);

/* Lets it go. p_magic tells. */
void uposix__free_record(struct uposix_thread *p);

/* In the child of a fork. */
extern struct uposix_forked {
	struct uposix_thread *f_me;     /* that called fork(); or NULL: main() did */
	pthread_t             f_native; /* which it is there, */
	uintptr_t             f_name;   /* and what its locks had it be */
	unsigned              f_count;  /* from the first process to this one */
	bool                  f_alone;  /* no thread was started, so what holds a lock
					   for an instant is not there */
} uposix__forked;

/* In such a child, objects may be those of threads that are not there, or of f_name. */
static inline bool uposix__has_forked(void)
{
	return __atomic_load_n(&uposix__forked.f_alone, __ATOMIC_RELAXED)
		|| uposix__forked.f_name;
}

enum { UPOSIX_INTERNAL = 32 };          /* a signal of libc's own, as the next one */

static inline uint64_t uposix__bit(int sig)
{
	return (uint64_t)1 << (sig - 1);
}

/* glibc has bit n - 1 of the first word for signal n. */
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

/* The mask of the caller, as a word: that of a thread is not its processor's. */
uint64_t uposix__mask(void);

/* Has `mask' be that of the native thread. */
void uposix__set_native_mask(uint64_t mask);

/* Its p_lock: a handler may want it, so none runs natively meanwhile. */
void uposix__lock_record(struct uposix_thread *p, uint64_t *old);
void uposix__unlock_record(struct uposix_thread *p, const uint64_t *old);

/* A native thread runs no handlers until the second. On a processor they never do. */
void uposix__hold_handlers(uint64_t *old);
void uposix__release_handlers(const uint64_t *old);

/* Has `p' look at p_asked, soon. */
void uposix__ask(struct uposix_thread *p, uint32_t what);

/* ---- uposix_catch.c ---- */

/*
 * Signals that main() blocks, or has blocked: those for the process are handled by the
 * catcher. Others are not offered to threads.
 */
uint64_t uposix__main_blocks(void);

/* The calling thread awaits these in sigwait(), or none any more. */
void uposix__await(struct uposix_thread *me, uint64_t set);

/* A thread does not take what it was offered. */
void uposix__look_again(void);

/* A thread has this mask from now on, which was set before. */
void uposix__open(uint64_t mask);

/* The mask of the caller, a native thread, changes. */
void uposix__native_mask(uint64_t before, uint64_t now);

/* The caller, a native thread that has this mask, creates a thread. */
void uposix__native_creates(uint64_t mask);

/* Has the system take the default action for what is pending. */
void uposix__act_by_default(int sig);

/* main() ends by pthread_exit(). */
void uposix__main_ends(void);

/* ---- uposix_signal.c ---- */

/* The mask of `me' from now on, except for what no thread can block. */
void uposix__set_mask(struct uposix_thread *me, uint64_t mask);

/* Has `me' run the handlers of its signals. True: one without SA_RESTART ran. */
bool uposix__handle(struct uposix_thread *me);

/* Takes one of these that was sent to `me', by pthread_kill(); 0: there is none. */
int uposix__take_sent(struct uposix_thread *me, uint64_t mask, siginfo_t *info);

/* The thread ends: others get what is left. */
void uposix__end_signals(struct uposix_thread *me);

/* ---- uposix_cancel.c ---- */

/*
 * After a wait that is a cancellation point:
 *
 *	do
 *		rc = usync_...(..., deadline);
 *	while (uposix__again(&rc));
 *
 * With pthread_cancel() pending it does not return. A signal's handler has run, and *rc
 * is -EINTR, or true for SA_RESTART. True also: there was no reason, wait again. Else
 * false, and *rc is as it was.
 *
 * uposix__again_once(): for waits that Linux never restarts: sleeps, polls, and all that
 * has a time; see signal(7). There a handler is -EINTR in any case.
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

/* For a wait that is no cancellation point and has no -EINTR: handlers run. */
bool uposix__once_more(int rc);

/*
 * Likewise, and the caller decides: -ECANCELED: pthread_cancel() is pending, and
 * uposix__point() ends the thread; -EINTR: a handler without SA_RESTART ran; 0: neither.
 */
int uposix__why(int rc);

/*
 * Before such a wait, where it is a cancellation point: with pthread_cancel() pending it
 * does not return; handlers of signals run. -EINTR: one without SA_RESTART has; else 0.
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

/* Before uposix__again_once(). The handler may have come late, just before the wait. */
static inline int uposix__point_once(void)
{
	return uposix__point_for(false);
}

/* The same for a call of POSIX. False: a handler has run, and errno is EINTR. */
static inline bool uposix__begins(bool restarts)
{
	return uposix__result(uposix__point_for(restarts)) == 0;
}

/* Ends the calling thread: clean-up handlers, destructors. */
void uposix__end_me(struct uposix_thread *me, void *result) __attribute__((noreturn));

/* ---- uposix_time.c ---- */

/* A time of `clock' as a deadline; see uposix__early(). */
int64_t uposix__deadline(const struct timespec *time, clockid_t clock);

/* After -ETIMEDOUT: that clock was set back meanwhile, so the wait is to go on. */
bool uposix__early(const struct timespec *time, clockid_t clock);

/* Whether it is a time: its ns are less than a second. */
static inline bool uposix__is_time(const struct timespec *time)
{
	return time->tv_nsec >= 0 && time->tv_nsec < 1000000000;
}

/* ---- uposix_key.c ---- */

/* Calls the destructors of its values, up to four times. */
void uposix__destroy_values(struct uposix_thread *me);

/* ---- uposix_stats.c ---- */

/* Has statistics of `rr' written, if they are wanted. */
void uposix__watch(struct uprocs *rr);

/* ---- uposix_exchange.c ---- */

/* Whether c_tls names this object. One native thread at a time asks. */
bool uposix__is_named(const char *name, bool program);

/* Tells what else is in c_tls. */
void uposix__tell_unknown(void);

/* Why the variables of an object cannot be exchanged; NULL: they can. */
const char *uposix__why_shared(const struct dl_phdr_info *info, bool late);

/*
 * Has the variables of an object exchanged; late: it was not loaded at the start. NULL;
 * or why that cannot be. Before there are threads.
 */
const char *uposix__choose(const struct dl_phdr_info *info, const ElfW(Phdr) *h,
			   bool late);

/* Afterwards: none of these is unloaded. A constructor may have loaded one. */
void uposix__keep_chosen(void);

/* Notes where each native thread has the variables of an object. */
void uposix__note_place(const struct dl_phdr_info *info, const ElfW(Phdr) *h);

/*
 * A thread is about to wait for an object. If that lies in thread-local variables, which
 * are exchanged, or shared with other threads, this is told, and the process aborts.
 */
void uposix__refuse_place(void *object);

/* Room for the values of a thread. 0 or -ENOMEM. It is freed with the record. */
int uposix__make_values(struct uposix_thread *p);

/* The calling thread begins: variables that c_tls has are its own, and its locale is that
   of the process. It ends: they are no thread's. */
void uposix__own(struct uposix_thread *me);
void uposix__disown(void);

/* Calls the destructors of those of `me', the calling thread. */
void uposix__destroy_variables(struct uposix_thread *me);

/* This is libusched-posix.so, whose functions the program has in place of libc's. */
extern bool uposix__is_loaded;

/* ---- uposix_tls.c ---- */

/*
 * Looks for objects with thread-local variables that are not known to be harmless.
 * 0; ENOTSUP: c_tls names some that cannot be exchanged, which was told.
 */
int uposix__look_at_objects(void);

/* Likewise, when an object was loaded. The dynamic linker calls. */
void uposix__loaded(void);

/* True: the caller is in a memory allocator: no other thread may run there meanwhile. */
bool uposix__in_allocator(const void *where);

/* Yields, unless the caller, `where', is in an allocator. Handlers of signals run. */
void uposix__let_run(const void *where);

/* Before a call that need not wait; _lock: and makes no system call: budget.h. */
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

/* ---- uposix_shared.c ---- */

/*
 * For objects of several processes, which are libc's: calls try(object) from time to time
 * until it is no longer EBUSY, or ETIMEDOUT if there is a time. Handlers run meanwhile.
 * The result of try.
 */
int uposix__poll(int (*try)(void *object), void *object, clockid_t clock,
		 const struct timespec *time);

enum { UPOSIX_LOOK = 1000000 };         /* ns between two of these */

/* Waits until the next look. False: a handler has run; errno is EINTR. */
bool uposix__look_later(void);

/* Mutexes and conditions of several processes: uposix_shared.c. Not for robust ones: */
int uposix__shared_init(pthread_mutex_t *mutex, int kind);
int uposix__shared_lock(pthread_mutex_t *mutex, clockid_t clock,
			const struct timespec *time);
int uposix__shared_trylock(pthread_mutex_t *mutex);
int uposix__shared_unlock(pthread_mutex_t *mutex);
int uposix__shared_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
			const struct timespec *time);

/* `me' has none of them any more. */
void uposix__forget_held(struct uposix_thread *me);

/* ---- uposix_call.c ---- */

/* syscall() of any number but SYS_futex. */
long uposix__call(long number, const long *a);

#endif /* USCHED_UPOSIX_SET_H */
