/* SPDX-License-Identifier: MIT */
/*
 * test_uposix_io.c: calls on descriptors by a program that knows nothing of usched. The
 * program is built with -include posix/uposix.h, or runs with LD_PRELOAD. There is one
 * processor, and another thread does what a call waits for, so a call that blocks the
 * processor never ends.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <aio.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <locale.h>
#include <mqueue.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "../tests/help/test.h"

#if !__GLIBC_PREREQ(2, 34) && !defined(close_range)
#define close_range(first, last, flags) syscall(436, first, last, flags)
#define closefrom(first) close_range((unsigned)(first), ~0u, 0)
#endif

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MS = 1000 };                     /* us in a millisecond */

/* ---- Threads ---- */

static pthread_t go(void *(*func)(void *), void *arg)
{
	pthread_t t;

	TEST_EQUAL(pthread_create(&t, NULL, func, arg), 0);
	return t;
}

static void *join(pthread_t t)
{
	void *result;

	TEST_EQUAL(pthread_join(t, &result), 0);
	return result;
}

static void run(void *(*func)(void *))
{
	test_timeout(10);
	join(go(func, NULL));
}

#define CASE(func) static void func(void **state) { (void)state; run(in_##func); }

static void pair(int fds[2])
{
	TEST_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
}

static void close_both(const int fds[2])
{
	TEST_EQUAL(close(fds[0]), 0);
	TEST_EQUAL(close(fds[1]), 0);
}

/* Returns O_NONBLOCK as the system has the flag, not as the library shows it. */
static bool really_nonblocking(int fd)
{
	char name[40], line[80] = "";
	unsigned flags = 0;
	FILE *f;

	snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
	f = fopen(name, "r");
	TEST_TRUE(f);
	while (fgets(line, sizeof line, f) && sscanf(line, "flags: %o", &flags) != 1)
		;
	fclose(f);
	return flags & O_NONBLOCK;
}

/* Makes a system call that no library sees. */
#ifdef __x86_64__
static long unseen(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long n;

	__asm__ volatile("syscall" : "=a"(n) : "a"(number), "D"(a), "S"(b), "d"(c),
			 "r"(r10) : "rcx", "r11", "memory");
	return n;
}
#else
static long unseen(long number, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
			 : "memory");
	return x0;
}
#endif

/*
 * A thread has waited for `fd'. Returns true if unet has adopted `fd'. A native run shows
 * that the test itself is right; there this always returns true.
 */
static bool is_adopted(int fd)
{
#ifndef pthread_create
	if (!getenv("LD_PRELOAD"))
		return true;
#endif
	return really_nonblocking(fd);
}

/*
 * Returns true if threads are those of usched, on one processor, so that another thread
 * runs only when the caller waits.
 */
static bool really_threads(void)
{
#ifndef pthread_create
	if (!getenv("LD_PRELOAD"))
		return false;
#endif
	return strcmp(getenv("UPOSIX_PROCESSORS"), "1") == 0;
}

static long ms_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void *write_later(void *fd)
{
	usleep(20 * MS);
	TEST_EQUAL(write(*(int *)fd, "hello", 5), 5);
	return NULL;
}

/* ---- O_NONBLOCK ---- */

/*
 * Once a thread has waited for a descriptor, unet has set O_NONBLOCK. The program sees
 * only the flag that the program itself has set.
 */
static void *in_flags(void *unused)
{
	static int fds[2];
	char text[8];
	int copy, on = 1, off = 0;

	pair(fds);
	go(write_later, &fds[1]);
	TEST_EQUAL(read(fds[0], text, 8), 5);
	TEST_TRUE(is_adopted(fds[0]));
	TEST_TRUE(!(fcntl(fds[0], F_GETFL) & O_NONBLOCK));
	copy = dup(fds[0]);
	TEST_TRUE(!(fcntl(copy, F_GETFL) & O_NONBLOCK));
	TEST_EQUAL(fcntl(copy, F_SETFL, O_RDWR | O_NONBLOCK), 0);
	TEST_TRUE(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
	TEST_EQUAL(read(fds[0], text, 8), -1);
	TEST_EQUAL(errno, EAGAIN);
	TEST_EQUAL(ioctl(fds[0], FIONBIO, &off), 0);
	TEST_TRUE(!(fcntl(copy, F_GETFL) & O_NONBLOCK));
	TEST_TRUE(is_adopted(fds[0]));
	go(write_later, &fds[1]);
	TEST_EQUAL(read(copy, text, 8), 5);
	TEST_EQUAL(ioctl(fds[1], FIONBIO, &on), 0);
	TEST_EQUAL(read(fds[1], text, 8), -1);
	TEST_EQUAL(errno, EAGAIN);
	close(copy);
	close_both(fds);
	return unused;
}

/* The entry of a descriptor says nothing about an earlier descriptor of that number. */
static void *in_numbers(void *unused)
{
	static int fds[2], more[2];
	char text[8];

	pair(fds);
	TEST_EQUAL(ioctl(fds[0], FIONBIO, &(int){ 1 }), 0);
	close(fds[0]);
	TEST_EQUAL(pipe(more), 0);
	TEST_EQUAL(more[0], fds[0]);
	go(write_later, &more[1]);
	TEST_EQUAL(read(more[0], text, 8), 5);
	TEST_EQUAL(dup2(fds[1], more[0]), more[0]);
	TEST_EQUAL(recv(more[0], text, 8, 0), 0);       /* fds[0] is closed */
	close(fds[1]);
	close_both(more);
	return unused;
}

/* Ways to make and to close descriptors, some of which the library does not see. */
static int made_unseen(int flags)
{
	return (int)unseen(SYS_epoll_create1, flags, 0, 0, 0);
}

static int made_by_number(int flags)
{
	return (int)syscall(SYS_epoll_create1, flags);
}

static long close_unseen(int fd)
{
	return unseen(SYS_close, fd, 0, 0, 0);
}

static long close_by_number(int fd)
{
	return syscall(SYS_close, fd);
}

/* Waits for events of three epoll instances that have the same number in turn. */
static void await_events(int (*make)(int flags), long (*end)(int fd))
{
	static int fds[2];
	struct epoll_event e = { .events = EPOLLIN };
	int first = -1;

	pair(fds);
	for (int i = 0; i < 3; i++) {
		int fd = make(EPOLL_CLOEXEC);
		char text[8];
		pthread_t t;

		first = i == 0 ? fd : first;
		TEST_EQUAL(fd, first);
		TEST_EQUAL(epoll_ctl(fd, EPOLL_CTL_ADD, fds[0], &e), 0);
		t = go(write_later, &fds[1]);
		TEST_EQUAL(epoll_wait(fd, &e, 1, -1), 1);
		TEST_EQUAL(read(fds[0], text, 8), 5);
		join(t);
		TEST_EQUAL(end(fd), 0);
	}
	close_both(fds);
}

static void await_bytes(bool numbers, long (*end)(int fd))
{
	static int fds[2];
	int first = -1;

	for (int i = 0; i < 3; i++) {
		char text[8];
		pthread_t t;

		if (numbers)
			TEST_EQUAL(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0,
					   fds), 0);
		else
			pair(fds);
		first = i == 0 ? fds[0] : first;
		TEST_EQUAL(fds[0], first);
		t = go(write_later, &fds[1]);
		TEST_EQUAL(numbers ? syscall(SYS_read, fds[0], text, 8)
			   : read(fds[0], text, 8), 5);
		join(t);
		TEST_EQUAL(end(fds[0]), 0);
		TEST_EQUAL(end(fds[1]), 0);
	}
}

/*
 * A number is closed by a call that the library does not see, and is then the number of
 * another file. No wake for that file is lost.
 */
static void *in_unseen_closes(void *unused)
{
	await_events(epoll_create1, close_by_number);
	await_events(epoll_create1, close_unseen);
	await_events(made_by_number, close_by_number);
	await_events(made_by_number, close_unseen);
	await_events(made_unseen, close_unseen);
	await_bytes(false, close_by_number);
	await_bytes(false, close_unseen);
	await_bytes(true, close_unseen);
	return unused;
}

/*
 * Makes call i, on descriptors for which a thread has waited. The bytes for which the
 * call waits are written later.
 */
static void splice_once(int i, const int fds[2], const int ends[2])
{
	char text[8];
	struct iovec iov = { text, sizeof text };
	pthread_t t = go(write_later, (void *)&fds[1]);

	if (i == 0)
		TEST_EQUAL(splice(fds[0], NULL, ends[1], NULL, 100, 0), 5);
	else if (i == 1)
		TEST_EQUAL(preadv2(fds[0], &iov, 1, -1, 0), 5);
	else if (i == 2)
		TEST_EQUAL(preadv2(fds[0], &iov, 1, -1, RWF_HIPRI), 5);
	else if (i == 3)
		TEST_EQUAL(syscall(SYS_splice, fds[0], NULL, ends[1], NULL, 100, 0), 5);
	else
		TEST_EQUAL(syscall(SYS_read, fds[0], text, 8), 5);
	join(t);
	if (i % 3 == 0)
		TEST_EQUAL(read(ends[0], text, 8), 5);
}

static void *in_spliced(void *unused)
{
	static int fds[2], ends[2], more[2];
	char text[10];
	struct iovec iov = { text, sizeof text };
	pthread_t t;

	pair(fds);
	TEST_EQUAL(pipe(ends), 0);
	TEST_EQUAL(pipe(more), 0);
	t = go(write_later, &fds[1]);
	TEST_EQUAL(read(fds[0], text, 8), 5);
	join(t);
	for (int i = 0; i < 5; i++)
		splice_once(i, fds, ends);
	t = go(write_later, &ends[1]);
	TEST_EQUAL(tee(ends[0], more[1], 100, 0), 5);
	join(t);
	TEST_EQUAL(read(ends[0], text, 8) + read(more[0], text, 8), 10);
	t = go(write_later, &ends[1]);
	TEST_EQUAL(vmsplice(ends[0], &iov, 1, 0), 5);
	join(t);
	TEST_EQUAL(preadv2(fds[0], &iov, 1, -1, RWF_NOWAIT), -1);
	TEST_EQUAL(splice(fds[0], NULL, ends[1], NULL, 9, SPLICE_F_NONBLOCK), -1);
	TEST_EQUAL(errno, EAGAIN);
	TEST_EQUAL(ioctl(fds[0], FIONBIO, &(int){ 1 }), 0);
	TEST_EQUAL(splice(fds[0], NULL, ends[1], NULL, 9, 0), -1);
	TEST_EQUAL(errno, EAGAIN);
	close_both(fds);
	close_both(ends);
	close_both(more);
	return unused;
}

/*
 * If true, every other poll() by which the library looks what is ready fails as if a
 * signal had come.
 */
static atomic_bool interrupts;
static atomic_bool refuses;             /* kcmp(2) fails, as in a sandbox */

#ifdef poll                             /* with -include uposix.h and --wrap=poll */
int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
	static atomic_uint looks;

	if (!interrupts || ms != 0 || looks++ % 2)
		return __real_poll(fds, n, ms);
	errno = EINTR;
	return -1;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
	va_list args;
	long a[6];

	va_start(args, number);
	for (size_t i = 0; i < COUNT(a); i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (!refuses || number != SYS_kcmp)
		return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	errno = EPERM;
	return -1;
}

static atomic_bool starves;             /* calloc() returns NULL */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return starves ? NULL : __real_calloc(n, size);
}

/* fflush(NULL) flushes all streams even if there is no memory for a list of them. */
static void starved_flush(void **state)
{
	char text[8];
	int fds[2];
	FILE *f;

	(void)state;
	test_timeout(10);
	TEST_EQUAL(pipe(fds), 0);
	f = fdopen(fds[1], "w");
	TEST_EQUAL(fputs("hello", f) >= 0, 1);
	starves = true;
	TEST_EQUAL(fflush(NULL), 0);
	starves = false;
	TEST_EQUAL(read(fds[0], text, 8), 5);
	fclose(f);
	close(fds[0]);
}
#else
static void starved_flush(void **state)
{
	(void)state;
	skip();
}
#endif

/* O_NONBLOCK is never set for a pipe that other processes may have open, too. */
static void *foreign_read(void *fd)
{
	char text[8];

	TEST_EQUAL(read(*(int *)fd, text, 8), 5);
	return NULL;
}

static void *foreign_poll(void *fd)
{
	struct pollfd p = { *(int *)fd, POLLIN, 0 };
	char text[8];

	TEST_EQUAL(poll(&p, 1, 10), 0);
	TEST_EQUAL(poll(&p, 1, -1), 1);
	TEST_EQUAL(p.revents, POLLIN);
	TEST_EQUAL(read(*(int *)fd, text, 8), 5);
	return NULL;
}

static void foreign(void **state)
{
	void *(*const calls[])(void *) = { foreign_read, foreign_poll };
	int fds[2], in;
	char path[64];

	(void)state;
	test_timeout(10);
	TEST_EQUAL(pipe(fds), 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fds[0]);
	in = open(path, O_RDONLY);
	for (size_t i = 0; i < 4 * COUNT(calls); i++) {
		pthread_t writer = go(write_later, &fds[1]);

		interrupts = i >= COUNT(calls);
		join(go(calls[i % COUNT(calls)], &in));
		join(writer);
		TEST_TRUE(!really_nonblocking(in));
	}
	interrupts = false;
	close(in);
	close_both(fds);
}

/* ---- Calls that open files by name, and calls in which libc itself reads ---- */

static char fifo[] = "/tmp/uposix-XXXXXX/fifo";

static void *open_later(void *unused)
{
	int fd;

	usleep(20 * MS);
	fd = open(fifo, O_WRONLY);
	TEST_EQUAL(write(fd, "hello", 5), 5);
	TEST_EQUAL(close(fd), 0);
	return unused;
}

static int open_once(int i)
{
	volatile int flags = O_RDONLY;

	return i == 0 ? open(fifo, O_RDONLY) : i == 1 ? openat(AT_FDCWD, fifo, flags)
		: i == 2 ? openat64(AT_FDCWD, fifo, O_RDONLY)
		: (int)syscall(SYS_openat, AT_FDCWD, fifo, O_RDONLY);
}

static void *in_opened(void *unused)
{
	char *end = strrchr(fifo, '/'), text[8];

	*end = '\0';
	TEST_TRUE(mkdtemp(fifo));
	*end = '/';
	TEST_EQUAL(mkfifo(fifo, 0600), 0);
	for (int i = 0; i < 4; i++) {
		pthread_t t = go(open_later, NULL);
		int fd = open_once(i);

		TEST_EQUAL(read(fd, text, 8), 5);
		TEST_EQUAL(close(fd), 0);
		join(t);
	}
	TEST_EQUAL(open(fifo, O_WRONLY | O_NONBLOCK), -1);
	TEST_EQUAL(errno, ENXIO);
	unlink(fifo);
	TEST_EQUAL(open(fifo, O_RDONLY), -1);
	TEST_EQUAL(errno, ENOENT);
	*end = '\0';
	TEST_EQUAL(rmdir(fifo), 0);
	return unused;
}

