/* SPDX-License-Identifier: MIT */
/*
 * test_frames_check.c: in builds that check pointers, each wrong use is reported and ends
 * the program. That no right use is reported is shown by all other tests in these builds.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* pipe2() */
#endif
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../help/test.h"

#include "../../rr.h"
#include "../../ubuf.h"
#include "../../unet.h"
#include "../../uoffload.h"
#include "../../usync.h"

enum { SIZE = 256 };

static volatile size_t size = SIZE, deep = 8192;        /* unknown to the compiler */

#ifdef USCHED_CHECK
enum { CHECKED = 1 };
#else
enum { CHECKED = 0 };
#endif

static struct usync_mutex mutex;
static struct usync_chan *chan, *pointers;
static struct usync_scope *scope;
static struct uprocs *scheduler;
static struct iovec iov;
static struct usync_case one;
static struct ubuf_in in = { .bi_base = { .b_peer = (void *)-1, .b_limit = 1 } };
static char *found;

/* ---- Calls ---- */

/* X(name, call, arguments): a call for each of its pointers, which is p. */
#define FOR_OBJECTS(X) \
	X(mutex_lock, usync_mutex_lock, (p, 0)) \
	X(mutex_unlock, usync_mutex_unlock, (p)) \
	X(rwlock_read, usync_rwlock_read, (p, 0)) \
	X(rwlock_write, usync_rwlock_write, (p, 0)) \
	X(rwlock_unlock, usync_rwlock_unlock, (p)) \
	X(cond_wait, usync_cond_wait, (p, &mutex, 0)) \
	X(cond_wait_mutex, usync_cond_wait, (heap, p, 0)) \
	X(cond_signal, usync_cond_signal, (p)) \
	X(cond_broadcast, usync_cond_broadcast, (p)) \
	X(sem_wait, usync_sem_wait, (p, 0)) \
	X(sem_post, usync_sem_post, (p)) \
	X(group_add, usync_group_add, (p, 1)) \
	X(group_done, usync_group_done, (p)) \
	X(group_wait, usync_group_wait, (p, 0)) \
	X(key_set, usync_key_set, (p, heap)) \
	X(key_get, usync_key_get, (p)) \
	X(start, start, (p)) \
	X(scope_start, usync_scope_start, (scope, return_0, p, NULL)) \
	X(chan_value, usync_chan_send, (pointers, &p, 0)) \
	X(select_sent, usync_select, (send_it(&p), 1, 0))

#define FOR_BUFFERS(X) \
	X(chan_send, usync_chan_send, (chan, p, 0)) \
	X(chan_recv, usync_chan_recv, (chan, p, 0)) \
	X(select, usync_select, (p, 1, 0)) \
	X(select_value, usync_select, ((one.cs_value = p, &one), 1, 0)) \
	X(addr, unet_addr, (":1", p)) \
	X(text, unet_text, (heap, p)) \
	X(text_addr, unet_text, (p, heap)) \
	X(listen, unet_listen, (p, 0, 0)) \
	X(accept, unet_accept, (-1, p, 0)) \
	X(connect, unet_connect, (p, 0)) \
	X(signals, unet_signals, (p)) \
	X(read, unet_read, (-1, p, 1, 0)) \
	X(write, unet_write, (-1, p, 1, 0)) \
	X(recvmsg, unet_recvmsg, (-1, p, 0, 0)) \
	X(sendmsg, unet_sendmsg, (-1, p, 0, 0)) \
	X(writev_all, unet_writev_all, (-1, p, 1, NULL, 0)) \
	X(read_all, unet_read_all, (-1, p, 1, NULL, 0)) \
	X(read_all_done, unet_read_all, (-1, NULL, 0, p, 0)) \
	X(write_all, unet_write_all, (-1, p, 1, NULL, 0)) \
	X(write_all_done, unet_write_all, (-1, NULL, 0, p, 0)) \
	X(poll, unet_poll, (p, 1, 0)) \
	X(resolve_host, unet_resolve, (p, "1", SOCK_STREAM, NULL, 0, 0)) \
	X(resolve_service, unet_resolve, ("::1", p, SOCK_STREAM, NULL, 0, 0)) \
	X(resolve_found, unet_resolve, ("::1", "1", SOCK_STREAM, p, 1, 0)) \
	X(line, ubuf_line, (p, &found, 0)) \
	X(take, ubuf_take, (p, 1, &found, 0)) \
	X(buffered_read, ubuf_read, (&in, p, 1, 0)) \
	X(flush, ubuf_flush, (p, 0)) \
	X(offload, uoffload, (nothing, NULL, p, 1, 0)) \
	X(open, ufile_open, (p, 0, 0, 0)) \
	X(pread, ufile_pread, (-1, p, 1, 0, 0)) \
	X(pwrite, ufile_pwrite, (-1, p, 1, 0, 0))

