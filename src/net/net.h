/* SPDX-License-Identifier: MIT */
/*
 * net.h: descriptors that threads wait for, and the steps of a call on one of them.
 * Private to unet*.c and usync_select.c. unet.c has the table, adoption and the close,
 * unet_wait.c the waits, unet_poll.c and unet_transfer.c the calls that wait, and
 * unet_open.c the calls that make descriptors.
 *
 * Each descriptor of the process has an entry, a struct descriptor, in a table by number.
 * Entries are never freed, so if an event comes after the close of its file, it reaches
 * at worst the next file with that number. Then a call on the next file tries once in
 * vain.
 *
 * Invariants
 *  - d_ready[direction] is 0 only if a system call has found the descriptor not ready and
 *    the next edge will set d_ready. A call clears d_ready before its system call.
 *  - After a short read a TCP socket is empty, so d_ready stays 0. That saves a system
 *    call that would return EAGAIN. But the end of the input, errors and urgent data may
 *    have come before the read, and cause no further edge. d_lasting records such events.
 *    Once d_lasting is set, even a short read sets d_ready.
 *  - A descriptor is registered with the struct uevents of each dispatcher on which a
 *    thread has waited. The registration is for input and, after the first wait to write,
 *    for output, too. If all descriptors were registered for output, each read by the
 *    peer of a UNIX socket would end a sleep. For each direction, d_serial is the number
 *    of the struct uevents that was registered last. If a dispatcher gets an edge for
 *    which no thread waits, and d_serial does not name the dispatcher, it drops the
 *    registration, since another processor uses the descriptor now.
 *  - The waiters of each direction are in a queue. An event ends the wait of the first
 *    call, and the waits of those polls before the call that want this event. The call
 *    gets the turn if more waiters follow, or if the call writes. Until the call with the
 *    turn runs, d_ready stays 0, so that new calls wait in the queue. When that call
 *    returns, the turn passes on if the descriptor is still ready. If a call with the
 *    turn must wait again, it becomes the first in the queue.
 *  - A thread enters the queue only if d_ready is 0 and d_inside shows that no system
 *    call is in progress. A system call in progress may have cleared d_ready for a
 *    moment.
 *  - Only one thread at a time makes system calls that write: the thread that has taken
 *    d_writing. If a system call has written only a part of the bytes that must stay
 *    together, the writer takes the turn before it releases d_writing.
 *  - d_generation changes when the descriptor is closed or forgotten, and when the number
 *    is used again. unet_close() waits until d_inside counts no system call in progress.
 *    That is soon, since these system calls do not block. A call notes the generation
 *    when it begins, and makes no system call once the generation has changed. So no call
 *    touches a reused number.
 *  - unet__hold() makes an idle entry NET_NEW again, and d_lock keeps adoptions out
 *    while the caller clears O_NONBLOCK. A call that has found the entry adopted before
 *    looks at the kind again once d_inside counts the call.
 *  - close(2) frees the number first, and may then linger. The kind is NET_CLOSING until
 *    close(2) returns. Meanwhile another file may have the number, and an earlier call
 *    may have found the old file or the new one. So each call on the number adopts the
 *    file again, and each wait registers the file again.
 */
#ifndef USCHED_PRIVATE_NET_H
#define USCHED_PRIVATE_NET_H

#include <errno.h>
#include <sys/stat.h>

#include "../../unet.h"
#include "../base/cancel.h"
#include "../sync/chan.h"

#ifndef POLLRDHUP
#define POLLRDHUP 0                     /* if missing: the end still sets POLLIN */
#endif

#define NET_PRIVATE __attribute__((visibility("hidden")))

enum { NET_IN, NET_OUT };

enum kind {
	NET_NEW,                        /* the file is not adopted */
	NET_CLOSING,                    /* close(2) is in progress; then NET_NEW */
	NET_TCP,
	NET_SOCKET,                     /* any other socket */
	NET_PIPE,
	NET_OTHER,
};

