/* SPDX-License-Identifier: MIT */
/*
 * fd.c: descriptors of the world: their numbers, copies and flags, and what is ready. An
 * epoll instance is a set of watches; so is a poller of the library, uevents_sim.c. When
 * something happens its watches are queued, and to look at a set is to ask these.
 */
#undef _FORTIFY_SOURCE
#include "world.h"

#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

static struct sim_open **table;
static int slots;
static int copied[3] = { -1, -1, -1 };  /* a socket, a pipe, an eventfd */

/* ---- The table ---- */

void *sim__memory(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		sim_fail("no memory for the world");
	return memory;
}

struct sim_open *sim__of_fd(int fd)
{
	struct sim_open *o = fd >= 0 && fd < slots ? table[fd] : NULL;

	if (o)
		sim__catch_up();
	return o;
}

struct sim_open *sim__new(enum sim_type type, int flags)
{
	struct sim_open *o = sim__memory(sizeof *o);

	o->f_type = type;
	o->f_flags = flags & (O_NONBLOCK | O_ACCMODE);
	o->f_refs = 1;
	o->f_host = sim__host();
	STAILQ_INIT(&o->f_here.q_pieces);
	STAILQ_INIT(&o->f_coming.q_pieces);
	STAILQ_INIT(&o->f_waiting);
	return o;
}

void sim__drop(struct sim_open *o)
{
	if (!o || --o->f_refs > 0)
		return;
	sim__free_pieces(&o->f_here);
	sim__free_pieces(&o->f_coming);
	free(o->f_set);
	free(o);
}

static void unqueue(struct sim_watch *w)
{
	if (w->w_queued)
		TAILQ_REMOVE(&w->w_set->s_ready, w, w_ready);
	w->w_queued = false;
}

static void end_watch(struct sim_watch *w)
{
	unqueue(w);
	LIST_REMOVE(w, w_of_set);
	LIST_REMOVE(w, w_of_open);
	free(w);
}

void sim__end_set(struct sim_set *s)
{
	while (!LIST_EMPTY(&s->s_all))
		end_watch(LIST_FIRST(&s->s_all));
}

/* Its last number was closed. */
static void end_open(struct sim_open *o)
{
	while (!LIST_EMPTY(&o->f_watches))
		end_watch(LIST_FIRST(&o->f_watches));
	if (o->f_type == SIM_EPOLL)
		sim__end_set(o->f_set);
	else if (o->f_type <= SIM_DATAGRAM)
		sim__net_closed(o);
	else
		sim__count_closed(o);
}

static void take(int fd)
{
	struct sim_open *o = sim__of_fd(fd);

	if (!o)
		return;
	table[fd] = NULL;
	if (--o->f_numbers == 0)
		end_open(o);
	sim__drop(o);
}

/* What had the number before was closed unseen, as by syscall(). */
static void put(int fd, struct sim_open *o)
{
	take(fd);
	if (fd >= slots) {
		int n = fd < 512 ? 1024 : 2 * fd;
		struct sim_open **more = sim__memory((size_t)n * sizeof *more);

		if (slots > 0)
			memcpy(more, table, (size_t)slots * sizeof *more);
		free(table);
		table = more;
		slots = n;
	}
	table[fd] = sim__hold(o);
	o->f_numbers++;
}


/* ---- The calls: copies, flags, the end ---- */

REPLACE(int, close, (int fd))
{
	take(fd);
	return real_close(fd);
}

HOOK_LATER(int, fcntl, (int fd, int command, ...))

void sim__close_all(const struct sim_host *host)
{
	for (int fd = 0; fd < slots; fd++)
		if (table[fd] && table[fd]->f_host == host) {
			table[fd]->f_gone = true;
			take(fd);
			real_close(fd);
		}
}

struct sim_open *sim__connection(const struct sim_host *one, const struct sim_host *other)
{
	for (int fd = 0; fd < slots; fd++) {
		struct sim_open *o = table[fd];

		if (o && o->f_far && o->f_state == SIM_CONNECTED && o->f_peer
		    && o->f_host == one && (!other || o->f_peer->f_host == other))
			return o;
	}
	return NULL;
}

