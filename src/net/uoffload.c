/* SPDX-License-Identifier: MIT */
/*
 * uoffload.c: a pool of native threads; files and name look-ups by it.
 *
 * A job is on the heap, followed by its input and output, since the native thread must
 * not follow pointers to the stack of a blocked thread. Under the lock of the pool, a job
 * belongs to its waiter until that gives up; then to the pool.
 *
 * Jobs are of classes, and native threads, too. A class has a queue of its own and as
 * many native threads as the bound allows, so no class waits for another.
 *
 * A job that a native thread is in stays in a list, so that uoffload_drain() can name the
 * function, and leak checkers find what a process leaves behind that exits meanwhile.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* preadv2() */
#endif
#include "../../uoffload.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../wait/budget.h"
#include "../base/cancel.h"
#include "../base/check.h"
#include "../base/code.h"
#include "../base/native.h"
#include "../base/sim.h"
#include "../base/when.h"
#include "../../unet.h"

enum {
	IDLE_SECONDS = 10,              /* seconds: then a native thread ends */
	ADDRESS_MAX  = 64,              /* addresses of one lookup */
	MOMENT       = 1000000,         /* ns for native threads to end, between looks */
};

enum job_kind { OF_CALLS, OF_FILES, OF_NAMES, CLASSES };

struct job {
	struct job     *j_next;         /* o_lock: in the queue, or in o_going */
	enum job_kind   j_kind;         /* constant */
	void          (*j_func)(void *data);
	void          (*j_drop)(void *data);
	struct uwaiter *j_waiter;       /* o_lock; NULL: the waiter has gone */
	bool            j_done;         /* o_lock */
	bool            j_skip;         /* not made if the waiter has gone: constant */
	_Alignas(16) char j_data[];
};

struct crew {
	pthread_cond_t  c_work;         /* there are jobs, or too many native threads */
	struct job     *c_first;
	struct job    **c_end;
	unsigned        c_queued;
	unsigned        c_threads;
	unsigned        c_idle;
};

static struct {
	pthread_mutex_t o_lock;         /* of all that follows */
	pthread_cond_t  o_quiet;        /* the last native thread has ended */
	struct crew     o_crews[CLASSES];
	struct job     *o_going;        /* that native threads are in */
	unsigned        o_limit;        /* native threads of each class */
	unsigned        o_threads;      /* of all */
	unsigned        o_draining;     /* uoffload_drain() */
	bool            o_one_ended;    /* o_ended is to be joined */
	pthread_t       o_ended;
} offload = {
	.o_lock  = PTHREAD_MUTEX_INITIALIZER,
	.o_quiet = PTHREAD_COND_INITIALIZER,
	.o_crews = {
		[OF_CALLS] = { .c_work = PTHREAD_COND_INITIALIZER },
		[OF_FILES] = { .c_work = PTHREAD_COND_INITIALIZER },
		[OF_NAMES] = { .c_work = PTHREAD_COND_INITIALIZER },
	},
	.o_limit = UOFFLOAD_THREADS,
};

/* For reports. */
static const struct uwait_kind in_pool = { .k_name = "the pool of native threads" };

/* MemorySanitizer's, if linked: it does not know preadv2(). */
void __msan_unpoison(const volatile void *p, size_t size) __attribute__((weak));

static struct job *new_job(enum job_kind kind, void (*func)(void *data),
			   void (*drop)(void *data), size_t size)
{
	struct job *job = size < SIZE_MAX - sizeof *job
		? (struct job *)malloc(sizeof *job + size) : NULL;

	if (job)
		*job = (struct job){ .j_kind = kind, .j_func = func, .j_drop = drop };
	return job;
}

/* False: this native thread is to end. */
static bool dequeue(struct crew *c, struct job **job)
{
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_SECONDS;
	while (!c->c_first && rc == 0 && !offload.o_draining
	       && c->c_threads <= offload.o_limit) {
		c->c_idle++;
		rc = pthread_cond_timedwait(&c->c_work, &offload.o_lock, &until);
		c->c_idle--;
	}
	*job = c->c_first;
	if (!*job || c->c_threads > offload.o_limit)
		return false;
	c->c_first = (*job)->j_next;
	c->c_queued--;
	return true;
}