static char memory[SIZE] __attribute__((aligned(16)));
static void *const heap = memory;       /* stands for the heap */

static void nothing(void *unused)
{
	(void)unused;
}

static int return_0(void *unused)
{
	(void)unused;
	return 0;
}

static void pass_fd(int fd, void *unused)
{
	(void)fd;
	(void)unused;
}

/* What reports call so: all ways to start a thread with an argument. */
static int start(void *p)
{
	return ustack_start(nothing, p, NULL);
}

static void start_fd(void *p)
{
	rr_start_with(scheduler, TEST_FD(pass_fd, 0), NULL, p, NULL);
}

static void start_alone(void *p)
{
	ustack_start_with(TEST_HOW(.h_stack = USTACK_OWN), nothing, p, NULL);
}

static struct usync_case *send_it(void **p)
{
	one = (struct usync_case){ .cs_chan = pointers, .cs_op = USYNC_SEND,
				   .cs_value = p };
	return &one;
}

#define DO(name, call, arguments) static void do_##name(void *p) { (void)call arguments; }
FOR_OBJECTS(DO)
FOR_BUFFERS(DO)

#define ROW(name, call, arguments) { #call ":", do_##name },
static const struct use {
	const char *u_call;             /* as in the message */
	void      (*u_do)(void *p);
} for_objects[] = { FOR_OBJECTS(ROW) { "start:", start_fd }, { "start:", start_alone } },
  for_buffers[] = { FOR_BUFFERS(ROW) };

enum { OBJECTS = sizeof for_objects / sizeof for_objects[0],
       BUFFERS = sizeof for_buffers / sizeof for_buffers[0] };

static const struct use *use;
static char *given;                     /* the pointer */
static struct ustack *giver;

/* ---- Threads ---- */

/* Only the place of the object is wrong. */
static void use_own(void *unused)
{
	char *local = alloca(size);

	(void)unused;
	memset(local, 0, SIZE);
	use->u_do(local);
}

static __attribute__((noinline)) void give(void *unused)
{
	char *local = alloca(size);

	(void)unused;
	memset(local, 0, SIZE);
	given = local;
	__atomic_store_n(&giver, ustack_self(), __ATOMIC_RELEASE);
	TEST_EQUAL(ustack_wait(), 0);
}

static void give_deep(void *unused)
{
	volatile char *local = alloca(deep);

	local[0] = 1;
	give(unused);
	TEST_EQUAL(local[0], 1);
}

static void use_given(void *unused)
{
	(void)unused;
	use->u_do(given);
	TEST_EQUAL(ustack_wake(giver), 0);
}

typedef void func(void *);

