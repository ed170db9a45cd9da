/* SPDX-License-Identifier: MIT */
/*
 * test_offload.c: the pool of native threads, over rr and ll and from native threads. To be
 * linked with -Wl,--wrap=pthread_create.
 */
#define _GNU_SOURCE
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../ll.h"
#include "../unet.h"
#include "../uoffload.h"
#include "../rr.h"
#include "../usync.h"

enum { MILLI = 1000000, KINDS = 3 };     /* ns; of configurations */

/* ---- What fails ---- */

static atomic_bool natives_fail;

int __real_pthread_create(pthread_t *native, const pthread_attr_t *attr,
			  void *(*func)(void *), void *arg);
int __wrap_pthread_create(pthread_t *native, const pthread_attr_t *attr,
			  void *(*func)(void *), void *arg);

int __wrap_pthread_create(pthread_t *native, const pthread_attr_t *attr,
			  void *(*func)(void *), void *arg)
{
	return natives_fail ? EAGAIN : __real_pthread_create(native, attr, func, arg);
}

/* ---- The schedulers, as one ---- */

static struct rr *rr;
static struct ll *ll;                   /* one of them, or none */

static struct ustack *go(void (*func)(void *), void *arg)
{
	struct ustack *u;

	if (rr)
		TEST_EQUAL(rr_start(rr, func, arg, &u), 0);
	else
		TEST_EQUAL(ll_start(ll, ll_group(ll), func, arg, &u), 0);
	return u;
}

static void end(struct ustack *u)
{
	TEST_EQUAL(ustack_join(u, USCHED_NEVER), 0);
}

/* How many wait for something outside where `u' runs. */
static uint32_t waiting(const struct ustack *u)
{
	struct uevents *e = __atomic_load_n(&ustack_sched(u)->s_events, __ATOMIC_ACQUIRE);

	return e ? __atomic_load_n(&e->e_waiting, __ATOMIC_ACQUIRE) : 0;
}

static size_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	size_t n = 0;

	TEST_TRUE(dir != NULL);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static size_t others;                   /* native threads that are none of ours */

static size_t count_natives(void)
{
	return count_entries("/proc/self/task") - 2;
}

/* How many native threads this process has; without those of an emulator or a sanitizer. */
static size_t natives(void)
{
	return count_natives() - others;
}

static void sleep_native(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * MILLI };

	nanosleep(&t, NULL);
}

static void *tell_number(void *number)
{
	*(pid_t *)number = gettid();
	return NULL;
}

/* A sanitizer's comes with the first native thread of all. */
static int count_others(void **state)
{
	char task[64];
	pthread_t native;
	pid_t number;

	(void)state;
	assert_int_equal(pthread_create(&native, NULL, tell_number, &number), 0);
	pthread_join(native, NULL);
	snprintf(task, sizeof task, "/proc/self/task/%d", (int)number);
	while (access(task, F_OK) == 0)         /* it is about to end */
		sleep_native(1);
	others = count_natives() - 1;
	return 0;
}

static void await_natives(size_t n)
{
	while (natives() != n)
		sleep_native(1);
}

/* Runs func() as a thread, over each of `kinds', and has nothing be left. */
static void each_scheduler_of(size_t kinds, void (*func)(void *))
{
	static const struct usched_conf confs[KINDS] = {
		{ .c_processors = 1 },
		{ .c_processors = 1, .c_stacks = USCHED_NATIVE },
		{ .c_processors = 3 },
	};
	size_t fds = count_entries("/proc/self/fd");

	uoffload_drain();
	await_natives(1);
	for (size_t i = 0; i < 2 * kinds; i++) {
		rr = NULL;
		ll = NULL;
		if (i % 2)
			assert_int_equal(ll_create(&confs[i / 2], &ll), 0);
		else
			assert_int_equal(rr_create(&confs[i / 2], &rr), 0);
		assert_int_equal(ustack_join(go(func, NULL), USCHED_NEVER), 0);   /* the same in ll */
		uoffload_drain();
		assert_int_equal(rr ? rr_destroy(rr) : ll_destroy(ll), 0);
		await_natives(1);
		assert_int_equal(count_entries("/proc/self/fd"), fds);
	}
}

