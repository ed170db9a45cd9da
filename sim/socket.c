/* SPDX-License-Identifier: MIT */
/*
 * socket.c: calls that create and connect pipes and sockets, socket options, and reads
 * and writes of all descriptors of the world. Other options are those of the kernel's
 * socket with the same number. pipe() and accept() are pipe2() and accept4() here.
 */
#undef _FORTIFY_SOURCE
#include "world.h"

#include <sys/syscall.h>

enum { FILE_PART = 4096 };              /* bytes that sendfile() moves at a time */

/* ---- New pipes and sockets ---- */

/* Connects two new sockets, or the two ends of a new pipe, and gives each its number.
   Returns 0, or -1 with errno; then both are closed. */
static int number_two(struct sim_open *a, struct sim_open *b, const int made[2],
		      int fds[2])
{
	if (sim__number(a, made[0]) < 0) {
		sim__drop(b);
		close(made[1]);
		return -1;
	}
	if (sim__number(b, made[1]) < 0) {
		close(made[0]);
		return -1;
	}
	sim__pair(a, b);
	memcpy(fds, made, 2 * sizeof *fds);
	return 0;
}

REPLACE(int, pipe2, (int fds[2], int flags))
{
	struct sim_open *in;
	int made[2];

	if (real_pipe2(made, flags))
		return -1;
	in = sim__new(&sim__pipe_in);
	in->f_room = 65536;
	return number_two(in, sim__new(&sim__pipe_out), made, fds);
}

/* Returns SOCK_STREAM or SOCK_DGRAM, 0 if the world has no such sockets, or an error. */
static int kind_of(int family, int type, int protocol)
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
	int usual = kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;

	if (family != AF_INET && family != AF_INET6 && family != AF_UNIX)
		return 0;
	if (kind != SOCK_STREAM && kind != SOCK_DGRAM)
		return -ESOCKTNOSUPPORT;
	if (family != AF_UNIX && protocol && protocol != usual)
		return -EPROTONOSUPPORT;
	return kind;
}

static int (*real_socket)(int family, int type, int protocol);

/* Gives a socket a number. If the kernel has no IPv6, its socket is one of IPv4. */
static int number(struct sim_open *o, int flags)
{
	int fd = real_socket(o->f_family, o->f_kind | flags, 0);

	if (fd < 0 && errno == EAFNOSUPPORT)
		fd = real_socket(AF_INET, o->f_kind | flags, 0);
	return sim__number(o, fd);
}

REPLACE(int, socket, (int family, int type, int protocol))
{
	int kind = kind_of(family, type, protocol);

	if (kind == 0)
		return real_socket(family, type, protocol);
	return kind < 0 ? (int)sim__answer(kind)
		: number(sim__new_socket(family, kind), type & ~kind);
}

REPLACE(int, socketpair, (int family, int type, int protocol, int fds[2]))
{
	int kind = kind_of(family, type, protocol), made[2];

	if (family != AF_UNIX)
		return real_socketpair(family, type, protocol, fds);
	if (kind < 0 || real_socketpair(family, type, 0, made))
		return kind < 0 ? (int)sim__answer(kind) : -1;
	return number_two(sim__new_socket(family, kind), sim__new_socket(family, kind),
			  made, fds);
}

/* ---- Connections ---- */

/* Returns whether an option of the kernel's socket is set. */
static bool is_set(int fd, int name)
{
	int value = 0;

	syscall(SYS_getsockopt, fd, SOL_SOCKET, name, &value,
		&(socklen_t){ sizeof value });
	return value;
}

SOCKET_CALL(int, bind, (const struct sockaddr *name, socklen_t size), (name, size))
{
	struct sim_address a;
	int rc = o->f_bound ? -EINVAL : sim__take_address(o, name, size, false, &a);

	o->f_shares = is_set(fd, SO_REUSEPORT)
		|| (o->f_kind == SOCK_DGRAM && is_set(fd, SO_REUSEADDR));
	return rc ? rc : sim__enter_name(o, &a);
}

/* When an attempt to connect has ended, the next call returns the attempt's result. */
SOCKET_CALL(int, connect, (const struct sockaddr *to, socklen_t size), (to, size))
{
	bool stream = o->f_kind == SOCK_STREAM;
	struct sim_address a;
	int rc = sim__take_address(o, to, size, true, &a);

	if (!stream && size >= sizeof to->sa_family && to->sa_family == AF_UNSPEC) {
		o->f_state = SIM_NEW;
		return 0;
	}
	if (rc)
		return rc;
	if (stream && o->f_state == SIM_CONNECTING)
		return -EALREADY;
	if (stream && o->f_state != SIM_NEW)
		rc = o->f_told || o->f_state != SIM_CONNECTED ? -EISCONN : 0;
	else if (stream && o->f_error)
		return sim__take_error(o);
	else {
		o->f_remote = a;
		rc = sim__begin_connection(o);
	}
	o->f_told |= rc == 0;
	return rc;
}