/* On one processor, or on two with a thread each. */
static void run_use(func *first, func *second, unsigned processors, unsigned stacks)
{
	struct uprocs_conf conf = { .c_processors = processors, .c_stacks = stacks,
				    .c_stall = USCHED_QUIET };
	struct ustack *all[2] = { NULL, NULL };
	struct uprocs *rr = NULL;

	TEST_EQUAL(usync_chan_create(1, 1, &chan), 0);
	TEST_EQUAL(usync_chan_create(sizeof(void *), 1, &pointers), 0);
	TEST_EQUAL(usync_scope_create(NULL, &scope, USCHED_NEVER), 0);
	one.cs_chan = chan;
	iov.iov_len = 1;
	TEST_EQUAL(rr_create(&conf, &rr), 0);
	scheduler = rr;
	uprocs_hold(rr, 1);
	TEST_EQUAL(rr_start(rr, first, NULL, &all[0]), 0);
	while (second && !__atomic_load_n(&giver, __ATOMIC_ACQUIRE))
		;
	if (second)
		TEST_EQUAL(rr_start(rr, second, NULL, &all[1]), 0);
	for (int i = second ? 1 : 0; i >= 0; i--)
		TEST_EQUAL(ustack_join(all[i], NULL, USCHED_NEVER), 0);
	uprocs_hold(rr, 0);
	TEST_EQUAL(uprocs_destroy(rr, USCHED_NEVER), 0);
	usync_scope_release(scope);
	usync_chan_destroy(pointers);
	usync_chan_destroy(chan);
}

/* In a child. Its standard error is in `text'. Returns its status as of waitpid(2). */
static int run_child(func *first, func *second, unsigned processors, unsigned stacks,
		     char text[1024])
{
	size_t got = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		run_use(first, second, processors, stacks);
		_exit(0);
	}
	close(fds[1]);
	while (got < 1023 && (n = read(fds[0], text + got, 1023 - got)) > 0)
		got += (size_t)n;
	text[got] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void is_told(const struct use *which, func *first, func *second,
		    unsigned processors, unsigned stacks, const char *place)
{
	char text[1024];
	int status;

	use = which;
	status = run_child(first, second, processors, stacks, text);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT
	    || !strstr(text, use->u_call) || !strstr(text, place)
	    || (use->u_do && !strstr(text, "put it on the heap")))
		fail_msg("%s status %d, \"%s\"", use->u_call, status, text);
}

static void is_right(const struct use *which, func *first, func *second)
{
	char text[1024];
	int status;

	use = which;
	status = run_child(first, second, 1, test_has_stacks() ? 1 : 0, text);
	if (status)
		fail_msg("%s status %d, \"%s\"", use->u_call, status, text);
}

static const char *const theirs = "in the frames of another thread, thread 0x",
	*const stale = "on a stack, in no thread's frames",
	*const others = "on a stack of another processor";

/* ---- Tests ---- */

/* On the caller's own stack objects are wrong and buffers are right. */
TEST(test_own)
{
	if (!CHECKED)
		skip();
	for (size_t i = 0; i < OBJECTS; i++)
		is_told(&for_objects[i], use_own, NULL, 1, 0,
			"is in the frames of the thread that calls, thread 0x");
	for (size_t i = 0; i < BUFFERS; i++)
		is_right(&for_buffers[i], use_own, NULL);
}

/* In another thread's frames both are wrong. */
TEST(test_theirs)
{
	if (!CHECKED || !test_has_stacks() || test_is_stressed())
		skip();                         /* no other is resident: see below */
	for (size_t i = 0; i < OBJECTS; i++)
		is_told(&for_objects[i], give, use_given, 1, 2, theirs);
	for (size_t i = 0; i < BUFFERS; i++)
		is_told(&for_buffers[i], give, use_given, 1, 2, theirs);
}

TEST(test_stale)
{
	unsigned stacks = test_has_stacks() ? 1 : USCHED_NATIVE;

	if (!CHECKED)
		skip();
	is_told(&for_objects[0], give_deep, use_given, 1, stacks, stale);
	for (size_t i = 0; i < BUFFERS; i++)
		is_told(&for_buffers[i], give_deep, use_given, 1, stacks, stale);
	is_told(&for_buffers[0], give_deep, use_given, 1, USCHED_NATIVE, stale);
	if (test_has_stacks())
		is_told(&for_buffers[0], give_deep, use_given, 2, 0, others);
}