static void drop_job(struct job *job)
{
	if (job->j_drop)
		job->j_drop(job->j_data);
	free(job);
}

/* Under o_lock, released for the call. */
static void perform_job(struct job *job)
{
	struct uwaiter *w;
	struct job **at;
	bool claimed, dropped, skip = job->j_skip && !job->j_waiter;

	job->j_next = offload.o_going;
	offload.o_going = job;
	pthread_mutex_unlock(&offload.o_lock);
	if (!skip)
		job->j_func(job->j_data);
	pthread_mutex_lock(&offload.o_lock);
	for (at = &offload.o_going; *at != job; at = &(*at)->j_next)
		;
	*at = job->j_next;
	w = job->j_waiter;
	dropped = !w;
	claimed = w && uwait_claim(w);
	job->j_done = true;
	if (claimed) {
		uwait_finish(w, 0);
	} else if (dropped) {
		pthread_mutex_unlock(&offload.o_lock);
		drop_job(job);
		pthread_mutex_lock(&offload.o_lock);
	}
}

/*
 * Under o_lock, which is released. An ending native thread joins the one that ended
 * before it, and is joined by the next, or by uoffload_drain().
 */
static void join_worker(bool ends)
{
	bool one = offload.o_one_ended;
	pthread_t ended = offload.o_ended;

	offload.o_one_ended = ends;
	offload.o_ended = pthread_self();
	pthread_mutex_unlock(&offload.o_lock);
	if (one)
		pthread_join(ended, NULL);
}

static void *work(void *crew)
{
	struct crew *c = (struct crew *)crew;
	struct job *job;

	name_native("usched pool");
	pthread_mutex_lock(&offload.o_lock);
	while (dequeue(c, &job))
		perform_job(job);
	c->c_threads--;
	if (--offload.o_threads == 0)
		pthread_cond_broadcast(&offload.o_quiet);
	join_worker(true);
	return NULL;
}

/* Under o_lock. It may fail. */
__attribute__((noinline))                /* its frame is large */
static void add_native(struct crew *c)
{
	sigset_t all, old;
	pthread_t native;
	bool added;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	added = pthread_create(&native, NULL, work, c) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	c->c_threads += added;
	offload.o_threads += added;
}

/* Begins the wait. -EAGAIN: there is no native thread for the job. */
static int enqueue(struct job *job)
{
	struct crew *c = &offload.o_crews[job->j_kind];
	int rc;

	pthread_mutex_lock(&offload.o_lock);
	if (c->c_idle <= c->c_queued && c->c_threads < offload.o_limit)
		add_native(c);
	rc = c->c_threads > 0 ? 0 : -EAGAIN;
	if (rc == 0) {
		uwait_begin(job->j_waiter);
		*(c->c_first ? c->c_end : &c->c_first) = job;
		c->c_end = &job->j_next;
		c->c_queued++;
		pthread_cond_signal(&c->c_work);
	}
	pthread_mutex_unlock(&offload.o_lock);
	return rc;
}

/*
 * 0: the job is done, and the caller's again. An error: it is freed, or will be. Inlined,
 * as offload_as(), so that a report has the place in the program.
 */
__attribute__((always_inline))
static inline int run_job(struct job *job, int64_t deadline)
{
	struct uwaiter *w;
	int rc;

	if (SIMULATED && ustack_self()) {       /* there are no native threads */
		ustack_yield();
		job->j_func(job->j_data);
		return 0;
	}
	rc = uwait_prepare_outside(&w, deadline);
	if (rc == 0) {
		job->j_waiter = w;
		uwait_note(w, &in_pool, NULL, __builtin_return_address(0));
		rc = enqueue(job);
	}
	if (rc) {
		drop_job(job);
		return rc;
	}
	rc = uwait_block(w);
	if (rc == 0)
		return 0;
	pthread_mutex_lock(&offload.o_lock);
	job->j_waiter = NULL;
	if (job->j_done)                        /* done meanwhile */
		rc = 0;
	pthread_mutex_unlock(&offload.o_lock);
	return rc;
}

