/* SPDX-License-Identifier: MIT */
/*
 * test_frames.c: whose an address is, over one stack, several, and the native one; reading
 * and writing blocked threads' frames; where they are blocked; and in builds that check
 * pointers, that each wrong use is told and ends the program. That no right one does is
 * shown by all other tests, in these builds.
 *
 * What is looked at is from alloca(), of a size that is not known: sanitizers may put locals
 * elsewhere.
 */
#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mini.h"
#include "where.h"

#include "../uframes.h"
#include "../unet.h"
#include "../uoffload.h"
#include "../rr.h"

enum {
	STACK   = 64 << 10,
	SIZE    = 256,
	DEEP    = 8192,
	RUBBISH = 0xdb,         /* with USCHED_STRESS in stacks that were left */
};

static struct mini plain;
static struct ustack thread[4];

static size_t unknown(size_t size)
{
	volatile size_t n = size;

	return n;
}

static void setup(unsigned stacks)
{
	test_timeout(20);
	mini_init(&plain, stacks, STACK);
}

static void run(void)
{
	TEST_EQUAL(usched_run(&plain.p_sched), 0);
}

/* With so many stacks, or the one that there is. */
static void each_count(void (*test)(unsigned stacks))
{
	static const unsigned counts[] = { 0, 1, 3 };

	for (size_t i = 0; i < 3 && (i == 0 || test_has_stacks()); i++) {
		setup(counts[i]);
		test(counts[i]);
		mini_fini(&plain);
	}
}

/* ---- Whose ---- */

static char *deep, *shallow;

static void expect(const void *address, enum usched_place place, const struct ustack *owner)
{
	struct ustack *whose = &thread[3];

	TEST_EQUAL(usched_onstack(address, &whose), place);
	TEST_TRUE(whose == owner);
	TEST_EQUAL(usched_onstack(address, NULL), place);
}

static __attribute__((noinline)) void block_deep(void)
{
	deep = alloca(unknown(DEEP));
	memset(deep, 1, DEEP);
	expect(deep, USCHED_MINE, &thread[0]);
	expect(deep + DEEP - 1, USCHED_MINE, &thread[0]);
	TEST_EQUAL(ustack_block(), 0);
	expect(deep, USCHED_MINE, &thread[0]);
}

static void be_deep_then_shallow(void *unused)
{
	const struct usched_stack *k = ustack_self()->u_stack;

	(void)unused;
	shallow = alloca(unknown(SIZE));
	memset(shallow, 1, SIZE);
	expect(shallow, USCHED_MINE, &thread[0]);
	expect(k->k_bottom - 1, USCHED_MINE, &thread[0]);
	expect(k->k_bottom, USCHED_ELSEWHERE, NULL);
	block_deep();
	expect(deep, USCHED_STALE, NULL);
	TEST_EQUAL(ustack_block(), 0);
}

/* On the other's stack, if there are two: with USCHED_STRESS he was evicted. */
static void expect_shallow(bool two, enum usched_place place, const struct ustack *owner)
{
	if (!two)
		expect(shallow, USCHED_MINE, &thread[1]);
	else if (test_is_harsh())
		expect(shallow, USCHED_STALE, NULL);
	else
		expect(shallow, place, owner);
}

static void look_at_other(void *stacks)
{
	bool both = *(const unsigned *)stacks > 1 && !test_is_harsh();
	char *middle = alloca(unknown(DEEP / 2));       /* to be deeper than `shallow' */
	void *data = malloc(SIZE);

	memset(middle, 1, DEEP / 2);
	expect(middle, USCHED_MINE, &thread[1]);
	expect(deep, both ? USCHED_THEIRS : USCHED_STALE, both ? &thread[0] : NULL);
	expect_shallow(*(const unsigned *)stacks > 1, USCHED_THEIRS, &thread[0]);
	if (*(const unsigned *)stacks > 1 && test_is_harsh())
		TEST_EQUAL((unsigned char)deep[0], RUBBISH);
	TEST_EQUAL(ustack_block(), 0);
	expect(deep, USCHED_STALE, NULL);             /* it has returned from there */
	TEST_EQUAL(ustack_block(), 0);
	TEST_TRUE(!ustack_func(&thread[0]));
	expect(deep, USCHED_STALE, NULL);
	expect_shallow(*(const unsigned *)stacks > 1, USCHED_STALE, NULL);
	expect(&plain, USCHED_ELSEWHERE, NULL);
	expect(data, USCHED_ELSEWHERE, NULL);
	expect(NULL, USCHED_ELSEWHERE, NULL);
	expect((void *)UINTPTR_MAX, USCHED_ELSEWHERE, NULL);
	if (*(const unsigned *)stacks == 0)             /* deeper than anybody was */
		expect(middle - (1 << 20), USCHED_ELSEWHERE, NULL);
	expect(stacks, USCHED_ELSEWHERE, NULL);         /* above usched_run() */
	free(data);
}

