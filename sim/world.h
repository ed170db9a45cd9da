/* SPDX-License-Identifier: MIT */
/*
 * world.h: what the files of the simulated world share. Private.
 *
 *	sim/world.c    what comes later, the clock's jumps, faults
 *	sim/fd.c       the table of descriptors: copies, flags, poll, epoll
 *	sim/local.c    pipes, eventfd, timerfd, signalfd
 *	sim/name.c     addresses, and which socket has which; names of hosts
 *	sim/net.c      sockets: connections and packets
 *	sim/socket.c   calls on sockets, and their options
 *	sim/transfer.c reads and writes of all of these
 *
 * A descriptor of the world is a number of the system's, which a copy of a descriptor
 * that does no harm keeps open: so it is the lowest free one, and has the type that
 * fstat(2) is asked for. Calls on other numbers are libc's. No call blocks: what would
 * returns EAGAIN, since the library waits itself.
 *
 * Bytes and packets are pieces. One that was sent is in `f_coming' of the receiver, until
 * its time; then in `f_here'. So those of a connection keep their order.
 */
#ifndef USCHED_SIM_WORLD_H
#define USCHED_SIM_WORLD_H

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "host.h"

#define MICROSECOND INT64_C(1000)               /* ns */
#define MILLISECOND INT64_C(1000000)
#define SECOND      INT64_C(1000000000)

enum {
	SIM_IN  = EPOLLIN | EPOLLRDNORM,
	SIM_OUT = EPOLLOUT | EPOLLWRNORM,
	SIM_ALWAYS = EPOLLERR | EPOLLHUP,       /* told without being asked for */
	SIM_ANY = SIM_IN | SIM_OUT | SIM_ALWAYS | EPOLLRDHUP,
};

