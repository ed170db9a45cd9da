/* SPDX-License-Identifier: MIT */
/*
 * net.c: the network: connections and packets. AF_INET and AF_INET6 are one network, in
 * which all that is sent takes time. In pipes, and between sockets of AF_UNIX, data
 * arrives at once.
 *
 *	connect()   the request arrives: begin()  >  a socket in f_waiting  >  accept()
 *	            the answer arrives: come()    <  a piece with SIM_BEGINS
 *	close()     a piece with SIM_ENDS         >  the input of the peer ends
 *	            or a reset, if unread input is left
 *
 * Connected sockets are each other's peers until both are dead.
 */
#include "world.h"

enum {
	ROOM      = 212992,             /* bytes of unread input, as in Linux */
	SYN_TRIES = 7,                  /* attempts to connect; the pauses after them, 1,
					   2, 4 ... 64 s, are 127 s in all */
	PACKETS   = 10,                 /* the most unread packets that a peer takes */
	BETWEEN   = 64,                 /* the most faults between hosts at a time */
	TIMES_SLOW = 100,
	BANDWIDTH = 125000000,          /* bytes a second */
	NEAR      = 10000,              /* ns: about ten steps */
	PAGE      = 4096,               /* a pipe that takes this many bytes is
					   writable */
};

/* ns of the shortest and the longest pause before a piece is sent again; see come(). */
#define FIRST_PAUSE (200 * MILLISECOND)
#define LAST_PAUSE  (120 * SECOND)
#define PATIENCE    (900 * SECOND)              /* ns after which the sender gives up */

/* ---- Faults between hosts ---- */

/* Each fault has the time of its end; an entry whose time is over is free. */
static struct between { int64_t until; struct sim_fault fault; } betweens[BETWEEN];

void sim__heal_net(void)
{
	memset(betweens, 0, sizeof betweens);
}

static bool is_between(enum sim_fault_kind kind, const struct sim_open *o,
		       const struct sim_host *other)
{
	const struct sim_host *one = o->f_host;

	for (const struct between *b = betweens; b < betweens + BETWEEN; b++) {
		const struct sim_host *from = b->fault.a, *to = b->fault.b;

		if (b->fault.kind == kind && b->until > sim__run.r_now
		    && ((from == one && (!to || to == other))
			|| (from == other && (!to || to == one))))
			return true;
	}
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
	int64_t now = sim__run.r_now;
	struct between *b = betweens;

	if (f->kind == SIM_RESET) {
		sim__reset_all(f->a, f->b);
		return;
	}
	while (b < betweens + BETWEEN && b->until > now)
		b++;
	if (b == betweens + BETWEEN)
		sim_fail("there are too many faults between hosts at a time");
	*b = (struct between){ f->for_ns > 0 ? now + f->for_ns : INT64_MAX, *f };
}

/* ---- How long it takes ---- */

/* Draws a latency from `o' to host `to', in ns. */
static int64_t latency(const struct sim_open *o, const struct sim_host *to)
{
	const struct sim_faults *f = &sim__faults;
	bool near = sim__run.r_near && !f->f_latency_ns && !f->f_latency_most_ns;
	int64_t least = f->f_latency_ns || near ? f->f_latency_ns : 50 * MICROSECOND;
	int64_t most = near ? NEAR
		: f->f_latency_most_ns ? f->f_latency_most_ns : 500 * MICROSECOND;
	int64_t rare = f->f_latency_rare_ns ? f->f_latency_rare_ns : 50 * MILLISECOND;
	int64_t k = (int64_t)sim__choose("latency", 1000);
	int64_t ns = k < 990 ? least + (most - least) / 989 * k
		: most + (rare - most) / 10 * (k - 989);

	if (o->f_slow || (o->f_peer && o->f_peer->f_slow))
		ns *= TIMES_SLOW;
	return is_between(SIM_SLOW, o, to) ? ns * TIMES_SLOW : ns;
}

/* Returns the time when `size' bytes that `o' sends now arrive at host `to'. */
static int64_t arrival(struct sim_open *o, struct sim_host *to, size_t size)
{
	int64_t rate = sim__faults.f_bandwidth ? sim__faults.f_bandwidth : BANDWIDTH;
	struct sim_fault cut = { SIM_PARTITION, o->f_host, to, SECOND };

	if (sim__strikes("partition", sim__faults.f_partition)
	    && !is_cut(o, to)) {
		cut.for_ns += SECOND * (int64_t)sim__choose("partition lasts", 10);
		sim__break_net(&cut);
	}
	if (o->f_free < sim__run.r_now)
		o->f_free = sim__run.r_now;
	o->f_free += (int64_t)size * SECOND / rate;
	return o->f_free + latency(o, to);
}