static void whose(unsigned stacks)
{
	mini_start(&plain, &thread[0], be_deep_then_shallow, NULL);
	mini_start(&plain, &thread[1], look_at_other, &stacks);
	run();
	assert_int_equal(plain.p_dones, 2);
	expect(deep, USCHED_ELSEWHERE, NULL);           /* nothing runs here */
}

static void test_whose(void **state)
{
	(void)state;
	each_count(whose);
}

/* Of the other of two processors it is known that the stack is its. */
static char *_Atomic remote;

static void show(void *thread_of_other)
{
	char *local = alloca(unknown(SIZE));

	remote = local;
	TEST_EQUAL(ustack_wait(), 0);
	(void)thread_of_other;
}

static void see(void *unused)
{
	struct ustack *owner = &thread[0];

	(void)unused;
	while (!remote)
		;
	TEST_EQUAL(usched_onstack(remote, &owner), USCHED_REMOTE);
	TEST_TRUE(!owner);
	TEST_EQUAL(usched_onstack(&plain, NULL), USCHED_ELSEWHERE);
	TEST_EQUAL(usched_onstack(ustack_self()->u_stack, NULL), USCHED_ELSEWHERE);
}

static void test_remote(void **state)
{
	struct usched_conf conf = { .c_processors = 2 };
	struct ustack *shows, *sees;
	struct rr *rr = NULL;

	(void)state;
	test_timeout(20);
	if (!test_has_stacks())
		skip();                         /* native stacks have no known end */
	assert_int_equal(rr_create(&conf, &rr), 0);
	assert_int_equal(rr_start(rr, show, NULL, &shows), 0);
	assert_int_equal(rr_start(rr, see, NULL, &sees), 0);
	assert_int_equal(ustack_join(sees, USCHED_NEVER), 0);
	assert_int_equal(ustack_wake(shows), 0);
	assert_int_equal(ustack_join(shows, USCHED_NEVER), 0);
	assert_int_equal(rr_destroy(rr), 0);
}

/* ---- Peek and poke ---- */

static void be_looked_at(void *unused)
{
	char *local = alloca(unknown(SIZE));

	(void)unused;
	memset(local, 'a', SIZE);
	shallow = local;
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(local[0], 'a');
	for (int i = 1; i < SIZE; i++)
		TEST_EQUAL(local[i], 'b');
	plain.p_stop = true;
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(local[SIZE - 1], 'c');
}

static void be_refused(struct ustack *u)
{
	const struct usched_stack *k = u->u_stack;
	char byte = 0;

	TEST_EQUAL(ustack_peek(u, u->u_top - 1, &byte, 1), -EFAULT);
	TEST_EQUAL(ustack_peek(u, k->k_bottom, &byte, 1), -EFAULT);
	TEST_EQUAL(ustack_peek(u, k->k_bottom - 1, &byte, 2), -EFAULT);
	TEST_EQUAL(ustack_peek(u, k->k_bottom - 1, &byte, SIZE_MAX), -EFAULT);
	TEST_EQUAL(ustack_peek(u, &plain, &byte, 1), -EFAULT);
	TEST_EQUAL(ustack_poke(u, u->u_top - 1, &byte, 1), -EFAULT);
	TEST_EQUAL(ustack_poke(u, k->k_bottom - 1, &byte, 2), -EFAULT);
	TEST_EQUAL(ustack_peek(u, k->k_bottom, &byte, 0), 0);
	TEST_EQUAL(ustack_peek(u, k->k_bottom - 1, &byte, 1), 0);
}

