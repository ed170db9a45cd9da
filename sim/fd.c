/* SPDX-License-Identifier: MIT */
/*
 * fd.c: descriptors of the world: their numbers, copies and flags, poll and epoll. An
 * epoll instance is a set of watches. When something happens to a descriptor, each watch
 * of the descriptor is queued in its set, and epoll_wait() examines queued watches only.
 */
#undef _FORTIFY_SOURCE
#include "world.h"

#include <poll.h>
#include <sys/ioctl.h>

enum {
	SLOTS = 1 << 20,                /* the default of fs.nr_open on Linux */
	NESTED = 4,                     /* depth of sets in sets, as in Linux */
};

static struct sim_open *table[SLOTS];   /* open files of the world, by descriptor */
static int slots;                       /* entries from this index on are unused */

/* ---- The table ---- */

static struct sim_open *entry(int fd)
{
	return fd >= 0 && fd < slots ? table[fd] : NULL;
}

struct sim_open *sim__of_fd(int fd)
{
	if (!entry(fd) || entry(fd)->f_file)
		return NULL;
	sim__catch_up();
	return entry(fd);
}

struct file *sim__file_of(int fd)
{
	return entry(fd) ? entry(fd)->f_file : NULL;
}

struct sim_open *sim__new(const struct sim_type *type)
{
	struct sim_open *o = sim__memory(sizeof *o);

	o->f_type = type;
	o->f_refs = 1;
	o->f_host = sim__host();
	STAILQ_INIT(&o->f_here);
	STAILQ_INIT(&o->f_coming);
	STAILQ_INIT(&o->f_waiting);
	TAILQ_INIT(&o->f_ready);
	return o;
}

/* Puts a watch into the queue of its set, or takes the watch out. */
static void queue(struct sim_watch *w, bool queued)
{
	if (queued && !w->w_queued)
		TAILQ_INSERT_TAIL(&w->w_set->f_ready, w, w_ready);
	else if (!queued && w->w_queued)
		TAILQ_REMOVE(&w->w_set->f_ready, w, w_ready);
	w->w_queued = queued;
}

static void end_watch(struct sim_watch *w)
{
	queue(w, false);
	LIST_REMOVE(w, w_of_set);
	LIST_REMOVE(w, w_of_open);
	free(w);
}

void sim__end_open(struct sim_open *o)
{
	while (!LIST_EMPTY(&o->f_watches))
		end_watch(LIST_FIRST(&o->f_watches));
	while (!LIST_EMPTY(&o->f_set))
		end_watch(LIST_FIRST(&o->f_set));
	if (o->f_type->t_close)
		o->f_type->t_close(o);
	sim__drop(o);
}

/*
 * Stands for all sockets that the kernel has alone, such as those of AF_NETLINK, if a set
 * watches them. The kernel answers what such a socket sends within that call.
 */
static struct sim_open outside;

/* Returns the watch of `o' as descriptor `fd' in a set, or in any if that is NULL. */
static struct sim_watch *watch_of(const struct sim_open *o, int fd,
				  const struct sim_open *set)
{
	struct sim_watch *w;

	LIST_FOREACH(w, &o->f_watches, w_of_open)
		if (w->w_fd == fd && (!set || w->w_set == set))
			break;
	return w;
}

/* Removes `fd' from the table. Ends the open file if `fd' was the last descriptor. */
static void take(int fd)
{
	struct sim_open *o = entry(fd);
	struct sim_watch *w;

	while (!o && (w = watch_of(&outside, fd, NULL)))
		end_watch(w);
	if (!o)
		return;
	sim__catch_up();
	table[fd] = NULL;
	if (--o->f_numbers == 0)
		sim__end_open(o);
}

/* An older entry is that of a descriptor that was closed in a way that the simulation
   does not see, such as by syscall(). */
int sim__enter_number(int fd, struct sim_open *o)
{
	take(fd);
	if (fd >= SLOTS)
		sim_fail("a descriptor has the number %d", fd);
	slots = fd < slots ? slots : fd + 1;
	table[fd] = o;
	if (o)
		o->f_numbers++;
	return fd;
}

