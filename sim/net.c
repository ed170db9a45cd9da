/* SPDX-License-Identifier: MIT */
/*
 * net.c: the network: connections, packets, and reads and writes of pipes and sockets.
 * AF_INET and AF_INET6 are one network, in which all that is sent takes time. In pipes,
 * and between sockets of AF_UNIX, data arrives at once.
 *
 *	connect()   the request arrives: begin()  >  a socket in f_waiting  >  accept()
 *	            the answer arrives: come()    <  a piece with SIM_BEGINS
 *	close()     a piece with SIM_ENDS         >  the input of the peer ends
 *	            or a reset, if unread input is left
 *
 * Connected sockets are each other's peers until both are dead.
 */
#undef _FORTIFY_SOURCE
#include "world.h"

enum {
	ROOM       = 212992,            /* bytes of unread input, as in Linux */
	PACKETS    = 10,                /* the most unread packets that a peer takes */
	TIMES_SLOW = 100,
	BANDWIDTH  = 125000000,         /* bytes a second */
	NEAR       = 10000,             /* ns: about ten steps */
	PARTS      = 8,                 /* odds that a write is sent in parts */
	PIPE_WHOLE = 4096,              /* PIPE_BUF: bytes that are not split, and for
					   which a writable pipe has room */
	UDP_MAX    = 65507,             /* the most bytes of a packet over the network */
	PASSED     = 253,               /* SCM_MAX_FD: descriptors that a message has */
};

/* ---- Faults between hosts ---- */

static bool is_between(enum sim_fault_kind kind, const struct sim_open *o,
		       const struct sim_host *other)
{
	const struct sim_fault *f = sim__run.r_between, *end = f + SIM_BETWEEN;
	const struct sim_host *one = o->f_host;

	if (one && one == other)
		return false;                   /* by loopback */
	for (; f < end; f++)
		if (f->kind == kind && f->for_ns > sim__run.r_now
		    && ((f->a == one && (!f->b || f->b == other))
			|| (f->a == other && (!f->b || f->b == one))))
			return true;
	return false;
}

static bool has_crashed(const struct sim_host *host)
{
	return host && !host->h_up;
}

/* Returns whether nothing passes from `o' to a host: one has crashed, or is cut off. */
static bool is_cut(const struct sim_open *o, const struct sim_host *host)
{
	return has_crashed(o->f_host) || has_crashed(host)
		|| is_between(SIM_PARTITION, o, host);
}

void sim__break_net(const struct sim_fault *f)
{
	struct sim_fault *to = sim__run.r_between;

	while (to->for_ns > sim__run.r_now)
		if (++to == sim__run.r_between + SIM_BETWEEN)
			sim_fail("there are too many faults between hosts at a time");
	*to = *f;
	to->for_ns = f->for_ns > 0 ? sim__run.r_now + f->for_ns : INT64_MAX;
}

/* ---- How long it takes ---- */

static int64_t or_else(int64_t set, int64_t usual)
{
	return set ? set : usual;
}

/* Draws a latency from `o' to host `to', in ns. */
static int64_t latency(const struct sim_open *o, const struct sim_host *to)
{
	const struct sim_faults *f = &sim__faults;
	bool near = sim__run.r_near && !f->f_latency_ns && !f->f_latency_most_ns;
	int64_t least = near ? 0 : or_else(f->f_latency_ns, 50 * MICROSECOND);
	int64_t most = near ? NEAR : or_else(f->f_latency_most_ns, 500 * MICROSECOND);
	int64_t rare = or_else(f->f_latency_rare_ns, 50 * MILLISECOND);
	int64_t k = (int64_t)sim__choose("latency", 1000);
	int64_t ns = k < 990 ? least + (most - least) / 989 * k
		: most + (rare - most) / 10 * (k - 989);

	if (o->f_slow)
		ns *= TIMES_SLOW;
	return is_between(SIM_SLOW, o, to) ? ns * TIMES_SLOW : ns;
}

/* Returns the time when `size' bytes that `o' sends now arrive at host `to'. */
static int64_t arrival(struct sim_open *o, struct sim_host *to, size_t size)
{
	int64_t rate = or_else(sim__faults.f_bandwidth, BANDWIDTH);
	struct sim_fault cut = { SIM_PARTITION, o->f_host, to, SECOND };

	if (sim__strikes("partition", sim__faults.f_partition) && !is_cut(o, to)) {
		cut.for_ns += SECOND * (int64_t)sim__choose("partition lasts", 10);
		sim__break_net(&cut);
	}
	o->f_free = MAX(o->f_free, sim__run.r_now) + (int64_t)size * SECOND / rate;
	return o->f_free + latency(o, to);
}

