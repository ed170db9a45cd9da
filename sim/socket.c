/* SPDX-License-Identifier: MIT */
/*
 * socket.c: calls on sockets that transfer nothing, and options of sockets. An option
 * that changes nothing here is stored.
 */
#include "world.h"

/* ---- New sockets ---- */

static int type_of(int family, int type, int protocol)
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
	int usual = kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;

	if (kind != SOCK_STREAM && kind != SOCK_DGRAM)
		return -ESOCKTNOSUPPORT;
	if (family != AF_UNIX && protocol && protocol != usual)
		return -EPROTONOSUPPORT;
	return kind == SOCK_STREAM ? SIM_STREAM : SIM_DATAGRAM;
}

REPLACE(int, socket, (int family, int type, int protocol))
{
	int made = type_of(family, type, protocol);

	if (family != AF_INET && family != AF_INET6 && family != AF_UNIX)
		return real_socket(family, type, protocol);
	if (made >= 0)
		made = sim__number(sim__new_socket(family, (enum sim_type)made,
						   type & SOCK_NONBLOCK),
				   type & SOCK_CLOEXEC);
	return (int)sim__answer(made);
}

REPLACE(int, socketpair, (int family, int type, int protocol, int fds[2]))
{
	int made = type_of(family, type, protocol);
	struct sim_open *a, *b;

	if (family != AF_UNIX)
		return real_socketpair(family, type, protocol, fds);
	if (made < 0)
		return (int)sim__answer(made);
	a = sim__new_socket(family, (enum sim_type)made, type & SOCK_NONBLOCK);
	b = sim__new_socket(family, (enum sim_type)made, type & SOCK_NONBLOCK);
	sim__pair(a, b);
	return (int)sim__answer(sim__two(a, b, type & SOCK_CLOEXEC, fds));
}

/* ---- Connections ---- */

static int bind_to(struct sim_open *o, const struct sockaddr *name, socklen_t size)
{
	struct sim_address a;
	int rc = sim__take_address(o, name, size, &a);

	return rc ? rc : o->f_bound ? -EINVAL : sim__enter_name(o, &a);
}

/* A stream: as far as that is known without a new attempt. 1: there is to be one. */
static int connect_state(struct sim_open *o)
{
	if (o->f_state == SIM_CONNECTING)
		return -EALREADY;
	if (o->f_state == SIM_NEW)
		return o->f_error ? sim__take_error(o) : 1;
	if (o->f_told || o->f_state != SIM_CONNECTED)
		return -EISCONN;
	o->f_told = true;
	return 0;
}

static int connect_to(struct sim_open *o, const struct sockaddr *to, socklen_t size)
{
	struct sim_address a;
	int rc;

	if (o->f_type == SIM_DATAGRAM && size >= sizeof to->sa_family
	    && to->sa_family == AF_UNSPEC) {
		o->f_state = SIM_NEW;
		return 0;
	}
	rc = sim__take_address(o, to, size, &a);
	if (rc == 0)
		rc = o->f_type == SIM_STREAM ? connect_state(o) : 1;
	if (rc == 1) {
		o->f_remote = a;
		sim__resolve(&o->f_remote);
		rc = sim__begin_connection(o);
	}
	o->f_told = o->f_told || rc == 0;
	return rc;
}

static int listen_at(struct sim_open *o, int backlog)
{
	struct sim_address any = { .a_family = AF_INET };
	int rc = 0;

	if (o->f_type != SIM_STREAM)
		return -EOPNOTSUPP;
	if (o->f_state > SIM_LISTENS || (!o->f_bound && o->f_family == AF_UNIX))
		return -EINVAL;
	any.a_size = (socklen_t)snprintf(any.a_text, sizeof any.a_text, "%s",
					 o->f_family == AF_INET ? "0.0.0.0" : "::");
	if (!o->f_bound)
		rc = sim__enter_name(o, &any);
	if (rc)
		return rc;
	o->f_state = SIM_LISTENS;
	o->f_backlog = backlog < 0 || backlog > SOMAXCONN ? SOMAXCONN : (unsigned)backlog;
	return 0;
}

static int accept_from(struct sim_open *o, struct sockaddr *peer, socklen_t *size,
		       int flags)
{
	struct sim_open *s = STAILQ_FIRST(&o->f_waiting);
	int new;

	if (o->f_state != SIM_LISTENS || !s)
		return o->f_state != SIM_LISTENS ? -EINVAL : -EAGAIN;
	s->f_flags = O_RDWR | (flags & SOCK_NONBLOCK);
	new = sim__number(sim__hold(s), flags & SOCK_CLOEXEC);
	if (new < 0)
		return new;
	STAILQ_REMOVE_HEAD(&o->f_waiting, f_of_listener);
	o->f_waits--;
	sim__give_address(s, &s->f_remote, peer, size);
	sim__drop(s);
	return new;
}

