/* SPDX-License-Identifier: MIT */
/*
 * unet.c: descriptors that threads wait for: their table, and how calls on them wait. The
 * calls themselves are in parts of this file, which are included at its end.
 *
 * Each descriptor of the process has a struct descriptor, in a table by its number. It is
 * never freed, so a late event finds at worst the next user of the number, which tries
 * once in vain.
 *
 * Invariants
 *  - d_ready[direction] is 0 only if a system call has found the descriptor not ready,
 *    and an edge will tell when it is. It is set to 0 before that system call.
 *  - After a short read a TCP socket is empty, so it is not ready, and the call that
 *    would return EAGAIN is not made. The end, errors and urgent data that came before
 *    bring no edge of their own; for them d_lasting is set.
 *  - A descriptor is registered with the events of each dispatcher on which a thread has
 *    waited for it: for input, and after a wait to write for both. Else a peer that reads
 *    from a UNIX socket would end a sleep each time. d_serial names the last ones, for
 *    each direction. Events that it does not name, and for which no thread waits, are
 *    left at their next edge, since another processor has the descriptor now.
 *  - With poll(2) (POLLER_ONCE) a descriptor is registered for the ways that a thread
 *    waits for, and again for each wait, since an event ends that.
 *  - Threads wait for a direction in a queue. An event ends the wait of the first, and of
 *    polls before it. If others wait behind it, or it writes, it gets the turn: calls
 *    that come now wait behind these, since d_ready stays 0. It ends the turn with its
 *    call, and passes it on if the descriptor is still ready. If it has to wait again it
 *    is the first of the queue.
 *  - A thread enters the queue only if d_ready is 0 and no system call is in progress
 *    that may have left it so for a moment; d_inside shows that there was none meanwhile.
 *  - One thread at a time makes system calls that write: d_writing. One that has written
 *    a part of what is to stay together takes the turn before it leaves.
 *  - d_generation changes when the descriptor is closed or forgotten, and when the number
 *    is used again. Neither happens during a system call on another native thread:
 *    close(2) waits for these, counted in d_inside; they do not block. A call that makes
 *    several system calls keeps to the generation that it began with. So no call touches
 *    a reused number.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* accept4(), POLLRDHUP */
#endif
#include "unet.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "private/budget.h"
#include "private/cancel.h"
#include "private/check.h"
#include "private/poller.h"
#include "private/select.h"

#ifdef USCHED_CHECK
#define CHECKED
#endif

enum { IN, OUT };

enum kind {
	NEW,                            /* not adopted */
	CLOSING,                        /* being closed; then NEW */
	TCP,
	SOCKET,                         /* any other */
	PIPE,
	OTHER,
};

enum {
	CHUNK      = 1024,              /* descriptors */
	CHUNKS     = 4096,  /* 4 million descriptors, four times Linux's limit */
	RETRY      = 10000000,          /* ns: if out of descriptors, or backlog full */
	READY      = SELECT_READY,      /* results of a grant */
	CLOSED     = SELECT_CLOSED,
	TURN       = SELECT_RESULTS,
	LINE       = 64,                /* bytes */
	WAITS      = INT32_MIN,         /* of a step: block() is next */
	TURNED,                         /* of block(): a step, and end_turn() */
};

/*
 * d_turns, two bits for each direction: none has it; it was given to a thread, which runs
 * later; that runs. Above that, how the descriptor was found: it blocked; it did not, so
 * its open file may be one that has blocked under another number.
 */
enum { NONE, GIVEN, RUNNING, TURNS = 0xf, BLOCKED = 0x10, SHARED = 0x20 };

/* d_writing: for any; a system call writes; for the thread that has the turn. */
enum { FREE, BUSY, LINED };

/* d_inside: the system calls in progress, and above that how many have begun. */
enum {
	INSIDE = (1 << 22) - 1,
	ENTRY  = INSIDE + 2,
};

/*
 * Under d_lock, but for what is atomic: d_calls, d_generation, d_inside, d_kind,
 * d_lasting, d_ready, d_serial, d_writing.
 */
struct descriptor {
	struct uinterest     d_interest;   /* first */
	struct uwait_lock d_lock;
	uint32_t          d_generation;
	uint32_t          d_inside;
	uint8_t           d_kind;
	uint8_t           d_lasting;
	uint8_t           d_ready[2];
	uint8_t           d_calls[2];   /* calls since the last wait */
	uint8_t           d_turns;
	uint8_t           d_writing;
	int               d_fd;         /* constant */
	struct uwait_node *d_first[2];  /* marked: push() */
	uint64_t          d_serial[2];  /* of the events that it is registered with */
#ifdef CHECKED
	struct stat       d_file;       /* at the first call, */
	uint32_t          d_checked;    /* of this generation, plus 1 */
#endif
} __attribute__((aligned(64)));

/*
 * The arguments of a system call. It uses some of them. Where the call is inlined, they
 * stay in registers.
 */
struct op {
	void               *o_buffer;   /* or a message, or the offset of a file */
	size_t              o_size;     /* with o_iov: skipped in the first */
	const struct iovec *o_iov;      /* instead of the buffer */
	int                 o_n;        /* or the descriptor of a file */
	int                 o_flags;
	size_t              o_short;    /* fewer bytes than this empty it */
	size_t              o_whole;    /* bytes that are to be written without others' */
	struct unet_addr   *o_from;
	const struct unet_addr *o_to;
};

/* What a call keeps while its thread is blocked, beside its arguments. */
struct turn {
	struct uwaiter     *t_waiter;   /* NULL: it has not waited */
	uint32_t            t_generation;
	bool                t_turn;     /* it has the turn */
};

/* Waits that were claimed under d_lock, and are finished after that. */
struct told {
	struct uwaiter    *g_taker;     /* or NULL */
	int                g_result;    /* its */
	struct uwait_node *g_others;    /* marked; by n_next */
};