/* Returns the result of a system call: n, or -1 with errno, from a negative error. */
static inline ssize_t sim__answer(ssize_t n)
{
	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

/* Begins in_NAME(), in place of libc's, real_NAME(). HOOK_LATER: it comes later. */
#define REPLACE(type, name, params)						\
	HOOK_LATER(type, name, params) static type in_##name params
#define HOOK_LATER(type, name, params)						\
	static type (*real_##name) params;					\
	static type in_##name params;						\
										\
	__attribute__((constructor(103))) static void hook_##name(void)		\
	{									\
		static const struct sim_hook hook = HOOK(name);			\
										\
		sim__hook(&hook, 1);						\
	}

/*
 * A call on the descriptor `fd' is `result' of `o', that is what is open, errors in it
 * are negative; or libc's call. SOCKET_CALL: only of a socket.
 */
#define CALL_IF(is, type, name, params, args, result)				\
	REPLACE(type, name, params)						\
	{									\
		struct sim_open *o = sim__of_fd(fd);				\
										\
		return is ? (type)sim__answer(result) : real_##name args;	\
	}
#define CALL(...) CALL_IF(o, __VA_ARGS__)
#define SOCKET_CALL(...) CALL_IF(o && o->f_family, __VA_ARGS__)

/* A path, or an IP address as a text: "10.0.0.1" for ::ffff:10.0.0.1, too. */
struct sim_address {
	sa_family_t a_family;                   /* AF_UNIX, AF_INET; 0: none */
	in_port_t   a_port;                     /* in the order of the network */
	socklen_t   a_size;                     /* of the text */
	char        a_text[sizeof ((struct sockaddr_un *)0)->sun_path + 1];
};

/* Bytes; or the peer has accepted the connection; or nothing comes after it. */
enum sim_mark { SIM_DATA, SIM_BEGINS, SIM_ENDS };

/* A piece of a stream, or a packet. */
struct sim_piece {
	STAILQ_ENTRY(sim_piece) g_next;
	size_t                  g_at;           /* what was read of it */
	size_t                  g_size;
	uint64_t                g_number;       /* in the trace */
	enum sim_mark           g_what;
	struct sim_address      g_from;         /* of a packet */
	struct sim_address      g_to;
	char                    g_data[];
};

struct sim_pieces {
	STAILQ_HEAD(, sim_piece) q_pieces;
	size_t                   q_bytes;
	size_t                   q_count;
};

struct sim_open;

/* Descriptors, and what is to be told of them: an epoll instance, or a poller. */
struct sim_set {
	LIST_HEAD(, sim_watch)   s_all;
	TAILQ_HEAD(sim_ready, sim_watch) s_ready;       /* may be ready */
	struct sim_open         *s_open;        /* of an epoll instance, or NULL */
};

struct sim_watch {
	LIST_ENTRY(sim_watch)   w_of_set;
	LIST_ENTRY(sim_watch)   w_of_open;
	TAILQ_ENTRY(sim_watch)  w_ready;
	bool                    w_queued;       /* in s_ready */
	int                     w_fd;
	uint32_t                w_events;       /* as epoll's, with EPOLLET ... */
	epoll_data_t            w_data;
	struct sim_set         *w_set;
	struct sim_open        *w_open;
};

/* A socket's option that was set. */
struct sim_option {
	int       p_level;
	int       p_name;
	socklen_t p_size;
	char      p_value[16];
};

enum sim_type { SIM_PIPE, SIM_STREAM, SIM_DATAGRAM, SIM_COUNTER, SIM_TIMER, SIM_SIGNALS,
		SIM_EPOLL };

/* Of a socket. A pipe is connected. */
enum sim_state { SIM_NEW, SIM_LISTENS, SIM_CONNECTING, SIM_CONNECTED, SIM_DEAD };

/* What descriptors that are copies of each other share. */
struct sim_open {
	enum sim_type        f_type;
	enum sim_state       f_state;
	unsigned             f_refs;            /* numbers, peers, and what comes later */
	unsigned             f_numbers;         /* 0: closed */
	int                  f_flags;           /* O_NONBLOCK and the like */
	struct sim_host     *f_host;            /* of the thread that made it; or NULL */
	LIST_HEAD(, sim_watch) f_watches;

	/* What has come, and what will. */
	struct sim_pieces    f_here;
	struct sim_pieces    f_coming;
	size_t               f_room;            /* bytes of both, at most */
	int64_t              f_last;            /* when what it sent last comes */
	int64_t              f_free;            /* when it can send the next */
	struct sim_open     *f_peer;
	bool                 f_far;             /* the peer is over the network */
	bool                 f_input_ended;
	bool                 f_output_ended;
	bool                 f_squeezed;        /* it can write nothing, for the moment */
	bool                 f_slow;
	bool                 f_told;            /* connect() has told how it ended */
	bool                 f_abrupt;          /* SO_LINGER of no time */
	bool                 f_gone;            /* its host has crashed */
	int64_t              f_silent;          /* since then nothing passes; or 0 */
	unsigned             f_tries;           /* to connect */
	int                  f_error;           /* SO_ERROR */

	/* A socket. */
	int                  f_family;
	int                  f_protocol;
	bool                 f_only6;
	bool                 f_bound;           /* in the table of names */
	struct sim_address   f_local;
	struct sim_address   f_remote;
	struct sim_option    f_options[12];     /* the first with p_size 0 is free */
	LIST_ENTRY(sim_open) f_of_name;
	STAILQ_HEAD(, sim_open) f_waiting;      /* to be accepted */
	STAILQ_ENTRY(sim_open)  f_of_listener;
	unsigned             f_waits;           /* their number */
	unsigned             f_backlog;

	/* Others. */
	struct sim_set      *f_set;             /* SIM_EPOLL */
	uint64_t             f_count;           /* SIM_COUNTER; SIM_SIGNALS: a bit each */
	bool                 f_by_one;          /* a semaphore */
	clockid_t            f_clock;
	int64_t              f_when;            /* SIM_TIMER: next; 0: not set */
	int64_t              f_every;
	sigset_t             f_signals;
	LIST_ENTRY(sim_open) f_of_signals;
};

/* ---- sim/world.c ---- */

/* The world is there, and empty. From sim__begin(). */
SIM_PRIVATE void sim__world(void);

/* Calls func(o, g) at that time; of one time, in the order of these calls. Holds `o'. */
SIM_PRIVATE void sim__later(int64_t when, void (*func)(struct sim_open *o,
						       struct sim_piece *g),
			    struct sim_open *o, struct sim_piece *g);

/* Does what is due. */
SIM_PRIVATE void sim__catch_up(void);

/* Returns whether nothing passes between two hosts, of which each may be NULL. */
SIM_PRIVATE bool sim__is_cut(const struct sim_host *one, const struct sim_host *other);

/* Returns when so many bytes are at that host that `o' sends now. */
SIM_PRIVATE int64_t sim__arrival(struct sim_open *o, struct sim_host *to, size_t size);

/* Returns how long one byte takes from `o' to that host. */
SIM_PRIVATE int64_t sim__latency(const struct sim_open *o, const struct sim_host *to);

/* ---- sim/fd.c ---- */

/* Returns what is open under that number, after sim__catch_up(); NULL: it is libc's. */
SIM_PRIVATE struct sim_open *sim__of_fd(int fd);

/* Returns a new one, which has no number. */
SIM_PRIVATE struct sim_open *sim__new(enum sim_type type, int flags);

/* Closes what a host has. */
SIM_PRIVATE void sim__close_all(const struct sim_host *host);

/* Returns the first that is one end of a connection between them, and is not dead. */
SIM_PRIVATE struct sim_open *sim__connection(const struct sim_host *one,
					     const struct sim_host *other);

/* Gives it a number, and returns that, or frees it and returns a negative error. */
SIM_PRIVATE int sim__number(struct sim_open *o, bool cloexec);

/* Gives numbers to both or to none. */
SIM_PRIVATE int sim__two(struct sim_open *a, struct sim_open *b, bool cloexec,
			 int fds[2]);

static inline struct sim_open *sim__hold(struct sim_open *o)
{
	if (o)
		o->f_refs++;
	return o;
}

SIM_PRIVATE void sim__drop(struct sim_open *o);

/* Returns `size' bytes, with zeros; without memory the run fails. */
SIM_PRIVATE void *sim__memory(size_t size);

/* These events (EPOLLIN ...) have just become true of it, or have again. */
SIM_PRIVATE void sim__changed(struct sim_open *o, uint32_t events);

/* Registers `fd', or changes that. 0, -EEXIST, -ENOENT, -EPERM: it is libc's, -EBADF. */
SIM_PRIVATE int sim__watch(struct sim_set *s, int fd, bool new, uint32_t events,
			   epoll_data_t data);
SIM_PRIVATE int sim__unwatch(struct sim_set *s, int fd);

/* Returns the number of events that it has found of s, at most max. */
SIM_PRIVATE int sim__find(struct sim_set *s, struct epoll_event *events, int max);

SIM_PRIVATE void sim__init_set(struct sim_set *s);
SIM_PRIVATE void sim__end_set(struct sim_set *s);

/* ---- sim/local.c: what counts ---- */

SIM_PRIVATE uint32_t sim__count_ready(const struct sim_open *o);
SIM_PRIVATE void sim__count_closed(struct sim_open *o);
SIM_PRIVATE ssize_t sim__count_read(struct sim_open *o, const struct msghdr *m);
SIM_PRIVATE ssize_t sim__count_write(struct sim_open *o, const struct msghdr *m);

/* ---- sim/name.c ---- */

/* Reads the address of a system call. 0, -EINVAL, -EAFNOSUPPORT. */
SIM_PRIVATE int sim__take_address(const struct sim_open *o, const void *from,
				  socklen_t size, struct sim_address *a);

/* The address to send to, in place of "any". */
SIM_PRIVATE void sim__resolve(struct sim_address *a);

/* Copies an address for the caller of a system call, as those of `o' are. 0. */
SIM_PRIVATE int sim__give_address(const struct sim_open *o, const struct sim_address *a,
				  void *to, socklen_t *size);

/* Returns the host that has that address, for `o'; NULL: none. */
SIM_PRIVATE struct sim_host *sim__host_at(const struct sim_open *o,
					  const struct sim_address *to);

/* Returns what is to have a packet, or a connection, of `o' to there; or NULL. */
SIM_PRIVATE struct sim_open *sim__socket_at(const struct sim_open *o,
					    const struct sim_address *to,
					    const struct sim_address *from);

/* Enters a socket with that name; a port of 0 is chosen. 0, -EADDRINUSE. */
SIM_PRIVATE int sim__enter_name(struct sim_open *o, const struct sim_address *a);
SIM_PRIVATE void sim__leave_name(struct sim_open *o);

/* Gives a socket that sends to there a port, unless it has one. 0, or an error. */
SIM_PRIVATE int sim__name_for(struct sim_open *o, const struct sim_address *to);

/* Returns the address from which a packet comes there. */
SIM_PRIVATE struct sim_address sim__sender(const struct sim_open *o,
					   const struct sim_address *to);

/* ---- sim/net.c ---- */

SIM_PRIVATE uint32_t sim__net_ready(const struct sim_open *o);
SIM_PRIVATE void sim__net_closed(struct sim_open *o);

/* Returns a new socket, as socket() has it. */
SIM_PRIVATE struct sim_open *sim__new_socket(int family, enum sim_type type, int flags);

/* Connects two that are new, without latency. */
SIM_PRIVATE void sim__pair(struct sim_open *a, struct sim_open *b);

/* Asks for a connection to o->f_remote. 0, or an error: -EINPROGRESS. */
SIM_PRIVATE int sim__begin_connection(struct sim_open *o);

/* Sends a piece to the peer, which takes it; and the end. */
SIM_PRIVATE void sim__send(struct sim_open *o, struct sim_piece *g);
SIM_PRIVATE void sim__end_output(struct sim_open *o);

/* Sends a packet to `to', or, with NULL, to the peer. 0, or an error. */
SIM_PRIVATE int sim__send_packet(struct sim_open *o, const struct sim_address *to,
				 struct sim_piece *g);

/* Ends the connection, which its peer learns. */
SIM_PRIVATE void sim__reset(struct sim_open *o);

/* Returns the room for bytes that the peer of `o' has; 0: none, or not now. */
SIM_PRIVATE size_t sim__room(const struct sim_open *o);

/* ---- sim/transfer.c ---- */

SIM_PRIVATE void sim__free_pieces(struct sim_pieces *q);
SIM_PRIVATE struct sim_piece *sim__piece(size_t size);

/* The running thread sends `g', or reads it, by way of a socket on this host. */
static inline void sim__trace_piece(const char *event, const struct sim_host *host,
				    const struct sim_piece *g, const struct sim_host *to,
				    int64_t when)
{
	const struct sim_event e = { .e_op.o_name = "", .e_host = host,
				     .e_number = sim__run.r_by };

	if (sim__run.r_trace && g->g_size > 0)
		sim__trace(event, &e, g->g_number, to, when);
}

SIM_PRIVATE void sim__push(struct sim_pieces *q, struct sim_piece *g);
SIM_PRIVATE struct sim_piece *sim__pop(struct sim_pieces *q);

/* Returns SO_ERROR, negative, which it has no longer. */
SIM_PRIVATE int sim__take_error(struct sim_open *o);

#endif /* USCHED_SIM_WORLD_H */