/* ---- The limit of descriptors ---- */

/* A program sets the lower limit of descriptors only: sim__own() needs the other one. */
int uposix_setrlimit(__rlimit_resource_t what, const struct rlimit *limit)
{
	struct rlimit to = *limit, now;

	if (to.rlim_cur > to.rlim_max)
		return (int)sim__answer(-EINVAL);
	if (what == RLIMIT_NOFILE && getrlimit(what, &now) == 0)
		to.rlim_max = MAX(to.rlim_max, now.rlim_max);
	return setrlimit(what, &to);
}

int sim__own(int fd)
{
	struct rlimit now, all;

	getrlimit(RLIMIT_NOFILE, &now);
	all = (struct rlimit){ now.rlim_max, now.rlim_max };
	setrlimit(RLIMIT_NOFILE, &all);
	fd = sim__copied(fd, fcntl(fd, F_DUPFD_CLOEXEC, sim__high()));
	setrlimit(RLIMIT_NOFILE, &now);
	return fd;
}

/* ---- The calls: copies, flags, the end ---- */

REPLACE(int, close, (int fd))
{
	if (fd >= 0 && fd <= STDERR_FILENO && sim__several)
		return 0;               /* all programs have these */
	take(fd);
	return real_close(fd);
}

void sim__close_all(const struct sim_host *host)
{
	for (int fd = 0; fd < slots; fd++)
		if (table[fd] && table[fd]->f_host == host) {
			take(fd);
			real_close(fd);
		}
}

void sim__reset_all(const struct sim_host *one, const struct sim_host *other)
{
	for (int fd = 0; fd < slots; fd++) {
		struct sim_open *o = table[fd];

		if (o && sim__is_far(o) && o->f_state == SIM_CONNECTED && o->f_peer
		    && o->f_host == one && (!other || o->f_peer->f_host == other))
			sim__reset(o);
	}
}

int sim__number(struct sim_open *o, int fd)
{
	int error = fd < 0 ? errno : 0;

	if (sim__strikes("open", sim__faults.f_open))
		error = EMFILE;
	else if (sim__strikes("no-memory", sim__faults.f_no_memory))
		error = o->f_family ? ENOBUFS : ENOMEM;
	if (error == 0)
		return sim__enter_number(fd, o);
	real_close(fd);
	sim__drop(o);
	return (int)sim__answer(-error);
}

int sim__copied(int fd, int copy)
{
	return copy < 0 || entry(copy) == entry(fd) ? copy
		: sim__enter_number(copy, entry(fd));
}

/* Returns how many bytes a queue has. If `o' has packets, only the first counts. */
static int bytes_of(const struct sim_open *o, const struct sim_pieces *q)
{
	const struct sim_piece *g;
	size_t bytes = 0;

	STAILQ_FOREACH(g, q, g_next)
		if (bytes == 0 || o->f_kind != SOCK_DGRAM)
			bytes += g->g_size - g->g_at;
	return (int)bytes;
}

CALL(int, ioctl, (unsigned long request, void *argument), (request, argument))
{
	if (request == FIONREAD)
		*(int *)argument = bytes_of(o, &o->f_here);
	else if (request == TIOCOUTQ)
		*(int *)argument = o->f_peer ? bytes_of(o, &o->f_peer->f_coming) : 0;
	else if (real_ioctl(fd, request, argument))     /* such as SIOCGIFCONF */
		return -errno;
	return 0;
}

/* ---- poll, without waiting ---- */

REPLACE(int, poll, (struct pollfd *fds, nfds_t n, UNUSED int ms))
{
	const struct sim_open *o;
	int found = 0;

	for (struct pollfd *one = fds; one < fds + n; found += one++->revents != 0) {
		uint32_t asked = (uint16_t)one->events | SIM_ALWAYS;

		o = sim__of_fd(one->fd);
		if (o)
			one->revents = (short)(o->f_type->t_ready(o) & asked);
		else
			real_poll(one, 1, 0);
	}
	return found;
}