static void look_into(void *unused)
{
	char *buffer = alloca(unknown(SIZE));

	(void)unused;
	TEST_EQUAL(ustack_peek(&thread[0], shallow, buffer, SIZE), 0);
	for (int i = 0; i < SIZE; i++)
		TEST_EQUAL(buffer[i], 'a');
	memset(buffer, 'b', SIZE);
	TEST_EQUAL(ustack_poke(&thread[0], shallow + 1, buffer, SIZE - 1), 0);
	be_refused(&thread[0]);
	TEST_EQUAL(ustack_peek(ustack_self(), buffer, buffer, 1), -EBUSY);
	TEST_EQUAL(ustack_poke(ustack_self(), buffer, buffer, 1), -EBUSY);
	TEST_EQUAL(ustack_peek(&thread[2], buffer, buffer, 1), -EINVAL);        /* new */
	TEST_TRUE(!ustack_where(&thread[2]));
	TEST_TRUE(!ustack_where(ustack_self()));
}

static void peek(unsigned stacks)
{
	char c = 'c', got = 0;

	(void)stacks;
	mini_start(&plain, &thread[0], be_looked_at, NULL);
	mini_start(&plain, &thread[1], look_into, NULL);
	TEST_EQUAL(ustack_init(&plain.p_sched, &thread[2], look_into, NULL, NULL, 0), 0);
	run();
	assert_true(ustack_func(&thread[0]));           /* it stopped there */
	assert_int_equal(ustack_peek(&thread[0], shallow, &got, 1), 0);
	assert_int_equal(got, 'a');
	assert_int_equal(ustack_poke(&thread[0], shallow + SIZE - 1, &c, 1), 0);
	run();
	assert_int_equal(plain.p_dones, 2);
	assert_int_equal(ustack_peek(&thread[0], shallow, &got, 1), -EINVAL);
	assert_int_equal(ustack_poke(&thread[0], shallow, &c, 1), -EINVAL);
	assert_null(ustack_where(&thread[0]));
}

static void test_peek(void **state)
{
	(void)state;
	each_count(peek);
}

/* ---- Where ---- */

IN(block_here) static void block_here(void *unused)
{
	(void)unused;
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(ustack_switch(&thread[1]), 0);
	TEST_TRUE(ustack_self());
}
EXTENT(block_here)

static void check_where(void)
{
	const void *where = ustack_where(&thread[0]);

	if (test_has_stacks()) {
		TEST_TRUE(where);
		TEST_TRUE(IS_IN(block_here, where) || !test_tail_calls());
	} else {
		TEST_TRUE(!where);
	}
}

static void look_where(void *unused)
{
	(void)unused;
	check_where();
	TEST_EQUAL(ustack_block(), 0);
	check_where();                                  /* it is in ustack_switch() now */
	TEST_EQUAL(ustack_switch(&thread[0]), 0);
}

static void where(unsigned stacks)
{
	(void)stacks;
	mini_start(&plain, &thread[0], block_here, NULL);
	mini_start(&plain, &thread[1], look_where, NULL);
	run();
	assert_int_equal(plain.p_dones, 2);
}

static void test_where(void **state)
{
	(void)state;
	each_count(where);
}

/* ---- What is checked ---- */

#if defined(USCHED_CHECK) || defined(USCHED_STRESS)
enum { CHECKED = 1 };
#else
enum { CHECKED = 0 };
#endif

static struct usync_mutex mutex;
static struct usync_chan *chan;
static struct iovec iov;
static struct usync_case one;

/* A call for each pointer that it takes, which is p: X(name, call, arguments). */
#define FOR_SHARED(X) \
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
	X(key_get, usync_key_get, (p))

