/* SPDX-License-Identifier: MIT */
/*
 * test_errno.c: errno belongs to the native thread, and a thread finds it as it left it:
 * over the dispatcher, and over rr and ll in every way to wait.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../unet.h"
#include "../../uoffload.h"
#include "../../usync.h"
#include "../help/over.h"
#include "../help/plain.h"

enum {
	ROUNDS   = 20,
	OWN      = 1000,        /* the errno of thread i is OWN + i, which no call sets */
	NOISE    = 2000,        /* of call-backs and other threads */
	INITIAL  = 3000,        /* of the caller of usched_run() */
};

/* ---- The dispatcher, with call-backs that change errno ---- */

static struct ustack *noisy_next(struct usched *s)
{
	struct ustack *u = mini_next(s);

	errno = NOISE;
	return u;
}

static void *noisy_alloc(struct usched *s, struct ustack *u, size_t *size)
{
	void *image = mini_alloc(s, u, size);

	errno = NOISE + 1;
	return image;
}

static void noisy_done(struct usched *s, struct ustack *u)
{
	mini_done(s, u);
	errno = NOISE + 2;
}

static void keep_errno(void *arg)
{
	int own = OWN + (int)(uintptr_t)arg;

	TEST_EQUAL(errno, 0);
	for (unsigned n = 0; n < ROUNDS; n++)
		for (size_t way = 0; way < WAYS; way++) {
			errno = own;
			TEST_EQUAL(block_below(1 + 300 * (n % 4), ways[way]), 0);
			TEST_EQUAL(errno, own);
		}
}

/* Like run_five(), with these call-backs. */
static void run_noisily(void (*func)(void *))
{
	test_timeout(60);
	for (size_t i = 0; i < LENTS; i++) {
		mini_init(&plain, lent[i], PLAIN_STACK);
		plain.p_sched.s_calls.s_next = noisy_next;
		plain.p_sched.s_calls.s_alloc = noisy_alloc;
		plain.p_sched.s_calls.s_done = noisy_done;
		for (uintptr_t k = 0; k < FIVE; k++)
			mini_start(&plain, &thread[k], func, (void *)k);
		errno = INITIAL;
		run();
		TEST_EQUAL(errno, INITIAL);
		TEST_EQUAL(plain.p_dones, FIVE);
		mini_fini(&plain);
	}
}

TEST_ONCE(errno_is_each_threads_own)
{
	run_noisily(keep_errno);
}

/* Threads that end or are aborted without a block leave no value to others. */
static void end_noisily(void *arg)
{
	TEST_EQUAL(errno, 0);
	errno = OWN;
	if ((uintptr_t)arg % 2)
		ustack_abort(ustack_self());
}

TEST_ONCE(errno_of_the_ended_is_dropped)
{
	run_noisily(end_noisily);
}

/* ustack_reserve() and a block that fails return without a switch. */
static void fail_to_block(void *arg)
{
	(void)arg;
	plain.p_no_memory = true;
	errno = OWN;
	TEST_EQUAL(block_below(4000, ustack_block), -ENOMEM);
	TEST_EQUAL(errno, OWN);
	TEST_EQUAL(ustack_reserve(8000), -ENOMEM);
	TEST_EQUAL(errno, OWN);
	plain.p_no_memory = false;
	TEST_EQUAL(ustack_reserve(8000), 0);
	TEST_EQUAL(errno, OWN);
}

TEST_ONCE(errno_is_kept_by_what_fails)
{
	run_noisily(fail_to_block);
}

/* A thread may call usched_run() for another dispatcher. */
static void run_inner(void *arg)
{
	struct mini *inner = malloc(sizeof *inner);
	struct ustack *u = malloc(sizeof *u);

	TEST_TRUE(inner && u);
	mini_init(inner, 1, PLAIN_STACK);
	mini_start(inner, u, end_noisily, NULL);
	errno = OWN + (int)(uintptr_t)arg;
	TEST_EQUAL(usched_run(&inner->p_sched), 0);
	TEST_EQUAL(errno, OWN + (int)(uintptr_t)arg);
	TEST_EQUAL(ustack_block(), 0);
	TEST_EQUAL(errno, OWN + (int)(uintptr_t)arg);
	mini_fini(inner);
	free(inner);
	free(u);
}

