/* SPDX-License-Identifier: MIT */
/*
 * core.h: what the dispatcher offers to the files of the layers above: observers, hooks,
 * the start of threads, stacks that move, and forks. Private.
 */
#ifndef USCHED_CORE_H
#define USCHED_CORE_H

#include <stdbool.h>

#include "../../usched.h"

/* ---- Observers ---- */

/* Whether this build of the library looks for mistakes of the program. */
#ifdef USCHED_CHECK
enum { IS_CHECKED = 1 };
#else
enum { IS_CHECKED = 0 };
#endif

/*
 * Functions by which other files observe the dispatcher. A member is NULL until an
 * observer stores a function there. An observer does so before the observed threads
 * begin, and the function stays. So no file of the dispatcher refers to a file of the
 * layers above.
 */
struct usched_observer {
	/* Called when the program makes the call that is named `call'. No preemptible
	   region may contain the call. In builds with USCHED_CHECK. The function is in
	   upreempt_region.c. */
	void (*ob_called)(const char *call);

	/* Writes to standard error which thread `u' is. In builds with USCHED_CHECK. The
	   function is in uproc.c. */
	void (*ob_introduce)(const struct ustack *u);

	/* Called only if `s' has an s_slice. Does for the running thread of `s' what
	   ustack_check() does: yields if the slice is over, and returns the result of
	   ustack_check(). The function is in upreempt.c. */
	int (*ob_give_way)(struct usched *s);

	/* Called before the running thread of `s' blocks. While the member is not NULL,
	   all switches go the long way. The function is in debug/ulocks.c, which may be
	   preloaded. */
	void (*ob_blocks)(const struct usched *s);

	/* Called when a thread with a TLS block has come from another dispatcher, to the
	   native thread with the block `native'. */
	void (*ob_adopt)(char *block, char *native);

	/* Called when the running thread ends by itself. Destroys variables in its TLS
	   block, which may switch, and puts the native thread's block in place. */
	void (*ob_leave)(void);

	/*
	 * Called in the handler of a signal that interrupts the running thread outside of
	 * a region, at the instruction `at'. Returns whether the thread may give way
	 * there. While the member is NULL, threads give way in regions only. The function
	 * is in posix/uposix_tls.c.
	 */
	bool (*ob_may_stop)(uintptr_t at);
};

extern struct usched_observer usched__observer;

/* Reads a function from the table, or NULL. */
#define OBSERVER(function) __atomic_load_n(&usched__observer.function, __ATOMIC_RELAXED)

#ifdef USCHED_CHECK
#define CALLED(call) (OBSERVER(ob_called) ? OBSERVER(ob_called)(call) : (void)0)
#else
#define CALLED(call) ((void)0)
#endif

/* ---- Hooks ---- */

/*
 * The first adds a hook in front of all others, the second removes a hook. From the
 * dispatcher's native thread: in s_next; outside of usched_run(); or in a thread that has
 * resumed no coroutine.
 */
void usched__set_hook(struct usched *s, struct usched_hook *h);
void usched__drop_hook(struct usched *s, struct usched_hook *h);

/* Reports an event to all hooks. For usched__tell(), which looks for hooks first. */
void usched__tell_all(struct usched *s, enum usched_event event, struct ustack *u,
		      struct ustack *other);

/* Reports an event to all hooks, if there are hooks. */
static inline void usched__tell(struct usched *s, enum usched_event event,
				struct ustack *u, struct ustack *other)
{
	if (__builtin_expect(s->s_hook != NULL, 0))
		usched__tell_all(s, event, u, other);
}

/* ---- Threads ---- */

/*
 * For a thread that begins in the library: wr_begin(w) is called first, and calls a
 * function of the program later. The function of such a thread is usched__wrapped, and
 * its argument is the address of this struct. Reports show wr_func as the function.
 */
struct usched__wrap {
	void      (*wr_begin)(struct usched__wrap *w);
	void      (*wr_func)(void *);   /* the program's, possibly cast */
	const void *wr_where;           /* the return address of the program's call */
};
void usched__wrapped(void *wrap);

/* Returns the struct usched__wrap of a new thread, or NULL if the thread has none. */
struct usched__wrap *usched__wrap_of(const struct ustack *u);

/*
 * Gives the calling thread an attachment, which stays the caller's until ao_free.
 * Returns 0; -EPERM if the caller is no thread; -EBUSY if the thread has an attachment.
 * Does not switch.
 */
int usched__attach(struct ustack_attachment *l);

/* ---- Images ---- */