/* ---- Pieces ---- */

struct sim_piece *sim__piece(size_t size)
{
	static uint64_t made;
	struct sim_piece *g = sim__memory(sizeof *g + size);

	g->g_size = size;
	g->g_number = ++made;
	return g;
}

static void push(struct sim_open *o, struct sim_pieces *q, struct sim_piece *g)
{
	STAILQ_INSERT_TAIL(q, g, g_next);
	o->f_bytes += g->g_size - g->g_at;
	o->f_pieces++;
}

struct sim_piece *sim__pop(struct sim_open *o, struct sim_pieces *q)
{
	struct sim_piece *g = STAILQ_FIRST(q);

	STAILQ_REMOVE_HEAD(q, g_next);
	o->f_bytes -= g->g_size - g->g_at;
	o->f_pieces--;
	return g;
}

void sim__free_piece(struct sim_piece *g)
{
	for (int i = 0; g->g_passed && i < g->g_passed[0]; i++)
		close(g->g_passed[i + 1]);
	free(g->g_passed);
	free(g);
}

void sim__free_pieces(struct sim_open *o, struct sim_pieces *q)
{
	while (!STAILQ_EMPTY(q))
		sim__free_piece(sim__pop(o, q));
}

void sim__trace_piece(const char *event, const struct sim_host *host,
		      const struct sim_piece *g, const struct sim_host *to, int64_t when)
{
	const struct sim_event e = { .e_op.o_name = "", .e_host = host,
				     .e_number = sim__run.r_by };

	if (sim__run.r_trace && g->g_size > 0)
		sim__trace(event, &e, g->g_number, to, when);
}

/* ---- Connections ---- */

int sim__take_error(struct sim_open *o)
{
	int error = o->f_error;

	o->f_error = 0;
	return -error;
}