static int shut_down(struct sim_open *o, int how)
{
	if (o->f_state == SIM_LISTENS && how != SHUT_WR) {
		o->f_state = SIM_NEW;           /* as on Linux */
		sim__changed(o, SIM_ANY);
		return 0;
	}
	if (o->f_state != SIM_CONNECTED)
		return -ENOTCONN;
	if (how != SHUT_WR) {
		o->f_input_ended = true;
		sim__changed(o, SIM_IN | EPOLLRDHUP);
		if (o->f_peer && !o->f_far && o->f_type == SIM_STREAM) {
			o->f_peer->f_output_ended = true;
			sim__changed(o->f_peer, SIM_OUT);
		}
	}
	if (how != SHUT_RD)
		sim__end_output(o);
	return 0;
}

SOCKET_CALL(int, bind, (int fd, const struct sockaddr *name, socklen_t size),
	    (fd, name, size), bind_to(o, name, size))
SOCKET_CALL(int, connect, (int fd, const struct sockaddr *to, socklen_t size),
	    (fd, to, size), connect_to(o, to, size))
SOCKET_CALL(int, listen, (int fd, int backlog), (fd, backlog), listen_at(o, backlog))
SOCKET_CALL(int, accept, (int fd, struct sockaddr *peer, socklen_t *size),
	    (fd, peer, size), accept_from(o, peer, size, 0))
SOCKET_CALL(int, accept4, (int fd, struct sockaddr *peer, socklen_t *size, int flags),
	    (fd, peer, size, flags), accept_from(o, peer, size, flags))
SOCKET_CALL(int, shutdown, (int fd, int how), (fd, how), shut_down(o, how))

SOCKET_CALL(int, getsockname, (int fd, struct sockaddr *to, socklen_t *size),
	    (fd, to, size), sim__give_address(o, &o->f_local, to, size))
SOCKET_CALL(int, getpeername, (int fd, struct sockaddr *to, socklen_t *size),
	    (fd, to, size), o->f_state != SIM_CONNECTED ? -ENOTCONN
	    : sim__give_address(o, &o->f_remote, to, size))

/* ---- Options ---- */

/* Of SOL_SOCKET: returns the value, if the world knows it; -1: it is stored. */
static int known(struct sim_open *o, int name)
{
	const struct { int name, value; } values[] = {
		{ SO_TYPE, o->f_type == SIM_STREAM ? SOCK_STREAM : SOCK_DGRAM },
		{ SO_DOMAIN, o->f_family }, { SO_PROTOCOL, o->f_protocol },
		{ SO_ERROR, o->f_error }, { SO_ACCEPTCONN, o->f_state == SIM_LISTENS },
		{ SO_SNDBUF, (int)o->f_room }, { SO_RCVBUF, (int)o->f_room },
	};

	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
		if (values[i].name == name)
			return values[i].value;
	return -1;
}

/* Returns where it is stored, with p_size, or may be; NULL: there is no room. */
static struct sim_option *stored(struct sim_open *o, int level, int name)
{
	struct sim_option *p = o->f_options, *end = p + sizeof o->f_options / sizeof *p;

	while (p < end && p->p_size > 0 && (p->p_level != level || p->p_name != name))
		p++;
	return p < end ? p : NULL;
}

/* One that was never set is zeros. */
static int get_option(struct sim_open *o, int level, int name, void *to, socklen_t *size)
{
	const struct sim_option *p = stored(o, level, name);
	int value = level == SOL_SOCKET ? known(o, name) : -1;
	socklen_t n = value >= 0 ? sizeof value : p && p->p_size > 0 ? p->p_size : *size;

	if (level == SOL_SOCKET && name == SO_ERROR)
		sim__take_error(o);
	memset(to, 0, *size);
	*size = *size < n ? *size : n;
	if (value >= 0)
		memcpy(to, &value, *size);
	else if (p && p->p_size > 0)
		memcpy(to, p->p_value, *size);
	return 0;
}

/* Those that do something, besides being stored. */
static void apply(struct sim_open *o, int level, int name, const int *value)
{
	size_t room = value[0] < 2304 ? 4608 : 2 * (size_t)value[0];

	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
		o->f_only6 = value[0];
	else if (level == SOL_SOCKET && name == SO_LINGER)
		o->f_abrupt = value[0] && value[1] == 0;
	else if (level == SOL_SOCKET && name == SO_RCVBUF)
		o->f_room = room;
	else if (level == SOL_SOCKET && name == SO_SNDBUF && o->f_peer)
		o->f_peer->f_room = room;
}

static int set_option(struct sim_open *o, int level, int name, const void *value,
		      socklen_t size)
{
	struct sim_option *p = stored(o, level, name);
	int values[2] = { 0 };

	if (size < sizeof values[0])
		return -EINVAL;
	if (!p || size > sizeof p->p_value)
		return -ENOPROTOOPT;
	*p = (struct sim_option){ level, name, size, { 0 } };
	memcpy(p->p_value, value, size);
	memcpy(values, value, size < sizeof values ? size : sizeof values);
	apply(o, level, name, values);
	return 0;
}

SOCKET_CALL(int, getsockopt, (int fd, int level, int name, void *to, socklen_t *size),
	    (fd, level, name, to, size), get_option(o, level, name, to, size))
SOCKET_CALL(int, setsockopt, (int fd, int level, int name, const void *value,
			      socklen_t size),
	    (fd, level, name, value, size), set_option(o, level, name, value, size))
