/* SPDX-License-Identifier: MIT */
/*
 * uposix_table.c: the table of descriptors.
 *
 * An entry is valid while its number is open. Each call that opens or closes a number
 * clears the entry. Without such a call libc closes only descriptors of stdio, which
 * uposix_stdio.c handles, and descriptors that programs never see.
 *
 * O_NONBLOCK and time-outs belong to the open file description. Numbers that are copies
 * of each other, as by dup(), form a group, and a change is made to all entries of the
 * group.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE                  /* else read() here becomes __read_chk() */
#include "uposix_io.h"

#include "../src/base/sim.h"

#include <linux/kcmp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum {
	CHUNK  = 1024,                  /* entries of a chunk */
	CHUNKS = 4096,
};

bool uposix__child;

static struct uposix_fd *table[CHUNKS]; /* atomic */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t last_group;             /* newest group; under table_lock */
static bool used;                       /* unet has adopted a descriptor; under
					   table_lock */
static bool careful;                    /* a number was closed by a call that is not
					   seen here; atomic */

static struct uposix_fd *chunk_of(int fd)
{
	size_t i = (size_t)fd / CHUNK;

	return fd >= 0 && i < CHUNKS ? GET(table[i]) : NULL;
}

struct uposix_fd *uposix__known(int fd)
{
	struct uposix_fd *chunk = chunk_of(fd);

	if (!chunk || GET(chunk[(size_t)fd % CHUNK].f_kind) == UNKNOWN)
		return NULL;
	return &chunk[(size_t)fd % CHUNK];
}

static struct uposix_fd *new_chunk(size_t i)
{
	struct uposix_fd *chunk = calloc(CHUNK, sizeof *chunk), *now = NULL;

	if (chunk && !__atomic_compare_exchange_n(&table[i], &now, chunk, 0,
						  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		free(chunk);
		chunk = now;
	}
	return chunk;
}

/* Returns the entry, or NULL if there is no memory or `fd' is no valid number. */
static struct uposix_fd *entry(int fd)
{
	size_t i = (size_t)fd / CHUNK;
	struct uposix_fd *chunk = chunk_of(fd);

	if (fd < 0 || i >= CHUNKS)
		return NULL;
	if (!chunk)
		chunk = new_chunk(i);
	return chunk ? &chunk[(size_t)fd % CHUNK] : NULL;
}

static void begin_entry(int fd, int kind, bool nonblocking)
{
	struct uposix_fd *f = entry(fd);

	if (!f)
		return;
	SET(f->f_group, 0);
	SET(f->f_receive, 0);
	SET(f->f_send, 0);
	SET(f->f_least, 0);
	if (SIMULATED)                  /* a thread of a crashed host may hold the lock */
		SET(f->f_accept, NULL);
	SET(f->f_flags, nonblocking ? FD_NONBLOCK : 0);
	SET(f->f_kind, (uint8_t)kind);
	__atomic_fetch_add(&f->f_age, 1, __ATOMIC_ACQ_REL);
}

unsigned uposix__forget(int fd)
{
	struct uposix_fd *f = uposix__known(fd);
	unsigned flags = f ? GET(f->f_flags) : 0;

	if (f)
		begin_entry(fd, UNKNOWN, false);
	return flags;
}

void uposix__gone(int fd)
{
	uposix__forget(fd);
	unet__renewed(fd);
}

/*
 * If there is still an entry for this number, the earlier descriptor was closed by a call
 * that is not seen here, such as a system call without libc.
 */
int uposix__made(int fd, int kind, bool nonblocking)
{
	if (uposix__known(fd))
		SET(careful, true);
	uposix__gone(fd);
	if (kind != UNKNOWN)
		begin_entry(fd, kind, nonblocking);
	return fd;
}

void uposix__release(int fd)
{
	if (uposix__forget(fd) & FD_UNET)
		unet_forget(fd);
}

/* Kinds. */

static int kind_of(int fd)
{
	struct stat status;
	int type = 0;
	socklen_t size = sizeof type;

	if (fstat(fd, &status))
		return PLAIN;
	switch (status.st_mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFBLK:
		return PLAIN;
	case S_IFSOCK:
		if (fd <= STDERR_FILENO)
			return FOREIGN;
		getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
		return type == SOCK_STREAM ? STREAM : PACKET;
	case S_IFIFO:
	case S_IFCHR:
		return FOREIGN;
	default:
		return OTHER;
	}
}

/*
 * Returns true if the entry describes the file that is open at its number. Once a number
 * has been closed unseen, each call checks the entry, since a file without O_NONBLOCK
 * would block the processor. If only the flags differ, the file may be the same, and
 * threads may wait for it.
 */
static bool is_still(int fd, const struct uposix_fd *f)
{
	int flags = fcntl(fd, F_GETFL), kind = GET(f->f_kind), now = kind_of(fd);
	bool set = GET(f->f_flags) & (FD_OURS | FD_NONBLOCK);

	if (flags < 0)
		return true;
	if (now != kind
	    && !(now == FOREIGN && (kind == PIPE || fd <= STDERR_FILENO)))
		uposix__gone(fd);
	else if (set == !!(flags & O_NONBLOCK) || kind >= FOREIGN
		 || GET(f->f_flags) & FD_PASSED)        /* see uposix__sent() */
		return true;
	else
		uposix__forget(fd);
	return false;
}

/*
 * Returns the time in ms, rounded up, or 0 for more than 49 days, which count as no
 * time-out.
 */
static uint32_t milliseconds(const struct timeval *t)
{
	int64_t ms = t->tv_sec > INT32_MAX ? INT64_MAX
		: (int64_t)t->tv_sec * 1000 + (t->tv_usec + 999) / 1000;

	return ms > 0 && ms <= UINT32_MAX ? (uint32_t)ms : 0;
}

static uint32_t option(int fd, int name)
{
	union { struct timeval limit; int least; } v = { { 0, 0 } };
	socklen_t size = sizeof v;

	getsockopt(fd, SOL_SOCKET, name, &v, &size);
	if (name == SO_RCVLOWAT)
		return v.least > 1 ? (uint32_t)v.least : 0;
	return milliseconds(&v.limit);
}

/*
 * Reads the program's O_NONBLOCK under the lock, before the entry gets a kind. Once the
 * entry has a kind, unet may adopt the descriptor and set the same flag.
 */
struct uposix_fd *uposix__classified(int fd)
{
	struct uposix_fd *f = uposix__known(fd);
	int flags, before = errno;

