/* SPDX-License-Identifier: MIT */
/*
 * transfer.c: reads and writes of descriptors of the world. All of them come down to two
 * calls with a struct msghdr, get() and put().
 */
#undef _FORTIFY_SOURCE
#include "world.h"

#include <sys/sendfile.h>

#include "../posix/uposix_set.h"

enum {
	PIPE_WHOLE = 4096,              /* PIPE_BUF: written as one */
	UDP_MAX    = 65507,
	FILE_PART  = 4096,              /* of sendfile() */
};

/* ---- Pieces ---- */

struct sim_piece *sim__piece(size_t size)
{
	static uint64_t made;
	struct sim_piece *g = sim__memory(sizeof *g + size);

	g->g_size = size;
	g->g_number = ++made;
	return g;
}

void sim__push(struct sim_pieces *q, struct sim_piece *g)
{
	STAILQ_INSERT_TAIL(&q->q_pieces, g, g_next);
	q->q_bytes += g->g_size - g->g_at;
	q->q_count++;
}

struct sim_piece *sim__pop(struct sim_pieces *q)
{
	struct sim_piece *g = STAILQ_FIRST(&q->q_pieces);

	STAILQ_REMOVE_HEAD(&q->q_pieces, g_next);
	q->q_bytes -= g->g_size - g->g_at;
	q->q_count--;
	return g;
}

void sim__free_pieces(struct sim_pieces *q)
{
	while (q->q_count > 0)
		free(sim__pop(q));
}

static size_t size_of(const struct msghdr *m)
{
	size_t size = 0;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		size += m->msg_iov[i].iov_len;
	return size;
}

/* Copies between a block and the buffers of a message, behind the first `skip' bytes. */
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

/* ---- Reads ---- */

/* Bytes of the pieces of a stream, or one packet. */
static ssize_t get_pieces(struct sim_open *o, struct msghdr *m, int flags)
{
	bool packet = o->f_type == SIM_DATAGRAM;
	struct sim_piece *g = STAILQ_FIRST(&o->f_here.q_pieces), *next;
	size_t size = size_of(m), done = 0, all = g->g_size;

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
		g->g_at += n;
		o->f_here.q_bytes -= n;
		if (packet || g->g_at == g->g_size)
			free(sim__pop(&o->f_here));
	} while ((g = next) && done < size);
	return (ssize_t)(packet && flags & MSG_TRUNC ? all : done);
}

int sim__take_error(struct sim_open *o)
{
	int error = o->f_error;

	o->f_error = 0;
	return -error;
}

/* What there is to say when nothing is there. */
static ssize_t get_nothing(struct sim_open *o)
{
	if (o->f_error)
		return sim__take_error(o);
	if (o->f_input_ended || o->f_state == SIM_DEAD)
		return 0;
	if (o->f_type == SIM_STREAM && o->f_state <= SIM_LISTENS)
		return o->f_family == AF_UNIX ? -EINVAL : -ENOTCONN;
	return -EAGAIN;
}

static ssize_t get(struct sim_open *o, struct msghdr *m, int flags)
{
	struct sim_open *peer = o->f_peer && o->f_peer->f_peer == o ? o->f_peer : NULL;
	uint32_t before = peer ? sim__net_ready(peer) : 0;
	ssize_t n;

	m->msg_flags = 0;
	m->msg_controllen = 0;
	if ((o->f_flags & O_ACCMODE) == O_WRONLY)
		return -EBADF;
	if (o->f_type > SIM_DATAGRAM)
		return sim__count_read(o, m);
	if (o->f_type == SIM_STREAM)
		m->msg_namelen = 0;
	if (flags & MSG_OOB)
		return -EINVAL;
	if (o->f_type != SIM_DATAGRAM && size_of(m) == 0)
		return 0;
	if (o->f_here.q_count == 0 || flags & MSG_ERRQUEUE
	    || (o->f_type == SIM_DATAGRAM && o->f_error))
		return get_nothing(o);
	n = get_pieces(o, m, flags);
	if (peer && sim__net_ready(peer) & ~before & SIM_OUT)
		sim__changed(peer, SIM_OUT);    /* there is room again */
	return n;
}