/*
 * A file, for which calls never wait, is closed. Its number is then that of a terminal or
 * a pipe, for which a read waits.
 */
static void *in_closed_dirs(void *unused)
{
	static int fds[2], file;
	DIR *dir = opendir("/");
	int fd = dirfd(dir), slave;
	char text[64];
	pthread_t t;

	TEST_EQUAL(read(fd, text, 8), -1);
	TEST_EQUAL(closedir(dir), 0);
	TEST_EQUAL(posix_openpt(O_RDWR | O_NOCTTY), fd);
	TEST_EQUAL(grantpt(fd) | unlockpt(fd), 0);
	slave = open(ptsname(fd), O_RDWR | O_NOCTTY);
	t = go(write_later, &slave);
	TEST_EQUAL(read(fd, text, 8), 5);
	join(t);
	TEST_EQUAL(close(slave) | close(fd), 0);
	TEST_EQUAL(pipe(fds), 0);
	file = open("/", O_RDONLY);
	TEST_EQUAL(read(file, text, 8), -1);
	TEST_EQUAL(unseen(SYS_close, file, 0, 0, 0), 0);
	snprintf(text, sizeof text, "/proc/self/fd/%d", fds[0]);
	TEST_EQUAL(open(text, O_RDONLY), file);
	t = go(write_later, &fds[1]);
	TEST_EQUAL(read(file, text, 8), 5);
	join(t);
	close(file);
	close_both(fds);
	return unused;
}

static void *count_later(void *fd)
{
	usleep(20 * MS);
	TEST_EQUAL(eventfd_write(*(int *)fd, 3), 0);
	return NULL;
}

static void *in_counted(void *unused)
{
	static int fd;

	fd = eventfd(0, 0);
	for (int i = 0; i < 2; i++) {
		pthread_t t = go(count_later, &fd);
		eventfd_t n = 0;

		TEST_EQUAL(eventfd_read(fd, &n), 0);
		TEST_EQUAL(n, 3);
		join(t);
	}
	close(fd);
	return unused;
}

/* Waits for a child that ends only after another thread has written. */
static void *in_awaited(void *unused)
{
	static int fds[2];
	siginfo_t info;
	pthread_t t;
	pid_t pid;

	pair(fds);
	pid = fork();
	if (pid == 0) {
		alarm(100);
		_exit(read(fds[0], &pid, 1) == 1 ? 7 : 8);
	}
	t = go(write_later, &fds[1]);
	TEST_EQUAL(syscall(SYS_waitid, P_PID, pid, &info, WEXITED, NULL), 0);
	TEST_EQUAL(info.si_status, 7);
	join(t);
	close_both(fds);
	return unused;
}

static void *put_later(void *queue)
{
	usleep(20 * MS);
	TEST_EQUAL(mq_send(*(mqd_t *)queue, "hello", 5, 1), 0);
	return NULL;
}

static void *take_later(void *queue)
{
	char text[8];

	usleep(20 * MS);
	TEST_EQUAL(mq_receive(*(mqd_t *)queue, text, 8, NULL), 5);
	return NULL;
}

static void take_once(int i, mqd_t queue)
{
	struct timespec limit = { .tv_sec = time(NULL) + 100 };
	unsigned priority = 0;
	char text[8];

	if (i == 0)
		TEST_EQUAL(mq_receive(queue, text, 8, &priority), 5);
	else if (i == 1)
		TEST_EQUAL(mq_timedreceive(queue, text, 8, &priority, &limit), 5);
	else
		TEST_EQUAL(syscall(SYS_mq_timedreceive, queue, text, 8, &priority,
				   i == 2 ? NULL : &limit), 5);
	TEST_EQUAL(priority, 1);
}

static void *in_queues(void *unused)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	struct timespec limit = { 0, 0 };
	static mqd_t queue;
	char text[8];
	pthread_t t;

	snprintf(text, sizeof text, "/%d", (int)getpid() % 100000);
	queue = mq_open(text, O_RDWR | O_CREAT, 0600, &attr);
	TEST_TRUE(queue >= 0 && mq_unlink(text) == 0);
	for (int i = 0; i < 4; i++) {
		t = go(put_later, &queue);
		take_once(i, queue);
		join(t);
	}
	TEST_EQUAL(mq_send(queue, "hello", 5, 0), 0);
	TEST_EQUAL(mq_timedsend(queue, "hello", 5, 0, &limit), -1);
	TEST_EQUAL(errno, ETIMEDOUT);
	t = go(take_later, &queue);
	TEST_EQUAL(mq_send(queue, "hello", 5, 0), 0);
	join(t);
	TEST_EQUAL(mq_receive(queue, text, 8, NULL), 5);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_nsec /= 2;
	limit.tv_sec++;
	TEST_EQUAL(mq_timedreceive(queue, text, 8, NULL, &limit), -1);
	TEST_EQUAL(errno, ETIMEDOUT);
	mq_setattr(queue, &(struct mq_attr){ .mq_flags = O_NONBLOCK }, NULL);
	TEST_EQUAL(mq_receive(queue, text, 8, NULL), -1);
	TEST_EQUAL(errno, EAGAIN);
	TEST_EQUAL(mq_close(queue), 0);
	return unused;
}

/*
 * After a thread has waited for a descriptor, a read of the same descriptor by libc's own
 * thread does not fail with EAGAIN. Afterwards threads can wait for the descriptor again.
 */
static void *in_aio(void *unused)
{
	static int fds[2];
	char text[8];
	struct aiocb a = { .aio_buf = text, .aio_nbytes = 8, .aio_lio_opcode = LIO_READ };
	const struct aiocb *waited[] = { &a };
	struct aiocb *all[] = { &a };

	pair(fds);
	a.aio_fildes = fds[0];
	for (int i = 0; i < 3; i++) {
		pthread_t t = go(write_later, &fds[1]);

		TEST_EQUAL(read(fds[0], text, 8), 5);
		join(t);
		t = go(write_later, &fds[1]);
		if (i == 0)
			TEST_EQUAL(aio_read(&a), 0);
		else
			TEST_EQUAL(lio_listio(i == 1 ? LIO_WAIT : LIO_NOWAIT, all, 1,
					      NULL), 0);
		TEST_EQUAL(aio_suspend(waited, 1, NULL), 0);
		TEST_EQUAL(aio_error(&a), 0);
		TEST_EQUAL(aio_return(&a), 5);
		join(t);
	}
	TEST_EQUAL(aio_read(&a), 0);
	TEST_EQUAL(aio_suspend(waited, 1, &(struct timespec){ 0, 1000000 }), -1);
	TEST_EQUAL(errno, EAGAIN);
	write_later(&fds[1]);
	TEST_EQUAL(aio_suspend(waited, 1, NULL), 0);
	TEST_EQUAL(aio_return(&a), 5);
	close_both(fds);
	return unused;
}

/* ---- All streams ---- */

static int drained[2];
static atomic_bool flushed;

static void *open_files(void *unused)
{
	while (!flushed) {
		FILE *f = fopen("/dev/null", "r");

		TEST_TRUE(f);
		fclose(f);
		usleep(MS / 10);
	}
	return unused;
}

static void *drain(void *unused)
{
	char text[4096];

	for (ssize_t n = 1; n > 0; usleep(MS / 100))
		n = read(drained[0], text, sizeof text);
	return unused;
}

static void *flush(void *how)
{
	enum { SIZE = 400000 };
	char *text = calloc(1, 2 * SIZE);
	FILE *f = fdopen(drained[1], "w");

	setvbuf(f, text + SIZE, _IOFBF, SIZE);
	TEST_EQUAL(fwrite(text, 1, SIZE - 1, f), SIZE - 1);
	TEST_EQUAL(how ? fcloseall() : fflush(NULL), 0);
	flushed = true;
	fclose(f);
	free(text);
	return NULL;
}

/*
 * A thread or main() flushes all streams. This ends only if another thread reads. If libc
 * locked the list of streams meanwhile, a thread that opens files would block the
 * processor, and the reader would not run.
 */
static void flushes(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		pthread_t t[2];

		test_timeout(20);
		flushed = false;
		TEST_EQUAL(pipe(drained), 0);
		for (int k = 0; k < 2; k++)
			t[k] = go(k ? drain : open_files, NULL);
		if (i % 2)
			flush(i / 2 ? drained : NULL);
		else
			join(go(flush, i / 2 ? drained : NULL));
		join(t[0]);
		join(t[1]);
		close(drained[0]);
	}
}

static ssize_t count_bytes(void *count, const char *data, size_t n)
{
	(void)data;
	*(size_t *)count += n;
	return (ssize_t)n;
}

/* fflush(NULL) also flushes a stream that calls functions of the program. */
static void flushes_own(void **state)
{
	const cookie_io_functions_t functions = { NULL, count_bytes, NULL, NULL };
	size_t count = 0;
	FILE *f = fopencookie(&count, "w", functions);

	(void)state;
	TEST_TRUE(f && fputs("some", f) >= 0);
	TEST_EQUAL(fflush(NULL), 0);
	TEST_EQUAL(count, 4);
	TEST_EQUAL(fclose(f), 0);
}

/* ---- Full writes ---- */

enum { MUCH = 1 << 20 };

static char *much;

static void *read_slowly(void *fd)
{
	char *got = malloc(MUCH);
	size_t n = 0;

	while (n < MUCH) {
		ssize_t more = read(*(int *)fd, got + n,
				    MUCH - n < 50000 ? MUCH - n : 50000);

		TEST_TRUE(more > 0);
		n += (size_t)more;
		sched_yield();
	}
	TEST_TRUE(memcmp(got, much, MUCH) == 0);
	free(got);
	return NULL;
}