/* ---- Pieces ---- */

static void push(struct sim_open *o, struct sim_pieces *q, struct sim_piece *g)
{
	STAILQ_INSERT_TAIL(q, g, g_next);
	o->f_bytes += g->g_size - g->g_at;
	o->f_pieces++;
}

/* Removes the first piece of a queue of `o'. */
static struct sim_piece *pop(struct sim_open *o, struct sim_pieces *q)
{
	struct sim_piece *g = STAILQ_FIRST(q);

	STAILQ_REMOVE_HEAD(q, g_next);
	o->f_bytes -= g->g_size - g->g_at;
	o->f_pieces--;
	return g;
}

/* Frees a piece, and closes the descriptors that the piece passes. */
static void free_piece(struct sim_piece *g)
{
	for (int i = 0; g->g_passed && i < g->g_passed[0]; i++)
		close(g->g_passed[i + 1]);
	free(g->g_passed);
	free(g);
}

static void free_pieces(struct sim_open *o, struct sim_pieces *q)
{
	while (!STAILQ_EMPTY(q))
		free_piece(pop(o, q));
}

void sim__drop(struct sim_open *o)
{
	if (--o->f_refs > 0)
		return;
	free_pieces(o, &o->f_here);
	free_pieces(o, &o->f_coming);
	free(o);
}

/* Adds a line to the trace: the running thread sends `g' by `o', or reads `g'. */
static void trace(const char *event, const struct sim_open *o, const struct sim_piece *g,
		  const struct sim_host *to, int64_t when)
{
	const struct sim_event e = { .e_op.o_name = "", .e_host = o->f_host,
				     .e_number = sim__run.r_by };

	if (sim__run.r_trace && g->g_size > 0)
		sim__trace(event, &e, g->g_number, to, when);
}

/* ---- Connections ---- */

struct sim_open *sim__new_socket(int family, int kind)
{
	struct sim_open *o = sim__new(&sim__socket);

	o->f_family = family;
	o->f_kind = kind;
	o->f_room = ROOM;
	return o;
}

void sim__pair(struct sim_open *a, struct sim_open *b)
{
	a->f_peer = sim__hold(b);
	b->f_peer = sim__hold(a);
	a->f_state = b->f_state = SIM_CONNECTED;
}

/* Sets the state of a connection, and SO_ERROR. In SIM_DEAD nothing passes any more. */
static void end_as(struct sim_open *o, enum sim_state state, int error)
{
	o->f_state = state;
	o->f_error = error;
	if (state == SIM_DEAD) {
		o->f_input_ended = o->f_output_ended = true;
		free_pieces(o, &o->f_coming);
	}
	sim__changed(o, SIM_ANY);
}

/* Called when a reset arrives at `o', or the answer that a packet was not received. */
LATER(come_reset)
{
	if (o->f_state == SIM_CONNECTED && o->f_kind == SOCK_DGRAM)
		end_as(o, SIM_CONNECTED, ECONNREFUSED);
	else if (o->f_state == SIM_CONNECTED)
		end_as(o, SIM_DEAD, o->f_input_ended ? EPIPE : ECONNRESET);
	else if (o->f_state == SIM_CONNECTING)
		end_as(o, SIM_NEW, ECONNREFUSED);
}

void sim__reset(struct sim_open *o)
{
	if (o->f_peer)
		come_reset(o->f_peer, NULL);
	come_reset(o, NULL);
}

/* Sends a reset to the peer, whose data `o' cannot take. */
static void refuse(struct sim_open *o)
{
	struct sim_open *peer = o->f_peer;
	int64_t when = sim__run.r_now + latency(o, peer ? peer->f_host : NULL);

	if (peer && sim__is_far(o))
		sim__later(MAX(when, o->f_last), come_reset, peer, NULL);
}

/* Called after too long a silence. Ends the attempt of `o' to connect, or the peer. */
LATER(give_up)
{
	if (o->f_state == SIM_CONNECTING)
		end_as(o, SIM_NEW, ETIMEDOUT);
	if (o->f_peer && o->f_peer->f_state == SIM_CONNECTED)
		end_as(o->f_peer, SIM_DEAD, ETIMEDOUT);
}