/* ---- Writes ---- */

static ssize_t broken(int flags)
{
	if (!(flags & MSG_NOSIGNAL))
		raise(SIGPIPE);
	return -EPIPE;
}

static void end_squeeze(struct sim_open *o, struct sim_piece *unused)
{
	(void)unused;
	o->f_squeezed = false;
	if (o->f_numbers > 0 && sim__net_ready(o) & EPOLLOUT)
		sim__changed(o, SIM_OUT);
}

/* How many of the bytes are taken; an error: none. */
static ssize_t portion(struct sim_open *o, size_t size)
{
	size_t room = sim__room(o);

	if (room == 0 || (o->f_type == SIM_PIPE && size <= PIPE_WHOLE && room < size))
		return -EAGAIN;
	size = size < room ? size : room;
	if (o->f_far && size > 1
	    && sim__strikes("short write", sim__faults.f_short)) {
		size = 1 + sim__choose("bytes of a short write", size - 1);
		o->f_squeezed = true;
		sim__later(sim__run.r_now + MILLISECOND, end_squeeze, o, NULL);
	}
	return (ssize_t)size;
}

/* Returns how many of the bytes come together. */
static size_t part_of(const struct sim_open *o, size_t size)
{
	if (!o->f_far || size < 2 || !sim__strikes("part", 8))
		return size;
	return 1 + sim__choose("bytes of a part", size - 1);
}

static ssize_t put_stream(struct sim_open *o, const struct msghdr *m, int flags)
{
	struct sim_piece *g;
	ssize_t n;

	if (o->f_error && o->f_state != SIM_NEW) {
		n = sim__take_error(o);
		return n == -EPIPE ? broken(flags) : n;
	}
	if (o->f_state <= SIM_LISTENS && o->f_family == AF_UNIX)
		return -ENOTCONN;
	if (o->f_state == SIM_CONNECTING)
		return -EAGAIN;
	if (o->f_output_ended || o->f_state != SIM_CONNECTED
	    || !o->f_peer)
		return broken(flags);
	if (size_of(m) == 0)
		return 0;
	n = portion(o, size_of(m));
	for (size_t at = 0; n > 0 && at < (size_t)n && o->f_peer; at += g->g_size) {
		g = sim__piece(part_of(o, (size_t)n - at));
		copy(m, at, g->g_data, g->g_size, false);
		sim__send(o, g);
	}
	return n;
}

static ssize_t put_packet(struct sim_open *o, const struct msghdr *m)
{
	size_t size = size_of(m);
	struct sim_address to;
	struct sim_piece *g;
	int rc;

	if (size > (o->f_family == AF_UNIX ? o->f_room : UDP_MAX))
		return -EMSGSIZE;
	if (o->f_output_ended)
		return -EPIPE;
	rc = m->msg_name ? sim__take_address(o, m->msg_name, m->msg_namelen, &to) : 0;
	if (rc)
		return rc;
	if (m->msg_name)
		sim__resolve(&to);
	g = sim__piece(size);
	copy(m, 0, g->g_data, size, false);
	rc = sim__send_packet(o, m->msg_name ? &to : NULL, g);
	if (rc == 0)
		return (ssize_t)size;
	free(g);
	return rc;
}

static ssize_t put(struct sim_open *o, const struct msghdr *m, int flags)
{
	if ((o->f_flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	if (o->f_type > SIM_DATAGRAM)
		return sim__count_write(o, m);
	if (m->msg_controllen > 0) {
		UPOSIX_TELL_ONCE("descriptors cannot be passed in a simulation");
		return -EOPNOTSUPP;
	}
	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	return o->f_type == SIM_DATAGRAM ? put_packet(o, m) : put_stream(o, m, flags);
}

/* ---- The calls ---- */

/* A message of n buffers; of one. */
#define PARTS(iov, n) (&(struct msghdr){ .msg_iov = (struct iovec *)(uintptr_t)(iov),	\
					 .msg_iovlen = (n) > 0 ? (size_t)(n) : 0 })
