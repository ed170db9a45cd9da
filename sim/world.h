/* SPDX-License-Identifier: MIT */
/*
 * world.h: what the files of the simulated world share. Private.
 *
 *	sim/fd.c       the table of descriptors: copies, flags, poll, epoll
 *	sim/local.c    eventfd, timerfd, signalfd; kill(), alarm() and other timers
 *	sim/name.c     addresses, and which socket has which; names of hosts
 *	sim/net.c      pipes and sockets: faults, connections, packets, transfers
 *	sim/socket.c   calls on pipes and sockets, and reads and writes of all of these
 *
 * For each descriptor of the world, the kernel has a descriptor with the same number and
 * type. This descriptor is not used for transfers. Thanks to it the number is the lowest
 * free number, fstat(2) returns the right type, and the kernel keeps the options of a
 * socket. Calls on other numbers go to libc. Calls never block, but return EAGAIN, since
 * the library does the waiting.
 *
 * What is sent is kept as pieces. A piece of a stream is in `f_coming' of the receiver
 * until the time of its arrival, and then in `f_here'. Both are queues, and no piece
 * arrives before a piece that was sent earlier.
 */
#ifndef USCHED_SIM_WORLD_H
#define USCHED_SIM_WORLD_H

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/param.h>
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
	SIM_ALWAYS = EPOLLERR | EPOLLHUP,       /* reported even if no one asks */
	SIM_ANY = SIM_IN | SIM_OUT | SIM_ALWAYS | EPOLLRDHUP,
};

static inline struct timespec sim__timespec(int64_t ns)
{
	return (struct timespec){ ns / SECOND, ns % SECOND };
}

static inline struct timeval sim__timeval(int64_t ns)
{
	return (struct timeval){ ns / SECOND, ns % SECOND / MICROSECOND };
}

/* Returns the result of a system call: n, or, if n is a negative error, -1 with errno. */
static inline ssize_t sim__answer(ssize_t n)
{
	if (n >= 0)
		return n;
	errno = (int)-n;
	return -1;
}

/* Returns n, the result of a call that the kernel has made on a descriptor. */
SIM_PRIVATE ssize_t sim__outside(ssize_t n);

/* REPLACE begins the definition of in_NAME(), which is called in place of libc's
   function, real_NAME(). */