/* As deadline 0, in a call that has given way. */
#define COUNTED INT64_MIN

/* Makes a system call, for a kind of descriptor: a number, or a negative error. */
typedef ssize_t attempt(int fd, const struct op *o, enum kind kind);

static struct descriptor *table[CHUNKS];        /* of arrays; atomic */
static bool *doubted;                           /* unet__doubt(); atomic */

/* Descriptors with SHARED; atomic. Locked for writing, none is adopted or forgotten. */
static uint32_t shares;
static pthread_rwlock_t adopting = PTHREAD_RWLOCK_INITIALIZER;

/* For reports. */
static const struct uwait_kind waits[] = {
	[IN]  = { .k_name = "descriptor", .k_how = " to read", .k_number = true },
	[OUT] = { .k_name = "descriptor", .k_how = " to write", .k_number = true },
};

static inline int find(int fd, struct descriptor **d);
static struct descriptor *find_chunk(int fd) __attribute__((noinline));
static void push_beside(struct uwait_node **first, struct uwait_node *n, bool in_front)
	__attribute__((noinline));
static int  adopt(struct descriptor *d, uint32_t generation);
static void found(struct descriptor *d, bool blocked);
static int  set_nonblocking(int fd);
static bool leave_to_other(int fd);
static bool has_file(struct descriptor *d, int fd);
static bool may_share(struct descriptor *d);
static int  compare_files(int a, int b);
static enum kind kind_of(int fd);
static int  fresh(int fd, enum kind kind);
static void ready(struct uinterest *interest, unsigned events);
static void ready_for_all(struct descriptor *d, unsigned events)
	__attribute__((noinline));
static void now_ready(struct descriptor *d, int direction, struct told *told);
static void wake_first(struct descriptor *d, int direction, struct told *told);
static void wake_polls(struct descriptor *d, int direction, struct told *told);
static inline int give_way(struct descriptor *d, int direction, int64_t deadline);
static inline bool is_tired(struct descriptor *d, int direction);
static inline int begin(int fd, struct descriptor **d, struct turn *t);
static inline ssize_t perform_at(attempt *try, int fd, int direction, const struct op *o,
				 int64_t deadline) __attribute__((always_inline));
static inline ssize_t perform(attempt *try, struct descriptor *d, int direction,
			      const struct op *o, int64_t deadline, uint32_t generation)
	__attribute__((always_inline));
static ssize_t general_step(attempt *try, struct descriptor *d, int direction,
			    const struct op *o, int64_t deadline, struct turn *t)
	__attribute__((noinline));
static inline bool is_native(void);
static inline ssize_t step(attempt *try, struct descriptor *d, int direction,
			   const struct op *o, int64_t deadline, struct turn *t)
	__attribute__((always_inline));
static inline ssize_t attempt_once(attempt *try, struct descriptor *d, int direction,
				   const struct op *o, struct turn *t)
	__attribute__((always_inline));
static inline bool begin_write(struct descriptor *d, const struct turn *t);
static bool await_write(struct descriptor *d);
static void take_turn(struct descriptor *d, struct turn *t) __attribute__((noinline));
static ssize_t end_turn(struct descriptor *d, int direction, struct turn *t, ssize_t n)
	__attribute__((noinline));
static inline bool is_lined(const struct descriptor *d);
static void pass_on(struct descriptor *d, int direction, bool is_useful,
		    struct told *told);
static inline int block(struct turn *t, struct descriptor *d, int direction,
			int64_t deadline) __attribute__((always_inline));
static int  begin_wait(struct descriptor *d, int direction, struct turn *t)
	__attribute__((noinline));
static inline bool is_unready(const struct descriptor *d, int direction);
static void leave_turn(struct descriptor *d, int direction, struct turn *t)
	__attribute__((noinline));
static int  may_wait(struct descriptor *d, int direction, const struct turn *t)
	__attribute__((noinline));
static int  end_wait(struct descriptor *d, int direction, int rc, struct turn *t)
	__attribute__((noinline));
static inline unsigned way_of(int direction);
static inline int add_interest(struct descriptor *d, int direction, unsigned ways,
			       uint32_t generation, struct uwaiter *w);
static int  look_again(struct uevents *e, struct descriptor *d);
static int  add_to(struct uevents *e, struct descriptor *d, int direction, unsigned ways,
		   uint32_t generation) __attribute__((noinline));
static inline void disarm(struct descriptor *d, struct uwaiter *w);

/* The table. */

/* 0; -EBADF; -ENOMEM: *d is NULL. */
static inline int find(int fd, struct descriptor **d)
{
	size_t i = (size_t)fd / CHUNK;
	struct descriptor *chunk;

	chunk = i < CHUNKS ? __atomic_load_n(&table[i], __ATOMIC_ACQUIRE) : NULL;
	*d = chunk ? &chunk[(size_t)fd % CHUNK] : find_chunk(fd);
	return *d ? 0 : i < CHUNKS ? -ENOMEM : -EBADF;
}

/* NULL: no memory, or no descriptor. */
static struct descriptor *find_chunk(int fd)
{
	size_t i = (size_t)fd / CHUNK;
	struct descriptor *chunk, *now = NULL;

	chunk = i < CHUNKS ? aligned_alloc(LINE, CHUNK * sizeof *chunk) : NULL;
	if (!chunk)
		return NULL;
	memset(chunk, 0, CHUNK * sizeof *chunk);
	for (size_t k = 0; k < CHUNK; k++) {
		chunk[k].d_interest.i_ready = ready;
		chunk[k].d_fd = (int)(i * CHUNK + k);
	}
	if (!__atomic_compare_exchange_n(&table[i], &now, chunk, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE)) {
		free(chunk);                    /* another native thread was faster */
		chunk = now;
	}
	return &chunk[(size_t)fd % CHUNK];
}

