/* SPDX-License-Identifier: MIT */
/*
 * net.h: what the tests of unet.h and uoffload.h share: threads of the scheduler under
 * test, configurations, sockets. A test's function runs as a thread. Its peers use plain
 * system calls.
 */
#ifndef USCHED_TEST_NET_H
#define USCHED_TEST_NET_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../uevents.h"
#include "../../unet.h"
#include "../../usync.h"
#include "message.h"
#include "over.h"

#define NEVER    USCHED_NEVER
#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MILLI = 1000000 };               /* ns */

/* ---- Threads ---- */

extern void *scheduler;                 /* of the running test */

struct ustack *go(void (*func)(void *), void *arg);
void join(struct ustack *u);

/* Likewise a native thread. */
pthread_t go_native(void (*func)(void *), void *arg);
void join_native(pthread_t native);
void in_native(void (*func)(void *), void *arg);

/* Lets other threads run, on this processor and elsewhere. */
void pause_thread(void);

/* A thread sleeps for a millisecond, `n' times; a native thread sleeps for `ms'. */
void nap(size_t n);
void sleep_native(long ms);

/* How many threads on the processor of `u' wait for descriptors or timers. */
uint32_t waiting(const struct ustack *u);
void await_waiting(const struct ustack *u);

/* Makes each processor open its epoll now, not amid the test. */
void all_have_events(void);

/*
 * Cases, as of TEST(): func() runs as a thread, over each configuration; over `conf'; or
 * there, but not under stress, when threads run in any order; in a native thread.
 * NET_TEST(func) { ... } defines func() and its NET_CASE().
 */
#define NET_CASE(func)        CASE_BY(run_net_case, #func, func, NULL)
#define CONF_CASE(func, conf) CASE_BY(run_net_case, #func " " #conf, func, &conf)
#define CALM_CASE(func, conf) CASE_BY(run_calm_case, #func " " #conf, func, &conf)
#define NATIVE_CASE(func)     CASE_BY(run_native_case, #func, func, NULL)
#define CASE_BY(run, name, func, conf) TEST_BY(run, name, net_case, func, conf)
#define NET_TEST(func)      \
	static void func(void); \
	NET_CASE(func)          \
	static void func(void)

struct net_case {
	void                    (*c_func)(void);
	const struct uprocs_conf *c_conf;
};

void call_case(void *c_func);           /* calls *c_func */
void run_net_case(void **state);
void run_calm_case(void **state);
void run_native_case(void **state);
void each_conf(void (*func)(void));

void skip_because(const char *why);
extern const struct uprocs_conf one_processor, two_processors;

/* SIG_BLOCK or SIG_UNBLOCK: SIGTERM and SIGUSR1. Cases block them. */
void block_signals(int how);

/* ---- Addresses ---- */

struct unet_addr address(const char *text);
struct sockaddr *sockaddr_of(struct unet_addr *a);
struct unet_addr bound(int fd);         /* what `fd' is bound to */
int port_of(const struct unet_addr *a);
bool has_ipv6(void);

/*
 * An address of this machine and, more or less, of this process: connections in TIME_WAIT
 * take no ports from the next test.
 */
const char *local(void);

/* ---- Descriptors, by plain system calls ---- */

int mini_listen(int backlog);
int mini_connect(struct unet_addr to);          /* may block */
void tcp_pair(int fds[2]);
void unix_pair(int fds[2]);
void pair_at(int fds[2], int number);           /* the first gets the free `number' */
int at_number(int fd, int number);              /* moves `fd' to the free `number' */

void put(int fd, const char *text);
void expect(int fd, const char *text);          /* reads `text', which is there */
void receive(int fd, const char *text);         /* waits for it, by unet.h */

void do_not_wait(int fd);
void fill(int fd);                              /* writes until there is no room */
void drain(int fd);                             /* reads until it is empty */
void small_buffers(int fd);
void be_abrupt(int fd);                         /* close will reset the connection */
void reset(int fd);

void made_right(int fd);                        /* as unet.h makes descriptors */
void close_both(const int fds[2]);

/* A thread reads from `fds[0]', static or on the heap, before another one writes. */
void wait_for_hello(int fds[2]);

/*
 * Echoes and closes. What the last read returned; with `rude' peers writes may fail, then
 * their error.
 */
ssize_t echo(int fd, bool rude);

/* Accepts until `listener' is closed; detached threads run func(fd, arg). */
struct ustack *go_acceptor(int listener, void (*func)(int fd, void *arg), void *arg);

/* ---- Files ---- */

extern char directory[64];              /* a temporary one, made and removed below */

void make_directory(void);
const char *path_of(const char *name);  /* in it, until the next call */
void remove_directory(void);

#endif /* USCHED_TEST_NET_H */