/* Sends something again, after pauses that begin with `first' and double up to 2 minutes.
   After `patience' and the next pause, gives up. `o' has heard nothing meanwhile. */
static void send_again(struct sim_open *o, sim_later_fn *func, int64_t first,
		       int64_t patience)
{
	int64_t now = sim__run.r_now, silence;

	o->f_silent = o->f_silent ? o->f_silent : now;
	silence = now - o->f_silent;
	sim__later(now + MIN(silence + first, 120 * SECOND),
		   silence < patience ? func : give_up, o, NULL);
}

/* Called when piece `g' arrives at `o'. From then on `g' belongs to `o'. */
static void deliver(struct sim_open *o, struct sim_piece *g)
{
	if (o->f_state == SIM_DEAD) {
		if (g->g_what != SIM_ENDS)
			refuse(o);
	} else if (g->g_what == SIM_DATA) {
		push(o, &o->f_here, g);
		sim__changed(o, SIM_IN);
		return;
	} else if (g->g_what == SIM_BEGINS) {
		o->f_state = SIM_CONNECTED;
		sim__changed(o, SIM_OUT);
	} else {
		o->f_input_ended = true;
		sim__changed(o, SIM_IN | EPOLLRDHUP | EPOLLHUP);
	}
	free_piece(g);
}

/* Called when the next piece for `o' is due. */
LATER(come)
{
	if (is_cut(o, o->f_peer ? o->f_peer->f_host : NULL)) {
		send_again(o, come, 200 * MILLISECOND, 800 * SECOND);
		return;
	}
	o->f_silent = 0;
	if (!STAILQ_EMPTY(&o->f_coming))
		deliver(o, pop(o, &o->f_coming));
}

/* Sends a piece to the peer. */
static void send_piece(struct sim_open *o, struct sim_piece *g)
{
	int64_t when;

	if (!sim__is_far(o)) {
		trace("send", o, g, o->f_peer->f_host, sim__run.r_now);
		deliver(o->f_peer, g);
		return;
	}
	if (sim__strikes("reset", sim__faults.f_reset)) {
		free(g);
		sim__reset(o);
		return;
	}
	when = arrival(o, o->f_peer->f_host, g->g_size);
	o->f_last = MAX(when, o->f_last);
	trace("send", o, g, o->f_peer->f_host, o->f_last);
	push(o->f_peer, &o->f_peer->f_coming, g);
	sim__later(o->f_last, come, o->f_peer, NULL);
}

static void send_mark(struct sim_open *o, enum sim_mark what)
{
	struct sim_piece *g = sim__memory(sizeof *g);

	g->g_what = what;
	send_piece(o, g);
}

void sim__end_output(struct sim_open *o)
{
	if (o->f_output_ended)
		return;
	o->f_output_ended = true;
	sim__changed(o, SIM_OUT | (o->f_input_ended ? EPOLLHUP : 0u));
	if (o->f_peer && o->f_kind != SOCK_DGRAM
	    && (sim__is_far(o) || o->f_peer->f_state != SIM_DEAD))
		send_mark(o, SIM_ENDS);
}

/* Makes the socket that accept() returns to a listener. Returns 0 or an error. */
static int wait_at(struct sim_open *listener, struct sim_open *o)
{
	struct sim_open *s;

	if (!listener)
		return -ECONNREFUSED;
	if (listener->f_waits > listener->f_backlog)
		return -EAGAIN;
	s = sim__new_socket(listener->f_family, SOCK_STREAM);
	s->f_host = listener->f_host;
	s->f_room = listener->f_room;
	s->f_local = sim__is_far(o) ? o->f_remote : listener->f_local;
	s->f_remote = o->f_local;
	o->f_slow = s->f_slow = sim__strikes("slow", sim__faults.f_slow);
	sim__pair(s, o);
	STAILQ_INSERT_TAIL(&listener->f_waiting, s, f_of_listener);
	listener->f_waits++;
	sim__changed(listener, SIM_IN);
	return 0;
}

/* Called when the request for a connection arrives. If the hosts are cut off from each
   other, or the backlog is full, the request is lost. */