static uint32_t generation_of(const struct descriptor *d)
{
	return __atomic_load_n(&d->d_generation, __ATOMIC_ACQUIRE);
}

static enum kind get_kind(const struct descriptor *d)
{
	return __atomic_load_n(&d->d_kind, __ATOMIC_ACQUIRE);
}

static bool is_ready(const struct descriptor *d, int direction)
{
	return __atomic_load_n(&d->d_ready[direction], __ATOMIC_ACQUIRE);
}

/*
 * False must be seen before the system call looks; that takes a lock, so release will do.
 */
static void set_ready(struct descriptor *d, int direction, bool yes)
{
	__atomic_store_n(&d->d_ready[direction], yes, __ATOMIC_RELEASE);
}

/* A close and a count may be concurrent: one of the two is lost. */
static void set_calls(struct descriptor *d, int direction, unsigned n)
{
	__atomic_store_n(&d->d_calls[direction], (uint8_t)n, __ATOMIC_RELAXED);
}

static inline void leave(struct descriptor *d)
{
	__atomic_fetch_sub(&d->d_inside, 1, __ATOMIC_RELEASE);
}

/*
 * In debug builds, before a system call or a wait: finds a number that close(2) has left
 * in the table, and that is another file's now. Without O_NONBLOCK calls would block
 * natively, and no edge of the file is awaited.
 */
#ifdef CHECKED
static void check_file(struct descriptor *d, uint32_t generation)
{
	struct stat now;
	int flags;

	uwait_lock(&d->d_lock);
	flags = fcntl(d->d_fd, F_GETFL);
	if (d->d_generation == generation && get_kind(d) > CLOSING && flags >= 0
	    && fstat(d->d_fd, &now) == 0) {
		if (d->d_checked != generation + 1)
			d->d_file = now;
		d->d_checked = generation + 1;
		if (now.st_dev != d->d_file.st_dev || now.st_ino != d->d_file.st_ino
		    || !(flags & O_NONBLOCK)) {
			fprintf(stderr, "usched: descriptor %d is another file than it "
				"was, or blocks again: close() or fcntl() was called in "
				"place of unet_close() or unet_forget()\n", d->d_fd);
			abort();
		}
	}
	uwait_unlock(&d->d_lock);
}
#else
static void check_file(struct descriptor *d, uint32_t generation)
{
	(void)d;
	(void)generation;
}
#endif

/*
 * Before a system call. False: the descriptor was closed. A close changes d_generation
 * and then reads d_inside, so one of the two sees the other.
 */
static inline bool enter(struct descriptor *d, uint32_t generation)
{
	__atomic_fetch_add(&d->d_inside, ENTRY, __ATOMIC_ACQ_REL);
	if (generation_of(d) == generation) {
		check_file(d, generation);
		return true;
	}
	leave(d);
	return false;
}

/*
 * Queues, under d_lock. The first node's n_prev is the last one, so a pointer is a queue.
 * A pointer to a node is marked if that is a struct uwait_place, of a poll.
 */
static inline bool is_marked(const struct uwait_node *n)
{
	return (uintptr_t)n & 1;
}

static inline struct uwait_node *marked(struct uwait_place *p)
{
	return (struct uwait_node *)(void *)((char *)p + 1);
}

static inline struct uwait_node *plain(struct uwait_node *n)
{
	return is_marked(n) ? (struct uwait_node *)(void *)((char *)n - 1) : n;
}

static inline struct uwaiter *waiter_of(struct uwait_node *n)
{
	return is_marked(n) ? ((struct uwait_place *)(void *)plain(n))->p_waiter
			    : uwait_of(n);
}

static inline void push(struct uwait_node **first, struct uwait_node *n, bool in_front)
{
	plain(n)->n_next = NULL;
	plain(n)->n_prev = n;
	if (*first)
		push_beside(first, n, in_front);
	else
		*first = n;
}

static void push_beside(struct uwait_node **first, struct uwait_node *n, bool in_front)
{
	struct uwait_node *next = *first;

	plain(n)->n_prev = plain(next)->n_prev;
	plain(next)->n_prev = n;
	if (in_front) {
		plain(n)->n_next = next;
		*first = n;
	} else {
		plain(plain(n)->n_prev)->n_next = n;
	}
}

/* If it is there. */
static void pull(struct uwait_node **first, struct uwait_node *n)
{
	struct uwait_node *next = plain(n)->n_next, *prev = plain(n)->n_prev;

	if (!prev)
		return;
	plain(n)->n_prev = NULL;
	if (n == *first)
		*first = next;
	else
		plain(prev)->n_next = next;
	if (next)
		plain(next)->n_prev = prev;
	else if (*first)
		plain(*first)->n_prev = prev;
}

/* The first whose wait could be claimed, marked; or NULL. */
static struct uwait_node *pop(struct uwait_node **first)
{
	struct uwait_node *n;

	while ((n = *first)) {
		pull(first, n);
		if (uwait_claim(waiter_of(n)))
			break;
	}
	return n;
}

static inline unsigned turn_of(const struct descriptor *d, int direction)
{
	return d->d_turns >> 2 * direction & 3u;
}

static inline void set_turn(struct descriptor *d, int direction, unsigned turn)
{
	d->d_turns = (uint8_t)((d->d_turns & ~(3u << 2 * direction))
			       | turn << 2 * direction);
}