#define ONE(data, size) PARTS((&(struct iovec){ (void *)(uintptr_t)(data), size }), 1)

static ssize_t get_from(struct sim_open *o, void *buffer, size_t size, int flags,
			struct sockaddr *from, socklen_t *from_size)
{
	struct msghdr *m = ONE(buffer, size);
	ssize_t n;

	m->msg_name = from;
	m->msg_namelen = from && from_size ? *from_size : 0;
	n = get(o, m, flags);
	if (n >= 0 && from_size)
		*from_size = m->msg_namelen;
	return n;
}

static ssize_t put_to(struct sim_open *o, const void *data, size_t size, int flags,
		      const struct sockaddr *to, socklen_t to_size)
{
	struct msghdr *m = ONE(data, size);

	m->msg_name = (void *)(uintptr_t)to;
	m->msg_namelen = to_size;
	return put(o, m, flags);
}

/* A part of the file, of which what is not taken is read again. */
static ssize_t put_file(struct sim_open *o, int from, off_t *offset, size_t size)
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

CALL(ssize_t, read, (int fd, void *buffer, size_t size), (fd, buffer, size),
     get(o, ONE(buffer, size), 0))
CALL(ssize_t, readv, (int fd, const struct iovec *iov, int n), (fd, iov, n),
     get(o, PARTS(iov, n), 0))
CALL(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size),
     put(o, ONE(data, size), 0))
CALL(ssize_t, writev, (int fd, const struct iovec *iov, int n), (fd, iov, n),
     put(o, PARTS(iov, n), 0))
SOCKET_CALL(ssize_t, recv, (int fd, void *buffer, size_t size, int flags),
	    (fd, buffer, size, flags), get(o, ONE(buffer, size), flags))
SOCKET_CALL(ssize_t, recvfrom, (int fd, void *buffer, size_t size, int flags,
				struct sockaddr *from, socklen_t *from_size),
	    (fd, buffer, size, flags, from, from_size),
	    get_from(o, buffer, size, flags, from, from_size))
SOCKET_CALL(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags),
	    get(o, m, flags))
SOCKET_CALL(int, recvmmsg, (int fd, struct mmsghdr *messages, unsigned n, int flags,
			    struct timespec *limit),
	    (fd, messages, n, flags, limit), -ENOSYS)
SOCKET_CALL(ssize_t, send, (int fd, const void *data, size_t size, int flags),
	    (fd, data, size, flags), put(o, ONE(data, size), flags))
SOCKET_CALL(ssize_t, sendto, (int fd, const void *data, size_t size, int flags,
			      const struct sockaddr *to, socklen_t to_size),
	    (fd, data, size, flags, to, to_size),
	    put_to(o, data, size, flags, to, to_size))
SOCKET_CALL(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags),
	    put(o, m, flags))
SOCKET_CALL(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned n, int flags),
	    (fd, messages, n, flags), -ENOSYS)

/* They move pages of the system: programs copy where it cannot. */
CALL_IF(o || sim__of_fd(out), ssize_t, splice,
	(int fd, off64_t *from, int out, off64_t *to, size_t size, unsigned flags),
	(fd, from, out, to, size, flags), -EINVAL)
CALL_IF(o || sim__of_fd(out), ssize_t, tee,
	(int fd, int out, size_t size, unsigned flags), (fd, out, size, flags), -EINVAL)
CALL(ssize_t, sendfile, (int fd, int from, off_t *offset, size_t size),
     (fd, from, offset, size), put_file(o, from, offset, size))
CALL(ssize_t, vmsplice, (int fd, const struct iovec *iov, size_t n, unsigned flags),
     (fd, iov, n, flags), -EINVAL)