TEST_ONCE(errno_is_kept_by_an_inner_dispatcher)
{
	mini_init(&plain, 1, PLAIN_STACK);
	for (uintptr_t k = 0; k < FIVE; k++)
		mini_start(&plain, &thread[k], run_inner, (void *)k);
	errno = INITIAL;
	assert_int_equal(usched_run(&plain.p_sched), 0);
	assert_int_equal(errno, INITIAL);
	mini_fini(&plain);
}

/* ---- Over rr and ll, in every way to wait ---- */

static void *scheduler;

/* A ring of threads: each gives something to the next one, and then waits. */
static struct member {
	struct member     *next;
	struct ustack     *thread;
	int                fd[2];       /* to read, to write */
	struct usync_chan *chan;        /* of char */
	struct usync_sem   sem;
	struct usync_group group;
} ring[FIVE];

static struct usync_sem    gate;
static struct usync_mutex  mutex;
static struct usync_rwlock rwlock;
static struct usync_cond   cond;

static void yield(struct member *m)
{
	(void)m;
	TEST_EQUAL(ustack_yield(), 0);
}

static void wait(struct member *m)
{
	TEST_EQUAL(ustack_wake(m->next->thread), 0);
	TEST_EQUAL(ustack_wait(), 0);
}

static void sleep_a_little(struct member *m)
{
	(void)m;
	TEST_EQUAL(usync_sleep_until(usync_after(1000)), 0);
}

static void lock_mutex(struct member *m)
{
	(void)m;
	TEST_EQUAL(usync_mutex_lock(&mutex, USCHED_NEVER), 0);
	yield(m);
	TEST_EQUAL(usync_mutex_unlock(&mutex), 0);
}

static void lock_rwlock(struct member *m)
{
	if (m == ring)
		TEST_EQUAL(usync_rwlock_write(&rwlock, USCHED_NEVER), 0);
	else
		TEST_EQUAL(usync_rwlock_read(&rwlock, USCHED_NEVER), 0);
	yield(m);
	TEST_EQUAL(usync_rwlock_unlock(&rwlock), 0);
}

static void wait_for_condition(struct member *m)
{
	int rc;

	(void)m;
	TEST_EQUAL(usync_mutex_lock(&mutex, USCHED_NEVER), 0);
	usync_cond_signal(&cond);
	rc = usync_cond_wait(&cond, &mutex, usync_after(USYNC_SECOND / 1000));
	TEST_TRUE(rc == 0 || rc == -ETIMEDOUT);
	TEST_EQUAL(usync_mutex_unlock(&mutex), 0);
}

static void wait_for_semaphore(struct member *m)
{
	TEST_EQUAL(usync_sem_post(&m->next->sem), 0);
	TEST_EQUAL(usync_sem_wait(&m->sem, USCHED_NEVER), 0);
}

static void receive(struct member *m)
{
	char value = 1;

	TEST_EQUAL(usync_chan_send(m->next->chan, &value, USCHED_NEVER), 0);
	TEST_EQUAL(usync_chan_recv(m->chan, &value, USCHED_NEVER), 0);
}

static void select_one(struct member *m)
{
	char value = 1;
	struct usync_case one = { .cs_chan = m->chan, .cs_value = &value };

	TEST_EQUAL(usync_chan_send(m->next->chan, &value, USCHED_NEVER), 0);
	TEST_EQUAL(usync_select(&one, 1, USCHED_NEVER), 0);
}

static void child(void *arg)
{
	TEST_EQUAL(errno, 0);
	errno = NOISE;
	yield(arg);
	TEST_EQUAL(errno, NOISE);
	if (arg)
		TEST_EQUAL(usync_group_done(&((struct member *)arg)->group), 0);
}

static void wait_for_group(struct member *m)
{
	TEST_EQUAL(usync_group_add(&m->group, 1), 0);
	TEST_EQUAL(over->o_start(scheduler, child, m, NULL), 0);
	TEST_EQUAL(usync_group_wait(&m->group, USCHED_NEVER), 0);
}

static void join(struct member *m)
{
	struct ustack *u;

	(void)m;
	TEST_EQUAL(over->o_start(scheduler, child, NULL, &u), 0);
	TEST_EQUAL(ustack_join(u, NULL, USCHED_NEVER), 0);
}

static void leave_noise(void *arg)
{
	(void)arg;
	errno = NOISE;
}

static void offload(struct member *m)
{
	(void)m;
	TEST_EQUAL(uoffload(leave_noise, NULL, NULL, 0, USCHED_NEVER), 0);
}