SOCKET_CALL(int, listen, (int backlog), (backlog))
{
	int rc = 0;

	if (o->f_kind != SOCK_STREAM)
		return -EOPNOTSUPP;
	if (o->f_state > SIM_LISTENS || (!o->f_bound && o->f_family == AF_UNIX))
		return -EINVAL;
	if (!o->f_bound)
		rc = sim__enter_name(o, NULL);
	if (rc)
		return rc;
	o->f_state = SIM_LISTENS;
	o->f_backlog = MIN((unsigned)backlog, SOMAXCONN);
	return 0;
}

SOCKET_CALL(int, accept4, (struct sockaddr *peer, socklen_t *size, int flags),
	    (peer, size, flags))
{
	struct sim_open *s = STAILQ_FIRST(&o->f_waiting);
	int new;

	if (o->f_state != SIM_LISTENS || !s)
		return o->f_state != SIM_LISTENS ? -EINVAL : -EAGAIN;
	new = number(sim__hold(s), flags);
	if (new < 0)
		return -errno;
	STAILQ_REMOVE_HEAD(&o->f_waiting, f_of_listener);
	o->f_waits--;
	sim__give_address(s, &s->f_remote, peer, size);
	sim__drop(s);
	return new;
}

SOCKET_CALL(int, shutdown, (int how), (how))
{
	struct sim_open *peer = o->f_peer;

	if (o->f_state == SIM_LISTENS) {
		if (how != SHUT_WR) {
			o->f_state = SIM_NEW;   /* as on Linux */
			sim__changed(o, SIM_ANY);
		}
		return 0;
	}
	if (o->f_state != SIM_CONNECTED && o->f_kind == SOCK_STREAM)
		return -ENOTCONN;
	if (how != SHUT_WR) {
		o->f_input_ended = true;
		sim__changed(o, SIM_IN | EPOLLRDHUP);
		if (peer && !sim__is_far(o) && o->f_kind == SOCK_STREAM) {
			peer->f_output_ended = true;
			sim__changed(peer, SIM_OUT);
		}
	}
	if (how != SHUT_RD)
		sim__end_output(o);
	return o->f_state == SIM_CONNECTED || !sim__is_far(o) ? 0 : -ENOTCONN;
}

SOCKET_CALL(int, getsockname, (struct sockaddr *to, socklen_t *size), (to, size))
{
	return sim__give_address(o, &o->f_local, to, size);
}

SOCKET_CALL(int, getpeername, (struct sockaddr *to, socklen_t *size), (to, size))
{
	return o->f_state != SIM_CONNECTED ? -ENOTCONN
		: sim__give_address(o, &o->f_remote, to, size);
}

/* ---- Options ---- */

/* Returns whether an option is a time limit, which f_limits keeps. */
static bool is_limit(int level, int name)
{
	return level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO);
}

SOCKET_CALL(int, getsockopt, (int level, int name, void *to, socklen_t *size),
	    (level, name, to, size))
{
	const void *from = &o->f_limits[name == SO_SNDTIMEO];
	socklen_t all = is_limit(level, name) ? sizeof o->f_limits[0] : sizeof(int);
	int value;

	if (level == SOL_SOCKET && name == SO_ERROR)
		value = -sim__take_error(o);
	else if (level == SOL_SOCKET && name == SO_ACCEPTCONN)
		value = o->f_state == SIM_LISTENS;
	else if (level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF))
		value = (int)o->f_room;
	else if (!is_limit(level, name))
		return real_getsockopt(fd, level, name, to, size) ? -errno : 0;
	*size = *size < all ? *size : all;
	memcpy(to, is_limit(level, name) ? from : &value, *size);
	return 0;
}

