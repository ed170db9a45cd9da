/* SPDX-License-Identifier: MIT */
/*
 * net.h: descriptors that threads wait for, and the steps of a call on one of them.
 * Private to unet*.c: from below, unet_table.c has the table and adoption, unet_wait.c
 * the waits, unet_poll.c and unet_transfer.c calls that wait, unet.c close, unet_open.c
 * calls that make descriptors.
 *
 * Each descriptor of the process has an entry, a struct descriptor, in a table by number.
 * Entries are never freed. A late event reaches at worst the next file with that number,
 * and a call on that file then tries once in vain.
 *
 * Invariants
 *  - d_ready[direction] is 0 only if a system call has found the descriptor not ready and
 *    the next edge will set d_ready. The caller clears d_ready before the system call.
 *  - A short read has emptied a TCP socket, so d_ready stays 0, which saves the system
 *    call that would return EAGAIN. The end of the input, errors and urgent data that had
 *    come before cause no further edge; d_lasting records such events.
 *  - A descriptor is registered with the events of each dispatcher on which a thread has
 *    waited: for input, and after the first wait to write for input and output. With
 *    output from the beginning, each read by the peer of a UNIX socket would end a sleep.
 *    d_serial has the serial number of the last events, for each direction. A dispatcher
 *    that d_serial does not name drops the registration at the next edge for which no
 *    thread waits, since another processor uses the descriptor now.
 *  - The waiters of each direction are in a queue. An event ends the wait of the first
 *    call, and of polls before that call that want this event. The call gets the turn if
 *    more waiters follow, or if the call writes. While a call has the turn d_ready is 0,
 *    so new calls wait in the queue. When the call returns, the turn passes on if the
 *    descriptor is still ready. A call with the turn that must wait again becomes the
 *    first in the queue.
 *  - A thread enters the queue only if d_ready is 0 and no system call is in progress
 *    that may have cleared d_ready for a moment. d_inside shows whether there was one.
 *  - One thread at a time makes system calls that write: d_writing. After a part of bytes
 *    that must stay together, the writer takes the turn before d_writing is released.
 *  - d_generation changes when the descriptor is closed or forgotten, and when the number
 *    is used again. Neither happens during a system call of another native thread:
 *    unet_close() waits until d_inside counts no such call, and no such call blocks. A
 *    call keeps the generation of its beginning for all its system calls. So no call
 *    touches a reused number.
 *  - close(2) frees the number first, and may linger. Until close(2) returns the kind is
 *    NET_CLOSING. Then each call on the number adopts the file again and each wait
 *    registers again, since an earlier call may have found either file.
 */
#ifndef USCHED_PRIVATE_NET_H
#define USCHED_PRIVATE_NET_H

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "../../unet.h"
#include "../wait/budget.h"
#include "../base/cancel.h"
#include "../sync/select.h"

#ifndef POLLRDHUP
#define POLLRDHUP 0                     /* not known here: POLLIN is set as well */
#endif

#define NET_PRIVATE __attribute__((visibility("hidden")))

enum { NET_IN, NET_OUT };

enum kind {
	NET_NEW,                        /* not adopted */
	NET_CLOSING,                    /* close(2) goes on; then NET_NEW */
	NET_TCP,
	NET_SOCKET,                     /* any other socket */
	NET_PIPE,
	NET_OTHER,
};

enum {
	NET_CHUNK      = 1024,          /* descriptors */
	NET_CHUNKS     = 4096,  /* 4 million descriptors, four times Linux's limit */
	NET_RETRY      = 10000000,      /* ns of a pause: no descriptor, full backlog */
	NET_READY      = SELECT_READY,  /* results of a grant */
	NET_CLOSED     = SELECT_CLOSED,
	NET_READY_TURN = SELECT_RESULTS,
	NET_LINE       = 64,            /* bytes */
	NET_WAITS      = INT32_MIN,     /* result of a step: net_block() is next */
};

/*
 * Values of d_turns. Two bits for each direction have the state of the turn: no thread
 * has the turn, a thread was given the turn and will run, or that thread runs. With
 * NET_BLOCKED O_NONBLOCK was clear at adoption.
 */
enum {
	NET_NO_TURN,
	NET_GIVEN,
	NET_RUNNING,
	NET_TURNS   = 0xf,
	NET_BLOCKED = 0x10,
};

/* Values of d_writing: free; in a system call; reserved for the thread with the turn. */
enum { NET_FREE, NET_BUSY, NET_LINED };

/* The low 22 bits of d_inside count the system calls in progress, the high bits all that
   were begun. */
enum {
	NET_INSIDE  = (1 << 22) - 1,
	NET_ENTERED = NET_INSIDE + 2,
};

/*
 * An entry of the table. d_lock protects all members except those that are atomic:
 * d_generation, d_inside, d_kind, d_lasting, d_ready, d_serial, d_writing.
 */