LATER(begin)
{
	struct sim_host *host = sim__host_at(o, &o->f_remote);
	int rc = -EAGAIN;

	if (o->f_state != SIM_CONNECTING)
		return;
	if (!is_cut(o, host))
		rc = wait_at(sim__socket_at(o, &o->f_remote, &o->f_local), o);
	if (rc == -EAGAIN) {
		send_again(o, begin, SECOND, 63 * SECOND);
	} else if (rc) {
		sim__later(sim__run.r_now + latency(o, host), come_reset, o, NULL);
	} else {
		o->f_silent = 0;
		o->f_state = SIM_CONNECTING;    /* until SIM_BEGINS arrives */
		send_mark(o->f_peer, SIM_BEGINS);
	}
}

int sim__begin_connection(struct sim_open *o)
{
	bool packets = o->f_kind == SOCK_DGRAM;
	struct sim_address own;
	struct sim_open *at;
	int rc;

	if (sim__is_far(o))
		rc = sim__name_for(o, &o->f_remote, &own);
	else {
		at = sim__socket_at(o, &o->f_remote, NULL);
		rc = packets && at ? 0 : wait_at(at, o);
	}
	if (rc == 0 && packets)
		o->f_state = SIM_CONNECTED;
	if (rc || packets || !sim__is_far(o))
		return rc;
	o->f_state = SIM_CONNECTING;
	o->f_silent = 0;
	if (sim__strikes("no-answer", sim__faults.f_no_answer))
		sim__later(sim__run.r_now + 127 * SECOND, give_up, o, NULL);
	else
		sim__later(arrival(o, sim__host_at(o, &o->f_remote), 0), begin, o, NULL);
	return -EINPROGRESS;
}

/* Resets the connections that wait at a listener. Separates peers that are both dead. */
static void close_net(struct sim_open *o)
{
	struct sim_open *s, *peer = o->f_peer;
	bool unread = o->f_kind == SOCK_STREAM
		&& (!STAILQ_EMPTY(&o->f_here) || o->f_abrupt);
	bool near = peer && !sim__is_far(o) && peer->f_state == SIM_CONNECTED;

	if (o->f_bound)
		LIST_REMOVE(o, f_of_name);
	while ((s = STAILQ_FIRST(&o->f_waiting))) {
		STAILQ_REMOVE_HEAD(&o->f_waiting, f_of_listener);
		s->f_abrupt = true;
		sim__end_open(s);
	}
	if (near && o->f_kind == SOCK_DGRAM)
		sim__changed(peer, SIM_OUT);
	else if (near)
		end_as(peer, SIM_DEAD, unread ? ECONNRESET : 0);
	else if (peer && sim__is_far(o) && !has_crashed(o->f_host)) {
		if (o->f_state == SIM_CONNECTED && !unread)
			sim__end_output(o);
		else if (o->f_state != SIM_DEAD || unread)
			refuse(o);
	}
	o->f_state = SIM_DEAD;
	if (peer && peer->f_state == SIM_DEAD) {
		o->f_peer = peer->f_peer = NULL;
		sim__drop(o);
		sim__drop(peer);
	}
}

/* ---- What is ready ---- */

/* Returns how many bytes `o' can write to its peer now. */
static size_t room_of(const struct sim_open *o)
{
	const struct sim_open *peer = o->f_peer;

	return peer && !o->f_squeezed && peer->f_bytes < peer->f_room
		? peer->f_room - peer->f_bytes : 0;
}

/* Returns SIM_OUT if `o' can send. The network takes any number of packets. A stream is
   writable if a third of the peer's room is free, as on Linux. */
static uint32_t output_ready(const struct sim_open *o)
{
	const struct sim_open *peer = o->f_peer;
	size_t room = room_of(o);

	if (o->f_kind == SOCK_DGRAM)
		return !peer || peer->f_pieces < PACKETS ? SIM_OUT : 0;
	return room > 0 && room >= peer->f_room / 3 ? SIM_OUT : 0;
}

static uint32_t pipe_ready(const struct sim_open *o)
{
	bool dead = o->f_state == SIM_DEAD;
	uint32_t now = STAILQ_EMPTY(&o->f_here) ? 0 : SIM_IN;

	if (o->f_type == &sim__pipe_in)
		return now | (dead ? EPOLLHUP : 0u);
	return dead ? SIM_OUT | EPOLLERR : room_of(o) >= PIPE_WHOLE ? SIM_OUT : 0;
}

