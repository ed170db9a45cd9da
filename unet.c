/* SPDX-License-Identifier: MIT */
/*
 * unet.c: descriptors that threads wait for.
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

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "private/cancel.h"
#include "private/check.h"
#include "private/poller.h"
#include "private/select.h"

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
	POLL_MAX   = 65536,
	RETRY      = 10000000,          /* ns: if out of descriptors, or backlog full */
	PASSING    = 16,                /* connections that failed, then a pause */
	READY      = SELECT_READY,      /* results of a grant */
	CLOSED     = SELECT_CLOSED,
	TURN       = SELECT_RESULTS,
	PARTS      = 64,                /* buffers of one system call */
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

/* The signal mask before a system call that may raise SIGPIPE. */
struct held {
	sigset_t h_before;
	bool     h_pending;
};

/* As deadline 0, in a call that has given way. */
#define COUNTED INT64_MIN

/* Makes a system call, for a kind of descriptor: a number, or a negative error. */
typedef ssize_t attempt(int fd, const struct op *o, enum kind kind);

static struct descriptor *table[CHUNKS];        /* of arrays; atomic */

/* Descriptors with SHARED; atomic. Locked for writing, none is adopted or forgotten. */
static uint32_t shares;
static pthread_rwlock_t adopting = PTHREAD_RWLOCK_INITIALIZER;

/* For reports. */
static const struct uwait_kind
	waits[] = { [IN]  = { .k_name = "descriptor", .k_how = " to read",
			      .k_number = true },
		    [OUT] = { .k_name = "descriptor", .k_how = " to write",
			      .k_number = true } },
	polls   = { .k_name = "one of several descriptors" };

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
static int  add_to(struct uevents *e, struct descriptor *d, int direction, unsigned ways,
		   uint32_t generation) __attribute__((noinline));
static inline void disarm(struct descriptor *d, struct uwaiter *w);
static ssize_t read_step(struct descriptor *d, void *buffer, size_t size,
			 int64_t deadline, struct turn *t) __attribute__((noinline));
static ssize_t read_natively(struct descriptor *d, void *buffer, size_t size,
			     int64_t deadline, struct turn *t) __attribute__((noinline));
static ssize_t write_step(struct descriptor *d, const void *buffer, size_t size,
			  size_t whole, int64_t deadline, struct turn *t)
	__attribute__((noinline));
static ssize_t write_natively(struct descriptor *d, void *buffer, size_t size,
			      size_t whole, int64_t deadline, struct turn *t)
	__attribute__((noinline));
static int poll_step(struct descriptor *d, int direction, int64_t deadline,
		     struct turn *t) __attribute__((noinline));
static inline int wait_for(int fd, int direction, int64_t deadline)
	__attribute__((always_inline));
static inline ssize_t send_by(attempt *try, int fd, const struct op *o, bool is_unix,
			      int64_t deadline) __attribute__((always_inline));
static inline int connect_at(struct descriptor *d, const struct unet_addr *a,
			     int64_t deadline, uint32_t generation)
	__attribute__((always_inline));
static inline attempt try_read, try_write __attribute__((always_inline));
static attempt try_readv, try_writev, try_recvfrom, try_sendto, try_accept, try_poll,
	try_recvmsg, try_sendmsg, try_begin, try_connect;
static attempt try_sendfile, try_parts __attribute__((noinline));       /* large frames */
static ssize_t write_one(int fd, void *buffer, size_t size, enum kind kind)
	__attribute__((noinline));
static ssize_t write_other(int fd, const struct iovec *iov, int n, enum kind kind)
	__attribute__((noinline));
static ssize_t write_pipe(int fd, const struct iovec *iov, int n);
static void hold_signal(struct held *h);
static void release_signal(const struct held *h, ssize_t rc);
static void skip(struct op *o, size_t n);
static int  pause_until(int64_t deadline);
static int  open_socket(const struct unet_addr *a, int type, unsigned flags);
static int  poll_begin(const struct pollfd *fds, size_t n, uint32_t *generations,
		       int64_t deadline);
static int  poll_once(struct pollfd *fds, size_t n, const uint32_t *generations);
static struct descriptor *polled(const struct pollfd *one);
static bool poll_inside(const struct pollfd *one, uint32_t generation);
static int  poll_closed(struct pollfd *fds, size_t n, const uint32_t *generations);
static int  poll_wait(struct pollfd *fds, size_t n, const uint32_t *generations,
			int64_t deadline);
static int  poll_enter(struct uwaiter *w, struct pollfd *fds, size_t n,
		       const uint32_t *generations, struct uwait_place **end);
static int  poll_one(struct uwait_place *place, struct descriptor *d,
		     const struct pollfd *one, int way, uint32_t generation);
static inline unsigned ways_in(int events);
static void poll_leave(struct uwaiter *w, struct pollfd *fds, size_t n,
		       struct uwait_place *place, const struct uwait_place *end);
static void poll_leave_one(struct uwaiter *w, struct descriptor *d, int way,
			   struct uwait_place *place);

/* Addresses. */

static int unix_addr(struct unet_addr *a, const char *text)
{
	struct sockaddr_un *un = (struct sockaddr_un *)(void *)&a->a_sockaddr;
	size_t size = strlen(text);

	if (size >= sizeof un->sun_path)
		return -ENAMETOOLONG;
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, text, size);
	if (text[0] == '@')
		un->sun_path[0] = '\0';
	else
		size++;
	a->a_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
	return 0;
}