/* High numbers, so that the program's are those that they would be. */
static int copy_of(enum sim_type type, bool cloexec)
{
	int which = type == SIM_PIPE ? 1 : type < SIM_COUNTER ? 0 : 2;
	int fds[2] = { -1, -1 }, *at = &copied[which];

	if (*at < 0 || real_fcntl(*at, F_GETFD) < 0) {
		if (which == 0)
			fds[0] = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
		else if (which == 2)
			fds[0] = (int)syscall(SYS_eventfd2, 0, 0);
		else if (syscall(SYS_pipe2, fds, 0) == 0)
			real_close(fds[1]);
		*at = real_fcntl(fds[0], F_DUPFD_CLOEXEC, sim__high());
		real_close(fds[0]);
	}
	return real_fcntl(*at, cloexec ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
}

int sim__number(struct sim_open *o, bool cloexec)
{
	int fd = -1, rc = -EMFILE;

	if (!sim__strikes("no descriptor", sim__faults.f_open)) {
		fd = copy_of(o->f_type, cloexec);
		rc = fd < 0 ? -errno : fd;
	}
	if (fd >= 0)
		put(fd, o);
	sim__drop(o);                   /* the number has it */
	return rc;
}

int sim__two(struct sim_open *a, struct sim_open *b, bool cloexec, int fds[2])
{
	int first = sim__number(a, cloexec), second;

	if (first < 0) {
		sim__net_closed(b);
		sim__drop(b);
		return first;
	}
	second = sim__number(b, cloexec);
	if (second < 0) {
		in_close(first);
		return second;
	}
	fds[0] = first;
	fds[1] = second;
	return 0;
}

static int copied_as(struct sim_open *o, int copy)
{
	if (copy >= 0 && o)
		put(copy, o);
	return copy;
}

CALL(int, dup, (int fd), (fd), copied_as(o, real_dup(fd)))

REPLACE(int, dup3, (int fd, int copy, int flags))
{
	struct sim_open *o = sim__of_fd(fd);
	int rc = real_dup3(fd, copy, flags);

	if (rc >= 0)
		take(copy);
	return copied_as(o, rc);
}

REPLACE(int, dup2, (int fd, int copy))
{
	return fd == copy ? real_dup2(fd, copy) : in_dup3(fd, copy, 0);
}

static int in_fcntl(int fd, int command, ...)
{
	struct sim_open *o = sim__of_fd(fd);
	va_list list;
	long argument;

	va_start(list, command);
	argument = va_arg(list, long);
	va_end(list);
	if (o && command == F_GETFL)
		return o->f_flags;
	if (o && command == F_SETFL) {
		o->f_flags = (o->f_flags & O_ACCMODE) | (int)(argument & ~O_ACCMODE);
		return 0;
	}
	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		return copied_as(o, real_fcntl(fd, command, argument));
	return real_fcntl(fd, command, argument);
}

/* Bytes that are there; or those of the next packet. */
static int bytes_of(const struct sim_open *o)
{
	const struct sim_piece *first = STAILQ_FIRST(&o->f_here.q_pieces);

	if (o->f_type == SIM_DATAGRAM)
		return first ? (int)first->g_size : 0;
	return (int)o->f_here.q_bytes;
}

REPLACE(int, ioctl, (int fd, unsigned long request, ...))
{
	struct sim_open *o = sim__of_fd(fd);
	va_list list;
	int *argument;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	if (!o)
		return real_ioctl(fd, request, argument);
	if (request == FIONBIO)
		o->f_flags = (o->f_flags & ~O_NONBLOCK) | (*argument ? O_NONBLOCK : 0);
	else if (request == FIONREAD)
		*argument = bytes_of(o);
	else if (request == TIOCOUTQ)
		*argument = o->f_peer ? (int)o->f_peer->f_coming.q_bytes : 0;
	else
		return (int)sim__answer(-ENOTTY);
	return 0;
}

/* ---- Watches ---- */

static uint32_t ready(const struct sim_open *o)
{
	if (o->f_type == SIM_EPOLL) {
		const struct sim_watch *w;

		TAILQ_FOREACH(w, &o->f_set->s_ready, w_ready)
			if (ready(w->w_open) & (w->w_events | SIM_ALWAYS))
				return SIM_IN;
		return 0;
	}
	return o->f_type <= SIM_DATAGRAM ? sim__net_ready(o) : sim__count_ready(o);
}

static void queue(struct sim_watch *w, bool tells)
{
	if (!w->w_queued)
		TAILQ_INSERT_TAIL(&w->w_set->s_ready, w, w_ready);
	w->w_queued = true;
	if (tells && w->w_set->s_open)
		sim__changed(w->w_set->s_open, SIM_IN);
}

void sim__changed(struct sim_open *o, uint32_t events)
{
	struct sim_watch *w;

	LIST_FOREACH(w, &o->f_watches, w_of_open)
		if (w->w_events && events & (w->w_events | SIM_ALWAYS))
			queue(w, true);
}

/* A descriptor has a few watches. */
static struct sim_watch *watch_of(const struct sim_set *s, int fd)
{
	struct sim_open *o = sim__of_fd(fd);
	struct sim_watch *w;

	if (o)
		LIST_FOREACH(w, &o->f_watches, w_of_open)
			if (w->w_set == s && w->w_fd == fd)
				return w;
	return NULL;
}

int sim__watch(struct sim_set *s, int fd, bool new, uint32_t events, epoll_data_t data)
{
	struct sim_open *o = sim__of_fd(fd);
	struct sim_watch *w = watch_of(s, fd);

	if (!o)
		return fcntl(fd, F_GETFD) < 0 ? -EBADF : -EPERM;
	if (new == !!w)
		return w ? -EEXIST : -ENOENT;
	if (new) {
		w = sim__memory(sizeof *w);
		w->w_fd = fd;
		w->w_set = s;
		w->w_open = o;
		LIST_INSERT_HEAD(&s->s_all, w, w_of_set);
		LIST_INSERT_HEAD(&o->f_watches, w, w_of_open);
	}
	w->w_events = events | SIM_ALWAYS;
	w->w_data = data;
	if (ready(o) & w->w_events)
		queue(w, true);
	return 0;
}

int sim__unwatch(struct sim_set *s, int fd)
{
	struct sim_watch *w = watch_of(s, fd);

	if (w)
		end_watch(w);
	return w ? 0 : -ENOENT;
}

int sim__find(struct sim_set *s, struct epoll_event *events, int max)
{
	struct sim_watch *w, *last = TAILQ_LAST(&s->s_ready, sim_ready);
	int n = 0;

	while (n < max && (w = TAILQ_FIRST(&s->s_ready))) {
		uint32_t now = ready(w->w_open) & w->w_events;
		bool was_last = w == last;

		unqueue(w);
		if (now) {
			events[n].events = now;
			events[n++].data = w->w_data;
			if (w->w_events & EPOLLONESHOT)
				w->w_events = 0;
			else if (!(w->w_events & EPOLLET))
				queue(w, false);
		}
		if (was_last)
			break;
	}
	return n;
}

void sim__init_set(struct sim_set *s)
{
	LIST_INIT(&s->s_all);
	TAILQ_INIT(&s->s_ready);
	s->s_open = NULL;
}

/* ---- epoll ---- */

REPLACE(int, epoll_create1, (int flags))
{
	struct sim_open *o = sim__new(SIM_EPOLL, O_RDWR);

	o->f_set = sim__memory(sizeof *o->f_set);
	sim__init_set(o->f_set);
	o->f_set->s_open = o;
	return (int)sim__answer(sim__number(o, flags & EPOLL_CLOEXEC));
}

REPLACE(int, epoll_create, (int size))
{
	return size > 0 ? in_epoll_create1(0) : (int)sim__answer(-EINVAL);
}

static int change_set(struct sim_open *o, int op, int fd, const struct epoll_event *e)
{
	if (!o->f_set || sim__of_fd(fd) == o)
		return -EINVAL;
	return op == EPOLL_CTL_DEL ? sim__unwatch(o->f_set, fd)
		: sim__watch(o->f_set, fd, op == EPOLL_CTL_ADD, e->events, e->data);
}

static int look(struct sim_open *o, struct epoll_event *events, int max)
{
	return o->f_set && max > 0 ? sim__find(o->f_set, events, max) : -EINVAL;
}

CALL(int, epoll_ctl, (int fd, int op, int of, struct epoll_event *e), (fd, op, of, e),
     change_set(o, op, of, e))
CALL(int, epoll_wait, (int fd, struct epoll_event *events, int max, int ms),
     (fd, events, max, ms), look(o, events, max))

/* ---- poll, without waiting ---- */

/* Descriptors of libc's are ready: it is not known when, in the world. */
static short poll_one(const struct pollfd *one)
{
	const struct sim_open *o = sim__of_fd(one->fd);
	uint32_t asked = (uint16_t)one->events | SIM_ALWAYS;

	if (o)
		return (short)(ready(o) & asked);
	if (fcntl(one->fd, F_GETFD) < 0)
		return POLLNVAL;
	return (short)(asked & (SIM_IN | SIM_OUT));
}

REPLACE(int, poll, (struct pollfd *fds, nfds_t n, int ms))
{
	int found = 0;

	(void)ms;
	for (nfds_t i = 0; i < n; i++) {
		fds[i].revents = fds[i].fd < 0 ? 0 : poll_one(&fds[i]);
		found += fds[i].revents != 0;
	}
	return found;
}