static void read_byte(struct member *m)
{
	char byte = 1;

	TEST_EQUAL(unet_write(m->next->fd[1], &byte, 1, USCHED_NEVER), 1);
	TEST_EQUAL(unet_read(m->fd[0], &byte, 1, USCHED_NEVER), 1);
}

static void await_byte(struct member *m)
{
	char byte = 1;

	TEST_EQUAL(unet_write(m->next->fd[1], &byte, 1, USCHED_NEVER), 1);
	TEST_EQUAL(unet_wait(m->fd[0], POLLIN, USCHED_NEVER), 0);
	TEST_EQUAL(unet_read(m->fd[0], &byte, 1, USCHED_NEVER), 1);
}

static void poll_for_byte(struct member *m)
{
	struct pollfd fd = { .fd = m->fd[0], .events = POLLIN };
	char byte = 1;

	TEST_EQUAL(unet_write(m->next->fd[1], &byte, 1, USCHED_NEVER), 1);
	TEST_EQUAL(unet_poll(&fd, 1, USCHED_NEVER), 1);
	TEST_EQUAL(unet_read(m->fd[0], &byte, 1, USCHED_NEVER), 1);
}

static const struct {
	void (*wait)(struct member *m);
	bool   fails;                   /* a system call of the thread may, with EAGAIN */
} waits[] = {
	{ yield, false }, { wait, false }, { sleep_a_little, false },
	{ lock_mutex, false }, { lock_rwlock, false }, { wait_for_condition, false },
	{ wait_for_semaphore, false }, { receive, false }, { select_one, false },
	{ wait_for_group, false }, { join, false },
	{ offload, false }, { read_byte, true }, { await_byte, true },
	{ poll_for_byte, true },
};

static void wait_in_all_ways(void *arg)
{
	struct member *m = arg;
	int own = OWN + (int)(m - ring);

	TEST_EQUAL(errno, 0);
	TEST_EQUAL(usync_sem_wait(&gate, USCHED_NEVER), 0);
	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
		for (unsigned n = 0; n < ROUNDS; n++) {
			errno = own;
			waits[i].wait(m);
			TEST_TRUE(errno == own || (waits[i].fails && errno == EAGAIN));
		}
}

static void make_ring(void)
{
	for (size_t i = 0; i < FIVE; i++) {
		struct member *m = &ring[i];

		*m = (struct member){ .next = &ring[(i + 1) % FIVE] };
		TEST_EQUAL(usync_chan_create(1, 1, &m->chan), 0);
		TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, m->fd), 0);
		TEST_EQUAL(unet__adopt_fd(m->fd[0]), 0);
		TEST_EQUAL(unet__adopt_fd(m->fd[1]), 0);
	}
}

static void end_ring(void)
{
	uoffload_drain(USCHED_NEVER);
	for (size_t i = 0; i < FIVE; i++) {
		usync_chan_destroy(ring[i].chan);
		TEST_EQUAL(unet_close(ring[i].fd[0]), 0);
		TEST_EQUAL(unet_close(ring[i].fd[1]), 0);
	}
}

/* With few stacks frames move; with the default number they stay. */
TEST(errno_is_kept_by_all_waits)
{
	static const struct uprocs_conf confs[] = {
		{ .c_processors = 1, .c_stacks = USCHED_NATIVE },
		{ .c_processors = 1, .c_stacks = 1 },
		{ .c_processors = 2, .c_stacks = 1 },
		{ .c_processors = 2 },
	};

	for (size_t c = 0; c < sizeof confs / sizeof *confs; c++) {
		TEST_EQUAL(over->o_create(&confs[c], &scheduler), 0);
		make_ring();
		for (size_t i = 0; i < FIVE; i++)
			TEST_EQUAL(over->o_start(scheduler, wait_in_all_ways, &ring[i],
						 &ring[i].thread), 0);
		for (size_t i = 0; i < FIVE; i++)
			TEST_EQUAL(usync_sem_post(&gate), 0);
		for (size_t i = 0; i < FIVE; i++)
			TEST_EQUAL(ustack_join(ring[i].thread, NULL, USCHED_NEVER), 0);
		end_ring();
		TEST_EQUAL(over->o_destroy(scheduler), 0);
	}
}

int main(void)
{
	return over_all(OVER_PROCS);
}