/* ---- epoll ---- */

void sim__changed(struct sim_open *o, uint32_t events)
{
	struct sim_watch *w;

	LIST_FOREACH(w, &o->f_watches, w_of_open)
		if (events & w->w_events) {
			queue(w, true);
			sim__due(0);
			sim__changed(w->w_set, SIM_IN);
		}
}

ssize_t sim__outside(ssize_t n)
{
	sim__changed(&outside, SIM_IN);
	return n;
}

/* Returns those events of a watch that are true for the descriptor. */
static uint32_t events_of(const struct sim_watch *w)
{
	struct pollfd one = { w->w_fd, (short)w->w_events, 0 };

	if (w->w_open == &outside)
		return real_poll(&one, 1, 0) > 0 ? (uint16_t)one.revents : 0;
	return w->w_open->f_type->t_ready(w->w_open) & w->w_events;
}

static uint32_t set_ready(const struct sim_open *set)
{
	const struct sim_watch *w;

	TAILQ_FOREACH(w, &set->f_ready, w_ready)
		if (events_of(w))
			return SIM_IN;
	return 0;
}

static const struct sim_type set_type = { .t_ready = set_ready };

REPLACE(int, epoll_create1, (int flags))
{
	return sim__number(sim__new(&set_type), real_epoll_create1(flags));
}

/* Returns what a set watches as `fd', or NULL. */
static struct sim_open *watched_as(int fd)
{
	struct sim_open *o = sim__of_fd(fd);
	struct stat s;

	return o || fstat(fd, &s) || !S_ISSOCK(s.st_mode) ? o : &outside;
}

/* Returns whether a set watches another one, or is in too many, as Linux has it. */
static bool is_nested(const struct sim_open *set, const struct sim_open *in, int depth)
{
	const struct sim_watch *w;

	if (set->f_type != &set_type || set == in || depth == NESTED)
		return set->f_type == &set_type;
	LIST_FOREACH(w, &set->f_set, w_of_set)
		if (is_nested(w->w_open, in, depth + 1))
			return true;
	return false;
}

CALL(int, epoll_ctl, (int op, int of, struct epoll_event *e), (op, of, e))
{
	struct sim_open *watched = watched_as(of);
	struct sim_watch *w;

	if (o->f_type != &set_type || watched == o)
		return -EINVAL;
	if (!watched)
		return fcntl(of, F_GETFD) < 0 ? -EBADF : -EPERM;
	w = watch_of(watched, of, o);
	if (!w == (op != EPOLL_CTL_ADD))
		return w ? -EEXIST : -ENOENT;
	if (op == EPOLL_CTL_DEL) {
		end_watch(w);
		return 0;
	}
	if (!w && is_nested(watched, o, 0))
		return -ELOOP;
	if (!w) {
		w = sim__memory(sizeof *w);
		*w = (struct sim_watch){ .w_fd = of, .w_set = o, .w_open = watched };
		LIST_INSERT_HEAD(&o->f_set, w, w_of_set);
		LIST_INSERT_HEAD(&watched->f_watches, w, w_of_open);
	}
	w->w_events = e->events | SIM_ALWAYS;
	w->w_data = e->data;
	if (events_of(w)) {
		queue(w, true);
		sim__changed(o, SIM_IN);
	}
	return 0;
}

CALL(int, epoll_wait, (struct epoll_event *events, int max, UNUSED int ms),
     (events, max, ms))
{
	struct sim_watch *w, *last = TAILQ_LAST(&o->f_ready, sim_ready);
	int n = 0;

	if (o->f_type != &set_type || max <= 0)
		return -EINVAL;
	while (n < max && (w = TAILQ_FIRST(&o->f_ready))) {
		uint32_t now = events_of(w);

		queue(w, false);
		if (now) {
			events[n].events = now;
			events[n++].data = w->w_data;
			if (w->w_events & EPOLLONESHOT)
				w->w_events = 0;
			else if (!(w->w_events & EPOLLET))
				queue(w, true);
		}
		if (w == last)
			break;
	}
	return n;
}