static uint32_t socket_ready(const struct sim_open *o)
{
	bool in = o->f_error || !STAILQ_EMPTY(&o->f_here) || o->f_waits > 0;
	uint32_t now = (in ? SIM_IN : 0u) | (o->f_error ? EPOLLERR : 0u);

	if (o->f_kind == SOCK_STREAM && o->f_state == SIM_NEW)
		return o->f_error ? SIM_ANY : SIM_OUT | EPOLLHUP;
	if (o->f_state == SIM_CONNECTING)
		return 0;
	if (o->f_output_ended)
		now |= SIM_OUT;
	else if (o->f_state != SIM_LISTENS)
		now |= output_ready(o);
	return now | (o->f_input_ended ? SIM_IN | EPOLLRDHUP : 0u)
		| (o->f_input_ended && o->f_output_ended ? EPOLLHUP : 0u);
}

/* ---- Reads ---- */

static size_t size_of(const struct msghdr *m)
{
	size_t size = 0;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		size += m->msg_iov[i].iov_len;
	return size;
}

/* Copies a block to the buffers of a message, or, unless `out', from them to the block.
   Begins after `skip' bytes of the buffers. */
static void copy(const struct msghdr *m, size_t skip, char *block, size_t size, bool out)
{
	for (const struct iovec *v = m->msg_iov; size > 0; v++) {
		size_t before = MIN(skip, v->iov_len), n = MIN(v->iov_len - before, size);
		char *at = (char *)v->iov_base + before;

		if (n > 0)
			memcpy(out ? at : block, out ? block : at, n);
		skip -= before;
		block += n;
		size -= n;
	}
}

/* Gives the descriptors that a piece passes to a reader with `room' bytes for them. */
static void give(const struct sim_piece *g, struct msghdr *m, size_t room, int flags)
{
	int how = flags & MSG_CMSG_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, fd, n = 0;
	struct cmsghdr *c = m->msg_control;

	while (n < g->g_passed[0] && CMSG_LEN((size_t)(n + 1) * sizeof fd) <= room
	       && (fd = sim__copied(g->g_passed[n + 1],
					fcntl(g->g_passed[n + 1], how, 0))) >= 0)
		memcpy(CMSG_DATA(c) + (size_t)n++ * sizeof fd, &fd, sizeof fd);
	if (n < g->g_passed[0])
		m->msg_flags |= MSG_CTRUNC;
	if (n == 0)
		return;
	c->cmsg_len = CMSG_LEN((size_t)n * sizeof fd);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	m->msg_controllen = MIN(CMSG_SPACE((size_t)n * sizeof fd), room);
}

/* Reads one packet, or pieces of a stream, up to one that passes descriptors. */
static ssize_t get_pieces(struct sim_open *o, struct msghdr *m, int flags)
{
	bool packet = o->f_kind == SOCK_DGRAM;
	struct sim_piece *g = STAILQ_FIRST(&o->f_here), *next;
	size_t size = size_of(m), done = 0, all = g->g_size, room = m->msg_controllen;

	m->msg_controllen = 0;
	if (packet)
		sim__give_address(o, &g->g_from, m->msg_name, &m->msg_namelen);
	if (packet && all > size)
		m->msg_flags |= MSG_TRUNC;
	do {
		size_t n = MIN(g->g_size - g->g_at, size - done);

		next = packet ? NULL : STAILQ_NEXT(g, g_next);
		copy(m, done, g->g_data + g->g_at, n, true);
		done += n;
		if (flags & MSG_PEEK)
			continue;
		if (g->g_at == 0)
			trace("receive", o, g, o->f_host, sim__run.r_now);
		if (g->g_at == 0 && g->g_passed) {
			give(g, m, room, flags);
			next = NULL;
		}
		g->g_at += n;
		o->f_bytes -= n;
		if (packet || g->g_at == g->g_size)
			free_piece(pop(o, &o->f_here));
	} while ((g = next) && done < size);
	return (ssize_t)(packet && flags & MSG_TRUNC ? all : done);
}

/* Returns the result of a read if there is nothing to read. */
static ssize_t get_nothing(struct sim_open *o)
{
	if (o->f_error)
		return sim__take_error(o);
	if (o->f_state == SIM_DEAD || (o->f_kind != SOCK_DGRAM && o->f_input_ended))
		return 0;
	if (o->f_kind == SOCK_STREAM && o->f_state <= SIM_LISTENS)
		return sim__is_far(o) ? -ENOTCONN : -EINVAL;
	return -EAGAIN;
}