enum {
	NET_CHUNK      = 1024,          /* descriptors in a chunk of the table */
	NET_CHUNKS     = 4096,  /* chunks, for four times the descriptors of Linux */
	NET_RETRY      = 10000000,      /* ns that unet__pause() sleeps */
	NET_READY      = 0,             /* this and the next two: results of a grant */
	NET_CLOSED     = 1,
	NET_READY_TURN = SELECT_RESULTS,        /* not for polls and selects */
	NET_LINE       = 64,            /* bytes: the alignment of entries */
	NET_WAITS      = INT32_MIN,     /* result of a step that needs net_block() */
};

/* Values of d_turns: no thread has the turn; a thread has it that was woken and has not
   run yet; a thread has it that runs. */
enum { NET_NO_TURN, NET_GIVEN, NET_RUNNING };

/* Values of d_writing, in order: no thread writes; a thread is in a system call that
   writes; writers wait, and only the thread with the turn may write. */
enum { NET_FREE, NET_BUSY, NET_LINED };

/* The low 22 bits of d_inside count the system calls in progress. The high bits count all
   system calls that were begun. */
enum {
	NET_INSIDE  = (1 << 22) - 1,
	NET_ENTERED = NET_INSIDE + 2,
};

/*
 * An entry of the table. d_lock protects all members except those that are atomic:
 * d_generation, d_inside, d_kind, d_lasting, d_ready, d_serial, d_writing.
 */
struct descriptor {
	struct uinterest  d_interest;   /* must be the first member */
	struct uwait_lock d_lock;
	uint32_t          d_generation;
	uint32_t          d_inside;
	uint8_t           d_kind;
	uint8_t           d_lasting;
	uint8_t           d_ready[2];
	uint8_t           d_turns[2];
	uint8_t           d_writing;
	bool              d_blocked;    /* O_NONBLOCK was clear at adoption */
	int               d_fd;         /* constant */
	struct uwait_node *d_first[2];  /* first nodes of the queues; see is_marked() */
	uint64_t          d_serial[2];  /* e_serial of the struct uevents used last */
#ifdef USCHED_CHECK
	struct stat       d_file;       /* the file at the first call of a generation */
	uint32_t          d_checked;    /* the generation of d_file, plus 1 */
#endif
} __attribute__((aligned(64)));

/*
 * The arguments of a system call. Each attempt() function uses some of them. If such a
 * function is inlined, the arguments stay in registers.
 */
struct op {
	void               *o_buffer;   /* the buffer, or a message to send */
	size_t              o_size;     /* bytes of o_buffer, or bytes of o_iov to skip */
	const struct iovec *o_iov;      /* several buffers, in place of o_buffer */
	int                 o_n;
	int                 o_flags;
	size_t              o_short;    /* a read of fewer bytes has emptied the socket */
	size_t              o_whole;    /* bytes that must stay together in the output */
	struct unet_addr   *o_from;
	const struct unet_addr *o_to;
	struct msghdr      *o_message;  /* a message to receive, or NULL */
	int                 o_shut;     /* the result if the input was shut down */
};

/* What a call keeps beside its arguments while its thread is blocked. */
struct turn {
	struct uwaiter     *tu_waiter;  /* NULL: the call has not waited yet */
	uint32_t            tu_generation;
	bool                tu_turn;    /* the call has the turn */
};

/* The place of a poll or a select in a queue of a descriptor. */
struct net_place {
	struct uwait_place np_base;     /* first */
	struct descriptor *np_entry;    /* NULL: the table has no such number */
	uint32_t           np_generation;
	uint16_t           np_ways;     /* UEVENTS_INPUT etc. that end the wait */
	uint16_t           np_index;    /* of a poll: index of the descriptor */
};

/* Waits that were claimed under d_lock, and are finished after the unlock. */
struct told {
	struct uwaiter    *to_taker;    /* the waiter that gets the turn, or NULL */
	int                to_result;   /* the result of that waiter */
	struct uwait_node *to_others;   /* the other waiters' nodes, linked by n_next */
};

