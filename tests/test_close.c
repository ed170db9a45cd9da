/* SPDX-License-Identifier: MIT */
/*
 * test_close.c: while a native thread is in a system call with a descriptor, another one
 * closes it: the number is not free before that call is over. To be linked with --wrap for
 * read and close.
 */
#define _GNU_SOURCE
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "../net.h"
#include "../sync.h"

enum { ROUNDS = 5, PATIENCE = 20000000 };       /* ns that a call takes at least */

static atomic_int  watched = -1;
static atomic_bool inside, closing, closed;

ssize_t __real_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
	const struct timespec patience = { .tv_nsec = PATIENCE };
	ssize_t n;

	if (fd != watched)
		return __real_read(fd, buffer, size);
	inside = true;
	while (!closing)
		sched_yield();
	nanosleep(&patience, NULL);
	n = __real_read(fd, buffer, size);
	inside = false;
	return n;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	if (fd == watched) {
		TEST_TRUE(!inside);
		closed = true;
	}
	return __real_close(fd);
}

/* What there is in the pipe is its, or that it was closed. */
static void *read_byte(void *has_byte)
{
	char byte = 0;
	ssize_t n = unet_read(watched, &byte, 1, USYNC_NEVER);

	TEST_EQUAL(n, has_byte ? 1 : -EBADF);
	TEST_EQUAL(byte, has_byte ? 'a' : 0);
	return NULL;
}

static void close_inside(bool has_byte)
{
	pthread_t reader;
	int fd[2];

	inside = closing = closed = false;
	assert_int_equal(pipe(fd), 0);
	if (has_byte)
		assert_int_equal(write(fd[1], "a", 1), 1);
	watched = fd[0];
	assert_int_equal(pthread_create(&reader, NULL, read_byte, has_byte ? fd : NULL), 0);
	while (!inside)
		sched_yield();
	closing = true;
	assert_int_equal(unet_close(fd[0]), 0);
	assert_true(closed);
	assert_int_equal(pthread_join(reader, NULL), 0);
	watched = -1;
	assert_int_equal(unet_close(fd[1]), 0);
}

static void close_waits_for_who_is_inside(void **state)
{
	(void)state;
	test_timeout(20);
	for (int i = 0; i < ROUNDS; i++) {
		close_inside(true);
		close_inside(false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close_waits_for_who_is_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
