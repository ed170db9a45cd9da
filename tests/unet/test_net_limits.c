/* SPDX-License-Identifier: MIT */
/* test_net_limits.c: EMFILE; accepts that keep failing; thousands of connections. */
#include "../help/net.h"

#include <signal.h>
#include <sys/resource.h>

/* ---- Not enough descriptors ---- */

enum { SPARE = 64 };

static struct rlimit limit_before;

/* Lowers the limit to a little above the open descriptors. */
static void lower_limit(void)
{
	int lowest = dup(0);
	struct rlimit limit;

	TEST_TRUE(lowest >= 0);
	TEST_EQUAL(close(lowest), 0);
	TEST_EQUAL(getrlimit(RLIMIT_NOFILE, &limit_before), 0);
	limit = limit_before;
	limit.rlim_cur = (rlim_t)lowest + SPARE / 2;
	TEST_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Closes `spare' and restores the limit. */
static void give_back(const int *spare, size_t n)
{
	while (n > 0)
		close(spare[--n]);
	TEST_EQUAL(setrlimit(RLIMIT_NOFILE, &limit_before), 0);
}

/* Opens all that are left. */
static size_t exhaust(int *spare)
{
	size_t count = 0;

	lower_limit();
	while (count < SPARE && (spare[count] = dup(0)) >= 0)
		count++;
	TEST_TRUE(count > 0 && count < SPARE && errno == EMFILE);
	return count;
}

struct acceptor {
	int        a_listener;
	int        a_rc;
	atomic_int a_returned;
	struct uwaiter *_Atomic a_waiter;
};

static void accept_one(void *arg)
{
	struct acceptor *a = arg;

	a->a_waiter = uwait_self();
	a->a_rc = unet_accept(a->a_listener, NULL, NEVER);
	a->a_returned = 1;
}

/* It says what it waits for: not for a time. */
static void await_kind(const struct acceptor *a)
{
	const struct uwait_kind *kind;

	do {
		nap(1);
		kind = __atomic_load_n(&a->a_waiter->w_kind, __ATOMIC_RELAXED);
	} while (!kind->kd_how || !strstr(kind->kd_how, "to accept"));
	TEST_TRUE(strstr(kind->kd_how, "descriptor or memory") != NULL);
	TEST_EQUAL((intptr_t)a->a_waiter->w_object, a->a_listener);
}

/* An accept waits for a descriptor, which unet_close() frees, or close(). */
static void accept_exhausted(int (*close_it)(int fd))
{
	static struct acceptor a;
	int spare[SPARE];
	struct ustack *u;
	size_t n;
	int client;

	a = (struct acceptor){ .a_listener = mini_listen(4) };
	TEST_EQUAL(usync_sleep_until(usync_after(1)), 0);
	u = go(accept_one, &a);                 /* opens its epoll now */
	await_waiting(u);
	client = mini_connect(bound(a.a_listener));
	join(u);
	TEST_EQUAL(unet_close(a.a_rc), 0);
	close(client);
	client = mini_connect(bound(a.a_listener));
	n = exhaust(spare);
	TEST_EQUAL(unet_accept(a.a_listener, NULL, 0), -ETIMEDOUT);
	TEST_EQUAL(unet_accept(a.a_listener, NULL, usync_after(3 * MILLI)), -ETIMEDOUT);
	for (int i = 0; i < 2; i++) {
		a.a_returned = 0;
		u = go(accept_one, &a);
		await_waiting(u);
		TEST_EQUAL(usync_sleep_until(usync_after(5 * MILLI)), 0);
		TEST_EQUAL(a.a_returned, 0);
		await_kind(&a);
		TEST_EQUAL(i == 0 ? ustack_cancel(u) : close_it(spare[--n]), 0);
		join(u);
		i == 0 ? TEST_EQUAL(a.a_rc, -ECANCELED) : TEST_TRUE(a.a_rc >= 0);
	}
	put(client, "x");
	receive(a.a_rc, "x");
	TEST_EQUAL(unet_close(a.a_rc), 0);
	give_back(spare, n);
	close(client);
	TEST_EQUAL(unet_close(a.a_listener), 0);
}

static void exhausted(void)
{
	struct unet_addr a = address(local());
	size_t n;
	int spare[SPARE];
	sigset_t set;

	if (!test_on_valgrind()) {              /* its accept() loses the connection */
		accept_exhausted(close);
		accept_exhausted(unet_close);
	}
	sigemptyset(&set);
	n = exhaust(spare);
	TEST_EQUAL(unet_listen(&a, 0, 0), -EMFILE);
	TEST_EQUAL(unet_connect(&a, NEVER), -EMFILE);
	TEST_EQUAL(unet_signals(&set), -EMFILE);
	give_back(spare, n);
}

/* The first wait of a processor opens an epoll. */
static void first_wait(void)
{
	int fds[2], spare[SPARE];
	struct pollfd p;
	size_t n;
	char c;

	unix_pair(fds);
	p = (struct pollfd){ fds[0], POLLIN, 0 };
	n = exhaust(spare);
	for (int i = 0; i < 2; i++) {
		TEST_EQUAL(unet_read(fds[0], &c, 1, NEVER), -EMFILE);
		TEST_EQUAL(unet_read(fds[0], &c, 1, usync_after(MILLI)), -EMFILE);
		TEST_EQUAL(unet_poll(&p, 1, NEVER), -EMFILE);
		put(fds[1], "x");
		TEST_EQUAL(unet_read(fds[0], &c, 1, NEVER), 1); /* does not wait */
		if (i == 0)
			close(spare[--n]);                      /* one: too few */
	}
	give_back(spare, n);
	TEST_EQUAL(unet_read(fds[0], &c, 1, usync_after(MILLI)), -ETIMEDOUT);
	close_both(fds);
}

/* It has no epoll, and cannot have one: deadlines need none. */
static void first_deadline(void)
{
	static struct acceptor a;
	int spare[SPARE], client = -1;
	int64_t deadline;
	struct ustack *u;
	size_t n;

	a = (struct acceptor){ .a_listener = mini_listen(4) };
	if (!test_on_valgrind())                /* its accept() loses the connection */
		client = mini_connect(bound(a.a_listener));
	n = exhaust(spare);
	for (int i = 0; i < 2; i++) {
		deadline = usync_after(15 * MILLI);
		TEST_EQUAL(unet_accept(a.a_listener, NULL, deadline), -ETIMEDOUT);
		TEST_TRUE(uevents_now() >= deadline);
		deadline = usync_after(MILLI);
		TEST_EQUAL(usync_sleep_until(deadline), 0);
		TEST_TRUE(uevents_now() >= deadline);
		u = go(accept_one, &a);
		TEST_EQUAL(usync_sleep_until(usync_after(15 * MILLI)), 0);
		TEST_EQUAL(a.a_returned, 0);
		TEST_EQUAL(ustack_cancel(u), 0);
		join(u);
		TEST_EQUAL(a.a_rc, -ECANCELED);
		a.a_returned = 0;
	}
	u = go(accept_one, &a);
	give_back(spare, n);
	if (client < 0)
		client = mini_connect(bound(a.a_listener));
	join(u);
	put(client, "x");
	receive(a.a_rc, "x");
	TEST_EQUAL(unet_close(a.a_rc), 0);
	TEST_EQUAL(unet_close(a.a_listener), 0);
	close(client);
}

/* Threads wake each other from sleeps without epoll, and as each processor gets one. */
static struct usync_sem pings, pongs;
static atomic_bool enough, end;

static void ping(int fd, void *unused)
{
	ssize_t rc;

	(void)unused;
	while (!end) {
		TEST_EQUAL(usync_sem_wait(&pings, usync_after(3600 * USYNC_SECOND)), 0);
		TEST_EQUAL(usync_sem_post(&pongs), 0);
		rc = unet_wait(fd, POLLIN, usync_after(1));
		TEST_TRUE(rc == -ETIMEDOUT || rc == -EMFILE);
	}
}

static void ping_all(void *fds)
{
	int64_t late = usync_after(3600 * USYNC_SECOND);
	struct ustack *u[4];

	for (size_t i = 0; i < COUNT(u); i++)
		TEST_EQUAL(over->o_start_with(scheduler, TEST_FD(ping, ((int *)fds)[i]),
					      NULL, NULL, &u[i]), 0);
	while (!enough) {
		TEST_EQUAL(usync_sem_post(&pings), 0);
		TEST_EQUAL(usync_sem_wait(&pongs, late), 0);
	}
	end = true;
	for (size_t i = 0; i < COUNT(u); i++)
		TEST_EQUAL(usync_sem_post(&pings), 0);
	for (size_t i = 0; i < COUNT(u); i++)
		join(u[i]);
}

static void first_wakes(void)
{
	static int fds[4];
	int spare[SPARE];
	struct ustack *u;
	size_t n;

	unix_pair(fds);
	unix_pair(fds + 2);
	pings = pongs = (struct usync_sem){ 0 };
	enough = end = false;
	n = exhaust(spare);
	u = go(ping_all, fds);
	TEST_EQUAL(usync_sleep_until(usync_after(10 * MILLI)), 0);
	give_back(spare, n);
	TEST_EQUAL(usync_sleep_until(usync_after(10 * MILLI)), 0);
	enough = true;
	join(u);
	close_both(fds);
	close_both(fds + 2);
}

/* ---- Accepts that keep failing ---- */

static atomic_int refusal, refused;      /* an error of accept4(2), or 0; how often */

int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags);
int __real_accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags);

int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags)
{
	if (!refusal)
		return __real_accept4(fd, peer, size, flags);
	refused++;
	errno = refusal;
	return -1;
}

/* Such as by a filter of system calls: it does not pass. The deadline holds. */
NET_TEST(refused_for_ever)
{
	static struct acceptor a;
	int64_t deadline;
	struct ustack *u;
	int client;

	a = (struct acceptor){ .a_listener = mini_listen(4) };
	client = mini_connect(bound(a.a_listener));
	refused = 0;
	refusal = EPERM;
	TEST_EQUAL(unet_accept(a.a_listener, NULL, 0), -ETIMEDOUT);
	TEST_EQUAL(unet_accept(a.a_listener, NULL, 1), -ETIMEDOUT);
	deadline = usync_after(50 * MILLI);
	TEST_EQUAL(unet_accept(a.a_listener, NULL, deadline), -ETIMEDOUT);
	TEST_TRUE(uevents_now() >= deadline);
	TEST_TRUE(refused < 1000);
	u = go(accept_one, &a);
	TEST_EQUAL(usync_sleep_until(usync_after(15 * MILLI)), 0);
	TEST_EQUAL(ustack_cancel(u), 0);
	join(u);
	TEST_EQUAL(a.a_rc, -ECANCELED);
	TEST_TRUE(refused < 2000);
	u = go(accept_one, &a);
	pause_thread();
	refusal = 0;
	join(u);
	TEST_TRUE(a.a_rc >= 0);
	TEST_EQUAL(unet_close(a.a_rc), 0);
	TEST_EQUAL(unet_close(a.a_listener), 0);
	close(client);
}

/* Likewise in a native thread. */
static void refused_natively(void)
{
	int listener = mini_listen(4);
	int64_t deadline;

	refused = 0;
	refusal = EPERM;
	deadline = usync_after(50 * MILLI);
	TEST_EQUAL(unet_accept(listener, NULL, deadline), -ETIMEDOUT);
	TEST_TRUE(uevents_now() >= deadline);
	TEST_TRUE(refused < 1000);
	refusal = 0;
	TEST_EQUAL(unet_close(listener), 0);
}

/* ---- Very many connections ---- */

struct many {
	int             m_listener;
	size_t          m_n;
	struct ustack **m_threads;
};

static void serve_one(int fd, void *unused)
{
	(void)unused;
	TEST_EQUAL(echo(fd, false), 0);
}

/* Accepts in one thread; a thread for each connection, which the test joins. */
static void accept_many(void *arg)
{
	struct many *m = arg;

	for (size_t i = 0; i < m->m_n; i++) {
		int fd = unet_accept(m->m_listener, NULL, NEVER);

		TEST_EQUAL(over->o_start_with(scheduler, TEST_FD(serve_one, fd), NULL,
					      NULL, &m->m_threads[i]), 0);
	}
}

/* One thread of each processor. */
static size_t places_of(struct ustack *const *threads, size_t n, struct ustack **at)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < count && ustack_sched(at[k]) != ustack_sched(threads[i]))
			k++;
		if (k == count)
			at[count++] = threads[i];
		TEST_TRUE(count < 16);
	}
	return count;
}

/* New threads may move until they wait. Returns the number of places. */
static size_t await_blocked(struct many *m, struct ustack **at)
{
	size_t sum, places;

	do {
		sleep_native(1);
		sum = 0;
		places = places_of(m->m_threads, m->m_n, at);
		for (size_t i = 0; i < places; i++)
			sum += waiting(at[i]);
	} while (sum != m->m_n);
	return places;
}

static uint64_t images_of(struct ustack **at, size_t places)
{
	uint64_t images = 0;

	for (size_t i = 0; i < places; i++) {
		struct usched_stats stats;

		usched_stats(ustack_sched(at[i]), &stats);
		images += stats.st_images;
	}
	return images;
}

/* Both ends are in this process: RLIMIT_NOFILE bounds them. */
static size_t most_connections(void)
{
	struct rlimit limit;
	size_t n = test_scale(9000, 50);

	TEST_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < 2 * n + 200) {
		n = limit.rlim_cur / 2 - 100;
		print_message("only %zu connections: RLIMIT_NOFILE\n", n);
	}
	return n;
}

/* This native thread writes and reads with blocking sockets. */
static void echo_many(int *clients, size_t n)
{
	char text[48], back[48];
	size_t size;

	for (size_t i = 0; i < n; i++) {
		snprintf(text, sizeof text, "%zu %zu", i, i * i);
		put(clients[i], text);
	}
	for (size_t i = 0; i < n; i++) {
		snprintf(text, sizeof text, "%zu %zu", i, i * i);
		size = strlen(text);
		TEST_EQUAL(recv(clients[i], back, size, MSG_WAITALL), size);
		TEST_EQUAL(memcmp(text, back, size), 0);
	}
}

static void many_connections(const struct uprocs_conf *conf)
{
	struct many m = { .m_n = most_connections() };
	int *clients = calloc(m.m_n, sizeof *clients);
	size_t before = test_descriptors(), places;
	struct ustack *acceptor, *at[16];

	m.m_threads = calloc(m.m_n, sizeof(struct ustack *));
	TEST_TRUE(clients && m.m_threads);
	assert_int_equal(over->o_create(conf, &scheduler), 0);
	m.m_listener = mini_listen(1000);
	acceptor = go(accept_many, &m);
	for (size_t i = 0; i < m.m_n; i++)
		clients[i] = mini_connect(bound(m.m_listener));
	join(acceptor);
	await_blocked(&m, at);
	echo_many(clients, m.m_n);
	places = await_blocked(&m, at);
	for (size_t i = 0; i < m.m_n; i++)
		close(clients[i]);
	do {
		sleep_native(1);
	} while (waiting(at[0]) || images_of(at, places));    /* or for ever: times out */
	for (size_t i = 0; i < m.m_n; i++)
		join(m.m_threads[i]);
	assert_int_equal(unet_close(m.m_listener), 0);
	assert_int_equal(over->o_destroy(scheduler), 0);
	assert_int_equal(test_descriptors(), before);
	free(m.m_threads);
	free(clients);
}

TEST(test_many)
{
	many_connections(&one_processor);
	many_connections(&two_processors);
}

CONF_CASE(exhausted, one_processor)
CONF_CASE(exhausted, two_processors)
CONF_CASE(first_wait, one_processor)
CONF_CASE(first_deadline, one_processor)
CONF_CASE(first_deadline, two_processors)
CONF_CASE(first_wakes, one_processor)
CONF_CASE(first_wakes, two_processors)
NATIVE_CASE(refused_natively)

int main(void)
{
	return over_all(OVER_ALL);
}