/* Like deadline 0, but no step yields: the call has yielded already, if that was due. */
#define NET_COUNTED INT64_MIN

/* Makes a system call. Returns at least 0, or a negative error. */
typedef ssize_t attempt(const struct descriptor *d, const struct op *o);

/* unet.c */
extern struct descriptor *unet__table[NET_CHUNKS] NET_PRIVATE;  /* chunks; atomic */

NET_PRIVATE struct descriptor *unet__find_chunk(int fd);
NET_PRIVATE int unet__adopt(struct descriptor *d, uint32_t generation);
NET_PRIVATE int unet__set_nonblocking(int fd);
NET_PRIVATE enum kind unet__kind_of(int fd);
NET_PRIVATE int unet__enter(int fd, enum kind kind);

/* unet_wait.c */
NET_PRIVATE void unet__ready(struct uinterest *interest, unsigned events);
NET_PRIVATE void unet__release(struct descriptor *d, struct told *told);
NET_PRIVATE void unet__tell(const struct told *told, int result);
NET_PRIVATE ssize_t unet__step(attempt *call, struct descriptor *d, int direction,
			       const struct op *o, int64_t deadline, struct turn *t);
NET_PRIVATE ssize_t unet__if_shut(const struct descriptor *d, const struct op *o);
NET_PRIVATE bool unet__await_write(struct descriptor *d);
NET_PRIVATE void unet__take_turn(struct descriptor *d, struct turn *t);
NET_PRIVATE ssize_t unet__end_turn(struct descriptor *d, int direction, struct turn *t,
				   ssize_t n);
NET_PRIVATE int unet__begin_wait(struct descriptor *d, int direction, struct turn *t);
NET_PRIVATE int unet__end_wait(struct descriptor *d, int direction, int rc,
			       struct turn *t);
NET_PRIVATE int unet__join(struct net_place *p, bool looks);
NET_PRIVATE void unet__leave(struct net_place *p);
NET_PRIVATE int unet__pause(const struct uwait_kind *kind, int fd, int64_t deadline);

/*
 * Tries the case of a select for a descriptor. Is in unet_poll.c. `counts' is set if the
 * try counts as a call.
 * Returns 0 if the descriptor is ready; -EBADF if it was closed; SELECT_BUSY if the case
 * has to wait; SELECT_TIRED, if `counts' is set and the thread has to yield first; or an
 * error. The system is asked only if the descriptor may be ready or the deadline is 0.
 */
NET_PRIVATE int unet__try_case(const struct net_place *p, int64_t deadline, bool counts);

/*
 * In debug builds, checks before a system call or a wait that the number still belongs to
 * the adopted file. After a bare close(2) another file may have the number. That file has
 * no O_NONBLOCK, so calls on it would block natively, and its edges are not reported.
 */
#ifdef USCHED_CHECK
NET_PRIVATE void unet__check_file(struct descriptor *d, uint32_t generation);
#else
static inline void unet__check_file(const struct descriptor *d, uint32_t generation)
{
	(void)d;
	(void)generation;
}
#endif

static inline uint32_t generation_of(const struct descriptor *d)
{
	return __atomic_load_n(&d->d_generation, __ATOMIC_ACQUIRE);
}

static inline enum kind get_kind(const struct descriptor *d)
{
	return (enum kind)__atomic_load_n(&d->d_kind, __ATOMIC_ACQUIRE);
}

static inline bool is_new(const struct descriptor *d)
{
	return get_kind(d) <= NET_CLOSING;
}

static inline bool is_ready(const struct descriptor *d, int direction)
{
	return __atomic_load_n(&d->d_ready[direction], __ATOMIC_ACQUIRE);
}

/*
 * Sets or clears d_ready. Other threads must see the cleared d_ready before the system
 * call looks at the file. The system call takes a lock, so a release store is enough.
 */
static inline void set_ready(struct descriptor *d, int direction, bool yes)
{
	__atomic_store_n(&d->d_ready[direction], yes, __ATOMIC_RELEASE);
}