/* Under d_lock: none waits to write, or has the turn. */
static void end_line(struct descriptor *d)
{
	uint8_t lined = LINED;

	__atomic_compare_exchange_n(&d->d_writing, &lined, FREE, 0, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

static void add_told(struct told *told, struct uwait_node *n)
{
	plain(n)->n_next = told->g_others;
	told->g_others = n;
}

/* Under d_lock: forgets all. All waiters are to be told. */
static void reset(struct descriptor *d, enum kind kind, struct told *told)
{
	struct uwait_node *n;

	*told = (struct told){ 0 };
	__atomic_store_n(&d->d_kind, (uint8_t)kind, __ATOMIC_RELAXED);
	__atomic_store_n(&d->d_generation, d->d_generation + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&d->d_lasting, 0, __ATOMIC_RELAXED);
	if (d->d_turns & SHARED)
		__atomic_fetch_sub(&shares, 1, __ATOMIC_RELAXED);
	d->d_turns = 0;
	for (int i = IN; i <= OUT; i++) {
		set_calls(d, i, 0);
		__atomic_store_n(&d->d_serial[i], 0, __ATOMIC_RELEASE);
		set_ready(d, i, true);
		while ((n = pop(&d->d_first[i])))
			add_told(told, n);
	}
	end_line(d);
}

/* The others get this result. */
static void tell(const struct told *told, int result)
{
	struct uwait_node *n = told->g_others, *next;

	for (; n; n = next) {
		next = plain(n)->n_next;
		uwait_finish(waiter_of(n), result);
	}
	if (told->g_taker)
		uwait_finish(told->g_taker, told->g_result);
}

static int close_it(int fd)
{
	int before = defer_cancel(), rc = close(fd) ? -errno : 0;

	allow_cancel(before);
	return rc;
}

/* Enters a new descriptor. Closes it if there is no memory. */
static int fresh(int fd, enum kind kind)
{
	struct told told;
	struct descriptor *d;
	int rc = find(fd, &d);

	if (rc) {
		close_it(fd);
		return rc;
	}
	if (kind <= CLOSING)                    /* its listener is being closed */
		kind = kind_of(fd);
	uwait_lock(&d->d_lock);
	reset(d, kind, &told);
	uwait_unlock(&d->d_lock);
	tell(&told, CLOSED);                /* closed by a bare close(2) */
	return fd;
}

static bool is_new(const struct descriptor *d)
{
	return get_kind(d) <= CLOSING;
}

/* Inside: so the flags are not those of the number's next user. */
static int adopt(struct descriptor *d, uint32_t generation)
{
	int rc = -EBADF;

	while (get_kind(d) == CLOSING)
		sched_yield();                  /* by another native thread */
	pthread_rwlock_rdlock(&adopting);
	if (enter(d, generation)) {
		rc = set_nonblocking(d->d_fd);
		uwait_lock(&d->d_lock);
		if (rc >= 0 && generation_of(d) == generation)
			found(d, rc > 0);
		uwait_unlock(&d->d_lock);
		leave(d);
	}
	pthread_rwlock_unlock(&adopting);
	return rc < 0 ? rc : 0;
}

/* Under d_lock. Of several that adopt it at a time one has found that it blocked. */
static void found(struct descriptor *d, bool blocked)
{
	bool adopts = get_kind(d) == NEW;

	if (blocked)
		d->d_turns |= BLOCKED;
	if (!adopts)
		return;
	if (!blocked) {
		d->d_turns |= SHARED;
		__atomic_fetch_add(&shares, 1, __ATOMIC_RELAXED);
	}
	set_ready(d, IN, true);
	set_ready(d, OUT, true);
	__atomic_store_n(&d->d_kind, (uint8_t)kind_of(d->d_fd), __ATOMIC_RELEASE);
}

/* 1: it has blocked. */
static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && flags & O_NONBLOCK)
		return 0;
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 1;
}

static enum kind kind_of(int fd)
{
	int type = 0, protocol = 0;
	socklen_t size = sizeof type;
	struct stat status;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size)) {
		if (fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode))
			return PIPE;
		return OTHER;
	}
	size = sizeof protocol;
	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0
	    && type == SOCK_STREAM && protocol == IPPROTO_TCP)
		return TCP;
	return SOCKET;
}

int unet_adopt(int fd)
{
	struct descriptor *d;
	int rc = find(fd, &d);

	return rc ? rc : adopt(d, generation_of(d));
}

/* Between these two the number may be reused: the generation is for the second. */
static uint32_t begin_close(struct descriptor *d, struct told *told, bool *blocked)
{
	uint32_t generation;

	uwait_lock(&d->d_lock);
	*blocked = d->d_turns & BLOCKED;
	reset(d, CLOSING, told);
	generation = d->d_generation;
	uwait_unlock(&d->d_lock);
	while (__atomic_fetch_add(&d->d_inside, 0, __ATOMIC_ACQ_REL) & INSIDE)
		sched_yield();
	return generation;
}

static void end_close(struct descriptor *d, uint32_t generation, const struct told *told)
{
	uwait_lock(&d->d_lock);
	if (d->d_generation == generation)
		__atomic_store_n(&d->d_kind, NEW, __ATOMIC_RELEASE);
	uwait_unlock(&d->d_lock);
	tell(told, CLOSED);
}

int unet_close(int fd)
{
	struct told told;
	uint32_t generation;
	struct descriptor *d;
	int rc = find(fd, &d);
	bool blocked;

	if (rc)
		return rc;
	generation = begin_close(d, &told, &blocked);
	if (POLLER_ONCE)
		uevents_closing(fd);
	rc = close_it(fd) == -EBADF ? -EBADF : 0;
	end_close(d, generation, &told);
	return rc;
}

int unet_forget(int fd)
{
	struct told told;
	uint32_t generation;
	struct descriptor *d;
	int flags, rc = find(fd, &d);
	bool blocked;

	if (rc)
		return rc;
	pthread_rwlock_wrlock(&adopting);
	generation = begin_close(d, &told, &blocked);
	uevents_forget(fd);
	flags = fcntl(fd, F_GETFL);
	rc = flags < 0 ? -errno : 0;
	if (rc == 0 && blocked && !leave_to_other(fd))
		fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	pthread_rwlock_unlock(&adopting);
	end_close(d, generation, &told);
	return rc;
}