static void each_scheduler(void (*func)(void *))
{
	each_scheduler_of(KINDS, func);
}

/* ---- What is called ---- */

static atomic_bool open_gate;
static atomic_int  entered, running, most, finished, dropped, spared;
static atomic_int  order[64];

static void reset_counts(bool gate)
{
	open_gate = gate;
	entered = running = most = finished = dropped = spared = 0;
}

/* It waits natively at the gate. */
struct call {
	pthread_t c_native;
	int       c_in;
	int       c_out;
};

static void pass_gate(void *arg)
{
	struct call *c = arg;
	int n = ++running, max = most;

	order[entered++ % 64] = c->c_in;
	while (n > max && !atomic_compare_exchange_weak(&most, &max, n))
		;
	while (!open_gate)
		sleep_native(1);
	c->c_native = pthread_self();
	c->c_out = c->c_in * 3;
	errno = 12345;
	running--;
	finished++;
}

static void drop_call(void *arg)
{
	struct call *c = arg;

	if (c->c_out != c->c_in * 3)            /* it was not called, and will not be */
		spared++;
	else
		dropped++;
}

static void await(const atomic_int *count, int n)
{
	while (*count < n) {
		TEST_EQUAL(ustack_yield(), 0);
		sched_yield();
	}
}

struct caller {
	struct call c_call;
	int64_t     c_deadline;
	int         c_rc;
	atomic_int  c_returned;
};

static void call_it(void *arg)
{
	struct caller *c = arg;
	struct call call = c->c_call;           /* on the stack */

	errno = 7;
	c->c_rc = uoffload(pass_gate, drop_call, &call, sizeof call, c->c_deadline);
	TEST_TRUE(errno != 12345);
	c->c_call = call;
	c->c_returned = 1;
}

static struct ustack *go_call(struct caller *c, int n, int64_t deadline)
{
	*c = (struct caller){ .c_call = { .c_in = n, .c_out = -1 }, .c_deadline = deadline };
	return go(call_it, c);
}

static void call_nothing(void *arg)
{
	(void)arg;
	entered++;
}

static void look_at_mask(void *arg)
{
	sigset_t set;

	TEST_EQUAL(pthread_sigmask(SIG_SETMASK, NULL, &set), 0);
	for (int i = 0; i < 2; i++)
		TEST_EQUAL(sigismember(&set, i ? SIGTERM : SIGUSR1), 1);
	++*(int *)arg;
}

/* ---- Calls ---- */

/* The processor runs others meanwhile: who opens the gate for instance. */
static void calls(void *unused)
{
	static struct caller c;
	struct ustack *u;
	int n = 4;

	(void)unused;
	reset_counts(false);
	u = go_call(&c, 5, USCHED_NEVER);
	await(&running, 1);
	TEST_EQUAL(c.c_returned, 0);
	open_gate = true;
	end(u);
	TEST_EQUAL(c.c_rc, 0);
	TEST_EQUAL(c.c_call.c_out, 15);
	TEST_TRUE(!pthread_equal(c.c_call.c_native, pthread_self()));
	TEST_EQUAL(uoffload(look_at_mask, NULL, &n, sizeof n, usync_after(3600 * USYNC_SECOND)), 0);
	TEST_EQUAL(n, 5);
	TEST_EQUAL(uoffload(call_nothing, drop_call, NULL, 0, USCHED_NEVER), 0);
	TEST_EQUAL(entered, 2);
	TEST_EQUAL(dropped, 0);
	TEST_EQUAL(uoffload(call_nothing, NULL, &n, SIZE_MAX - 8, USCHED_NEVER), -ENOMEM);
	TEST_EQUAL(entered, 2);
}