static int parse_port(const char *text, in_port_t *port)
{
	unsigned n = 0;

	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -EINVAL;
		n = n * 10 + (unsigned)(*text - '0');
		if (n > 65535)
			return -EINVAL;
	}
	*port = htons((in_port_t)n);
	return 0;
}

int unet_addr(const char *text, struct unet_addr *a)
{
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&a->a_sockaddr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&a->a_sockaddr;
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	in_port_t port;
	size_t size;

	check(a, BUFFER, __func__);
	memset(a, 0, sizeof *a);
	if (text[0] == '/' || (text[0] == '@' && text[1]))
		return unix_addr(a, text);
	if (!colon || (size_t)(colon - text) >= sizeof host
	    || parse_port(colon + 1, &port))
		return -EINVAL;
	size = (size_t)(colon - text);
	memcpy(host, text, size);
	host[size] = '\0';
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = port;
		a->a_size = sizeof *in;
		return 0;
	}
	if (size == 0 || strcmp(host, "*") == 0)
		in6->sin6_addr = in6addr_any;
	else if (size < 2 || host[0] != '[' || host[size - 1] != ']')
		return -EINVAL;
	else if (host[size - 1] = '\0',
		 inet_pton(AF_INET6, host + 1, &in6->sin6_addr) != 1)
		return -EINVAL;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = port;
	a->a_size = sizeof *in6;
	return 0;
}

char *unet_text(const struct unet_addr *a, char *text)
{
	const struct sockaddr_in *in = (const void *)&a->a_sockaddr;
	const struct sockaddr_in6 *in6 = (const void *)&a->a_sockaddr;
	const struct sockaddr_un *un = (const void *)&a->a_sockaddr;
	char host[INET6_ADDRSTRLEN];
	int size;

	check(a, BUFFER, __func__);
	check(text, BUFFER, __func__);
	switch (a->a_sockaddr.ss_family) {
	case AF_INET:
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
		snprintf(text, UNET_TEXT_MAX, "%s:%u", host, ntohs(in->sin_port));
		break;
	case AF_INET6:
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
		snprintf(text, UNET_TEXT_MAX, "[%s]:%u", host, ntohs(in6->sin6_port));
		break;
	case AF_UNIX:
		size = (int)(a->a_size - offsetof(struct sockaddr_un, sun_path));
		if (size > 0 && !un->sun_path[0])
			snprintf(text, UNET_TEXT_MAX, "@%.*s", size - 1,
				 un->sun_path + 1);
		else
			snprintf(text, UNET_TEXT_MAX, "%.*s", size < 0 ? 0 : size,
				 un->sun_path);
		break;
	default:
		snprintf(text, UNET_TEXT_MAX, "?");
	}
	return text;
}

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
 * Before a system call. False: the descriptor was closed. A close changes d_generation
 * and then reads d_inside, so one of the two sees the other.
 */
static inline bool enter(struct descriptor *d, uint32_t generation)
{
	__atomic_fetch_add(&d->d_inside, ENTRY, __ATOMIC_ACQ_REL);
	if (generation_of(d) == generation)
		return true;
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
	return ustack_yield() == -ECANCELED && deadline > 0 ? -ECANCELED : 0;
}