/* A number that a bare close() left in the table is told at its next use. */
static void reuse_number(void *how)
{
	const char *kind = how;
	char byte;
	int fds[2], other[2];

	TEST_EQUAL(pipe(fds), 0);
	TEST_EQUAL(unet_read(fds[0], &byte, 1, usync_after(1)), -ETIMEDOUT);
	TEST_EQUAL(close(fds[0]), 0);
	TEST_EQUAL(pipe2(other, *kind == 'n' ? O_NONBLOCK : 0), 0);
	TEST_EQUAL(other[0], fds[0]);
	if (*kind == 'r')                       /* as it should be */
		TEST_EQUAL(unet_forget(other[0]), 0);
	TEST_EQUAL(unet_read(other[0], &byte, 1, usync_after(1)), -ETIMEDOUT);
}

static void reuse_blocking(void *unused)
{
	(void)unused;
	reuse_number("blocking");
}

static void reuse_nonblocking(void *unused)
{
	(void)unused;
	reuse_number("nonblocking");
}

static void reuse_right(void *unused)
{
	(void)unused;
	reuse_number("right");
}

TEST(test_closed)
{
	static const struct use any = { "usched: descriptor ", NULL };

	if (!CHECKED)
		skip();
	is_told(&any, reuse_blocking, NULL, 1, 0, "is another file than it was");
	is_told(&any, reuse_nonblocking, NULL, 1, 0, "is another file than it was");
	is_right(&any, reuse_right, NULL);
}

/* A span of time where a deadline belongs is told, once. */
static void wait_briefly(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sleep_until(1000000), 0);
	TEST_EQUAL(usync_sleep_until(2000000), 0);
}

static void begin_scope(void *unused)
{
	struct usync_scope *brief;

	(void)unused;
	TEST_EQUAL(usync_scope_create(NULL, &brief, 1000000), 0);
	usync_scope_release(brief);
}

static void wait_right(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_sleep_until(1), 0);
	TEST_EQUAL(usync_sleep_until(usync_after(-1000)), 0);
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
}

TEST(test_deadline)
{
	static const struct { func *w_func; const char *w_text; } ways[] = {
		{ wait_briefly, "wait_briefly) waits until 1000000 ns, which was" },
		{ begin_scope, "begin_scope) waits until 1000000 ns, which was" },
		{ wait_right, "" },
	};
	char text[1024];

	if (!CHECKED)
		skip();
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		assert_int_equal(run_child(ways[i].w_func, NULL, 1, 0, text), 0);
		assert_non_null(strstr(text, ways[i].w_text));
		assert_int_equal(strstr(text, "which was before") != NULL,
				 *ways[i].w_text != '\0');
		assert_null(strstr(text, "2000000"));
	}
}

/* A pointer in what another thread gets, or behind a pointer there, is told once. */
struct inside {
	long  i_number;
	void *i_pointer;
};

static struct inside *on_heap(void *p)
{
	struct inside *i = calloc(1, sizeof *i);

	if (i)
		i->i_pointer = p;
	return i;
}

static void offload_it(void *p)
{
	struct inside i = { 1, p };

	for (int n = 0; n < 3; n++)
		TEST_EQUAL(uoffload(nothing, NULL, &i, sizeof i, USCHED_NEVER), 0);
}

static void offload_behind(void *p)
{
	struct inside *i = on_heap(p);

	offload_it(i);
	free(i);
}

static void start_it(void *p)
{
	struct inside *i = on_heap(p);
	struct ustack *t;

	TEST_EQUAL(ustack_start(nothing, i, &t), 0);
	TEST_EQUAL(ustack_join(t, NULL, USCHED_NEVER), 0);
	free(i);
}

static void start_behind(void *p)
{
	struct inside *i = on_heap(p);

	start_it(i);
	free(i);
}

static int succeed(void *unused)
{
	(void)unused;
	return 0;
}