__attribute__((always_inline))
static inline int offload_as(enum job_kind kind, void (*func)(void *argument),
		      void (*drop)(void *argument), void *argument, size_t size,
		      int64_t deadline)
{
	struct job *job = new_job(kind, func, drop, size);
	int rc;

	if (!job && drop)
		drop(argument);
	if (!job)
		return -ENOMEM;
	if (size > 0)
		memcpy(job->j_data, argument, size);
	rc = run_job(job, deadline);
	if (rc)
		return rc;
	if (size > 0)
		memcpy(argument, job->j_data, size);
	free(job);
	return 0;
}

int uoffload(void (*func)(void *argument), void (*drop)(void *argument), void *argument,
	     size_t size, int64_t deadline)
{
	check(size ? argument : NULL, BUFFER, __func__);
	check_inside(argument, size, __func__, __builtin_return_address(0));
	return offload_as(OF_CALLS, func, drop, argument, size, deadline);
}

int uoffload__name(void (*func)(void *argument), void *argument, size_t size)
{
	return offload_as(OF_NAMES, func, NULL, argument, size, USCHED_NEVER);
}

/* Under o_lock: idle native threads look again whether they are to end. */
static void wake_all(void)
{
	for (int i = 0; i < CLASSES; i++)
		pthread_cond_broadcast(&offload.o_crews[i].c_work);
}

int uoffload_limit(unsigned threads)
{
	if (threads == 0)
		return -EINVAL;
	pthread_mutex_lock(&offload.o_lock);
	offload.o_limit = threads;
	wake_all();
	pthread_mutex_unlock(&offload.o_lock);
	return 0;
}

/* Under o_lock: each function that native threads are in, once. */
static void report_going(unsigned queued)
{
	const struct job *i, *j;
	char function[CODE];
	unsigned n;

	fprintf(stderr, "usched: uoffload_drain: calls that go on at the deadline:\n");
	for (j = offload.o_going; j; j = j->j_next) {
		for (i = offload.o_going; i->j_func != j->j_func; i = i->j_next)
			;
		if (i != j)
			continue;
		for (n = 0; i; i = i->j_next)
			n += i->j_func == j->j_func;
		fprintf(stderr, "usched:   function %s, calls: %u\n",
			code(function, (const void *)(uintptr_t)j->j_func), n);
	}
	if (queued > 0)
		fprintf(stderr, "usched:   that wait for a native thread: %u\n", queued);
}

/* Under o_lock. o_quiet goes by the clock of the day, which may be set: 0 only says that
   the caller is to look again. */
static int wait_quiet(int64_t deadline)
{
	int64_t now = when_now(), left = deadline > now ? deadline - now : MOMENT;
	struct timespec until;
	unsigned queued = 0;

	if (deadline == USCHED_NEVER)
		return -pthread_cond_wait(&offload.o_quiet, &offload.o_lock);
	for (int i = 0; i < CLASSES; i++)
		queued += offload.o_crews[i].c_queued;
	if (deadline <= now && (offload.o_going || queued > 0)) {
		report_going(queued);
		return -ETIMEDOUT;
	}
	if (left > INT64_MAX / 2)
		left = INT64_MAX / 2;           /* so the sum does not overflow */
	until = when_of(when_by(CLOCK_REALTIME) + left);
	pthread_cond_timedwait(&offload.o_quiet, &offload.o_lock, &until);
	return 0;
}

int uoffload_drain(int64_t deadline)
{
	int before = defer_cancel(), rc = 0;

	pthread_mutex_lock(&offload.o_lock);
	offload.o_draining++;
	wake_all();
	while (offload.o_threads > 0 && rc == 0)
		rc = wait_quiet(deadline);
	offload.o_draining--;
	join_worker(false);
	allow_cancel(before);
	return rc;
}

/* Its native threads are not there, and what they held never opens. */
void uoffload__forked(void)
{
	offload.o_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	offload.o_quiet = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	for (int i = 0; i < CLASSES; i++)
		offload.o_crews[i] = (struct crew){ .c_work = PTHREAD_COND_INITIALIZER };
	offload.o_going = NULL;
	offload.o_threads = 0;
	offload.o_draining = 0;
	offload.o_one_ended = false;
}