struct descriptor {
	struct uinterest  d_interest;   /* first */
	struct uwait_lock d_lock;
	uint32_t          d_generation;
	uint32_t          d_inside;
	uint8_t           d_kind;
	uint8_t           d_lasting;
	uint8_t           d_ready[2];
	uint8_t           d_turns;
	uint8_t           d_writing;
	int               d_fd;         /* constant */
	struct uwait_node *d_first[2];  /* the queues; is_marked() says what nodes are */
	uint64_t          d_serial[2];  /* e_serial of the struct uevents that watches */
#ifdef USCHED_CHECK
	struct stat       d_file;       /* the file at the first call of a generation */
	uint32_t          d_checked;    /* that generation, plus 1 */
#endif
} __attribute__((aligned(64)));

/*
 * The arguments of a system call, which uses some of them. Where the call is inlined, the
 * arguments stay in registers.
 */
struct op {
	void               *o_buffer;   /* the buffer, or a message to send */
	size_t              o_size;     /* bytes of the buffer; of o_iov, bytes to skip */
	const struct iovec *o_iov;      /* several buffers, in place of o_buffer */
	int                 o_n;
	int                 o_flags;
	size_t              o_short;    /* a read of fewer bytes empties a socket */
	size_t              o_whole;    /* bytes that no other write may divide */
	struct unet_addr   *o_from;
	const struct unet_addr *o_to;
	struct msghdr      *o_message;  /* a message to receive, or NULL */
	int                 o_shut;     /* the result if the input was shut */
};

/* What a call keeps while its thread is blocked, beside its arguments. */
struct turn {
	struct uwaiter     *tu_waiter;  /* NULL: the call has not waited */
	uint32_t            tu_generation;
	bool                tu_turn;    /* the call has the turn */
};

/* Waits that were claimed under d_lock, to be finished after the unlock. */
struct told {
	struct uwaiter    *to_taker;    /* the waiter that gets the turn, or NULL */
	int                to_result;   /* its result */
	struct uwait_node *to_others;   /* all other waiters, linked by n_next; marked */
};

/* A deadline like 0, for a call that has yielded already if that was due. */
#define NET_COUNTED INT64_MIN

/* Makes a system call. Returns at least 0, or a negative error. */
typedef ssize_t attempt(const struct descriptor *d, const struct op *o);

/* unet_table.c */
extern struct descriptor *unet__table[NET_CHUNKS] NET_PRIVATE;  /* of arrays; atomic */

NET_PRIVATE struct descriptor *unet__find_chunk(int fd);
NET_PRIVATE int unet__adopt(struct descriptor *d, uint32_t generation);
NET_PRIVATE int unet__set_nonblocking(int fd);
NET_PRIVATE int unet__set_blocking(int fd);
NET_PRIVATE enum kind unet__kind_of(int fd);

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
NET_PRIVATE int unet__join(struct net_place *place, struct descriptor *d,
			   int direction, unsigned ways, bool looks,
			   uint32_t generation);
NET_PRIVATE void unet__leave(struct net_place *place, struct descriptor *d,
			     int direction);
NET_PRIVATE int unet__pause(const struct uwait_kind *kind, int fd, int64_t deadline);

/* unet.c */
NET_PRIVATE int unet__enter(int fd, enum kind kind);

/*
 * Tries the case of a select, of unet_poll.c. Direction: 0 to read, 1 to write.
 * Returns 0: the descriptor is ready; -EBADF: it was closed; SELECT_BUSY; SELECT_TIRED,
 * only if the try counts as a call; an error. The system is asked only if the descriptor
 * may be ready, or the deadline is 0.
 */
NET_PRIVATE int unet__try_case(struct uwaiter *w, struct descriptor *d, int direction,
			       uint32_t generation, int64_t deadline, bool counts);

/*
 * Checks in debug builds, before a system call or a wait, that the number still belongs
 * to the adopted file. After a bare close(2) another file may have the number. Without
 * O_NONBLOCK calls on that file would block natively, and no edge would be registered.
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
 * Sets d_ready. Other threads must see false before the system call looks. The system
 * call takes a lock, so a release store is enough.
 */
static inline void set_ready(struct descriptor *d, int direction, bool yes)
{
	__atomic_store_n(&d->d_ready[direction], yes, __ATOMIC_RELEASE);
}

/* Returns the chunk i; NULL: not made yet, or beyond the table. */
static inline struct descriptor *chunk_at(size_t i)
{
	return i < NET_CHUNKS ? __atomic_load_n(&unet__table[i], __ATOMIC_ACQUIRE) : NULL;
}

/* Finds the entry of fd. 0; -EBADF, -ENOMEM: *d is NULL. */
static inline int net_find(int fd, struct descriptor **d)
{
	size_t i = (size_t)fd / NET_CHUNK;
	struct descriptor *chunk = chunk_at(i);

	*d = chunk ? &chunk[(size_t)fd % NET_CHUNK] : unet__find_chunk(fd);
	return *d ? 0 : i < NET_CHUNKS ? -ENOMEM : -EBADF;
}