/*
 * While none is adopted or forgotten: whether another descriptor here has the same open
 * file, or nothing can tell. It is the one to clear O_NONBLOCK then.
 */
static bool leave_to_other(int fd)
{
	for (size_t i = 0; i < CHUNKS && __atomic_load_n(&shares, __ATOMIC_RELAXED);
	     i++) {
		struct descriptor *chunk = __atomic_load_n(&table[i], __ATOMIC_ACQUIRE);

		for (size_t k = 0; chunk && k < CHUNK; k++)
			if (has_file(&chunk[k], fd))
				return true;
	}
	return false;
}

/* Inside, so its number is that of its file. */
static bool has_file(struct descriptor *d, int fd)
{
	uint32_t generation = generation_of(d);
	int other = 1;

	if (!may_share(d) || !enter(d, generation))
		return false;
	other = compare_files(fd, d->d_fd);
	uwait_lock(&d->d_lock);
	if (generation_of(d) != generation)
		other = 1;
	if (other == 0)
		d->d_turns |= BLOCKED;
	uwait_unlock(&d->d_lock);
	leave(d);
	return other <= 0;
}

static bool may_share(struct descriptor *d)
{
	bool may;

	if (is_new(d))
		return false;
	uwait_lock(&d->d_lock);
	may = d->d_turns & SHARED;
	uwait_unlock(&d->d_lock);
	return may;
}

/* 0: their open files are the same; 1: they are not; an error: that cannot be told. */
static int compare_files(int a, int b)
{
#ifdef SYS_kcmp
	const int file = 0;             /* KCMP_FILE of linux/kcmp.h, which musl lacks */
	long rc = syscall(SYS_kcmp, getpid(), getpid(), file, a, b);

	return rc < 0 ? -errno : rc > 0;
#else
	(void)a;
	(void)b;
	return -ENOSYS;
#endif
}

bool unet__is_idle(int fd)
{
	struct descriptor *d;
	bool idle;

	if (find(fd, &d))
		return true;
	uwait_lock(&d->d_lock);
	idle = !d->d_first[IN] && !d->d_first[OUT] && !(d->d_turns & TURNS)
		&& !(__atomic_load_n(&d->d_inside, __ATOMIC_ACQUIRE) & INSIDE);
	uwait_unlock(&d->d_lock);
	return idle;
}

void unet__renewed(int fd)
{
	size_t i = (size_t)fd / CHUNK;
	struct descriptor *d = i < CHUNKS ? __atomic_load_n(&table[i], __ATOMIC_ACQUIRE)
					  : NULL;
	struct told told;

	if (!d || is_new(d += (size_t)fd % CHUNK))
		return;
	uwait_lock(&d->d_lock);
	reset(d, NEW, &told);
	uwait_unlock(&d->d_lock);
	tell(&told, CLOSED);
}

void unet__doubt(bool *found)
{
	__atomic_store_n(&doubted, found, __ATOMIC_RELAXED);
}

/* What is in the table may be half changed, and has waiters that are not there. */
void unet__forked(void)
{
	for (size_t i = 0; i < CHUNKS; i++)
		__atomic_store_n(&table[i], NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&shares, 0, __ATOMIC_RELAXED);
	adopting = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
}

int unet_shutdown(int fd, int how)
{
	return shutdown(fd, how) ? -errno : 0;
}

/* Waiting. */

/* Under d_lock: it is ready. Those that wait for that are to be told. */
static void now_ready(struct descriptor *d, int direction, struct told *told)
{
	unsigned turn = turn_of(d, direction);

	if (turn == GIVEN)
		return;                         /* that one will see it */
	set_ready(d, direction, true);
	if (turn == NONE && d->d_first[direction])
		wake_first(d, direction, told);
}

/* Under d_lock: polls, and the first of others. Unless it is alone it gets the turn. */
static void wake_first(struct descriptor *d, int direction, struct told *told)
{
	struct uwait_node *n;

	while ((n = pop(&d->d_first[direction])) && is_marked(n))
		add_told(told, n);
	if (n && (direction == OUT || d->d_first[direction])) {
		set_turn(d, direction, GIVEN);
		set_ready(d, direction, false);
		told->g_result = TURN;
	} else if (n) {
		told->g_result = READY;
	} else if (direction == OUT) {
		end_line(d);
	}
	told->g_taker = n ? uwait_of(n) : NULL;
}

/* Under d_lock: all polls. */
static void wake_polls(struct descriptor *d, int direction, struct told *told)
{
	struct uwait_node *n = d->d_first[direction], *next;

	for (; n; n = next) {
		next = plain(n)->n_next;
		if (!is_marked(n) || !uwait_claim(waiter_of(n)))
			continue;
		pull(&d->d_first[direction], n);
		add_told(told, n);
	}
}

/*
 * Under d_lock, by a dispatcher or native thread that got an event: else each event would
 * wake a processor that has nothing to do with the descriptor any more. Native threads
 * poll only while they wait, so theirs stay. Not while it is closed: the number is not to
 * be used then.
 */
static inline void unwatch(struct descriptor *d)
{
	struct uevents *e = usched__here()->s_events;

	if (e && d->d_serial[IN] != e->e_serial && d->d_serial[OUT] != e->e_serial)
		uevents_remove(e, d->d_fd);
}

enum {
	ENDS    = UEVENTS_HANGUP | UEVENTS_ERROR,
	LASTING = UEVENTS_PEER_END | UEVENTS_URGENT | ENDS,
};