/* Files. */

struct file_call {
	int         f_fd;
	int         f_flags;
	mode_t      f_mode;
	off_t       f_offset;
	size_t      f_size;
	ssize_t     f_rc;
	struct stat f_stat;
	char        f_data[];           /* a buffer or a path */
};

static struct job *file_job(void (*func)(void *data), void (*drop)(void *data),
			    const void *data, size_t size, struct file_call **call)
{
	struct job *job = NULL;

	if (size < SIZE_MAX / 2)
		job = new_job(OF_FILES, func, drop, sizeof **call + size);
	if (!job)
		return NULL;
	job->j_skip = true;                     /* f_fd may be reused by then */
	*call = (struct file_call *)(void *)job->j_data;
	**call = (struct file_call){ .f_size = size, .f_rc = -ECANCELED };
	if (data && size > 0)
		memcpy((*call)->f_data, data, size);
	return job;
}

/* Runs the job, and copies what it has found. -ENOMEM: it is NULL. */
static ssize_t run_on_file(struct job *job, void *to, struct stat *status,
			   int64_t deadline)
{
	const struct file_call *call;
	ssize_t rc = job ? run_job(job, deadline) : -ENOMEM;

	if (rc)
		return rc;
	call = (const struct file_call *)(void *)job->j_data;
	rc = call->f_rc;
	if (to && rc > 0)
		memcpy(to, call->f_data, (size_t)rc);
	if (status && rc == 0)
		*status = call->f_stat;
	free(job);
	return rc;
}

static void set_rc(struct file_call *call, ssize_t rc)
{
	call->f_rc = rc < 0 ? -errno : rc;
}

static void open_file(void *data)
{
	struct file_call *call = (struct file_call *)data;

	set_rc(call, open(call->f_data, call->f_flags, call->f_mode));
}

static void close_file(void *data)
{
	const struct file_call *call = (const struct file_call *)data;

	if (call->f_rc >= 0)
		close((int)call->f_rc);
}

int ufile_open(const char *path, int flags, mode_t mode, int64_t deadline)
{
	struct file_call *call;
	struct job *job = file_job(open_file, close_file, path, strlen(path) + 1, &call);

	check(path, BUFFER, __func__);
	if (job) {
		call->f_flags = flags | O_CLOEXEC;
		call->f_mode = mode;
	}
	return (int)run_on_file(job, NULL, NULL, deadline);
}

/* Makes a job with a copy of `from', or with room for what will be copied to `to'. */
static ssize_t transfer(void (*func)(void *data), int fd, const void *from, void *to,
			size_t size, off_t offset, int64_t deadline)
{
	struct file_call *call;
	struct job *job = file_job(func, NULL, from, size, &call);

	if (job) {
		call->f_fd = fd;
		call->f_offset = offset;
	}
	return run_on_file(job, to, NULL, deadline);
}

static void read_file(void *data)
{
	struct file_call *call = (struct file_call *)data;

	set_rc(call, pread(call->f_fd, call->f_data, call->f_size, call->f_offset));
}

ssize_t ufile_pread(int fd, void *buffer, size_t size, off_t offset, int64_t deadline)
{
	check(size ? buffer : NULL, BUFFER, __func__);
#ifdef RWF_NOWAIT
	struct iovec iov = { buffer, size };
	int before = defer_cancel();
	ssize_t rc = preadv2(fd, &iov, 1, offset, RWF_NOWAIT);

	allow_cancel(before);

	if (rc > 0 && __msan_unpoison)
		__msan_unpoison(buffer, (size_t)rc);
	if (rc >= 0)
		budget_give_way(0);
	if (rc >= 0 || (errno != EAGAIN && errno != EOPNOTSUPP && errno != ENOSYS
			&& errno != EINVAL && errno != EINTR))
		return rc < 0 ? -errno : rc;
#endif
	return transfer(read_file, fd, NULL, buffer, size, offset, deadline);
}

static void write_file(void *data)
{
	struct file_call *call = (struct file_call *)data;

	set_rc(call, pwrite(call->f_fd, call->f_data, call->f_size, call->f_offset));
}