/* Counts a call. */
static inline bool is_tired(struct descriptor *d, int direction)
{
	unsigned calls = __atomic_load_n(&d->d_calls[direction], __ATOMIC_RELAXED) + 1u;

	set_calls(d, direction, calls < UNET_BUDGET ? calls : 0);
	return calls >= UNET_BUDGET;
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
	if (rc == 0 && !t->t_waiter)
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

	if (rc)
		return rc;
	if (!POLLER_ONCE
	    && __atomic_load_n(&d->d_serial[direction], __ATOMIC_ACQUIRE) == e->e_serial)
		return 0;
	return add_to(e, d, direction, ways, generation);
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

/* Transfer. */

static inline size_t size_of(const struct iovec *iov, int n)
{
	size_t size = 0;

	for (int i = 0; i < n; i++)
		size += iov[i].iov_len;
	return size;
}

static ssize_t read_step(struct descriptor *d, void *buffer, size_t size,
			 int64_t deadline, struct turn *t)
{
	const struct op o = { .o_buffer = buffer, .o_size = size, .o_short = size };

	if (size == 0)
		deadline = 0;
	if (is_native())
		return read_natively(d, buffer, size, deadline, t);
	return step(try_read, d, IN, &o, deadline, t);
}

/* Apart, so that the caller's arguments stay in registers. */
static ssize_t read_natively(struct descriptor *d, void *buffer, size_t size,
			     int64_t deadline, struct turn *t)
{
	const struct op o = { .o_buffer = buffer, .o_size = size, .o_short = size };

	return general_step(try_read, d, IN, &o, deadline, t);
}

static ssize_t write_step(struct descriptor *d, const void *buffer, size_t size,
			  size_t whole, int64_t deadline, struct turn *t)
{
	/* It is only read. */
	const struct op o = { .o_buffer = (void *)(uintptr_t)buffer, .o_size = size,
			      .o_whole = whole };

	if (is_native())
		return write_natively(d, o.o_buffer, size, whole, deadline, t);
	return step(try_write, d, OUT, &o, deadline, t);
}

static ssize_t write_natively(struct descriptor *d, void *buffer, size_t size,
			      size_t whole, int64_t deadline, struct turn *t)
{
	const struct op o = { .o_buffer = buffer, .o_size = size,
			      .o_whole = whole };

	return general_step(try_write, d, OUT, &o, deadline, t);
}

static inline void check_iov(const struct iovec *iov, int n, const char *call)
{
	check(n > 0 ? iov : NULL, BUFFER, call);
	for (int i = 0; i < n; i++)
		check(iov[i].iov_len ? iov[i].iov_base : NULL, BUFFER, call);
}

ssize_t unet_read(int fd, void *buffer, size_t size, int64_t deadline)
{
	struct descriptor *d;
	struct turn t;
	ssize_t n = begin(fd, &d, &t);

	check(size ? buffer : NULL, BUFFER, __func__);
	if (n)
		return n;
	n = read_step(d, buffer, size, deadline, &t);
	while (n == WAITS) {
		n = block(&t, d, IN, deadline);
		if (n == 0)
			n = read_step(d, buffer, size, deadline, &t);
		else if (n == TURNED)
			n = end_turn(d, IN, &t, read_step(d, buffer, size, deadline, &t));
		else
			break;
	}
	return n;
}

ssize_t unet_write(int fd, const void *buffer, size_t size, int64_t deadline)
{
	struct descriptor *d;
	struct turn t;
	ssize_t n = begin(fd, &d, &t);

	check(size ? buffer : NULL, BUFFER, __func__);
	if (n)
		return n;
	n = write_step(d, buffer, size, 0, deadline, &t);
	while (n == WAITS) {
		n = block(&t, d, OUT, deadline);
		if (n == 0)
			n = write_step(d, buffer, size, 0, deadline, &t);
		else if (n == TURNED)
			n = end_turn(d, OUT, &t, write_step(d, buffer, size, 0, deadline,
							    &t));
		else
			break;
	}
	return n;
}

ssize_t unet_readv(int fd, const struct iovec *iov, int n, int64_t deadline)
{
	const struct op o = { .o_iov = iov, .o_n = n, .o_short = size_of(iov, n) };

	check_iov(iov, n, __func__);
	return perform_at(try_readv, fd, IN, &o, o.o_short > 0 ? deadline : 0);
}

ssize_t unet_writev(int fd, const struct iovec *iov, int n, int64_t deadline)
{
	const struct op o = { .o_iov = iov, .o_n = n };

	check_iov(iov, n, __func__);
	return perform_at(try_writev, fd, OUT, &o, deadline);
}

ssize_t unet_recvfrom(int fd, void *buffer, size_t size, int flags,
		      struct unet_addr *from, int64_t deadline)
{
	const struct op o = { .o_buffer = buffer, .o_size = size, .o_flags = flags,
			      .o_from = from };

	check(size ? buffer : NULL, BUFFER, __func__);
	check(from, BUFFER, __func__);
	return perform_at(try_recvfrom, fd, IN, &o, deadline);
}

ssize_t unet_sendto(int fd, const void *buffer, size_t size, int flags,
		    const struct unet_addr *to, int64_t deadline)
{
	/* It is only read. */
	const struct op o = { .o_buffer = (void *)(uintptr_t)buffer, .o_size = size,
			      .o_flags = flags, .o_to = to };

	check(size ? buffer : NULL, BUFFER, __func__);
	check(to, BUFFER, __func__);
	return send_by(try_sendto, fd, &o, to && to->a_sockaddr.ss_family == AF_UNIX,
		       deadline);
}

/* To an address of a UNIX socket: no event tells of room at the receiver. */
static inline ssize_t send_by(attempt *try, int fd, const struct op *o, bool is_unix,
			      int64_t deadline)
{
	struct descriptor *d;
	int rc = find(fd, &d);
	uint32_t generation;
	ssize_t n = 0;

	if (rc)
		return rc;
	generation = generation_of(d);
	if (!is_unix)
		return perform(try, d, OUT, o, deadline, generation);
	rc = give_way(d, OUT, deadline);
	while (rc == 0) {
		n = perform(try, d, OUT, o, COUNTED, generation);
		rc = n == -ETIMEDOUT ? pause_until(deadline) : 1;
	}
	return rc < 0 ? rc : n;
}

static void check_message(const struct msghdr *message, const char *call)
{
	check(message, BUFFER, call);
	check(message->msg_namelen ? message->msg_name : NULL, BUFFER, call);
	check(message->msg_controllen ? message->msg_control : NULL, BUFFER, call);
	check_iov(message->msg_iov, (int)message->msg_iovlen, call);
}

ssize_t unet_recvmsg(int fd, struct msghdr *message, int flags, int64_t deadline)
{
	const struct op o = { .o_buffer = message, .o_flags = flags };

	check_message(message, __func__);
	return perform_at(try_recvmsg, fd, IN, &o, deadline);
}

static bool goes_to_unix(const struct msghdr *message)
{
	const struct sockaddr *to = message->msg_name;

	return to && message->msg_namelen >= sizeof to->sa_family
		&& to->sa_family == AF_UNIX;
}

ssize_t unet_sendmsg(int fd, const struct msghdr *message, int flags, int64_t deadline)
{
	/* It is only read. */
	const struct op o = { .o_buffer = (void *)(uintptr_t)message, .o_flags = flags };

	check_message(message, __func__);
	return send_by(try_sendmsg, fd, &o, goes_to_unix(message), deadline);
}

ssize_t unet_sendfile(int fd, int from, off_t *offset, size_t size, int64_t deadline)
{
	const struct op o = { .o_buffer = offset, .o_size = size, .o_n = from };

	check(offset, BUFFER, __func__);
	return perform_at(try_sendfile, fd, OUT, &o, deadline);
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

static bool is_socket(enum kind kind)
{
	return kind == TCP || kind == SOCKET;
}

static inline ssize_t try_read(int fd, const struct op *o, enum kind kind)
{
	/* of no bytes, only read() returns 0 */
	if (is_socket(kind) && o->o_short > 0)
		return result(recv(fd, o->o_buffer, o->o_size, MSG_DONTWAIT));
	return result(read(fd, o->o_buffer, o->o_size));
}

static inline ssize_t try_write(int fd, const struct op *o, enum kind kind)
{
	if (is_socket(kind))
		return result(send(fd, o->o_buffer, o->o_size,
				   MSG_NOSIGNAL | MSG_DONTWAIT));
	return write_one(fd, o->o_buffer, o->o_size, kind);
}

static ssize_t try_readv(int fd, const struct op *o, enum kind kind)
{
	(void)kind;
	return result(readv(fd, o->o_iov, o->o_n));
}

static ssize_t try_writev(int fd, const struct op *o, enum kind kind)
{
	return write_other(fd, o->o_iov, o->o_n, kind);
}

static ssize_t write_one(int fd, void *buffer, size_t size, enum kind kind)
{
	struct iovec iov = { buffer, size };

	return write_other(fd, &iov, 1, kind);
}

/* Apart, since the frames are large, and threads block in its caller. */
static ssize_t write_other(int fd, const struct iovec *iov, int n, enum kind kind)
{
	struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)iov,
				  .msg_iovlen = (size_t)n };

	switch (kind) {
	case TCP:
	case SOCKET:
		return result(sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
	case NEW:
	case CLOSING:                           /* what it was is not known */
	case PIPE:
		return write_pipe(fd, iov, n);
	default:
		return result(writev(fd, iov, n));
	}
}

static ssize_t write_pipe(int fd, const struct iovec *iov, int n)
{
	struct held held;
	ssize_t rc;

	hold_signal(&held);
	rc = result(writev(fd, iov, n));
	release_signal(&held, rc);
	return rc;
}

/* No flag suppresses SIGPIPE, so it is blocked, and taken out if it came. */
static void hold_signal(struct held *h)
{
	sigset_t set, pending;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigpending(&pending);
	h->h_pending = sigismember(&pending, SIGPIPE) > 0;
	pthread_sigmask(SIG_BLOCK, &set, &h->h_before);
}

static void release_signal(const struct held *h, ssize_t rc)
{
	static const struct timespec now = { 0, 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	if (rc == -EPIPE && !h->h_pending)
		while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &h->h_before, NULL);
}

static ssize_t try_sendfile(int fd, const struct op *o, enum kind kind)
{
	struct held held;
	ssize_t rc;

	(void)kind;
	hold_signal(&held);
	rc = result(sendfile(fd, o->o_n, o->o_buffer, o->o_size));
	release_signal(&held, rc);
	return rc;
}

static ssize_t try_recvmsg(int fd, const struct op *o, enum kind kind)
{
	(void)kind;
	return result(recvmsg(fd, o->o_buffer, o->o_flags | MSG_DONTWAIT));
}

static ssize_t try_sendmsg(int fd, const struct op *o, enum kind kind)
{
	(void)kind;
	return result(sendmsg(fd, o->o_buffer, o->o_flags | MSG_DONTWAIT | MSG_NOSIGNAL));
}

static ssize_t try_recvfrom(int fd, const struct op *o, enum kind kind)
{
	struct unet_addr *a = o->o_from;

	(void)kind;
	if (!a)
		return result(recv(fd, o->o_buffer, o->o_size,
				   o->o_flags | MSG_DONTWAIT));
	a->a_size = sizeof a->a_sockaddr;
	return result(recvfrom(fd, o->o_buffer, o->o_size,
			       o->o_flags | MSG_DONTWAIT,
			       (struct sockaddr *)&a->a_sockaddr,
			       &a->a_size));
}

static ssize_t try_sendto(int fd, const struct op *o, enum kind kind)
{
	const struct sockaddr *to = o->o_to
		? (const struct sockaddr *)&o->o_to->a_sockaddr : NULL;

	(void)kind;
	return result(sendto(fd, o->o_buffer, o->o_size,
			     o->o_flags | MSG_DONTWAIT | MSG_NOSIGNAL, to,
			     o->o_to ? o->o_to->a_size : 0));
}

int unet_read_all(int fd, void *buffer, size_t size, size_t *done, int64_t deadline)
{
	struct descriptor *d;
	struct turn t;
	ssize_t n = begin(fd, &d, &t);
	size_t got = 0;

	check(size ? buffer : NULL, BUFFER, __func__);
	check(done, BUFFER, __func__);
	n = n ? n : 1;
	while (got < size && n > 0) {
		n = read_step(d, (char *)buffer + got, size - got, deadline, &t);
		if (n == WAITS) {
			n = block(&t, d, IN, deadline);
			n = n == 0 || n == TURNED ? 1 : n;      /* it goes on */
		} else {
			got += n > 0 ? (size_t)n : 0;
			t.t_waiter = NULL;
		}
	}
	if (t.t_turn)
		end_turn(d, IN, &t, 0);
	if (done)
		*done = got;
	return n < 0 ? (int)n : got < size ? -EPIPE : 0;
}

int unet_write_all(int fd, const void *buffer, size_t size, size_t *done,
		   int64_t deadline)
{
	struct descriptor *d;
	struct turn t;
	ssize_t n = begin(fd, &d, &t);
	size_t put = 0;

	check(size ? buffer : NULL, BUFFER, __func__);
	check(done, BUFFER, __func__);
	while (put < size && n >= 0) {
		n = write_step(d, (const char *)buffer + put, size - put, size - put,
			       deadline, &t);
		if (n == WAITS) {
			n = block(&t, d, OUT, deadline);
			n = n == TURNED ? 0 : n;
		} else {
			put += n > 0 ? (size_t)n : 0;
			t.t_waiter = NULL;
		}
	}
	if (t.t_turn)
		end_turn(d, OUT, &t, 0);
	if (done)
		*done = put;
	return n < 0 ? (int)n : 0;
}

int unet_writev_all(int fd, const struct iovec *iov, int n, size_t *done,
		    int64_t deadline)
{
	struct op o = { .o_iov = iov, .o_n = n, .o_whole = size_of(iov, n) };
	struct descriptor *d;
	struct turn t;
	ssize_t rc = begin(fd, &d, &t);
	const size_t size = o.o_whole;

	check_iov(iov, n, __func__);
	check(done, BUFFER, __func__);
	rc = n < 0 ? -EINVAL : rc;
	while (o.o_whole > 0 && rc >= 0) {
		rc = general_step(try_parts, d, OUT, &o, deadline, &t);
		if (rc == WAITS) {
			rc = block(&t, d, OUT, deadline);
			rc = rc == TURNED ? 0 : rc;
		} else {
			skip(&o, rc > 0 ? (size_t)rc : 0);
			t.t_waiter = NULL;
		}
	}
	if (t.t_turn)
		end_turn(d, OUT, &t, 0);
	if (done)
		*done = size - o.o_whole;
	return rc < 0 ? (int)rc : 0;
}

static void skip(struct op *o, size_t n)
{
	o->o_whole -= n;
	o->o_size += n;
	while (o->o_n > 0 && o->o_size >= o->o_iov->iov_len) {
		o->o_size -= o->o_iov->iov_len;
		o->o_iov++;
		o->o_n--;
	}
}

/* The first ones, since the caller's array stays as it is. */
static ssize_t try_parts(int fd, const struct op *o, enum kind kind)
{
	int n = o->o_n < PARTS ? o->o_n : PARTS;
	struct iovec parts[PARTS];

	memcpy(parts, o->o_iov, (size_t)n * sizeof *parts);
	parts[0].iov_base = (char *)parts[0].iov_base + o->o_size;
	parts[0].iov_len -= o->o_size;
	return write_other(fd, parts, n, kind);
}

/* Sockets. */

static int open_socket(const struct unet_addr *a, int type, unsigned flags)
{
	int family = a->a_sockaddr.ss_family, on = 1, off = 0;
	int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY,
			   flags & UNET_V6ONLY ? &on : &off, sizeof on);
	if (family != AF_UNIX && type == SOCK_STREAM)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (flags & UNET_REUSEPORT
	    && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on)) {
		int rc = -errno;

		close_it(fd);
		return rc;
	}
	return fd;
}