#define FOR_CALLERS(X) \
	X(chan_send, usync_chan_send, (chan, p, 0)) \
	X(chan_recv, usync_chan_recv, (chan, p, 0)) \
	X(select, usync_select, (p, 1, 0)) \
	X(select_value, usync_select, ((one.s_value = p, &one), 1, 0)) \
	X(addr, unet_addr, (":1", p)) \
	X(text, unet_text, (heap, p)) \
	X(text_addr, unet_text, (p, heap)) \
	X(listen, unet_listen, (p, 0, 0)) \
	X(bind, unet_bind, (p, 0)) \
	X(accept, unet_accept, (-1, p, 0)) \
	X(connect, unet_connect, (p, 0)) \
	X(signals, unet_signals, (p)) \
	X(read, unet_read, (-1, p, 1, 0)) \
	X(write, unet_write, (-1, p, 1, 0)) \
	X(readv, unet_readv, (-1, p, 1, 0)) \
	X(writev, unet_writev, (-1, p, 1, 0)) \
	X(readv_base, unet_readv, (-1, (iov.iov_base = p, &iov), 1, 0)) \
	X(writev_base, unet_writev, (-1, (iov.iov_base = p, &iov), 1, 0)) \
	X(recvfrom, unet_recvfrom, (-1, p, 1, 0, NULL, 0)) \
	X(recvfrom_from, unet_recvfrom, (-1, NULL, 0, 0, p, 0)) \
	X(sendto, unet_sendto, (-1, p, 1, 0, NULL, 0)) \
	X(sendto_to, unet_sendto, (-1, NULL, 0, 0, p, 0)) \
	X(read_all, unet_read_all, (-1, p, 1, NULL, 0)) \
	X(read_all_done, unet_read_all, (-1, NULL, 0, p, 0)) \
	X(write_all, unet_write_all, (-1, p, 1, NULL, 0)) \
	X(write_all_done, unet_write_all, (-1, NULL, 0, p, 0)) \
	X(poll, unet_poll, (p, 1, 0)) \
	X(resolve_host, unet_resolve, (p, "1", SOCK_STREAM, NULL, 0, 0)) \
	X(resolve_service, unet_resolve, ("::1", p, SOCK_STREAM, NULL, 0, 0)) \
	X(resolve_found, unet_resolve, ("::1", "1", SOCK_STREAM, p, 1, 0)) \
	X(offload, uoffload, (nothing, NULL, p, 1, 0)) \
	X(open, ufile_open, (p, 0, 0, 0)) \
	X(pread, ufile_pread, (-1, p, 1, 0, 0)) \
	X(pwrite, ufile_pwrite, (-1, p, 1, 0, 0)) \
	X(stat_path, ufile_stat, (p, heap, 0)) \
	X(stat, ufile_stat, ("/", p, 0))

static char memory[SIZE] __attribute__((aligned(16)));
static void *const heap = memory;       /* as good as that */

static void nothing(void *unused)
{
	(void)unused;
}

#define DO(name, call, arguments) static void do_##name(void *p) { (void)call arguments; }
FOR_SHARED(DO)
FOR_CALLERS(DO)

#define ROW(name, call, arguments) { #call ":", do_##name },
static const struct use {
	const char *u_call;             /* as the message has it */
	void      (*u_do)(void *p);
} for_shared[] = { FOR_SHARED(ROW) }, for_callers[] = { FOR_CALLERS(ROW) };

enum { SHAREDS = sizeof for_shared / sizeof for_shared[0],
       CALLERSS = sizeof for_callers / sizeof for_callers[0] };

static const struct use *use;
static char *given;                     /* what it is done to */
static struct ustack *giver;

/* What would be right but for where it is. */
static void use_own(void *unused)
{
	char *local = alloca(unknown(SIZE));

	(void)unused;
	memset(local, 0, SIZE);
	use->u_do(local);
}

static __attribute__((noinline)) void give(void *unused)
{
	char *local = alloca(unknown(SIZE));

	(void)unused;
	memset(local, 0, SIZE);
	given = local;
	__atomic_store_n(&giver, ustack_self(), __ATOMIC_RELEASE);
	TEST_EQUAL(ustack_wait(), 0);
}