/* Returns chunk i, or NULL if it was not made yet or is beyond the table. */
static inline struct descriptor *chunk_at(size_t i)
{
	return i < NET_CHUNKS ? __atomic_load_n(&unet__table[i], __ATOMIC_ACQUIRE) : NULL;
}

/* Finds the entry of fd. Returns 0; or -EBADF or -ENOMEM, with NULL in *d. */
static inline int net_find(int fd, struct descriptor **d)
{
	size_t i = (size_t)fd / NET_CHUNK;
	struct descriptor *chunk = chunk_at(i);

	*d = chunk ? &chunk[(size_t)fd % NET_CHUNK] : unet__find_chunk(fd);
	return *d ? 0 : i < NET_CHUNKS ? -ENOMEM : -EBADF;
}

static inline void net_leave(struct descriptor *d)
{
	__atomic_fetch_sub(&d->d_inside, 1, __ATOMIC_RELEASE);
}

/*
 * Enters the descriptor before a system call. Returns false if the descriptor was closed.
 * A close first changes d_generation and then reads d_inside. This function first changes
 * d_inside and then reads d_generation. So the call sees the close, or the close sees the
 * call.
 */
static inline bool net_enter(struct descriptor *d, uint32_t generation)
{
	__atomic_fetch_add(&d->d_inside, NET_ENTERED, __ATOMIC_ACQ_REL);
	if (generation_of(d) == generation) {
		unet__check_file(d, generation);
		return true;
	}
	net_leave(d);
	return false;
}

/*
 * Yields if the thread has gone on for long without a wait. A write with deadline 0 never
 * yields, since the bytes may be in a buffer that threads share.
 */
static inline int net_give_way(int direction, int64_t deadline)
{
	return deadline == NET_COUNTED || (direction == NET_OUT && deadline == 0) ? 0
		: budget_give_way(deadline);
}

/* Begins a call. Notes the generation for all system calls of the call. */
static inline int net_begin(int fd, struct descriptor **d, struct turn *t)
{
	int rc = net_find(fd, d);

	*t = (struct turn){ NULL, rc ? 0 : generation_of(*d), false };
	return rc;
}

/*
 * Takes d_writing for a system call. Returns false if other threads wait to write. A
 * caller with the turn does not touch d_writing, since a close may have freed d_writing.
 */