static void sync_file(void *data)
{
	struct file_call *call = (struct file_call *)data;

	set_rc(call, fsync(call->f_fd));
}

ssize_t ufile_pwrite(int fd, const void *buffer, size_t size, off_t offset,
		     int64_t deadline)
{
	check(size ? buffer : NULL, BUFFER, __func__);
	return transfer(write_file, fd, buffer, NULL, size, offset, deadline);
}

int ufile_sync(int fd, int64_t deadline)
{
	return (int)transfer(sync_file, fd, NULL, NULL, 0, 0, deadline);
}

static void stat_file(void *data)
{
	struct file_call *call = (struct file_call *)data;

	set_rc(call, stat(call->f_data, &call->f_stat));
}

int ufile_stat(const char *path, struct stat *status, int64_t deadline)
{
	struct file_call *call;
	struct job *job = file_job(stat_file, NULL, path, strlen(path) + 1, &call);

	check(path, BUFFER, __func__);
	check(status, BUFFER, __func__);
	return (int)run_on_file(job, NULL, status, deadline);
}

/* Names. */

struct lookup {
	int              l_type;
	int              l_rc;          /* getaddrinfo()'s */
	size_t           l_max;
	size_t           l_found;
	struct unet_addr l_addresses[ADDRESS_MAX];
	size_t           l_service;     /* offset in l_names */
	char             l_names[];     /* host and service */
};

static void look_up(void *data)
{
	struct lookup *l = (struct lookup *)data;
	struct addrinfo hints = { .ai_socktype = l->l_type }, *list = NULL;

	l->l_rc = getaddrinfo(l->l_names, l->l_names + l->l_service, &hints, &list);
	if (l->l_rc)
		return;
	for (struct addrinfo *a = list; a && l->l_found < l->l_max; a = a->ai_next) {
		struct unet_addr *to = &l->l_addresses[l->l_found];

		if (a->ai_addrlen > sizeof to->a_sockaddr)
			continue;
		memset(to, 0, sizeof *to);
		memcpy(&to->a_sockaddr, a->ai_addr, a->ai_addrlen);
		to->a_size = a->ai_addrlen;
		l->l_found++;
	}
	freeaddrinfo(list);
}

static int lookup_error(int rc)
{
	switch (rc) {
	case EAI_NONAME:
	case EAI_SERVICE:
#ifdef EAI_NODATA
	case EAI_NODATA:
#endif
		return -ENOENT;
	case EAI_AGAIN:
		return -EAGAIN;
	case EAI_MEMORY:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

int unet_resolve(const char *host, const char *service, int type, struct unet_addr *found,
		 size_t max, int64_t deadline)
{
	size_t host_size = strlen(host) + 1, service_size = strlen(service) + 1;
	struct job *job = new_job(OF_NAMES, look_up, NULL,
				  sizeof(struct lookup) + host_size + service_size);
	struct lookup *l;
	int rc;

	check(host, BUFFER, __func__);
	check(service, BUFFER, __func__);
	check(max ? found : NULL, BUFFER, __func__);
	if (!job)
		return -ENOMEM;
	l = (struct lookup *)(void *)job->j_data;
	memset(l, 0, sizeof *l);
	l->l_type = type;
	l->l_max = max < ADDRESS_MAX ? max : ADDRESS_MAX;
	l->l_service = host_size;
	memcpy(l->l_names, host, host_size);
	memcpy(l->l_names + host_size, service, service_size);
	rc = run_job(job, deadline);
	if (rc)
		return rc;
	rc = l->l_rc ? lookup_error(l->l_rc) : (int)l->l_found;
	if (rc > 0)
		memcpy(found, l->l_addresses, l->l_found * sizeof *found);
	free(job);
	return rc;
}

const char *unet_resolve_error(int rc)
{
	switch (rc) {
	case -ENOENT:
		return "no such host or service";
	case -EAGAIN:
		return "the name servers do not answer now, or no native thread is left";
	case -EIO:
		return "the look-up failed";
	case -ETIMEDOUT:
		return "the deadline came before an answer";
	case -ECANCELED:
		return "the look-up was cancelled";
	default:
		return ustack_error(rc);
	}
}
