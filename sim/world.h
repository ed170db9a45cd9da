/* SPDX-License-Identifier: MIT */
/*
 * world.h: what the files of the simulated world share. Private.
 *
 *	sim/world.c    what comes later, the clock's jumps, faults
 *	sim/fd.c       the table of descriptors: copies, flags, poll, epoll
 *	sim/local.c    eventfd, timerfd, signalfd
 *	sim/name.c     addresses, and which socket has which; names of hosts
 *	sim/net.c      pipes and sockets: connections and packets
 *	sim/socket.c   calls that make and connect them, and options
 *	sim/transfer.c reads and writes of all of these
 *
 * A descriptor of the world has a number of the system's, which a harmless descriptor of
 * the system keeps open: so the number is the lowest free one, fstat(2) has the right
 * type, and the system keeps the options of a socket. Calls on other numbers are libc's.
 * No call blocks, but returns EAGAIN, since the library does the waiting.
 *
 * Bytes and packets are pieces. A piece that was sent is in `f_coming' of the receiver
 * until its time comes, and then in `f_here'. So pieces of a connection keep their order.
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
	SIM_ALWAYS = EPOLLERR | EPOLLHUP,       /* events told without being asked for */
	SIM_ANY = SIM_IN | SIM_OUT | SIM_ALWAYS | EPOLLRDHUP,
};

/*
 * Turns a result, which may be a negative error, into that of a system call: n, or -1 and
 * errno.
 */