#define REPLACE(type, name, params)						\
	static type (*real_##name) params;					\
	static type in_##name params;						\
										\
	__attribute__((constructor(103))) static void hook_##name(void)		\
	{									\
		sim__hook(#name, (void (*)(void))in_##name, &real_##name);	\
	}									\
	static type in_##name params

/*
 * CALL, or SOCKET_CALL for sockets, begins the definition of a call on a descriptor of
 * the world, with the open file `o'. The body returns the result or a negative error.
 * Calls on other descriptors go to libc, and the result to sim__outside(). `params' and
 * `args' do not contain fd.
 */
#define CALL_IF(is, type, name, params, args)					\
	static ssize_t world_##name(struct sim_open *o, int fd, UNPACK params);	\
	REPLACE(type, name, (int fd, UNPACK params))				\
	{									\
		struct sim_open *o = sim__of_fd(fd);				\
										\
		return (type)(is ? sim__answer(world_##name(o, fd, UNPACK args)) \
			      : sim__outside(real_##name(fd, UNPACK args)));	\
	}									\
	static ssize_t world_##name(struct sim_open *o,				\
				    UNUSED int fd, UNPACK params)
#define UNPACK(...) __VA_ARGS__
#define UNUSED __attribute__((unused))
#define CALL(...) CALL_IF(o, __VA_ARGS__)
#define SOCKET_CALL(...) CALL_IF(o && o->f_family, __VA_ARGS__)

/* The address of a socket: a path, or an IP address: "10.0.0.1" for ::ffff:10.0.0.1. */
struct sim_address {
	sa_family_t a_family;           /* AF_UNIX; AF_INET, also for IPv6; 0: none */
	in_port_t   a_port;             /* in network order; of a path, st_ino */
	socklen_t   a_size;             /* bytes of the text */
	char        a_text[sizeof ((struct sockaddr_un *)0)->sun_path + 1];
};

/* What a piece is: data; the answer that a connection is open; the end of the input. */
enum sim_mark { SIM_DATA, SIM_BEGINS, SIM_ENDS };

/* A piece is a part of a stream, or a packet. */
struct sim_piece {
	STAILQ_ENTRY(sim_piece) g_next;
	size_t             g_at;        /* bytes of g_data that have been read */
	size_t             g_size;
	uint64_t           g_number;    /* number of the message in the trace */
	enum sim_mark      g_what;
	int               *g_passed;    /* how many descriptors are passed, and each */
	struct sim_address g_from;      /* sender of a packet */
	struct sim_address g_to;
	char               g_data[];
};

STAILQ_HEAD(sim_pieces, sim_piece);

/* A descriptor in an epoll instance, and the events that it is watched for. */
struct sim_watch {
	LIST_ENTRY(sim_watch)  w_of_set;
	LIST_ENTRY(sim_watch)  w_of_open;
	TAILQ_ENTRY(sim_watch) w_ready;
	bool                   w_queued;        /* the watch is in f_ready of w_set */
	int                    w_fd;
	uint32_t               w_events;        /* with flags such as EPOLLET */
	epoll_data_t           w_data;
	struct sim_open       *w_set;
	struct sim_open       *w_open;
};

struct sim_open;

/* The functions of a type of descriptors. They return negative errors. If t_read or
   t_write is NULL, the call fails. t_close() may be NULL. */
struct sim_type {
	uint32_t (*t_ready)(const struct sim_open *o);  /* returns EPOLLIN and others */
	ssize_t  (*t_read)(struct sim_open *o, struct msghdr *m, int flags);
	ssize_t  (*t_write)(struct sim_open *o, const struct msghdr *m, int flags);
	void     (*t_close)(struct sim_open *o);        /* the last number is closed */
};

enum sim_state { SIM_NEW, SIM_LISTENS, SIM_CONNECTING, SIM_CONNECTED, SIM_DEAD };

/* An open file of the world, which descriptors made by dup() share. */
struct sim_open {
	const struct sim_type *f_type;
	unsigned         f_refs;        /* by numbers, peers, and calls of sim__later() */
	unsigned         f_numbers;     /* how many numbers; 0: the open file is closed */
	struct sim_host *f_host;        /* host of the thread that opened the file */
	LIST_HEAD(, sim_watch) f_watches;       /* of this file, in epoll instances */
	struct file     *f_file;        /* file in memory, or NULL; calls of the kernel
					   read such a file, which has no t_read */

	/* Members of pipes and sockets. A pipe is always connected. */
	enum sim_state    f_state;
	struct sim_pieces f_here;       /* pieces that have arrived and can be read */
	struct sim_pieces f_coming;     /* pieces that have not arrived yet */
	size_t            f_pieces;     /* number of pieces in both queues */
	size_t            f_bytes;      /* unread bytes in both queues */
	size_t            f_room;       /* limit of f_bytes */
	int64_t           f_last;       /* when the piece that was sent last arrives */
	int64_t           f_free;       /* when the line is free for the next piece */
	struct sim_open  *f_peer;
	bool              f_input_ended;
	bool              f_output_ended;
	bool              f_squeezed;   /* after a short write, no write succeeds yet */
	bool              f_slow;
	bool              f_told;       /* connect() has returned its result */
	bool              f_abrupt;     /* SO_LINGER of 0 seconds */
	int64_t           f_silent;     /* since when nothing passes; 0: all passes */
	int               f_error;      /* SO_ERROR */

	/* Members of sockets. */
	int                f_family;    /* 0: not a socket */
	int                f_kind;      /* SOCK_STREAM or SOCK_DGRAM */
	bool               f_only6;
	struct timeval     f_limits[2]; /* SO_RCVTIMEO and SO_SNDTIMEO, since the kernel
					   would round them */
	bool               f_bound;     /* f_local is in the table of names: sim/name.c */
	bool               f_shares;    /* SO_REUSEPORT, or of packets SO_REUSEADDR */
	bool               f_chosen;    /* a port for packets that was not the program's
					   choice: no server's */
	struct sim_address f_local;
	struct sim_address f_remote;
	LIST_ENTRY(sim_open) f_of_name;
	STAILQ_HEAD(, sim_open) f_waiting;      /* connections that wait for accept() */
	STAILQ_ENTRY(sim_open)  f_of_listener;
	unsigned           f_waits;     /* number of sockets in f_waiting */
	unsigned           f_backlog;

	/* Members of epoll instances. */
	LIST_HEAD(, sim_watch) f_set;
	TAILQ_HEAD(sim_ready, sim_watch) f_ready;       /* watches that may have events */

	/* Members of eventfd, timerfd and signalfd: sim/local.c. */
	uint64_t  f_count;
	bool      f_by_one;             /* EFD_SEMAPHORE */
	clockid_t f_clock;
	int64_t   f_when;               /* when the timer expires next; 0: never */
	int64_t   f_every;
	uint64_t  f_signals;            /* a bit for each */
	LIST_ENTRY(sim_open) f_of_signals;
};

/* Returns whether `o' sends over the network, as all sockets except AF_UNIX do. */
static inline bool sim__is_far(const struct sim_open *o)
{
	return o->f_family && o->f_family != AF_UNIX;
}

static inline struct sim_open *sim__hold(struct sim_open *o)
{
	o->f_refs++;
	return o;
}

/* Returns the value of SO_ERROR as a negative number, and sets SO_ERROR to 0. */
static inline int sim__take_error(struct sim_open *o)
{
	int error = o->f_error;

	o->f_error = 0;
	return -error;
}

/* ---- sim/clock.c ---- */

/* Returns `size' bytes of zeros, for free(). If there is no memory, the run fails. */
SIM_PRIVATE void *sim__memory(size_t size);

/* Requests a call func(o, g) at time `when'. Calls for the same time are made in the
   order of the requests. `o' is held until the call has been made. */
typedef void sim_later_fn(struct sim_open *o, struct sim_piece *g);
#define LATER(name) static void name(struct sim_open *o, UNUSED struct sim_piece *g)
SIM_PRIVATE void sim__later(int64_t when, sim_later_fn *func, struct sim_open *o,
			    struct sim_piece *g);

/* Makes the calls of sim__later() that are due. */
SIM_PRIVATE void sim__catch_up(void);

/* ---- sim/fd.c ---- */

/* Calls sim__catch_up(). Returns the open file of a number; NULL: not of the world. */
SIM_PRIVATE struct sim_open *sim__of_fd(int fd);

/* Returns the file in memory of a number, or NULL: sim/file.c. */
SIM_PRIVATE struct file *sim__file_of(int fd);

/* Returns st_ino of the file of a socket, which is new if `makes', or an error. */
SIM_PRIVATE int sim__socket_file(const char *path, bool makes);

/* The first returns a new open file, without a number; the second closes such a file. */
SIM_PRIVATE struct sim_open *sim__new(const struct sim_type *type);
SIM_PRIVATE void sim__end_open(struct sim_open *o);

/* Makes `fd', which the kernel has just opened, the number of `o'. Returns `fd'. If that
   is -1, or by a fault, closes `fd', drops `o', and returns -1 with errno. */
SIM_PRIVATE int sim__number(struct sim_open *o, int fd);

/* Makes `fd' a number of `o', or of no file, whatever it was before. Returns `fd'. */
SIM_PRIVATE int sim__enter_number(int fd, struct sim_open *o);

/* Closes all descriptors of a host. */
SIM_PRIVATE void sim__close_all(const struct sim_host *host);

/* Resets the connections between two hosts; `other' NULL stands for all hosts. */
SIM_PRIVATE void sim__reset_all(const struct sim_host *one, const struct sim_host *other);

/* Tells the watches of `o' that these events, such as EPOLLIN, have just happened. With
   EPOLLET, an event that was true before is reported again. */
SIM_PRIVATE void sim__changed(struct sim_open *o, uint32_t events);

/* ---- sim/name.c ---- */

/* Converts an address that the program gives; if `to_send', the wildcard address becomes
   the own host's. Returns 0, -EINVAL or -EAFNOSUPPORT. */
SIM_PRIVATE int sim__take_address(const struct sim_open *o, const void *from,
				  socklen_t size, bool to_send, struct sim_address *a);

/* Converts an address for the program, in the family of `o'. Returns 0. */
SIM_PRIVATE int sim__give_address(const struct sim_open *o, const struct sim_address *a,
				  void *to, socklen_t *size);

/* Returns the host that `o' reaches at an address, or NULL. Loopback is the own host. */
SIM_PRIVATE struct sim_host *sim__host_at(const struct sim_open *o,
					  const struct sim_address *to);

/* Returns the socket that gets what `o', with address `from', sends to `to', or NULL. */
SIM_PRIVATE struct sim_open *sim__socket_at(const struct sim_open *o,
					    const struct sim_address *to,
					    const struct sim_address *from);

/* Binds a socket to an address; NULL means the wildcard address and port 0. Port 0 is
   replaced by a free port. Returns 0 or -EADDRINUSE. */
SIM_PRIVATE int sim__enter_name(struct sim_open *o, const struct sim_address *a);

/* Binds `o', unless `o' is bound. *own is the address from which `o' sends to `to'. */
SIM_PRIVATE int sim__name_for(struct sim_open *o, const struct sim_address *to,
			      struct sim_address *own);

/* Notes the addresses of hosts that are on no simulated host: NAME=ADDRESS, and more
   after commas. Returns false if the list is wrong. */
SIM_PRIVATE bool sim__list_hosts(const char *list);

/* Returns whether clients can reach a host: sockets listen or are for packets, and no
   bound socket does not listen yet. Connected sockets do not count. */
SIM_PRIVATE bool sim__is_served(const struct sim_host *host);

/* ---- sim/net.c ---- */

/* The two ends of a pipe, and a socket. */
extern const struct sim_type sim__pipe_in, sim__pipe_out, sim__socket SIM_PRIVATE;

/* Begins a fault between hosts. */
SIM_PRIVATE void sim__break_net(const struct sim_fault *f);

/* Gives up a reference to an open file. The last one frees the file. */
SIM_PRIVATE void sim__drop(struct sim_open *o);

/* The first returns a new socket; the second connects two new sockets at once. */
SIM_PRIVATE struct sim_open *sim__new_socket(int family, int kind);
SIM_PRIVATE void sim__pair(struct sim_open *a, struct sim_open *b);

/* Begins a connection to o->f_remote. Returns 0 or an error, such as -EINPROGRESS. */
SIM_PRIVATE int sim__begin_connection(struct sim_open *o);

/* Tells the peer that no more output follows. */
SIM_PRIVATE void sim__end_output(struct sim_open *o);

/* Resets the connection of `o' on both sides at once. */
SIM_PRIVATE void sim__reset(struct sim_open *o);

#endif /* USCHED_SIM_WORLD_H */
