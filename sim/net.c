/* SPDX-License-Identifier: MIT */
/*
 * net.c: the network: connections, packets, and the ways between them. AF_INET and
 * AF_INET6 are one network, over which all takes its time; AF_UNIX, as pipes, takes none.
 *
 *	connect()   begin   >   a new socket waits at the listener   >   accept()
 *	            come    <   a piece, SIM_BEGINS
 *	close()     SIM_ENDS >  the end of the input; a reset, if something is not read
 *
 * Two sockets that are connected are peers until both have ended.
 */
#include "world.h"

enum {
	ROOM      = 212992,             /* bytes, as Linux has it */
	SYN_TRIES = 7,                  /* after 1, 2, 4 ... s: 127 s */
	PACKETS   = 10,                 /* of AF_UNIX, that wait to be read */
	PAGE      = 4096,               /* bytes */
};

#define FIRST_PAUSE (200 * MILLISECOND)
#define LAST_PAUSE  (120 * SECOND)
#define PATIENCE    (900 * SECOND)

/* ---- Connections ---- */

struct sim_open *sim__new_socket(int family, enum sim_type type, int flags)
{
	struct sim_open *o = sim__new(type, flags | O_RDWR);

	o->f_family = family;
	o->f_room = ROOM;
	if (family != AF_UNIX)
		o->f_protocol = type == SIM_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
	return o;
}

void sim__pair(struct sim_open *a, struct sim_open *b)
{
	a->f_peer = sim__hold(b);
	b->f_peer = sim__hold(a);
	a->f_state = b->f_state = SIM_CONNECTED;
}

/* It is SIM_DEAD; or SIM_NEW, when a connection has not come about. */
static void end_as(struct sim_open *o, enum sim_state state, int error)
{
	o->f_state = state;
	o->f_error = error;
	if (state == SIM_DEAD) {
		o->f_input_ended = o->f_output_ended = true;
		sim__free_pieces(&o->f_coming);
	}
	sim__changed(o, SIM_ANY);
}

