/* SPDX-License-Identifier: MIT */
/*
 * transfer.c: reads and writes of descriptors of the world. Each call becomes a struct
 * msghdr for get() or put().
 */
#undef _FORTIFY_SOURCE
#include "world.h"

#include <sys/sendfile.h>

#include "../posix/uposix_set.h"

enum {
	PIPE_WHOLE = 4096,              /* PIPE_BUF: a write of up to this many bytes to a
					   pipe is not split */
	UDP_MAX    = 65507,             /* the most bytes of a packet over the network */
	FILE_PART  = 4096,              /* bytes that sendfile() moves at a time */
	PASSED     = 253,               /* SCM_MAX_FD of Linux: the most descriptors that
					   a message passes */
};

/* ---- Messages ---- */

static size_t size_of(const struct msghdr *m)
{
	size_t size = 0;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		size += m->msg_iov[i].iov_len;
	return size;
}

/*
 * If `out' is true, copies `size' bytes from a block to the buffers of a message;
 * otherwise from the buffers to the block. Begins after `skip' bytes of the buffers.
 */
static void copy(const struct msghdr *m, size_t skip, char *block, size_t size, bool out)
{
	for (size_t i = 0; i < m->msg_iovlen && size > 0; i++) {
		const struct iovec *v = &m->msg_iov[i];
		size_t n = v->iov_len > skip ? v->iov_len - skip : 0;

		n = n < size ? n : size;
		if (n > 0 && out)
			memcpy((char *)v->iov_base + skip, block, n);
		else if (n > 0)
			memcpy(block, (char *)v->iov_base + skip, n);
		skip = n > 0 || v->iov_len > skip ? 0 : skip - v->iov_len;
		block += n;
		size -= n;
	}
}

/*
 * Makes a piece pass the descriptors of a message by SCM_RIGHTS: a copy of each, with a
 * number that the program does not use. Returns 0 or an error.
 */
static int pass(struct sim_piece *g, const struct msghdr *m)
{
	const char *end = (const char *)m->msg_control + m->msg_controllen;
	struct msghdr all = *m;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&all); c; c = CMSG_NXTHDR(&all, c)) {
		int fd, n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof fd);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS
		    || c->cmsg_len < CMSG_LEN(0)
		    || c->cmsg_len > (size_t)(end - (char *)c))
			return -EINVAL;
		if (!g->g_passed)
			g->g_passed = sim__memory((PASSED + 1) * sizeof fd);
		if (n > PASSED - g->g_passed[0])
			return -EINVAL;
		for (int i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + (size_t)i * sizeof fd, sizeof fd);
			fd = fcntl(fd, F_DUPFD_CLOEXEC, sim__high());
			if (fd < 0)
				return -errno;
			g->g_passed[++g->g_passed[0]] = fd;
		}
	}
	return 0;
}

/* Gives the descriptors that a piece passes to a reader with `room' bytes for them. */
static void give(const struct sim_piece *g, struct msghdr *m, size_t room, int flags)
{
	int how = flags & MSG_CMSG_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, fd, n = 0;
	struct cmsghdr *c = m->msg_control;

	while (n < g->g_passed[0] && CMSG_LEN((size_t)(n + 1) * sizeof fd) <= room
	       && (fd = fcntl(g->g_passed[n + 1], how, 0)) >= 0)
		memcpy(CMSG_DATA(c) + (size_t)n++ * sizeof fd, &fd, sizeof fd);
	if (n < g->g_passed[0])
		m->msg_flags |= MSG_CTRUNC;
	if (n == 0)
		return;
	c->cmsg_len = CMSG_LEN((size_t)n * sizeof fd);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	m->msg_controllen = CMSG_SPACE((size_t)n * sizeof fd);
	m->msg_controllen = m->msg_controllen < room ? m->msg_controllen : room;
}

/* ---- Reads ---- */

/*
 * Reads one packet, or bytes of a stream, which may be in several pieces. A read that
 * gets descriptors ends with the piece that passes them.
 */
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
		size_t n = g->g_size - g->g_at;

		next = packet ? NULL : STAILQ_NEXT(g, g_next);
		n = n < size - done ? n : size - done;
		copy(m, done, g->g_data + g->g_at, n, true);
		done += n;
		if (flags & MSG_PEEK)
			continue;
		if (g->g_at == 0)
			sim__trace_piece("receive", o->f_host, g, o->f_host,
					 sim__run.r_now);
		if (g->g_at == 0 && g->g_passed) {
			give(g, m, room, flags);
			next = NULL;
		}
		g->g_at += n;
		o->f_bytes -= n;
		if (packet || g->g_at == g->g_size)
			sim__free_piece(sim__pop(o, &o->f_here));
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

static ssize_t get(struct sim_open *o, struct msghdr *m, int flags)
{
	m->msg_flags = 0;
	if (!o->f_type->t_read)
		return o->f_type == &sim__pipe_out ? -EBADF : -EINVAL;
	return o->f_type->t_read(o, m, flags);
}

/* ---- Writes ---- */