static void *calls_native(void *unused)
{
	struct caller c = { .c_call = { .c_in = 2 }, .c_deadline = USCHED_NEVER };

	reset_counts(true);
	call_it(&c);
	TEST_EQUAL(c.c_rc, 0);
	TEST_EQUAL(c.c_call.c_out, 6);
	TEST_TRUE(!pthread_equal(c.c_call.c_native, pthread_self()));
	reset_counts(false);
	c = (struct caller){ .c_call = { .c_in = 2, .c_out = 1 },
			     .c_deadline = usync_after(2 * MILLI) };
	call_it(&c);
	TEST_EQUAL(c.c_rc, -ETIMEDOUT);
	TEST_EQUAL(c.c_call.c_out, 1);
	TEST_EQUAL(dropped, 0);
	open_gate = true;
	uoffload_drain();
	TEST_EQUAL(dropped, 1);
	return unused;
}

static void in_native(void *(*func)(void *))
{
	pthread_t native;

	assert_int_equal(pthread_create(&native, NULL, func, NULL), 0);
	assert_int_equal(pthread_join(native, NULL), 0);
}

static void test_calls(void **state)
{
	(void)state;
	test_timeout(60);
	each_scheduler(calls);
	in_native(calls_native);
}

/* ---- The bound ---- */

enum { CALLERS = 20, BOUND = 3 };