static void *in_whole(void *unused)
{
	struct iovec iov[3] = { { much, 10 }, { much + 10, MUCH / 2 },
				{ much + 10 + MUCH / 2, MUCH / 2 - 10 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 3 };
	static int fds[2];
	int out;

	for (int kind = 0; kind < 6; kind++) {
		pthread_t reader;

		if (kind < 5)
			pair(fds);
		else
			TEST_EQUAL(pipe(fds), 0);
		reader = go(read_slowly, &fds[0]);
		out = fds[1];
		TEST_EQUAL(kind == 0 || kind == 5 ? write(out, much, MUCH)
			   : kind == 1 ? writev(out, iov, 3)
			   : kind == 2 ? send(out, much, MUCH, MSG_NOSIGNAL)
			   : kind == 3 ? sendmsg(out, &m, 0)
			   : sendto(out, much, MUCH, MSG_MORE, NULL, 0), MUCH);
		join(reader);
		close_both(fds);
	}
	return unused;
}

/* Waits for five bytes, so that unet adopts the descriptor. */
static void *read_once(void *fd)
{
	char text[5];

	TEST_EQUAL(read(*(int *)fd, text, 5), 5);
	return NULL;
}

/* Makes threads wait for `fd' until unet has adopted it. Mostly one wait is enough. */
static void adopt(int fd, int peer)
{
	pthread_t reader;
	int tries = 0;

	do {
		reader = go(read_once, &fd);
		usleep(5 * MS);
		TEST_EQUAL(write(peer, "hello", 5), 5);
		join(reader);
	} while (!is_adopted(fd) && ++tries < 1000);
	TEST_TRUE(is_adopted(fd));
}

/* Makes unet adopt both ends. */
static void adopt_both(int fds[2])
{
	adopt(fds[0], fds[1]);
	adopt(fds[1], fds[0]);
}

/* main(), which is a native thread, uses a socket for which unet has set O_NONBLOCK. */
static void native(void **state)
{
	struct timeval limit = { 0, 10 * MS };
	pthread_t reader;
	char text[8];
	int fds[2];

	(void)state;
	test_timeout(10);
	pair(fds);
	adopt_both(fds);
	reader = go(read_slowly, &fds[0]);
	TEST_EQUAL(write(fds[1], much, MUCH), MUCH);
	join(reader);
	reader = go(write_later, &fds[1]);
	TEST_EQUAL(recv(fds[0], text, 8, 0), 5);
	join(reader);
	TEST_EQUAL(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
	TEST_EQUAL(recv(fds[0], text, 8, 0), -1);
	TEST_EQUAL(errno, EAGAIN);
	close_both(fds);
}

static void *send_parts(void *fd)
{
	for (int i = 0; i < 3; i++) {
		usleep(2 * MS);
		TEST_EQUAL(write(*(int *)fd, "abc", 3), 3);
	}
	return NULL;
}

/* Calls of main() write all bytes to such a socket, too. */
static void native_whole(void **state)
{
	struct iovec iov[2] = { { much, 10 }, { much + 10, MUCH - 10 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	int fds[2], file = memfd_create("file", 0);
	pthread_t reader;
	off_t at = 0;

	(void)state;
	test_timeout(5);
	TEST_EQUAL(write(file, much, MUCH), MUCH);
	pair(fds);
	adopt_both(fds);
	for (int kind = 0; kind < 5; kind++) {
		reader = go(read_slowly, &fds[0]);
		TEST_EQUAL(kind == 0 ? writev(fds[1], iov, 2)
			   : kind == 1 ? send(fds[1], much, MUCH, MSG_NOSIGNAL)
			   : kind == 2 ? sendmsg(fds[1], &m, 0)
			   : kind == 3 ? sendto(fds[1], much, MUCH, 0, NULL, 0)
			   : sendfile(fds[1], file, &at, MUCH), MUCH);
		join(reader);
	}
	TEST_EQUAL(at, MUCH);
	close(file);
	close_both(fds);
}

static void native_parts(void **state)
{
	char text[9];
	struct iovec iov[2] = { { text, 2 }, { text + 2, 7 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	struct mmsghdr one = { .msg_hdr = m };
	pthread_t sender;
	int fds[2];

	(void)state;
	test_timeout(10);
	pair(fds);
	adopt_both(fds);
	for (int kind = 0; kind < 4; kind++) {
		memset(text, 0, 9);
		sender = go(send_parts, &fds[1]);
		if (kind == 3)
			TEST_EQUAL(recvmmsg(fds[0], &one, 1, MSG_WAITALL, NULL), 1);
		else
			TEST_EQUAL(kind == 0 ? recv(fds[0], text, 9, MSG_WAITALL)
				   : kind == 1 ? recvmsg(fds[0], &m, MSG_WAITALL)
				   : recvfrom(fds[0], text, 9, MSG_WAITALL, NULL,
					      NULL), 9);
		TEST_TRUE(memcmp(text, "abcabcabc", 9) == 0);
		join(sender);
	}
	TEST_EQUAL(one.msg_len, 9);
	close_both(fds);
}

/* ---- Several threads that wait for one descriptor ---- */

static atomic_int polled;

static void *poll_one(void *fd)
{
	struct pollfd p = { *(int *)fd, POLLIN, 0 };

	TEST_EQUAL(poll(&p, 1, -1), 1);
	polled++;
	return NULL;
}

static void *in_several(void *unused)
{
	pthread_t t[20];
	static int fds[2];

	TEST_EQUAL(pipe(fds), 0);
	polled = 0;
	for (size_t i = 0; i < COUNT(t); i++)
		t[i] = go(i % 2 ? poll_one : read_once, &fds[0]);
	usleep(5 * MS);
	for (size_t i = 0; i < COUNT(t) / 2; i++) {
		TEST_EQUAL(write(fds[1], "hello", 5), 5);
		usleep(MS);
	}
	TEST_EQUAL(write(fds[1], "!", 1), 1);   /* ends polls that began late */
	for (size_t i = 0; i < COUNT(t); i++)
		join(t[i]);
	close_both(fds);
	return unused;
}

/* ---- Time-outs, signals, cancels ---- */

static void *in_timeouts(void *unused)
{
	struct timeval limit = { 0, 30 * MS };
	int fds[2], copy;
	char text[8];
	long begun;

	pair(fds);
	copy = dup(fds[0]);
	TEST_EQUAL(setsockopt(copy, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
	begun = ms_now();
	TEST_EQUAL(read(fds[0], text, 8), -1);
	TEST_EQUAL(errno, EAGAIN);
	TEST_TRUE(ms_now() - begun >= 29);
	TEST_EQUAL(setsockopt(fds[1], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
	TEST_TRUE(write(fds[1], much, MUCH) < MUCH);
	TEST_EQUAL(write(fds[1], much, MUCH), -1);
	TEST_EQUAL(errno, EAGAIN);
	close(copy);
	close_both(fds);
	return unused;
}

/* A read waits for SO_RCVLOWAT bytes, unless the time-out comes before. */
static void *in_least(void *unused)
{
	struct timeval limit = { 0, 30 * MS };
	char text[8];
	static int fds[2];
	struct iovec iov = { text, 8 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int copy, least = 9;

	pair(fds);
	copy = dup(fds[0]);
	TEST_EQUAL(setsockopt(copy, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least), 0);
	for (int i = 0; i < 4; i++) {
		pthread_t t = go(send_parts, &fds[1]);

		TEST_EQUAL(i == 0 ? read(fds[0], text, 8)
			   : i == 1 ? readv(fds[0], &iov, 1)
			   : i == 2 ? recv(fds[0], text, 8, 0)
			   : recvmsg(fds[0], &m, 0), 8);
		TEST_TRUE(memcmp(text, "abcabcab", 8) == 0);
		join(t);
		TEST_EQUAL(recv(fds[0], text, 8, MSG_DONTWAIT), 1);
	}
	TEST_EQUAL(setsockopt(copy, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
	TEST_EQUAL(write(fds[1], "abc", 3), 3);
	TEST_EQUAL(read(fds[0], text, 8), 3);
	TEST_EQUAL(read(fds[0], text, 8), -1);
	TEST_EQUAL(errno, EAGAIN);
	close(copy);
	close_both(fds);
	return unused;
}

#define FAILS(call, error) do {			\
	errno = 0;				\
	TEST_EQUAL(call, -1);			\
	TEST_EQUAL(errno, error);		\
} while (0)

/* Invalid calls fail with the error numbers of the system, and do not wait. */
static void *in_errors(void *unused)
{
	struct iovec none = { much, 0 }, some = { much, 8 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &some, .msg_iovlen = 1 } };
	struct pollfd one = { .events = POLLIN | POLLOUT };
	int fds[2], fd = socket(AF_INET, SOCK_STREAM, 0), n = eventfd(0, 0);
	volatile nfds_t most = UINT32_MAX;

	TEST_EQUAL(pipe(fds), 0);
	one.fd = fds[0];
	FAILS(writev(fds[0], &none, 1), EBADF);
	FAILS(writev(fds[0], &some, 1), EBADF);
	FAILS(sendmsg(fds[1], &m.msg_hdr, 0), ENOTSOCK);
	TEST_EQUAL(poll(&one, 1, 1), 0);
	FAILS(write(fds[0], "12345678", 8), EBADF);
	FAILS(recvmmsg(-1, &m, 0, 0, NULL), EBADF);
	FAILS(recvmmsg(fd, &m, 1, 0, &(struct timespec){ 0, 1000000000 }), EINVAL);
	FAILS(sendmmsg(fds[0], &m, 0, 0), ENOTSOCK);
	FAILS(recv(fd, much, 0, 0), ENOTCONN);
	TEST_EQUAL(writev(fd, &none, 1), 0);
	FAILS(write(n, much, 0), EINVAL);
	FAILS(poll(&one, most, 1), EINVAL);
	TEST_EQUAL(select(INT32_MAX, NULL, NULL, NULL, &(struct timeval){ 0, 1 }), 0);
	FAILS(semop(-1, (struct sembuf *)(void *)much, 100000), E2BIG);
	close(fd);
	close(n);
	close_both(fds);
	return unused;
}

static atomic_int handled;

static void handle(int sig)
{
	(void)sig;
	handled++;
}

static void *interrupted_read(void *fd)
{
	char text[8];

	errno = 0;
	return (void *)(intptr_t)(read(*(int *)fd, text, 8) < 0 ? -errno : 0);
}

/* Sends signals until the thread ends, since a signal may come before the read. */
static void *kill_until_ended(pthread_t t)
{
	void *result;

	while (pthread_tryjoin_np(t, &result)) {
		pthread_kill(t, SIGUSR1);
		usleep(10 * MS);
	}
	return result;
}

static void signals(void **state)
{
	struct sigaction action = { .sa_handler = handle };
	pthread_t reader;
	int fds[2];

	(void)state;
	test_timeout(10);
	pair(fds);
	for (int i = 0; i < 2; i++) {
		action.sa_flags = i ? SA_RESTART : 0;
		sigaction(SIGUSR1, &action, NULL);
		handled = 0;
		reader = go(interrupted_read, &fds[0]);
		usleep(10 * MS);
		TEST_EQUAL(pthread_kill(reader, SIGUSR1), 0);
		while (!handled)
			usleep(MS);
		usleep(10 * MS);
		if (i) {
			TEST_EQUAL(handled, 1);
			TEST_EQUAL(write(fds[1], "hello", 5), 5);
			TEST_EQUAL(join(reader), NULL);
		} else {
			TEST_EQUAL((int)(intptr_t)kill_until_ended(reader), -EINTR);
		}
	}
	close_both(fds);
}

static const struct timespec second = { 1, 0 };

static int wait_nanosleep(int fd)
{
	(void)fd;
	return nanosleep(&second, NULL);
}

static int wait_poll(int fd)
{
	return poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, 1000);
}

static int wait_select(int fd)
{
	struct timeval limit = { 1, 0 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &limit);
}

static int wait_epoll(int fd)
{
	struct epoll_event e = { .events = EPOLLIN };
	int epoll = epoll_create1(0), rc, error;

	TEST_EQUAL(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e), 0);
	rc = epoll_wait(epoll, &e, 1, 1000);
	error = errno;
	close(epoll);
	errno = error;
	return rc;
}

static int wait_recv(int fd)
{
	struct timeval limit = { 1, 0 };
	char c;

	TEST_EQUAL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
	return (int)recv(fd, &c, 1, 0);
}

static int wait_semaphore(int fd)
{
	struct timespec limit;
	sem_t s;

	(void)fd;
	sem_init(&s, 0, 0);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec++;
	return sem_timedwait(&s, &limit);
}

static int wait_signal(int fd)
{
	sigset_t set;

	(void)fd;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &second);
}

static int wait_futex(int fd)
{
	uint32_t word = 0;

	(void)fd;
	return (int)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &second, NULL, 0);
}

static int (*const waits[])(int fd) = {
	wait_nanosleep, wait_poll, wait_select, wait_epoll, wait_recv, wait_semaphore,
	wait_signal, wait_futex,
};

static void *wait_by(void *which)
{
	int fds[2], rc;

	pair(fds);
	rc = waits[(size_t)(uintptr_t)which](fds[0]) < 0 ? errno : 0;
	close_both(fds);
	return (void *)(intptr_t)rc;
}

/* On Linux a handler ends these calls in spite of SA_RESTART. */
static void never_restart(void **state)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
	void *result;
	pthread_t t;

	(void)state;
	test_timeout(10);
	sigaction(SIGUSR1, &action, NULL);
	for (size_t i = 0; i < COUNT(waits); i++) {
		t = go(wait_by, (void *)(uintptr_t)i);
		usleep(5 * MS);
		while (pthread_kill(t, SIGUSR1), pthread_tryjoin_np(t, &result))
			usleep(5 * MS);
		TEST_EQUAL((int)(intptr_t)result, EINTR);
	}
}

/* A pending signal ends a wait during which the signal is not blocked. */
static void *in_pending(void *unused)
{
	struct sigaction action = { .sa_handler = handle };
	struct epoll_event e;
	sigset_t set, before;
	int epoll = epoll_create1(0);

	sigaction(SIGUSR1, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	TEST_EQUAL(pthread_sigmask(SIG_BLOCK, &set, &before), 0);
	handled = 0;
	for (int i = 0; i < 3; i++) {
		raise(SIGUSR1);
		TEST_EQUAL(handled, i);
		errno = 0;
		TEST_EQUAL(i == 0 ? pselect(0, NULL, NULL, NULL, &second, &before)
			   : i == 1 ? ppoll(NULL, 0, &second, &before)
			   : epoll_pwait(epoll, &e, 1, 1000, &before), -1);
		TEST_EQUAL(errno, EINTR);
		TEST_EQUAL(handled, i + 1);
	}
	TEST_EQUAL(pthread_sigmask(SIG_SETMASK, &before, &set), 0);
	TEST_TRUE(sigismember(&set, SIGUSR1));
	close(epoll);
	return unused;
}

CASE(pending)

static void cancels(void **state)
{
	pthread_t reader;
	int fds[2];

	(void)state;
	test_timeout(10);
	pair(fds);
	reader = go(interrupted_read, &fds[0]);
	usleep(10 * MS);
	TEST_EQUAL(pthread_cancel(reader), 0);
	TEST_TRUE(join(reader) == PTHREAD_CANCELED);
	TEST_EQUAL(write(fds[1], "hello", 5), 5);       /* for the next read */
	TEST_EQUAL(interrupted_read(&fds[0]), 0);
	close_both(fds);
}

/*
 * After a write to a pipe or socket whose other end is closed, the handler of SIGPIPE
 * runs, unless the call has MSG_NOSIGNAL.
 */
static void *in_broken(void *unused)
{
	struct sigaction action = { .sa_handler = handle }, before;
	int fds[2];

	sigaction(SIGPIPE, &action, &before);
	handled = 0;
	for (int i = 0; i < 2; i++) {
		if (i)
			TEST_EQUAL(pipe(fds), 0);
		else
			pair(fds);
		close(fds[0]);
		TEST_EQUAL(write(fds[1], "x", 1), -1);
		TEST_EQUAL(errno, EPIPE);
		TEST_EQUAL(handled, i + 1);
		if (!i)
			TEST_EQUAL(send(fds[1], "x", 1, MSG_NOSIGNAL), -1);
		TEST_EQUAL(handled, i + 1);
		close(fds[1]);
	}
	sigaction(SIGPIPE, &before, NULL);
	return unused;
}

/* ---- poll, select, epoll ---- */

static void *in_polls(void *unused)
{
	struct timeval limit = { 0, 20 * MS };
	struct epoll_event e = { .events = EPOLLIN, .data.fd = 7 };
	static int fds[2];
	struct pollfd p;
	fd_set in, out;
	int n = FD_SETSIZE / 2, ep;

	pair(fds);
	p = (struct pollfd){ fds[0], POLLIN, -1 };
	TEST_EQUAL(poll(&p, 1, 10), 0);
	TEST_EQUAL(p.revents, 0);
	TEST_EQUAL(poll(NULL, 0, 10), 0);
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(fds[0], &in);
	FD_SET(fds[1], &in);
	TEST_EQUAL(select(n, &in, NULL, NULL, &limit), 0);
	TEST_TRUE(!FD_ISSET(fds[0], &in) && limit.tv_sec == 0 && limit.tv_usec == 0);
	go(write_later, &fds[1]);
	FD_SET(fds[0], &in);
	FD_SET(fds[1], &in);
	TEST_EQUAL(select(n, &in, NULL, NULL, NULL), 1);
	TEST_TRUE(FD_ISSET(fds[0], &in) && !FD_ISSET(fds[1], &in));
	FD_SET(fds[1], &out);
	TEST_EQUAL(pselect(n, &in, &out, NULL, NULL, NULL), 2);
	TEST_EQUAL(read(fds[0], &(char[8]){ 0 }, 8), 5);
	ep = epoll_create1(0);
	TEST_EQUAL(epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &e), 0);
	TEST_EQUAL(epoll_wait(ep, &e, 1, 10), 0);
	go(write_later, &fds[1]);
	TEST_EQUAL(epoll_wait(ep, &e, 1, -1), 1);
	TEST_TRUE(e.events == EPOLLIN && e.data.fd == 7);
	close(ep);
	close_both(fds);
	TEST_EQUAL(poll(&p, 1, -1), 1);
	TEST_EQUAL(p.revents, POLLNVAL);
	FD_SET(fds[0], &in);
	TEST_EQUAL(select(n, &in, NULL, NULL, NULL), -1);
	TEST_EQUAL(errno, EBADF);
	return unused;
}

/* POLLHUP of a descriptor that is only in the third set does not end select(). */
static void *in_excepts(void *unused)
{
	struct timeval limit = { 0, 30 * MS };
	long begun = ms_now();
	int fds[2], other[2];
	fd_set in, except;

	pair(fds);
	pair(other);
	close(fds[1]);
	FD_ZERO(&except);
	FD_SET(fds[0], &except);
	TEST_EQUAL(select(fds[0] + 1, NULL, NULL, &except, &limit), 0);
	TEST_TRUE(ms_now() - begun >= 29 && !FD_ISSET(fds[0], &except));
	FD_SET(fds[0], &except);
	FD_ZERO(&in);
	FD_SET(other[0], &in);
	go(write_later, &other[1]);
	TEST_EQUAL(select(other[0] + 1, &in, NULL, &except, NULL), 1);
	TEST_TRUE(FD_ISSET(other[0], &in) && !FD_ISSET(fds[0], &except));
	close(fds[0]);
	close_both(other);
	return unused;
}

/* ---- Loops that look again and again, by calls that do not wait ---- */

enum { TICKS = 3, GIVES_UP = 20 };      /* GIVES_UP: seconds; busy machines need less */

/*
 * By calls that never wait, a loop may look for something that another thread of the
 * processor is to do. Such calls must let the other thread run. Here the other thread is
 * the neighbour. It adds 1 to l_ticks again and again, and holds l_held and l_written.
 */
static struct look {
	atomic_uint         l_ticks;
	atomic_bool         l_stop;
	pthread_t           l_neighbour;
	int                 l_fds[2], l_listener, l_epoll, l_ready, l_null, l_file;
	FILE               *l_stream;
	pthread_mutex_t     l_mutex, l_held;
	pthread_rwlock_t    l_rwlock, l_written;
	pthread_spinlock_t  l_spin, l_spun;
	pthread_cond_t      l_cond;
	sem_t               l_sem, l_none;
} look;

static void new_pipe(void)
{
	struct pollfd p = { .events = POLLOUT };
	int fds[2];

	TEST_EQUAL(pipe(fds), 0);
	p.fd = fds[1];
	TEST_EQUAL(poll(&p, 1, -1), 1);
	close_both(fds);
}

static void new_pair(void)
{
	int fds[2];
	char c;

	pair(fds);
	TEST_EQUAL(write(fds[1], "x", 1), 1);
	TEST_EQUAL(read(fds[0], &c, 1), 1);
	close_both(fds);
}

static void new_file(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	char c;

	TEST_EQUAL(read(fd, &c, 1), 1);
	TEST_EQUAL(close(fd), 0);
}

static void new_stream(void)
{
	FILE *file = fopen("/proc/self/exe", "r");

	TEST_TRUE(file);
	TEST_EQUAL(fclose(file), 0);
}

static void new_number(void)
{
	TEST_EQUAL(close(dup(look.l_file)), 0);
}

static void new_directory(void)
{
	TEST_EQUAL(closedir(opendir("/")), 0);
}

static void no_file(void)
{
	TEST_EQUAL(open("/proc/none", O_RDONLY), -1);
}

static void copy_number(void)
{
	TEST_EQUAL(dup2(look.l_null, look.l_ready), look.l_ready);
}

static void read_file(void)
{
	char c;

	TEST_EQUAL(lseek(look.l_file, 0, SEEK_SET), 0);
	TEST_EQUAL(read(look.l_file, &c, 1), 1);
}

static void write_null(void)
{
	TEST_EQUAL(write(look.l_null, "x", 1), 1);
}

static void print_null(void)
{
	TEST_EQUAL(fputc('x', look.l_stream), 'x');
}

static void flush_null(void)
{
	TEST_EQUAL(fflush(look.l_stream), 0);
}

static void poll_none(void)
{
	struct pollfd p = { look.l_fds[0], POLLIN, 0 };

	TEST_EQUAL(poll(&p, 1, 0), 0);
	TEST_EQUAL(ppoll(&p, 1, &(struct timespec){ 0, 0 }, NULL), 0);
}

static void poll_null(void)
{
	struct pollfd p = { look.l_null, POLLOUT, 0 };

	TEST_EQUAL(poll(&p, 1, -1), 1);
}

static void select_none(void)
{
	struct timeval none = { 0, 0 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(look.l_fds[0], &set);
	TEST_EQUAL(select(look.l_fds[0] + 1, &set, NULL, NULL, &none), 0);
}

static void pselect_none(void)
{
	TEST_EQUAL(pselect(0, NULL, NULL, NULL, &(struct timespec){ 0, 0 }, NULL), 0);
}

static void epoll_none(void)
{
	struct epoll_event e;

	TEST_EQUAL(epoll_ctl(look.l_epoll, EPOLL_CTL_MOD, look.l_fds[1],
			     &(struct epoll_event){ .events = EPOLLIN }), 0);
	TEST_EQUAL(epoll_wait(look.l_epoll, &e, 1, 0), 0);
	TEST_EQUAL(epoll_pwait(look.l_epoll, &e, 1, 0, NULL), 0);
}

static void epoll_ready(void)
{
	struct epoll_event e;

	TEST_EQUAL(epoll_ctl(look.l_epoll, EPOLL_CTL_MOD, look.l_fds[1],
			     &(struct epoll_event){ .events = EPOLLOUT }), 0);
	TEST_EQUAL(epoll_wait(look.l_epoll, &e, 1, -1), 1);
}

static void receive_none(void)
{
	struct msghdr m = { .msg_iov = NULL };
	char c;

	TEST_EQUAL(recv(look.l_fds[0], &c, 1, MSG_DONTWAIT), -1);
	TEST_EQUAL(recvfrom(look.l_fds[0], &c, 1, MSG_DONTWAIT, NULL, NULL), -1);
	TEST_EQUAL(recvmsg(look.l_fds[0], &m, MSG_DONTWAIT), -1);
	TEST_EQUAL(errno, EAGAIN);
}

static void read_none(void)
{
	char c;

	TEST_EQUAL(read(look.l_fds[0], &c, 1), -1);
	TEST_EQUAL(errno, EAGAIN);
}

static void splice_none(void)
{
	TEST_EQUAL(splice(look.l_fds[0], NULL, look.l_null, NULL, 1, SPLICE_F_NONBLOCK),
		   -1);
}

static void accept_none(void)
{
	TEST_EQUAL(accept(look.l_listener, NULL, NULL), -1);
	TEST_EQUAL(errno, EAGAIN);
}

static void count_none(void)
{
	int n;

	TEST_EQUAL(ioctl(look.l_fds[0], FIONREAD, &n), 0);
}

static void read_flags(void)
{
	TEST_TRUE(fcntl(look.l_fds[0], F_GETFL) >= 0);
}

static void set_option(void)
{
	int size = 1 << 16;

	TEST_EQUAL(setsockopt(look.l_fds[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof size),
		   0);
}

static void lock_file(void)
{
	TEST_EQUAL(flock(look.l_file, LOCK_SH | LOCK_NB), 0);
}

static void no_child(void)
{
	TEST_EQUAL(waitpid(-1, NULL, WNOHANG), -1);
	TEST_EQUAL(errno, ECHILD);
}

static void wake_futex(void)
{
	static int word;

	TEST_EQUAL(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), 0);
}

static void lock_mutex(void)
{
	TEST_EQUAL(pthread_mutex_lock(&look.l_mutex), 0);
	TEST_EQUAL(pthread_mutex_unlock(&look.l_mutex), 0);
}

static void try_mutex(void)
{
	TEST_EQUAL(pthread_mutex_trylock(&look.l_held), EBUSY);
}

static void lock_rwlock(void)
{
	TEST_EQUAL(pthread_rwlock_rdlock(&look.l_rwlock), 0);
	TEST_EQUAL(pthread_rwlock_unlock(&look.l_rwlock), 0);
}

static void try_rwlock(void)
{
	TEST_EQUAL(pthread_rwlock_tryrdlock(&look.l_written), EBUSY);
	TEST_EQUAL(pthread_rwlock_trywrlock(&look.l_written), EBUSY);
}

static void lock_spin(void)
{
	TEST_EQUAL(pthread_spin_lock(&look.l_spin), 0);
	TEST_EQUAL(pthread_spin_unlock(&look.l_spin), 0);
}

static void try_spin(void)
{
	TEST_EQUAL(pthread_spin_trylock(&look.l_spun), EBUSY);
}

static void lock_stream(void)
{
	TEST_EQUAL(ftrylockfile(look.l_stream), 0);
	funlockfile(look.l_stream);
}

static void post_sem(void)
{
	TEST_EQUAL(sem_post(&look.l_sem), 0);
	TEST_EQUAL(sem_wait(&look.l_sem), 0);
}

static void post_only(void)
{
	TEST_EQUAL(sem_post(&look.l_sem), 0);
}

static void try_sem(void)
{
	TEST_EQUAL(sem_trywait(&look.l_none), -1);
	TEST_EQUAL(errno, EAGAIN);
}

static void value_of_sem(void)
{
	int value;

	TEST_EQUAL(sem_getvalue(&look.l_none, &value), 0);
}

static void signal_cond(void)
{
	TEST_EQUAL(pthread_cond_signal(&look.l_cond), 0);
}

static void broadcast_cond(void)
{
	TEST_EQUAL(pthread_cond_broadcast(&look.l_cond), 0);
}

static void *end_at_once(void *unused)
{
	return unused;
}

static void start_and_join(void)
{
	join(go(end_at_once, NULL));
}

static void try_join(void)
{
	TEST_EQUAL(pthread_tryjoin_np(look.l_neighbour, NULL), EBUSY);
}

static void ask_thread(void)
{
	TEST_EQUAL(pthread_kill(look.l_neighbour, 0), 0);
}

static void ask_signals(void)
{
	sigset_t set;

	TEST_EQUAL(sigpending(&set), 0);
}

/* With -include uposix.h these functions are libc's, and let no other thread run. */
#ifndef USCHED_UPOSIX_H
static void look_for_file(void)
{
	struct stat st;

	TEST_EQUAL(stat("/proc/none", &st), -1);
	TEST_EQUAL(errno, ENOENT);
}

static void look_at_link(void)
{
	struct stat st;

	TEST_EQUAL(lstat("/proc/self", &st), 0);
	TEST_TRUE(S_ISLNK(st.st_mode));
}

static void look_at_file(void)
{
	struct stat st;

	TEST_EQUAL(fstat(look.l_file, &st), 0);
	TEST_TRUE(st.st_size > 0);
}

static void look_in_directory(void)
{
	struct stat st;

	TEST_EQUAL(fstatat(AT_FDCWD, "/proc/none", &st, AT_SYMLINK_NOFOLLOW), -1);
	TEST_EQUAL(errno, ENOENT);
}

static void look_for_access(void)
{
	TEST_EQUAL(access("/proc/none", R_OK), -1);
	TEST_EQUAL(errno, ENOENT);
}

static void look_for_access_at(void)
{
	TEST_EQUAL(faccessat(AT_FDCWD, "/proc/self", R_OK, 0), 0);
}

static void look_for_stream(void)
{
	TEST_TRUE(!fopen("/proc/none", "r") && errno == ENOENT);
}

static void look_at_bytes(void)
{
	char magic[4];

	TEST_EQUAL(pread(look.l_file, magic, sizeof magic, 0), sizeof magic);
	TEST_EQUAL(memcmp(magic, "\177ELF", sizeof magic), 0);
}

static void change_bytes(void)
{
	TEST_EQUAL(pwrite(look.l_null, "x", 1, 0), 1);
}

static void look_at_size(void)
{
	TEST_TRUE(lseek(look.l_file, 0, SEEK_END) > 0);
	TEST_EQUAL(lseek(look.l_file, 0, SEEK_SET), 0);
}

static void look_at_error(void)
{
	socklen_t size = sizeof(int);
	int error = -1;

	TEST_EQUAL(getsockopt(look.l_fds[0], SOL_SOCKET, SO_ERROR, &error, &size), 0);
	TEST_EQUAL(error, 0);
}

static void look_at_address(void)
{
	struct sockaddr_in a;
	socklen_t size = sizeof a;

	TEST_EQUAL(getsockname(look.l_listener, (struct sockaddr *)&a, &size), 0);
	TEST_EQUAL(a.sin_family, AF_INET);
}

static void look_at_aio(void)
{
	static struct aiocb none;

	TEST_EQUAL(aio_error(&none), 0);
}

static void look_for_process(void)
{
	TEST_EQUAL(kill(getpid(), 0), 0);
}

#endif

static void read_number(void)
{
	struct addrinfo *found;

	TEST_EQUAL(getaddrinfo("127.0.0.1", "80", NULL, &found), 0);
	freeaddrinfo(found);
}

static void print_number(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	char host[NI_MAXHOST];

	TEST_EQUAL(getnameinfo((struct sockaddr *)&a, sizeof a, host, sizeof host, NULL,
			       0, NI_NUMERICHOST), 0);
}

static void reopen_null(void)
{
	TEST_TRUE(freopen("/dev/null", "w", look.l_stream));
}

/* errno of the caller is the same after other threads have run. */
static void keep_errno(void)
{
	errno = EXDEV;
	TEST_EQUAL(pthread_mutex_trylock(&look.l_held), EBUSY);
	TEST_EQUAL(errno, EXDEV);
}

static const struct {
	void      (*call)(void);
	const char *name;
} kinds_of_looks[] = {
#define LOOK(call) { call, #call }
	LOOK(new_pipe), LOOK(new_pair), LOOK(new_file), LOOK(new_stream),
	LOOK(new_number), LOOK(new_directory), LOOK(no_file), LOOK(copy_number),
	LOOK(read_file), LOOK(write_null), LOOK(print_null), LOOK(flush_null),
	LOOK(poll_none), LOOK(poll_null), LOOK(select_none), LOOK(pselect_none),
	LOOK(epoll_none), LOOK(epoll_ready), LOOK(receive_none), LOOK(read_none),
	LOOK(splice_none), LOOK(accept_none), LOOK(count_none), LOOK(read_flags),
	LOOK(set_option), LOOK(lock_file), LOOK(no_child), LOOK(wake_futex),
	LOOK(lock_mutex), LOOK(try_mutex), LOOK(lock_rwlock), LOOK(try_rwlock),
	LOOK(lock_spin), LOOK(try_spin), LOOK(lock_stream), LOOK(post_sem),
	LOOK(post_only), LOOK(try_sem), LOOK(value_of_sem), LOOK(signal_cond),
	LOOK(broadcast_cond), LOOK(start_and_join), LOOK(try_join), LOOK(ask_thread),
	LOOK(ask_signals), LOOK(pthread_testcancel), LOOK(keep_errno),
#ifndef USCHED_UPOSIX_H
	LOOK(look_for_file), LOOK(look_at_link), LOOK(look_at_file),
	LOOK(look_in_directory), LOOK(look_for_access), LOOK(look_for_access_at),
	LOOK(look_for_stream), LOOK(look_at_bytes), LOOK(change_bytes),
	LOOK(look_at_size), LOOK(look_at_error), LOOK(look_at_address),
	LOOK(look_at_aio), LOOK(look_for_process),
#endif
	LOOK(ask_signals), LOOK(pthread_testcancel), LOOK(read_number),
	LOOK(print_number), LOOK(reopen_null), LOOK(keep_errno),
};

static void *tick(void *unused)
{
	TEST_EQUAL(pthread_mutex_lock(&look.l_held), 0);
	TEST_EQUAL(pthread_rwlock_wrlock(&look.l_written), 0);
	while (!look.l_stop) {
		usleep(MS);
		look.l_ticks++;
	}
	TEST_EQUAL(pthread_rwlock_unlock(&look.l_written), 0);
	TEST_EQUAL(pthread_mutex_unlock(&look.l_held), 0);
	return unused;
}

/*
 * Makes call i of kinds_of_looks[], or all calls in turn if i is -1, until the neighbour
 * has run TICKS times.
 */
static void loop_until_ticks(ptrdiff_t i)
{
	unsigned until = look.l_ticks + TICKS;
	time_t end = time(NULL) + GIVES_UP;

	for (size_t n = 0; look.l_ticks < until; n++) {
		kinds_of_looks[i < 0 ? n % COUNT(kinds_of_looks) : (size_t)i].call();
		if (time(NULL) <= end)
			continue;
		fprintf(stderr, "%s: the neighbour does not run\n",
			i < 0 ? "all in turn" : kinds_of_looks[i].name);
		TEST_TRUE(!"a neighbour runs");
	}
}

static void begin_looks(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	memset(&look, 0, sizeof look);
	pair(look.l_fds);
	TEST_EQUAL(fcntl(look.l_fds[0], F_SETFL, O_NONBLOCK), 0);
	look.l_listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	TEST_EQUAL(bind(look.l_listener, (struct sockaddr *)&any, sizeof any), 0);
	TEST_EQUAL(listen(look.l_listener, 1), 0);
	look.l_epoll = epoll_create1(0);
	TEST_EQUAL(epoll_ctl(look.l_epoll, EPOLL_CTL_ADD, look.l_fds[1],
			     &(struct epoll_event){ .events = EPOLLIN }), 0);
	look.l_null = open("/dev/null", O_WRONLY);
	look.l_ready = open("/dev/null", O_WRONLY);
	look.l_file = open("/proc/self/exe", O_RDONLY);
	look.l_stream = fopen("/dev/null", "w");
	TEST_TRUE(look.l_null >= 0 && look.l_file >= 0 && look.l_stream);
	pthread_spin_init(&look.l_spin, 0);
	pthread_spin_init(&look.l_spun, 0);
	TEST_EQUAL(pthread_spin_trylock(&look.l_spun), 0);
	TEST_EQUAL(sem_init(&look.l_sem, 0, 0), 0);
	TEST_EQUAL(sem_init(&look.l_none, 0, 0), 0);
	look.l_neighbour = go(tick, NULL);
	usleep(MS);
}

/* Whatever a thread calls in a loop, other threads of the processor run. */
static void *in_looks(void *unused)
{
	begin_looks();
	for (ptrdiff_t i = -1; i < (ptrdiff_t)COUNT(kinds_of_looks); i++)
		loop_until_ticks(i);
	look.l_stop = true;
	join(look.l_neighbour);
	TEST_EQUAL(fclose(look.l_stream), 0);
	TEST_EQUAL(close(look.l_listener), 0);
	TEST_EQUAL(close(look.l_epoll), 0);
	TEST_EQUAL(close(look.l_ready), 0);
	TEST_EQUAL(close(look.l_null), 0);
	TEST_EQUAL(close(look.l_file), 0);
	close_both(look.l_fds);
	return unused;
}

static atomic_bool was_handled;

static void note_look(int sig)
{
	(void)sig;
	was_handled = true;
}

static void *await_handled(void *unused)
{
	while (!was_handled)
		lock_mutex();
	return unused;
}

static void *await_cancel(void *unused)
{
	for (;;)
		pthread_testcancel();
	return unused;
}

/* In such a loop signal handlers run, and a cancel ends the thread. */
static void *in_told_loops(void *unused)
{
	struct sigaction action = { .sa_handler = note_look };
	pthread_t t = go(await_handled, NULL);

	was_handled = false;
	TEST_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
	usleep(MS);
	TEST_EQUAL(pthread_kill(t, SIGUSR1), 0);
	join(t);
	t = go(await_cancel, NULL);
	usleep(MS);
	TEST_EQUAL(pthread_cancel(t), 0);
	TEST_TRUE(join(t) == PTHREAD_CANCELED);
	return unused;
}

/* ---- Sockets ---- */

static int listener;

static void *accept_one(void *unused)
{
	struct sockaddr_in peer;
	socklen_t size = sizeof peer;
	int fd = accept(listener, (struct sockaddr *)&peer, &size);

	TEST_TRUE(fd >= 0 && size == sizeof peer && peer.sin_family == AF_INET);
	TEST_EQUAL(fcntl(fd, F_GETFD), 0);
	TEST_TRUE(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	read_once(&fd);
	close(fd);
	return unused;
}

static struct sockaddr_in go_listen(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t size = sizeof a;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	TEST_EQUAL(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
	TEST_EQUAL(listen(listener, 5), 0);
	TEST_EQUAL(getsockname(listener, (struct sockaddr *)&a, &size), 0);
	return a;
}

static int go_connect(const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	TEST_EQUAL(connect(fd, (const struct sockaddr *)to, sizeof *to), 0);
	TEST_TRUE(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	return fd;
}

static void *in_tcp(void *unused)
{
	struct sockaddr_in a = go_listen();
	pthread_t t[4];
	int fd;

	for (int i = 0; i < 4; i++)
		t[i] = go(accept_one, NULL);
	usleep(5 * MS);
	for (int i = 0; i < 4; i++) {
		fd = go_connect(&a);
		TEST_EQUAL(write(fd, "hello", 5), 5);
		TEST_EQUAL(read(fd, &(char){ 0 }, 1), 0);
		close(fd);
	}
	for (int i = 0; i < 4; i++)
		join(t[i]);
	close(listener);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	TEST_EQUAL(connect(fd, (struct sockaddr *)&a, sizeof a), -1);
	TEST_EQUAL(errno, ECONNREFUSED);
	close(fd);
	return unused;
}

/* accept() has the time-out of the listener, and so has the new connection. */
static void *in_listeners(void *unused)
{
	struct timeval limit = { 0, 20 * MS };
	struct sockaddr_in a = go_listen();
	int fd, new;

	TEST_EQUAL(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit,
			      sizeof limit), 0);
	TEST_EQUAL(accept(listener, NULL, NULL), -1);
	TEST_EQUAL(errno, EAGAIN);
	fd = go_connect(&a);
	new = accept(listener, NULL, NULL);
	TEST_EQUAL(read(new, &(char){ 0 }, 1), -1);
	TEST_EQUAL(errno, EAGAIN);
	close(new);
	close(fd);
	close(listener);
	return unused;
}

/*
 * The listener is closed while several threads wait in accept(). A new listener then gets
 * its number. The library ends the waits with EBADF; the system does not end them.
 */
static void *accept_closed(void *unused)
{
	TEST_EQUAL(accept(listener, NULL, NULL), -1);
	TEST_EQUAL(errno, EBADF);
	return unused;
}

static void *in_reused(void *unused)
{
	struct sockaddr_in a = go_listen();
	pthread_t t[3];
	int before = listener, fd = go_connect(&a);

	close(accept(listener, NULL, NULL));
	close(fd);
	if (!is_adopted(listener) || !really_nonblocking(listener))
		return unused;
	for (int i = 0; i < 3; i++)
		t[i] = go(accept_closed, NULL);
	usleep(5 * MS);
	close(listener);
	a = go_listen();
	TEST_EQUAL(listener, before);
	for (int i = 0; i < 3; i++)
		join(t[i]);
	close(listener);
	return unused;
}

static void *in_messages(void *unused)
{
	char text[16], control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { text, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof control };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	static int fds[2], passed[2];
	int last;

	pair(fds);
	pair(passed);
	last = socket(AF_INET, SOCK_STREAM, 0);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &passed[0], sizeof(int));
	TEST_EQUAL(sendmsg(fds[0], &m, 0), 1);
	TEST_EQUAL(ioctl(last, FIONBIO, &(int){ 1 }), 0);
	syscall(SYS_close, last);               /* closes by number */
	TEST_EQUAL(recvmsg(fds[1], &m, 0), 1);
	close(passed[0]);
	memcpy(&passed[0], CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	TEST_EQUAL(passed[0], last);
	go(write_later, &passed[1]);
	TEST_EQUAL(read(passed[0], text, 8), 5);
	go(send_parts, &fds[0]);
	TEST_EQUAL(recv(fds[1], text, 9, MSG_WAITALL), 9);
	go(send_parts, &fds[0]);
	iov.iov_len = 9;
	m.msg_controllen = 0;
	TEST_EQUAL(recvmsg(fds[1], &m, MSG_WAITALL), 9);
	close_both(fds);
	close_both(passed);
	return unused;
}

static void pass(int by, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &(char){ 0 }, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof control };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	TEST_EQUAL(sendmsg(by, &m, 0), 1);
}

static int receive(int by)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &(char){ 0 }, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof control };
	int fd;

	TEST_EQUAL(recvmsg(by, &m, 0), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
	return fd;
}

/* A descriptor for which a thread has waited is passed on without O_NONBLOCK. */
static void pass_and_read(void)
{
	static int fds[2], passed[2];
	pthread_t reader;
	int new;

	pair(fds);
	pair(passed);
	adopt_both(passed);
	pass(fds[0], passed[0]);
	TEST_TRUE(!really_nonblocking(passed[0]));
	new = receive(fds[1]);
	go(write_later, &passed[1]);
	read_once(&new);
	TEST_TRUE(is_adopted(new));             /* O_NONBLOCK is set again */
	TEST_TRUE(!(fcntl(passed[0], F_GETFL) & O_NONBLOCK));
	reader = go(read_once, &passed[0]);
	usleep(5 * MS);
	pass(fds[0], new);                      /* does not end that wait */
	TEST_EQUAL(write(passed[1], "hello", 5), 5);
	join(reader);
	close(new);
	new = receive(fds[1]);
	go(write_later, &passed[1]);
	read_once(&new);
	close(new);
	close_both(fds);
	close_both(passed);
}

enum { PASSES = 1000 };

static void *write_bytes(void *fd)
{
	for (int i = 0; i < PASSES; i++) {
		sched_yield();
		TEST_EQUAL(write(*(int *)fd, "", 1), 1);
	}
	return NULL;
}

static void *read_bytes(void *fd)
{
	char c;

	for (int i = 0; i < PASSES; i++)
		TEST_EQUAL(read(*(int *)fd, &c, 1), 1);
	return NULL;
}

/* Does not end reads, even if these have been woken and have not gone on yet. */
static void pass_while_read(void)
{
	static int fds[2], passed[2];
	pthread_t reader, writer;

	pair(fds);
	TEST_EQUAL(pipe(passed), 0);
	reader = go(read_bytes, &passed[0]);
	writer = go(write_bytes, &passed[1]);
	for (int i = 0; i < PASSES; i++) {
		pass(fds[0], passed[0]);
		close(receive(fds[1]));
	}
	join(reader);
	join(writer);
	close_both(fds);
	close_both(passed);
}

static void *in_rights(void *unused)
{
	pass_while_read();
	pass_and_read();
	refuses = true;
	pass_and_read();
	refuses = false;
	return unused;
}

static void *send_two(void *fd)
{
	char a = 'a', b[] = "bc";
	struct iovec iov[2] = { { &a, 1 }, { b, 2 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = &iov[0], .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = &iov[1], .msg_iovlen = 1 } } };

	TEST_EQUAL(sendmmsg(*(int *)fd, m, 2, 0), 2);
	TEST_TRUE(m[0].msg_len == 1 && m[1].msg_len == 2);
	return NULL;
}

static void *in_datagrams(void *unused)
{
	char text[3][8];
	struct iovec iov[3] = { { text[0], 8 }, { text[1], 8 }, { text[2], 8 } };
	struct mmsghdr m[3] = { { .msg_hdr = { .msg_iov = &iov[0], .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = &iov[1], .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = &iov[2], .msg_iovlen = 1 } } };
	struct sockaddr_in a = { .sin_family = AF_INET }, from;
	static int fds[2];
	socklen_t size = sizeof a;

	TEST_EQUAL(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	join(go(send_two, &fds[0]));
	TEST_EQUAL(recvmmsg(fds[1], m, 3, MSG_WAITFORONE, NULL), 2);
	TEST_TRUE(m[0].msg_len == 1 && m[1].msg_len == 2 && text[1][1] == 'c');
	close_both(fds);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fds[0] = socket(AF_INET, SOCK_DGRAM, 0);
	TEST_EQUAL(bind(fds[0], (struct sockaddr *)&a, sizeof a), 0);
	TEST_EQUAL(getsockname(fds[0], (struct sockaddr *)&a, &size), 0);
	TEST_EQUAL(sendto(fds[0], "xy", 2, 0, (struct sockaddr *)&a, sizeof a), 2);
	TEST_EQUAL(recvfrom(fds[0], text[0], 8, 0, (struct sockaddr *)&from, &size), 2);
	TEST_EQUAL(from.sin_port, a.sin_port);
	close(fds[0]);
	return unused;
}

/* ---- Sockets that are shut while calls wait ---- */

static void *shut_later(void *fd)
{
	usleep(5 * MS);
	shutdown(*(int *)fd, SHUT_RDWR);
	return NULL;
}

static ssize_t receive_by(int call, int fd)
{
	static char text[8];
	struct iovec iov = { text, 8 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };

	return call == 0 ? read(fd, text, 8)
		: call == 1 ? readv(fd, &iov, 1)
		: call == 2 ? recv(fd, text, 8, 0)
		: call == 3 ? recvfrom(fd, text, 8, MSG_PEEK, NULL, NULL)
		: call == 4 ? recvmsg(fd, &m.msg_hdr, 0)
		: recvmmsg(fd, &m, 1, 0, NULL) - 1;
}

static ssize_t send_by(int call, int fd)
{
	static char data[1000];
	struct iovec iov = { data, sizeof data };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };
	const int quiet = MSG_NOSIGNAL;
	ssize_t n;

	do
		n = call == 0 ? send(fd, data, sizeof data, quiet)
			: call == 1 ? sendto(fd, data, sizeof data, quiet, NULL, 0)
			: call == 2 ? sendmsg(fd, &m.msg_hdr, quiet)
			: sendmmsg(fd, &m, 1, quiet);
	while (n > 0);
	return n;
}

/*
 * Makes a pair of connected sockets. If `type' is 0, makes one socket of UDP with an
 * address instead, and fds[1] is a copy of fds[0].
 */
static void make_socket(int type, int fds[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	if (type) {
		TEST_EQUAL(socketpair(AF_UNIX, type, 0, fds), 0);
		return;
	}
	fds[0] = socket(AF_INET, SOCK_DGRAM, 0);
	fds[1] = dup(fds[0]);
	TEST_EQUAL(bind(fds[0], (struct sockaddr *)&a, sizeof a), 0);
}

static void shut_all(bool adopts)
{
	static const int types[] = { 0, SOCK_DGRAM, SOCK_STREAM, SOCK_SEQPACKET };
	static int fds[2];
	pthread_t t;

	for (int i = 0; i < 6 + 3 * 4; i++) {
		bool sends = i >= 6;
		int type = types[sends ? 1 + i % 3 : i % 2];

		make_socket(type, fds);
		if (adopts && type)
			adopt(fds[0], fds[1]);
		t = go(shut_later, &fds[0]);
		TEST_EQUAL(sends ? send_by((i - 6) / 3, fds[0]) : receive_by(i, fds[0]),
			   sends ? -1 : 0);
		TEST_TRUE(!sends || errno == EPIPE);
		join(t);
		close_both(fds);
	}
}

static void *in_shuts(void *unused)
{
	struct sockaddr any = { .sa_family = AF_UNIX };
	static int fd;
	pthread_t t;

	shut_all(false);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	TEST_EQUAL(bind(fd, &any, sizeof any.sa_family), 0);
	TEST_EQUAL(listen(fd, 1), 0);
	t = go(shut_later, &fd);
	TEST_EQUAL(accept(fd, NULL, NULL), -1);
	TEST_EQUAL(errno, EINVAL);
	join(t);
	close(fd);
	return unused;
}

static void native_shuts(void **state)
{
	(void)state;
	test_timeout(10);
	shut_all(true);
}

static void *in_files(void *unused)
{
	int file = memfd_create("file", 0);
	static int fds[2];
	pthread_t reader;
	off_t at = 0;

	TEST_EQUAL(write(file, much, MUCH), MUCH);
	pair(fds);
	reader = go(read_slowly, &fds[0]);
	TEST_EQUAL(sendfile(fds[1], file, &at, MUCH), MUCH);
	TEST_EQUAL(at, MUCH);
	join(reader);
	close(file);
	close_both(fds);
	return unused;
}

/* ---- Streams ---- */

static int gate[2];

enum { LINES = 3000 };                  /* more lines than fit into a socket */

static FILE *shared;

static void *print_lines(void *name)
{
	for (int i = 0; i < LINES / 2; i++)
		TEST_EQUAL(fprintf(shared, "%s %0200d\n", (char *)name, i), 203);
	return NULL;
}

static void *read_line(void *file)
{
	char line[16];

	TEST_TRUE(fgets(line, sizeof line, file));
	return strcmp(line, "hello\n") == 0 ? file : NULL;
}

static void *print_late(void *file)
{
	usleep(20 * MS);
	TEST_EQUAL(fputs("hello\n", file), 1);
	TEST_EQUAL(fflush(file), 0);
	return NULL;
}

static void streams(void **state)
{
	pthread_t t[3];
	FILE *in, *out;
	char line[256], want[256];
	int fds[2], seen[2] = { 0, 0 };

	(void)state;
	test_timeout(10);
	pair(fds);
	in = fdopen(fds[0], "r");
	out = shared = fdopen(fds[1], "w");
	TEST_TRUE(fileno(in) == fds[0] && fileno(out) == fds[1]);
	t[2] = go(print_late, out);
	TEST_TRUE(join(go(read_line, in)) == in);
	join(t[2]);
	t[0] = go(print_lines, "a");
	t[1] = go(print_lines, "b");
	usleep(20 * MS);                        /* both threads wait for room */
	for (int i = 0; i < LINES - 100; i++) { /* other lines are in the buffer */
		int k;

		TEST_TRUE(fgets(line, sizeof line, in));
		k = line[0] - 'a';
		TEST_TRUE(k == 0 || k == 1);
		snprintf(want, sizeof want, "%c %0200d\n", 'a' + k, seen[k]++);
		TEST_TRUE(strcmp(line, want) == 0);
	}
	join(t[0]);
	join(t[1]);
	TEST_EQUAL(fclose(out), 0);
	while (fgets(line, sizeof line, in))
		seen[0]++;
	TEST_EQUAL(seen[0] + seen[1], LINES);
	TEST_EQUAL(fclose(in), 0);
	TEST_EQUAL(fcntl(fds[0], F_GETFD), -1);
	TEST_TRUE(!fdopen(fds[0], "r") && errno == EBADF);
}

/* Writes a character, a line and a number in parts. */
static void *write_parts(void *fd)
{
	static const char *const parts[] = {
		"h\xc3", "\xa9llo\nin p", "arts\n1", "2 3", "4 n 0x", "1f x",
		"\xc3\xa9", "\xff",
	};

	for (size_t i = 0; i < COUNT(parts); i++) {
		usleep(2 * MS);
		TEST_EQUAL(write(*(int *)fd, parts[i], strlen(parts[i])),
			   strlen(parts[i]));
	}
	TEST_EQUAL(close(*(int *)fd), 0);
	return NULL;
}

static void read_parts(FILE *in)
{
	wchar_t line[32];
	int a = 0, b = 0, n = 0;

	TEST_TRUE(fgetws(line, COUNT(line), in) == line);
	TEST_EQUAL(wcscmp(line, L"h\u00e9llo\n"), 0);
	TEST_TRUE(fwide(in, 0) > 0 && fwide(in, -1) > 0);
	TEST_TRUE(fgetws(line, 4, in) == line && wcscmp(line, L"in ") == 0);
	TEST_TRUE(fgetws(line, COUNT(line), in) && wcscmp(line, L"parts\n") == 0);
	TEST_EQUAL(fwscanf(in, L"%d%d%n", &a, &b, &n), 2);
	TEST_TRUE(a == 12 && b == 34 && n == 5);
	TEST_EQUAL(fwscanf(in, L" %d", &a), 0);
	TEST_TRUE(getwc(in) == L'n');
	stdin = in;                             /* glibc allows this */
	TEST_EQUAL(wscanf(L"%x %1ls", &a, line), 2);
	TEST_TRUE(a == 0x1f && wcscmp(line, L"x") == 0);
	TEST_TRUE(getwchar() == 0xe9);
	TEST_TRUE(ungetwc(0x20ac, in) == 0x20ac && ungetwc(L'u', in) == L'u');
	TEST_TRUE(fgetwc(in) == L'u' && fgetwc(in) == 0x20ac);
	TEST_TRUE(fgetwc(in) == WEOF && errno == EILSEQ && ferror(in) && !feof(in));
	clearerr(in);
	errno = 0;
	TEST_TRUE(!fgetws(line, COUNT(line), in) && errno == EILSEQ && ferror(in));
}

static void *print_wide(void *out)
{
	FILE *before = stdout;

	usleep(2 * MS);
	TEST_EQUAL(fwprintf(out, L"%d %ls\n", 42, L"\u00e9"), 5);
	TEST_TRUE(fputws(L"\u20ac", out) >= 0 && fputwc(L'x', out) == L'x');
	TEST_TRUE(putwc(0xe9, out) == 0xe9 && fwide(out, 0) > 0);
	stdout = out;
	TEST_TRUE(putwchar(L'p') == L'p' && wprintf(L"%lc%d\n", 0x20ac, 7) == 3);
	stdout = before;
	for (int i = 0; i < 100000; i++)        /* more than fits into the socket */
		TEST_TRUE(fputws(L"wide\n", out) >= 0);
	TEST_EQUAL(fclose(out), 0);
	return NULL;
}

static void *in_wide_streams(void *unused)
{
	char first[] = "42 \xc3\xa9\n\xe2\x82\xacx\xc3\xa9p\xe2\x82\xac" "7\nwide\n";
	char text[64];
	FILE *file, *before = stdin;
	int fds[2], size = 0;
	pthread_t t;

	TEST_EQUAL(pipe(fds), 0);
	t = go(write_parts, &fds[1]);
	file = fdopen(fds[0], "r");
	read_parts(file);
	join(t);
	stdin = before;
	/* After freopen() the stream is libc's, with the same descriptor. */
	TEST_TRUE(freopen("/proc/self/cmdline", "r", file) == file);
	TEST_TRUE(fileno(file) == fds[0] && fwide(file, 0) == 0);
	TEST_TRUE(fgetwc(file) != WEOF && fgetc(file) == EOF);
	TEST_EQUAL(fclose(file), 0);
	pair(fds);
	file = fdopen(fds[0], "r");
	TEST_TRUE(fwide(file, -1) < 0 && fgetwc(file) == WEOF);
	TEST_TRUE(fwscanf(file, L"%d", &size) == EOF && fgetwc_unlocked(file) == WEOF);
	TEST_EQUAL(fclose(file), 0);
	TEST_EQUAL(close(fds[1]), 0);
	pair(fds);
	t = go(print_wide, fdopen(fds[1], "w"));
	file = fdopen(fds[0], "r");
	TEST_TRUE(fgets(text, sizeof text, file) && fgets(text + 6, 32, file)
		  && fgets(text + strlen(text), 32, file));
	TEST_TRUE(strcmp(text, first) == 0);
	while (fgets(text, sizeof text, file))
		size += strcmp(text, "wide\n") == 0;
	TEST_EQUAL(size, 100000 - 1);
	TEST_EQUAL(fwscanf(file, L"%d", &size), EOF);
	join(t);
	TEST_TRUE(freopen("/dev/null", "w", file) == file && fputws(L"x", file) > 0);
	TEST_EQUAL(fclose(file), 0);
	return unused;
}

static void wide_streams(void **state)
{
	(void)state;
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		skip();
	run(in_wide_streams);
	setlocale(LC_CTYPE, "C");
}

static atomic_bool tried;               /* a thread has tried to lock the stream */

/* flockfile() of a stream of libc excludes other threads of the same processor. */
static void *print_twice(void *name)
{
	flockfile(shared);
	flockfile(shared);
	fputs(name, shared);
	while (!tried)
		usleep(20 * MS);
	funlockfile(shared);
	TEST_EQUAL(fprintf(shared, "%s", (char *)name), 1);
	funlockfile(shared);
	return NULL;
}

static void *print_once(void *name)
{
	TEST_EQUAL(ftrylockfile(shared), EBUSY);
	tried = true;
	fputs(name, shared);
	return NULL;
}

/* The stream is not locked in the child. */
static int print_in_child(void)
{
	alarm(100);
	flockfile(shared);
	funlockfile(shared);
	return 0;
}

static void *fork_locked(void *unused)
{
	int status = -1;
	pid_t pid;

	flockfile(shared);
	pid = fork();
	if (pid == 0)
		_exit(print_in_child());
	funlockfile(shared);
	TEST_EQUAL(waitpid(pid, &status, 0), pid);
	TEST_EQUAL(status, 0);
	return unused;
}

static void *in_locked_streams(void *unused)
{
	pthread_t t[4];
	char text[16];

	shared = tmpfile();
	tried = false;
	t[0] = go(print_twice, "a");
	usleep(5 * MS);
	t[1] = go(print_once, "x");
	usleep(5 * MS);
	t[2] = go(print_twice, "b");
	for (int i = 0; i < 3; i++)
		join(t[i]);
	rewind(shared);
	TEST_TRUE(fgets(text, sizeof text, shared));
	TEST_TRUE(strcmp(text, "aaxbb") == 0 || strcmp(text, "aabbx") == 0);
	join(go(fork_locked, NULL));
	TEST_EQUAL(ftrylockfile(shared), 0);
	TEST_EQUAL(fclose(shared), 0);
	shared = tmpfile();                     /* most likely at the same address */
	join(go(print_twice, "a"));
	TEST_EQUAL(fclose(shared), 0);
	return unused;
}

/* Reads from a stream of popen(), which is libc's. */
static void *read_command(void *unused)
{
	char command[64], line[16];
	FILE *file;

	snprintf(command, sizeof command, "read x <&%d; echo hello", gate[0]);
	file = popen(command, "r");
	TEST_TRUE(fgets(line, sizeof line, file) && strcmp(line, "hello\n") == 0);
	TEST_EQUAL(pclose(file), 0);
	return unused;
}

/* ---- Waits by a native thread or for a descriptor ---- */

static void *open_gate(void *unused)
{
	usleep(20 * MS);
	TEST_EQUAL(write(gate[1], "\n", 1), 1);
	return unused;
}

static void *run_command(void *unused)
{
	char command[64];

	snprintf(command, sizeof command, "read x <&%d; exit 3", gate[0]);
	TEST_EQUAL(system(command), 3 << 8);
	return unused;
}

/* Runs a command that writes the ID of its process, and then sleeps until killed. */
static void *run_long_command(void *pipe_end)
{
	char command[80];

	snprintf(command, sizeof command, "echo $$ >&%d; exec sleep 1000",
		 *(int *)pipe_end);
	system(command);
	return NULL;
}

static void *in_cancelled_command(void *unused)
{
	char text[16] = "";
	int ends[2];
	pthread_t t;

	TEST_EQUAL(pipe(ends), 0);
	t = go(run_long_command, &ends[1]);
	TEST_TRUE(read(ends[0], text, sizeof text - 1) > 0);
	TEST_EQUAL(pthread_cancel(t), 0);
	TEST_TRUE(join(t) == PTHREAD_CANCELED);
	TEST_EQUAL(kill((pid_t)atoi(text), 0), -1);
	TEST_EQUAL(errno, ESRCH);
	close_both(ends);
	return unused;
}

/* ---- Objects of System V: another thread makes each wait end ---- */

static int queue, semaphores;

struct message { long kind; char text[8]; };

static void *receive_one(void *by_number)
{
	struct message m;

	TEST_EQUAL(by_number ? syscall(SYS_msgrcv, queue, &m, sizeof m.text, 0, 0)
		   : msgrcv(queue, &m, sizeof m.text, 0, 0), 2);
	TEST_EQUAL(m.kind, 7);
	return NULL;
}

/* Waits until a message fits into the full queue. */
static void *send_one(void *by_number)
{
	struct message m = { 7, "x" };

	TEST_EQUAL(by_number ? syscall(SYS_msgsnd, queue, &m, 2, 0)
		   : msgsnd(queue, &m, 2, 0), 0);
	return NULL;
}

static void *take(void *limit)
{
	int rc = limit ? semtimedop(semaphores, &(struct sembuf){ 0, -1, 0 }, 1, limit)
		: semop(semaphores, &(struct sembuf){ 0, -1, 0 }, 1);

	return rc == 0 ? "taken" : errno == EAGAIN ? "late" : "failed";
}

static void *take_by_number(void *unused)
{
	(void)unused;
	TEST_EQUAL(syscall(SYS_semop, semaphores, &(struct sembuf){ 0, -1, 0 }, 1), 0);
	return "taken";
}

static void *in_sysv(void *by_number)
{
	struct timespec soon = { 0, 2000000 };
	struct message m = { 7, "x" };
	pthread_t t;

	queue = msgget(IPC_PRIVATE, 0600);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	TEST_TRUE(queue >= 0 && semaphores >= 0);
	t = go(receive_one, by_number);
	usleep(20 * MS);
	TEST_EQUAL(msgsnd(queue, &m, 2, 0), 0);
	join(t);

	while (msgsnd(queue, &m, 2, IPC_NOWAIT) == 0)
		;
	TEST_EQUAL(errno, EAGAIN);
	t = go(send_one, by_number);
	usleep(20 * MS);
	TEST_EQUAL(msgrcv(queue, &m, sizeof m.text, 0, 0), 2);
	join(t);

	t = go(by_number ? take_by_number : take, NULL);
	usleep(20 * MS);
	TEST_EQUAL(semop(semaphores, &(struct sembuf){ 0, 1, 0 }, 1), 0);
	TEST_TRUE(strcmp(join(t), "taken") == 0);
	TEST_TRUE(strcmp(take(&soon), "late") == 0);

	t = go(receive_one, NULL);
	while (msgrcv(queue, &m, sizeof m.text, 0, IPC_NOWAIT) > 0)
		;
	usleep(20 * MS);
	pthread_cancel(t);
	join(t);
	msgctl(queue, IPC_RMID, NULL);
	semctl(semaphores, 0, IPC_RMID);
	if (!by_number)
		in_sysv(&semaphores);
	return NULL;
}

/* ---- Transfers of the kernel's aio: another thread submits what a thread awaits ---- */

static aio_context_t context;

static void make_context(void)
{
	context = 0;
	TEST_EQUAL(syscall(SYS_io_setup, 4L, &context), 0);
}

static void *get_two(void *unused)
{
	struct io_event events[3];

	TEST_EQUAL(syscall(SYS_io_getevents, context, 2L, 3L, events, NULL), 2);
	TEST_TRUE(events[0].res == 1 && events[1].res == 1);
	return unused;
}

static void *in_transfers(void *unused)
{
	const struct timespec soon = { 0, 2000000 };
	struct io_event events[2];
	char c = 'x';
	int file = fileno(tmpfile());
	struct iocb b = { .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_nbytes = 1,
			  .aio_fildes = (uint32_t)file, .aio_buf = (uintptr_t)&c };
	struct iocb *list = &b;
	pthread_t t;

	make_context();
	t = go(get_two, NULL);
	for (int i = 0; i < 3; i++) {
		usleep(20 * MS);
		TEST_EQUAL(syscall(SYS_io_submit, context, 1L, &list), 1);
	}
	join(t);
	TEST_EQUAL(syscall(SYS_io_getevents, context, 2L, 2L, events, &soon), 1);
	TEST_EQUAL(syscall(SYS_io_getevents, context, 1L, 2L, events, &soon), 0);
	TEST_EQUAL(syscall(SYS_io_getevents, context, 2L, 1L, events, NULL), -1);
	TEST_EQUAL(errno, EINVAL);
	TEST_EQUAL(syscall(SYS_io_destroy, context), 0);
	return unused;
}

static void *close_command(void *unused)
{
	char command[64];
	FILE *file;

	snprintf(command, sizeof command, "read x <&%d; exit 4", gate[0]);
	file = popen(command, "w");
	TEST_EQUAL(pclose(file), 4 << 8);
	return unused;
}

static pid_t waiting_child(void)
{
	pid_t pid = fork();
	char c;

	if (pid == 0) {
		alarm(60);                      /* ends the child if the test fails */
		_exit(read(gate[0], &c, 1) == 1 ? 5 : 6);
	}
	return pid;
}

static void *wait_for_child(void *unused)
{
	pid_t pid = waiting_child();
	int status = 0;

	TEST_EQUAL(waitpid(pid, &status, 0), pid);
	TEST_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 5);
	return unused;
}

static void *wait_for_any(void *unused)
{
	pid_t pid = waiting_child();

	TEST_EQUAL(wait(NULL), pid);
	return unused;
}

static void *wait_for_id(void *all)
{
	pid_t pid = waiting_child();
	siginfo_t info = { 0 };

	TEST_EQUAL(waitid(all ? P_ALL : P_PID, (id_t)pid, &info, WEXITED), 0);
	TEST_TRUE(info.si_pid == pid && info.si_code == CLD_EXITED);
	TEST_EQUAL(info.si_status, 5);
	TEST_EQUAL(waitid(P_PID, (id_t)pid, &info, WEXITED), -1);
	TEST_EQUAL(errno, ECHILD);
	return NULL;
}

static void *wait_for_any_id(void *unused)
{
	wait_for_id(&gate);
	return unused;
}

static void processes(void **state)
{
	void *(*const calls[])(void *) = { read_command, run_command, close_command,
					   wait_for_child, wait_for_any, wait_for_id,
					   wait_for_any_id };

	(void)state;
	test_timeout(10);
	TEST_EQUAL(pipe(gate), 0);
	for (size_t i = 0; i < COUNT(calls); i++) {
		pthread_t waiter = go(calls[i], NULL);

		join(go(open_gate, NULL));
		join(waiter);
	}
	close_both(gate);
}

static void *wait_for_signal(void *set)
{
	int sig = 0;

	TEST_EQUAL(pthread_sigmask(SIG_BLOCK, set, NULL), 0);
	TEST_EQUAL(sigwait(set, &sig), 0);
	return (void *)(intptr_t)sig;
}

static void *kill_later(void *unused)
{
	usleep(20 * MS);
	kill(getpid(), SIGUSR2);
	return unused;
}

static void *take_own_signal(void *set)
{
	const struct timespec before = { -1, 0 }, now = { 0, 0 };
	siginfo_t info;

	TEST_EQUAL(sigtimedwait(set, &info, &before), -1);
	TEST_EQUAL(errno, EINVAL);
	TEST_EQUAL(sigtimedwait(set, &info, &now), -1);
	TEST_EQUAL(errno, EAGAIN);
	TEST_EQUAL(pthread_kill(pthread_self(), 32), EINVAL);   /* libc uses 32 */
	TEST_EQUAL(raise(SIGUSR2), 0);
	TEST_EQUAL(sigtimedwait(set, &info, &now), SIGUSR2);
	TEST_EQUAL(info.si_code, SI_USER);
	TEST_EQUAL(info.si_pid, getpid());
	return NULL;
}

static void sigwaits(void **state)
{
	pthread_t t;
	sigset_t set;

	(void)state;
	test_timeout(10);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	TEST_EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	t = go(kill_later, NULL);
	TEST_EQUAL((intptr_t)join(go(wait_for_signal, &set)), SIGUSR2);
	join(t);
	t = go(wait_for_signal, &set);
	usleep(5 * MS);
	TEST_EQUAL(pthread_kill(t, SIGUSR2), 0);
	TEST_EQUAL((intptr_t)join(t), SIGUSR2);
	join(go(take_own_signal, &set));
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* A file that each thread opens itself, so that the locks exclude each other. */
static char lock_path[32];

static void *lock_briefly(void *how)
{
	struct flock l = { .l_type = F_WRLCK };
	int fd = open(lock_path, O_RDWR);

	TEST_EQUAL(how ? flock(fd, LOCK_EX) : fcntl(fd, F_OFD_SETLKW, &l), 0);
	usleep(20 * MS);
	l.l_type = F_UNLCK;
	TEST_EQUAL(how ? flock(fd, LOCK_UN) : fcntl(fd, F_OFD_SETLKW, &l), 0);
	close(fd);
	return NULL;
}

__attribute__((noreturn))
static void *count_turns(void *turns)
{
	for (;; ++*(int *)turns) {
		pthread_testcancel();
		sched_yield();
	}
}

/* Calls that wait for a disk let other threads run meanwhile. */
static void *in_disk(void *unused)
{
	enum { ROOM = 4096 };
	_Alignas(ROOM) char data[ROOM] = "data", back[ROOM];
	char path[] = "disk-XXXXXX";
	int turns = 0, fd = mkstemp(path), direct = open(path, O_RDWR | O_DIRECT);
	pthread_t t = go(count_turns, &turns);

	TEST_EQUAL(unlink(path), 0);
#define TEST_WAITS(call, result) do {						\
	int before = turns;							\
	TEST_EQUAL(call, result);						\
	TEST_TRUE(turns > before || !really_threads() || getenv("UPOSIX_SHARED"));	\
} while (0)
	sched_yield();
	TEST_EQUAL(pwrite(fd, data, ROOM, 0), ROOM);
	TEST_EQUAL(pread(fd, back, ROOM, 0), ROOM);
	TEST_EQUAL(memcmp(back, data, ROOM), 0);
	TEST_EQUAL(pread(fd, back, ROOM, 1), ROOM - 1);
	TEST_EQUAL(memcmp(back, data + 1, ROOM - 1), 0);
	TEST_EQUAL(pread(fd, back, ROOM, ROOM), 0);
	TEST_EQUAL(pread(fd, back, ROOM, -1), -1);
	TEST_WAITS(fsync(fd), 0);
	TEST_WAITS(fdatasync(fd), 0);
	TEST_WAITS(fsync(-1), -1);
	TEST_EQUAL(errno, EBADF);
	if (direct >= 0) {                      /* tmpfs may lack O_DIRECT */
		data[0] = 'D';
		TEST_WAITS(pwrite(direct, data, ROOM, 0), ROOM);
		TEST_WAITS(pread(direct, back, ROOM, 0), ROOM);
		TEST_EQUAL(memcmp(back, data, ROOM), 0);
		close(direct);
	}
#undef TEST_WAITS
	pthread_cancel(t);
	join(t);
	close(fd);
	return unused;
}

static void *in_locks(void *unused)
{
	int fd;

	strcpy(lock_path, "/tmp/uposix-XXXXXX");
	fd = mkstemp(lock_path);
	for (int i = 0; i < 2; i++) {
		void *how = i ? &fd : NULL;
		pthread_t a = go(lock_briefly, how), b = go(lock_briefly, how);

		join(a);
		join(b);
	}
	close(fd);
	unlink(lock_path);
	return unused;
}

/* ---- Calls that may wait for ever ---- */

static int   held;                      /* descriptor with the lock of the file */
static pid_t child;

static long open_for_ever(void)
{
	return open(fifo, O_RDONLY);
}

static long open_for_ever_at(void)
{
	return openat(AT_FDCWD, fifo, O_WRONLY);
}

static void close_one(void *fd)
{
	close(*(int *)fd);
}

static long lock_for_ever(void)
{
	struct flock l = { .l_type = F_WRLCK };
	int fd = open(lock_path, O_RDWR);

	pthread_cleanup_push(close_one, &fd);
	TEST_EQUAL(fcntl(fd, F_SETLKW, &l), -1);
	pthread_cleanup_pop(1);
	return -1;
}

static long lockf_for_ever(void)
{
	int fd = open(lock_path, O_RDWR);

	pthread_cleanup_push(close_one, &fd);
	TEST_EQUAL(lockf(fd, F_LOCK, 0), -1);
	pthread_cleanup_pop(1);
	return -1;
}

static long wait_for_ever(void)
{
	return wait(NULL);
}

static long wait_for_ever_stopped(void)
{
	return waitpid(child, NULL, WUNTRACED);
}

static long wait_for_ever_by_id(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WEXITED);
}

static long flock_for_ever(void)
{
	int fd = open(lock_path, O_RDWR);

	TEST_EQUAL(flock(fd, LOCK_EX), -1);
	close_one(&fd);
	return -1;
}

/* Waits with a mask that lets SIGUSR1 through. */
static long get_for_ever(void)
{
	struct { const void *mask; size_t size; } with = { &(uint64_t){ 0 }, 8 };
	struct io_event event;
	sigset_t set;
	long rc;
	int error;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	make_context();
	rc = syscall(SYS_io_pgetevents, context, 1L, 1L, &event, NULL, &with);
	error = errno;
	syscall(SYS_io_destroy, context);
	errno = error;
	return rc;
}

/* The last UNCANCELLED calls are no cancellation points. */
enum { UNCANCELLED = 2 };

static long (*const ever[])(void) = {
	open_for_ever, open_for_ever_at, lock_for_ever, lockf_for_ever, wait_for_ever,
	wait_for_ever_stopped, wait_for_ever_by_id, flock_for_ever, get_for_ever,
};

static atomic_int inside;

static void *call_for_ever(void *which)
{
	inside++;
	errno = 0;
	TEST_EQUAL(ever[(size_t)(uintptr_t)which](), -1);
	return (void *)(intptr_t)errno;
}

static void make_waits(void)
{
	struct flock l = { .l_type = F_WRLCK };
	char *end;

	strcpy(fifo, "/tmp/uposix-XXXXXX/fifo");
	end = strrchr(fifo, '/');
	*end = '\0';
	TEST_TRUE(mkdtemp(fifo));
	*end = '/';
	TEST_EQUAL(mkfifo(fifo, 0600), 0);
	strcpy(lock_path, "/tmp/uposix-XXXXXX");
	held = mkstemp(lock_path);
	TEST_EQUAL(fcntl(held, F_OFD_SETLK, &l), 0);
	TEST_EQUAL(flock(held, LOCK_EX), 0);
	TEST_EQUAL(pipe(gate), 0);
	child = waiting_child();
	TEST_TRUE(child > 0);
}

/*
 * Checks that the calls have left no end of the FIFO open, have not got the lock of the
 * file, and have not taken the status of the child.
 */
static void end_waits(void)
{
	struct flock l = { .l_type = F_WRLCK };
	int status, fd = open(lock_path, O_RDWR);

	TEST_EQUAL(open(fifo, O_WRONLY | O_NONBLOCK), -1);
	TEST_EQUAL(errno, ENXIO);
	l.l_type = F_UNLCK;                    /* the child has `held', too */
	TEST_EQUAL(fcntl(held, F_OFD_SETLK, &l), 0);
	close(held);
	l.l_type = F_WRLCK;
	TEST_EQUAL(fcntl(fd, F_OFD_SETLK, &l), 0);
	close(fd);
	TEST_EQUAL(write(gate[1], "\n", 1), 1);
	TEST_EQUAL(waitpid(child, &status, 0), child);
	close_both(gate);
	unlink(lock_path);
	unlink(fifo);
	*strrchr(fifo, '/') = '\0';
	rmdir(fifo);
}

static void *in_cancelled_waits(void *unused)
{
	size_t fds;
	pthread_t t;

	make_waits();
	fds = test_descriptors();
	for (size_t i = 0; i < COUNT(ever) - UNCANCELLED; i++) {
		inside = 0;
		t = go(call_for_ever, (void *)(uintptr_t)i);
		while (!inside)
			usleep(MS);
		usleep(10 * MS);
		TEST_EQUAL(pthread_cancel(t), 0);
		TEST_TRUE(join(t) == PTHREAD_CANCELED);
	}
	TEST_EQUAL(test_descriptors(), fds);
	end_waits();
	return unused;
}

/* A handler without SA_RESTART ends these calls, too. */
static void *in_interrupted_waits(void *unused)
{
	struct sigaction action = { .sa_handler = handle };
	void *result;
	pthread_t t;

	make_waits();
	sigaction(SIGUSR1, &action, NULL);
	for (size_t i = 0; i < COUNT(ever); i++) {
		t = go(call_for_ever, (void *)(uintptr_t)i);
		usleep(5 * MS);
		while (pthread_kill(t, SIGUSR1), pthread_tryjoin_np(t, &result))
			usleep(5 * MS);
		TEST_EQUAL((int)(intptr_t)result, EINTR);
	}
	end_waits();
	return unused;
}

static atomic_bool granted;

static void *take_flock(void *unused)
{
	int fd = open(lock_path, O_RDWR);

	inside++;
	TEST_EQUAL(flock(fd, LOCK_EX), 0);
	granted = true;
	close(fd);
	pthread_testcancel();
	return unused;
}

/* flock() is no cancellation point, so a cancelled thread waits on and gets the lock. */
static void *in_cancelled_flock(void *unused)
{
	pthread_t t;

	make_waits();
	inside = 0;
	granted = false;
	t = go(take_flock, NULL);
	while (!inside)
		usleep(MS);
	usleep(10 * MS);
	TEST_EQUAL(pthread_cancel(t), 0);
	usleep(10 * MS);
	TEST_TRUE(!granted);
	TEST_EQUAL(flock(held, LOCK_UN), 0);
	TEST_TRUE(join(t) == PTHREAD_CANCELED);
	TEST_TRUE(granted);
	end_waits();
	return unused;
}

/* A pending cancel ends the thread before the open, even if the open would not wait. */
static void *cancel_and_open(void *made)
{
	pthread_cancel(pthread_self());
	*(int *)made = open("/dev/null", O_RDONLY);
	return NULL;
}

enum { CROWD = 70 };                    /* more than the native threads of a pool */

static void *open_and_close(void *flags)
{
	int fd = open(fifo, (int)(intptr_t)flags);

	TEST_TRUE(fd >= 0);
	close(fd);
	return NULL;
}

/*
 * Many calls wait for ever. Other calls do not wait for them, and neither does the call
 * that ends their wait.
 */
static void *in_crowds(void *unused)
{
	static int made = -1;
	size_t before;
	pthread_t t[CROWD];
	FILE *file;

	TEST_TRUE(join(go(cancel_and_open, &made)) == PTHREAD_CANCELED);
	TEST_EQUAL(made, -1);
	make_waits();
	before = test_entries("/proc/self/task");
	for (size_t i = 0; i < CROWD; i++)
		t[i] = go(open_and_close, (void *)(intptr_t)O_RDONLY);
	while (test_entries("/proc/self/task") < before + 60)
		usleep(MS);
	TEST_TRUE(gethostbyname("localhost"));
	file = popen("exit 4", "w");
	TEST_EQUAL(pclose(file), 4 << 8);
	open_and_close((void *)(intptr_t)O_WRONLY);
	for (size_t i = 0; i < CROWD; i++)
		join(t[i]);
	end_waits();
	return unused;
}

/* ---- Names ---- */

static void *in_names(void *unused)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_INET }, *a;
	struct sockaddr_in in;
	char host[64];
	struct hostent *h;

	TEST_EQUAL(getaddrinfo("localhost", "80", &hints, &a), 0);
	memcpy(&in, a->ai_addr, sizeof in);
	TEST_EQUAL(in.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	TEST_EQUAL(in.sin_port, htons(80));
	freeaddrinfo(a);
	TEST_EQUAL(getnameinfo((struct sockaddr *)&in, sizeof in, host, sizeof host, NULL,
			       0, 0), 0);
	h = gethostbyname("localhost");
	TEST_TRUE(h && memcmp(h->h_addr, &in.sin_addr, 4) == 0);
	return unused;
}

static atomic_bool noted;

static void *note(void *unused)
{
	noted = true;
	return unused;
}

static bool is_in(const void *p, const char *buffer, size_t size)
{
	return (uintptr_t)p - (uintptr_t)buffer < size;
}

/*
 * All results of a look-up are in the caller's buffer. Another thread runs during a
 * look-up, unless the answer comes before the caller waits.
 */
static void *in_look_ups(void *unused)
{
	char room[1025], *buffer = room + 1, tiny[4];
	struct hostent host, *h = NULL;
	struct in_addr in = { htonl(INADDR_LOOPBACK) };
	int error;

	for (int kind = 0; kind < 3; kind++) {
		pthread_t other;
		int tries = 0;

		noted = false;
		other = go(note, NULL);
		do {
			TEST_EQUAL(kind == 0 ? gethostbyname_r("localhost", &host, buffer,
							       1024, &h, &error)
				   : kind == 1 ? gethostbyname2_r("localhost", AF_INET,
								  &host, buffer, 1024,
								  &h, &error)
				   : gethostbyaddr_r(&in, sizeof in, AF_INET, &host,
						     buffer, 1024, &h, &error), 0);
		} while (!noted && really_threads() && ++tries < 1000);
		TEST_TRUE(noted || !really_threads());
		join(other);
		TEST_TRUE(h == &host && is_in(h->h_name, buffer, 1024));
		TEST_TRUE(strstr(h->h_name, "localhost"));
		TEST_TRUE(is_in(h->h_aliases, buffer, 1024));
		TEST_TRUE(is_in(h->h_addr_list, buffer, 1024));
		TEST_TRUE(is_in(h->h_addr, buffer, 1024));
		TEST_TRUE(memcmp(h->h_addr, &in, sizeof in) == 0);
	}
	TEST_EQUAL(gethostbyname_r("localhost", &host, tiny, 4, &h, &error), ERANGE);
	TEST_TRUE(!h && error == NETDB_INTERNAL);
	return unused;
}

/* ---- The child of a fork ---- */

/* A child uses a descriptor of the parent, and starts threads of its own. */
static int in_child(int fds[2])
{
	pthread_t reader;
	char text[8];

	if (read(fds[0], text, 8) != 5 || write(fds[0], "hello", 5) != 5)
		return 1;
	pair(fds);
	reader = go(read_once, &fds[0]);
	join(go(write_later, &fds[1]));
	join(reader);
	return 0;
}

static void *in_forks(void *unused)
{
	static int fds[2];
	pthread_t reader;
	int status = 0;
	pid_t pid;

	pair(fds);
	reader = go(read_once, &fds[0]);
	usleep(MS);
	TEST_EQUAL(write(fds[1], "hello", 5), 5);
	join(reader);
	TEST_TRUE(is_adopted(fds[0]));
	pid = fork();
	if (pid == 0) {
		alarm(100);
		_exit(in_child(fds));
	}
	usleep(20 * MS);
	TEST_EQUAL(write(fds[1], "hello", 5), 5);
	TEST_EQUAL(read_once(&fds[1]), 0);
	TEST_EQUAL(waitpid(pid, &status, 0), pid);
	TEST_EQUAL(status, 0);
	pid = fork();
	if (pid == 0) {                         /* a program reads from fds[0] */
		dup2(fds[0], 0);
		execl("/bin/sh", "sh", "-c", "read x && test \"$x\" = abc", NULL);
	}
	usleep(20 * MS);
	TEST_EQUAL(write(fds[1], "abc\n", 4), 4);
	TEST_EQUAL(waitpid(pid, &status, 0), pid);
	TEST_EQUAL(status, 0);
	close_both(fds);
	return unused;
}

/* ---- The library's own descriptors ---- */

enum { BY_CLOSE, BY_RANGE, BY_FROM, BY_DUP2, BY_DUP3, WAYS };

static int kept[2];                     /* a pipe; higher numbers are closed */

static void *read_kept(void *unused)
{
	uintptr_t n = 0;
	char c;

	(void)unused;
	while (n < 3 && read(kept[0], &c, 1) == 1)
		n++;
	return (void *)n;
}

static void close_others(int way)
{
	int first = kept[1] + 1;

	switch (way) {
	case BY_RANGE:
		TEST_EQUAL(close_range((unsigned)first, ~0u, 0), 0);
		break;
	case BY_FROM:
		closefrom(first);
		break;
	default:
		for (int fd = first; fd < 1024; fd++)
			way == BY_CLOSE ? close(fd)
				: way == BY_DUP2 ? dup2(kept[0], fd)
				: dup3(kept[0], fd, O_CLOEXEC);
	}
}

/*
 * A child closes 0 to 2 and all numbers above kept[], before and while a thread waits.
 * The library's own descriptors stay open.
 */
static int closes_all(int way)
{
	pthread_t reader;
	int null;

	alarm(10);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	TEST_EQUAL(pipe(kept), 0);
	for (int i = 0; i < 2; i++)
		kept[i] = fcntl(kept[i], F_DUPFD, 10);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	closefrom(kept[1] + 1);
	reader = go(read_kept, NULL);
	for (int i = 0; i < 3; i++) {
		usleep(MS);                     /* so that the thread waits */
		if (i == 1)
			close_others(way);
		null = open("/dev/null", O_RDWR);
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		TEST_EQUAL(write(kept[1], "x", 1), 1);
	}
	return join(reader) == (void *)3 ? 0 : 1;
}

static void own_descriptors(void **state)
{
	int status;

	(void)state;
	test_timeout(100);
	for (int way = 0; way < WAYS; way++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(closes_all(way));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

/* ---- close() of a socket that lingers ---- */

static atomic_bool lingers;

static void *drain_late(void *fd)
{
	char some[4096];

	while (!lingers)
		usleep(MS);
	usleep(MS);
	while (read(*(int *)fd, some, sizeof some) > 0)
		;
	return NULL;
}

static void fill_lingering(int fds[2])
{
	const struct linger linger = { 1, 1000 };
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t size = sizeof a;
	static char junk[1 << 16];
	int from = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	TEST_EQUAL(bind(from, (struct sockaddr *)&a, sizeof a), 0);
	TEST_EQUAL(listen(from, 1), 0);
	TEST_EQUAL(getsockname(from, (struct sockaddr *)&a, &size), 0);
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	TEST_EQUAL(connect(fds[0], (struct sockaddr *)&a, sizeof a), 0);
	fds[1] = accept(from, NULL, NULL);
	TEST_TRUE(fds[1] >= 0);
	TEST_EQUAL(close(from), 0);
	TEST_EQUAL(setsockopt(fds[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
	while (send(fds[0], junk, sizeof junk, MSG_DONTWAIT) > 0)
		;
}

static void *in_lingering(void *unused)
{
	static int fds[2];
	int null = open("/dev/null", O_RDWR);
	pthread_t t;

	for (int i = 0; i < 3; i++) {
		fill_lingering(fds);
		lingers = false;
		t = go(drain_late, &fds[1]);
		lingers = true;
		if (i == 0)
			TEST_EQUAL(close(fds[0]), 0);
		else if (i == 1)
			TEST_EQUAL(dup2(null, fds[0]), fds[0]);
		else
			TEST_EQUAL(fclose(fdopen(fds[0], "r")), 0);
		join(t);
		if (i == 1)
			TEST_EQUAL(close(fds[0]), 0);
		TEST_EQUAL(close(fds[1]), 0);
	}
	TEST_EQUAL(close(null), 0);
	return unused;
}

CASE(flags)
CASE(numbers)
CASE(lingering)
CASE(unseen_closes)
CASE(spliced)
CASE(opened)
CASE(closed_dirs)
CASE(counted)
CASE(awaited)
CASE(queues)
CASE(aio)
CASE(whole)
CASE(several)
CASE(timeouts)
CASE(least)
CASE(errors)
CASE(broken)
CASE(polls)
CASE(looks)
CASE(told_loops)
CASE(tcp)
CASE(listeners)
CASE(excepts)
CASE(reused)
CASE(messages)
CASE(rights)
CASE(datagrams)
CASE(shuts)
CASE(files)
CASE(disk)
CASE(locks)
CASE(names)
CASE(locked_streams)
CASE(look_ups)
CASE(cancelled_command)
CASE(cancelled_waits)
CASE(interrupted_waits)
CASE(cancelled_flock)
CASE(crowds)
CASE(sysv)
CASE(transfers)
CASE(forks)

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(flags), cmocka_unit_test(numbers),
	cmocka_unit_test(own_descriptors), cmocka_unit_test(lingering),
	cmocka_unit_test(unseen_closes), cmocka_unit_test(spliced),
	cmocka_unit_test(opened), cmocka_unit_test(closed_dirs),
	cmocka_unit_test(counted), cmocka_unit_test(queues),
	cmocka_unit_test(awaited), cmocka_unit_test(aio),
	cmocka_unit_test(flushes), cmocka_unit_test(starved_flush),
	cmocka_unit_test(flushes_own),
	cmocka_unit_test(foreign), cmocka_unit_test(whole),
	cmocka_unit_test(native), cmocka_unit_test(native_whole),
	cmocka_unit_test(native_parts), cmocka_unit_test(several),
	cmocka_unit_test(timeouts), cmocka_unit_test(least),
	cmocka_unit_test(errors), cmocka_unit_test(signals),
	cmocka_unit_test(never_restart), cmocka_unit_test(pending),
	cmocka_unit_test(cancels), cmocka_unit_test(broken),
	cmocka_unit_test(polls), cmocka_unit_test(looks),
	cmocka_unit_test(told_loops), cmocka_unit_test(tcp),
	cmocka_unit_test(listeners), cmocka_unit_test(excepts),
	cmocka_unit_test(reused), cmocka_unit_test(messages),
	cmocka_unit_test(rights), cmocka_unit_test(datagrams),
	cmocka_unit_test(shuts), cmocka_unit_test(native_shuts),
	cmocka_unit_test(files), cmocka_unit_test(streams),
	cmocka_unit_test(wide_streams),
	cmocka_unit_test(locked_streams),
	cmocka_unit_test(processes), cmocka_unit_test(sigwaits),
	cmocka_unit_test(disk), cmocka_unit_test(locks), cmocka_unit_test(names),
	cmocka_unit_test(look_ups), cmocka_unit_test(cancelled_command),
	cmocka_unit_test(cancelled_waits), cmocka_unit_test(interrupted_waits),
	cmocka_unit_test(cancelled_flock), cmocka_unit_test(crowds),
	cmocka_unit_test(sysv), cmocka_unit_test(transfers), cmocka_unit_test(forks),
};

int main(int argc, char **argv)
{
	(void)argc;
	if (!getenv("UPOSIX_PROCESSORS")) {     /* settings are read at the start */
		setenv("UPOSIX_PROCESSORS", "1", 0);
		setenv("UPOSIX_STACKS", "256", 0);
		execv("/proc/self/exe", argv);
		return 1;
	}
	much = malloc(MUCH);
	for (int i = 0; i < MUCH; i++)
		much[i] = (char)(i * 7 + i / 256);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