	if (f && (!GET(careful) || is_still(fd, f))) {
		errno = before;
		return f;
	}
	f = entry(fd);
	if (!f)
		return NULL;
	pthread_mutex_lock(&table_lock);
	flags = GET(f->f_kind) == UNKNOWN ? fcntl(fd, F_GETFL) : -1;
	if (flags >= 0) {
		int kind = kind_of(fd);

		begin_entry(fd, UNKNOWN, flags & O_NONBLOCK);
		if (kind == STREAM || kind == PACKET) {
			SET(f->f_receive, option(fd, SO_RCVTIMEO));
			SET(f->f_send, option(fd, SO_SNDTIMEO));
			SET(f->f_least, option(fd, SO_RCVLOWAT));
		}
		SET(f->f_kind, (uint8_t)kind);
	}
	pthread_mutex_unlock(&table_lock);
	errno = before;
	return uposix__known(fd);
}

int uposix__kind(int fd)
{
	const struct uposix_fd *f = uposix__classified(fd);

	return f ? GET(f->f_kind) : PLAIN;
}

/* Flags. */

/* Calls func for each entry of a group. The caller holds the lock. */
static void each_of_group(struct uposix_fd *f,
			  void (*func)(struct uposix_fd *f, uint32_t a, uint32_t b),
			  uint32_t a, uint32_t b)
{
	uint32_t group = GET(f->f_group);

	func(f, a, b);
	for (size_t i = 0; group && i < CHUNKS; i++) {
		struct uposix_fd *chunk = GET(table[i]);

		for (size_t k = 0; chunk && k < CHUNK; k++)
			if (GET(chunk[k].f_group) == group && &chunk[k] != f)
				func(&chunk[k], a, b);
	}
}

static void change_one(struct uposix_fd *f, uint32_t set, uint32_t clear)
{
	SET(f->f_flags, (uint8_t)((GET(f->f_flags) & ~clear) | set));
}

static void change(struct uposix_fd *f, unsigned set, unsigned clear)
{
	each_of_group(f, change_one, set, clear);
}

void uposix__adopt(int fd, struct uposix_fd *f)
{
	unsigned flags = GET(f->f_flags);

	if (flags & FD_UNET && flags & (FD_NONBLOCK | FD_OURS))
		return;
	pthread_mutex_lock(&table_lock);
	if (!used)
		unet__doubt(&careful);
	used = true;
	if (!(GET(f->f_flags) & (FD_NONBLOCK | FD_OURS))) {
		change(f, FD_OURS, 0);          /* must come first, since native
						   threads look at this flag */
		unet__adopt_fd(fd);
	}
	change_one(f, FD_UNET, 0);
	pthread_mutex_unlock(&table_lock);
}

int uposix__see_flags(int fd)
{
	const struct uposix_fd *f = uposix__known(fd);
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && f && (GET(f->f_flags) & (FD_OURS | FD_NONBLOCK)) == FD_OURS)
		flags &= ~O_NONBLOCK;
	return flags;
}