static void give_deep(void *unused)
{
	volatile char *local = alloca(unknown(DEEP));

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

/* On one processor, or two that are given a thread each. */
static void run_use(void (*first)(void *), void (*second)(void *), unsigned processors,
		    unsigned stacks)
{
	struct usched_conf conf = { .c_processors = processors, .c_stacks = stacks };
	struct ustack *all[2] = { NULL, NULL };
	struct rr *rr = NULL;

	TEST_EQUAL(usync_chan_create(1, 1, &chan), 0);
	one.s_chan = chan;
	iov.iov_len = 1;
	TEST_EQUAL(rr_create(&conf, &rr), 0);
	rr_hold(rr);
	TEST_EQUAL(rr_start(rr, first, NULL, &all[0]), 0);
	while (second && !__atomic_load_n(&giver, __ATOMIC_ACQUIRE))
		;
	if (second)
		TEST_EQUAL(rr_start(rr, second, NULL, &all[1]), 0);
	for (int i = second ? 1 : 0; i >= 0; i--)
		TEST_EQUAL(ustack_join(all[i], USCHED_NEVER), 0);
	rr_release(rr);
	TEST_EQUAL(rr_destroy(rr), 0);
	usync_chan_destroy(chan);
}

/* In a child, whose standard error is returned in `text'. Its status as of waitpid(2). */
static int run_child(void (*first)(void *), void (*second)(void *), unsigned processors,
		     unsigned stacks, char text[1024])
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

static void is_told(const struct use *which, void (*first)(void *), void (*second)(void *),
		    unsigned processors, unsigned stacks, const char *place)
{
	char text[1024];
	int status;

	use = which;
	status = run_child(first, second, processors, stacks, text);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(text, use->u_call)
	    || !strstr(text, place))
		fail_msg("%s status %d, \"%s\"", use->u_call, status, text);
}

static void is_right(const struct use *which, void (*first)(void *), void (*second)(void *))
{
	char text[1024];
	int status;

	use = which;
	status = run_child(first, second, 1, test_has_stacks() ? 1 : 0, text);
	if (status)
		fail_msg("%s status %d, \"%s\"", use->u_call, status, text);
}

static const char *const theirs = "in the frames of another thread, 0x",
	*const nobodys = "on a stack, in nobody's frames",
	*const others = "on a stack of another processor";

/* On the caller's own stack: objects are wrong, buffers are right. */
static void test_own(void **state)
{
	(void)state;
	test_timeout(60);
	if (!CHECKED)
		skip();
	for (size_t i = 0; i < SHAREDS; i++)
		is_told(&for_shared[i], use_own, NULL, 1, 0,
			"is in the frames of the thread that calls, 0x");
	for (size_t i = 0; i < CALLERSS; i++)
		is_right(&for_callers[i], use_own, NULL);
}

/* In another's frames: all of it is wrong. */
static void test_theirs(void **state)
{
	(void)state;
	test_timeout(60);
	if (!CHECKED || !test_has_stacks() || test_is_harsh())
		skip();                         /* nobody else is resident: see below */
	for (size_t i = 0; i < SHAREDS; i++)
		is_told(&for_shared[i], give, use_given, 1, 2, theirs);
	for (size_t i = 0; i < CALLERSS; i++)
		is_told(&for_callers[i], give, use_given, 1, 2, theirs);
}

static void test_nobodys(void **state)
{
	unsigned stacks = test_has_stacks() ? 1 : USCHED_NATIVE;

	(void)state;
	test_timeout(60);
	if (!CHECKED)
		skip();
	is_told(&for_shared[0], give_deep, use_given, 1, stacks, nobodys);
	for (size_t i = 0; i < CALLERSS; i++)
		is_told(&for_callers[i], give_deep, use_given, 1, stacks, nobodys);
	is_told(&for_callers[0], give_deep, use_given, 1, USCHED_NATIVE, nobodys);
	if (test_has_stacks())
		is_told(&for_callers[0], give_deep, use_given, 2, 0, others);
}

/* What native threads have on their stacks may be shared. */
static struct usync_group *group;

static void done(void *unused)
{
	(void)unused;
	TEST_EQUAL(usync_group_done(group), 0);
}

static void test_native_stack(void **state)
{
	struct usync_group local = { .g_count = 1 };
	struct usched_conf conf = { .c_processors = 1 };
	struct rr *rr = NULL;

	(void)state;
	test_timeout(20);
	group = &local;
	assert_int_equal(rr_create(&conf, &rr), 0);
	assert_int_equal(rr_start(rr, done, NULL, NULL), 0);
	assert_int_equal(usync_group_wait(&local, USCHED_NEVER), 0);
	assert_int_equal(rr_destroy(rr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whose),
		cmocka_unit_test(test_remote),
		cmocka_unit_test(test_peek),
		cmocka_unit_test(test_where),
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_theirs),
		cmocka_unit_test(test_nobodys),
		cmocka_unit_test(test_native_stack),
	};

	return cmocka_run_group_tests_name("frames", tests, NULL, NULL);
}