static void start_in_scope(void *p)
{
	struct inside *i = on_heap(p);
	struct usync_scope *job;

	TEST_EQUAL(usync_scope_create(NULL, &job, USCHED_NEVER), 0);
	TEST_EQUAL(usync_scope_start(job, succeed, i, NULL), 0);
	TEST_EQUAL(usync_scope_wait(job, USCHED_NEVER), 0);
	usync_scope_release(job);
	free(i);
}

static void send_inside(void *p)
{
	struct inside i = { 1, p }, copy;
	struct usync_case send = { .cs_op = USYNC_SEND, .cs_value = &i };
	struct usync_chan *c;

	TEST_EQUAL(usync_chan_create(sizeof i, 2, &c), 0);
	TEST_EQUAL(usync_chan_send(c, &i, 0), 0);
	TEST_EQUAL(usync_chan_recv(c, &copy, 0), 0);
	send.cs_chan = c;
	TEST_EQUAL(usync_select(&send, 1, 0), 0);
	usync_chan_destroy(c);
}

static void (*inside)(void *p);

static void give_own(void *unused)
{
	char *local = alloca(size);

	(void)unused;
	memset(local, 0, SIZE);
	inside(local);
}

static void give_heap(void *unused)
{
	char *block = malloc(size);

	(void)unused;
	if (block)
		memset(block, 0, SIZE);
	inside(block);
	free(block);
}

TEST(test_inside)
{
	static const struct {
		void      (*i_func)(void *p);
		const char *i_text[2];
	} ways[] = {
		{ offload_it, { "usched: uoffload: word 1 of what is given, 0x" } },
		{ offload_behind,
		  { "usched: uoffload: word 1 of what is given points to" } },
		{ start_it, { "usched: start: word 1 of what is given, 0x" } },
		{ start_behind, { "usched: start: word 1 of what is given points to" } },
		{ start_in_scope,
		  { "usched: usync_scope_start: word 1 of what is given, 0x" } },
		{ send_inside, { "usched: usync_chan_send: word 1 of what is given, 0x",
				 "usched: usync_select: word 1 of what is given, 0x" } },
	};
	static const char kind[] = "threads move, if that word is a pointer";
	char text[1024], *first;
	bool blocks = !test_is_sanitized() && !test_on_valgrind();

	if (!CHECKED)
		skip();
#ifndef __GLIBC__
	blocks = false;
#endif
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		inside = ways[i].i_func;
		if (!blocks && inside != offload_it && inside != send_inside)
			continue;               /* whose size is not known */
		assert_int_equal(run_child(give_own, NULL, 1, 0, text), 0);
		assert_non_null(strstr(text, ways[i].i_text[0]));
		assert_non_null(strstr(text, "is in the frames of thread 0x"));
		if (ways[i].i_text[1])
			assert_non_null(strstr(text, ways[i].i_text[1]));
		first = strstr(text, kind);
		assert_true(ways[i].i_text[1] || !strstr(first + 1, kind));
		assert_int_equal(run_child(give_heap, NULL, 1, 0, text), 0);
		assert_null(strstr(text, kind));
	}
}

/* Objects may be on the stack of a native thread, and arguments of threads. */
static struct usync_group *group;

static void done(void *g)
{
	TEST_EQUAL((uintptr_t)g, (uintptr_t)group);
	TEST_EQUAL(usync_group_done(group), 0);
}

TEST(test_native_stack)
{
	struct usync_group local = { .g_count = 1 };
	struct uprocs_conf conf = { .c_processors = 1 };
	struct uprocs *rr = NULL;

	group = &local;
	assert_int_equal(rr_create(&conf, &rr), 0);
	assert_int_equal(rr_start(rr, done, &local, NULL), 0);
	assert_int_equal(usync_group_wait(&local, USCHED_NEVER), 0);
	assert_int_equal(uprocs_destroy(rr, USCHED_NEVER), 0);
}

int main(void)
{
	return test_run_all();
}