/* The any address, IPv4's on a machine without IPv6. */
static const struct unet_addr *any_addr(const struct unet_addr *a, struct unet_addr *any)
{
	const struct sockaddr_in6 *in6 = (const void *)&a->a_sockaddr;
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&any->a_sockaddr;

	if (in6->sin6_family != AF_INET6
	    || memcmp(&in6->sin6_addr, &in6addr_any, sizeof in6addr_any))
		return NULL;
	memset(any, 0, sizeof *any);
	in->sin_family = AF_INET;
	in->sin_port = in6->sin6_port;
	any->a_size = sizeof *in;
	return any;
}

static int bound_socket(const struct unet_addr *a, int type, unsigned flags)
{
	int fd = open_socket(a, type, flags), on = 1, rc;
	struct unet_addr any;

	if (fd == -EAFNOSUPPORT && !(flags & UNET_V6ONLY) && any_addr(a, &any)) {
		a = &any;
		fd = open_socket(a, type, flags);
	}
	if (fd < 0)
		return fd;
	if (a->a_sockaddr.ss_family != AF_UNIX && type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, (const struct sockaddr *)&a->a_sockaddr, a->a_size) == 0)
		return fd;
	rc = -errno;
	close_it(fd);
	return rc;
}

int unet_listen(const struct unet_addr *a, int backlog, unsigned flags)
{
	int fd, rc;

	check(a, BUFFER, __func__);
	fd = bound_socket(a, SOCK_STREAM, flags);
	if (fd < 0)
		return fd;
	if (listen(fd, backlog > 0 ? backlog : SOMAXCONN) == 0)
		return fresh(fd, kind_of(fd));
	rc = -errno;
	close_it(fd);
	return rc;
}