struct sim_open *sim__new_socket(int family, int kind)
{
	struct sim_open *o = sim__new(kind == SOCK_STREAM ? &sim__stream : &sim__packets);

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

/*
 * Ends a connection, or an attempt to connect: sets the state to SIM_DEAD or SIM_NEW, and
 * SO_ERROR to `error'.
 */
static void end_as(struct sim_open *o, enum sim_state state, int error)
{
	o->f_state = state;
	o->f_error = error;
	if (state == SIM_DEAD) {
		o->f_input_ended = o->f_output_ended = true;
		sim__free_pieces(o, &o->f_coming);
	}
	sim__changed(o, SIM_ANY);
}

/* Called when a reset arrives at `o'. */
static void come_reset(struct sim_open *o, struct sim_piece *unused)
{
	(void)unused;
	if (has_crashed(o->f_host))
		return;
	if (o->f_state == SIM_CONNECTED)
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

static struct sim_host *host_of_peer(const struct sim_open *o)
{
	return o->f_peer ? o->f_peer->f_host : NULL;
}

/* Sends a reset to the peer, whose data `o' cannot take. */
static void refuse(struct sim_open *o)
{
	int64_t when = sim__run.r_now + latency(o, host_of_peer(o));

	when = when > o->f_last ? when : o->f_last;
	if (o->f_peer && sim__is_far(o))
		sim__later(when, come_reset, o->f_peer, NULL);
}

/*
 * Called when there has been no answer for too long: if `o' was connecting, the attempt
 * fails; if the peer of `o' was sending, the peer's connection ends.
 */
static void give_up(struct sim_open *o, struct sim_piece *unused)
{
	(void)unused;
	if (o->f_state == SIM_CONNECTING)
		end_as(o, SIM_NEW, ETIMEDOUT);
	if (o->f_peer && o->f_peer->f_state == SIM_CONNECTED)
		end_as(o->f_peer, SIM_DEAD, ETIMEDOUT);
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
	sim__free_piece(g);
}

/*
 * Called when the next piece for `o' is due. If the hosts are cut off from each other,
 * the piece is due again after 200 ms, 400 ms, and so on, as in Linux; the pauses grow up
 * to 2 minutes. After 15 minutes the sender gives up.
 */
static void come(struct sim_open *o, struct sim_piece *unused)
{
	int64_t now = sim__run.r_now, silence;

	if (!is_cut(o, host_of_peer(o))) {
		o->f_silent = 0;
		if (!STAILQ_EMPTY(&o->f_coming))
			deliver(o, sim__pop(o, &o->f_coming));
		return;
	}
	o->f_silent = o->f_silent ? o->f_silent : now;
	silence = now - o->f_silent;
	if (silence > PATIENCE)
		give_up(o, unused);
	else if (silence > LAST_PAUSE)
		sim__later(now + LAST_PAUSE, come, o, NULL);
	else
		sim__later(now + (silence ? silence : FIRST_PAUSE), come, o, NULL);
}

void sim__send(struct sim_open *o, struct sim_piece *g)
{
	int64_t when;

	if (!sim__is_far(o)) {
		sim__trace_piece("send", o->f_host, g, o->f_peer->f_host, sim__run.r_now);
		deliver(o->f_peer, g);
		return;
	}
	if (sim__strikes("reset", sim__faults.f_reset)) {
		free(g);
		sim__reset(o);
		return;
	}
	when = arrival(o, o->f_peer->f_host, g->g_size);
	o->f_last = when > o->f_last ? when : o->f_last;
	sim__trace_piece("send", o->f_host, g, o->f_peer->f_host, o->f_last);
	push(o->f_peer, &o->f_peer->f_coming, g);
	sim__later(o->f_last, come, o->f_peer, NULL);
}

static void send_mark(struct sim_open *o, enum sim_mark what)
{
	struct sim_piece *g = sim__piece(0);

	g->g_what = what;
	sim__send(o, g);
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

/*
 * Creates the socket that accept() will return for the connection from `o'. Returns 0 or
 * an error.
 */
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

/*
 * Called when the request for a connection arrives. If the hosts are cut off from each
 * other, or the backlog is full, the request is lost, and is sent again after a pause.
 */
static void begin(struct sim_open *o, struct sim_piece *unused)
{
	struct sim_host *host = sim__host_at(o, &o->f_remote);
	int64_t now = sim__run.r_now, pause = SECOND << o->f_tries;
	int rc = -EAGAIN;

	(void)unused;
	if (o->f_state != SIM_CONNECTING)
		return;
	if (!is_cut(o, host))
		rc = wait_at(sim__socket_at(o, &o->f_remote, &o->f_local), o);
	if (rc == -EAGAIN) {
		sim__later(now + pause, ++o->f_tries < SYN_TRIES ? begin : give_up, o,
			   NULL);
		return;
	}
	o->f_tries = 0;
	if (rc) {
		sim__later(now + latency(o, host), come_reset, o, NULL);
		return;
	}
	o->f_state = SIM_CONNECTING;            /* until SIM_BEGINS arrives */
	send_mark(o->f_peer, SIM_BEGINS);
}

int sim__begin_connection(struct sim_open *o)
{
	bool packets = o->f_kind == SOCK_DGRAM;
	struct sim_open *at;
	int rc;

	if (sim__is_far(o)) {
		rc = sim__name_for(o, &o->f_remote);
	} else if ((at = sim__socket_at(o, &o->f_remote, NULL))) {
		rc = packets ? 0 : wait_at(at, o);
	} else {
		rc = o->f_remote.a_text[0] ? -ENOENT : -ECONNREFUSED;
	}
	if (rc == 0 && packets)
		o->f_state = SIM_CONNECTED;
	if (rc || packets || !sim__is_far(o))
		return rc;
	o->f_state = SIM_CONNECTING;
	o->f_tries = 0;
	if (sim__strikes("no-answer", sim__faults.f_no_answer))
		sim__later(sim__run.r_now + 127 * SECOND, give_up, o, NULL);
	else
		sim__later(arrival(o, sim__host_at(o, &o->f_remote), 0), begin, o,
			   NULL);
	return -EINPROGRESS;
}

/* ---- The end ---- */

/* Called when `o' is dead. If the peer is dead too, separates the two. */
static void unlink_peers(struct sim_open *o)
{
	struct sim_open *peer = o->f_peer;

	if (!peer || peer->f_state != SIM_DEAD)
		return;
	o->f_peer = peer->f_peer = NULL;
	sim__drop(o);
	sim__drop(peer);
}

/* Resets the connections that wait at a listener. */
static void end_listener(struct sim_open *o)
{
	struct sim_open *s;

	while ((s = STAILQ_FIRST(&o->f_waiting))) {
		STAILQ_REMOVE_HEAD(&o->f_waiting, f_of_listener);
		s->f_abrupt = true;
		sim__end_open(s);
	}
}

void sim__net_close(struct sim_open *o)
{
	bool unread = o->f_kind == SOCK_STREAM
		&& (!STAILQ_EMPTY(&o->f_here) || o->f_abrupt);
	bool near = o->f_peer && !sim__is_far(o) && o->f_peer->f_state == SIM_CONNECTED;

	sim__leave_name(o);
	end_listener(o);
	if (near && o->f_kind == SOCK_DGRAM)
		sim__changed(o->f_peer, SIM_OUT);
	else if (near)
		end_as(o->f_peer, SIM_DEAD, unread ? ECONNRESET : 0);
	else if (o->f_peer && sim__is_far(o) && !has_crashed(o->f_host)) {
		if (o->f_state == SIM_CONNECTED && !unread)
			sim__end_output(o);
		else if (o->f_state != SIM_DEAD || unread)
			refuse(o);
	}
	o->f_state = SIM_DEAD;
	unlink_peers(o);
}

/* ---- What is ready ---- */

size_t sim__room(const struct sim_open *o)
{
	const struct sim_open *peer = o->f_peer;

	return peer && !o->f_squeezed && peer->f_bytes < peer->f_room
		? peer->f_room - peer->f_bytes : 0;
}

/*
 * Returns SIM_OUT if `o' can send. The network takes any number of packets, but a peer
 * takes only PACKETS. A stream is writable if a third of the peer's room is free, as on
 * Linux.
 */
static uint32_t output_ready(const struct sim_open *o)
{
	const struct sim_open *peer = o->f_peer;
	size_t room = sim__room(o);

	if (o->f_kind == SOCK_DGRAM)
		return !peer || peer->f_pieces < PACKETS ? SIM_OUT : 0;
	return room > 0 && room >= peer->f_room / 3 ? SIM_OUT : 0;
}

uint32_t sim__pipe_ready(const struct sim_open *o)
{
	bool dead = o->f_state == SIM_DEAD;
	uint32_t now = STAILQ_EMPTY(&o->f_here) ? 0 : SIM_IN;

	if (o->f_type == &sim__pipe_in)
		return now | (dead ? EPOLLHUP : 0u);
	return dead ? SIM_OUT | EPOLLERR : sim__room(o) >= PAGE ? SIM_OUT : 0;
}

uint32_t sim__socket_ready(const struct sim_open *o)
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

/* ---- Packets ---- */

/* Called when the answer to a packet arrives: no socket has the packet's address. */
static void come_unreachable(struct sim_open *o, struct sim_piece *unused)
{
	(void)unused;
	if (o->f_state != SIM_CONNECTED)
		return;
	o->f_error = ECONNREFUSED;
	sim__changed(o, EPOLLERR | SIM_IN);
}

/*
 * Adds a packet to the input of socket `to'. Returns 0, or an error; -EAGAIN means that
 * the peer is full. After an error the packet still belongs to the caller.
 */
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
	push(to, &to->f_here, g);
	sim__changed(to, SIM_IN);
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
		sim__later(sim__run.r_now + latency(o, host), come_unreachable, o,
			   NULL);
}

static void send_one(struct sim_open *o, struct sim_host *host, struct sim_piece *g)
{
	int64_t when = arrival(o, host, g->g_size);

	sim__trace_piece("send", o->f_host, g, host, when);
	sim__later(when, come_packet, o, g);
}

/* Sends a packet over the network. See sim__send_packet(). */
static int send_far(struct sim_open *o, const struct sim_address *to, struct sim_piece *g)
{
	const struct sim_faults *f = &sim__faults;
	struct sim_host *host = sim__host_at(o, to);
	int rc = o->f_error ? sim__take_error(o) : sim__name_for(o, to);

	if (rc == 0 && sim__strikes("no-buffer", f->f_no_buffer))
		rc = -ENOBUFS;
	if (rc)
		return rc;
	g->g_from = sim__sender(o, to);
	g->g_to = *to;
	if (sim__strikes("loss", f->f_loss)) {
		free(g);
		return 0;
	}
	if (sim__strikes("duplicate", f->f_duplicate))
		send_one(o, host, memcpy(sim__piece(g->g_size), g,
					 sizeof *g + g->g_size));
	send_one(o, host, g);
	return 0;
}

int sim__send_packet(struct sim_open *o, const struct sim_address *to,
		     struct sim_piece *g)
{
	struct sim_open *other = o->f_peer;
	int rc;

	if (!to && o->f_state != SIM_CONNECTED)
		return sim__is_far(o) ? -EDESTADDRREQ : -ENOTCONN;
	if (sim__is_far(o))
		return send_far(o, to ? to : &o->f_remote, g);
	if (to || !other)
		other = sim__socket_at(o, to ? to : &o->f_remote, NULL);
	if (!other && to && to->a_text[0])
		return -ENOENT;
	g->g_from = o->f_local;
	rc = take_packet(o, other, g);
	if (rc == 0)
		sim__trace_piece("send", o->f_host, g, other->f_host, sim__run.r_now);
	return rc;
}