static ssize_t get_data(struct sim_open *o, struct msghdr *m, int flags)
{
	bool packet = o->f_kind == SOCK_DGRAM;
	struct sim_open *peer = o->f_peer;
	uint32_t before = peer ? peer->f_type->t_ready(peer) : 0;
	ssize_t n;

	if (!packet)
		m->msg_namelen = 0;
	if (flags & MSG_OOB)
		return -EINVAL;
	if (!packet && size_of(m) == 0)
		return 0;
	if (STAILQ_EMPTY(&o->f_here) || flags & MSG_ERRQUEUE || (packet && o->f_error))
		return get_nothing(o);
	n = get_pieces(o, m, flags);
	if (peer && peer->f_type->t_ready(peer) & ~before & SIM_OUT)
		sim__changed(peer, SIM_OUT);    /* the peer has room again */
	return n;
}

/* ---- Writes of streams ---- */

/* Makes a piece pass copies of a message's descriptors. Returns 0 or an error. */
static int pass(struct sim_piece *g, const struct msghdr *m)
{
	const char *end = (const char *)m->msg_control + m->msg_controllen;
	struct msghdr all = *m;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&all); c; c = CMSG_NXTHDR(&all, c)) {
		int fd, n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof fd);
		const int *fds = (const int *)(const void *)CMSG_DATA(c);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS
		    || c->cmsg_len < CMSG_LEN(0)
		    || c->cmsg_len > (size_t)(end - (char *)c))
			return -EINVAL;
		if (!g->g_passed)
			g->g_passed = sim__memory((PASSED + 1) * sizeof fd);
		if (n > PASSED - g->g_passed[0])
			return -EINVAL;
		for (; n > 0; n--) {
			fd = sim__own(*fds++);
			if (fd < 0)
				return -errno;
			g->g_passed[++g->g_passed[0]] = fd;
		}
	}
	return 0;
}

/* Returns an error. Raises SIGPIPE for -EPIPE, unless the flags forbid that. */
static ssize_t broken(int error, int flags)
{
	if (error == -EPIPE && !(flags & MSG_NOSIGNAL))
		raise(SIGPIPE);
	return error;
}

/* Called some time after a short write: lets writes succeed again. */
LATER(end_squeeze)
{
	o->f_squeezed = false;
	if (o->f_type->t_ready(o) & EPOLLOUT)
		sim__changed(o, SIM_OUT);
}

/* `size' bytes are to be written. Returns how many of them `o' takes now, or an error. */
static ssize_t portion(struct sim_open *o, size_t size)
{
	size_t room = room_of(o);

	if (room == 0 || (!o->f_family && size <= PIPE_WHOLE && room < size))
		return -EAGAIN;
	size = MIN(size, room);
	if (sim__is_far(o) && size > 1 && sim__strikes("short", sim__faults.f_short)) {
		size = 1 + sim__choose("bytes of a short write", size - 1);
		o->f_squeezed = true;
		sim__later(sim__run.r_now + MILLISECOND, end_squeeze, o, NULL);
	}
	return (ssize_t)size;
}

/* Makes a piece of `size' bytes of a message, from `at' on. Returns 0 or an error. */
static int take_in(const struct msghdr *m, size_t at, size_t size, struct sim_piece **g)
{
	static uint64_t made;
	int rc;

	*g = sim__memory(sizeof **g + size);
	(*g)->g_size = size;
	(*g)->g_number = ++made;
	copy(m, at, (*g)->g_data, size, false);
	rc = at == 0 ? pass(*g, m) : 0;
	if (rc)
		free_piece(*g);
	return rc;
}

static ssize_t put_stream(struct sim_open *o, const struct msghdr *m, int flags)
{
	struct sim_piece *g;
	size_t part;
	ssize_t n;
	int rc;

	if (o->f_error && o->f_state != SIM_NEW)
		return broken(sim__take_error(o), flags);
	if (o->f_state <= SIM_LISTENS && o->f_family == AF_UNIX)
		return -ENOTCONN;
	if (o->f_state == SIM_CONNECTING)
		return -EAGAIN;
	if (o->f_output_ended || o->f_state != SIM_CONNECTED)
		return broken(-EPIPE, flags);
	if (size_of(m) == 0)
		return 0;
	n = portion(o, size_of(m));
	for (ssize_t at = 0; at < n && o->f_state == SIM_CONNECTED; at += (ssize_t)part) {
		part = (size_t)(n - at);
		if (sim__is_far(o) && part > 1 && sim__strikes("part", PARTS))
			part = 1 + sim__choose("bytes of a part", part - 1);
		rc = take_in(m, (size_t)at, part, &g);
		if (rc)
			return rc;
		send_piece(o, g);
	}
	return n;
}

