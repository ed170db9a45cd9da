/* SPDX-License-Identifier: MIT */
/*
 * test_uposix_fork.c: children of fork(), while other threads are at work. A child would
 * wait for ever for a lock of a thread that the child does not have, so each child has an
 * alarm of its own.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_uposix.h"

#include "../usync.h"

enum { STACK = 256 << 10, FORKS = 100, LOCKS = 64 };

static int stage;                       /* how far a test case has come; atomic */

#define SET(v) __atomic_store_n(&stage, v, __ATOMIC_SEQ_CST)
#define GET() __atomic_load_n(&stage, __ATOMIC_SEQ_CST)

static int setup(void **state)
{
	(void)state;
	test_timeout(30);
	SET(0);
	fflush(stdout);                         /* so that no child writes the buffer */
	return 0;
}

static void join(pthread_t t)
{
	ok(pthread_join(t, NULL));
}

/* In the parent, waits for the end of a child. The child must return 0. */
static void ends_well(pid_t child)
{
	int status = -1;

	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static pid_t fork_with_alarm(void)
{
	pid_t child = fork();

	if (child == 0)
		alarm(60);
	return child;
}

static pthread_t start_native(void *(*func)(void *), void *arg)
{
	void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t t;

	assert_true(stack != MAP_FAILED);
	ok(pthread_attr_init(&attr));
	ok(pthread_attr_setstack(&attr, stack, STACK));
	ok(pthread_create(&t, &attr, func, arg));
	ok(pthread_attr_destroy(&attr));
	return t;
}

/* ---- What a child does ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t child_once = PTHREAD_ONCE_INIT;
static sem_t sem;

static void post(void)
{
	sem_post(&sem);
}

static void *read_one(void *fd)
{
	char c = 0;

	return read(*(int *)fd, &c, 1) == 1 && c == 'x' ? NULL : fd;
}

/* Returns 0 if all calls have succeeded. */
static int use_streams(int fd)
{
	FILE *file = fdopen(fd, "w");
	int rc;

	if (!file)
		return 1;
	flockfile(stdout);
	funlockfile(stdout);
	rc = fputs("x", file) < 0;
	return fclose(file) || rc;
}

static int use_descriptors(void)
{
	int fds[2], copy;
	void *result;
	pthread_t t;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		return 1;
	t = start(read_one, &fds[0]);
	nap(1);
	copy = dup(fds[1]);
	if (copy < 0 || use_streams(copy) || pthread_join(t, &result) || result)
		return 2;
	close(fds[0]);
	close(fds[1]);
	copy = open("/proc/self/stat", O_RDONLY);
	return copy < 0 || read(copy, &(char){ 0 }, 1) != 1 || close(copy);
}

static void *work(void *result)
{
	int rc = use_descriptors();

	nap(1);
	pthread_once(&child_once, post);
	sem_wait(&sem);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	*(int *)result = rc;
	return NULL;
}

static int works(void)
{
	static int rc = -1;

	sem_init(&sem, 0, 0);
	join(start(work, &rc));
	return rc;
}

/* ---- Locks ---- */

/*
 * Each lock of the library and of posix/. The script posix.sh finds the locks, and sets
 * UPOSIX_LOCKS. For each lock or array of locks UPOSIX_LOCKS has the kind, the name, the
 * address relative to read_locks(), the size and the number of elements.
 */
static struct lock {
	char   l_kind[16], l_name[32];
	char  *l_first;
	size_t l_size, l_count;
} locks[LOCKS];
static size_t n_locks;

/* The functions of libc, which the library itself calls for its locks. */
int native_lock(pthread_mutex_t *m) __asm__("pthread_mutex_lock");
int native_trylock(pthread_mutex_t *m) __asm__("pthread_mutex_trylock");
int native_unlock(pthread_mutex_t *m) __asm__("pthread_mutex_unlock");
int native_wrlock(pthread_rwlock_t *l) __asm__("pthread_rwlock_wrlock");
int native_trywrlock(pthread_rwlock_t *l) __asm__("pthread_rwlock_trywrlock");
int native_rwunlock(pthread_rwlock_t *l) __asm__("pthread_rwlock_unlock");
int native_usleep(useconds_t us) __asm__("usleep");

enum act { HOLD, TRY, RELEASE };

/* Returns 0, or another value if TRY finds a lock that is not free. */
static int act_on(const struct lock *l, enum act act)
{
	int rc = 0;

	for (size_t i = 0; i < l->l_count && rc == 0; i++) {
		void *at = l->l_first + i * l->l_size;

		if (!strcmp(l->l_kind, "mutex"))
			rc = (act == HOLD ? native_lock : act == TRY ? native_trylock
			      : native_unlock)(at);
		else if (!strcmp(l->l_kind, "rwlock"))
			rc = (act == HOLD ? native_wrlock : act == TRY ? native_trywrlock
			      : native_rwunlock)(at);
		else if (!strcmp(l->l_kind, "spin") && act == TRY)
			rc = !uwait_try_lock(at);
		else if (!strcmp(l->l_kind, "spin"))
			(act == HOLD ? uwait_lock : uwait_unlock)(at);
		else if (act == RELEASE)
			rc = usync_mutex_unlock(at);
		else
			rc = usync_mutex_lock(at, act == HOLD ? USCHED_NEVER : 0);
	}
	return rc;
}

/*
 * Holds a lock while another thread forks. A fork that takes the lock waits until this
 * thread releases it, so this thread holds it for at most 20 ms.
 */
static void *hold(void *lock)
{
	if (act_on(lock, HOLD))
		abort();
	SET(1);
	for (int i = 0; i < 20 && GET() == 1; i++)
		native_usleep(1000);
	if (act_on(lock, RELEASE))
		abort();
	return NULL;
}

/* First tries each lock, since the calls in works() do not take all of the locks. */
static int finds_locks_open(void)
{
	for (size_t i = 0; i < n_locks; i++) {
		if (act_on(&locks[i], TRY)) {
			fprintf(stderr, "%s is held in the child\n", locks[i].l_name);
			return 1;
		}
		act_on(&locks[i], RELEASE);
	}
	return works();
}

static void *fork_at(void *lock)
{
	pthread_t t;
	pid_t child;

	SET(0);
	t = start_native(hold, lock);
	while (GET() == 0)
		native_usleep(100);
	child = fork_with_alarm();
	if (child == 0)
		exit(finds_locks_open());
	SET(2);
	join(t);
	ends_well(child);
	return NULL;
}

static void read_locks(const char *text)
{
	struct lock *l = locks;
	long at;
	int n;

	while (sscanf(text, " %15s %31s %ld %zu %zu%n", l->l_kind, l->l_name, &at,
		      &l->l_size, &l->l_count, &n) == 5) {
		l->l_first = (char *)(uintptr_t)read_locks + at;
		text += n;
		l = &locks[++n_locks];
		assert_true(n_locks < LOCKS);
	}
	assert_true(n_locks > 0);
}

/* main() and a thread fork in turn, while another thread waits for a descriptor. */
static void has_locks(void **state)
{
	const char *text = getenv("UPOSIX_LOCKS");
	int fds[2];
	pthread_t t;

	(void)state;
	if (!text)
		skip();
	read_locks(text);
	ok(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	t = start(read_one, &fds[0]);
	for (size_t i = 0; i < n_locks; i++) {
		fork_at(&locks[i]);
		join(start(fork_at, &locks[i]));
	}
	assert_int_equal(write(fds[1], "x", 1), 1);
	join(t);
	close(fds[0]);
	close(fds[1]);
}

/* ---- Descriptors ---- */

static int pair[2];

/* In the child, waits for the descriptor that the parent waits for, and closes it. */
static void *leave(void *how)
{
	struct pollfd one = { pair[0], POLLIN, 0 };

	poll(&one, 1, 20);
	if (how)
		syscall(436, 3, ~0u, 0);        /* close_range() */
	else
		dup2(open("/dev/null", O_RDWR), pair[0]);
	return NULL;
}

/* Returns how many epoll instances this process has. */
static int count_pollers(void)
{
	DIR *all = opendir("/proc/self/fd");
	struct dirent *e;
	char to[64];
	int n = 0;

	while (all && (e = readdir(all))) {
		ssize_t size = readlinkat(dirfd(all), e->d_name, to, sizeof to);

		n += size > 0 && memmem(to, (size_t)size, "[eventpoll]", 11);
	}
	return all ? closedir(all), n : -1;
}

static void *fork_and_leave(void *how)
{
	pid_t child = fork_with_alarm();

	if (child == 0) {
		if (count_pollers())
			_exit(1);
		join(start(leave, how));
		_exit(0);
	}
	ends_well(child);
	return NULL;
}

static void leaves_pollers(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		void *how = i % 2 ? &stage : NULL;
		pthread_t t;

		ok(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
		t = start(read_one, &pair[0]);
		nap(20);
		if (i < 2)
			fork_and_leave(how);
		else
			join(start(fork_and_leave, how));
		assert_int_equal(write(pair[1], "x", 1), 1);
		join(t);
		close(pair[0]);
		close(pair[1]);
	}
}

/* ---- Forks in the midst of calls ---- */

static void *copy_files(void *unused)
{
	while (GET() == 0) {
		for (int i = 0; i < 50; i++) {
			int fd = open("/dev/null", O_RDONLY);

			close(dup(fd));
			close(fd);
		}
		sched_yield();
	}
	return unused;
}

static void *copy_over(void *unused)
{
	int fds[2];

	while (GET() == 0) {
		for (int i = 0; i < 20; i++) {
			ok(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
			if (write(fds[1], "x", 1) == 1)
				poll(&(struct pollfd){ fds[0], POLLIN, 0 }, 1, 5);
			dup2(fds[1], fds[0]);
			close(fds[0]);
			close(fds[1]);
		}
		sched_yield();
	}
	return unused;
}

static void *do_nothing(void *unused)
{
	return unused;
}

static void *create(void *unused)
{
	while (GET() == 0)
		join(start(do_nothing, NULL));
	return unused;
}

static void *fork_often(void *unused)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork_with_alarm();

		if (child == 0)
			_exit(works());
		ends_well(child);
	}
	return unused;
}

static void during(void *(*func)(void *))
{
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		t[i] = start(func, NULL);
	join(start(fork_often, NULL));
	SET(1);
	for (int i = 0; i < 3; i++)
		join(t[i]);
}

static void copies(void **state)
{
	(void)state;
	during(copy_files);
}

static void copies_over(void **state)
{
	(void)state;
	during(copy_over);
}

static void creates(void **state)
{
	(void)state;
	during(create);
}

/* Leaves u_attachment as if the thread were still inside usched__attach(). */
static void *attach(void *unused)
{
	struct ustack *u = ustack_self();
	struct ustack_attachment *a = u ? u->u_attachment : NULL;

	if (u)
		u->u_attachment = (void *)(uintptr_t)attach;
	SET(u ? 1 : 2);
	while (GET() == 1)
		native_usleep(100);
	if (u)
		u->u_attachment = a;
	return unused;
}

static void attaches(void **state)
{
	pthread_t t = start(attach, NULL);
	pid_t child;

	(void)state;
	UNTIL(GET());
	if (GET() == 2) {               /* ustack_self() of this program is not that of
					   the library in LD_PRELOAD */
		join(t);
		skip();
	}
	child = fork_with_alarm();
	if (child == 0)
		_exit(works());
	SET(2);
	ends_well(child);
	join(t);
}

/* ---- pthread_atfork() ---- */

static bool handles;
static int copied = -1;                 /* the handler's copy of a descriptor that unet
					   uses */

static void prepare(void)
{
	if (handles)
		copied = dup(pair[0]);
}

/*
 * The library takes the locks for the fork after the program's handlers have run. So a
 * handler may make calls that take locks.
 */
static void has_handlers(void **state)
{
	pid_t child;
	pthread_t t;

	(void)state;
	ok(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	t = start(read_one, &pair[0]);
	nap(1);
	assert_int_equal(write(pair[1], "x", 1), 1);
	join(t);
	handles = true;
	child = fork_with_alarm();
	if (child == 0)
		_exit(copied < 0 || works());
	handles = false;
	ends_well(child);
	close(copied);
	close(pair[0]);
	close(pair[1]);
}

/* ---- pthread_once() ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT, inner = PTHREAD_ONCE_INIT;
static int runs;

static void init(void)
{
	__atomic_add_fetch(&runs, 1, __ATOMIC_SEQ_CST);
	if (GET() == 0)
		SET(1);
	while (GET() == 1)
		nap(1);
}

static void *once_now(void *unused)
{
	ok(pthread_once(&once, init));
	return unused;
}

/*
 * The child repeats a call of pthread_once() that another thread of the parent was
 * making. Afterwards no thread of the child makes the call again.
 */
static int runs_again(void)
{
	SET(2);
	for (int i = 0; i < 2; i++)
		if (pthread_once(&once, init) || runs != 2)
			return 1;
	join(start(once_now, NULL));
	return runs != 2;
}

static pid_t forked;

static void fork_inside(void)
{
	forked = fork_with_alarm();
}

static void onces(void **state)
{
	pthread_t t = start(once_now, NULL);
	pid_t child;

	(void)state;
	UNTIL(GET() == 1);
	child = fork_with_alarm();
	if (child == 0)
		_exit(runs_again());
	ends_well(child);
	SET(2);
	join(t);
	assert_int_equal(runs, 1);
	/* If the function forks, the call goes on in the parent and in the child. */
	ok(pthread_once(&inner, fork_inside));
	if (forked == 0)
		_exit(pthread_once(&inner, fork_inside) != 0);
	ends_well(forked);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		CASE(has_handlers), CASE(leaves_pollers), CASE(copies), CASE(copies_over),
		CASE(creates), CASE(attaches), CASE(onces), CASE(has_locks),
	};

	ok(pthread_atfork(prepare, NULL, NULL));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