static void bound(void *unused)
{
	static struct caller callers[CALLERS];
	struct ustack *threads[CALLERS];

	(void)unused;
	TEST_EQUAL(uoffload_limit(0), -EINVAL);
	TEST_EQUAL(uoffload_limit(BOUND), 0);
	reset_counts(false);
	for (int i = 0; i < CALLERS; i++)
		threads[i] = go_call(&callers[i], i, USCHED_NEVER);
	await(&running, BOUND);
	for (int i = 0; i < 10; i++)
		TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
	TEST_EQUAL(running, BOUND);
	open_gate = true;
	for (int i = 0; i < CALLERS; i++) {
		end(threads[i]);
		TEST_EQUAL(callers[i].c_rc, 0);
		TEST_EQUAL(callers[i].c_call.c_out, 3 * i);
	}
	TEST_EQUAL(most, BOUND);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

/* The default, and what is beyond the bound when it is lowered. */
static void lowered(void *unused)
{
	static struct caller callers[UOFFLOAD_THREADS + 5];
	struct ustack *threads[UOFFLOAD_THREADS + 5];
	size_t before = natives();

	(void)unused;
	reset_counts(false);
	for (int i = 0; i < UOFFLOAD_THREADS + 5; i++)
		threads[i] = go_call(&callers[i], i, USCHED_NEVER);
	await(&running, UOFFLOAD_THREADS);
	TEST_EQUAL(natives(), before + UOFFLOAD_THREADS);
	TEST_EQUAL(uoffload_limit(2), 0);
	TEST_EQUAL(running, UOFFLOAD_THREADS);
	open_gate = true;
	for (int i = 0; i < UOFFLOAD_THREADS + 5; i++)
		end(threads[i]);
	TEST_EQUAL(most, UOFFLOAD_THREADS);
	await_natives(before + 2);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

/* One after the other, first in, first out. */
static void in_order(void *unused)
{
	static struct caller callers[CALLERS];
	struct ustack *threads[CALLERS];

	(void)unused;
	TEST_EQUAL(uoffload_limit(1), 0);
	reset_counts(false);
	for (int i = 0; i < CALLERS; i++) {
		uint32_t before = waiting(ustack_self());

		threads[i] = go_call(&callers[i], i, USCHED_NEVER);
		while (waiting(ustack_self()) == before)        /* until it is in the queue */
			TEST_EQUAL(ustack_yield(), 0);
	}
	open_gate = true;
	for (int i = 0; i < CALLERS; i++)
		end(threads[i]);
	TEST_EQUAL(most, 1);
	for (int i = 0; i < CALLERS; i++)
		TEST_EQUAL(order[i], i);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

static void test_bound(void **state)
{
	(void)state;
	test_timeout(60);
	each_scheduler(bound);
	each_scheduler(lowered);
	each_scheduler_of(1, in_order);
}

/* ---- Who does not wait to the end ---- */

static void gives_up(bool cancel, bool queued)
{
	static struct caller first, c;
	struct ustack *u, *v = NULL;

	reset_counts(false);
	if (queued) {
		TEST_EQUAL(uoffload_limit(1), 0);
		v = go_call(&first, 9, USCHED_NEVER);
		await(&running, 1);
	}
	u = go_call(&c, 1, cancel ? USCHED_NEVER : usync_after(3 * MILLI));
	if (cancel) {
		await(&running, 1);
		for (int i = 0; i < 3; i++)
			TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
		TEST_EQUAL(ustack_cancel(u), 0);
	}
	end(u);
	TEST_EQUAL(c.c_rc, cancel ? -ECANCELED : -ETIMEDOUT);
	TEST_EQUAL(c.c_call.c_out, -1);         /* left alone */
	TEST_EQUAL(dropped, 0);                 /* not before it has been called */
	open_gate = true;
	if (v)
		end(v);
	uoffload_drain();
	TEST_EQUAL(dropped + spared, 1);        /* on a slow machine it is cancelled at once */
	TEST_EQUAL(finished, dropped + queued);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

/* Before it is called at all, or while that is under way: dropped it is, once. */
static void never_called(void)
{
	static struct caller c;
	struct ustack *u;
	int rc;

	reset_counts(true);
	end(go_call(&c, 1, 0));
	TEST_EQUAL(c.c_rc, -ETIMEDOUT);
	TEST_EQUAL(spared, 1);
	reset_counts(true);
	u = go_call(&c, 1, USCHED_NEVER);
	rc = ustack_cancel(u);          /* on another processor it may be under way, or over */
	TEST_TRUE(rc == 0 || rc == -ESRCH);
	end(u);
	uoffload_drain();
	TEST_TRUE(c.c_rc == -ECANCELED || c.c_rc == 0);
	TEST_EQUAL(finished, dropped + (c.c_rc == 0));
	TEST_EQUAL(dropped + spared + (c.c_rc == 0), 1);
}

static void no_drop(void)
{
	struct call call = { .c_in = 1, .c_out = -1 };

	reset_counts(false);
	TEST_EQUAL(uoffload(pass_gate, NULL, &call, sizeof call, usync_after(MILLI)), -ETIMEDOUT);
	TEST_EQUAL(call.c_out, -1);
	open_gate = true;
	uoffload_drain();
	TEST_EQUAL(finished, 1);
}

static void give_up(void *unused)
{
	(void)unused;
	for (int i = 0; i < 4; i++)
		gives_up(i % 2, i / 2);
	never_called();
	no_drop();
}

static void test_giving_up(void **state)
{
	(void)state;
	test_timeout(60);
	each_scheduler(give_up);
}

/* Many, with deadlines that come sooner or later than the end. */
struct raced {
	atomic_int r_done;
	atomic_int r_calls;
};

static void race(void *arg)
{
	struct raced *r = arg;
	uint32_t seed = (uint32_t)(uintptr_t)&seed;
	size_t rounds = test_scale(300, 10);

	for (size_t i = 0; i < rounds; i++) {
		struct call call = { .c_in = (int)i, .c_out = -1 };
		int rc = uoffload(pass_gate, drop_call, &call, sizeof call,
				  usync_after(test_random(&seed) % 200000));

		TEST_TRUE(rc == 0 || rc == -ETIMEDOUT);
		TEST_EQUAL(call.c_out, rc ? -1 : 3 * (int)i);
		r->r_done += rc == 0;
		r->r_calls++;
	}
}

static void races(void *unused)
{
	static struct raced r;
	struct ustack *threads[8];

	(void)unused;
	reset_counts(true);
	r = (struct raced){ 0, 0 };
	TEST_EQUAL(uoffload_limit(2), 0);
	for (int i = 0; i < 8; i++)
		threads[i] = go(race, &r);
	for (int i = 0; i < 8; i++)
		end(threads[i]);
	uoffload_drain();
	TEST_EQUAL(finished, r.r_done + dropped);
	TEST_TRUE(finished <= r.r_calls);
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

static void test_races(void **state)
{
	(void)state;
	test_timeout(60);
	each_scheduler(races);
}

/* ---- Native threads ---- */

static void no_natives(void *unused)
{
	static struct caller first, second;
	struct ustack *u, *v;

	(void)unused;
	uoffload_drain();
	reset_counts(false);
	natives_fail = true;
	end(go_call(&first, 1, USCHED_NEVER));
	TEST_EQUAL(first.c_rc, -EAGAIN);
	TEST_EQUAL(entered, 0);
	natives_fail = false;
	u = go_call(&first, 1, USCHED_NEVER);
	await(&running, 1);
	natives_fail = true;                    /* the one does both */
	v = go_call(&second, 2, USCHED_NEVER);
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
	TEST_EQUAL(second.c_returned, 0);
	open_gate = true;
	end(u);
	end(v);
	natives_fail = false;
	TEST_EQUAL(second.c_rc, 0);
	TEST_EQUAL(most, 1);
	TEST_EQUAL(dropped, 0);
}

/* Waits for what goes on, and ends them all; then it can begin again. */
static atomic_bool drained;

static void *drain_native(void *unused)
{
	uoffload_drain();
	TEST_EQUAL(finished, 2);
	drained = true;
	return unused;
}

static void drains(void *unused)
{
	static struct caller callers[2];
	struct ustack *threads[2];
	pthread_t native;
	size_t before;

	(void)unused;
	uoffload_drain();
	before = natives();
	reset_counts(false);
	drained = false;
	for (int i = 0; i < 2; i++)
		threads[i] = go_call(&callers[i], i, USCHED_NEVER);
	await(&running, 2);
	TEST_EQUAL(pthread_create(&native, NULL, drain_native, NULL), 0);
	for (int i = 0; i < 3; i++)
		TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
	TEST_TRUE(!drained);
	open_gate = true;
	for (int i = 0; i < 2; i++)
		end(threads[i]);
	pthread_join(native, NULL);
	while (natives() != before)             /* they are about to end */
		TEST_EQUAL(ustack_yield(), 0);
	end(go_call(&callers[0], 4, USCHED_NEVER));
	TEST_EQUAL(callers[0].c_rc, 0);
	TEST_EQUAL(callers[0].c_call.c_out, 12);
}

static void test_natives(void **state)
{
	(void)state;
	test_timeout(60);
	each_scheduler(no_natives);
	each_scheduler(drains);
}

/* ---- Files ---- */

static char directory[64], path[96];

static void make_path(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(directory, sizeof directory, "%.40s/usched.XXXXXX", tmp ? tmp : "/tmp");
	TEST_TRUE(mkdtemp(directory) != NULL);
	snprintf(path, sizeof path, "%s/file", directory);
}

static void file_errors(int64_t d)
{
	struct stat status;
	char c = 0;
	int fds[2];

	TEST_EQUAL(ufile_open("/nonexistent/usched", O_RDONLY, 0, d), -ENOENT);
	TEST_EQUAL(ufile_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, d), -EEXIST);
	TEST_EQUAL(ufile_open(directory, O_RDWR, 0, d), -EISDIR);
	TEST_EQUAL(ufile_stat("/nonexistent/usched", &status, d), -ENOENT);
	TEST_EQUAL(ufile_pread(-1, &c, 1, 0, d), -EBADF);
	TEST_EQUAL(ufile_pwrite(-1, &c, 1, 0, d), -EBADF);
	TEST_EQUAL(ufile_sync(-1, d), -EBADF);
	TEST_EQUAL(pipe(fds), 0);
	TEST_EQUAL(ufile_pread(fds[0], &c, 1, 0, d), -ESPIPE);
	TEST_EQUAL(ufile_pwrite(fds[1], &c, 1, 0, d), -ESPIPE);
	TEST_EQUAL(ufile_sync(fds[0], d), -EINVAL);
	close(fds[0]);
	close(fds[1]);
	TEST_EQUAL(ufile_open(path, O_RDONLY, 0, 0), -ETIMEDOUT);
	TEST_EQUAL(ufile_open("", O_RDONLY, 0, d), -ENOENT);
}

/* Data that differ from place to place, and are more than one page. */
static void files(void *unused)
{
	enum { SIZE = 20000 };
	int64_t d = usync_after(3600 * USYNC_SECOND);
	char *data = malloc(2 * SIZE), few[4] = "";
	struct stat status;
	int fd;

	(void)unused;
	TEST_TRUE(data != NULL);
	make_path();
	for (int i = 0; i < SIZE; i++)
		data[i] = (char)(i * 7 + i / 256);
	fd = ufile_open(path, O_RDWR | O_CREAT | O_EXCL, 0640, USCHED_NEVER);
	TEST_TRUE(fd >= 0);
	TEST_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	TEST_EQUAL(ufile_pread(fd, few, 4, 0, d), 0);
	TEST_EQUAL(ufile_pwrite(fd, data, SIZE, 0, d), SIZE);
	TEST_EQUAL(ufile_pwrite(fd, "xyz", 3, 100, USCHED_NEVER), 3);
	TEST_EQUAL(ufile_sync(fd, d), 0);
	TEST_EQUAL(ufile_stat(path, &status, d), 0);
	TEST_EQUAL(status.st_size, SIZE);
	TEST_EQUAL(status.st_mode & 0777, 0640);
	TEST_EQUAL(ufile_pread(fd, data + SIZE, SIZE, 0, d), SIZE);
	memcpy(data + 100, "xyz", 3);
	TEST_EQUAL(memcmp(data, data + SIZE, SIZE), 0);
	TEST_EQUAL(ufile_pread(fd, few, 4, SIZE - 2, USCHED_NEVER), 2);
	TEST_EQUAL(memcmp(few, data + SIZE - 2, 2), 0);
	TEST_EQUAL(ufile_pread(fd, few, 4, SIZE, d), 0);
	TEST_EQUAL(ufile_pread(fd, few, 0, 0, d), 0);
	file_errors(d);
	TEST_EQUAL(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);    /* it may be read again */
	TEST_EQUAL(ufile_pread(fd, few, 3, 100, d), 3);
	TEST_EQUAL(memcmp(few, "xyz", 3), 0);
	TEST_EQUAL(close(fd), 0);
	TEST_EQUAL(unlink(path), 0);
	TEST_EQUAL(rmdir(directory), 0);
	free(data);
}

/* Who gives up leaves no descriptor: the file is closed when it has been opened. */
static void open_late(void *unused)
{
	static struct caller c;
	struct ustack *u;

	(void)unused;
	TEST_EQUAL(uoffload_limit(1), 0);
	reset_counts(false);
	u = go_call(&c, 1, USCHED_NEVER);
	await(&running, 1);
	TEST_EQUAL(ufile_open("/dev/null", O_RDONLY, 0, usync_after(2 * MILLI)), -ETIMEDOUT);
	open_gate = true;
	end(u);
	uoffload_drain();                       /* then descriptors are counted */
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

static void *files_native(void *unused)
{
	files(unused);
	return unused;
}

static void test_files(void **state)
{
	(void)state;
	test_timeout(60);
	each_scheduler(files);
	each_scheduler(open_late);
	in_native(files_native);
}

/* ---- Names ---- */

static int port_of(const struct unet_addr *a)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)
		&a->a_sockaddr;

	return ntohs(in->sin_port);             /* at the same place in IPv6 */
}

static void resolve(void *unused)
{
	struct unet_addr found[4], one;
	int64_t d = usync_after(3600 * USYNC_SECOND);

	(void)unused;
	TEST_EQUAL(unet_resolve("192.0.2.7", "1234", SOCK_DGRAM, found, 4, d), 1);
	TEST_EQUAL(unet_addr("192.0.2.7:1234", &one), 0);
	TEST_EQUAL(found[0].a_size, one.a_size);
	TEST_EQUAL(memcmp(&found[0].a_sockaddr, &one.a_sockaddr, one.a_size), 0);
	TEST_EQUAL(unet_resolve("192.0.2.7", "no-such-service", SOCK_STREAM, found, 4, d), -ENOENT);
	TEST_EQUAL(unet_resolve("localhost", "80", SOCK_STREAM, found, 4, 0), -ETIMEDOUT);
}

static void resolve_localhost(void *unused)
{
	struct unet_addr found[4];
	char text[UNET_TEXT_MAX];
	int64_t d = usync_after(3600 * USYNC_SECOND);
	int n;

	(void)unused;
	n = unet_resolve("localhost", "80", SOCK_STREAM, found, 4, USCHED_NEVER);
	TEST_TRUE(n >= 1 && n <= 4);
	for (int i = 0; i < n; i++) {
		unet_text(&found[i], text);
		TEST_TRUE(!strncmp(text, "127.", 4) || !strcmp(text, "[::1]:80"));
		TEST_EQUAL(port_of(&found[i]), 80);
	}
	memset(found, 0x55, sizeof found);
	TEST_EQUAL(unet_resolve("localhost", "80", SOCK_STREAM, found, 1, d), 1);
	TEST_EQUAL(found[1].a_size, 0x55555555);        /* not beyond `max' */
}

/* Once, for it may take a while to find out that there is no network. */
static void *resolve_native(void *unused)
{
	struct unet_addr found[4];
	int rc = unet_resolve("usched.invalid", "80", SOCK_STREAM, found, 4, USCHED_NEVER);

	TEST_TRUE(rc == -ENOENT || rc == -EAGAIN || rc == -EIO);
	uoffload_drain();
	return unused;
}

static void *resolve_localhost_native(void *unused)
{
	struct unet_addr found[4];
	int rc = unet_resolve("localhost", "80", SOCK_STREAM, found, 4, USCHED_NEVER);

	TEST_TRUE(rc >= 1 && rc <= 4);
	uoffload_drain();
	return unused;
}

struct lookup {
	struct unet_addr l_found[4];
	int64_t          l_deadline;
	int              l_rc;
};

static void look_up(void *arg)
{
	struct lookup *l = arg;

	l->l_rc = unet_resolve("localhost", "80", SOCK_STREAM, l->l_found, 4, l->l_deadline);
}

/* While the only native thread is occupied. */
static void resolve_waits(void *unused)
{
	static struct caller c;
	static struct lookup l;
	struct ustack *u, *v;

	(void)unused;
	TEST_EQUAL(uoffload_limit(1), 0);
	reset_counts(false);
	u = go_call(&c, 1, USCHED_NEVER);
	await(&running, 1);
	for (int i = 0; i < 2; i++) {
		memset(&l, 0, sizeof l);
		l.l_deadline = i ? USCHED_NEVER : usync_after(2 * MILLI);
		v = go(look_up, &l);
		if (i) {
			for (int k = 0; k < 3; k++)
				TEST_EQUAL(usync_sleep_until(usync_after(MILLI)), 0);
			TEST_EQUAL(ustack_cancel(v), 0);
		}
		end(v);
		TEST_EQUAL(l.l_rc, i ? -ECANCELED : -ETIMEDOUT);
	}
	open_gate = true;
	end(u);
	uoffload_drain();
	TEST_EQUAL(l.l_found[0].a_size, 0);     /* nothing was written later */
	TEST_EQUAL(uoffload_limit(UOFFLOAD_THREADS), 0);
}

static void test_resolve(void **state)
{
	(void)state;
	test_timeout(60);
	each_scheduler(resolve);
	each_scheduler(resolve_waits);
	in_native(resolve_native);
}

static void test_resolve_localhost(void **state)
{
	struct addrinfo *list;

	(void)state;
	test_timeout(60);
	if (getaddrinfo("localhost", "80", NULL, &list) != 0) {
		print_message("no address of localhost here\n");
		skip();
	}
	freeaddrinfo(list);
	each_scheduler(resolve_localhost);
	in_native(resolve_localhost_native);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_giving_up),
		cmocka_unit_test(test_races),
		cmocka_unit_test(test_natives),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_resolve_localhost),
	};

	return cmocka_run_group_tests_name("offload", tests, count_others, NULL);
}