/* i_ready: on the native thread of a dispatcher that it is registered with. */
static void ready(struct uinterest *interest, unsigned events)
{
	struct descriptor *d = (struct descriptor *)(void *)interest;
	struct uwait_node *n;
	struct uwaiter *w = NULL;

	uwait_lock(&d->d_lock);
	n = d->d_first[IN];
	if (events & LASTING || d->d_turns & TURNS || d->d_first[OUT]
	    || (n && (is_marked(n) || n->n_next))) {
		ready_for_all(d, events);
		return;
	}
	if (events & UEVENTS_INPUT) {
		set_ready(d, IN, true);
		if (n && uwait_claim(uwait_of(n))) {
			w = uwait_of(n);
			n->n_prev = NULL;
			d->d_first[IN] = n = NULL;
		}
	}
	if (events & UEVENTS_OUTPUT)
		set_ready(d, OUT, true);
	if (!n && !is_new(d))
		unwatch(d);
	uwait_unlock(&d->d_lock);
	if (w)
		uwait_finish(w, READY);
}

/* Under d_lock, which it releases. */
static void ready_for_all(struct descriptor *d, unsigned events)
{
	struct told readers = { 0 }, writers = { 0 };

	if (events & LASTING) {                 /* may not end the wait of the first */
		__atomic_store_n(&d->d_lasting, 1, __ATOMIC_RELAXED);
		wake_polls(d, IN, &readers);
		wake_polls(d, OUT, &writers);
	}
	if (events & (UEVENTS_INPUT | LASTING))
		now_ready(d, IN, &readers);
	if (events & (UEVENTS_OUTPUT | ENDS))
		now_ready(d, OUT, &writers);
	if (!d->d_first[IN] && !d->d_first[OUT] && !is_new(d))
		unwatch(d);
	uwait_unlock(&d->d_lock);
	tell(&readers, READY);
	tell(&writers, READY);
}

/*
 * A thread that never has to wait yields all the same. The result of a cancel, if the
 * call may wait; other errors do not matter, since no wait is needed. Not if it writes
 * and may not wait: what it writes may be in a buffer that others use, too.
 */
static inline int give_way(struct descriptor *d, int direction, int64_t deadline)
{
	if (deadline == COUNTED || (direction == OUT && deadline == 0)
	    || !is_tired(d, direction))
		return 0;
	return budget_yield() == -ECANCELED && deadline > 0 ? -ECANCELED : 0;
}

/*
 * Counts a call. The third in a row looks at the clock: one reads, and one may find that
 * it has to wait. Writes seldom wait, and have one without a look for each spell.
 */
static inline bool is_tired(struct descriptor *d, int direction)
{
	unsigned calls = __atomic_load_n(&d->d_calls[direction], __ATOMIC_RELAXED) + 1u;
	bool over = calls > 2 && usched__spell(direction == OUT) == SPELL_OVER;

	set_calls(d, direction, over ? 2 : calls < UNET_BUDGET ? calls : 0);
	return over || calls >= UNET_BUDGET;
}

/*
 * A call is made of steps. A step makes the system call, or finds that the call has to
 * wait. Waits are begun and ended in functions of their own. So the frames of a blocked
 * thread are those of the public call and of uwait_block() only, and the image is no
 * larger: without memory for one the wait ends as at a deadline.
 */
static inline ssize_t perform_at(attempt *try, int fd, int direction, const struct op *o,
				 int64_t deadline)
{
	struct descriptor *d;
	int rc = find(fd, &d);

	return rc ? rc : perform(try, d, direction, o, deadline, generation_of(d));
}

static inline ssize_t perform(attempt *try, struct descriptor *d, int direction,
			      const struct op *o, int64_t deadline, uint32_t generation)
{
	struct turn t = { NULL, generation, false };
	ssize_t n = general_step(try, d, direction, o, deadline, &t);

	while (n == WAITS) {
		n = block(&t, d, direction, deadline);
		if (n == 0)
			n = general_step(try, d, direction, o, deadline, &t);
		else if (n == TURNED)
			n = end_turn(d, direction, &t, general_step(try, d, direction, o,
								    deadline, &t));
		else
			break;
	}
	return n;
}

/* Of a call: its system calls all use the generation of its beginning. */
static inline int begin(int fd, struct descriptor **d, struct turn *t)
{
	int rc = find(fd, d);

	*t = (struct turn){ NULL, rc ? 0 : generation_of(*d), false };
	return rc;
}

static ssize_t general_step(attempt *try, struct descriptor *d, int direction,
			    const struct op *o, int64_t deadline, struct turn *t)
{
	bool native = is_native();
	int before = native ? defer_cancel() : 0;
	ssize_t n = step(try, d, direction, o, deadline, t);

	if (native)
		allow_cancel(before);
	return n;
}

/* The caller is in no thread, so it may be cancelled: cancel.h. */
static inline bool is_native(void)
{
	return __builtin_expect(!usched__here()->s_current, 0);
}

/* Inlined with each system call. */
static inline ssize_t step(attempt *try, struct descriptor *d, int direction,
			   const struct op *o, int64_t deadline, struct turn *t)
{
	ssize_t n;
	int rc = 0;

	if (is_new(d))
		rc = adopt(d, t->t_generation);
	if (rc == 0 && !t->t_waiter && (deadline <= 0 || is_ready(d, direction)))
		rc = give_way(d, direction, deadline);
	if (rc)
		return rc;
	do {
		if (deadline > 0 && !is_ready(d, direction))
			return WAITS;
		n = attempt_once(try, d, direction, o, t);
	} while (n == -EINTR);
	return n == -EAGAIN ? WAITS : n;
}