/* ---- Packets ---- */

/* Adds a packet to the input of socket `to'. Returns 0, or an error; then the packet
   still belongs to the caller. */
static int take_packet(struct sim_open *o, struct sim_open *to, struct sim_piece *g)
{
	if (!to || to->f_state == SIM_DEAD)
		return -ECONNREFUSED;
	if (to->f_input_ended && !sim__is_far(to))
		return -EPIPE;
	if (to == o->f_peer && to->f_pieces >= PACKETS)
		return -EAGAIN;
	if (to->f_bytes + g->g_size > to->f_room)
		return -ENOBUFS;
	deliver(to, g);
	return 0;
}

/* Called when a packet from `o' arrives. `o' may have been closed since. */
static void come_packet(struct sim_open *o, struct sim_piece *g)
{
	struct sim_host *host = sim__host_at(o, &g->g_to);
	int rc = -EAGAIN;

	if (!is_cut(o, host))
		rc = take_packet(o, sim__socket_at(o, &g->g_to, &g->g_from), g);
	if (rc)
		free(g);
	if (rc == -ECONNREFUSED)
		sim__later(sim__run.r_now + latency(o, host), come_reset, o, NULL);
}

/* Sends one copy of a packet over the network, or none, or two. Returns 0 or an error. */
static int send_far(struct sim_open *o, struct sim_piece *g)
{
	struct sim_host *host = sim__host_at(o, &g->g_to);
	size_t all = sizeof *g + g->g_size;
	int rc = o->f_error ? sim__take_error(o) : sim__name_for(o, &g->g_to, &g->g_from);
	int copies = 1;
	int64_t when;

	if (rc == 0 && sim__strikes("no-buffer", sim__faults.f_no_buffer))
		rc = -ENOBUFS;
	if (rc)
		return rc;
	if (sim__strikes("loss", sim__faults.f_loss))
		copies = 0;
	else if (sim__strikes("duplicate", sim__faults.f_duplicate))
		copies = 2;
	for (; copies > 0; copies--) {
		when = arrival(o, host, g->g_size);
		trace("send", o, g, host, when);
		sim__later(when, come_packet, o, memcpy(sim__memory(all), g, all));
	}
	return 0;
}

/* As take_packet(): sends to the peer, or, if `named', to the packet's address. */
static int send_near(struct sim_open *o, struct sim_piece *g, bool named)
{
	struct sim_open *to = named || !o->f_peer ? sim__socket_at(o, &g->g_to, NULL)
		: o->f_peer;
	int rc;

	g->g_from = o->f_local;
	rc = take_packet(o, to, g);
	if (rc == 0)
		trace("send", o, g, to->f_host, sim__run.r_now);
	return rc;
}

static ssize_t put_packet(struct sim_open *o, const struct msghdr *m)
{
	struct sim_address to = o->f_remote;
	bool far = sim__is_far(o);
	size_t size = size_of(m);
	struct sim_piece *g;
	int rc = 0;

	if (size > (far ? UDP_MAX : o->f_room))
		return -EMSGSIZE;
	if (o->f_output_ended)
		return -EPIPE;
	if (m->msg_name)
		rc = sim__take_address(o, m->msg_name, m->msg_namelen, true, &to);
	else if (o->f_state != SIM_CONNECTED)
		rc = far ? -EDESTADDRREQ : -ENOTCONN;
	rc = rc ? rc : take_in(m, 0, size, &g);
	if (rc)
		return rc;
	g->g_to = to;
	rc = far ? send_far(o, g) : send_near(o, g, m->msg_name);
	if (rc || far)
		free_piece(g);
	return rc ? rc : (ssize_t)size;
}

static ssize_t put_data(struct sim_open *o, const struct msghdr *m, int flags)
{
	return o->f_kind == SOCK_DGRAM ? put_packet(o, m) : put_stream(o, m, flags);
}

const struct sim_type sim__pipe_in = { pipe_ready, get_data, NULL, close_net };
const struct sim_type sim__pipe_out = { pipe_ready, NULL, put_data, close_net };
const struct sim_type sim__socket = { socket_ready, get_data, put_data, close_net };