int unet_bind(const struct unet_addr *a, unsigned flags)
{
	int fd;

	check(a, BUFFER, __func__);
	fd = bound_socket(a, SOCK_DGRAM, flags);
	return fd < 0 ? fd : fresh(fd, SOCKET);
}

/* Whether the error concerns one connection, or passes. */
static bool is_passing(int rc)
{
	return rc == -ECONNABORTED || rc == -EPROTO || rc == -ENETDOWN
		|| rc == -ENOPROTOOPT
		|| rc == -EHOSTDOWN || rc == -ENONET || rc == -EHOSTUNREACH
		|| rc == -ENETUNREACH || rc == -EPERM;
}

static bool is_exhausted(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS || rc == -ENOMEM;
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

int unet_accept(int fd, struct unet_addr *peer, int64_t deadline)
{
	const struct op o = { .o_from = peer };
	struct descriptor *d;
	unsigned passed = 0;
	int new, rc = find(fd, &d);
	uint32_t generation;
	enum kind kind;

	check(peer, BUFFER, __func__);
	if (rc)
		return rc;
	generation = generation_of(d);
	kind = get_kind(d);  /* before the call: then the number may be reused */
	do {
		new = (int)perform(try_accept, d, IN, &o, deadline, generation);
		if (is_exhausted(new) || (is_passing(new) && ++passed % PASSING == 0))
			rc = pause_until(deadline);
	} while (rc == 0 && (is_exhausted(new) || is_passing(new)));
	if (rc)
		return rc;
	return new < 0 ? new : fresh(new, kind);
}

static ssize_t try_accept(int fd, const struct op *o, enum kind kind)
{
	struct unet_addr *a = o->o_from;

	(void)kind;
	if (a)
		a->a_size = sizeof a->a_sockaddr;
	return result(accept4(fd, a ? (struct sockaddr *)&a->a_sockaddr : NULL,
			      a ? &a->a_size : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

int unet_connect(const struct unet_addr *a, int64_t deadline)
{
	struct descriptor *d;
	int fd, rc;

	check(a, BUFFER, __func__);
	fd = open_socket(a, SOCK_STREAM, 0);
	if (fd >= 0)
		fd = fresh(fd, kind_of(fd));
	if (fd < 0)
		return fd;
	rc = find(fd, &d);
	if (rc == 0)
		rc = connect_at(d, a, deadline, generation_of(d));
	if (rc == 0)
		return fd;
	unet_close(fd);
	return rc;
}

int unet_connect_fd(int fd, const struct unet_addr *a, int64_t deadline)
{
	struct descriptor *d;
	int rc = find(fd, &d);

	check(a, BUFFER, __func__);
	return rc ? rc : connect_at(d, a, deadline, generation_of(d));
}

/* A UNIX socket's backlog is full: no event tells when there is a place. */
static inline int connect_at(struct descriptor *d, const struct unet_addr *a,
			     int64_t deadline, uint32_t generation)
{
	const struct op o = { .o_to = a };
	int rc;

	while ((rc = (int)perform(try_begin, d, OUT, &o, COUNTED, generation))
	       == -ETIMEDOUT) {
		rc = pause_until(deadline);
		if (rc)
			return rc;
	}
	if (rc > 0)
		rc = (int)perform(try_connect, d, OUT, &o, deadline, generation);
	return rc;
}

static int connect_once(int fd, const struct unet_addr *a)
{
	const struct sockaddr *to = (const struct sockaddr *)&a->a_sockaddr;

	return connect(fd, to, a->a_size) ? errno : 0;
}

/* 1: it goes on. */
static ssize_t try_begin(int fd, const struct op *o, enum kind kind)
{
	int rc = connect_once(fd, o->o_to);

	(void)kind;
	return rc == EINPROGRESS || rc == EALREADY || rc == EINTR ? 1 : failure(rc);
}

/* Linux has this call say how the first one ended, and others that it is connected. */
static ssize_t try_connect(int fd, const struct op *o, enum kind kind)
{
	int rc = connect_once(fd, o->o_to);

	(void)kind;
	if (rc == EISCONN)
		return 0;
	return rc == EINPROGRESS || rc == EALREADY ? -EAGAIN : failure(rc);
}

/* Signals. */

int unet_signals(const sigset_t *set)
{
	int fd;

	check(set, BUFFER, __func__);
	fd = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);
	return fd < 0 ? -errno : fresh(fd, OTHER);
}

int unet_signal(int fd, int64_t deadline)
{
	struct signalfd_siginfo info;
	ssize_t n = unet_read(fd, &info, sizeof info, deadline);

	if (n < 0)
		return (int)n;
	return n == sizeof info ? (int)info.ssi_signo : -EINVAL;
}

/* Poll. */

int unet_wait_readable(int fd, int64_t deadline)
{
	return wait_for(fd, IN, deadline);
}

int unet_wait_writable(int fd, int64_t deadline)
{
	return wait_for(fd, OUT, deadline);
}

static inline int wait_for(int fd, int direction, int64_t deadline)
{
	struct descriptor *d;
	struct turn t;
	int rc = begin(fd, &d, &t);

	if (rc)
		return rc;
	rc = poll_step(d, direction, deadline, &t);
	while (rc == WAITS) {
		rc = block(&t, d, direction, deadline);
		if (rc == TURNED)
			rc = (int)end_turn(d, direction, &t,
					   poll_step(d, direction, deadline, &t));
		else if (rc == 0 && POLLER_ONCE)
			rc = poll_step(d, direction, deadline, &t);     /* pass_on() */
	}
	return rc;
}

static int poll_step(struct descriptor *d, int direction, int64_t deadline,
		     struct turn *t)
{
	static const struct op ways[] = { [IN]  = { .o_flags = POLLIN },
					  [OUT] = { .o_flags = POLLOUT } };

	return (int)general_step(try_poll, d, direction, &ways[direction], deadline, t);
}

static ssize_t try_poll(int fd, const struct op *o, enum kind kind)
{
	struct pollfd one = { fd, (short)o->o_flags, 0 };
	ssize_t n = result(poll(&one, 1, 0));

	(void)kind;
	if (n <= 0)
		return n < 0 ? n : -EAGAIN;
	return one.revents & POLLNVAL ? -EBADF : 0;
}

/* Errors and the end are events of both directions: IN for a poll of nothing else. */
static bool wants(const struct pollfd *one, int direction)
{
	const int out = POLLOUT | POLLWRNORM | POLLWRBAND;
	const int both = POLLERR | POLLHUP | POLLNVAL;

	if (direction == OUT)
		return one->events & out;
	return one->events & ~(out | both) || !(one->events & out);
}

/* NULL: it is not to be polled, or poll(2) will say so. */
static struct descriptor *polled(const struct pollfd *one)
{
	struct descriptor *d = NULL;

	if (one->fd >= 0)
		find(one->fd, &d);
	return d;
}

/* Notes generations, and adopts what is open; poll(2) tells of what is not. */
static int poll_begin(const struct pollfd *fds, size_t n, uint32_t *generations,
		      int64_t deadline)
{
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		struct descriptor *d;
		int none = fds[i].fd < 0 ? -EBADF : find(fds[i].fd, &d);

		if (none == -ENOMEM)
			return none;
		if (none)
			continue;
		generations[i] = generation_of(d);
		if (is_new(d))
			adopt(d, generations[i]);
		if (rc == 0)
			rc = give_way(d, IN, deadline);
	}
	return rc;
}

/* Found ready by poll(2), so ready for all. */
static void forget(struct pollfd *fds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct descriptor *d = polled(&fds[i]);

		for (int way = IN; d && way <= OUT; way++)
			set_ready(d, way, true);
	}
}

/*
 * The number with revents. Readiness is forgotten before the system call, which is made
 * inside of all of them; not if one was closed, since its number may be reused.
 */
static int poll_once(struct pollfd *fds, size_t n, const uint32_t *generations)
{
	int found, before = defer_cancel();
	size_t i = 0;

	while (i < n && poll_inside(&fds[i], generations[i]))
		i++;
	found = i < n ? poll_closed(fds, n, generations) : (int)result(poll(fds, n, 0));
	if (found != 0)
		forget(fds, i);                 /* inside, so waiters know */
	while (i > 0) {
		struct descriptor *d = polled(&fds[--i]);

		if (d)
			leave(d);
	}
	allow_cancel(before);
	return found;
}

/* False: one was closed. */
static bool poll_inside(const struct pollfd *one, uint32_t generation)
{
	struct descriptor *d = polled(one);

	if (d && !enter(d, generation))
		return false;
	for (int way = IN; d && way <= OUT; way++)
		if (wants(one, way))
			set_ready(d, way, false);
	return true;
}

/* Only these are told; the next call will tell of others. */
static int poll_closed(struct pollfd *fds, size_t n, const uint32_t *generations)
{
	int found = 0;

	for (size_t i = 0; i < n; i++) {
		const struct descriptor *d = polled(&fds[i]);

		fds[i].revents = d && generation_of(d) != generations[i] ? POLLNVAL : 0;
		found += fds[i].revents != 0;
	}
	return found;
}

/* The places, if it may wait, are behind the generations. */
static size_t places_at(size_t n)
{
	return (n * sizeof(uint32_t) + LINE - 1) / LINE * LINE;
}

static void *poll_room(struct uwaiter *w, const struct pollfd *fds, size_t n,
		       int64_t deadline)
{
	size_t places = 0;

	for (size_t i = 0; i < n && deadline > 0; i++)
		places += (size_t)wants(&fds[i], IN) + wants(&fds[i], OUT);
	return uwait_room(w, places_at(n) + places * sizeof(struct uwait_place));
}

int unet_poll(struct pollfd *fds, size_t n, int64_t deadline)
{
	struct uwaiter *w;
	uint32_t *generations;
	bool waited = false;
	int rc;

	check(n ? fds : NULL, BUFFER, __func__);
	if (n > POLL_MAX)
		return -EINVAL;
	w = uwait_self();
	generations = w ? poll_room(w, fds, n, deadline) : NULL;
	if (!w || (!generations && n > 0))
		return -ENOMEM;
	rc = poll_begin(fds, n, generations, deadline);
	while (rc == 0) {
		rc = poll_once(fds, n, generations);
		if (rc == 0 && is_late(waited, deadline))
			rc = -ETIMEDOUT;
		else if (rc == 0)
			rc = poll_wait(fds, n, generations, deadline), waited = true;
		else if (rc == -EINTR)
			rc = 0;
	}
	forget(fds, n);
	return rc;
}

/* As block(), for each. 0: something may be ready. */
static int poll_wait(struct pollfd *fds, size_t n, const uint32_t *generations,
		       int64_t deadline)
{
	struct uwait_place *places, *end;
	struct uwaiter *w;
	int rc = uwait_prepare_outside(&w, deadline);

	if (rc)
		return rc;
	uwait_note(w, &polls, NULL, __builtin_return_address(0));
	uwait_begin(w);
	places = (struct uwait_place *)(void *)((char *)uwait_room(w, 0) + places_at(n));
	end = places;
	rc = poll_enter(w, fds, n, generations, &end);
	if (rc == 0 || !uwait_withdraw(w))
		rc = uwait_block(w);
	poll_leave(w, fds, n, places, end);
	return rc < 0 ? rc : 0;
}

/* 0; 1: something is ready already; an error. */
static int poll_enter(struct uwaiter *w, struct pollfd *fds, size_t n,
		      const uint32_t *generations, struct uwait_place **end)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		struct descriptor *d = polled(&fds[i]);

		for (int way = IN; way <= OUT && rc == 0; way++) {
			if (!wants(&fds[i], way))
				continue;
			**end = (struct uwait_place){ .p_waiter = w };
			if (d)
				rc = poll_one(*end, d, &fds[i], way, generations[i]);
			++*end;
		}
	}
	return rc;
}