/*
 * Does what ustack_reserve() does, for functions of the library that block next, and
 * whose frames are small. After that, a block of the caller or of a small function that
 * the caller calls cannot fail (R4). An image that is as small as possible has room.
 * Returns what ustack_reserve(0) returns. Does not switch.
 */
int usched__reserve(void);

/* ---- Stacks ---- */

/*
 * Calls f(low, size, arg) for stack memory of `s' that holds no frames. The first `from'
 * stacks are left out, and so are the caller's stack and the native stack. Of each other
 * stack, the memory begins at the low end, and ends at the frames of the resident. `f'
 * may overwrite the memory, or give the pages back to the system.
 * If `f' returns 0, no more stacks are looked at, and the result is the `from' for the
 * next call. Once all stacks are done, returns 0.
 * From the dispatcher's native thread. Does not switch.
 */
size_t usched__unused(const struct usched *s, size_t from,
		     int (*f)(void *low, size_t size, void *arg), void *arg);

/*
 * Returns 1 if the runnable thread `u' may be given to another dispatcher, else 0. A new
 * thread may. Any other thread may if it is not s_current, has blocked by a call, and is
 * alone on a stack that may move: k_stays is 0 or USCHED_ALONE.
 * From the dispatcher's native thread. Does not switch.
 */
int usched__may_move(const struct ustack *u);

/*
 * Makes `u', for which usched__may_move() is 1, a thread of `to', together with the stack
 * of `u'. What `u' has kept of this native thread, such as &errno, is wrong from then on.
 * The scheduler here must have forgotten `u', and the scheduler of `to' must know `u'.
 * From the native thread of the dispatcher that `u' leaves. `to' may run meanwhile. Also
 * called while `u' is between dispatchers: see doc/moving.md. Does not switch.
 */
void usched__move(struct ustack *u, struct usched *to);

/*
 * The first takes a vacant stack out of its list, and so away from its dispatcher. The
 * second gives the stack to `s'. So a stack that came with a thread goes back to where it
 * was added. The ended thread may have called s_done on the stack. No frame may be left
 * there at the second call.
 * The first call is from the native thread of the old dispatcher, the second from that of
 * `s'. Neither switches.
 */
static inline void usched__unlink(struct usched_stack *k)
{
	k->k_prev->k_next = k->k_next;
	k->k_next->k_prev = k->k_prev;
	k->k_prev = NULL;
}

void usched__take_stack(struct usched *s, struct usched_stack *k);

/*
 * For uproc_stacks.c: own stacks, which threads bring along.
 *
 * usched__make_stack() makes memory an own stack that belongs to no dispatcher. `s' is
 * the dispatcher whose threads will probably use the stack. *colour counts own stacks.
 * usched__place_alone() makes the new thread `u' begin on the own stack `k'. When `u' has
 * ended, `k' is put into the list that usched__left() returns. Then s_done is called; if
 * `u' ends itself, this is still on that stack. After watch_stack_end() the memory may be
 * freed.
 */
struct usched_stack *usched__make_stack(const struct usched *s, void *base, size_t size,
					uint16_t *colour);
void usched__place_alone(struct ustack *u, struct usched_stack *k);

/* Puts an own stack into the list of `s' (s_new). For usched.c and usched_stack.c. */
void usched__list_alone(struct usched *s, struct usched_stack *k);

static inline struct usched_stack **usched__left(struct usched *s)
{
	return &s->s_new.k_ring;
}

/* ---- Blocks of thread-local variables ---- */

/*
 * A thread may have a TLS block of its own, in place of the native thread's. A block is
 * named by its thread pointer. usched__set_block() gives the running thread of `s' the
 * block, or with s_block the native thread's block back. While a thread with a block is
 * blocked, its frames keep the block. A new thread begins on the native thread's, and
 * must end there. errno goes along.
 * From the dispatcher's native thread. Does not switch.
 */
void usched__set_block(struct usched *s, char *block);

/* ---- Native threads ---- */

/*
 * For posix/, in the child of a fork, where only the caller's native thread exists: from
 * now on the caller is no thread. Other functions named *__forked() forget what belonged
 * to other native threads, and open locks that these held. Functions named *__hold() take
 * a lock before the fork, and release the lock in both processes, so that the child finds
 * the protected data whole. posix/uposix_fork.c has the list.
 */
void usched__forked(void);

/* For posix/: returns the control words of the caller, and sets them to *set unless `set'
   is NULL. */
uint64_t usched__control_words(const uint64_t *set);

#endif /* USCHED_CORE_H */