/* A number that unet uses or has used keeps O_NONBLOCK. */
int uposix__change_flags(int fd, long flags)
{
	struct uposix_fd *f = uposix__known(fd);
	unsigned ours = 0, set = flags & O_NONBLOCK ? FD_NONBLOCK : 0;
	int rc;

	if (!f)
		return fcntl(fd, F_SETFL, flags);
	pthread_mutex_lock(&table_lock);
	if (GET(f->f_kind) < FOREIGN && GET(f->f_flags) & (FD_OURS | FD_UNET))
		ours = FD_OURS;
	rc = fcntl(fd, F_SETFL, ours ? flags | O_NONBLOCK : flags);
	if (rc == 0)
		change(f, set | ours, FD_NONBLOCK & ~set);
	pthread_mutex_unlock(&table_lock);
	return rc;
}

static void set_one(struct uposix_fd *f, uint32_t name, uint32_t value)
{
	SET(*(name == SO_RCVTIMEO ? &f->f_receive
	      : name == SO_SNDTIMEO ? &f->f_send : &f->f_least), value);
}

void uposix__set_option(int fd, int name)
{
	struct uposix_fd *f = uposix__classified(fd);

	if (!f)
		return;
	pthread_mutex_lock(&table_lock);
	each_of_group(f, set_one, (uint32_t)name, option(fd, name));
	pthread_mutex_unlock(&table_lock);
}

/* Copies. */

/* Finds out the flags of `fd' first, before unet sets O_NONBLOCK for either number. */
int uposix__copied(int fd, int copy)
{
	struct uposix_fd *f, *g;

	if (copy < 0 || copy == fd)
		return copy;
	if (SIMULATED)
		sim__copied(fd, copy);
	uposix__made(copy, UNKNOWN, false);
	f = uposix__classified(fd);
	g = f ? entry(copy) : NULL;
	if (!g || GET(f->f_kind) >= FOREIGN)
		return copy;
	pthread_mutex_lock(&table_lock);
	if (f->f_group == 0)
		SET(f->f_group, ++last_group);
	SET(g->f_receive, GET(f->f_receive));
	SET(g->f_send, GET(f->f_send));
	SET(g->f_least, GET(f->f_least));
	SET(g->f_flags, GET(f->f_flags) & (FD_NONBLOCK | FD_OURS | FD_PASSED));
	SET(g->f_group, GET(f->f_group));
	SET(g->f_kind, GET(f->f_kind));
	pthread_mutex_unlock(&table_lock);
	return copy;
}

/*
 * Calls func for each number of a group until func returns false. The caller holds the
 * lock.
 */
static bool each_number(int fd, uint32_t group, bool (*func)(int fd))
{
	bool all = func(fd);

	for (size_t i = 0; group && i < CHUNKS; i++) {
		struct uposix_fd *chunk = GET(table[i]);

		for (size_t k = 0; all && chunk && k < CHUNK; k++)
			if (GET(chunk[k].f_group) == group && i * CHUNK + k != (size_t)fd)
				all = func((int)(i * CHUNK + k));
	}
	return all;
}

static unsigned held;                   /* entries of unet that let_block() holds; under
					   table_lock */

static bool hold(int fd)
{
	if (!(GET(entry(fd)->f_flags) & FD_UNET))
		return true;
	if (!unet__hold(fd))
		return false;
	held++;
	return true;
}

static bool let_go(int fd)
{
	if (held > 0 && GET(entry(fd)->f_flags) & FD_UNET) {
		unet__let_go(fd);
		held--;
	}
	return held > 0;
}