static int poll_one(struct uwait_place *place, struct descriptor *d,
		    const struct pollfd *one, int way, uint32_t generation)
{
	int rc = add_interest(d, way, ways_in(one->events), generation, place->p_waiter);

	if (rc == -EBADF)
		return 1;
	if (rc && rc != -EPERM)                 /* a file is always ready */
		return rc;
	uwait_lock(&d->d_lock);
	rc = !is_unready(d, way) || generation_of(d) != generation;
	if (!rc)
		push(&d->d_first[way], marked(place), false);
	uwait_unlock(&d->d_lock);
	return rc;
}

/* Not more, since these would end the wait, and the next one. */
static inline unsigned ways_in(int events)
{
	return (events & (POLLIN | POLLRDNORM) ? UEVENTS_INPUT : 0u)
		| (events & (POLLPRI | POLLRDBAND) ? UEVENTS_URGENT : 0u)
		| (events & (POLLOUT | POLLWRNORM | POLLWRBAND) ? UEVENTS_OUTPUT : 0u)
		| (events & POLLRDHUP ? UEVENTS_PEER_END : 0u);
}

/* Of the places up to `end', which were entered. */
static void poll_leave(struct uwaiter *w, struct pollfd *fds, size_t n,
		       struct uwait_place *place, const struct uwait_place *end)
{
	for (size_t i = 0; i < n; i++) {
		struct descriptor *d = polled(&fds[i]);

		for (int way = IN; way <= OUT; way++) {
			if (!wants(&fds[i], way))
				continue;
			if (d && place < end)
				poll_leave_one(w, d, way, place);
			place++;
		}
	}
}