static inline bool begin_write(struct descriptor *d, const struct turn *t)
{
	uint8_t now = NET_FREE;

	return t->tu_turn
		|| __atomic_compare_exchange_n(&d->d_writing, &now, NET_BUSY, 0,
					       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
		|| unet__await_write(d);
}

/* Makes the system call once, and sets d_ready as the result tells. */
__attribute__((always_inline))
static inline ssize_t attempt_once(attempt *call, struct descriptor *d, int direction,
				   const struct op *o, struct turn *t)
{
	enum kind kind;
	ssize_t n;

	if (!net_enter(d, t->tu_generation))
		return -EBADF;
	kind = get_kind(d);
	if (kind == NET_NEW) {                  /* unet__hold() */
		net_leave(d);
		return -EINTR;
	}
	if (direction == NET_OUT && !begin_write(d, t)) {
		net_leave(d);
		return NET_WAITS;
	}
	set_ready(d, direction, false);
	n = call(d, o);
	if (n == -EAGAIN && direction == NET_IN
	    && __atomic_load_n(&d->d_lasting, __ATOMIC_RELAXED))
		n = unet__if_shut(d, o);
	if (n >= 0 ? (size_t)n >= o->o_short || kind != NET_TCP || n == 0
		     || __atomic_load_n(&d->d_lasting, __ATOMIC_RELAXED)
		   : n != -EAGAIN)
		set_ready(d, direction, true);
	if (direction == NET_OUT && n >= 0 && (size_t)n < o->o_whole)
		unet__take_turn(d, t);
	if (direction == NET_OUT && !t->tu_turn)
		__atomic_store_n(&d->d_writing, NET_FREE, __ATOMIC_RELEASE);
	net_leave(d);
	if (n < 0 && generation_of(d) != t->tu_generation)
		return -EBADF;
	return n;
}

/* Makes one step of a call. Each use is inlined with its system call, for speed. */
__attribute__((always_inline))
static inline ssize_t net_step(attempt *call, struct descriptor *d, int direction,
			       const struct op *o, int64_t deadline, struct turn *t)
{
	/* pthread_cancel() might end a native thread: see cancel.h. */
	bool native = __builtin_expect(!usched__here()->s_current, 0);
	int before = native ? defer_cancel() : 0;
	ssize_t n = 0;

	if (!t->tu_waiter && (deadline <= 0 || is_new(d) || is_ready(d, direction)))
		n = net_give_way(direction, deadline);
	if (n == 0)
		do {
			n = is_new(d) ? unet__adopt(d, t->tu_generation) : 0;
			if (n == 0)
				n = deadline > 0 && !is_ready(d, direction) ? NET_WAITS
					: attempt_once(call, d, direction, o, t);
		} while (n == -EINTR);
	if (native)
		allow_cancel(before);
	return n == -EAGAIN ? NET_WAITS : n;
}

/* Waits. Returns an error, or 0 if the descriptor may be ready. After 0, tu_turn tells
   whether the call has the turn. */
__attribute__((always_inline))
static inline int net_block(struct turn *t, struct descriptor *d, int direction,
			    int64_t deadline)
{
	int rc;

	t->tu_waiter = uwait_prepare(deadline, true);
	rc = uwait_error(t->tu_waiter);
	if (rc == 0)
		rc = unet__begin_wait(d, direction, t);
	if (rc != NET_WAITS)
		return t->tu_turn ? unet__end_wait(d, direction, rc, t) : rc;
	rc = uwait_block(t->tu_waiter);
	return rc == NET_READY ? 0 : unet__end_wait(d, direction, rc, t);
}

/* After a step that followed a wait, ends the turn if the call has it. Returns n. */
static inline ssize_t end_step(struct descriptor *d, int direction, struct turn *t,
			       ssize_t n)
{
	return t->tu_turn ? unet__end_turn(d, direction, t, n) : n;
}

/*
 * Performs a call, as steps with waits between them. A step makes the system call, or
 * finds that the call must wait. Separate functions begin and end waits, so a blocked
 * thread has only the frames of the public call and of uwait_block(), and a small image.
 * If there is no memory for the image, the wait ends as at a deadline.
 */
__attribute__((always_inline))
static inline ssize_t net_perform(attempt *call, struct descriptor *d, int direction,
				  const struct op *o, int64_t deadline,
				  uint32_t generation)
{
	struct turn t = { NULL, generation, false };
	ssize_t n = unet__step(call, d, direction, o, deadline, &t);

	while (n == NET_WAITS && (n = net_block(&t, d, direction, deadline)) == 0)
		n = end_step(d, direction, &t,
			     unet__step(call, d, direction, o, deadline, &t));
	return n;
}

/* Describes a wait of unet__pause() for reports. No event announces its end. */
#define NET_PAUSE(how) { .kd_name = "descriptor", .kd_how = how, .kd_sleeps = true, \
			 .kd_number = true }

static inline unsigned way_of(int direction)
{
	return direction == NET_OUT ? UEVENTS_OUTPUT : UEVENTS_INPUT | UEVENTS_PEER_END;
}

static inline int direction_of(const struct net_place *p)
{
	return p->np_ways & UEVENTS_OUTPUT ? NET_OUT : NET_IN;
}

/* Returns the error for an errno. For ETIMEDOUT the error is -ETIME, because -ETIMEDOUT
   means that the deadline has come. */
static inline int failure(int error)
{
	return error == EWOULDBLOCK ? -EAGAIN : error == ETIMEDOUT ? -ETIME : -error;
}

static inline ssize_t result(ssize_t n)
{
	return n < 0 ? failure(errno) : n;
}

#endif /* USCHED_PRIVATE_NET_H */