/*
 * Clears O_NONBLOCK if this library has set the flag and no thread waits. Returns whether
 * the flag is clear now. The caller holds the lock.
 */
static bool let_block(int fd, const struct uposix_fd *f)
{
	uint32_t group = GET(f->f_group);
	bool idle;

	if ((GET(f->f_flags) & (FD_OURS | FD_NONBLOCK)) != FD_OURS)
		return !(GET(f->f_flags) & FD_NONBLOCK);
	idle = each_number(fd, group, hold);
	if (idle)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	each_number(fd, group, let_go);
	return idle;
}

/*
 * Another process that receives the descriptor does not expect O_NONBLOCK. If this
 * process receives the descriptor, both numbers form a group. A thread that waits later
 * sets O_NONBLOCK again.
 */
void uposix__sent(int fd)
{
	struct uposix_fd *f = uposix__classified(fd);

	if (!f || GET(f->f_kind) >= FOREIGN)
		return;
	pthread_mutex_lock(&table_lock);
	change(f, FD_PASSED, 0);
	let_block(fd, f);
	pthread_mutex_unlock(&table_lock);
}

static void end_kind(struct uposix_fd *f, uint32_t kind, uint32_t unused)
{
	(void)unused;
	SET(f->f_kind, (uint8_t)kind);
}

void uposix__lend(int fd)
{
	struct uposix_fd *f = uposix__classified(fd);

	if (!f || GET(f->f_kind) >= FOREIGN)
		return;
	pthread_mutex_lock(&table_lock);
	if (let_block(fd, f))
		each_of_group(f, end_kind, FOREIGN, 0);
	pthread_mutex_unlock(&table_lock);
}

/*
 * Returns true if two numbers refer to the same open file description. Where kcmp(2) is
 * refused, as in containers, inode and flags are compared. Different sockets and ends of
 * pipes differ in these, except for a few that are opened by name.
 */
static bool is_same(int a, int b)
{
	long pid = getpid();
	long rc = syscall(SYS_kcmp, pid, pid, KCMP_FILE, (long)a, (long)b);
	struct stat one, other;

	if (rc >= 0)
		return rc == 0;
	return fstat(a, &one) == 0 && fstat(b, &other) == 0
		&& (S_ISSOCK(one.st_mode) || S_ISFIFO(one.st_mode))
		&& one.st_dev == other.st_dev && one.st_ino == other.st_ino
		&& fcntl(a, F_GETFL) == fcntl(b, F_GETFL);
}

void uposix__received(int fd)
{
	int other = -1;
	struct uposix_fd *f;

	uposix__made(fd, UNKNOWN, false);
	for (size_t i = 0; other < 0 && i < CHUNKS; i++) {
		struct uposix_fd *chunk = GET(table[i]);

		for (size_t k = 0; other < 0 && chunk && k < CHUNK; k++)
			if (GET(chunk[k].f_flags) & FD_PASSED
			    && is_same(fd, (int)(i * CHUNK + k)))
				other = (int)(i * CHUNK + k);
	}
	if (other >= 0)
		uposix__copied(other, fd);
	f = uposix__classified(fd);
	if (!f)
		return;
	pthread_mutex_lock(&table_lock);
	change_one(f, FD_PASSED, 0);
	pthread_mutex_unlock(&table_lock);
}

/* Clears the entries of all numbers in the range, also in unet. */
void uposix__forget_range(unsigned first, unsigned last)
{
	for (size_t i = first / CHUNK; i < CHUNKS && i <= last / CHUNK; i++) {
		unsigned at = (unsigned)i * CHUNK;

		for (unsigned fd = at; GET(table[i]) && fd < at + CHUNK; fd++)
			if (fd >= first && fd <= last)
				uposix__release((int)fd);
	}
}

/*
 * Forks. In the child unet starts anew, for threads that the child starts. O_NONBLOCK
 * stays set, since the parent shares the open file descriptions.
 */

static void hold_table(int on)
{
	(on ? pthread_mutex_lock : pthread_mutex_unlock)(&table_lock);
}

static void io_forked(void)
{
	uposix__child = used;
	for (size_t i = 0; i < CHUNKS; i++)
		for (size_t k = 0; GET(table[i]) && k < CHUNK; k++)
			change_one(&table[i][k], 0, FD_UNET);
	unet__forked();
}

UPOSIX_AT_FORK(UPOSIX_TABLE, hold_table, io_forked)