static void poll_leave_one(struct uwaiter *w, struct descriptor *d, int way,
			   struct uwait_place *place)
{
	struct told told = { 0 };

	uwait_lock(&d->d_lock);
	pull(&d->d_first[way], marked(place));
	pass_on(d, way, false, &told);
	disarm(d, w);
	uwait_unlock(&d->d_lock);
	tell(&told, READY);
}

/* Select. */

/* The wait of a select: a poll's. */
static inline bool may_enter(struct descriptor *d, int direction)
{
	return turn_of(d, direction) != NONE || (direction == OUT && is_lined(d))
		|| is_unready(d, direction);
}

static int select_begin(int fd, uint32_t *generation)
{
	struct descriptor *d;
	int rc = find(fd, &d);

	*generation = d ? generation_of(d) : 0;
	return rc == -ENOMEM ? rc : 0;
}

static bool select_is_closed(int fd, uint32_t generation)
{
	struct descriptor *d;

	return find(fd, &d) || generation_of(d) != generation;
}

static int select_try(struct uwaiter *w, int fd, int direction, uint32_t generation,
		      int64_t deadline, bool counts)
{
	struct turn t = { w, generation, false };       /* so that it does not count */
	struct descriptor *d;
	int rc = find(fd, &d);

	if (rc)
		return rc;
	if (generation_of(d) != generation)
		return -EBADF;
	if (counts && (direction == IN || deadline != 0) && is_tired(d, direction))
		return SELECT_TIRED;
	rc = poll_step(d, direction, deadline, &t);
	return rc == WAITS ? SELECT_BUSY : rc;
}

static int select_enter(struct uwait_place *place, int fd, int direction,
			uint32_t generation)
{
	struct descriptor *d;
	int rc = find(fd, &d);

	if (rc == 0)
		rc = add_interest(d, direction, way_of(direction), generation,
				  place->p_waiter);
	if (rc)
		return rc == -EPERM ? -EAGAIN : rc;     /* a file is always ready */
	uwait_lock(&d->d_lock);
	if (generation_of(d) != generation)
		rc = -EBADF;
	else if (!may_enter(d, direction))
		rc = -EAGAIN;
	if (rc == 0) {
		push(&d->d_first[direction], marked(place), false);
		set_calls(d, direction, 0);
	}
	uwait_unlock(&d->d_lock);
	return rc;
}

static void select_leave(struct uwait_place *place, int fd, int direction)
{
	struct descriptor *d;

	if (find(fd, &d) == 0)
		poll_leave_one(place->p_waiter, d, direction, place);
}

const struct uselect unet__select = {
	.s_begin     = select_begin,
	.s_is_closed = select_is_closed,
	.s_try       = select_try,
	.s_enter     = select_enter,
	.s_leave     = select_leave,
};