/* Whether the caller is in no thread, so that pthread_cancel() may end it: cancel.h. */
static inline bool is_native(void)
{
	return __builtin_expect(!usched__here()->s_current, 0);
}

static inline void net_leave(struct descriptor *d)
{
	__atomic_fetch_sub(&d->d_inside, 1, __ATOMIC_RELEASE);
}

/*
 * Enters the descriptor before a system call. False: the descriptor was closed. A close
 * changes d_generation and then reads d_inside, so the call or the close sees the other.
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
 * Yields if the thread has not waited for long. A write with deadline 0 never yields,
 * since the bytes may be in a buffer that threads share.
 */
static inline int net_give_way(int direction, int64_t deadline)
{
	return deadline == NET_COUNTED || (direction == NET_OUT && deadline == 0) ? 0
		: budget_give_way(deadline);
}

/* Begins a call: notes the generation, which all its system calls use. */
static inline int net_begin(int fd, struct descriptor **d, struct turn *t)
{
	int rc = net_find(fd, d);

	*t = (struct turn){ NULL, rc ? 0 : generation_of(*d), false };
	return rc;
}

/*
 * Takes d_writing for a system call. False: another thread has the turn. A caller with
 * the turn does not touch d_writing, since a close may have freed d_writing.
 */
static inline bool begin_write(struct descriptor *d, const struct turn *t)
{
	uint8_t now = NET_FREE;

	return t->tu_turn
		|| __atomic_compare_exchange_n(&d->d_writing, &now, NET_BUSY, 0,
					       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
		|| unet__await_write(d);
}

/* Makes the system call once, and sets d_ready by the result. */
__attribute__((always_inline))
static inline ssize_t attempt_once(attempt *call, struct descriptor *d, int direction,
				   const struct op *o, struct turn *t)
{
	enum kind kind = get_kind(d);
	ssize_t n;

	if (!net_enter(d, t->tu_generation))
		return -EBADF;
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

/* Makes one step of a call. Inlined with each system call, for speed. */
__attribute__((always_inline))
static inline ssize_t net_step(attempt *call, struct descriptor *d, int direction,
			       const struct op *o, int64_t deadline, struct turn *t)
{
	bool native = is_native();
	int before = native ? defer_cancel() : 0;
	ssize_t n = 0;

	if (is_new(d))
		n = unet__adopt(d, t->tu_generation);
	if (n == 0 && !t->tu_waiter && (deadline <= 0 || is_ready(d, direction)))
		n = net_give_way(direction, deadline);
	if (n == 0)
		do
			n = deadline > 0 && !is_ready(d, direction) ? NET_WAITS
				: attempt_once(call, d, direction, o, t);
		while (n == -EINTR);
	if (native)
		allow_cancel(before);
	return n == -EAGAIN ? NET_WAITS : n;
}

/* Waits. 0: the descriptor may be ready, tu_turn tells of the turn; an error. */
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

/* Ends the turn, if any, after a step that followed a wait. Returns n. */
static inline ssize_t end_step(struct descriptor *d, int direction, struct turn *t,
			       ssize_t n)
{
	return t->tu_turn ? unet__end_turn(d, direction, t, n) : n;
}

/*
 * Performs a call, as steps with waits between them. A step makes the system call, or
 * finds that the call must wait. Separate functions begin and end waits, so a blocked
 * thread has only the frames of the public call and of uwait_block(), and a small image.
 * Without memory for the image the wait ends as at a deadline.
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

__attribute__((always_inline))
static inline ssize_t net_perform_at(attempt *call, int fd, int direction,
				     const struct op *o, int64_t deadline)
{
	struct descriptor *d;
	int rc = net_find(fd, &d);

	return rc ? rc : net_perform(call, d, direction, o, deadline, generation_of(d));
}

/* Describes a wait of unet__pause() to reports: a wait for something without an event. */
#define NET_PAUSE(how) { .kd_name = "descriptor", .kd_how = how, .kd_sleeps = true, \
			 .kd_number = true }

static inline unsigned way_of(int direction)
{
	return direction == NET_OUT ? UEVENTS_OUTPUT : UEVENTS_INPUT | UEVENTS_PEER_END;
}

/* Returns the error for an errno: -ETIME for ETIMEDOUT, as -ETIMEDOUT is a deadline's. */
static inline int failure(int error)
{
	return error == EWOULDBLOCK ? -EAGAIN : error == ETIMEDOUT ? -ETIME : -error;
}

static inline ssize_t result(ssize_t n)
{
	return n < 0 ? failure(errno) : n;
}

#endif /* USCHED_PRIVATE_NET_H */