static inline ssize_t sim__answer(ssize_t n)
{
	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

/*
 * Begins in_NAME(), which is called in place of libc's real_NAME(). HOOK_LATER only
 * declares in_NAME().
 */
#define REPLACE(type, name, params)						\
	HOOK_LATER(type, name, params) static type in_##name params
#define HOOK_LATER(type, name, params)						\
	static type (*real_##name) params;					\
	static type in_##name params;						\
										\
	__attribute__((constructor(103))) static void hook_##name(void)		\
	{									\
		sim__hook(#name, (void (*)(void))in_##name, &real_##name);	\
	}

/*
 * Begins the function for a call on a descriptor of the world. `o' is what is open there;
 * the result is that of the call, or a negative error. On other descriptors libc's call
 * is made. params and args are without fd. SOCKET_CALL: for sockets only.
 */
#define CALL_IF(is, type, name, params, args)					\
	static ssize_t world_##name(struct sim_open *o, int fd, UNPACK params);	\
	REPLACE(type, name, (int fd, UNPACK params))				\
	{									\
		struct sim_open *o = sim__of_fd(fd);				\
										\
		return is ? (type)sim__answer(world_##name(o, fd, UNPACK args))	\
			: real_##name(fd, UNPACK args);				\
	}									\
	static ssize_t world_##name(struct sim_open *o,				\
				    __attribute__((unused)) int fd, UNPACK params)
#define UNPACK(...) __VA_ARGS__
#define CALL(...) CALL_IF(o, __VA_ARGS__)
#define SOCKET_CALL(...) CALL_IF(o && o->f_family, __VA_ARGS__)

/* A path, or an IP address as a text: "10.0.0.1" for ::ffff:10.0.0.1, too. */
struct sim_address {
	sa_family_t a_family;                   /* AF_UNIX, AF_INET; 0: none */
	in_port_t   a_port;                     /* in network order */
	socklen_t   a_size;                     /* bytes of the text */
	char        a_text[sizeof ((struct sockaddr_un *)0)->sun_path + 1];
};

/*
 * What a piece is: bytes; a connection that the peer has accepted; or the end of the
 * input.
 */
enum sim_mark { SIM_DATA, SIM_BEGINS, SIM_ENDS };

/* A piece of a stream, or a packet. */
struct sim_piece {
	STAILQ_ENTRY(sim_piece) g_next;
	size_t                  g_at;           /* bytes that were read already */
	size_t                  g_size;
	uint64_t                g_number;       /* number in the trace */
	enum sim_mark           g_what;
	struct sim_address      g_from;         /* sender of a packet */
	struct sim_address      g_to;
	char                    g_data[];
};

STAILQ_HEAD(sim_pieces, sim_piece);

/* A descriptor in an epoll instance, and the events that it is watched for. */
struct sim_watch {
	LIST_ENTRY(sim_watch)   w_of_set;
	LIST_ENTRY(sim_watch)   w_of_open;
	TAILQ_ENTRY(sim_watch)  w_ready;
	bool                    w_queued;       /* in f_ready of the set */
	int                     w_fd;
	uint32_t                w_events;       /* as for epoll, with EPOLLET ... */
	epoll_data_t            w_data;
	struct sim_open        *w_set;
	struct sim_open        *w_open;
};

struct sim_open;

/*
 * The functions of a type of descriptors. Errors are negative. NULL: EINVAL, or nothing
 * to do.
 */
struct sim_type {
	uint32_t (*t_ready)(const struct sim_open *o);          /* events that are
								   true: EPOLLIN ... */
	ssize_t  (*t_read)(struct sim_open *o, struct msghdr *m, int flags);
	ssize_t  (*t_write)(struct sim_open *o, const struct msghdr *m, int flags);
	void     (*t_close)(struct sim_open *o);                /* its last number was
								   closed */
};

enum sim_state { SIM_NEW, SIM_LISTENS, SIM_CONNECTING, SIM_CONNECTED, SIM_DEAD };

/* An open file of the world, which copies of a descriptor share. */
struct sim_open {
	const struct sim_type *f_type;
	unsigned             f_refs;            /* by numbers, peers, and what comes
						   later */
	unsigned             f_numbers;         /* numbers; 0: closed */
	struct sim_host     *f_host;            /* host of the thread that opened it;
						   NULL: none */
	LIST_HEAD(, sim_watch) f_watches;       /* watches of it in epoll instances */

	/* Pipes and sockets. A pipe is connected from the beginning. */
	enum sim_state       f_state;
	struct sim_pieces    f_here;            /* pieces that have arrived */
	struct sim_pieces    f_coming;          /* pieces on their way */
	size_t               f_pieces;          /* number of pieces in both */
	size_t               f_bytes;           /* bytes of these */
	size_t               f_room;            /* most bytes of these */
	int64_t              f_last;            /* when the piece sent last arrives */
	int64_t              f_free;            /* when the next piece can be sent */
	struct sim_open     *f_peer;
	bool                 f_input_ended;
	bool                 f_output_ended;
	bool                 f_squeezed;        /* no write has room for the moment */
	bool                 f_slow;
	bool                 f_told;            /* connect() has returned its result */
	bool                 f_abrupt;          /* SO_LINGER of 0 seconds */
	int64_t              f_silent;          /* when pieces ceased to pass; 0: they
						   pass */
	unsigned             f_tries;           /* attempts to connect */
	int                  f_error;           /* SO_ERROR */

	/* Sockets. */
	int                  f_family;          /* 0: not a socket */
	int                  f_kind;            /* SOCK_STREAM or SOCK_DGRAM */
	bool                 f_only6;
	struct timeval       f_limits[2];       /* SO_RCVTIMEO and SO_SNDTIMEO: the
						   system would round them to its ticks */
	bool                 f_bound;           /* its name is entered: sim/name.c */
	struct sim_address   f_local;
	struct sim_address   f_remote;
	LIST_ENTRY(sim_open) f_of_name;
	STAILQ_HEAD(, sim_open) f_waiting;      /* connections to be accepted */
	STAILQ_ENTRY(sim_open)  f_of_listener;
	unsigned             f_waits;           /* number of these */
	unsigned             f_backlog;

	/* Epoll instances. */
	LIST_HEAD(, sim_watch) f_set;
	TAILQ_HEAD(sim_ready, sim_watch) f_ready;       /* watches of f_set that may be
							   ready */

	/* Eventfd and timerfd: sim/local.c. */
	uint64_t             f_count;
	bool                 f_by_one;          /* EFD_SEMAPHORE */
	clockid_t            f_clock;
	int64_t              f_when;            /* when a timer expires next; 0: not
						   set */
	int64_t              f_every;
	sigset_t             f_signals;
	LIST_ENTRY(sim_open) f_of_signals;
};

/* Returns whether what `o' sends goes over the network. */
static inline bool sim__is_far(const struct sim_open *o)
{
	return o->f_family && o->f_family != AF_UNIX;
}

static inline struct sim_open *sim__hold(struct sim_open *o)
{
	o->f_refs++;
	return o;
}

/* ---- sim/world.c ---- */

/* Returns `size' bytes of zeros. Without memory the run fails. */
SIM_PRIVATE void *sim__memory(size_t size);

/* Makes the world, which is empty. From sim__begin(). */
SIM_PRIVATE void sim__world(void);

/* Calls func(o, g) at time `at', after earlier requests for the same time. Holds `o'. */
typedef void sim_later_fn(struct sim_open *o, struct sim_piece *g);
SIM_PRIVATE void sim__later(int64_t when, sim_later_fn *func, struct sim_open *o,
			    struct sim_piece *g);

/* Makes the calls that are due. */
SIM_PRIVATE void sim__catch_up(void);

/* Returns whether nothing passes between two hosts, of which each may be NULL. */
SIM_PRIVATE bool sim__is_cut(const struct sim_host *one, const struct sim_host *other);

/* Returns when `size' bytes that `o' sends now arrive at a host. */
SIM_PRIVATE int64_t sim__arrival(struct sim_open *o, struct sim_host *to, size_t size);

/* Returns how long one byte takes from `o' to a host. */
SIM_PRIVATE int64_t sim__latency(const struct sim_open *o, const struct sim_host *to);

/* ---- sim/fd.c ---- */

/*
 * Returns what is open under a number, after sim__catch_up(); NULL: the number is libc's.
 */
SIM_PRIVATE struct sim_open *sim__of_fd(int fd);

/* Returns a new open file, without a number. */
SIM_PRIVATE struct sim_open *sim__new(const struct sim_type *type);

SIM_PRIVATE void sim__drop(struct sim_open *o);

/* Ends an open file without a number. */
SIM_PRIVATE void sim__end_open(struct sim_open *o);

/*
 * Gives `o' a number, with O_NONBLOCK and O_CLOEXEC of `flags', which have these values
 * in all calls. Returns the number; or drops `o' and returns an error.
 */
SIM_PRIVATE int sim__number(struct sim_open *o, int flags);

/* Closes all descriptors of a host. */
SIM_PRIVATE void sim__close_all(const struct sim_host *host);

/* Resets the connections between two hosts; with NULL, all of one host. */
SIM_PRIVATE void sim__reset_all(const struct sim_host *one, const struct sim_host *other);

/*
 * Tells watches that these events (EPOLLIN ...) have just become true of `o', or have
 * again.
 */
SIM_PRIVATE void sim__changed(struct sim_open *o, uint32_t events);

/* ---- sim/name.c ---- */

/*
 * Reads the address in a system call. "Any" as a destination is the sender itself. 0,
 * -EINVAL, -EAFNOSUPPORT.
 */
SIM_PRIVATE int sim__take_address(const struct sim_open *o, const void *from,
				  socklen_t size, bool to_send, struct sim_address *a);

/* Writes an address to the caller of a system call, in the family of `o'. 0. */
SIM_PRIVATE int sim__give_address(const struct sim_open *o, const struct sim_address *a,
				  void *to, socklen_t *size);

/* Returns the host with an address, as `o' sees it; NULL: none. */
SIM_PRIVATE struct sim_host *sim__host_at(const struct sim_open *o,
					  const struct sim_address *to);

/* Returns the socket that gets a packet or a connection of `o' to an address; or NULL. */
SIM_PRIVATE struct sim_open *sim__socket_at(const struct sim_open *o,
					    const struct sim_address *to,
					    const struct sim_address *from);

/*
 * Enters a socket under a name; NULL: "any". Port 0 is replaced by a free one. 0,
 * -EADDRINUSE.
 */
SIM_PRIVATE int sim__enter_name(struct sim_open *o, const struct sim_address *a);
SIM_PRIVATE void sim__leave_name(struct sim_open *o);

/* Gives `o' a port for sending to an address, unless `o' has one. 0, or an error. */
SIM_PRIVATE int sim__name_for(struct sim_open *o, const struct sim_address *to);

/* Returns the address from which a packet of `o' arrives. */
SIM_PRIVATE struct sim_address sim__sender(const struct sim_open *o,
					   const struct sim_address *to);

/* ---- sim/net.c ---- */

SIM_PRIVATE struct sim_piece *sim__piece(size_t size);

/* Adds to the trace that the running thread sends or reads `g', by a socket of `host'. */
SIM_PRIVATE void sim__trace_piece(const char *event, const struct sim_host *host,
				  const struct sim_piece *g, const struct sim_host *to,
				  int64_t when);

/*
 * sim__pop() takes the first piece of a queue of `o' that is not empty; the other call
 * frees all.
 */
SIM_PRIVATE struct sim_piece *sim__pop(struct sim_open *o, struct sim_pieces *q);
SIM_PRIVATE void sim__free_pieces(struct sim_open *o, struct sim_pieces *q);

/* Functions of struct sim_type. */
SIM_PRIVATE uint32_t sim__pipe_ready(const struct sim_open *o);
SIM_PRIVATE uint32_t sim__socket_ready(const struct sim_open *o);
SIM_PRIVATE void sim__net_close(struct sim_open *o);

/* Returns SO_ERROR as a negative number, and clears it. */
SIM_PRIVATE int sim__take_error(struct sim_open *o);

/* Returns a new socket, as from socket(). */
SIM_PRIVATE struct sim_open *sim__new_socket(int family, int kind);

/* Connects two new sockets, without latency. */
SIM_PRIVATE void sim__pair(struct sim_open *a, struct sim_open *b);

/* Asks for a connection to o->f_remote. 0, or an error: -EINPROGRESS. */
SIM_PRIVATE int sim__begin_connection(struct sim_open *o);

/*
 * sim__send() sends a piece to the peer, and gives it away; the other call sends the end.
 */
SIM_PRIVATE void sim__send(struct sim_open *o, struct sim_piece *g);
SIM_PRIVATE void sim__end_output(struct sim_open *o);

/* Sends a packet to an address, or, with NULL, to the peer. 0, or an error. */
SIM_PRIVATE int sim__send_packet(struct sim_open *o, const struct sim_address *to,
				 struct sim_piece *g);

/* Ends the connection, and tells the peer. */
SIM_PRIVATE void sim__reset(struct sim_open *o);

/* Returns how many bytes the peer of `o' has room for; 0: none, or not now. */
SIM_PRIVATE size_t sim__room(const struct sim_open *o);

/* ---- sim/transfer.c ---- */

extern const struct sim_type sim__pipe_in, sim__pipe_out SIM_PRIVATE;
extern const struct sim_type sim__stream, sim__packets SIM_PRIVATE;

#endif /* USCHED_SIM_WORLD_H */