/* Raises SIGPIPE unless the flags forbid that. Returns -EPIPE. */
static ssize_t broken(int flags)
{
	if (!(flags & MSG_NOSIGNAL))
		raise(SIGPIPE);
	return -EPIPE;
}

/* Called some time after a short write: lets writes succeed again. */
static void end_squeeze(struct sim_open *o, struct sim_piece *unused)
{
	(void)unused;
	o->f_squeezed = false;
	if (o->f_numbers > 0 && o->f_type->t_ready(o) & EPOLLOUT)
		sim__changed(o, SIM_OUT);
}

/* `size' bytes are to be written. Returns how many of them `o' takes now, or an error. */
static ssize_t portion(struct sim_open *o, size_t size)
{
	size_t room = sim__room(o);

	if (room == 0 || (!o->f_family && size <= PIPE_WHOLE && room < size))
		return -EAGAIN;
	size = size < room ? size : room;
	if (sim__is_far(o) && size > 1
	    && sim__strikes("short", sim__faults.f_short)) {
		size = 1 + sim__choose("bytes of a short write", size - 1);
		o->f_squeezed = true;
		sim__later(sim__run.r_now + MILLISECOND, end_squeeze, o, NULL);
	}
	return (ssize_t)size;
}

/* Returns how many of the next `size' bytes are sent as one piece. */
static size_t part_of(const struct sim_open *o, size_t size)
{
	if (!sim__is_far(o) || size < 2 || !sim__strikes("part", 8))
		return size;
	return 1 + sim__choose("bytes of a part", size - 1);
}

static ssize_t put_stream(struct sim_open *o, const struct msghdr *m, int flags)
{
	struct sim_piece *g;
	size_t part;
	ssize_t n;

	if (o->f_error && o->f_state != SIM_NEW) {
		n = sim__take_error(o);
		return n == -EPIPE ? broken(flags) : n;
	}
	if (o->f_state <= SIM_LISTENS && o->f_family == AF_UNIX)
		return -ENOTCONN;
	if (o->f_state == SIM_CONNECTING)
		return -EAGAIN;
	if (o->f_output_ended || o->f_state != SIM_CONNECTED || !o->f_peer)
		return broken(flags);
	if (size_of(m) == 0)
		return 0;
	n = portion(o, size_of(m));
	for (ssize_t at = 0; at < n && o->f_state == SIM_CONNECTED; at += (ssize_t)part) {
		int rc;

		part = part_of(o, (size_t)(n - at));
		g = sim__piece(part);
		copy(m, (size_t)at, g->g_data, part, false);
		rc = at == 0 ? pass(g, m) : 0;
		if (rc) {
			sim__free_piece(g);
			return rc;
		}
		sim__send(o, g);
	}
	return n;
}

static ssize_t put_packet(struct sim_open *o, const struct msghdr *m, int flags)
{
	size_t size = size_of(m);
	struct sim_address to;
	struct sim_piece *g;
	int rc;

	(void)flags;
	if (size > (o->f_family == AF_UNIX ? o->f_room : UDP_MAX))
		return -EMSGSIZE;
	if (o->f_output_ended)
		return -EPIPE;
	rc = !m->msg_name ? 0
		: sim__take_address(o, m->msg_name, m->msg_namelen, true, &to);
	if (rc)
		return rc;
	g = sim__piece(size);
	copy(m, 0, g->g_data, size, false);
	rc = pass(g, m);
	rc = rc ? rc : sim__send_packet(o, m->msg_name ? &to : NULL, g);
	if (rc == 0)
		return (ssize_t)size;
	sim__free_piece(g);
	return rc;
}

static ssize_t put(struct sim_open *o, const struct msghdr *m, int flags)
{
	if (!o->f_type->t_write)
		return o->f_type == &sim__pipe_in ? -EBADF : -EINVAL;
	if (flags & MSG_OOB || (m->msg_controllen > 0 && o->f_family != AF_UNIX))
		return -EOPNOTSUPP;
	return o->f_type->t_write(o, m, flags);
}

const struct sim_type sim__pipe_in = { sim__pipe_ready, get_data, NULL, sim__net_close };
const struct sim_type sim__pipe_out = { sim__pipe_ready, NULL, put_stream,
					sim__net_close };
const struct sim_type sim__stream = { sim__socket_ready, get_data, put_stream,
				      sim__net_close };
const struct sim_type sim__packets = { sim__socket_ready, get_data, put_packet,
				       sim__net_close };

/* ---- The calls ---- */

/*
 * Pointers to a struct msghdr. TO has n buffers and the address `name' of `size' bytes;
 * PARTS has n buffers, and ONE a single buffer.
 */
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

SOCKET_CALL(int, sendmmsg, (struct mmsghdr *messages, unsigned n, int flags),
	    (messages, n, flags))
{
	ssize_t rc = 0;
	unsigned i = 0;

	for (; i < n && (rc = put(o, &messages[i].msg_hdr, flags)) >= 0; i++)
		messages[i].msg_len = (unsigned)rc;
	return i > 0 ? (ssize_t)i : rc;
}

/*
 * Sends the next part of a file. The offset moves only past what `o' has taken, so that
 * the next call reads the rest again.
 */
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