SOCKET_CALL(int, setsockopt, (int level, int name, const void *value, socklen_t size),
	    (level, name, value, size))
{
	int v[2] = { 0 };
	size_t room;

	memcpy(v, value, size < sizeof v ? size : sizeof v);
	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
		o->f_only6 = v[0];
	if (real_setsockopt(fd, level, name, value, size))
		return -errno;
	if (is_limit(level, name))
		memcpy(&o->f_limits[name == SO_SNDTIMEO], value, sizeof o->f_limits[0]);
	room = v[0] < 2304 ? 4608 : 2 * (size_t)v[0];
	if (level == SOL_SOCKET && name == SO_LINGER)
		o->f_abrupt = v[0] && v[1] == 0;
	else if (level == SOL_SOCKET && name == SO_RCVBUF)
		o->f_room = room;
	else if (level == SOL_SOCKET && name == SO_SNDBUF && o->f_peer)
		o->f_peer->f_room = room;
	return 0;
}

/* ---- Transfers ---- */

static ssize_t get(struct sim_open *o, struct msghdr *m, int flags)
{
	m->msg_flags = 0;
	if (!o->f_type->t_read)
		return o->f_type == &sim__pipe_out ? -EBADF : -EINVAL;
	return o->f_type->t_read(o, m, flags);
}

static ssize_t put(struct sim_open *o, const struct msghdr *m, int flags)
{
	if (!o->f_type->t_write)
		return o->f_type == &sim__pipe_in ? -EBADF : -EINVAL;
	if (flags & MSG_OOB || (m->msg_controllen > 0 && o->f_family != AF_UNIX))
		return -EOPNOTSUPP;
	return o->f_type->t_write(o, m, flags);
}

/* Pointers to a struct msghdr. TO has n buffers and the address `name' of `size' bytes;
   PARTS has n buffers, and ONE a single buffer. */
#define VOID(p) ((void *)(uintptr_t)(p))
#define TO(name, size, iov, n) (&(struct msghdr){					\
	.msg_name = VOID(name), .msg_namelen = (size), .msg_iov = VOID(iov),		\
	.msg_iovlen = (n) > 0 ? (size_t)(n) : 0 })
#define PARTS(iov, n) TO(NULL, 0, iov, n)
#define ONE(data, size) PARTS((&(struct iovec){ VOID(data), size }), 1)

/* Defines a call whose body is one transfer. `call' is CALL or SOCKET_CALL. */
#define IS(call, name, params, args, result)						\
	call(ssize_t, name, params, args) { return result; }

IS(CALL, read, (void *buffer, size_t size), (buffer, size), get(o, ONE(buffer, size), 0))
IS(CALL, readv, (const struct iovec *iov, int n), (iov, n), get(o, PARTS(iov, n), 0))
IS(CALL, write, (const void *data, size_t size), (data, size), put(o, ONE(data, size), 0))
IS(CALL, writev, (const struct iovec *iov, int n), (iov, n), put(o, PARTS(iov, n), 0))
IS(SOCKET_CALL, recv, (void *buffer, size_t size, int flags), (buffer, size, flags),
   get(o, ONE(buffer, size), flags))
IS(SOCKET_CALL, recvmsg, (struct msghdr *m, int flags), (m, flags), get(o, m, flags))
IS(SOCKET_CALL, send, (const void *data, size_t size, int flags), (data, size, flags),
   put(o, ONE(data, size), flags))
IS(SOCKET_CALL, sendto, (const void *data, size_t size, int flags,
			 const struct sockaddr *to, socklen_t to_size),
   (data, size, flags, to, to_size),
   put(o, TO(to, to_size, (&(struct iovec){ VOID(data), size }), 1), flags))
IS(SOCKET_CALL, sendmsg, (const struct msghdr *m, int flags), (m, flags),
   put(o, m, flags))

SOCKET_CALL(ssize_t, recvfrom, (void *buffer, size_t size, int flags,
				struct sockaddr *from, socklen_t *from_size),
	    (buffer, size, flags, from, from_size))
{
	struct iovec all = { buffer, size };
	struct msghdr *m = TO(from, from && from_size ? *from_size : 0, &all, 1);
	ssize_t n = get(o, m, flags);

	if (n >= 0 && from_size)
		*from_size = m->msg_namelen;
	return n;
}

/* Sends the next part of a file. The offset moves only past what `o' has taken, so that
   the next call reads the rest again. */
CALL(ssize_t, sendfile, (int from, off_t *offset, size_t size), (from, offset, size))
{
	off_t at = offset ? *offset : lseek(from, 0, SEEK_CUR);
	char block[FILE_PART];
	ssize_t n = at < 0 ? -1 : pread(from, block, size < FILE_PART ? size : FILE_PART,
					at);

	n = n < 0 ? -errno : n > 0 ? put(o, ONE(block, (size_t)n), 0) : 0;
	if (n > 0 && offset)
		*offset += n;
	else if (n > 0)
		lseek(from, at + n, SEEK_SET);
	return n;
}