static void come_reset(struct sim_open *o, struct sim_piece *unused)
{
	(void)unused;
	if (o->f_host && !o->f_host->h_up)
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

/* `o' cannot take what has come, and says so. */
static void refuse(struct sim_open *o)
{
	int64_t when = sim__run.r_now + sim__latency(o, host_of_peer(o));

	when = when > o->f_last ? when : o->f_last;
	if (o->f_peer && o->f_far)
		sim__later(when, come_reset, o->f_peer, NULL);
}

/* What was sent to `o' is not acknowledged. */
static void give_up(struct sim_open *o, struct sim_piece *unused)
{
	(void)unused;
	if (o->f_state == SIM_CONNECTING)
		end_as(o, SIM_NEW, ETIMEDOUT);
	if (o->f_peer && o->f_peer->f_state == SIM_CONNECTED)
		end_as(o->f_peer, SIM_DEAD, ETIMEDOUT);
}

/* It is there. */
static void deliver(struct sim_open *o, struct sim_piece *g)
{
	if (o->f_state == SIM_DEAD) {
		if (g->g_what != SIM_ENDS)
			refuse(o);
	} else if (g->g_what == SIM_DATA) {
		sim__push(&o->f_here, g);
		sim__changed(o, SIM_IN);
		return;
	} else if (g->g_what == SIM_BEGINS) {
		o->f_state = SIM_CONNECTED;
		sim__changed(o, SIM_OUT);
	} else {
		o->f_input_ended = true;
		sim__changed(o, SIM_IN | EPOLLRDHUP | EPOLLHUP);
	}
	free(g);
}

/*
 * The next piece, unless nothing passes: then one is sent again after 200 ms, 400 ms, and
 * so on up to 2 minutes, as Linux does, for 15 minutes.
 */
static void come(struct sim_open *o, struct sim_piece *unused)
{
	int64_t now = sim__run.r_now, silence;

	if (!sim__is_cut(o->f_host, host_of_peer(o))) {
		o->f_silent = 0;
		if (o->f_coming.q_count > 0)
			deliver(o, sim__pop(&o->f_coming));
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

	if (!o->f_far) {
		sim__trace_piece("send", o->f_host, g, o->f_peer->f_host, sim__run.r_now);
		deliver(o->f_peer, g);
		return;
	}
	if (sim__strikes("reset", sim__faults.f_reset)) {
		free(g);
		sim__reset(o);
		return;
	}
	when = sim__arrival(o, o->f_peer->f_host, g->g_size);
	o->f_last = when > o->f_last ? when : o->f_last;
	sim__trace_piece("send", o->f_host, g, o->f_peer->f_host, o->f_last);
	sim__push(&o->f_peer->f_coming, g);
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
	if (o->f_peer && (o->f_far || o->f_peer->f_state != SIM_DEAD))
		send_mark(o, SIM_ENDS);
}

/* A new socket for the connection from `o' waits to be accepted. */
static struct sim_open *wait_at(struct sim_open *listener, struct sim_open *o)
{
	struct sim_open *s = sim__new_socket(listener->f_family, SIM_STREAM, 0);

	s->f_host = listener->f_host;
	s->f_room = listener->f_room;
	s->f_far = o->f_far = o->f_family != AF_UNIX;
	s->f_local = o->f_far ? o->f_remote : listener->f_local;
	s->f_remote = o->f_local;
	o->f_slow = s->f_slow = sim__strikes("slow", sim__faults.f_slow);
	sim__pair(s, o);
	STAILQ_INSERT_TAIL(&listener->f_waiting, s, f_of_listener);
	listener->f_waits++;
	sim__changed(listener, SIM_IN);
	return s;
}

/* What asks for a connection arrives, or does not, and is sent again. */
static void begin(struct sim_open *o, struct sim_piece *unused)
{
	struct sim_host *host = sim__host_at(o, &o->f_remote);
	struct sim_open *listener = sim__socket_at(o, &o->f_remote, &o->f_local);
	int64_t now = sim__run.r_now, pause = SECOND << o->f_tries;

	(void)unused;
	if (o->f_state != SIM_CONNECTING)
		return;
	if (sim__is_cut(o->f_host, host)
	    || (listener && listener->f_waits > listener->f_backlog)) {
		bool again = ++o->f_tries < SYN_TRIES;

		sim__later(now + pause, again ? begin : give_up, o, NULL);
		return;
	}
	o->f_tries = 0;
	if (listener) {
		struct sim_open *s = wait_at(listener, o);

		o->f_state = SIM_CONNECTING;    /* until it learns of it */
		send_mark(s, SIM_BEGINS);
	} else {
		sim__later(now + sim__latency(o, host), come_reset, o, NULL);
	}
}

static int connect_near(struct sim_open *o)
{
	struct sim_open *at = sim__socket_at(o, &o->f_remote, NULL);

	if (!at)
		return o->f_remote.a_text[0] ? -ENOENT : -ECONNREFUSED;
	if (o->f_type == SIM_DATAGRAM) {
		sim__drop(o->f_peer);
		o->f_peer = sim__hold(at);
	} else if (at->f_waits > at->f_backlog) {
		return -EAGAIN;
	} else {
		wait_at(at, o);
	}
	return 0;
}

int sim__begin_connection(struct sim_open *o)
{
	bool near = o->f_family == AF_UNIX;
	int rc = near ? connect_near(o) : sim__name_for(o, &o->f_remote);

	if (rc == 0 && o->f_type == SIM_DATAGRAM)
		o->f_state = SIM_CONNECTED;
	if (rc || near || o->f_type == SIM_DATAGRAM)
		return rc;
	o->f_state = SIM_CONNECTING;
	o->f_tries = 0;
	if (sim__strikes("no answer", sim__faults.f_no_answer))
		sim__later(sim__run.r_now + 127 * SECOND, give_up, o, NULL);
	else
		sim__later(sim__arrival(o, sim__host_at(o, &o->f_remote), 0), begin, o,
			   NULL);
	return -EINPROGRESS;
}

/* ---- The end ---- */

static void unlink_peers(struct sim_open *o)
{
	struct sim_open *peer = o->f_peer;

	if (!peer || (peer->f_peer == o && peer->f_state != SIM_DEAD))
		return;
	o->f_peer = NULL;
	if (peer->f_peer == o) {
		peer->f_peer = NULL;
		sim__drop(o);
	}
	sim__drop(peer);
}

static void end_listener(struct sim_open *o)
{
	struct sim_open *s;

	while ((s = STAILQ_FIRST(&o->f_waiting))) {
		STAILQ_REMOVE_HEAD(&o->f_waiting, f_of_listener);
		s->f_abrupt = true;
		s->f_gone = o->f_gone;
		sim__net_closed(s);
		sim__drop(s);
	}
}

void sim__net_closed(struct sim_open *o)
{
	bool unread = o->f_type == SIM_STREAM && (o->f_here.q_count > 0 || o->f_abrupt);
	struct sim_open *peer = o->f_peer && o->f_peer->f_peer == o ? o->f_peer : NULL;

	sim__leave_name(o);
	end_listener(o);
	if (peer && !o->f_far && peer->f_state == SIM_CONNECTED) {
		if (o->f_type == SIM_DATAGRAM)
			sim__changed(peer, SIM_OUT);
		else
			end_as(peer, SIM_DEAD, unread ? ECONNRESET : 0);
	} else if (peer && o->f_far && !o->f_gone) {
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
	size_t used = peer ? peer->f_here.q_bytes + peer->f_coming.q_bytes : 0;

	return peer && !o->f_squeezed && used < peer->f_room ? peer->f_room - used : 0;
}

/* As Linux says it: a pipe has a page, a stream a third of its room. */
static bool is_writable(const struct sim_open *o)
{
	const struct sim_open *peer = o->f_peer;
	size_t room = sim__room(o);

	if (o->f_type == SIM_DATAGRAM)
		return !peer || peer->f_peer != o || peer->f_here.q_count < PACKETS;
	return room > 0 && room >= (o->f_type == SIM_PIPE ? PAGE : peer->f_room / 3);
}

uint32_t sim__net_ready(const struct sim_open *o)
{
	bool dead = o->f_state == SIM_DEAD, listens = o->f_state == SIM_LISTENS;
	uint32_t now = o->f_error ? SIM_IN | EPOLLERR : 0u;

	if (o->f_type == SIM_STREAM && o->f_state == SIM_NEW)
		return o->f_error ? SIM_ANY : SIM_OUT | EPOLLHUP;
	if (o->f_state == SIM_CONNECTING)
		return 0;
	if (o->f_here.q_count > 0 || o->f_waits > 0)
		now |= SIM_IN;
	if (o->f_type == SIM_PIPE && (o->f_flags & O_ACCMODE) == O_RDONLY)
		return now | (dead ? EPOLLHUP : 0u);
	if (!listens && (o->f_output_ended || is_writable(o)))
		now |= SIM_OUT;
	if (o->f_type == SIM_PIPE)
		return now | (dead ? EPOLLERR : 0u);
	return now | (o->f_input_ended ? SIM_IN | EPOLLRDHUP : 0u)
		| (o->f_input_ended && o->f_output_ended ? EPOLLHUP : 0u);
}

/* ---- Packets ---- */

static void come_unreachable(struct sim_open *o, struct sim_piece *unused)
{
	(void)unused;
	if (o->f_state != SIM_CONNECTED)
		return;
	o->f_error = ECONNREFUSED;
	sim__changed(o, EPOLLERR | SIM_IN);
}

/* From `o', maybe closed by now. */
static void come_packet(struct sim_open *o, struct sim_piece *g)
{
	struct sim_host *host = sim__host_at(o, &g->g_to);
	struct sim_open *to = sim__socket_at(o, &g->g_to, &g->g_from);
	bool cut = sim__is_cut(o->f_host, host);

	if (to && !cut && to->f_here.q_bytes + g->g_size <= to->f_room) {
		sim__push(&to->f_here, g);
		sim__changed(to, SIM_IN);
		return;
	}
	free(g);
	if (!to && !cut)
		sim__later(sim__run.r_now + sim__latency(o, host), come_unreachable, o,
			   NULL);
}

static void send_one(struct sim_open *o, struct sim_host *host, struct sim_piece *g)
{
	int64_t when = sim__arrival(o, host, g->g_size);

	sim__trace_piece("send", o->f_host, g, host, when);
	sim__later(when, come_packet, o, g);
}

static int send_far(struct sim_open *o, const struct sim_address *to, struct sim_piece *g)
{
	const struct sim_faults *f = &sim__faults;
	struct sim_host *host = sim__host_at(o, to);
	int rc = o->f_error ? sim__take_error(o) : sim__name_for(o, to);

	if (rc == 0 && sim__strikes("no buffer", f->f_no_buffer))
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

/* Without a peer that reads its answers, `o' could not wait until there is room. */
static int send_near(struct sim_open *o, const struct sim_address *to,
		     struct sim_piece *g)
{
	struct sim_open *other = !to ? o->f_peer : sim__socket_at(o, to, NULL);

	if (!other)
		return to && to->a_text[0] ? -ENOENT : -ECONNREFUSED;
	if (other->f_state == SIM_DEAD)
		return -ECONNREFUSED;
	if (other->f_here.q_count >= PACKETS && other == o->f_peer && other->f_peer == o)
		return -EAGAIN;
	if (other->f_here.q_bytes + g->g_size > other->f_room)
		return -ENOBUFS;
	g->g_from = o->f_local;
	sim__trace_piece("send", o->f_host, g, other->f_host, sim__run.r_now);
	sim__push(&other->f_here, g);
	sim__changed(other, SIM_IN);
	return 0;
}

int sim__send_packet(struct sim_open *o, const struct sim_address *to,
		     struct sim_piece *g)
{
	if (!to && o->f_state != SIM_CONNECTED)
		return o->f_family == AF_UNIX ? -ENOTCONN : -EDESTADDRREQ;
	if (o->f_family == AF_UNIX)
		return send_near(o, to, g);
	return send_far(o, to ? to : &o->f_remote, g);
}