/* What it returns tells whether the descriptor is still ready. */
static inline ssize_t attempt_once(attempt *try, struct descriptor *d, int direction,
				   const struct op *o, struct turn *t)
{
	enum kind kind = get_kind(d);
	ssize_t n;

	if (!enter(d, t->t_generation))
		return -EBADF;
	if (direction == OUT && !begin_write(d, t)) {
		leave(d);
		return WAITS;
	}
	set_ready(d, direction, false);
	n = try(d->d_fd, o, kind);
	if (n >= 0 ? (size_t)n >= o->o_short || kind != TCP || n == 0
		     || __atomic_load_n(&d->d_lasting, __ATOMIC_RELAXED)
		   : n != -EAGAIN)
		set_ready(d, direction, true);
	if (direction == OUT && n >= 0 && (size_t)n < o->o_whole)
		take_turn(d, t);
	if (direction == OUT && !t->t_turn)
		__atomic_store_n(&d->d_writing, FREE, __ATOMIC_RELEASE);
	leave(d);
	if (n < 0 && generation_of(d) != t->t_generation)
		return -EBADF;
	return n;
}

/* False: it is another's turn. In its own it leaves d_writing, which a close may free. */
static inline bool begin_write(struct descriptor *d, const struct turn *t)
{
	uint8_t now = FREE;

	return t->t_turn
		|| __atomic_compare_exchange_n(&d->d_writing, &now, BUSY, 0,
					       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
		|| await_write(d);
}

/* A system call of another native thread ends soon. */
static bool await_write(struct descriptor *d)
{
	uint8_t now = FREE;

	while (!__atomic_compare_exchange_n(&d->d_writing, &now, BUSY, 0,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		if (now == LINED)
			return false;
		sched_yield();
		now = FREE;
	}
	return true;
}

/* Inside, with d_writing. */
static void take_turn(struct descriptor *d, struct turn *t)
{
	if (t->t_turn)
		return;
	uwait_lock(&d->d_lock);
	if (generation_of(d) == t->t_generation) {
		__atomic_store_n(&d->d_writing, LINED, __ATOMIC_RELEASE);
		set_turn(d, OUT, RUNNING);
		t->t_turn = true;
	}
	uwait_unlock(&d->d_lock);
}

/*
 * The call has come to its end, unless n is WAITS. The next thread has the turn, if there
 * is something to do, or if it has to register.
 */
static ssize_t end_turn(struct descriptor *d, int direction, struct turn *t, ssize_t n)
{
	struct told told = { 0 };

	if (n == WAITS)
		return n;
	t->t_turn = false;
	uwait_lock(&d->d_lock);
	if (generation_of(d) == t->t_generation) {
		set_turn(d, direction, NONE);
		pass_on(d, direction, is_ready(d, direction), &told);
	}
	uwait_unlock(&d->d_lock);
	tell(&told, READY);
	return n;
}

static inline bool is_lined(const struct descriptor *d)
{
	return __atomic_load_n(&d->d_writing, __ATOMIC_RELAXED) == LINED;
}

/* Under d_lock, when a turn or a wait has ended. With poll(2) the next one registers. */
static void pass_on(struct descriptor *d, int direction, bool is_useful,
		    struct told *told)
{
	if (turn_of(d, direction) != NONE)
		return;
	if (d->d_first[direction] && (is_useful || POLLER_ONCE))
		wake_first(d, direction, told);
	else if (direction == OUT && !d->d_first[direction])
		end_line(d);
}

/*
 * Before a second wait. With poll(2) a descriptor may be ready and the call say EAGAIN
 * all the same, so that each wait ends before its deadline can.
 */
static inline bool is_late(bool waited, int64_t deadline)
{
	return POLLER_ONCE && waited && deadline != USCHED_NEVER
		&& uevents_now() >= deadline;
}

/* 0: it may be ready. */
static inline int block(struct turn *t, struct descriptor *d, int direction,
			int64_t deadline)
{
	int rc;

	t->t_waiter = is_late(t->t_waiter, deadline)
		? (struct uwaiter *)(intptr_t)-ETIMEDOUT
		: uwait_prepare_lean(deadline, true);
	rc = uwait_error(t->t_waiter);
	if (rc == 0)
		rc = begin_wait(d, direction, t);
	if (rc != WAITS)
		return t->t_turn ? end_wait(d, direction, rc, t) : rc;
	rc = uwait_block(t->t_waiter);
	return rc == READY ? 0 : end_wait(d, direction, rc, t);
}

/* WAITS; 0: it may be ready already; TURN: the same, and it still has that; an error. */
static int begin_wait(struct descriptor *d, int direction, struct turn *t)
{
	struct uwaiter *w = t->t_waiter;
	int rc = add_interest(d, direction, way_of(direction), t->t_generation, w);

	if (rc)
		return rc;
	uwait_lock(&d->d_lock);
	if (generation_of(d) != t->t_generation)
		rc = -EBADF;
	else if (direction == OUT || d->d_turns & TURNS)
		rc = may_wait(d, direction, t);
	else
		rc = is_unready(d, IN) ? WAITS : READY;
	if (rc == WAITS) {
		uwait_note(w, &waits[direction], (void *)(intptr_t)d->d_fd,
			   __builtin_return_address(0));
		uwait_begin(w);
		push(&d->d_first[direction], &w->w_node, t->t_turn);
		set_calls(d, direction, 0);
		usched__here()->s_spell.l_switches = 0; /* it may resume itself */
		if (t->t_turn)
			leave_turn(d, direction, t);
	}
	uwait_unlock(&d->d_lock);
	return rc;
}

/* Under d_lock: not ready, and no system call has it seem so. */
static inline bool is_unready(const struct descriptor *d, int direction)
{
	uint32_t before = __atomic_load_n(&d->d_inside, __ATOMIC_ACQUIRE);

	return !is_ready(d, direction) && !(before & INSIDE)
		&& __atomic_load_n(&d->d_inside, __ATOMIC_ACQUIRE) == before;
}

static void leave_turn(struct descriptor *d, int direction, struct turn *t)
{
	set_turn(d, direction, NONE);
	t->t_turn = false;
}

/* Under d_lock. With the turn it waits before all others. */
static int may_wait(struct descriptor *d, int direction, const struct turn *t)
{
	uint8_t now = FREE;

	if (t->t_turn)
		return is_unready(d, direction) ? WAITS : TURN;
	if (turn_of(d, direction) != NONE || (direction == OUT && is_lined(d)))
		return WAITS;
	if (!is_unready(d, direction))
		return READY;
	if (direction == OUT
	    && !__atomic_compare_exchange_n(&d->d_writing, &now, LINED, 0,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return READY;
	return WAITS;
}

/* The result of a wait that is not READY; or an error before it began. */
static int end_wait(struct descriptor *d, int direction, int rc, struct turn *t)
{
	struct uwaiter *w = uwait_self();
	struct told told = { 0 };

	if (rc == CLOSED)
		return -EBADF;
	uwait_lock(&d->d_lock);
	if (generation_of(d) != t->t_generation) {
		t->t_turn = false;
	} else if (rc == TURN) {
		t->t_turn = true;
		set_turn(d, direction, RUNNING);
		set_ready(d, direction, true);          /* for the step */
	} else {
		if (t->t_turn)
			set_turn(d, direction, NONE);
		else
			pull(&d->d_first[direction], &w->w_node);
		pass_on(d, direction, t->t_turn && is_ready(d, direction), &told);
		t->t_turn = false;
	}
	if (w)
		disarm(d, w);
	uwait_unlock(&d->d_lock);
	tell(&told, READY);
	return rc == TURN ? TURNED : rc;
}

static inline unsigned way_of(int direction)
{
	return direction == OUT ? UEVENTS_OUTPUT : UEVENTS_INPUT;
}

/* Registers, once for each dispatcher or native thread: edges stay registered. */
static inline int add_interest(struct descriptor *d, int direction, unsigned ways,
			       uint32_t generation, struct uwaiter *w)
{
	struct uevents *e;
	int rc = uwait_events(w, &e);

	check_file(d, generation);
	if (rc)
		return rc;
	if (!POLLER_ONCE && !__atomic_load_n(&doubted, __ATOMIC_RELAXED)
	    && __atomic_load_n(&d->d_serial[direction], __ATOMIC_ACQUIRE) == e->e_serial)
		return 0;
	return add_to(e, d, direction, ways, generation);
}

/*
 * Under d_lock, before a wait on a dispatcher with which it is registered. If its file is
 * another one, that is tried first, as it may be ready, and have blocked.
 */
static int look_again(struct uevents *e, struct descriptor *d)
{
	bool all = d->d_serial[OUT] == e->e_serial;
	int rc = uevents__again(e, d->d_fd, way_of(all ? OUT : IN), &d->d_interest);

	if (rc)
		return rc;
	__atomic_store_n(doubted, true, __ATOMIC_RELAXED);
	rc = set_nonblocking(d->d_fd);
	__atomic_store_n(&d->d_kind, (uint8_t)kind_of(d->d_fd), __ATOMIC_RELEASE);
	set_ready(d, IN, true);
	set_ready(d, OUT, true);
	return rc < 0 ? rc : 0;
}

/* Not after a close: d_serial would be taken for that of the number's next user. */
static int add_to(struct uevents *e, struct descriptor *d, int direction, unsigned ways,
		  uint32_t generation)
{
	int rc = 0;

	if (!POLLER_ONCE)
		ways = way_of(direction);       /* or all: for edges it is the same */
	uwait_lock(&d->d_lock);
	if (generation_of(d) != generation)
		rc = -EBADF;
	else if (!POLLER_ONCE && __atomic_load_n(&doubted, __ATOMIC_RELAXED)
		 && (d->d_serial[direction] == e->e_serial
		     || d->d_serial[OUT] == e->e_serial))
		rc = look_again(e, d);
	else if (POLLER_ONCE || direction == OUT || d->d_serial[OUT] != e->e_serial)
		rc = uevents_want(e, d->d_fd, ways, &d->d_interest);
	if (rc == -EEXIST)
		rc = 0;
	if (rc == 0)
		__atomic_store_n(&d->d_serial[direction], e->e_serial, __ATOMIC_RELEASE);
	uwait_unlock(&d->d_lock);
	return rc;
}

/* Under d_lock, after a wait: all that is left makes each look of poll(2) longer. */
static inline void disarm(struct descriptor *d, struct uwaiter *w)
{
	struct uevents *e;

	if (POLLER_ONCE && !d->d_first[IN] && !d->d_first[OUT]
	    && uwait_events(w, &e) == 0)
		uevents_remove(e, d->d_fd);
}

/* Sleeps for RETRY, but not beyond the deadline, which must not have come. */
static int pause_until(int64_t deadline)
{
	int64_t until = usync_after(RETRY);
	struct timespec t = { 0, RETRY };
	int before;

	if (deadline <= 0 || until - RETRY >= deadline)
		return -ETIMEDOUT;
	if (ustack_self())
		return usync_sleep_until(until < deadline ? until : deadline);
	before = defer_cancel();
	nanosleep(&t, NULL);
	allow_cancel(before);
	return 0;
}

/* What the system calls ETIMEDOUT is not the deadline. */
static int failure(int error)
{
	return error == EWOULDBLOCK ? -EAGAIN : error == ETIMEDOUT ? -ETIME : -error;
}

static ssize_t result(ssize_t n)
{
	return n < 0 ? failure(errno) : n;
}

#include "private/unet_addr.inc"
#include "private/unet_transfer.inc"
#include "private/unet_open.inc"
#include "private/unet_poll.inc"
